//! Certificates that change while sessions live.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use client::Client;
use gates::clock;
use gates::pki::PkiStore;
use gates::pki::make::{Application, Made, renewed};
use opcua_types::MessageSecurityMode;
use token::SystemEntropy;
use tokio::time::timeout;
use ua_proto::channel::{ChannelEvent, ClientChannel, ClientChannelConfig};
use ua_proto::pki::{Certificate, TrustList, TrustSettings};
use ua_proto::server::Input;

use crate::common::{
    CLIENT, PATIENCE, POLICY, Party, SERVER, Setup, client, eventually, forgetful, id, listen, options, server, trust,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewed_server_certificate_leaves_sessions_alone_and_greets_the_next() {
    let setup = Setup::new(forgetful());
    let identity = Arc::clone(&setup.identity);
    let handle = setup.start(listen());
    let url = format!("opc.tcp://{}", handle.address());
    let old = Client::connect(options(&url)).await.unwrap();
    assert_eq!(old.endpoint().server_certificate.as_ref(), server().made.der);

    let same_key = renewed(&Application::local("server", SERVER), &server().made.key_der, gates::clock::now().unix);
    let made = &server().made;
    let next = [
        Party::of(Made { der: same_key.unwrap(), key_pem: made.key_pem.clone(), key_der: made.key_der.clone() }),
        Party::new("server", SERVER),
    ];
    let both = trust(&[&server().identity, &next[0].identity, &next[1].identity]);
    let mut clients = vec![old];
    let behind = server().identity.certificate.clone();
    for successor in &next {
        let before = identity.load_full();
        identity.store(Arc::new((*successor.identity).clone().succeeding(&before)));
        handle.with(|server, now| server.handle_input(Input::IdentityChanged, now)).await.unwrap();
        for client in &clients {
            assert!(client.read(&[id("Level")]).await.unwrap()[0].status().is_good(), "sessions do not notice");
            assert_eq!(client.session_count(), 1);
        }
        let mut options = options(&url);
        options.trust = Some(Arc::clone(&both));
        let fresh = Client::connect(options).await.unwrap();
        assert_eq!(fresh.endpoint().server_certificate.as_ref(), successor.made.der, "the next see the new one");
        assert!(fresh.read(&[id("Level")]).await.unwrap()[0].status().is_good());
        clients.push(fresh);
        let overlap = before.certificate.der() == behind.der();
        assert_eq!(opens(handle.address(), &behind).await, overlap, "one certificate back, and no further");
        assert!(opens(handle.address(), &successor.identity.certificate).await);
    }
    let last = identity.load_full();
    let end = last.previous.as_ref().unwrap().certificate.not_after();
    assert!(last.without_ended(end).is_none(), "good to its last second");
    identity.store(Arc::new(last.without_ended(end + Duration::from_secs(1)).unwrap()));
    assert!(!opens(handle.address(), &next[0].identity.certificate).await, "the overlap is over");
    let behind = Client::connect(options(&url)).await;
    assert!(behind.is_err(), "who trusts the first certificate alone does not take another for it");
    for client in clients {
        client.close().await;
    }
    handle.stop().await;
}

/// Whether a client that holds this certificate of the server, and does not ask for the present one, gets a channel.
async fn opens(address: SocketAddr, certificate: &Arc<Certificate>) -> bool {
    let config = ClientChannelConfig {
        policy: POLICY,
        mode: MessageSecurityMode::SignAndEncrypt,
        identity: Some(Arc::clone(&client().identity)),
        server_certificate: Some(Arc::clone(certificate)),
        trust: Some(Arc::new(ArcSwap::from_pointee(TrustList {
            trusted: vec![Arc::clone(certificate)],
            ..TrustList::default()
        }))),
        ..ClientChannelConfig::unprotected(format!("opc.tcp://{address}"))
    };
    let opened = tokio::task::spawn_blocking(move || open(&mut TcpStream::connect(address).unwrap(), config));
    timeout(PATIENCE, opened).await.unwrap().unwrap()
}

fn open(stream: &mut TcpStream, config: ClientChannelConfig) -> bool {
    let (mut entropy, mut buffer) = (SystemEntropy::new(), [0; 16 * 1024]);
    let mut channel = ClientChannel::new(Arc::new(config), clock::now()).unwrap();
    loop {
        while let Some(event) = channel.poll_event() {
            match event {
                ChannelEvent::Job(job) => {
                    let (id, outcome) = job.run();
                    channel.job_done(id, outcome, clock::now(), &mut entropy);
                }
                ChannelEvent::Opened => return true,
                ChannelEvent::Closed { .. } => return false,
                _ => {}
            }
        }
        stream.write_all(&std::mem::take(channel.outgoing())).unwrap();
        match stream.read(&mut buffer).unwrap() {
            0 => return false,
            count => channel.receive(&buffer[..count], clock::now(), &mut entropy),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_removed_from_the_folder_loses_its_channel_and_stays_out() {
    let folder = tempfile::tempdir().unwrap();
    let pki = PkiStore::new(folder.path(), TrustSettings::default());
    pki.create().unwrap();
    let other = Party::new("other", CLIENT);
    let place = |name: &str| folder.path().join("trusted/certs").join(name);
    std::fs::write(place("client.der"), &client().made.der).unwrap();
    std::fs::write(place("other.der"), &other.made.der).unwrap();
    let mut setup = Setup::new(forgetful());
    setup.trust = Arc::new(ArcSwap::from_pointee(pki.load().unwrap()));
    let (live, trust) = (Arc::clone(&setup.trust), Arc::clone(&setup.trust));
    let handle = setup.start(listen());
    let watched = handle.clone();
    let broken = Arc::new(AtomicU32::new(0));
    let refused = Arc::clone(&broken);
    let watching = tokio::spawn(gates::pki::watch(pki, Duration::from_millis(100), move |list| {
        let Ok(list) = list else {
            refused.fetch_add(1, Ordering::Relaxed);
            return;
        };
        trust.store(Arc::new(list));
        let server = watched.clone();
        tokio::spawn(async move { server.with(|server, now| server.handle_input(Input::TrustChanged, now)).await });
    }));
    let url = format!("opc.tcp://{}", handle.address());
    let mut its_options = options(&url);
    its_options.identity = Some(Arc::clone(&other.identity));
    let removed = Client::connect(its_options.clone()).await.unwrap();
    let stays = Client::connect(options(&url)).await.unwrap();
    std::fs::write(place("broken.der"), b"no certificate").unwrap();
    eventually("it sees what is broken", async || broken.load(Ordering::Relaxed) > 0).await;
    assert_eq!(live.load().trusted.len(), 2, "a broken folder changes nothing");
    std::fs::remove_file(place("broken.der")).unwrap();
    std::fs::remove_file(place("other.der")).unwrap();
    eventually("the channel of the removed certificate is closed", async || !removed.is_active()).await;
    eventually("and its session is gone", async || handle.with(|server, _| server.load().1).await.unwrap() == 1).await;
    let again = timeout(PATIENCE, Client::connect(its_options)).await.unwrap();
    assert!(again.is_err(), "it does not come back");
    assert!(stays.read(&[id("Level")]).await.unwrap()[0].status().is_good(), "others notice nothing");
    assert_eq!(stays.session_count(), 1);
    watching.abort();
    handle.stop().await;
}

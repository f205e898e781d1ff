//! TLS 1.3 handshakes between the client of our gates and the server of our authority, in memory, and what each end computes.

use std::sync::Arc;
use std::time::Duration;

use authority::server_config;
use gates::https::client_config;
use rustls::client::Resumption;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, ConnectionCommon, ServerConfig, ServerConnection};

use super::{Bed, Entry, Timings};
use crate::Failed;
use crate::clock::{Stopwatch, Whose, looking};

pub(super) fn entries() -> Vec<Entry> {
    let mut entries = Vec::new();
    for key in ["rsa-2048", "p256"] {
        let shown = if key == "p256" { "ecdsa-p256" } else { key };
        for (resumed, kind) in [(false, "full"), (true, "resumed")] {
            for (server, end) in [(true, "server"), (false, "client")] {
                let name = format!("tls13-{kind}-{shown}-{end}");
                entries.push(Entry::with("handshake", name, 0, move |bed, time| {
                    handshakes(&configs(bed, key, resumed)?, server, time)
                }));
            }
        }
    }
    entries
}

type Configs = (Arc<ClientConfig>, Arc<ServerConfig>);

fn configs(bed: &Bed, key: &str, resumed: bool) -> Result<Configs, Failed> {
    let certificate = bed.read(&format!("{key}.der"))?;
    let private = bed.read(&format!("{key}.key.der"))?;
    let mut client = ClientConfig::clone(&*client_config([certificate.clone()], None)?);
    client.resumption = if resumed { Resumption::in_memory_sessions(16) } else { Resumption::disabled() };
    let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(private));
    Ok((Arc::new(client), server_config(vec![CertificateDer::from(certificate)], private)?))
}

/// One handshake after the other; the times of one end are kept.
fn handshakes(configs: &Configs, server: bool, time: Duration) -> Result<Timings, Failed> {
    let watch = Stopwatch::start();
    let mut timings = Timings::of(1);
    // The first has nothing to resume, the next are warm.
    for _ in 0..3 {
        handshake(configs)?;
    }
    while timings.cpu.len() < 3 || watch.seconds() < time.as_secs_f64() {
        let (at_client, at_server) = handshake(configs)?;
        let (cpu, wall) = if server { at_server } else { at_client };
        timings.push(cpu, wall);
    }
    Ok(timings)
}

/// Processor time and time on the clock.
type Times = (f64, f64);

/// What the client and the server took.
fn handshake((client, server): &Configs) -> Result<(Times, Times), Failed> {
    let (mut at_client, mut at_server) = ((0.0, 0.0), (0.0, 0.0));
    let name = ServerName::try_from("localhost")?;
    let mut client = lap(&mut at_client, || ClientConnection::new(Arc::clone(client), name.clone()))?;
    let mut server = lap(&mut at_server, || ServerConnection::new(Arc::clone(server)))?;
    let (mut up, mut down) = (Vec::new(), Vec::new());
    for _ in 0..10 {
        lap(&mut at_client, || carry(&mut client, &down, &mut up))?;
        down.clear();
        lap(&mut at_server, || carry(&mut server, &up, &mut down))?;
        up.clear();
        if !client.is_handshaking() && !server.is_handshaking() && down.is_empty() {
            return Ok((at_client, at_server));
        }
    }
    Err("the handshake does not end".into())
}

/// Takes what came in and gives what goes out.
fn carry<D>(end: &mut ConnectionCommon<D>, mut from: &[u8], to: &mut Vec<u8>) -> Result<(), Failed> {
    while !from.is_empty() {
        end.read_tls(&mut from)?;
        end.process_new_packets()?;
    }
    while end.wants_write() {
        end.write_tls(to)?;
    }
    Ok(())
}

/// Adds what work takes, without the looks at the clocks.
fn lap<T, E: Into<Failed>>(sum: &mut Times, work: impl FnOnce() -> Result<T, E>) -> Result<T, Failed> {
    let (cpu, wall) = (Whose::Thread.cpu(), Stopwatch::start());
    let done = work().map_err(Into::into)?;
    sum.1 += wall.net();
    sum.0 += (Whose::Thread.cpu() - cpu - Whose::Thread.looking() - 2.0 * looking()).max(0.0);
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_handshake_resumes_the_first_where_that_is_meant() {
        let bed = Bed::make().unwrap();
        for resumed in [false, true] {
            let (client, server) = configs(&bed, "p256", resumed).unwrap();
            let kinds = [(); 2].map(|()| {
                let mut at =
                    ClientConnection::new(Arc::clone(&client), ServerName::try_from("localhost").unwrap()).unwrap();
                let mut other = ServerConnection::new(Arc::clone(&server)).unwrap();
                let (mut up, mut down) = (Vec::new(), Vec::new());
                for _ in 0..10 {
                    carry(&mut at, &down, &mut up).unwrap();
                    down.clear();
                    carry(&mut other, &up, &mut down).unwrap();
                    up.clear();
                }
                at.handshake_kind().unwrap()
            });
            assert_eq!(kinds[0], rustls::HandshakeKind::Full);
            assert_eq!(kinds[1] == rustls::HandshakeKind::Resumed, resumed);
        }
    }
}

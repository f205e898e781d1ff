//! A relay between a client and a server on real sockets: a network whose connections a test can cut.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests block a thread of their own for each way of a connection"
)]

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

/// Hands on what comes, both ways, until the connections are cut; takes new ones afterwards.
pub struct Relay {
    url: String,
    /// Both ends of each connection, while it lasts.
    ends: Arc<Mutex<Vec<Weak<TcpStream>>>>,
    gone: Arc<AtomicBool>,
    mute: Arc<AtomicBool>,
    /// Milliseconds by which what servers send is late.
    late: Arc<AtomicU64>,
    /// Milliseconds by which the first words of a client are late.
    first: Arc<AtomicU64>,
}

impl Relay {
    /// In front of the server at `to`, `opc.tcp://HOST:PORT`.
    ///
    /// # Panics
    /// Loopback has no free port.
    #[must_use]
    pub fn start(to: &str) -> Self {
        let to = to.trim_start_matches("opc.tcp://").to_owned();
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback has a free port");
        let port = listener.local_addr().expect("a bound socket has an address").port();
        let ends: Arc<Mutex<Vec<Weak<TcpStream>>>> = Arc::default();
        let kept = Arc::clone(&ends);
        let gone = Arc::new(AtomicBool::new(false));
        let closed = Arc::clone(&gone);
        let mute = Arc::new(AtomicBool::new(false));
        let (muted, never) = (Arc::clone(&mute), Arc::default());
        let late = Arc::new(AtomicU64::new(0));
        let first = Arc::new(AtomicU64::new(0));
        let (delayed, looked_at) = (Arc::clone(&late), Arc::clone(&first));
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let Ok(far) = TcpStream::connect(&to) else { continue };
                let (near, far) = (Arc::new(near), Arc::new(far));
                let mut kept = kept.lock().expect("nobody panics with the lock");
                if closed.load(Ordering::Acquire) {
                    continue;
                }
                // Tests make thousands of connections, of which few are there at a time.
                kept.retain(|end| end.strong_count() > 0);
                kept.extend([Arc::downgrade(&near), Arc::downgrade(&far)]);
                drop(kept);
                hand_on(&near, &far, &never, &looked_at, 1);
                hand_on(&far, &near, &muted, &delayed, usize::MAX);
            }
        });
        Self { url: format!("opc.tcp://127.0.0.1:{port}"), ends, gone, mute, late, first }
    }

    /// Where clients connect to.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What servers send is lost from now on, until the connections are cut.
    pub fn lose_answers(&self) {
        self.mute.store(true, Ordering::Release);
    }

    /// What servers send comes so much later from now on.
    pub fn delay(&self, time: Duration) {
        self.late.store(u64::try_from(time.as_millis()).unwrap_or(u64::MAX), Ordering::Release);
    }

    /// The first that each new client sends comes so much later from now on, as behind a firewall that looks at who begins to talk.
    pub fn delay_first(&self, time: Duration) {
        self.first.store(u64::try_from(time.as_millis()).unwrap_or(u64::MAX), Ordering::Release);
    }

    /// Ends every connection under way, and each new one as it comes: what is behind cannot be reached any more.
    ///
    /// # Panics
    /// A thread of the relay has panicked.
    pub fn close(&self) {
        let ends = self.ends.lock().expect("nobody panics with the lock");
        self.gone.store(true, Ordering::Release);
        drop(ends);
        let _connections = self.cut();
    }

    /// Ends every connection under way without a word of OPC UA; says how many there were.
    ///
    /// # Panics
    /// A thread of the relay has panicked.
    #[must_use]
    pub fn cut(&self) -> usize {
        let ends = std::mem::take(&mut *self.ends.lock().expect("nobody panics with the lock"));
        let cut = ends.iter().filter_map(Weak::upgrade).filter(|end| match end.shutdown(Shutdown::Both) {
            Ok(()) => true,
            Err(error) => error.kind() != ErrorKind::NotConnected,
        });
        // The second end of a connection may have heard of the first by the time it is its turn.
        let cut = cut.count().div_ceil(2);
        self.mute.store(false, Ordering::Release);
        cut
    }
}

/// So many of the first reads may be late.
fn hand_on(
    from: &Arc<TcpStream>,
    to: &Arc<TcpStream>,
    lost: &Arc<AtomicBool>,
    late: &Arc<AtomicU64>,
    mut reads: usize,
) {
    let (from, to) = (Arc::clone(from), Arc::clone(to));
    let (lost, late) = (Arc::clone(lost), Arc::clone(late));
    std::thread::spawn(move || {
        let mut bytes = [0; 16_384];
        while let Ok(count @ 1..) = (&*from).read(&mut bytes) {
            let wait = late.load(Ordering::Acquire);
            if wait > 0 && reads > 0 {
                std::thread::sleep(Duration::from_millis(wait));
            }
            reads = reads.saturating_sub(1);
            let sent = lost.load(Ordering::Acquire) || (&*to).write_all(&bytes[..count]).is_ok();
            if !sent {
                break;
            }
        }
        let _ended_already = to.shutdown(Shutdown::Write);
    });
}

//! Ports of the loopback for programs that are told where to listen, and for servers that come back at their old address.
//!
//! For `:0` and for outgoing connections the system takes ports from one range, on Linux from 32768 on. A port of that range
//! which a test frees for somebody else may be taken before they come. These lie below it, each is given once by a process,
//! and processes begin at different ones.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

const FIRST: u32 = 10_000;
const COUNT: u32 = 22_000;

/// Numbers handed out so far by this process.
static GIVEN: AtomicU32 = AtomicU32::new(0);

/// A listener on a port of the loopback that nobody takes while it is closed for a moment.
///
/// # Panics
/// All are taken.
#[must_use]
pub fn listen() -> TcpListener {
    // Processes that were started one after the other are far apart.
    let begin = std::process::id().wrapping_mul(997);
    for _ in 0..COUNT {
        let nth = begin.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed)) % COUNT;
        let port = u16::try_from(FIRST + nth).unwrap_or(u16::MAX);
        if let Ok(listener) = TcpListener::bind(("127.0.0.1", port)) {
            return listener;
        }
    }
    panic!("no port of the loopback is free")
}

/// A port of the loopback where nobody listens, for a program to listen on.
///
/// # Panics
/// All are taken.
#[must_use]
pub fn free() -> u16 {
    listen().local_addr().map_or(0, |address| address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_given_twice_nor_one_that_the_system_may_give() {
        let ports: std::collections::BTreeSet<u16> = (0..200).map(|_| free()).collect();
        assert_eq!(ports.len(), 200);
        assert!(ports.iter().all(|port| (10_000..32_000).contains(port)));
        let kept = listen();
        assert!(kept.local_addr().is_ok_and(|address| !ports.contains(&address.port())));
    }
}

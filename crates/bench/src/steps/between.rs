//! What lies between two uses of a step that is a part of a message: the step finds caches and branch predictors as that leaves them.

use std::net::UdpSocket;
use std::time::Duration;

use cost::whatif::READ;

use super::timing::{APART, OTHER};
use super::used;
use crate::gd::disturb::Disturb;
use crate::{Failed, place};

/// Who is asked is given up after so long, and who asks no more: a crowded machine stands still for a second at times.
const LOST: Duration = Duration::from_secs(5);
const GONE: Duration = Duration::from_secs(60);

/// Other work, and the kernel's way through its network, which leaves little of the first caches.
pub(super) struct Between {
    disturb: Disturb,
    socket: UdpSocket,
}

impl Between {
    /// For a thread that has the next message already.
    pub(super) fn awake() -> Result<Self, Failed> {
        let socket = UdpSocket::bind(("127.0.0.1", 0))?;
        socket.connect(socket.local_addr()?)?;
        Self::over(socket)
    }

    /// For a thread that sleeps until the other end, on another processor where there is one, has done its part. The calling thread keeps
    /// to its processor from now on.
    pub(super) fn asleep() -> Result<Self, Failed> {
        let (socket, other) = (UdpSocket::bind(("127.0.0.1", 0))?, UdpSocket::bind(("127.0.0.1", 0))?);
        socket.connect(other.local_addr()?)?;
        other.connect(socket.local_addr()?)?;
        // It ends when nobody asks any more.
        other.set_read_timeout(Some(GONE))?;
        let processors = place::pair();
        let answer = move || {
            let (mut disturb, mut datagram) = (Disturb::small(), [0; READ.0 as usize]);
            // On whichever processor, if it may not have this one.
            let _kept = processors.map(|it| place::keep_to(it.0));
            while let Ok(count) = other.recv(&mut datagram) {
                disturb.run(APART);
                if other.send(&datagram[..count]).is_err() {
                    return;
                }
            }
        };
        processors.map_or(Ok(()), |it| place::keep_to(it.1))?;
        std::thread::Builder::new().name("other end".into()).spawn(answer)?;
        Self::over(socket)
    }

    fn over(socket: UdpSocket) -> Result<Self, Failed> {
        // A lost datagram is not waited for.
        socket.set_read_timeout(Some(LOST))?;
        Ok(Self { disturb: Disturb::small(), socket })
    }

    /// What lies between this use and the next.
    pub(super) fn pass(&mut self) -> Result<(), Failed> {
        let mut datagram = [7; READ.0 as usize];
        self.disturb.run(OTHER);
        self.socket.send(&datagram)?;
        used(self.socket.recv(&mut datagram)?);
        Ok(())
    }
}

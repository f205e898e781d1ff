//! Somebody on the other processor for whom one end waits: a step that is timed after a sleep is timed after one that another processor ends,
//! as in the scenario. A timer would let the end sleep for as long as the kernel likes.
#![expect(clippy::disallowed_types, reason = "both sides block: each has one thread and nothing else to do")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use super::disturb::Disturb;
use super::store::Ready;
use crate::Failed;

/// Who is woken.
#[derive(Debug)]
pub struct Sleeper(TcpStream);

impl Sleeper {
    /// Of the waker that listens there.
    ///
    /// # Errors
    /// Nobody listens there.
    pub fn of(waker: SocketAddr) -> Result<Self, Failed> {
        let stream = TcpStream::connect(waker)?;
        stream.set_nodelay(true)?;
        Ok(Self(stream))
    }

    /// Sleeps until the waker has worked for so many seconds.
    ///
    /// # Errors
    /// The waker has gone.
    pub fn sleep(&mut self, seconds: f64) -> Result<(), Failed> {
        self.0.write_all(&seconds.to_le_bytes())?;
        Ok(self.0.read_exact(&mut [0])?)
    }
}

/// Wakes sleepers, one after the other, as often as each of them asks, until it is ended by who started it.
///
/// # Errors
/// The system gives no connection, or somebody leaves before an answer.
pub fn serve() -> Result<(), Failed> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", serde_json::to_string(&Ready { port: listener.local_addr()?.port() })?);
    std::io::stdout().flush()?;
    let mut disturb = Disturb::small();
    loop {
        let mut stream = listener.accept()?.0;
        stream.set_nodelay(true)?;
        let mut asked = [0; 8];
        while let Ok(()) = stream.read_exact(&mut asked) {
            disturb.run(f64::from_le_bytes(asked).clamp(0.0, 1.0));
            stream.write_all(&[1])?;
        }
    }
}

//! Somebody on the other processor from whom one end has messages: a step that is timed after a sleep is timed after one that another processor
//! ends, as in the scenario. A timer would let the end sleep for as long as the kernel likes. One that is timed after other work finds the
//! kernel's memory for messages as it is where those of another processor come in between.
#![expect(clippy::disallowed_types, reason = "both sides block: each has one thread and nothing else to do")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use super::disturb::Disturb;
use super::store::Ready;
use crate::Failed;

/// The largest answer, bytes.
const MOST: usize = 1 << 20;

/// Who has the messages.
#[derive(Debug)]
pub struct Hearer {
    stream: TcpStream,
    answer: Vec<u8>,
    /// Whether one was asked for that has not been read.
    asked: bool,
}

impl Hearer {
    /// Of the waker that listens there, with so many bytes in each message.
    ///
    /// # Errors
    /// Nobody listens there, or a message cannot be so long.
    pub fn of(waker: SocketAddr, bytes: u64) -> Result<Self, Failed> {
        let bytes = usize::try_from(bytes)?.max(1);
        if bytes > MOST {
            return Err(format!("a message of {bytes} bytes; {MOST} are the most").into());
        }
        let stream = TcpStream::connect(waker)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, answer: vec![0; bytes], asked: false })
    }

    /// Sleeps until the waker has worked for so many seconds.
    ///
    /// # Errors
    /// The waker has gone.
    pub fn sleep(&mut self, seconds: f64) -> Result<(), Failed> {
        self.ask(seconds)?;
        self.read()
    }

    /// Reads the message that it asked for the last time, which is there by now as a rule, and asks for another.
    ///
    /// # Errors
    /// The waker has gone.
    pub fn hear(&mut self) -> Result<(), Failed> {
        if self.asked {
            self.read()?;
        }
        self.ask(0.0)
    }

    fn ask(&mut self, seconds: f64) -> Result<(), Failed> {
        let bytes = u32::try_from(self.answer.len())?;
        let mut request = [0; REQUEST];
        request[..8].copy_from_slice(&seconds.to_le_bytes());
        request[8..].copy_from_slice(&bytes.to_le_bytes());
        self.stream.write_all(&request)?;
        self.asked = true;
        Ok(())
    }

    fn read(&mut self) -> Result<(), Failed> {
        self.stream.read_exact(&mut self.answer)?;
        self.asked = false;
        Ok(())
    }
}

/// Seconds, and the bytes of the answer.
const REQUEST: usize = 8 + 4;

/// Answers hearers, one after the other, as often as each of them asks, until it is ended by who started it.
///
/// # Errors
/// The system gives no connection, or somebody asks for too long an answer.
pub fn serve() -> Result<(), Failed> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", serde_json::to_string(&Ready { port: listener.local_addr()?.port(), backend: None })?);
    std::io::stdout().flush()?;
    let (mut disturb, mut answer) = (Disturb::small(), Vec::new());
    loop {
        let mut stream = listener.accept()?.0;
        stream.set_nodelay(true)?;
        let mut asked = [0; REQUEST];
        while let Ok(()) = stream.read_exact(&mut asked) {
            let (mut seconds, mut bytes) = ([0; 8], [0; 4]);
            seconds.copy_from_slice(&asked[..8]);
            bytes.copy_from_slice(&asked[8..]);
            let bytes = usize::try_from(u32::from_le_bytes(bytes))?;
            if bytes > MOST {
                return Err(format!("an answer of {bytes} bytes; {MOST} are the most").into());
            }
            let seconds = f64::from_le_bytes(seconds).clamp(0.0, 1.0);
            if seconds > 0.0 {
                disturb.run(seconds);
            }
            answer.resize(bytes, 1);
            // Who was timed leaves without its last answer.
            if stream.write_all(&answer).is_err() {
                break;
            }
        }
    }
}

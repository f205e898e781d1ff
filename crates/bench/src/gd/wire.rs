//! Messages between the organisation and the store, over TCP: length, kind, body. Each side sends one and waits for the answer.
#![expect(clippy::disallowed_types, reason = "the two programs block: each has one thread and nothing else to do")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use crate::Failed;

/// Bytes in front of a body.
const HEAD: usize = 5;
/// The longest body.
const MOST: usize = 1 << 20;
/// A side that hears nothing for so long gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum What {
    /// A tag in clear, with its signature behind it where there is one.
    Tag = 1,
    /// The same, encrypted.
    Sealed = 2,
    /// The same, encrypted by a new key; the nonce that ends the exchange in front.
    First = 3,
    /// The first message of an exchange.
    Begin = 4,
    /// The second.
    Answer = 5,
    /// The tag is stored.
    Stored = 6,
    /// Asks for the accounts of the store, and the answer to that.
    Accounts = 7,
    /// This client has nothing to say in this turn, and waits for nothing.
    Pass = 8,
}

impl What {
    fn of(byte: u8) -> Option<Self> {
        [Self::Tag, Self::Sealed, Self::First, Self::Begin, Self::Answer, Self::Stored, Self::Accounts, Self::Pass]
            .into_iter()
            .find(|what| *what as u8 == byte)
    }
}

/// One end of a connection.
#[derive(Debug)]
pub struct Line {
    stream: TcpStream,
    out: Vec<u8>,
    into: Vec<u8>,
    /// Bytes of `into` that were received, and how many of them were a message before.
    filled: usize,
    used: usize,
}

impl Line {
    /// Connects.
    ///
    /// # Errors
    /// Nobody listens there.
    pub fn connect(to: SocketAddr) -> Result<Self, Failed> {
        Self::over(TcpStream::connect(to)?)
    }

    /// Waits for the next who connects.
    ///
    /// # Errors
    /// The system gives none.
    pub fn accept(listener: &TcpListener) -> Result<Self, Failed> {
        Self::over(listener.accept()?.0)
    }

    fn over(stream: TcpStream) -> Result<Self, Failed> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream, out: Vec::with_capacity(8192), into: vec![0; 8192], filled: 0, used: 0 })
    }

    /// Sends a message of these parts.
    ///
    /// # Errors
    /// The other side is gone.
    pub fn send(&mut self, what: What, parts: &[&[u8]]) -> Result<(), Failed> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        self.out.clear();
        self.out.extend_from_slice(&u32::try_from(length)?.to_le_bytes());
        self.out.push(what as u8);
        for part in parts {
            self.out.extend_from_slice(part);
        }
        Ok(self.stream.write_all(&self.out)?)
    }

    /// Waits for the next message; nothing where the other side has gone in order.
    ///
    /// # Errors
    /// What comes is no message, or nothing comes for a minute.
    pub fn receive(&mut self) -> Result<Option<(What, &mut [u8])>, Failed> {
        // Behind a message that wants no answer the next may be there already.
        self.into.copy_within(self.used..self.filled, 0);
        self.filled -= self.used;
        self.used = 0;
        let mut wanted = HEAD;
        loop {
            if let (true, Some(head)) = (self.filled >= HEAD && wanted == HEAD, self.into.first_chunk::<4>()) {
                let length = usize::try_from(u32::from_le_bytes(*head))?;
                if length > MOST {
                    return Err(format!("a message of {length} bytes").into());
                }
                wanted = HEAD + length;
                if self.into.len() < wanted {
                    self.into.resize(wanted, 0);
                }
            }
            if self.filled >= wanted {
                break;
            }
            let got = self.stream.read(self.into.get_mut(self.filled..).unwrap_or_default())?;
            if got == 0 {
                return if self.filled == 0 { Ok(None) } else { Err("the other side left within a message".into()) };
            }
            self.filled += got;
        }
        self.used = wanted;
        let what = self.into.get(HEAD - 1).copied().and_then(What::of).ok_or("a message of no known kind")?;
        Ok(Some((what, self.into.get_mut(HEAD..wanted).unwrap_or_default())))
    }

    /// As [`Self::receive`], where a message of this kind must come.
    ///
    /// # Errors
    /// Another one comes, or none.
    pub fn expect(&mut self, wanted: What) -> Result<&mut [u8], Failed> {
        match self.receive()? {
            Some((what, body)) if what == wanted => Ok(body),
            Some((what, _)) => Err(format!("{what:?} came instead of {wanted:?}").into()),
            None => Err(format!("the other side left before {wanted:?}").into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_whole_in_any_pieces_and_nonsense_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut raw = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut line = Line::accept(&listener).unwrap();
        raw.write_all(&[3, 0]).unwrap();
        raw.write_all(&[0, 0, 6, 1, 2]).unwrap();
        raw.write_all(&[3]).unwrap();
        let (what, body) = line.receive().unwrap().unwrap();
        assert_eq!((what, &*body), (What::Stored, &[1, 2, 3][..]));
        raw.write_all(&[0, 0, 0, 0, 8, 1, 0, 0, 0, 1, 7]).unwrap();
        assert_eq!(line.receive().unwrap().unwrap().0, What::Pass);
        let (what, body) = line.receive().unwrap().unwrap();
        assert_eq!((what, &*body), (What::Tag, &[7][..]), "two at once");
        raw.write_all(&[0, 0, 0, 0, 99]).unwrap();
        assert!(line.receive().is_err(), "an unknown kind");
        raw.write_all(&[0, 0, 0, 0xff, 1]).unwrap();
        assert!(line.receive().is_err(), "a length above all bounds");
        let raw = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut line = Line::accept(&listener).unwrap();
        drop(raw);
        assert!(line.receive().unwrap().is_none(), "the other side is gone");
    }
}

//! Where servers call back (OPC 10000-6 §7.1.3): connections that peers have made, until a ReverseHello said who calls and
//! somebody wants to speak to that server.
//!
//! A ReverseHello proves nothing, and everybody can read or guess what it says. It only chooses, among the servers that
//! are expected here, the one that this connection is tried for; its strings must equal what was configured, letter by
//! letter, and nothing is ever dialled because of them. Who is there is proven by the secure channel afterwards.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use access_model::{Mono, Now};
use opcua_types::StatusCode;

use crate::wire::{
    ErrorMessage, MAX_REVERSE_HELLO, MESSAGE_HEADER, MessageHeader, MessageKind, Misbehavior, ReverseHello,
};

/// A server that may call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Its ApplicationUri.
    pub server_uri: String,
    /// Its endpoint.
    pub endpoint_url: String,
}

/// Names a connection; the shell chooses it and does not use it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Caller(pub u64);

/// The bounds of a reception.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceptionLimits {
    /// Most connections that have not said who calls; one more ends the oldest.
    pub max_unknown: usize,
    /// How long a connection may take to say so.
    pub hello_timeout: Duration,
    /// Most connections that wait for one expected server; one more ends the oldest.
    pub max_waiting: usize,
    /// Most of these from one address; one more ends the oldest of them.
    pub max_waiting_per_address: usize,
}

impl Default for ReceptionLimits {
    fn default() -> Self {
        Self { max_unknown: 16, hello_timeout: Duration::from_secs(10), max_waiting: 16, max_waiting_per_address: 4 }
    }
}

/// Something to do outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReceptionOutput {
    /// A connection waits for this expected server, counted from 0: [`Reception::take`] gives it.
    Waiting(usize),
    /// Write this, then close the connection; it is forgotten here.
    Close {
        /// Which.
        caller: Caller,
        /// Why; `None` when it is not its fault.
        fault: Option<Misbehavior>,
        /// The last bytes for it.
        rest: Vec<u8>,
    },
}

/// A connection that has not said who calls.
struct Unknown {
    caller: Caller,
    address: IpAddr,
    until: Mono,
    input: Vec<u8>,
}

/// The machine.
pub struct Reception {
    expected: Vec<Expected>,
    limits: ReceptionLimits,
    /// Oldest first.
    unknown: VecDeque<Unknown>,
    /// By the expected server; oldest first.
    waiting: BTreeMap<usize, VecDeque<(Caller, IpAddr)>>,
    outputs: VecDeque<ReceptionOutput>,
}

impl Reception {
    /// A reception for these servers.
    #[must_use]
    pub fn new(expected: Vec<Expected>, limits: ReceptionLimits) -> Self {
        Self { expected, limits, unknown: VecDeque::new(), waiting: BTreeMap::new(), outputs: VecDeque::new() }
    }

    /// A peer connected.
    pub fn accepted(&mut self, caller: Caller, address: IpAddr, now: Now) {
        while self.unknown.len() >= self.limits.max_unknown.max(1) {
            let Some(oldest) = self.unknown.pop_front() else { break };
            self.close(oldest.caller, StatusCode::BadTcpServerTooBusy, None);
        }
        let until = now.mono + self.limits.hello_timeout;
        self.unknown.push_back(Unknown { caller, address: address.to_canonical(), until, input: Vec::new() });
    }

    /// Bytes from a peer. A server says nothing after its ReverseHello before the client has said Hello.
    pub fn received(&mut self, caller: Caller, bytes: &[u8]) {
        let Some(place) = self.unknown.iter().position(|one| one.caller == caller) else {
            if self.forget(caller) {
                self.refuse(caller, Misbehavior::OutOfOrder);
            }
            return;
        };
        let Some(one) = self.unknown.get_mut(place) else { return };
        one.input.extend_from_slice(bytes.get(..bytes.len().min(MAX_REVERSE_HELLO + 1)).unwrap_or_default());
        let said = read(&one.input).and_then(|hello| match hello {
            None => Ok(None),
            Some(hello) => self.place_of(&hello).map(Some).ok_or(Misbehavior::UnknownCaller),
        });
        let found = match said {
            Ok(None) => return,
            Ok(Some(found)) => Ok(found),
            Err(fault) => Err(fault),
        };
        let Some(known) = self.unknown.remove(place) else { return };
        match found {
            Ok(server) => self.waits(server, known),
            Err(fault) => self.refuse(caller, fault),
        }
    }

    /// The peer is gone.
    pub fn lost(&mut self, caller: Caller) {
        self.unknown.retain(|one| one.caller != caller);
        self.forget(caller);
    }

    /// Takes the connection that waits longest for this expected server; from now on it is the caller's.
    pub fn take(&mut self, server: usize) -> Option<Caller> {
        self.waiting.get_mut(&server)?.pop_front().map(|(caller, _)| caller)
    }

    /// Ends what has said nothing in time.
    pub fn handle_timeout(&mut self, now: Now) {
        while self.unknown.front().is_some_and(|one| one.until <= now.mono) {
            if let Some(late) = self.unknown.pop_front() {
                self.close(late.caller, StatusCode::BadTimeout, None);
            }
        }
    }

    /// When `handle_timeout` must be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Mono> {
        self.unknown.front().map(|one| one.until)
    }

    /// The next thing to do outside.
    pub fn poll_output(&mut self) -> Option<ReceptionOutput> {
        self.outputs.pop_front()
    }

    /// How many connections have not said who calls, and how many wait.
    #[must_use]
    pub fn load(&self) -> (usize, usize) {
        (self.unknown.len(), self.waiting.values().map(VecDeque::len).sum())
    }

    fn place_of(&self, hello: &ReverseHello) -> Option<usize> {
        let same = |one: &Expected| one.server_uri == hello.server_uri && one.endpoint_url == hello.endpoint_url;
        self.expected.iter().position(same)
    }

    /// Whoever can make many connections drives out its own first.
    fn waits(&mut self, server: usize, one: Unknown) {
        let queue = self.waiting.entry(server).or_default();
        let mut gone = None;
        let same = |other: &&(Caller, IpAddr)| other.1 == one.address;
        if queue.iter().filter(same).count() >= self.limits.max_waiting_per_address.max(1) {
            let oldest = queue.iter().position(|other| other.1 == one.address);
            gone = oldest.and_then(|place| queue.remove(place));
        } else if queue.len() >= self.limits.max_waiting.max(1) {
            gone = queue.pop_front();
        }
        queue.push_back((one.caller, one.address));
        if let Some((older, _)) = gone {
            self.close(older, StatusCode::BadTcpServerTooBusy, None);
        }
        self.outputs.push_back(ReceptionOutput::Waiting(server));
    }

    fn forget(&mut self, caller: Caller) -> bool {
        let before = self.load().1;
        self.waiting.values_mut().for_each(|queue| queue.retain(|(one, _)| *one != caller));
        self.load().1 < before
    }

    fn refuse(&mut self, caller: Caller, fault: Misbehavior) {
        self.close(caller, fault.status(), Some(fault));
    }

    fn close(&mut self, caller: Caller, status: StatusCode, fault: Option<Misbehavior>) {
        let mut rest = Vec::new();
        ErrorMessage::put(status, "", &mut rest);
        self.outputs.push_back(ReceptionOutput::Close { caller, fault, rest });
    }
}

/// The ReverseHello that these bytes are; `None` while it is not complete.
fn read(bytes: &[u8]) -> Result<Option<ReverseHello>, Misbehavior> {
    let Some(header) = MessageHeader::parse(bytes)? else { return Ok(None) };
    if header.kind != MessageKind::ReverseHello {
        return Err(Misbehavior::OutOfOrder);
    }
    if header.size > MAX_REVERSE_HELLO {
        return Err(Misbehavior::UrlTooLong);
    }
    match bytes.get(..header.size) {
        None => Ok(None),
        Some(_) if bytes.len() > header.size => Err(Misbehavior::OutOfOrder),
        Some(whole) => ReverseHello::parse(whole.get(MESSAGE_HEADER..).unwrap_or_default()).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::noon;
    use crate::wire::{Hello, MAX_REVERSE_STRING};

    fn hello(uri: &str, url: &str) -> Vec<u8> {
        let mut out = Vec::new();
        ReverseHello { server_uri: uri.to_owned(), endpoint_url: url.to_owned() }.put(&mut out);
        out
    }

    fn reception(limits: ReceptionLimits) -> Reception {
        let of = |name: &str| Expected { server_uri: format!("urn:{name}"), endpoint_url: format!("opc.tcp://{name}") };
        Reception::new(vec![of("one"), of("two")], limits)
    }

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    /// The connections that were closed meanwhile, and why.
    fn closed(reception: &mut Reception) -> Vec<(u64, StatusCode)> {
        let mut all = Vec::new();
        while let Some(output) = reception.poll_output() {
            if let ReceptionOutput::Close { caller, rest, .. } = output {
                let error = ErrorMessage::parse(&rest[MESSAGE_HEADER..]).unwrap();
                all.push((caller.0, error.status));
            }
        }
        all
    }

    #[test]
    fn what_may_be_said_to_a_reception() {
        let long = "u".repeat(MAX_REVERSE_STRING + 1);
        let mut plain = Vec::new();
        Hello {
            protocol_version: 0,
            receive_buffer: 65_536,
            send_buffer: 65_536,
            max_message: 0,
            max_chunks: 0,
            endpoint_url: "opc.tcp://one".to_owned(),
        }
        .put(&mut plain);
        let huge = [b"RHEF".as_slice(), &u32::MAX.to_le_bytes()].concat();
        let invalid = StatusCode::BadTcpEndpointUrlInvalid;
        let wrong = StatusCode::BadTcpMessageTypeInvalid;
        for (rule, bytes, expected) in [
            ("an expected server waits", hello("urn:two", "opc.tcp://two"), Ok(Some(1))),
            ("half a message is waited for", hello("urn:two", "opc.tcp://two")[..20].to_vec(), Ok(None)),
            ("an unknown ServerUri", hello("urn:three", "opc.tcp://two"), Err(invalid)),
            ("another EndpointUrl", hello("urn:two", "opc.tcp://attacker"), Err(invalid)),
            ("the EndpointUrl of another expected server", hello("urn:two", "opc.tcp://one"), Err(invalid)),
            ("letters count", hello("urn:Two", "opc.tcp://two"), Err(invalid)),
            ("nobody", hello("", ""), Err(invalid)),
            ("a string that is too long", hello(&long, "opc.tcp://two"), Err(invalid)),
            ("a size that is too large", huge, Err(invalid)),
            ("something behind it", [hello("urn:two", "opc.tcp://two"), vec![0]].concat(), Err(wrong)),
            ("a Hello", plain, Err(wrong)),
            ("no OPC UA", b"GET / HTTP/1.1".to_vec(), Err(wrong)),
        ] {
            for step in [1, bytes.len()] {
                let mut reception = reception(ReceptionLimits::default());
                reception.accepted(Caller(7), address(1), noon());
                bytes.chunks(step).for_each(|part| reception.received(Caller(7), part));
                let waiting =
                    (0..2).find(|server| reception.waiting.get(server).is_some_and(|queue| !queue.is_empty()));
                let seen = closed(&mut reception).first().map_or(Ok(waiting), |(_, status)| Err(*status));
                assert_eq!(seen, expected, "{rule}, {step} bytes at a time");
                let load = if expected == Ok(None) { (1, 0) } else { (0, usize::from(expected.is_ok())) };
                assert_eq!(reception.load(), load, "{rule}");
            }
        }
    }

    #[test]
    fn a_connection_is_given_once_the_longest_waiting_first() {
        let mut reception = reception(ReceptionLimits::default());
        for caller in [1, 2] {
            reception.accepted(Caller(caller), address(1), noon());
            reception.received(Caller(caller), &hello("urn:one", "opc.tcp://one"));
        }
        assert_eq!(reception.poll_output(), Some(ReceptionOutput::Waiting(0)));
        assert_eq!(reception.take(1), None);
        assert_eq!([reception.take(0), reception.take(0), reception.take(0)], [Some(Caller(1)), Some(Caller(2)), None]);
    }

    #[test]
    fn a_server_that_waits_says_nothing() {
        let mut reception = reception(ReceptionLimits::default());
        reception.accepted(Caller(1), address(1), noon());
        reception.received(Caller(1), &hello("urn:one", "opc.tcp://one"));
        reception.received(Caller(1), b"x");
        assert_eq!(closed(&mut reception), [(1, StatusCode::BadTcpMessageTypeInvalid)]);
        assert_eq!(reception.take(0), None);
    }

    #[test]
    fn who_is_gone_waits_no_more() {
        let mut reception = reception(ReceptionLimits::default());
        reception.accepted(Caller(1), address(1), noon());
        reception.accepted(Caller(2), address(1), noon());
        reception.received(Caller(2), &hello("urn:one", "opc.tcp://one"));
        reception.lost(Caller(1));
        reception.lost(Caller(2));
        assert_eq!((reception.load(), reception.take(0)), ((0, 0), None));
    }

    #[test]
    fn everything_is_bounded() {
        let busy = StatusCode::BadTcpServerTooBusy;
        let limits = ReceptionLimits {
            max_unknown: 2,
            max_waiting: 3,
            max_waiting_per_address: 2,
            ..ReceptionLimits::default()
        };
        let mut reception = reception(limits);
        for caller in 1..=3 {
            reception.accepted(Caller(caller), address(1), noon());
        }
        assert_eq!(closed(&mut reception), [(1, busy)], "the oldest that has not said who it is makes room");
        let late = Now { mono: noon().mono + limits.hello_timeout, ..noon() };
        assert_eq!(reception.poll_timeout(), Some(late.mono));
        reception.handle_timeout(late);
        assert_eq!(closed(&mut reception), [(2, StatusCode::BadTimeout), (3, StatusCode::BadTimeout)]);
        assert_eq!(reception.poll_timeout(), None);
        let mut call = |caller: u64, from: u8| {
            reception.accepted(Caller(caller), address(from), noon());
            reception.received(Caller(caller), &hello("urn:one", "opc.tcp://one"));
            closed(&mut reception)
        };
        assert_eq!(call(10, 1), []);
        assert_eq!(call(11, 2), []);
        assert_eq!(call(12, 2), []);
        assert_eq!(call(13, 2), [(11, busy)], "an address drives out its own");
        assert_eq!(call(14, 3), [(10, busy)], "then the oldest");
        assert_eq!(reception.load(), (0, 3));
    }
}

//! Answers that nobody asked for, that come twice, or that belong to another request: no request gets another's answer.

use opcua_types::StatusCode;

use super::*;

/// One chunk of the server on a channel without protection.
#[derive(Clone)]
struct Chunk(Vec<u8>);

impl Chunk {
    fn u32_at(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.0[at..at + 4].try_into().unwrap())
    }

    fn set(mut self, at: usize, value: u32) -> Self {
        self.0[at..at + 4].copy_from_slice(&value.to_le_bytes());
        self
    }

    fn sequence(&self) -> u32 {
        self.u32_at(16)
    }

    /// The `n`-th chunk after this one.
    fn next(self, n: u32) -> Self {
        let number = self.sequence() + n;
        self.set(16, number)
    }

    fn with_id(self, id: u32) -> Self {
        self.set(20, id)
    }

    /// Another type of response: the low 16 bits of its id, after the encoding byte and the namespace.
    fn with_type(mut self, id: u16) -> Self {
        self.0[26..28].copy_from_slice(&id.to_le_bytes());
        self
    }

    fn with_handle(self, handle: u32) -> Self {
        self.set(36, handle)
    }

    fn with_status(self, status: StatusCode) -> Self {
        self.set(40, status.bits())
    }

    fn kind(mut self, kind: u8) -> Self {
        self.0[3] = kind;
        self
    }

    /// With other bytes behind the headers.
    fn with_body(mut self, body: &[u8]) -> Self {
        self.0.truncate(24);
        self.0.extend_from_slice(body);
        let size = u32::try_from(self.0.len()).unwrap();
        self.set(4, size)
    }

    fn body(&self) -> &[u8] {
        &self.0[24..]
    }
}

/// Two reads are under way; their ids, and what the server answers.
fn asked() -> (Wire, [CallId; 2], [Chunk; 2]) {
    let mut wire = Wire::new();
    wire.connect(BARE, Credential::Anonymous);
    assert_eq!(wire.happened(), ["Fresh"]);
    let ids = [(); 2].map(|()| wire.read().unwrap());
    let bytes = std::mem::take(wire.client().outgoing().unwrap());
    let now = wire.now;
    wire.server.handle_input(Input::Bytes { conn: wire.conn, bytes: &bytes }, now);
    let sent = wire.serve();
    let size = Chunk(sent.clone()).u32_at(4) as usize;
    let (first, second) = sent.split_at(size);
    (wire, ids, [first, second].map(|bytes| Chunk(bytes.to_vec())))
}

/// What `bytes` lead to: which request was answered how, and whether the connection was left.
fn hear(wire: &mut Wire, ids: [CallId; 2], bytes: &[u8]) -> Vec<String> {
    let now = wire.now;
    wire.client().receive(bytes, now, &mut SystemEntropy::new());
    wire.run();
    let events = wire.events.drain(..).map(|event| {
        let ClientEvent::Answer(id, answer) = event else {
            let ClientEvent::Disconnected(status) = event else { panic!("{event:?}") };
            return format!("left: {status}");
        };
        let name = if id == ids[0] { "a" } else { "b" };
        match answer {
            Ok(Response::Read(response)) => {
                format!("{name} {:?}", response.results.unwrap()[0].value.as_ref().unwrap())
            }
            Ok(other) => panic!("{other:?}"),
            Err(status) => format!("{name} {status}"),
        }
    });
    events.collect()
}

type Says = fn(Chunk, Chunk) -> Vec<Chunk>;

const ROWS: [(&str, Says, &[&str]); 13] = [
    (
        "answers come in any order",
        |a, b| vec![b.next(0).set(16, a.sequence()), a.next(1)],
        &["b Int32(7)", "a Int32(7)"],
    ),
    ("nobody asked", |a, _| vec![a.with_id(9_999)], LEFT),
    ("the request id of the OPN", |a, _| vec![a.with_id(1)], LEFT),
    ("an answer twice", |a, _| vec![a.clone(), a.next(1)], &["a Int32(7)", "b BadConnectionClosed", BROKEN]),
    ("an answer repeated", |a, _| vec![a.clone(), a], &["a Int32(7)", "b BadConnectionClosed", SEQUENCE]),
    (
        "interleaved chunks of two answers",
        |a, b| {
            let (half, rest) = (a.body()[..10].to_vec(), b.body()[10..].to_vec());
            vec![a.kind(b'C').with_body(&half), b.with_body(&rest)]
        },
        LEFT,
    ),
    (
        "another request's answer under this id",
        |a, b| vec![b.clone().with_id(a.u32_at(20)).set(16, a.sequence()), b],
        &["a BadUnknownResponse", "b Int32(7)"],
    ),
    ("no handle", |a, b| vec![a.with_handle(0), b], &["a BadUnknownResponse", "b Int32(7)"]),
    ("another service's answer", |a, b| vec![a.with_type(676), b], &["a BadUnknownResponse", "b Int32(7)"]),
    (
        "another request's fault: the session is not given up for it",
        |a, b| {
            let handle = b.u32_at(36);
            vec![a.with_type(397).with_handle(handle).with_status(StatusCode::BadSessionIdInvalid), b]
        },
        &["a BadUnknownResponse", "b Int32(7)"],
    ),
    (
        "a fault of a server that could not read the handle",
        |a, b| vec![a.with_type(397).with_handle(0).with_status(StatusCode::BadDecodingError), b],
        &["a BadDecodingError", "b Int32(7)"],
    ),
    (
        "an answer that ends early",
        |a, b| {
            let half = a.body()[..a.body().len() - 7].to_vec();
            vec![a.with_body(&half), b]
        },
        &["a BadDecodingError", "b Int32(7)"],
    ),
    (
        "an answer that is given up in the middle",
        |a, b| {
            let half = a.body()[..10].to_vec();
            let abort = a.clone().next(1).kind(b'A').with_body(&[0, 0, 0xb8, 0x80, 0xff, 0xff, 0xff, 0xff]);
            vec![a.kind(b'C').with_body(&half), abort, b.next(1)]
        },
        &["a BadRequestTooLarge", "b Int32(7)"],
    ),
];
const BROKEN: &str = "left: BadSecurityChecksFailed";
const SEQUENCE: &str = "left: BadSequenceNumberInvalid";
const LEFT: &[&str] = &["a BadConnectionClosed", "b BadConnectionClosed", BROKEN];

#[test]
fn no_request_gets_an_answer_that_is_not_its_own() {
    for (name, says, heard) in ROWS {
        let (mut wire, ids, [a, b]) = asked();
        let bytes: Vec<u8> = says(a, b).into_iter().flat_map(|chunk| chunk.0).collect();
        assert_eq!(hear(&mut wire, ids, &bytes), heard, "{name}");
        // Whatever it was, the client goes on.
        if heard.last().is_some_and(|last| last.starts_with("left")) {
            wire.reconnect();
            wire.happened();
        } else {
            assert!(wire.client().is_active(), "{name}");
        }
    }
}

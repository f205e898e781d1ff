//! The guard before a plain server answers as a resource server with the same nodes and the same rights does.

use std::collections::VecDeque;

use opcua_types::*;
use proptest::prelude::*;
use token::SystemEntropy;

use super::world::*;
use crate::client::{ClientEvent, ClientSession, Credential, Request, Response};
use crate::server::{Audited, ConnId, Input, Output, Server};

/// A resource server with one anonymous session.
struct Reference {
    server: Server,
    client: ClientSession,
    answers: VecDeque<Result<Response, StatusCode>>,
    entropy: SystemEntropy,
}

const CONN: ConnId = ConnId(1);

impl Reference {
    fn new() -> Self {
        let now = start();
        let mut server = resource_server(now);
        server.handle_input(Input::Accepted { conn: CONN, peer: "client".into() }, now);
        let config = session_config((crate::crypto::SecurityPolicyId::None, MessageSecurityMode::None), "anonymous");
        let client = ClientSession::new(config.into(), Credential::Anonymous, now).unwrap();
        let mut reference = Self { server, client, answers: VecDeque::new(), entropy: SystemEntropy::new() };
        reference.run();
        reference
    }

    fn run(&mut self) {
        let now = start();
        loop {
            let mut moved = false;
            while let Some(output) = self.server.poll_output() {
                moved = true;
                match output {
                    Output::Send { conn } => {
                        let bytes = std::mem::take(self.server.outgoing(conn).unwrap());
                        self.client.receive(&bytes, now, &mut self.entropy);
                        self.server.handle_input(Input::Drained { conn, unsent: 0 }, now);
                    }
                    Output::Audit { id: Some(id), .. } => {
                        self.server.handle_input(Input::Audited { id, result: Audited::Kept }, now);
                    }
                    Output::Job(job) => {
                        let (id, outcome) = job.run();
                        self.server.handle_input(Input::JobDone { id, outcome }, now);
                    }
                    _ => {}
                }
            }
            while let Some(event) = self.client.poll_event() {
                moved = true;
                match event {
                    ClientEvent::Job(job) => {
                        let (id, outcome) = job.run();
                        self.client.job_done(id, outcome, now, &mut self.entropy);
                    }
                    ClientEvent::Answer(_, answer) => self.answers.push_back(answer),
                    _ => {}
                }
            }
            let bytes = self.client.outgoing().map(std::mem::take).unwrap_or_default();
            if !bytes.is_empty() {
                moved = true;
                self.server.handle_input(Input::Bytes { conn: CONN, bytes: &bytes }, now);
            }
            if !moved {
                return;
            }
        }
    }

    fn ask(&mut self, request: Request) -> Result<Response, StatusCode> {
        self.client.request(request, None, start()).unwrap();
        self.run();
        self.answers.pop_front().expect("an answer")
    }
}

fn node() -> impl Strategy<Value = NodeId> {
    let names = [
        "Unit", "Setpoint", "Pressure", "Samples", "Note", "Speed", "Secret", "Vault", "Inner", "Reset", "Reset.In",
        "Stir", "Stir.In", "Open", "Open.In", "Nothing",
    ];
    prop_oneof![
        8 => proptest::sample::select(names.to_vec()).prop_map(id),
        1 => proptest::sample::select(vec![85_u32, 2253, 2256, 2259, 2274, 12_637, 15_606, 58, 999_999])
            .prop_map(|number| NodeId::new(0, number)),
        1 => (0_u16..4, any::<u32>()).prop_map(|(namespace, number)| NodeId::new(namespace, number)),
    ]
}

fn range() -> impl Strategy<Value = UAString> {
    proptest::sample::select(vec!["", "", "", "0", "1:2", "9", "1:", "x"]).prop_map(UAString::from)
}

fn value() -> impl Strategy<Value = Variant> {
    prop_oneof![
        (0.0_f64..100.0).prop_map(Variant::from),
        any::<i32>().prop_map(Variant::from),
        proptest::collection::vec(any::<i32>(), 0..4).prop_map(Variant::from),
        "[a-z]{0,4}".prop_map(Variant::from),
        Just(Variant::Empty),
    ]
}

fn request() -> impl Strategy<Value = Request> {
    let read = (node(), 0_u32..30, range()).prop_map(|(node_id, attribute_id, index_range)| ReadValueId {
        node_id,
        attribute_id,
        index_range: index_range.as_ref().parse().unwrap_or_default(),
        ..ReadValueId::default()
    });
    let read = (proptest::collection::vec(read, 0..12), 0..4).prop_map(|(items, stamps)| {
        let timestamps_to_return = TimestampsToReturn::try_from(stamps).unwrap();
        Request::from(ReadRequest { timestamps_to_return, nodes_to_read: Some(items), ..ReadRequest::default() })
    });
    let write =
        (node(), prop_oneof![4 => Just(13_u32), 1 => 0_u32..30], value()).prop_map(|(node_id, attribute_id, value)| {
            WriteValue { node_id, attribute_id, value: DataValue::value_only(value), ..WriteValue::default() }
        });
    let write = proptest::collection::vec(write, 0..8)
        .prop_map(|items| Request::from(WriteRequest { nodes_to_write: Some(items), ..WriteRequest::default() }));
    let direction =
        proptest::sample::select(vec![BrowseDirection::Forward, BrowseDirection::Inverse, BrowseDirection::Both]);
    let browse = (node(), direction, proptest::sample::select(vec![0_u32, 33, 47, 46, 40]), 0_u32..64).prop_map(
        |(node_id, browse_direction, kind, result_mask)| BrowseDescription {
            node_id,
            browse_direction,
            reference_type_id: NodeId::new(0, kind),
            include_subtypes: true,
            node_class_mask: 0,
            result_mask,
        },
    );
    let browse = proptest::collection::vec(browse, 0..6)
        .prop_map(|nodes| Request::from(BrowseRequest { nodes_to_browse: Some(nodes), ..BrowseRequest::default() }));
    let names = proptest::sample::select(vec!["Setpoint", "Secret", "Vault", "Inner", "Speed", "Unit", "Absent"]);
    let element = names.prop_map(|name| RelativePathElement {
        reference_type_id: NodeId::new(0, 33_u32),
        is_inverse: false,
        include_subtypes: true,
        target_name: QualifiedName::new(1, name),
    });
    let path = (node(), proptest::collection::vec(element, 0..3)).prop_map(|(starting_node, elements)| BrowsePath {
        starting_node,
        relative_path: RelativePath { elements: Some(elements) },
    });
    let translate = proptest::collection::vec(path, 0..5).prop_map(|paths| {
        Request::from(TranslateBrowsePathsToNodeIdsRequest { browse_paths: Some(paths), ..Default::default() })
    });
    prop_oneof![4 => read, 3 => write, 2 => browse, 2 => translate]
}

/// Where the two may differ: the guard has other facts about itself, and other texts for what no server has.
fn comparable(response: Result<Response, StatusCode>) -> String {
    let mut response = response;
    if let Ok(Response::Read(read)) = &mut response {
        for value in read.results.iter_mut().flatten() {
            (value.source_timestamp, value.server_timestamp) = (None, None);
        }
    }
    format!("{response:?}")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn the_guard_answers_like_a_resource_server(requests in proptest::collection::vec(request(), 1..6)) {
        let mut world = World::new();
        let client = world.client();
        let mut reference = Reference::new();
        for request in requests {
            let expected = comparable(reference.ask(request.clone()));
            let call = world.send(client, request.clone());
            let given = comparable(world.answer(client, call).expect("an answer"));
            prop_assert_eq!(given, expected, "{:?}", request);
        }
    }
}

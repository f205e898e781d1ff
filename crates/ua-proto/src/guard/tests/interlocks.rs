//! Step and rate through the guard: the present value is read from the server just before, and the node is held meanwhile.

use std::collections::BTreeMap;
use std::time::Duration;

use access_model::{ArgumentBounds, Bounds, Interlock, Mode, Outcome, Reason, Rights, ScopeIndex, TwoPersons};
use opcua_types::*;

use super::world::*;
use crate::guard::WriteRange;
use crate::server::ConnId;

const STEP: Bounds = Bounds { range: Some((0.0, 60.0)), step: Some(5.0), rate: None };
const OUTSIDE: StatusCode = StatusCode::BadOutOfRange;
const UNKNOWN: StatusCode = StatusCode::BadInvalidState;

fn world(bounds: Bounds) -> World {
    let of = Some(format!("nsu={PLANT};s=Setpoint"));
    let rule = Interlock { bounds, arguments: BTreeMap::from([(1, ArgumentBounds { bounds, of })]), two_persons: None };
    World::with(|config| {
        config.interlocks = [1, 2, 3].map(|scope| (ScopeIndex(scope), rule.clone())).into();
    })
}

fn written(world: &mut World, client: ConnId, items: Vec<(&str, Variant)>) -> Vec<StatusCode> {
    world.ask::<WriteResponse>(client, write(items)).unwrap().results.unwrap()
}

fn called(world: &mut World, client: ConnId, to: f64) -> Option<StatusCode> {
    let mut request = call("Unit", "Reset");
    request.methods_to_call.as_mut().unwrap()[0].input_arguments = Some(vec![to.into()]);
    let call = world.send(client, request);
    let response = CallResponse::try_from(world.answer(client, call)?.unwrap()).unwrap();
    Some(response.results.unwrap()[0].status_code)
}

fn reads(world: &mut World) -> usize {
    world.at_plant(ObjectId::ReadRequest_Encoding_DefaultBinary).len()
}

#[test]
fn a_step_is_taken_against_what_the_server_has_just_said() {
    let mut world = world(STEP);
    let client = world.client();
    for (rule, value, expected) in [
        ("up", Variant::from(25.0), StatusCode::Good),
        ("too far", Variant::from(30.5), OUTSIDE),
        ("on from there", Variant::from(30.0), StatusCode::Good),
        ("outside of the range", Variant::from(61.0), OUTSIDE),
        ("not a number", Variant::from(f64::NAN), OUTSIDE),
        ("another type", Variant::from(30_i32), UNKNOWN),
    ] {
        assert_eq!(written(&mut world, client, vec![("Setpoint", value)]), [expected], "{rule}");
    }
    let node = world.plant.space().find(&id("Setpoint")).unwrap();
    world.plant.handle_input(crate::server::Input::SetValue { node, value: 50.0.into() }, world.now);
    assert_eq!(written(&mut world, client, vec![("Setpoint", 31.0.into())]), [OUTSIDE], "the process moved it");
    let bad = DataValue { status: Some(StatusCode::BadSensorFailure), ..DataValue::value_only(50.0) };
    world.plant.handle_input(crate::server::Input::SetValue { node, value: bad }, world.now);
    assert_eq!(written(&mut world, client, vec![("Setpoint", 50.0.into())]), [UNKNOWN], "no good value");
    let denied = world.records.iter().filter_map(|record| match record.outcome {
        Outcome::Denied(reason) => Some((reason, record.detail.as_str())),
        _ => None,
    });
    let expected = (Reason::StepTooLarge, "30.5 is denied: a step of more than 5 is not allowed: 5.5 away");
    assert!(denied.collect::<Vec<_>>().contains(&expected));
}

#[test]
fn an_argument_behind_a_structure_is_held_to_its_bounds_by_being_denied() {
    let bounds = Bounds { range: Some((0.0, 60.0)), ..Bounds::default() };
    let rule =
        Interlock { arguments: BTreeMap::from([(2, ArgumentBounds { bounds, of: None })]), ..Interlock::default() };
    let mut world = World::with(|config| {
        config.interlocks = [1, 2, 3].map(|scope| (ScopeIndex(scope), rule.clone())).into();
    });
    let client = world.client();
    let structure = Variant::from(ExtensionObject::from_message(Range { low: 0.0, high: 1.0 }));
    let mut called = |inputs: Vec<Variant>| {
        let mut request = call("Unit", "Reset");
        request.methods_to_call.as_mut().unwrap()[0].input_arguments = Some(inputs);
        let call = world.send(client, request);
        let response = CallResponse::try_from(world.answer(client, call).unwrap().unwrap()).unwrap();
        response.results.unwrap()[0].status_code
    };
    let denied = StatusCode::BadInvalidArgument;
    assert_eq!(
        called(vec![structure.clone(), 5.0.into()]),
        denied,
        "nobody knows where the structure ends for the server"
    );
    assert_ne!(called(vec![1.0.into(), 5.0.into(), structure]), denied, "behind it nothing is bounded");
    assert_eq!(called(vec![1.0.into(), 61.0.into()]), denied, "outside");
}

#[test]
fn the_range_of_a_node_and_that_of_its_scope_both_hold() {
    let bounds = Bounds { range: Some((0.0, 60.0)), ..Bounds::default() };
    let mut world = World::with(|config| {
        config.interlocks.insert(ScopeIndex(1), Interlock { bounds, ..Interlock::default() });
        let node = "Setpoint".into();
        config.write_ranges = vec![WriteRange { namespace: PLANT.into(), node, low: 10.0, high: 1_000.0 }];
    });
    let client = world.client();
    for (value, expected) in
        [(10.0, StatusCode::Good), (60.0, StatusCode::Good), (9.5, OUTSIDE), (60.5, OUTSIDE), (f64::NAN, OUTSIDE)]
    {
        assert_eq!(written(&mut world, client, vec![("Setpoint", value.into())]), [expected], "{value}");
    }
}

#[test]
fn one_node_twice_in_a_request_is_changed_once() {
    let mut world = world(STEP);
    let client = world.client();
    let twice = vec![("Setpoint", 25.0.into()), ("Setpoint", 15.0.into())];
    assert_eq!(written(&mut world, client, twice), [StatusCode::Good, UNKNOWN]);
    let parts = vec![("Samples", vec![6, 7, 8].into()), ("Note", "x".into())];
    assert_eq!(written(&mut world, client, parts), [StatusCode::Good, OUTSIDE], "element by element; a text is none");
}

#[test]
fn two_writers_are_not_both_judged_by_what_was_there_before_either() {
    let mut world = world(STEP);
    let (one, other) = (world.client(), world.client());
    world.hold = true;
    let first = world.send(one, write(vec![("Setpoint", 25.0.into())]));
    let second = world.send(other, write(vec![("Setpoint", 15.0.into())]));
    assert!(world.answer(one, first).is_none());
    let refused = WriteResponse::try_from(world.answer(other, second).expect("at once").unwrap()).unwrap();
    assert_eq!(refused.results, Some(vec![UNKNOWN]));
    world.release();
    let done = WriteResponse::try_from(world.answer(one, first).unwrap().unwrap()).unwrap();
    assert_eq!(done.results, Some(vec![StatusCode::Good]));
    assert_eq!(written(&mut world, other, vec![("Setpoint", 21.0.into())]), [StatusCode::Good], "it is free again");
}

#[test]
fn a_rate_counts_what_all_sessions_write_and_call() {
    let mut world = world(Bounds { range: None, step: None, rate: Some(8.0) });
    let (one, other) = (world.client(), world.client());
    assert_eq!(written(&mut world, one, vec![("Setpoint", 25.0.into())]), [StatusCode::Good]);
    assert_eq!(written(&mut world, other, vec![("Setpoint", 29.0.into())]), [OUTSIDE]);
    assert_eq!(called(&mut world, other, 29.0), Some(StatusCode::BadInvalidArgument));
    assert_eq!(called(&mut world, other, 28.0), None, "it is on its way");
    assert_eq!(written(&mut world, one, vec![("Setpoint", 25.0.into())]), [UNKNOWN], "a call that is not answered");
    world.returned(Vec::new());
    world.pass(Duration::from_millis(1_001));
    assert_eq!(written(&mut world, one, vec![("Setpoint", 33.0.into())]), [StatusCode::Good]);
}

#[test]
fn what_may_not_be_changed_is_neither_read_nor_held_for_it() {
    let mut world = world(STEP);
    let poor = world.client_by_token(vec![(Rights::BROWSE | Rights::READ, 1)], Duration::from_secs(600));
    let client = world.client();
    world.reached.clear();
    world.hold = true;
    let denied = world.send(poor, write(vec![("Setpoint", 25.0.into())]));
    let hidden = world.send(client, write(vec![("Secret", "x".into()), ("Missing", 1.0.into())]));
    assert!(world.answer(poor, denied).is_some(), "at once");
    assert_eq!(reads(&mut world), 0);
    world.release();
    assert!(world.answer(client, hidden).is_some());
    assert_eq!(written(&mut world, client, vec![("Setpoint", 25.0.into())]), [StatusCode::Good], "nobody holds it");
}

#[test]
fn an_alias_is_held_as_the_node_it_stands_for() {
    let mut world = world(STEP);
    let (one, other) = (world.client(), world.client());
    let request = RegisterNodesRequest { nodes_to_register: Some(vec![id("Setpoint")]), ..Default::default() };
    let registered: RegisterNodesResponse = world.ask(one, request).unwrap();
    let alias = registered.registered_node_ids.unwrap().remove(0);
    let mut request = write(vec![("Setpoint", 25.0.into())]);
    request.nodes_to_write.as_mut().unwrap()[0].node_id = alias.clone();
    world.hold = true;
    let first = world.send(one, request.clone());
    let second = world.send(other, write(vec![("Setpoint", 15.0.into())]));
    let refused = WriteResponse::try_from(world.answer(other, second).expect("at once").unwrap()).unwrap();
    assert_eq!(refused.results, Some(vec![UNKNOWN]));
    world.release();
    assert!(world.answer(one, first).unwrap().is_ok());
    request.nodes_to_write.as_mut().unwrap()[0].value = DataValue::value_only(31.0);
    let far: WriteResponse = world.ask(one, request).unwrap();
    assert_eq!(far.results, Some(vec![OUTSIDE]));
}

/// The upstream session is lost after the value was read and before the write was answered: nobody knows whether it was
/// carried out, so the node stays held for as long as the server may still do it.
#[test]
fn a_write_whose_answer_is_lost_holds_its_node_until_its_time_is_over() {
    let mut world = world(STEP);
    let (one, other) = (world.client(), world.client());
    world.hold = true;
    let asked = world.send(one, write(vec![("Setpoint", 25.0.into())]));
    // The value that was read comes, and what is written goes; its answer does not come.
    for (link, bytes) in std::mem::take(&mut world.held) {
        let event = crate::guard::Upstream::Bytes(&bytes);
        world.guard.handle_input(crate::guard::Input::Up { link, event }, world.now);
    }
    world.run();
    assert!(world.answer(one, asked).is_none());
    world.cut_upstream();
    world.hold = false;
    world.held.clear();
    world.pass(Duration::from_secs(2));
    assert_eq!(written(&mut world, other, vec![("Setpoint", 26.0.into())]), [UNKNOWN]);
    world.pass(Duration::from_secs(31));
    assert_eq!(
        written(&mut world, other, vec![("Setpoint", 26.0.into())]),
        [UNKNOWN],
        "it was sent later than asked for"
    );
    world.pass(Duration::from_secs(30));
    assert_eq!(written(&mut world, other, vec![("Setpoint", 26.0.into())]), [StatusCode::Good]);
}

/// A server may answer a whole request with a fault when some of it is done. Some faults say that it looked at nothing.
#[test]
fn a_fault_frees_a_node_only_if_it_proves_that_nothing_was_done() {
    use StatusCode as S;
    for (fault, free) in [
        (S::BadTooManyOperations, true),
        (S::BadNothingToDo, true),
        (S::BadServiceUnsupported, true),
        (S::BadInternalError, false),
        (S::BadTimeout, false),
        (S::BadUnexpectedError, false),
        (S::BadResponseTooLarge, false),
    ] {
        let mut world = world(STEP);
        world.script_writes();
        world.script = Some(Box::new(move |_, _, _| Err(fault)));
        let (one, other) = (world.client(), world.client());
        assert_eq!(written(&mut world, one, vec![("Setpoint", 24.0.into())]), [fault], "{fault}");
        let expected = if free { fault } else { UNKNOWN };
        assert_eq!(written(&mut world, other, vec![("Setpoint", 24.0.into())]), [expected], "after {fault}");
    }
}

/// Who says that it waits for a moment only, closes its session or calls its request back does not have the node freed
/// before the server has made its change.
#[test]
fn a_node_is_held_until_the_server_has_answered_whatever_became_of_the_client() {
    for rule in ["waits no longer", "calls it back", "is gone"] {
        let mut world = world(STEP);
        let (one, other) = (world.client(), world.client());
        world.hold = true;
        let asked = world.send_for(one, write(vec![("Setpoint", 25.0.into())]), Duration::from_secs(1));
        // The value that was read comes, and what is written goes; its answer does not come.
        for (link, bytes) in std::mem::take(&mut world.held) {
            let event = crate::guard::Upstream::Bytes(&bytes);
            world.guard.handle_input(crate::guard::Input::Up { link, event }, world.now);
        }
        world.run();
        assert!(world.answer(one, asked).is_none(), "{rule}");
        match rule {
            "calls it back" => {
                let cancel = CancelRequest { request_handle: 1, ..CancelRequest::default() };
                for request_handle in 1..20 {
                    world.send(one, CancelRequest { request_handle, ..cancel.clone() });
                }
                assert_eq!(world.answer(one, asked).unwrap().err(), Some(StatusCode::BadRequestCancelledByClient));
            }
            "is gone" => world.close(one),
            _ => {
                world.pass(Duration::from_secs(2));
                assert_eq!(world.answer(one, asked).unwrap().err(), Some(StatusCode::BadTimeout));
            }
        }
        let refused = world.send(other, write(vec![("Setpoint", 15.0.into())]));
        let refused = WriteResponse::try_from(world.answer(other, refused).expect(rule).unwrap()).unwrap();
        assert_eq!(refused.results, Some(vec![UNKNOWN]), "{rule}");
        world.release();
        if rule == "is gone" {
            world.pass(Duration::from_secs(61));
        }
        let far = written(&mut world, other, vec![("Setpoint", 15.0.into())]);
        assert_eq!(far, [OUTSIDE], "{rule}: it is judged by what was written");
        assert_eq!(written(&mut world, other, vec![("Setpoint", 21.0.into())]), [StatusCode::Good], "{rule}");
    }
}

/// A guard where two persons are needed on the reactor, and a client whom the authority knows.
fn two_persons() -> (World, ConnId) {
    let terms = TwoPersons { role: "lead".into(), within: Duration::from_secs(300) };
    let rule = Interlock { two_persons: Some(terms), ..Interlock::default() };
    let mut world = World::listening(Mode::Enforce, |config| config.interlocks = [(ScopeIndex(1), rule)].into());
    let client = world.client_by_roles(&[]);
    (world, client)
}

#[test]
fn a_second_person_is_shown_the_node_and_not_what_a_session_calls_it() {
    const WAITS: StatusCode = StatusCode::BadRequestNotAllowed;
    let (mut world, client) = two_persons();
    let aliases = [("first", "Setpoint"), ("second", "Unit"), ("third", "Reset")].map(|(alias, node)| {
        let link = world.guard.links.values_mut().next().unwrap();
        let real = crate::guard::desk::encoded(&id(node));
        let meant = crate::guard::link::Alias { scope: ScopeIndex(1), real, session: u64::MAX };
        link.aliases.insert(id(alias), meant);
        id(alias)
    });
    let mut request = write(vec![("Setpoint", 25.0.into())]);
    request.nodes_to_write.as_mut().unwrap()[0].node_id = aliases[0].clone();
    let response: WriteResponse = world.ask(client, request).unwrap();
    assert_eq!(response.results, Some(vec![WAITS]));
    let question = world.guard.poll_question().expect("a question for the authority");
    assert_eq!(question.change, "write to ns=1;s=Setpoint: 25");
    let expires = world.now.unix + Duration::from_secs(300);
    let approved = token::control::Approved { id: question.id, by: "bert".into(), expires };
    world.update(2, |update| update.approved.push(approved));
    assert_eq!(written(&mut world, client, vec![("Setpoint", 25.0.into())]), [StatusCode::Good], "by its own name");
    let mut request = call("Unit", "Reset");
    let method = &mut request.methods_to_call.as_mut().unwrap()[0];
    (method.object_id, method.method_id) = (aliases[1].clone(), aliases[2].clone());
    let response: CallResponse = world.ask(client, request).unwrap();
    assert_eq!(response.results.unwrap()[0].status_code, WAITS);
    let first = world.guard.poll_question().unwrap();
    assert_eq!(first.change, "call of ns=1;s=Unit, ns=1;s=Reset with (1)");
    assert_eq!(called(&mut world, client, 1.0), Some(WAITS));
    assert_eq!(world.guard.poll_question(), None, "by its own name it is the same question");
}

#[test]
fn a_second_person_is_told_how_much_of_which_history_is_changed_and_a_digest_of_it() {
    let (mut world, client) = two_persons();
    let mut asked = |values: Vec<f64>| {
        let details = UpdateDataDetails {
            node_id: id("Setpoint"),
            perform_insert_replace: PerformUpdateType::Replace,
            update_values: Some(values.into_iter().map(DataValue::value_only).collect()),
        };
        let items = Some(vec![ExtensionObject::from_message(details)]);
        let request = HistoryUpdateRequest { history_update_details: items, ..HistoryUpdateRequest::default() };
        let ids = (
            ObjectId::HistoryUpdateRequest_Encoding_DefaultBinary,
            ObjectId::HistoryUpdateResponse_Encoding_DefaultBinary,
        );
        world.raw(client, ids, body_of(&request)).unwrap();
        world.guard.poll_question().expect("a question for the authority").change
    };
    let (one, other) = (asked(vec![1.0, 2.0]), asked(vec![1.0, 3.0]));
    for words in [&one, &other] {
        assert!(words.contains("ns=1;s=Setpoint: 2 values are replaced (digest "), "{words}");
    }
    assert_ne!(one, other);
}

#[test]
fn values_that_become_history_are_held_to_the_ranges_of_node_and_scope() {
    use PerformUpdateType as P;
    let bounds = Bounds { range: Some((0.0, 60.0)), step: Some(1.0), rate: Some(1.0) };
    let mut world = World::with(|config| {
        config.interlocks.insert(ScopeIndex(1), Interlock { bounds, ..Interlock::default() });
        let node = "Setpoint".into();
        config.write_ranges = vec![WriteRange { namespace: PLANT.into(), node, low: 10.0, high: 1_000.0 }];
    });
    world.script = Some(super::changes::obliging());
    let held = Rights::BROWSE | Rights::INSERT_HISTORY | Rights::MODIFY_HISTORY | Rights::DELETE_HISTORY;
    let client = world.client_by_token(vec![(held, 1)], Duration::from_secs(600));
    for (rule, perform, values, expected) in [
        ("inside of both", P::Insert, vec![10.0, 60.0], StatusCode::Good),
        ("inserted outside of the scope's", P::Insert, vec![60.5], OUTSIDE),
        ("inserted outside of the node's", P::Insert, vec![9.5], OUTSIDE),
        ("replaced outside", P::Replace, vec![61.0], OUTSIDE),
        ("updated outside, behind one inside", P::Update, vec![20.0, 61.0], OUTSIDE),
        ("not a number", P::Insert, vec![f64::NAN], OUTSIDE),
        ("removed", P::Remove, vec![61.0], StatusCode::Good),
    ] {
        let details = UpdateDataDetails {
            node_id: id("Setpoint"),
            perform_insert_replace: perform,
            update_values: Some(values.into_iter().map(DataValue::value_only).collect()),
        };
        let items = Some(vec![ExtensionObject::from_message(details)]);
        let request = HistoryUpdateRequest { history_update_details: items, ..HistoryUpdateRequest::default() };
        let response = world.raw(client, super::changes::HISTORY_UPDATE, body_of(&request)).unwrap();
        assert_eq!(super::changes::statuses(&response, 12), [expected], "{rule}");
    }
    let asked = world.at_plant(ObjectId::HistoryUpdateRequest_Encoding_DefaultBinary);
    assert_eq!(asked.len(), 2, "what is outside is not sent on");
    let denied = world.records.iter().filter_map(|record| match record.outcome {
        Outcome::Denied(reason) => Some((record.kind.name(), reason, record.detail.as_str())),
        _ => None,
    });
    let expected = ("history_changed", Reason::ValueOutOfRange, "60.5 is denied: only 0 to 60 is allowed");
    assert!(denied.collect::<Vec<_>>().contains(&expected));
}

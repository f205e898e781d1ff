//! Values held to range, step and rate; arguments of methods held to theirs; what the client hears of it.

use std::collections::BTreeMap;
use std::time::Duration;

use access_model::{ArgumentBounds, AuditKind, Bounds, Interlock, Outcome, Reason, ScopeIndex, TwoPersons};
use opcua_types::*;

use super::world::*;
use crate::server::{Answer, Audited, ConnId, Input, InvokeId};

const STEP: Bounds = Bounds { range: Some((0.0, 60.0)), step: Some(5.0), rate: None };

/// Alice, where these bounds hold for the reactor.
fn world(bounds: Bounds, arguments: &[(u32, ArgumentBounds)]) -> (World, ConnId, Login) {
    let mut world = World::new();
    let arguments: BTreeMap<_, _> = arguments.iter().cloned().collect();
    let rule = Interlock { bounds, arguments, two_persons: None };
    world.server.set_interlocks(BTreeMap::from([(ScopeIndex(1), rule)]));
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    (world, conn, login)
}

fn one(world: &mut World, conn: ConnId, login: &Login, to: f64) -> StatusCode {
    world.write(conn, login, vec![(id("Setpoint"), to.into())]).unwrap().remove(0)
}

fn denials(world: &World, kind: AuditKind) -> Vec<(Reason, String)> {
    let of = |record: &access_model::AuditRecord| match record.outcome {
        Outcome::Denied(reason) if record.kind == kind => Some((reason, record.detail.clone())),
        _ => None,
    };
    world.records.iter().filter_map(of).collect()
}

#[test]
fn a_step_is_taken_against_the_value_that_is_there() {
    let (mut world, conn, login) = world(STEP, &[]);
    for (to, expected) in [
        (25.0, StatusCode::Good),
        (30.5, StatusCode::BadOutOfRange),
        (30.0, StatusCode::Good),
        (61.0, StatusCode::BadOutOfRange),
        (f64::NAN, StatusCode::BadOutOfRange),
        (25.0, StatusCode::Good),
    ] {
        assert_eq!(one(&mut world, conn, &login, to), expected, "{to}");
    }
    world.server.handle_input(
        Input::SetValue { node: world.server.space().find(&id("Setpoint")).unwrap(), value: 50.0.into() },
        world.now,
    );
    assert_eq!(one(&mut world, conn, &login, 26.0), StatusCode::BadOutOfRange, "the process moved it");
    assert_eq!(one(&mut world, conn, &login, 46.0), StatusCode::Good);
    let denied = denials(&world, AuditKind::Write);
    assert_eq!(
        denied[0],
        (Reason::StepTooLarge, "30.5 is denied: a step of more than 5 is not allowed: 5.5 away".into())
    );
}

#[test]
fn arrays_and_parts_of_them_are_held_to_bounds_element_by_element() {
    let (mut world, conn, login) = world(STEP, &[]);
    let mut write = |value: Variant, part: &str| {
        let mut request = world.write_request(&login, vec![(id("Samples"), value)]);
        request.nodes_to_write.as_mut().unwrap()[0].index_range = part.parse().unwrap();
        world.ask::<_, WriteResponse>(conn, &request).unwrap().results.unwrap().remove(0)
    };
    assert_eq!(write(vec![6, 7, 8].into(), ""), StatusCode::Good);
    assert_eq!(write(vec![6, 7, 14].into(), ""), StatusCode::BadOutOfRange);
    assert_eq!(write(vec![13].into(), "1"), StatusCode::BadOutOfRange);
    assert_eq!(write(vec![12].into(), "1"), StatusCode::Good);
    assert_eq!(write(vec![12, 61].into(), "1:2"), StatusCode::BadOutOfRange);
}

#[test]
fn the_same_value_cannot_be_changed_twice_before_either_is_recorded() {
    let (mut world, conn, login) = world(STEP, &[]);
    let (other, second) = world.log_in(ENCRYPT, "alice");
    world.ledger = None;
    let first = world.write_request(&login, vec![(id("Setpoint"), 25.0.into())]);
    let asked = world.send(conn, &first);
    let back = world.write_request(&second, vec![(id("Setpoint"), 15.0.into())]);
    let also = world.send(other, &back);
    for held in std::mem::take(&mut world.held_audits) {
        world.input(Input::Audited { id: held, result: Audited::Kept });
    }
    let mut result =
        |conn, call| world.answer::<WriteResponse>(conn, call).unwrap().unwrap().results.unwrap().remove(0);
    assert_eq!(result(conn, asked), StatusCode::Good);
    assert_eq!(result(other, also), StatusCode::BadOutOfRange, "10 away by then");
}

#[test]
fn a_rate_counts_what_all_sessions_write() {
    let bounds = Bounds { range: None, step: None, rate: Some(8.0) };
    let (mut world, conn, login) = world(bounds, &[]);
    let (other, second) = world.log_in(ENCRYPT, "alice");
    assert_eq!(one(&mut world, conn, &login, 25.0), StatusCode::Good);
    assert_eq!(one(&mut world, other, &second, 29.0), StatusCode::BadOutOfRange);
    assert_eq!(one(&mut world, other, &second, 28.0), StatusCode::Good);
    world.pass(Duration::from_millis(1_001));
    assert_eq!(one(&mut world, conn, &login, 36.0), StatusCode::Good);
    assert_eq!(denials(&world, AuditKind::Write)[0].0, Reason::RateTooHigh);
}

#[test]
fn what_has_no_good_value_is_not_changed() {
    let (mut world, conn, login) = world(STEP, &[]);
    let node = world.server.space().find(&id("Setpoint")).unwrap();
    let bad = DataValue { status: Some(StatusCode::BadSensorFailure), ..DataValue::value_only(20.0) };
    world.input(Input::SetValue { node, value: bad });
    assert_eq!(one(&mut world, conn, &login, 20.0), StatusCode::BadInvalidState);
    assert_eq!(denials(&world, AuditKind::Write)[0].0, Reason::PresentValueUnknown);
}

#[test]
fn a_client_that_wants_to_hear_it_is_told_the_bound_and_not_the_value() {
    let (mut world, conn, login) = world(STEP, &[]);
    let values = vec![(id("Setpoint"), 21.0.into()), (id("Setpoint"), 40.0.into()), (id("Setpoint"), 70.0.into())];
    let mut request = world.write_request(&login, values);
    let silent: WriteResponse = world.ask(conn, &request).unwrap();
    assert_eq!(silent.diagnostic_infos, None, "who does not ask is told nothing");
    request.request_header = world.header(&login.token);
    request.request_header.return_diagnostics = DiagnosticBits::OPERATIONAL_LEVEL_ADDITIONAL_INFO;
    let response: WriteResponse = world.ask(conn, &request).unwrap();
    let told = response.diagnostic_infos.unwrap();
    let told: Vec<Option<String>> =
        told.iter().map(|one| one.additional_info.as_ref().map(ToString::to_string)).collect();
    let step = "a step of more than 5 is not allowed".to_owned();
    assert_eq!(told, [None, Some(step), Some("only 0 to 60 is allowed".to_owned())]);
}

fn of_setpoint(bounds: Bounds) -> ArgumentBounds {
    ArgumentBounds { bounds, of: Some(format!("nsu={};s=Setpoint", super::keys::SERVER_URI)) }
}

fn left(world: &mut World) -> InvokeId {
    world.invoked.pop_front().expect("the call left").0
}

#[test]
fn arguments_are_held_to_their_bounds_against_what_they_set() {
    let (mut world, conn, login) = world(Bounds::default(), &[(1, of_setpoint(STEP))]);
    let request = |world: &mut World, to: f64| {
        let mut request = world.call_request(&login, vec![(id("Unit"), id("Reset"), vec![to.into()])]);
        request.request_header.return_diagnostics = DiagnosticBits::OPERATIONAL_LEVEL_ADDITIONAL_INFO;
        request
    };
    for (to, told) in [
        (25.5, "argument 1: a step of more than 5 is not allowed"),
        (61.0, "argument 1: only 0 to 60 is allowed"),
        (f64::NAN, "argument 1: only 0 to 60 is allowed"),
    ] {
        let request = request(&mut world, to);
        let response: CallResponse = world.ask(conn, &request).unwrap();
        let result = response.results.unwrap().remove(0);
        assert_eq!(result.status_code, StatusCode::BadInvalidArgument);
        assert_eq!(result.input_argument_results, Some(vec![StatusCode::BadOutOfRange]));
        let info = response.diagnostic_infos.unwrap().remove(0).additional_info;
        assert_eq!(info.unwrap().as_ref(), told);
    }
    assert!(world.invoked.is_empty());
    // While one call is not answered, nobody knows what the value is.
    let first = request(&mut world, 25.0);
    let first = world.send(conn, &first);
    let call = left(&mut world);
    let second = request(&mut world, 15.0);
    let response: CallResponse = world.ask(conn, &second).unwrap();
    assert_eq!(response.results.unwrap()[0].input_argument_results, Some(vec![StatusCode::BadInvalidState]));
    let answer = Answer { status: StatusCode::Good, input_results: Vec::new(), outputs: Vec::new() };
    world.input(Input::Answer { id: call, answer });
    assert!(world.answer::<CallResponse>(conn, first).unwrap().is_ok());
    let third = request(&mut world, 15.0);
    let _third = world.send(conn, &third);
    left(&mut world);
}

#[test]
fn writes_and_calls_that_set_the_same_variable_count_together() {
    let bounds = Bounds { range: None, step: None, rate: Some(8.0) };
    let (mut world, conn, login) = world(bounds, &[(1, of_setpoint(bounds))]);
    assert_eq!(one(&mut world, conn, &login, 26.0), StatusCode::Good);
    let request = world.call_request(&login, vec![(id("Unit"), id("Reset"), vec![29.0.into()])]);
    let response: CallResponse = world.ask(conn, &request).unwrap();
    assert_eq!(response.results.unwrap()[0].status_code, StatusCode::BadInvalidArgument);
    let nowhere = ArgumentBounds { bounds, of: Some("ns=1;s=Missing".into()) };
    let rule = Interlock { arguments: BTreeMap::from([(1, nowhere)]), ..Interlock::default() };
    world.server.set_interlocks(BTreeMap::from([(ScopeIndex(1), rule)]));
    let response: CallResponse = world.ask(conn, &request).unwrap();
    let result = response.results.unwrap().remove(0);
    assert_eq!(result.input_argument_results, Some(vec![StatusCode::BadInvalidState]), "a variable that is not there");
    assert!(world.invoked.is_empty());
}

/// Alice by token, where two persons are needed on the reactor.
fn two_persons() -> (World, ConnId, Login) {
    let mut world = Setup {
        contact: Some(pep::Contact {
            issuer: "authority".into(),
            timeout: Duration::from_secs(100_000),
            fail_mode: pep::FailMode::Closed,
        }),
        ..Setup::default()
    }
    .start();
    super::monitoring::update(&mut world, 1, None, |_| {});
    let terms = TwoPersons { role: "lead".into(), within: Duration::from_secs(300) };
    let rule = Interlock { bounds: STEP, two_persons: Some(terms), ..Interlock::default() };
    world.server.set_interlocks(BTreeMap::from([(ScopeIndex(1), rule)]));
    let token = world.token(Duration::from_secs(3_000));
    let (conn, login) = world.log_in_by_token(&token);
    (world, conn, login)
}

fn approve(world: &mut World, epoch: u64, id: &str) {
    let expires = world.now.unix + Duration::from_secs(300);
    let one = token::control::Approved { id: id.into(), by: "bert".into(), expires };
    super::monitoring::update(world, epoch, Some(epoch - 1), |update| update.approved.push(one));
}

#[test]
fn a_write_that_two_persons_are_needed_for_names_its_approval_and_passes_once() {
    const WAITS: StatusCode = StatusCode::BadRequestNotAllowed;
    let (mut world, conn, login) = two_persons();
    let mut request = world.write_request(&login, vec![(id("Setpoint"), 25.0.into())]);
    request.request_header.return_diagnostics = DiagnosticBits::OPERATIONAL_LEVEL_ADDITIONAL_INFO;
    let response: WriteResponse = world.ask(conn, &request).unwrap();
    assert_eq!(response.results, Some(vec![WAITS]));
    let told = response.diagnostic_infos.unwrap().remove(0).additional_info.unwrap().to_string();
    let question = world.server.poll_question().expect("a question for the authority");
    assert!(told.contains(&question.id) && told.contains("`lead`"), "{told}");
    assert_eq!(question.change, "write to ns=1;s=Setpoint: 25");
    assert!(denials(&world, AuditKind::Write).last().unwrap().1.contains(&question.id), "in the audit");
    assert_eq!(
        one(&mut world, conn, &login, 40.0),
        StatusCode::BadOutOfRange,
        "no question about what is out of bounds"
    );
    assert_eq!(world.server.poll_question(), None);
    approve(&mut world, 2, &question.id);
    assert_eq!(one(&mut world, conn, &login, 24.0), WAITS, "another value");
    let part = WriteValue {
        node_id: id("Samples"),
        attribute_id: AttributeId::Value as u32,
        index_range: "0".parse().unwrap(),
        value: DataValue::value_only(vec![25_i32]),
    };
    let mut other = world.write_request(&login, Vec::new());
    other.nodes_to_write = Some(vec![part]);
    let response: WriteResponse = world.ask(conn, &other).unwrap();
    assert_ne!(response.results, Some(vec![StatusCode::Good]), "another node");
    assert_eq!(one(&mut world, conn, &login, 25.0), StatusCode::Good);
    let record = world.records.iter().rev().find(|record| record.outcome == Outcome::Allowed).unwrap();
    assert_eq!(record.detail, format!("25 instead of 20, approved by `bert` ({})", question.id));
    assert_eq!(one(&mut world, conn, &login, 25.0), WAITS, "used up");
    assert_eq!(world.read_one(conn, &login, "Setpoint"), Ok(Variant::from(25.0)));
}

#[test]
fn a_call_that_two_persons_are_needed_for_passes_with_the_same_arguments() {
    let (mut world, conn, login) = two_persons();
    let call = |world: &mut World, to: f64| {
        let request = world.call_request(&login, vec![(id("Unit"), id("Reset"), vec![to.into()])]);
        let asked = world.send(conn, &request);
        let answer = world.answer::<CallResponse>(conn, asked)?;
        Some(answer.unwrap().results.unwrap()[0].status_code)
    };
    assert_eq!(call(&mut world, 1.0), Some(StatusCode::BadRequestNotAllowed));
    let question = world.server.poll_question().unwrap();
    assert_eq!(question.change, "call ns=1;s=Reset of ns=1;s=Unit with (1)");
    approve(&mut world, 2, &question.id);
    assert_eq!(call(&mut world, 2.0), Some(StatusCode::BadRequestNotAllowed));
    assert!(world.invoked.is_empty());
    assert_eq!(call(&mut world, 1.0), None, "it left");
    left(&mut world);
}

#[test]
fn who_has_no_right_asks_nobody() {
    let (mut world, _, _) = two_persons();
    let (conn, login) = world.log_in(ENCRYPT, "bob");
    assert_eq!(one(&mut world, conn, &login, 25.0), StatusCode::BadNodeIdUnknown);
    assert_eq!(world.server.poll_question(), None);
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    assert_eq!(one(&mut world, conn, &login, 25.0), StatusCode::BadRequestNotAllowed, "by the server's own grant");
}

#[test]
fn values_that_become_history_are_held_to_the_range_and_to_nothing_else() {
    use PerformUpdateType as P;
    let rights = super::history::historian();
    let mut world = Setup { local: vec![grant(pep::Who::User("dora".into()), rights)], ..Setup::default() }.start();
    let bounds = Bounds { range: Some((0.0, 60.0)), step: Some(1.0), rate: Some(1.0) };
    world.server.set_interlocks(BTreeMap::from([(ScopeIndex(1), Interlock { bounds, ..Interlock::default() })]));
    let (conn, login) = super::history::begin(&mut world, "dora");
    let outside = Err(StatusCode::BadOutOfRange);
    for (rule, perform, new, expected) in [
        ("inserted inside", P::Insert, vec![(15, 60.0)], Ok(StatusCode::GoodEntryInserted)),
        ("further off than a step and the rate", P::Replace, vec![(15, 1.0)], Ok(StatusCode::GoodEntryReplaced)),
        ("inserted outside", P::Insert, vec![(16, 60.5)], outside),
        ("replaced outside", P::Replace, vec![(20, -0.5)], outside),
        ("updated outside", P::Update, vec![(20, 61.0)], outside),
        ("not a number", P::Insert, vec![(17, f64::NAN)], outside),
        ("behind one that is inside", P::Insert, vec![(18, 1.0), (19, 61.0)], outside),
    ] {
        let result = super::history::update(&mut world, conn, &login, "Setpoint", perform, &new);
        let seen = match result.status_code {
            StatusCode::Good => Ok(result.operation_results.unwrap()[0]),
            bad => Err(bad),
        };
        assert_eq!(seen, expected, "{rule}");
    }
    let series = world.server.space().history(world.server.space().find(&id("Setpoint")).unwrap()).unwrap();
    let touched = series.touched(&crate::history::Change::DeleteRange { start: 15, end: 20 });
    assert_eq!(touched.len(), 1, "nothing of an item that is outside is kept");
    let denied = denials(&world, AuditKind::HistoryChanged);
    assert_eq!(denied.len(), 5);
    assert_eq!(denied[0], (Reason::ValueOutOfRange, "60.5 is denied: only 0 to 60 is allowed".into()));
}

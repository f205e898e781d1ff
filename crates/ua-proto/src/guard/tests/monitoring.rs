//! Subscriptions that are linked, moved, paused, called back and asked about.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use access_model::{AuditKind, Outcome, Reason, Rights, ScopeIndex};
use opcua_types::*;

use super::subscriptions::{SECOND, publish, set, subscribe, told};
use super::world::*;
use crate::client::{Credential, RawRequest, Request};
use crate::guard::links::Owner;
use crate::guard::subs::Own;
use crate::guard::{ScopeEntry, ScopeRule, Sharing};
use crate::server::ConnId;
use crate::server::front::{Reader, Service, write_header, write_len, write_no_diagnostics};
use crate::space::{NewVariable, ns0};

const TRIGGERING: (ObjectId, ObjectId) =
    (ObjectId::SetTriggeringRequest_Encoding_DefaultBinary, ObjectId::SetTriggeringResponse_Encoding_DefaultBinary);
const TRANSFER: (ObjectId, ObjectId) = (
    ObjectId::TransferSubscriptionsRequest_Encoding_DefaultBinary,
    ObjectId::TransferSubscriptionsResponse_Encoding_DefaultBinary,
);
const CANCEL: (ObjectId, ObjectId) =
    (ObjectId::CancelRequest_Encoding_DefaultBinary, ObjectId::CancelResponse_Encoding_DefaultBinary);

type Seen = Rc<RefCell<Vec<Vec<u8>>>>;

/// A server that links and moves whatever it is asked to, and what it was asked.
fn obliging(world: &mut World) -> Seen {
    let seen = Seen::default();
    let log = Rc::clone(&seen);
    world.script = Some(Box::new(move |service, body, handle| {
        log.borrow_mut().push(body.to_vec());
        let mut reader = Reader::new(body);
        let mut out = Vec::new();
        match service {
            Service::SetTriggering => {
                reader.bytes(8)?;
                write_header(&mut out, TRIGGERING.1, start(), handle, StatusCode::Good);
                for _ in 0..2 {
                    let count = reader.array_len(4)?;
                    reader.bytes(count * 4)?;
                    write_len(&mut out, count);
                    (0..count).for_each(|_| out.extend_from_slice(&[0; 4]));
                    write_no_diagnostics(&mut out);
                }
            }
            _ => {
                write_header(&mut out, TRANSFER.1, start(), handle, StatusCode::Good);
                let count = reader.array_len(4)?;
                write_len(&mut out, count);
                // Good, with a number of the server's own that is nobody's business.
                (0..count).for_each(|_| out.extend_from_slice(&[0, 0, 0, 0, 1, 0, 0, 0, 77, 0, 0, 0]));
                write_no_diagnostics(&mut out);
            }
        }
        Ok(out)
    }));
    seen
}

fn numbers(reader: &mut Reader<'_>) -> Vec<u32> {
    (0..reader.array_len(4).unwrap()).map(|_| reader.u32().unwrap()).collect()
}

fn triggering(subscription: u32, item: u32, add: &[u32], remove: &[u32]) -> Vec<u8> {
    body_of(&SetTriggeringRequest {
        subscription_id: subscription,
        triggering_item_id: item,
        links_to_add: Some(add.to_vec()),
        links_to_remove: Some(remove.to_vec()),
        ..SetTriggeringRequest::default()
    })
}

#[test]
fn links_are_between_the_sessions_own_items() {
    let mut world = World::new();
    let seen = obliging(&mut world);
    let (one, other) = (world.client(), world.client());
    let (first, items) = subscribe(&mut world, one, &["Setpoint", "Note", "Samples"]);
    let (foreign, _) = subscribe(&mut world, other, &["Setpoint"]);
    let [a, b, c] = [0, 1, 2].map(|at| items[at].monitored_item_id);
    let body = triggering(first, a, &[b, 99, c], &[98, b]);
    let response = world.raw(one, TRIGGERING, body).unwrap();
    let mut reader = Reader::new(&response);
    let added = numbers(&mut reader);
    assert!(reader.array_len(1).unwrap() == 0);
    let removed = numbers(&mut reader);
    let unknown = StatusCode::BadMonitoredItemIdInvalid.bits();
    assert_eq!((added, removed), (vec![0, unknown, 0], vec![unknown, 0]), "in the order of the request");
    let sent = seen.borrow_mut().pop().unwrap();
    let mut reader = Reader::new(&sent[8..]);
    assert_eq!((numbers(&mut reader).len(), numbers(&mut reader).len()), (2, 1), "only what is the session's");
    use StatusCode as S;
    for (rule, client, body, expected) in [
        ("another's subscription", other, triggering(first, a, &[b], &[]), S::BadSubscriptionIdInvalid),
        ("an item of another subscription", one, triggering(foreign, a, &[b], &[]), S::BadSubscriptionIdInvalid),
        ("no such item", one, triggering(first, 99, &[b], &[]), S::BadMonitoredItemIdInvalid),
        ("nothing", one, triggering(first, a, &[], &[]), S::BadNothingToDo),
    ] {
        assert_eq!(world.raw(client, TRIGGERING, body), Err(expected), "{rule}");
    }
    assert!(seen.borrow().is_empty(), "none of it reached the server");
}

pub(super) fn transfer(
    world: &mut World,
    client: ConnId,
    ids: &[u32],
) -> Result<Vec<(StatusCode, Vec<u32>)>, StatusCode> {
    let body = body_of(&TransferSubscriptionsRequest {
        subscription_ids: Some(ids.to_vec()),
        send_initial_values: true,
        ..TransferSubscriptionsRequest::default()
    });
    let response = world.raw(client, TRANSFER, body)?;
    let mut reader = Reader::new(&response);
    let count = reader.array_len(1).unwrap();
    Ok((0..count).map(|_| (StatusCode::from(reader.u32().unwrap()), numbers(&mut reader))).collect())
}

fn named(world: &mut World, subject: &str, rights: Vec<(Rights, u32)>) -> ConnId {
    let token = world.token(subject, rights, Duration::from_secs(600));
    world.client_with(session_config(ENCRYPT, "jwt_None"), token)
}

fn by_issuer(world: &mut World, issuer: usize) -> ConnId {
    let token = world.token_by(issuer, "alice");
    world.client_with(session_config(ENCRYPT, "jwt_None"), token)
}

/// Two issuers may give one name to two people.
#[test]
fn a_name_of_another_issuer_is_another_user() {
    use StatusCode as S;
    let mut world = World::new();
    let seen = obliging(&mut world);
    let [ours, theirs, again] = [0, 1, 0].map(|issuer| by_issuer(&mut world, issuer));
    let (subscription, _) = subscribe(&mut world, ours, &["Setpoint"]);
    assert_eq!(transfer(&mut world, theirs, &[subscription]).unwrap()[0].0, S::BadUserAccessDenied);
    assert!(seen.borrow().is_empty());
    assert_eq!(transfer(&mut world, again, &[subscription]).unwrap()[0].0, S::Good);

    for (rule, issuer, good) in [("the neighbour's alice", 1, false), ("the same", 0, true)] {
        let client = by_issuer(&mut world, 0);
        let token = world.token_by(issuer, "alice");
        let client = world.moved(client, token);
        let moved = world.peers[&client].events.iter().any(|event| event.contains("Activated(Moved)"));
        assert_eq!(moved, good, "{rule}: {:?}", world.peers[&client].events);
    }

    // On its own channel a session may get another user, who does not get what the one before asked for.
    let client = by_issuer(&mut world, 0);
    world.hold = true;
    let call = world.send(client, read(&["Setpoint"]));
    let token = world.token_by(1, "alice");
    world.reactivate(client, token);
    assert_eq!(world.answer(client, call).unwrap().unwrap_err(), S::BadUserAccessDenied);
}

#[test]
fn a_subscription_does_not_move_to_a_channel_that_protects_less() {
    use StatusCode as S;
    for (from, to, expected) in [
        (SIGN, ENCRYPT, S::Good),
        (ENCRYPT, ENCRYPT, S::Good),
        (SIGN, SIGN, S::Good),
        (ENCRYPT, SIGN, S::BadSecurityModeInsufficient),
    ] {
        let mut world = World::new();
        let seen = obliging(&mut world);
        let [old, new] =
            [from, to].map(|security| world.client_with(session_config(security, "anonymous"), Credential::Anonymous));
        let (subscription, _) = subscribe(&mut world, old, &["Setpoint"]);
        assert_eq!(transfer(&mut world, new, &[subscription]).unwrap()[0].0, expected, "{from:?} {to:?}");
        assert_eq!(seen.borrow().is_empty(), expected.is_bad());
        let record = world.records.iter().rev().find(|record| record.kind == AuditKind::Notify).unwrap();
        let (outcome, text) = match expected.is_bad() {
            true => (Outcome::Denied(Reason::ChannelTooWeak), "belongs to a session whose channel is better protected"),
            false => (Outcome::Allowed, "was taken over from session"),
        };
        assert_eq!(record.outcome, outcome, "{from:?} {to:?}: {record:?}");
        assert!(record.detail.starts_with(&format!("subscription {subscription} {text}")), "{record:?}");
        assert!(!record.object.is_empty());
    }
}

#[test]
fn what_moves_counts_where_it_moves_to() {
    use StatusCode as S;
    let mut limits = crate::server::ServerLimits::default();
    let subscriptions = std::sync::Arc::make_mut(&mut limits.subscriptions);
    (subscriptions.max_items, subscriptions.max_subscriptions) = (3, 2);
    let mut world = World::bounded(limits);
    let _seen = obliging(&mut world);
    let all = vec![(Rights::ALL, 1)];
    let (old, new) = (named(&mut world, "alice", all.clone()), named(&mut world, "alice", all));
    let (two, _) = subscribe(&mut world, old, &["Setpoint", "Note"]);
    let (one, _) = subscribe(&mut world, old, &["Setpoint"]);
    let (_, _) = subscribe(&mut world, new, &["Setpoint", "Note"]);
    let moved = transfer(&mut world, new, &[two, one]).unwrap();
    let statuses: Vec<StatusCode> = moved.into_iter().map(|(status, _)| status).collect();
    assert_eq!(statuses, [S::BadTooManyMonitoredItems, S::Good]);
    assert_eq!(transfer(&mut world, new, &[two]).unwrap()[0].0, S::BadTooManySubscriptions);
}

/// The server has moved it, and the session that asked is another user's by now.
#[test]
fn what_was_allowed_when_a_move_was_asked_for_is_looked_at_again_when_it_is_made() {
    use StatusCode as S;
    let mut world = World::new();
    let _seen = obliging(&mut world);
    let all = vec![(Rights::ALL, 1)];
    let (old, new) = (named(&mut world, "alice", all.clone()), named(&mut world, "alice", all.clone()));
    let (subscription, _) = subscribe(&mut world, old, &["Setpoint"]);
    let call = publish(&mut world, old, &[]);
    world.pass(SECOND * 2);
    assert!(told(&mut world, old, call).is_some());
    world.hold = true;
    let body = body_of(&TransferSubscriptionsRequest {
        subscription_ids: Some(vec![subscription]),
        ..TransferSubscriptionsRequest::default()
    });
    let call =
        world.send(new, crate::client::Request::Raw(crate::client::RawRequest::new(TRANSFER.0, TRANSFER.1, body)));
    let bob = world.token("bob", all, Duration::from_secs(600));
    world.reactivate(new, bob);
    world.reached.clear();
    world.release();
    let answer = world.answer(new, call).expect("an answer").unwrap();
    let crate::client::Response::Raw(body) = answer else { panic!("{answer:?}") };
    let mut reader = Reader::new(&body);
    reader.array_len(1).unwrap();
    assert_eq!(StatusCode::from(reader.u32().unwrap()), S::BadUserAccessDenied);
    let reached = std::mem::take(&mut world.reached);
    world.reached.clone_from(&reached);
    assert_eq!(world.at_plant(ObjectId::DeleteSubscriptionsRequest_Encoding_DefaultBinary).len(), 1, "where it is now");
    world.reached = reached;
    assert_eq!(world.at_plant(ObjectId::CreateSubscriptionRequest_Encoding_DefaultBinary).len(), 1, "for its owner");
    let call = publish(&mut world, old, &[]);
    set(&mut world, "Setpoint", 41.0);
    world.pass(SECOND * 3);
    let calls = [call, publish(&mut world, old, &[])];
    world.pass(SECOND * 3);
    let values: Vec<_> =
        calls.into_iter().filter_map(|call| told(&mut world, old, call)).flat_map(|told| told.1).collect();
    assert!(values.contains(&(100, "41".to_owned())), "{values:?}");
}

/// An item lies where the node does that is sampled for it, whatever its name means by now.
#[test]
fn an_item_keeps_to_the_node_that_is_sampled() {
    let mut world = World::new();
    let client = world.client();
    let link = world.guard.links.values_mut().next().unwrap();
    let alias = crate::guard::link::Alias {
        scope: ScopeIndex(1),
        real: crate::guard::desk::encoded(&id("Setpoint")),
        session: u64::MAX,
    };
    link.aliases.insert(id("Handle"), alias);
    let (_, results) = subscribe(&mut world, client, &["Handle"]);
    assert_eq!(results[0].status_code, StatusCode::Good);
    let call = publish(&mut world, client, &[]);
    world.pass(SECOND * 2);
    assert_eq!(told(&mut world, client, call).unwrap().1, [(100, "20".to_owned())]);
    world.guard.links.values_mut().for_each(|link| link.aliases.clear());
    let node = |scope, name: &str| ScopeEntry {
        scope: ScopeIndex(scope),
        namespace: PLANT.into(),
        rule: ScopeRule::Node(Identifier::String(name.into())),
    };
    // The node goes to the vault, and its old name comes to lie where the session may read.
    let rules = crate::guard::ScopeRules { entries: vec![node(3, "Setpoint"), node(1, "Handle")] };
    let map = access_model::ScopeMap::new(SCOPES).unwrap();
    let restrictions = (access_model::Restrictions::NONE, Vec::new());
    let layout = crate::guard::Layout { map, rules, interlocks: Default::default(), restrictions };
    world.guard.lay_out(layout, world.now).unwrap();
    world.run();
    let call = publish(&mut world, client, &[]);
    set(&mut world, "Setpoint", 21.0);
    world.pass(SECOND * 3);
    let denied = StatusCode::BadUserAccessDenied.to_string();
    assert_eq!(told(&mut world, client, call).unwrap().1, [(100, denied)]);
}

/// Links are made again with their items.
#[test]
fn at_a_server_that_starts_anew_items_trigger_one_another_as_before() {
    let mut world = World::new();
    let seen = obliging(&mut world);
    let client = world.client();
    let (subscription, items) = subscribe(&mut world, client, &["Setpoint", "Note", "Pressure", "Samples"]);
    let ids: Vec<u32> = items.iter().map(|item| item.monitored_item_id).collect();
    world.raw(client, TRIGGERING, triggering(subscription, ids[0], &ids[1..], &[])).unwrap();
    world.raw(client, TRIGGERING, triggering(subscription, ids[0], &[], &[ids[3]])).unwrap();
    let delete = DeleteMonitoredItemsRequest {
        subscription_id: subscription,
        monitored_item_ids: Some(vec![ids[2]]),
        ..DeleteMonitoredItemsRequest::default()
    };
    let _: DeleteMonitoredItemsResponse = world.ask(client, delete).unwrap();
    seen.borrow_mut().clear();
    world.restart_plant(space(false));
    world.pass(SECOND * 5);
    let seen = seen.borrow();
    // The other one asks for the subscription itself.
    let linked: Vec<_> = seen.iter().filter(|body| body.len() > 16).collect();
    assert_eq!(linked.len(), 1, "{seen:?}");
    let mut reader = Reader::new(linked[0]);
    reader.bytes(8).unwrap();
    assert_eq!((numbers(&mut reader).len(), numbers(&mut reader).len()), (1, 0), "the link that was left");
}

/// Other methods go by rights to the server: what they name must be the session's own, under the server's name for it.
#[test]
fn the_subscription_that_a_method_is_about_is_the_sessions_own() {
    use StatusCode as S;
    let mut world = World::with(|config| {
        config.pool = Sharing::Always;
        let node = |number: u32| ScopeEntry {
            scope: ScopeIndex(1),
            namespace: crate::space::UA_NAMESPACE.into(),
            rule: ScopeRule::Node(Identifier::Numeric(number)),
        };
        config.rules.entries.extend([2_782, 3_875, 12_912, 2_253].map(node));
    });
    let (one, other) = (world.client(), world.client());
    let (gone, _) = subscribe(&mut world, other, &["Setpoint"]);
    let delete = DeleteSubscriptionsRequest { subscription_ids: Some(vec![gone]), ..Default::default() };
    let _: DeleteSubscriptionsResponse = world.ask(other, delete).unwrap();
    let (foreign, _) = subscribe(&mut world, other, &["Setpoint"]);
    let (own, items) = subscribe(&mut world, one, &["Setpoint"]);
    // The server counts anew, the guard does not.
    world.restart_plant(space(false));
    world.pass(SECOND * 5);
    let upstream: Vec<u32> = world.guard.links.values().flat_map(|link| link.subs.all_upstream()).collect();
    let refresh = |method: u32, arguments: Vec<u32>| CallRequest {
        methods_to_call: Some(vec![CallMethodRequest {
            object_id: NodeId::new(0, 2_782_u32),
            method_id: NodeId::new(0, method),
            input_arguments: Some(arguments.into_iter().map(Variant::from).collect()),
        }]),
        ..CallRequest::default()
    };
    const CALL: ObjectId = ObjectId::CallRequest_Encoding_DefaultBinary;
    for (rule, method, arguments, expected) in [
        ("another's", 3_875, vec![foreign], S::BadSubscriptionIdInvalid),
        ("nobody's", 3_875, vec![999], S::BadSubscriptionIdInvalid),
        ("none", 3_875, vec![], S::BadArgumentsMissing),
        ("no item", 12_912, vec![own], S::BadArgumentsMissing),
        ("an item that is not there", 12_912, vec![own, 99], S::BadMonitoredItemIdInvalid),
        ("on another object", 11_492, vec![own], S::BadMethodInvalid),
    ] {
        world.reached.clear();
        let response: CallResponse = world.ask(one, refresh(method, arguments)).unwrap();
        assert_eq!(response.results.unwrap()[0].status_code, expected, "{rule}");
        assert!(world.at_plant(CALL).is_empty(), "{rule}");
    }
    for (method, arguments) in [(3_875, vec![own]), (12_912, vec![own, items[0].monitored_item_id])] {
        world.reached.clear();
        let count = arguments.len();
        let _: CallResponse = world.ask(one, refresh(method, arguments)).unwrap();
        let reached = world.at_plant(CALL);
        let sent = field::<CallMethodRequest>(&reached[0]).remove(0).input_arguments.unwrap();
        assert_eq!(sent.len(), count);
        assert!(upstream.iter().any(|id| sent[0] == Variant::from(*id)), "{sent:?} {upstream:?}");
        assert!(!upstream.contains(&own), "{upstream:?}");
    }
}

#[test]
fn what_is_told_of_moves_does_not_pile_up() {
    let mut world = World::new();
    let _seen = obliging(&mut world);
    let all = vec![(Rights::ALL, 1)];
    let (one, other) = (named(&mut world, "alice", all.clone()), named(&mut world, "alice", all));
    let (subscription, _) = subscribe(&mut world, one, &["Setpoint"]);
    for round in 0..20 {
        let to = if round % 2 == 0 { other } else { one };
        assert_eq!(transfer(&mut world, to, &[subscription]).unwrap()[0].0, StatusCode::Good, "{round}");
        let kept: usize = world.guard.links.values().map(|link| link.subs.farewells()).sum();
        assert_eq!(kept, 1, "{round}");
    }
}

#[test]
fn a_subscription_moves_to_the_same_user_and_application_only() {
    use StatusCode as S;
    let mut world = World::new();
    let seen = obliging(&mut world);
    let all = vec![(Rights::ALL, 1)];
    let old = named(&mut world, "alice", all.clone());
    let (subscription, _) = subscribe(&mut world, old, &["Setpoint"]);
    let call = publish(&mut world, old, &[]);
    world.pass(SECOND * 2);
    assert_eq!(told(&mut world, old, call).unwrap(), (1, vec![(100, "20".to_owned())]));
    let waiting = publish(&mut world, old, &[]);

    let (bob, stranger) = (named(&mut world, "bob", all.clone()), world.client());
    for (rule, client) in [("another user", bob), ("nobody", stranger)] {
        let results = transfer(&mut world, client, &[subscription, 999]).unwrap();
        let expected = [(S::BadUserAccessDenied, vec![]), (S::BadSubscriptionIdInvalid, vec![])];
        assert_eq!(results, expected, "{rule}");
    }
    assert!(seen.borrow().is_empty(), "the server sees one user and was not asked");

    let new = named(&mut world, "alice", all);
    // Of its own, so that the plant has something to say to it.
    subscribe(&mut world, new, &["Secret"]);
    let results = transfer(&mut world, new, &[subscription, subscription]).unwrap();
    let expected = [(S::Good, vec![1]), (S::BadSubscriptionIdInvalid, vec![])];
    assert_eq!(results, expected, "with the guard's own numbers");
    let response = PublishResponse::try_from(world.answer(old, waiting).unwrap().unwrap()).unwrap();
    let data = response.notification_message.notification_data.unwrap();
    let status = data[0].inner_as::<StatusChangeNotification>().unwrap().status;
    assert_eq!(status, S::GoodSubscriptionTransferred);
    let again = RepublishRequest {
        subscription_id: subscription,
        retransmit_sequence_number: 1,
        ..RepublishRequest::default()
    };
    let refused: Result<RepublishResponse, _> = world.ask(old, again.clone());
    assert_eq!(refused.unwrap_err(), S::BadSubscriptionIdInvalid, "it is no longer the old session's");
    let response: RepublishResponse = world.ask(new, again).unwrap();
    assert_eq!(response.notification_message.sequence_number, 1);

    // The plant has not really moved it: what it sends to the old session goes where the subscription is.
    let call = publish(&mut world, new, &[(subscription, 1)]);
    set(&mut world, "Setpoint", 30.0);
    world.pass(SECOND * 2);
    assert_eq!(told(&mut world, new, call).unwrap(), (2, vec![(100, "30".to_owned())]), "and no number is missing");
}

/// The server tells the session that it took a subscription from, before or after it answers the other one.
#[test]
fn what_the_server_says_of_a_move_ends_no_subscription() {
    use StatusCode as S;
    for early in [true, false] {
        let mut world = World::new();
        let _seen = obliging(&mut world);
        let all = vec![(Rights::ALL, 1)];
        let (old, new) = (named(&mut world, "alice", all.clone()), named(&mut world, "alice", all));
        let (subscription, _) = subscribe(&mut world, old, &["Setpoint"]);
        let first = publish(&mut world, old, &[]);
        world.pass(SECOND * 2);
        assert!(told(&mut world, old, first).is_some());
        let waiting = publish(&mut world, old, &[]);
        let sessions = world.guard.links.iter().filter_map(|(owner, link)| match owner {
            Owner::Session(key) => Some((*key, link.subs.all_upstream())),
            _ => None,
        });
        let (key, upstream) = sessions.into_iter().find(|(_, upstream)| !upstream.is_empty()).unwrap();
        let upstream = upstream[0];
        // The plant does not really move it, and must have something to say to the new session.
        subscribe(&mut world, new, &["Secret"]);
        let body = body_of(&TransferSubscriptionsRequest {
            subscription_ids: Some(vec![subscription]),
            send_initial_values: true,
            ..TransferSubscriptionsRequest::default()
        });
        world.hold = early;
        let call = world.send(new, Request::Raw(RawRequest::new(TRANSFER.0, TRANSFER.1, body)));
        world.run();
        let status = StatusChangeNotification {
            status: S::GoodSubscriptionTransferred,
            diagnostic_info: DiagnosticInfo::default(),
        };
        let message = NotificationMessage {
            sequence_number: 2,
            publish_time: DateTime::now(),
            notification_data: Some(vec![ExtensionObject::from_message(status)]),
        };
        let owned = ContextOwned::default();
        let context = owned.context();
        let mut body = upstream.to_le_bytes().to_vec();
        body.extend([0, 0, 0, 0, 0]);
        body.extend(message.encode_to_vec(&context));
        body.extend([0; 8]);
        let mut link = world.guard.links.remove(&Owner::Session(key)).unwrap();
        world.guard.message_came_unasked(key, &mut link, &body, world.now);
        // And says to its next request that there is nothing left.
        let nothing = Err(S::BadNoSubscription);
        world.guard.own_answered(key, &mut link, Own::Publish(u64::MAX), nothing, world.now);
        world.guard.put_back(Owner::Session(key), link, world.now);
        world.release();
        assert!(world.answer(new, call).unwrap().is_ok(), "early: {early}");
        let response = PublishResponse::try_from(world.answer(old, waiting).unwrap().unwrap()).unwrap();
        let data = response.notification_message.notification_data.unwrap();
        let status = data[0].inner_as::<StatusChangeNotification>().unwrap().status;
        assert_eq!(status, S::GoodSubscriptionTransferred, "early: {early}");
        let call = publish(&mut world, new, &[]);
        set(&mut world, "Setpoint", 30.0);
        world.pass(SECOND * 2);
        assert_eq!(told(&mut world, new, call).unwrap().1, [(100, "30".to_owned())], "early: {early}");
    }
}

/// A server may answer the requests of before only after it has made another subscription.
#[test]
fn a_late_word_that_there_is_no_subscription_says_nothing_about_newer_ones() {
    use StatusCode as S;
    for (made, expected) in [(0, None), (1, Some(S::BadTimeout))] {
        let mut world = World::new();
        let client = named(&mut world, "alice", vec![(Rights::ALL, 1)]);
        subscribe(&mut world, client, &["Setpoint"]);
        let waiting = publish(&mut world, client, &[]);
        let owner = world.guard.links.keys().find(|owner| matches!(owner, Owner::Session(_))).copied().unwrap();
        let Owner::Session(key) = owner else { unreachable!() };
        let mut link = world.guard.links.remove(&owner).unwrap();
        world.guard.own_answered(key, &mut link, Own::Publish(made), Err(S::BadNoSubscription), world.now);
        world.guard.put_back(owner, link, world.now);
        world.pass(SECOND * 2);
        let response = PublishResponse::try_from(world.answer(client, waiting).unwrap().unwrap()).unwrap();
        let data = response.notification_message.notification_data.unwrap();
        let ended = data[0].inner_as::<StatusChangeNotification>().map(|change| change.status);
        assert_eq!(ended, expected, "sent when {made} had been made");
    }
}

#[test]
fn what_moves_is_held_to_the_rights_of_the_session_it_moves_to() {
    let mut world = World::new();
    let _seen = obliging(&mut world);
    let old = named(&mut world, "alice", vec![(Rights::ALL, 1)]);
    let (subscription, _) = subscribe(&mut world, old, &["Setpoint"]);
    let call = publish(&mut world, old, &[]);
    world.pass(SECOND * 2);
    assert!(told(&mut world, old, call).is_some());
    let _waiting = publish(&mut world, old, &[]);
    let new = named(&mut world, "alice", vec![(Rights::BROWSE, 1)]);
    assert_eq!(transfer(&mut world, new, &[subscription]).unwrap()[0].0, StatusCode::Good);
    let again = RepublishRequest {
        subscription_id: subscription,
        retransmit_sequence_number: 1,
        ..RepublishRequest::default()
    };
    let refused: Result<RepublishResponse, _> = world.ask(new, again);
    assert_eq!(refused.unwrap_err(), StatusCode::BadMessageNotAvailable, "a message that was sent before");
    let call = publish(&mut world, new, &[]);
    set(&mut world, "Setpoint", 31.0);
    world.pass(SECOND * 3);
    let denied = StatusCode::BadUserAccessDenied.to_string();
    assert_eq!(told(&mut world, new, call).unwrap().1, [(100, denied)]);
}

#[test]
fn requests_that_wait_can_be_called_back() {
    let mut world = World::new();
    let client = world.client();
    subscribe(&mut world, client, &["Setpoint"]);
    let first = publish(&mut world, client, &[]);
    world.pass(SECOND * 2);
    assert!(told(&mut world, client, first).is_some());
    let waiting = publish(&mut world, client, &[]);
    world.hold = true;
    let reading = world.send(client, read(&["Setpoint"]));
    let mut cancelled = 0;
    for handle in 0_u32..200 {
        let asked = world.send(
            client,
            crate::client::Request::Raw(crate::client::RawRequest::new(
                CANCEL.0,
                CANCEL.1,
                handle.to_le_bytes().to_vec(),
            )),
        );
        if let Some(Ok(crate::client::Response::Raw(body))) = world.answer(client, asked) {
            cancelled += u32::from_le_bytes(body[..4].try_into().unwrap());
        }
    }
    assert_eq!(cancelled, 2);
    for call in [waiting, reading] {
        assert_eq!(world.answer(client, call).unwrap().unwrap_err(), StatusCode::BadRequestCancelledByClient);
    }
    world.release();
    let response: ReadResponse = world.ask(client, read(&["Setpoint"])).unwrap();
    assert_eq!(response.results.unwrap()[0].status(), StatusCode::Good);
}

fn server_method(method: u32, argument: Variant) -> CallRequest {
    let one = CallMethodRequest {
        object_id: NodeId::new(0, 2253_u32),
        method_id: NodeId::new(0, method),
        input_arguments: Some(vec![argument]),
    };
    CallRequest { methods_to_call: Some(vec![one]), ..CallRequest::default() }
}

#[test]
fn what_is_monitored_is_told_from_the_guards_own_books() {
    use StatusCode as S;
    let mut world = World::new();
    let (client, other) = (world.client(), world.client());
    // The server numbers things differently.
    subscribe(&mut world, other, &["Setpoint", "Note"]);
    let (subscription, items) = subscribe(&mut world, client, &["Setpoint", "Speed"]);
    let ids: Vec<u32> = items.iter().map(|item| item.monitored_item_id).collect();
    world.reached.clear();
    let response: CallResponse = world.ask(client, server_method(11_492, subscription.into())).unwrap();
    let result = response.results.unwrap().remove(0);
    let expected = vec![Variant::from(ids), Variant::from(vec![100_u32, 101])];
    assert_eq!((result.status_code, result.output_arguments), (S::Good, Some(expected)));
    for (rule, argument, expected) in [
        ("not its own", Variant::from(subscription - 1), S::BadSubscriptionIdInvalid),
        ("of another type", Variant::from("x"), S::BadInvalidArgument),
    ] {
        for method in [11_492, 12_873] {
            let response: CallResponse = world.ask(client, server_method(method, argument.clone())).unwrap();
            assert_eq!(response.results.unwrap()[0].status_code, expected, "{rule}");
        }
    }
    assert!(world.at_plant(ObjectId::CallRequest_Encoding_DefaultBinary).is_empty());
}

#[test]
fn values_come_again_when_they_are_asked_for() {
    let mut world = World::new();
    let client = world.client();
    let (subscription, _) = subscribe(&mut world, client, &["Setpoint", "Speed"]);
    let calls = [publish(&mut world, client, &[]), publish(&mut world, client, &[])];
    world.pass(SECOND * 3);
    let first: usize =
        calls.into_iter().filter_map(|call| told(&mut world, client, call)).map(|told| told.1.len()).sum();
    assert_eq!(first, 2, "a value and a denial");
    let call = publish(&mut world, client, &[]);
    let response: CallResponse = world.ask(client, server_method(12_873, subscription.into())).unwrap();
    assert_eq!(response.results.unwrap()[0].status_code, StatusCode::Good);
    world.pass(SECOND * 2);
    let values = [call].into_iter().chain(calls).find_map(|call| told(&mut world, client, call)).unwrap().1;
    assert_eq!(values, [(100, "20".to_owned())], "of what may be read, and of nothing else");
}

#[test]
fn while_publishing_is_off_nothing_is_told() {
    let mut world = World::new();
    let client = world.client();
    let (subscription, _) = subscribe(&mut world, client, &["Setpoint"]);
    let first = publish(&mut world, client, &[]);
    world.pass(SECOND * 2);
    assert!(told(&mut world, client, first).is_some());
    let mode = |publishing_enabled| SetPublishingModeRequest {
        publishing_enabled,
        subscription_ids: Some(vec![subscription, 999]),
        ..SetPublishingModeRequest::default()
    };
    let response: SetPublishingModeResponse = world.ask(client, mode(false)).unwrap();
    use StatusCode as S;
    assert_eq!(response.results, Some(vec![S::Good, S::BadSubscriptionIdInvalid]));
    let call = publish(&mut world, client, &[]);
    set(&mut world, "Setpoint", 40.0);
    world.pass(SECOND * 3);
    assert!(told(&mut world, client, call).is_none());
    let _: SetPublishingModeResponse = world.ask(client, mode(true)).unwrap();
    world.pass(SECOND * 2);
    assert_eq!(told(&mut world, client, call).unwrap().1, [(100, "40".to_owned())]);
}

#[test]
fn what_is_the_guards_own_is_so_in_notifications_too() {
    let mut world = World::new();
    let client = world.client();
    let (subscription, _) = subscribe(&mut world, client, &["Note"]);
    let item = |node_id: NodeId, attribute_id: AttributeId, client_handle| MonitoredItemCreateRequest {
        item_to_monitor: ReadValueId { attribute_id: attribute_id as u32, ..value_of(node_id) },
        monitoring_mode: MonitoringMode::Reporting,
        requested_parameters: MonitoringParameters { client_handle, queue_size: 1, ..MonitoringParameters::default() },
    };
    let request = CreateMonitoredItemsRequest {
        subscription_id: subscription,
        timestamps_to_return: TimestampsToReturn::Neither,
        items_to_create: Some(vec![
            item(NodeId::new(0, 2254_u32), AttributeId::Value, 1),
            item(id("Speed"), AttributeId::UserAccessLevel, 2),
        ]),
        ..CreateMonitoredItemsRequest::default()
    };
    let _: CreateMonitoredItemsResponse = world.ask(client, request).unwrap();
    let calls = [publish(&mut world, client, &[]), publish(&mut world, client, &[])];
    world.pass(SECOND * 3);
    let mut seen: Vec<(u32, String)> =
        calls.into_iter().filter_map(|call| told(&mut world, client, call)).flat_map(|told| told.1).collect();
    seen.sort();
    let own = Variant::from(vec!["urn:test:guard".to_owned()]).to_string();
    assert_eq!(seen[..2], [(1, own), (2, "0".to_owned())]);
}

fn banded(name: &str, kind: u32, client_handle: u32) -> MonitoredItemCreateRequest {
    let filter =
        DataChangeFilter { trigger: DataChangeTrigger::StatusValue, deadband_type: kind, deadband_value: 10.0 };
    MonitoredItemCreateRequest {
        item_to_monitor: value_of(id(name)),
        monitoring_mode: MonitoringMode::Reporting,
        requested_parameters: MonitoringParameters {
            client_handle,
            filter: ExtensionObject::from_message(filter),
            queue_size: 1,
            ..MonitoringParameters::default()
        },
    }
}

#[test]
fn a_percent_deadband_takes_a_range_that_may_be_read() {
    use StatusCode as S;
    let mut world = World::with(|config| {
        let entry = |scope, prefix: &str| ScopeEntry {
            scope: ScopeIndex(scope),
            namespace: PLANT.into(),
            rule: ScopeRule::Prefix(prefix.into()),
        };
        config.rules.entries.extend([entry(1, "Open range."), entry(2, "Closed range."), entry(3, "Hidden range.")]);
    });
    for (node, range) in [("Setpoint", "Open"), ("Pressure", "Closed"), ("Samples", "Hidden")] {
        let space = world.plant.space_mut();
        let parent = space.find(&id(node)).unwrap();
        let value = Variant::ExtensionObject(ExtensionObject::from_message(Range { low: 0.0, high: 100.0 }));
        let own = Some(id(&format!("{range} range.{node}")));
        let property = NewVariable::property(parent, own, "EURange", value, ScopeIndex(1));
        let property = NewVariable { name_namespace: Some(0), data_type: ns0::find_numeric(884), ..property };
        space.add_variable(property).unwrap();
    }
    let client = world.client();
    let (subscription_id, items) = subscribe(&mut world, client, &["Pressure", "Setpoint"]);
    let (percent, absolute, refused) = (2, 1, S::BadMonitoredItemFilterUnsupported);
    let asked = [
        ("Setpoint", percent, S::Good),
        ("Pressure", percent, refused),
        ("Samples", percent, refused),
        ("Note", percent, refused),
        ("Secret", percent, S::BadNodeIdUnknown),
        ("Pressure", absolute, S::Good),
    ];
    let request = CreateMonitoredItemsRequest {
        subscription_id,
        timestamps_to_return: TimestampsToReturn::Neither,
        items_to_create: Some(asked.iter().map(|(name, kind, _)| banded(name, *kind, 0)).collect()),
        ..CreateMonitoredItemsRequest::default()
    };
    let response: CreateMonitoredItemsResponse = world.ask(client, request).unwrap();
    let statuses: Vec<StatusCode> = response.results.unwrap().iter().map(|result| result.status_code).collect();
    assert_eq!(statuses, asked.map(|(_, _, expected)| expected));
    let change = |at: usize, name: &str| MonitoredItemModifyRequest {
        monitored_item_id: items[at].monitored_item_id,
        requested_parameters: banded(name, percent, 9).requested_parameters,
    };
    let request = ModifyMonitoredItemsRequest {
        subscription_id,
        timestamps_to_return: TimestampsToReturn::Neither,
        items_to_modify: Some(vec![change(0, "Pressure"), change(1, "Setpoint")]),
        ..ModifyMonitoredItemsRequest::default()
    };
    let response: ModifyMonitoredItemsResponse = world.ask(client, request).unwrap();
    let statuses: Vec<StatusCode> = response.results.unwrap().iter().map(|result| result.status_code).collect();
    assert_eq!(statuses, [refused, S::Good]);
}

#[test]
fn between_sessions_that_share_one_upstream_a_subscription_moves_without_the_server() {
    let mut world = World::with(|config| config.pool = Sharing::Always);
    let all = vec![(Rights::ALL, 1)];
    let (old, new) = (named(&mut world, "alice", all.clone()), named(&mut world, "alice", all));
    let (subscription, _) = subscribe(&mut world, old, &["Setpoint"]);
    let call = publish(&mut world, old, &[]);
    world.pass(SECOND * 2);
    assert_eq!(told(&mut world, old, call).unwrap(), (1, vec![(100, "20".to_owned())]));
    let results = transfer(&mut world, new, &[subscription]).unwrap();
    assert_eq!(results, [(StatusCode::Good, vec![1])], "the plant knows no TransferSubscriptions");
    let call = publish(&mut world, new, &[]);
    set(&mut world, "Setpoint", 32.0);
    world.pass(SECOND * 2);
    assert_eq!(told(&mut world, new, call).unwrap(), (2, vec![(100, "32".to_owned())]));
    let last = publish(&mut world, old, &[]);
    assert!(world.answer(old, last).is_some(), "the old session is told, and has nothing to wait for");
}

//! TransferSubscriptions, SetTriggering and the methods about subscriptions, with the gate of a whole server.

use std::time::Duration;

use access_model::{AuditKind, Outcome, Reason, Rights, ScopeMap};
use opcua_types::*;

use super::world::*;
use crate::server::ConnId;

const TICK: Duration = Duration::from_millis(150);

fn transfer(world: &mut World, conn: ConnId, login: &Login, id: u32) -> StatusCode {
    let request = TransferSubscriptionsRequest {
        request_header: world.header(&login.token),
        subscription_ids: Some(vec![id]),
        send_initial_values: true,
    };
    let response: TransferSubscriptionsResponse = world.ask(conn, &request).unwrap();
    response.results.unwrap().remove(0).status_code
}

fn published(world: &mut World, conn: ConnId, login: &Login) -> Option<PublishResponse> {
    let request = world.publish(conn, login);
    world.pass(TICK);
    world.answer::<PublishResponse>(conn, request).map(Result::unwrap)
}

#[test]
fn only_the_owner_may_take_a_subscription_over() {
    let (good, denied) = (StatusCode::Good, StatusCode::BadUserAccessDenied);
    let rows = [
        ("the same user on an equal channel", ENCRYPT, "alice", ENCRYPT, "alice", good, None),
        ("another user", ENCRYPT, "alice", ENCRYPT, "bob", denied, Some(Reason::NoGrant)),
        (
            "a channel that only signs",
            ENCRYPT,
            "alice",
            SIGN,
            "alice",
            StatusCode::BadSecurityModeInsufficient,
            Some(Reason::ChannelTooWeak),
        ),
        ("a stronger channel", SIGN, "alice", ENCRYPT, "alice", good, None),
    ];
    for (rule, security, user, to_security, to_user, expected, reason) in rows {
        let mut world = World::new();
        let (conn, login) = world.log_in(security, user);
        world.subscribe(conn, &login, &["Setpoint"]);
        let (other, taker) = world.log_in(to_security, to_user);
        assert_eq!(transfer(&mut world, other, &taker, 1), expected, "{rule}");
        let outcomes = world.outcomes(AuditKind::Notify);
        match reason {
            Some(reason) => assert!(outcomes.contains(&Outcome::Denied(reason)), "{rule}: {outcomes:?}"),
            None => assert!(outcomes.contains(&Outcome::Allowed), "{rule}: {outcomes:?}"),
        }
        let told = published(&mut world, conn, &login).unwrap();
        let parts = told.notification_message.notification_data.unwrap();
        let moved = parts.iter().find_map(|part| part.inner_as::<StatusChangeNotification>());
        let status = moved.map(|change| change.status);
        assert_eq!(status, expected.is_good().then_some(StatusCode::GoodSubscriptionTransferred), "{rule}");
        if expected.is_good() {
            let request = world.publish(other, &taker);
            world.pass(TICK);
            assert_eq!(world.notified(other, request).unwrap(), [(0, Ok(Variant::from(20.0)))], "{rule}");
        }
    }
}

#[test]
fn what_nobody_has_cannot_be_taken() {
    let mut world = World::new();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    assert_eq!(transfer(&mut world, conn, &login, 77), StatusCode::BadSubscriptionIdInvalid);
    world.subscribe(conn, &login, &["Setpoint"]);
    assert_eq!(transfer(&mut world, conn, &login, 1), StatusCode::Good, "it is the session's own already");
}

/// The same user may hold less in the new session: a token that was narrowed, another role.
#[test]
fn what_the_new_grant_does_not_cover_is_not_sent() {
    let mut world = World::new();
    let wide = world.token(Duration::from_secs(600));
    let (conn, login) = world.log_in_by_token(&wide);
    world.subscribe(conn, &login, &["Setpoint"]);
    let first = world.publish(conn, &login);
    world.pass(TICK);
    assert!(world.notified(conn, first).is_some());
    let map = token::map_digest(&ScopeMap::new(SCOPES).unwrap());
    let mut claims = world.claims(Duration::from_secs(600));
    claims.rights = Some(token::RightsClaim::new(map, [(Rights::BROWSE, vec![1])]));
    let narrow = token::mint(&claims, &super::keys::ISSUER).unwrap();
    let (other, taker) = world.log_in_by_token(&narrow);
    assert_eq!(transfer(&mut world, other, &taker, 1), StatusCode::Good);
    let request = world.publish(other, &taker);
    world.pass(TICK);
    assert_eq!(world.notified(other, request).unwrap(), [(0, Err(StatusCode::BadUserAccessDenied))]);
    let request = RepublishRequest {
        request_header: world.header(&taker.token),
        subscription_id: 1,
        retransmit_sequence_number: 1,
    };
    let again: Result<RepublishResponse, StatusCode> = world.ask(other, &request);
    assert_eq!(again.err(), Some(StatusCode::BadMessageNotAvailable));
}

#[test]
fn a_link_gives_no_right() {
    let mut world = World::new();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    let ids: Vec<u32> =
        world.subscribe(conn, &login, &["Setpoint", "Speed"]).iter().map(|item| item.monitored_item_id).collect();
    let mode = SetMonitoringModeRequest {
        request_header: world.header(&login.token),
        subscription_id: 1,
        monitoring_mode: MonitoringMode::Sampling,
        monitored_item_ids: Some(vec![ids[1]]),
    };
    let _: SetMonitoringModeResponse = world.ask(conn, &mode).unwrap();
    let link = SetTriggeringRequest {
        request_header: world.header(&login.token),
        subscription_id: 1,
        triggering_item_id: ids[0],
        links_to_add: Some(vec![ids[1], 99]),
        links_to_remove: None,
    };
    let linked: SetTriggeringResponse = world.ask(conn, &link).unwrap();
    assert_eq!(linked.add_results, Some(vec![StatusCode::Good, StatusCode::BadMonitoredItemIdInvalid]));
    world.set("Speed", Variant::from(8_i32));
    world.set("Setpoint", Variant::from(30.0));
    let request = world.publish(conn, &login);
    world.pass(TICK);
    let seen = world.notified(conn, request).unwrap();
    assert!(
        seen.iter().all(|(handle, value)| *handle == 0 || *value == Err(StatusCode::BadUserAccessDenied)),
        "{seen:?}"
    );
}

#[test]
fn methods_about_subscriptions_answer_for_the_sessions_own() {
    let mut world = World::new();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    let (other, stranger) = world.log_in(ENCRYPT, "bob");
    let ids: Vec<u32> =
        world.subscribe(conn, &login, &["Setpoint"]).iter().map(|item| item.monitored_item_id).collect();
    let array = |values: Vec<u32>| Variant::from(values);
    let unknown = StatusCode::BadSubscriptionIdInvalid;
    let (items, resend) = (11_492_u32, 12_873_u32);
    let one = || vec![Variant::UInt32(1)];
    type Expected = Result<Vec<Variant>, StatusCode>;
    type Row<'a> = (&'a str, (ConnId, &'a Login), u32, Vec<Variant>, Expected);
    let rows: [Row<'_>; 7] = [
        ("its items", (conn, &login), items, one(), Ok(vec![array(ids), array(vec![0])])),
        ("of another session", (other, &stranger), items, one(), Err(unknown)),
        ("again", (conn, &login), resend, one(), Ok(vec![])),
        ("again for another", (other, &stranger), resend, one(), Err(unknown)),
        ("no argument", (conn, &login), resend, vec![], Err(StatusCode::BadArgumentsMissing)),
        ("another type", (conn, &login), resend, vec![Variant::from("1")], Err(StatusCode::BadInvalidArgument)),
        ("too many", (conn, &login), items, vec![Variant::UInt32(1); 2], Err(StatusCode::BadTooManyArguments)),
    ];
    for (rule, (conn, login), method, inputs, expected) in rows {
        let request = CallRequest {
            request_header: world.header(&login.token),
            methods_to_call: Some(vec![CallMethodRequest {
                object_id: ObjectId::Server.into(),
                method_id: NodeId::new(0, method),
                input_arguments: Some(inputs),
            }]),
        };
        let response: CallResponse = world.ask(conn, &request).unwrap();
        let result = response.results.unwrap().remove(0);
        let seen = if result.status_code.is_good() {
            Ok(result.output_arguments.unwrap_or_default())
        } else {
            Err(result.status_code)
        };
        assert_eq!(seen, expected, "{rule}");
    }
    assert!(world.invoked.is_empty(), "the application is not asked");
}

//! A second person: asked about one change, good for that change of that principal, once, for a while, at one gate.

use access_model::{Now, TwoPersons};
use pep::{Asking, Consent, FailMode, Gate, GateEvent, GrantId, LocalGrant, LocalScopes, Who};
use token::control::{Approved, Update};

use crate::common::*;

const CHANGE: [u8; 32] = [1; 32];
const OTHER: [u8; 32] = [2; 32];

fn terms() -> Vec<TwoPersons> {
    vec![TwoPersons { role: "lead".into(), within: seconds(300) }]
}

fn ask(gate: &mut Gate, grant: GrantId, digest: [u8; 32], now: Now) -> Consent {
    gate.consent(&Asking { grant, digest, terms: &terms(), change: "write 5 to Speed" }, now)
}

fn waits(consent: Consent) -> String {
    match consent {
        Consent::Waits { id } => id,
        other => panic!("{other:?}"),
    }
}

fn gate(authority: &Authority, run: u8) -> (Gate, GrantId) {
    let mut gate = authority.listening(FailMode::LastKnownGood(seconds(100_000)));
    gate.set_run([run; 8]);
    let claims = token::Claims { expires: start().unix + seconds(9_000), ..claims("a", start()) };
    let grant = gate.present(&authority.token(&claims), &binding(), start()).unwrap();
    (gate, grant)
}

fn approved(id: &str, by: &str, now: Now) -> Vec<Approved> {
    vec![Approved { id: id.into(), by: by.into(), expires: now.unix + seconds(300) }]
}

fn tell(gate: &mut Gate, authority: &Authority, epoch: u64, approved: Vec<Approved>, now: Now) {
    gate.on_update(&authority.seal(&Update { approved, ..delta(epoch, now) }), now).unwrap();
}

#[test]
fn what_was_approved_passes_once_and_nothing_else_does() {
    let authority = Authority::new();
    let (mut gate, grant) = gate(&authority, 7);
    let now = start();
    let id = waits(ask(&mut gate, grant, CHANGE, now));
    assert_eq!(id, "0707070707070707-1");
    assert_eq!(events(&mut gate), [GateEvent::Question]);
    let question = gate.poll_question().unwrap();
    assert_eq!((question.subject.as_str(), question.client.as_deref()), ("maria", Some("urn:hmi")));
    assert_eq!((question.id.as_str(), question.roles.as_slice()), (id.as_str(), ["lead".to_owned()].as_slice()));
    assert_eq!(waits(ask(&mut gate, grant, CHANGE, now)), id, "the same again is the same question");
    assert_eq!(events(&mut gate), [], "and nobody is asked for the second time at once");
    tell(&mut gate, &authority, 2, approved(&id, "bert", now), now);
    assert_ne!(waits(ask(&mut gate, grant, OTHER, now)), id, "another value");
    assert_eq!(ask(&mut gate, grant, CHANGE, now), Consent::Given { id: id.clone(), by: "bert".into() });
    assert_ne!(waits(ask(&mut gate, grant, CHANGE, now)), id, "used up");
    // The same update once more, and the full list that still names it.
    let full = Update { approved: approved(&id, "bert", now), ..full(3, now) };
    gate.on_update(&authority.seal(&full), now).unwrap();
    waits(ask(&mut gate, grant, CHANGE, now));
}

#[test]
fn an_approval_is_for_one_principal_at_one_gate() {
    let authority = Authority::new();
    let (mut one, grant) = gate(&authority, 1);
    let (mut other, elsewhere) = gate(&authority, 2);
    let now = start();
    let id = waits(ask(&mut one, grant, CHANGE, now));
    waits(ask(&mut other, elsewhere, CHANGE, now));
    let second = token::Claims { subject: "paul".into(), ..claims("b", now) };
    let paul = one.present(&authority.token(&second), &binding(), now).unwrap();
    for gate in [&mut one, &mut other] {
        tell(gate, &authority, 2, approved(&id, "bert", now), now);
    }
    waits(ask(&mut other, elsewhere, CHANGE, now));
    waits(ask(&mut one, paul, CHANGE, now));
    // Another session of the same principal is the same principal.
    let again = one.present(&authority.token(&claims("c", now)), &binding(), now).unwrap();
    assert_eq!(ask(&mut one, again, CHANGE, now), Consent::Given { id, by: "bert".into() });
}

#[test]
fn nobody_approves_of_own_changes_and_time_ends_questions_and_answers() {
    let authority = Authority::new();
    let (mut gate, grant) = gate(&authority, 7);
    let now = start();
    let id = waits(ask(&mut gate, grant, CHANGE, now));
    tell(&mut gate, &authority, 2, approved(&id, "maria", now), now);
    assert_eq!(waits(ask(&mut gate, grant, CHANGE, now)), id);
    // An answer that comes when the question is over.
    let late = now.after(seconds(300));
    tell(&mut gate, &authority, 3, approved(&id, "bert", late), late);
    let second = waits(ask(&mut gate, grant, CHANGE, late));
    assert_ne!(second, id);
    // An answer that is not used in time.
    tell(&mut gate, &authority, 4, approved(&second, "bert", late), late);
    let later = late.after(seconds(300));
    tell(&mut gate, &authority, 5, Vec::new(), later);
    assert_ne!(waits(ask(&mut gate, grant, CHANGE, later)), second);
}

#[test]
fn a_revoked_grant_takes_its_questions_and_answers_with_it() {
    let authority = Authority::new();
    let (mut gate, grant) = gate(&authority, 7);
    let now = start();
    let id = waits(ask(&mut gate, grant, CHANGE, now));
    tell(&mut gate, &authority, 2, approved(&id, "bert", now), now);
    let update = Update { revoked: vec![revocation("a", now)], ..delta(3, now) };
    gate.on_update(&authority.seal(&update), now).unwrap();
    let fresh = gate.present(&authority.token(&claims("b", now)), &binding(), now).unwrap();
    assert_ne!(waits(ask(&mut gate, fresh, CHANGE, now)), id);
}

#[test]
fn words_that_are_too_many_are_cut_where_everybody_sees_it() {
    let authority = Authority::new();
    let cut = format!("… (cut, digest {})", "01".repeat(32));
    for (rule, words, whole) in [
        ("just fits", "x".repeat(512), true),
        ("one more", "x".repeat(513), false),
        ("within a letter", "é".repeat(300), false),
    ] {
        let (mut gate, grant) = gate(&authority, 7);
        gate.consent(&Asking { grant, digest: CHANGE, terms: &terms(), change: &words }, start());
        let shown = gate.poll_question().unwrap().change;
        assert_eq!((shown == words, shown.ends_with(&cut)), (whole, !whole), "{rule}: {shown}");
        assert!(shown.len() <= 512 && words.starts_with(shown.trim_end_matches(&cut)), "{rule}: {shown}");
    }
}

#[test]
fn what_was_approved_under_other_terms_is_asked_anew() {
    let authority = Authority::new();
    let (mut gate, grant) = gate(&authority, 7);
    let now = start();
    let id = waits(ask(&mut gate, grant, CHANGE, now));
    tell(&mut gate, &authority, 2, approved(&id, "bert", now), now);
    let stricter = [TwoPersons { role: "administrator".into(), within: seconds(300) }];
    let asking = Asking { grant, digest: CHANGE, terms: &stricter, change: "write 5 to Speed" };
    assert_ne!(waits(gate.consent(&asking, now)), id);
}

#[test]
fn a_session_that_closes_before_it_is_revoked_loses_its_approvals_as_well() {
    let authority = Authority::new();
    let now = start();
    for (rule, revoked, stays) in
        [("nobody", vec![], true), ("asked under it", vec!["a"], false), ("came back under it", vec!["b"], false)]
    {
        let (mut gate, grant) = gate(&authority, 7);
        let id = waits(ask(&mut gate, grant, CHANGE, now));
        tell(&mut gate, &authority, 2, approved(&id, "bert", now), now);
        gate.release(grant);
        let back = gate.present(&authority.token(&claims("b", now)), &binding(), now).unwrap();
        gate.release(back);
        let revoked = revoked.into_iter().map(|token| revocation(token, now)).collect();
        gate.on_update(&authority.seal(&Update { revoked, ..delta(3, now) }), now).unwrap();
        let fresh = gate.present(&authority.token(&claims("c", now)), &binding(), now).unwrap();
        let given = Consent::Given { id, by: "bert".into() };
        assert_eq!(ask(&mut gate, fresh, CHANGE, now) == given, stays, "{rule}");
    }
}

#[test]
fn a_full_list_that_does_not_name_it_takes_an_approval_back() {
    let authority = Authority::new();
    let (mut gate, grant) = gate(&authority, 7);
    let now = start();
    let id = waits(ask(&mut gate, grant, CHANGE, now));
    tell(&mut gate, &authority, 2, approved(&id, "bert", now), now);
    gate.on_update(&authority.seal(&full(3, now)), now).unwrap();
    assert_eq!(waits(ask(&mut gate, grant, CHANGE, now)), id, "the authority was started anew");
    // An answer behind a gap does not count either.
    let gap = Update { approved: approved(&id, "bert", now), ..delta(9, now) };
    gate.on_update(&authority.seal(&gap), now).unwrap();
    assert_eq!(waits(ask(&mut gate, grant, CHANGE, now)), id);
}

#[test]
fn the_authority_is_asked_again_after_a_while_and_not_at_each_attempt() {
    let authority = Authority::new();
    let (mut gate, grant) = gate(&authority, 7);
    let now = start();
    for (after, asked) in [(0, true), (1, false), (9, false), (10, true), (11, false), (20, true)] {
        waits(ask(&mut gate, grant, CHANGE, now.after(seconds(after))));
        let questions = std::iter::from_fn(|| gate.poll_question()).count();
        assert_eq!(questions, usize::from(asked), "after {after} s");
    }
}

#[test]
fn a_flood_of_questions_ends_at_a_bound_of_its_principal() {
    let authority = Authority::new();
    let (mut gate, grant) = gate(&authority, 7);
    let now = start();
    let said = |gate: &mut Gate, grant, number: u8| ask(gate, grant, [number; 32], now);
    for number in 0..8 {
        waits(said(&mut gate, grant, number));
    }
    assert!(matches!(said(&mut gate, grant, 8), Consent::Never(_)));
    waits(said(&mut gate, grant, 0));
    let second = token::Claims { subject: "paul".into(), ..claims("b", now) };
    let paul = gate.present(&authority.token(&second), &binding(), now).unwrap();
    waits(said(&mut gate, paul, 8));
}

#[test]
fn who_is_nobody_in_particular_has_no_second_person() {
    let authority = Authority::new();
    let (mut gate, _) = gate(&authority, 7);
    let now = start();
    let guest = token::Claims { subject: "anonymous@press".into(), ..claims("b", now) };
    let guest = gate.present(&authority.token(&guest), &binding(), now).unwrap();
    assert!(matches!(ask(&mut gate, guest, CHANGE, now), Consent::Never(_)));
    // Whom the authority calls otherwise may approve of what they ask.
    let stranger = token::Claims { issuer: FOREIGN.into(), confirmation: None, ..claims("c", now) };
    let stranger = gate.present(&authority.token(&stranger), &binding(), now).unwrap();
    assert!(matches!(ask(&mut gate, stranger, CHANGE, now), Consent::Never(_)), "a name of another issuer");
    assert_eq!(gate.poll_question(), None);
    let everything = LocalGrant {
        who: Who::Anonymous,
        require_encryption: false,
        roles: Vec::new(),
        rights: vec![(access_model::Rights::ALL, LocalScopes::All)],
    };
    let config = pep::GateConfig { local: vec![everything], ..authority.config() };
    let mut alone = Gate::new(config, now).unwrap();
    let grant = alone.present(&authority.token(&claims("a", now)), &binding(), now).unwrap();
    assert_eq!(ask(&mut alone, grant, CHANGE, now), Consent::Never("this gate has no authority to ask"));
    alone.release(grant);
    assert!(matches!(ask(&mut alone, grant, CHANGE, now), Consent::Never(_)), "a grant that is gone");
}

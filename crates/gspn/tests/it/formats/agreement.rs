//! When a transition of PNML fires: what the net says, and what a file of rates beside it does.

use gspn::Class;
use gspn::formats::{Format, read};
use gspn::json;
use gspn::net::Net;

use super::net;

/// One transition `t` with `said` in the net and `entry` in the file of rates, if that is not empty; and another, `u`.
fn with(said: &str, entry: &str) -> Result<Net, gspn::Refusal> {
    two(said, entry, "<timed><value>true</value></timed><rate><value>1</value></rate>", "")
}

fn two(said: &str, entry: &str, other: &str, its_entry: &str) -> Result<Net, gspn::Refusal> {
    let text = format!(
        r#"<pnml><net id="n"><place id="p"><initialMarking><text>1</text></initialMarking></place><transition id="t">{said}</transition>
        <transition id="u">{other}</transition><arc source="p" target="t"/><arc source="t" target="p"/><arc source="p" target="u"/></net></pnml>"#
    );
    let entries = [("t", entry), ("u", its_entry)];
    let entries =
        entries.iter().filter(|(_, entry)| !entry.is_empty()).map(|(name, entry)| format!("\"{name}\": {entry}"));
    let rates = json::read_rates(format!("{{{}}}", entries.collect::<Vec<_>>().join(", ")).as_bytes()).unwrap();
    read(text.as_bytes(), Format::Pnml, &rates).map(|document| document.net)
}

fn element(key: &str, value: &str) -> String {
    format!("<{key}><value>{value}</value></{key}>")
}

const ONE: &str = "2";
const TWO: &str = r#"{"kind": "timed", "rate": 2, "servers": 2}"#;
const MANY: &str = r#"{"kind": "timed", "rate": 2, "servers": "inf"}"#;
const TABLE: &str = r#"{"kind": "timed", "rate_by_tokens": {"place": "p", "rates": [0, 3]}}"#;
const FIXED: &str = r#"{"kind": "deterministic", "delay": 2}"#;
const AT_ONCE: &str = r#"{"kind": "immediate"}"#;
const SECOND: &str = r#"{"kind": "immediate", "priority": 2}"#;

#[test]
fn servers_and_priorities_of_the_net_agree_with_the_file_of_rates() {
    let infinite = |text: &str| element("infiniteServer", text);
    let priority = |text: &str| element("priority", text);
    let saved = infinite("false") + &priority("1");
    for (said, entry) in [
        (String::new(), MANY),
        (infinite("true"), MANY),
        (infinite("false"), ONE),
        (infinite("false"), TABLE),
        (infinite("false"), FIXED),
        (priority("2"), SECOND),
        // PIPE writes both everywhere, and heeds the priority among immediates and the servers among timed ones only.
        (saved.clone(), ONE),
        (saved.clone(), AT_ONCE),
        (saved.clone(), FIXED),
        (infinite("true") + &priority("3"), MANY),
        (infinite("true") + &priority("1"), AT_ONCE),
    ] {
        assert_eq!(with(&said, entry), with("", entry), "{said} {entry}");
    }
    for (said, entry, words) in [
        (
            infinite("true"),
            ONE,
            "`infiniteServer` is `true`, and by the file of rates it has one server, as without `servers`: say `\"servers\": \"inf\"` there",
        ),
        (infinite("true"), TWO, "it has 2 servers"),
        (infinite("false"), TWO, "it has 2 servers: say `\"servers\": 1` there"),
        (infinite("false"), MANY, "is `false`, and by the file of rates it has infinitely many servers"),
        (infinite("true"), TABLE, "it has one server"),
        (infinite("true"), FIXED, "a time that has one server: take `infiniteServer` out of the net"),
        (
            priority("3"),
            AT_ONCE,
            "`priority` is `3`, and by the file of rates it is 1, as without `priority`: say `\"priority\": 3` there",
        ),
        (saved, SECOND, "`priority` is `1`, and by the file of rates it is 2"),
    ] {
        let refusal = with(&said, entry).unwrap_err();
        assert_eq!((refusal.class, refusal.name.as_str()), (Class::Invalid, "t"), "{refusal}");
        assert!(refusal.why.contains(words) && refusal.why.contains("out of the net"), "{refusal}");
    }
}

/// As in files that say it all, only which priority is larger counts: they may begin at 0.
#[test]
fn priorities_that_begin_at_0_agree_with_those_beside_that_begin_at_1() {
    let [lowest, next] = ["0", "1"].map(|text| element("priority", text));
    assert!(two(&lowest, AT_ONCE, &next, SECOND).is_ok());
    assert!(two(&lowest, AT_ONCE, "", SECOND).is_ok());
    assert!(two(&lowest, AT_ONCE, &next, ONE).is_ok());
    // Where the lowest is timed, it is no priority.
    assert!(two(&lowest, ONE, &next, AT_ONCE).is_ok());
    let refusal = two(&lowest, AT_ONCE, &next, AT_ONCE).unwrap_err();
    assert!(refusal.name == "u" && refusal.why.contains("say `\"priority\": 2` there"), "{refusal}");
    // One says it in the net, and the other beside it.
    let inside = element("timed", "false") + &lowest;
    assert!(two(&inside, "", &next, SECOND).is_ok());
    assert_eq!(two(&inside, "", &next, AT_ONCE).unwrap_err().name, "u");
}

#[test]
fn a_rate_without_timed_is_told_what_to_write() {
    let rate = element("rate", "2");
    for (said, entry) in [(rate.clone(), ""), (rate.clone(), ONE), (rate + &element("priority", "1"), AT_ONCE)] {
        let refusal = with(&said, entry).unwrap_err();
        assert_eq!((refusal.class, refusal.name.as_str()), (Class::Invalid, "t"), "{refusal}");
        let why = &refusal.why;
        assert!(why.contains("`timed` is missing") && why.contains("`<timed><value>true</value></timed>`"), "{why}");
        assert!(why.contains("exponential") && why.contains("`false`") && why.contains("immediate"), "{why}");
        assert_eq!(why.contains("out of the file of rates"), !entry.is_empty(), "{why}");
    }
    let both = element("rate", "2") + &element("timed", "true");
    assert!(with(&both, ONE).unwrap_err().why.contains("a rate is given beside the net, which has one for it"));
    let wanted = net(r#"{"name": "n", "net": {"places": [{"name": "p", "tokens": 1}], "transitions": [
        {"name": "t", "kind": "timed", "rate": 2, "in": {"p": 1}, "out": {"p": 1}},
        {"name": "u", "kind": "timed", "rate": 1, "in": {"p": 1}}]}}"#);
    assert_eq!(with(&both, ""), Ok(wanted));
}

#[test]
fn a_rate_that_no_number_holds_is_quoted_as_the_file_has_it() {
    for (text, words) in [
        ("1e999", "`rate` is `1e999`: too large"),
        ("1e-400", "`rate` is `1e-400`: too small"),
        ("0.00", "`rate` is `0.00`: above 0 and finite"),
        ("-1.50", "`rate` is `-1.50`: above 0 and finite"),
        ("inf", "`rate` is `inf`: above 0 and finite"),
        ("NaN", "`rate` is `NaN`: above 0 and finite"),
        ("fast", "`rate` is `fast`, and a number is wanted"),
    ] {
        for timed in ["true", "false"] {
            let refusal = with(&(element("rate", text) + &element("timed", timed)), "").unwrap_err();
            assert_eq!((refusal.class, refusal.name.as_str()), (Class::Invalid, "t"), "{refusal}");
            assert!(refusal.why.contains(words), "{refusal}");
        }
    }
}

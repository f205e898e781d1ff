//! PNPRO and eDSPN by attribute: numbers that mean something else to the GreatSPN editor, and which attribute has one that is none.

use gspn::Class;
use gspn::formats::{Format, write};

use super::{EDSPN, PNPRO, foreign, net};

fn refused(file: &str, good: &str, bad: &str) -> (Class, String, String) {
    assert!(file.contains(good), "{good}");
    let refusal = foreign(&file.replacen(good, bad, 1)).expect_err(bad);
    (refusal.class, refusal.name.clone(), refusal.why)
}

/// The lexer of GreatSPN has no number without a point before its exponent.
#[test]
fn a_number_of_pnpro_has_a_point_before_its_exponent() {
    let net = net(r#"{"name": "n", "net": {"places": [{"name": "p", "tokens": 1}], "transitions": [
        {"name": "a", "kind": "timed", "rate": 1e-6, "in": {"p": 1}},
        {"name": "b", "kind": "immediate", "weight": 1e16, "in": {"p": 1}},
        {"name": "c", "kind": "deterministic", "delay": 2e-7, "in": {"p": 1}},
        {"name": "d", "kind": "phase", "erlang": {"k": 2, "rate": 3e21}, "in": {"p": 1}},
        {"name": "e", "kind": "timed", "rate": 1.5e-9, "in": {"p": 1}},
        {"name": "f", "kind": "timed", "rate": 2, "in": {"p": 1}}]}}"#);
    let text = write(&net, Format::Pnpro).unwrap();
    for number in [
        r#"delay="1.0e-6""#,
        r#"weight="1.0e16""#,
        r#"delay="I[2.0e-7]""#,
        r#"delay="Erlang[3.0e21, 2]""#,
        r#"delay="1.5e-9""#,
        r#"delay="2.0""#,
    ] {
        assert!(text.contains(number), "{number}: {text}");
    }
    assert_eq!(foreign(&text), Ok(net));
}

/// All in a parenthesis being whole, GreatSPN drops the remainder; and it has a sign in front of all that follows.
#[test]
fn what_greatspn_works_out_otherwise_is_refused_with_what_to_write_instead() {
    let rate = r#"delay="mu*2""#;
    // N is 3, and an INTEGER; mu is 1/4, and none.
    for (bad, words) in [
        (r#"delay="(N/2)*1.0""#, "where all is whole, as in `(N/2)`:"),
        (r#"delay="(7/2)""#, "or the divisor with a point, as `2.0` (its `delay`)"),
        (r#"delay="2.0*((N+2)/(N-1))""#, "where all is whole, as in `((N+2)/(N-1))`:"),
        (r#"delay="-2+5""#, "as `(-2)+5` (its `delay`)"),
        (r#"delay="2*-mu+5""#, "as `(-2)+5` (its `delay`)"),
        (r#"delay="20/-2*-5""#, "as `8/(-2)*4` (its `delay`)"),
        (r#"delay="1-2/-4*8""#, "as `8/(-2)*4` (its `delay`)"),
        (r#"delay="2" nservers="N/2*2""#, "where all is whole, as in `N/2*2`:"),
    ] {
        let (class, name, why) = refused(PNPRO, rate, bad);
        assert!(class == Class::Invalid && name == "start" && why.contains(words), "{bad}: {why}");
    }
    for good in ["N/6", "(N/6.0)", "(mu*2/1)", "(mu/(N-1))*4", "((N+1)/2)/4", "0.5+(N-3)", "(-2)+2.5", "0.5*(-1)*(-1)"]
    {
        let read = foreign(&PNPRO.replacen(rate, &format!(r#"delay="{good}""#), 1));
        assert_eq!(read, foreign(PNPRO), "{good}");
    }
    let (class, name, why) = refused(PNPRO, r#"marking="2*N""#, r#"marking="N/2*4""#);
    assert!(class == Class::Invalid && name == "idle" && why.ends_with("(its `marking`)"), "{why}");
    let (class, name, why) = refused(PNPRO, r#"name="N" value="3""#, r#"name="N" value="7/2*2""#);
    assert!(class == Class::Invalid && name == "N" && why.contains("where all is whole, as in `7/2*2`:"), "{why}");
    let (class, name, why) = refused(PNPRO, r#"delay="I[mu]""#, r#"delay="I[(N/2)]""#);
    assert!(class == Class::Invalid && name == "clock" && why.contains("where all is whole, as in `(N/2)`:"), "{why}");
    // TimeNET works out as this program does.
    for text in ["(K/8)*8.0", "-2+6", "8/-2*-1"] {
        assert_eq!(foreign(&EDSPN.replace(r#"delay="4.0""#, &format!(r#"delay="{text}""#))), foreign(EDSPN), "{text}");
    }
}

/// The editor wants a function there, and calls a number none.
#[test]
fn a_general_time_of_pnpro_that_is_a_number_is_told_what_to_write() {
    let fixed = r#"delay="I[mu]""#;
    for (bad, words) in [
        (r#"delay="2""#, "write `I[2]` for a fixed time (its `delay`)"),
        (r#"delay=" mu*2 ""#, "write `I[mu*2]`"),
        ("", "write `delay=\"I[1.0]\"`"),
    ] {
        let (class, name, why) = refused(PNPRO, fixed, bad);
        assert!(class == Class::Invalid && name == "clock" && why.contains(words), "{bad}: {why}");
    }
    assert!(foreign(&PNPRO.replacen(fixed, r#"delay="Erlang[1.0, 10000]""#, 1)).is_ok());
    let (class, name, why) = refused(PNPRO, fixed, r#"delay="Erlang[1.0, 10001]""#);
    assert!(class == Class::TooLarge && name == "clock" && why.contains("10001 phases: at most 10000"), "{why}");
    let (class, name, why) = refused(PNPRO, fixed, r#"delay="two""#);
    assert!(
        class == Class::Unsupported && name == "clock" && why.contains("its time `two` is not understood"),
        "{why}"
    );
}

/// The editor has it in attributes, but for the bends of an arc and words on the drawing.
#[test]
fn what_stands_in_the_elements_of_pnpro_is_refused_by_name() {
    for (good, bad, name, words) in [
        (
            r#"<place name="busy" x="14.0" y="5.0"/>"#,
            r#"<place name="busy"><capacity>3</capacity></place>"#,
            "busy",
            "line 8: the element `capacity` in its `place`",
        ),
        (r#" x="3.0" y="9.0"/>"#, "><guard>x = y</guard></transition>", "clock", "`guard` in its `transition`"),
        (r#"value="1/4" x="1.0" y="3.0"/>"#, r#"value="1/4">8</constant>"#, "mu", "the text `8`"),
        (
            r#"<arc head="end" kind="INPUT" tail="busy"/>"#,
            r#"<arc head="end" kind="INPUT" tail="busy"><mult>2</mult></arc>"#,
            "busy",
            "`mult` in its `arc`",
        ),
        (r#"<point x="1.0" y="2.0"/>"#, r#"<point x="1.0" y="2.0">3</point>"#, "start", "the text `3`"),
        ("</nodes>", "lost</nodes>", "nodes", "the text `lost`"),
        ("</edges>", "lost</edges>", "edges", "the text `lost`"),
        ("</gspn>", "lost</gspn>", "line", "the text `lost`"),
        ("</gspn>", "<initial/></gspn>", "initial", "`initial` in a net"),
        ("</gspn>", "</gspn>lost", "project", "the text `lost`"),
        ("</gspn>", "</gspn><marking/>", "marking", "`marking` in a project"),
    ] {
        let (_, named, why) = refused(PNPRO, good, bad);
        assert!(named == name && why.starts_with("line ") && why.contains(words), "{named}: {why}");
    }
    let words = r#"<text-box name="b" x="1.0" y="1.0">Words.</text-box></nodes>"#;
    let pages = "</gspn><dta/><algebra/><algebra2/><unfolding/><multinet/><resource-list/>";
    assert_eq!(foreign(&PNPRO.replace("</nodes>", words).replace("</gspn>", pages)), foreign(PNPRO));
}

#[test]
fn what_stands_in_the_elements_of_timenet_is_refused_by_name() {
    for (good, bad, name, words) in [
        (r#"toNode="0.4" type="connector"/>"#, r#"toNode="0.4" type="inhibitor"/>"#, "0.8", "`type` (`inhibitor`)"),
        (r#"initialMarking="0" type="node">"#, r#"initialMarking="0" type="buffer">"#, "Used", "`type` (`buffer`)"),
        (r#"initialMarking="0" type="node">"#, r#"initialMarking="0" type="node">3"#, "Used", "the text `3`"),
        (r#"toNode="0.4" type="connector"/>"#, r#"toNode="0.4" type="connector">2</arc>"#, "0.8", "the text `2`"),
        (
            r#"text="2" type="inscriptionText"/>"#,
            r#"text="2" type="inscriptionText">3</inscription>"#,
            "0.6",
            "the text `3`",
        ),
        (r#"name="K" type="text"/>"#, r#"name="K" type="text">3</definition>"#, "K", "the text `3`"),
        ("</net>", "lost</net>", "net", "the text `lost`"),
        (
            "<measure ",
            r#"<generalTransition timeFunction="DET(2)" id="0.12"/><measure "#,
            "0.12",
            "the time `DET(2)` of",
        ),
        ("<measure ", r#"<generalTransition id="0.12"/><measure "#, "0.12", "the time of a general transition"),
    ] {
        let (_, named, why) = refused(EDSPN, good, bad);
        assert!(named == name && why.contains(words), "{named}: {why}");
    }
}

/// Neither grammar has a plus in front of a number.
#[test]
fn a_plus_in_front_of_a_number_is_refused_everywhere() {
    for (file, good, bad, name) in [
        (PNPRO, r#"marking="2*N""#, r#"marking="+1""#, "idle"),
        (PNPRO, r#"nservers="N""#, r#"nservers="+1""#, "end"),
        (PNPRO, r#"priority="2""#, r#"priority="+1""#, "now"),
        (PNPRO, r#"delay="mu*2""#, r#"delay="+1""#, "start"),
        (PNPRO, r#"mult="2" tail="end""#, r#"mult="+1" tail="end""#, "end"),
        (EDSPN, r#"initialMarking="K""#, r#"initialMarking="+1""#, "Free"),
        (EDSPN, r#"delay="4.0""#, r#"delay="+1""#, "take"),
    ] {
        let (class, named, why) = refused(file, good, bad);
        assert!(class == Class::Invalid && named == name && why.starts_with("`+1` is not a number"), "{bad}: {why}");
    }
}

#[test]
fn an_expression_that_fails_names_its_attribute() {
    for (file, good, bad, name, end) in [
        (PNPRO, r#"delay="mu*2""#, r#"delay="mu*nu""#, "start", "there is no constant `nu` (its `delay`)"),
        (PNPRO, r#"nservers="N""#, r#"nservers="N/4.0""#, "end", "(its `nservers`)"),
        (
            PNPRO,
            r#"nservers="N""#,
            r#"nservers="N-N""#,
            "end",
            "its `nservers` is 0: a whole number from 1, or `Infinite`",
        ),
        (PNPRO, r#"nservers="N""#, r#"nservers="inf""#, "end", "(its `nservers`)"),
        (PNPRO, r#"weight="0.5""#, r#"weight="""#, "now", "(its `weight`)"),
        (PNPRO, r#"priority="2""#, r#"priority="high""#, "now", "(its `priority`)"),
        (PNPRO, r#"marking="2*N""#, r#"marking="2N""#, "idle", "(its `marking`)"),
        (PNPRO, r#"delay="I[mu]""#, r#"delay="I[mu*]""#, "clock", "(its `delay`)"),
        (PNPRO, r#"mult="2" tail="end""#, r#"mult="M" tail="end""#, "end", "(the multiplicity of its arc to `idle`)"),
        (EDSPN, r#"delay="4.0""#, r#"delay="4.0*""#, "take", "(its `delay`)"),
        (EDSPN, r#"delay="2.5""#, r#"delay="L""#, "give", "(its `delay`)"),
        (EDSPN, r#"weight="2.0""#, r#"weight="two""#, "skip", "(its `weight`)"),
        (EDSPN, r#"priority="3""#, r#"priority="3.5""#, "skip", "(its `priority`)"),
        (EDSPN, r#"initialMarking="K""#, r#"initialMarking="k""#, "Free", "(its `initialMarking`)"),
        (EDSPN, r#"text="2" type"#, r#"text="1/2" type"#, "0.6", "(its `inscription`)"),
    ] {
        let (class, named, why) = refused(file, good, bad);
        assert!(class == Class::Invalid && named == name && why.ends_with(end), "{bad}: {why}");
    }
}

/// `Infinite` is a word of the format; a constant may be called anything else.
#[test]
fn servers_by_a_constant_that_is_called_inf_are_as_many_as_it_says() {
    for name in ["inf", "infinite", "IS"] {
        let text = PNPRO.replace(r#""N""#, &format!(r#""{name}""#)).replace("2*N", &format!("2*{name}"));
        assert_eq!(foreign(&text), foreign(PNPRO), "{name}");
    }
}

#[test]
fn an_arc_of_pnpro_leads_where_its_kind_says() {
    for (good, bad, name, words) in [
        (
            r#"head="start" kind="INPUT""#,
            r#"head="start" kind="OUTPUT""#,
            "idle",
            "its arc to `start` is of kind `OUTPUT`, which leads from a transition to a place: write `INPUT`",
        ),
        (
            r#"head="busy" kind="OUTPUT""#,
            r#"head="busy" kind="INPUT""#,
            "start",
            "its arc to `busy` is of kind `INPUT`, which leads from a place to a transition: write `OUTPUT`",
        ),
    ] {
        let (class, named, why) = refused(PNPRO, good, bad);
        assert!(class == Class::Invalid && named == name && why.contains(words), "{why}");
    }
}

#[test]
fn a_name_that_pnpro_has_not_is_told_how_names_begin() {
    for (name, writable) in [("1st", false), ("two words", false), ("_first", true), ("a_1", true)] {
        let net = net(&format!(r#"{{"net": {{"places": [{{"name": "{name}"}}], "transitions": []}}}}"#));
        match write(&net, Format::Pnpro) {
            Ok(_) => assert!(writable, "{name}"),
            Err(refusal) => assert!(!writable && refusal.why.contains("begin with a letter or `_`"), "{refusal}"),
        }
    }
}

//! What other tools write, read as the tool means it.

use gspn::Class;
use gspn::formats::{Format, read};
use gspn::json;
use gspn::net::{Kind, Transition};

use super::{EDSPN, ISO, PIPE, PNPRO, foreign, net};

#[test]
fn a_project_of_the_greatspn_editor() {
    // The delay of an exponential transition is its rate, 1 where none is written; without servers there are infinitely many.
    let wanted =
        net(r#"{"name": "line", "net": {"places": [{"name": "idle", "tokens": 6}, {"name": "busy"}], "transitions": [
        {"name": "start", "kind": "timed", "rate": 0.5, "servers": "inf", "in": {"idle": 2}, "out": {"busy": 1}},
        {"name": "end", "kind": "timed", "rate": 1, "servers": 3, "in": {"busy": 1}, "out": {"idle": 2}},
        {"name": "now", "kind": "immediate", "weight": 0.5, "priority": 2, "in": {"busy": 1}, "inhibit": {"idle": 3}},
        {"name": "clock", "kind": "deterministic", "delay": 0.25, "in": {"idle": 1}, "out": {"idle": 1}}]}}"#);
    assert_eq!(foreign(PNPRO), Ok(wanted));
}

#[test]
fn pnml_as_pipe_and_storm_write_it() {
    let wanted = net(
        r#"{"name": "Net-One", "net": {"places": [{"name": "wait", "tokens": 2}, {"name": "work"}], "transitions": [
        {"name": "go", "kind": "timed", "rate": 2.5, "servers": "inf", "in": {"wait": 1}, "out": {"work": 2}},
        {"name": "drop", "kind": "immediate", "weight": 3, "priority": 4, "in": {"work": 1}, "inhibit": {"wait": 2}}]}}"#,
    );
    assert_eq!(foreign(PIPE), Ok(wanted));
    let said = PIPE.replace(r#"source="P1""#, r#"type="normal" source="P1""#);
    assert_eq!(foreign(&said), foreign(PIPE), "an arc of which it is said that it is one like others");
    // Where two are called the same, all are called by their ids.
    let ids = foreign(&PIPE.replace("<value>work</value>", "<value>wait</value>")).unwrap();
    assert_eq!((ids.places()[0].name.as_str(), ids.transitions()[1].name.as_str()), ("P0", "T1"));
}

#[test]
fn a_comment_in_the_midst_of_a_text_is_no_part_of_it() {
    for (from, to) in [
        ("<value>2.5</value>", "<value>2.<!-- no end -->5</value>"),
        ("<value>wait</value>", "<value>wa<?tool x?>it</value>"),
        ("<value>Default,2</value><graphics>", "<value>Default,<!-- two -->2</value><graphics>"),
        ("<value>0</value></initialMarking>", "<value></value></initialMarking>"),
    ] {
        assert!(PIPE.contains(from), "{from}");
        assert_eq!(foreign(&PIPE.replace(from, to)), foreign(PIPE), "{to}");
    }
}

#[test]
fn what_is_said_twice_is_refused() {
    for (from, owner, what) in [
        ("<initialMarking><value>0</value></initialMarking>", "P1", "`initialMarking` stands twice in `place`"),
        ("<rate><value>2.5</value></rate>", "T0", "`rate` stands twice in `transition`"),
        ("<timed><value>false</value></timed>", "T1", "`timed` stands twice in `transition`"),
        (r#"<type value="inhibition"/>"#, "stop", "`type` stands twice in `arc`"),
        ("<inscription><value>1</value></inscription>", "P1 to T1", "`inscription` stands twice in `arc`"),
        ("<value>work</value>", "P1", "`name` has two values"),
    ] {
        assert!(PIPE.contains(from), "{from}");
        let refusal = foreign(&PIPE.replace(from, &from.repeat(2))).unwrap_err();
        assert_eq!((refusal.class, refusal.name.as_str(), refusal.why.as_str()), (Class::Invalid, owner, what));
    }
}

/// Only which of two is larger counts.
#[test]
fn priorities_of_pnml_may_begin_at_0() {
    let with = |priorities: [&str; 2]| {
        let [one, other] = priorities.map(|priority| {
            let priority = if priority.is_empty() {
                String::new()
            } else {
                format!("<priority><value>{priority}</value></priority>")
            };
            format!("<timed><value>false</value></timed>{priority}")
        });
        let text = format!(
            r#"<pnml><net id="n"><place id="p"/><transition id="t">{one}</transition><transition id="u">{other}</transition></net></pnml>"#
        );
        let priority = |it: &Transition| match it.kind {
            Kind::Immediate { priority, .. } => priority,
            _ => panic!("{it:?}"),
        };
        foreign(&text).unwrap().transitions().iter().map(priority).collect::<Vec<_>>()
    };
    assert_eq!(with(["0", "1"]), [1, 2]);
    assert_eq!(with(["0", ""]), [1, 2]);
    assert_eq!(with(["0", "0"]), [1, 1]);
    assert_eq!(with(["1", "3"]), [1, 3]);
}

#[test]
fn pnml_of_the_standard_has_its_rates_beside_it() {
    let with = |rates: &str| {
        let rates = json::read_rates(rates.as_bytes()).unwrap();
        read(ISO.as_bytes(), Format::Pnml, &rates).map(|document| document.net)
    };
    let wanted = net(
        r#"{"name": "Ring", "net": {"places": [{"name": "A", "tokens": 1}, {"name": "B"}], "transitions": [
        {"name": "T", "kind": "timed", "rate": 2, "in": {"A": 1}, "out": {"B": 1}},
        {"name": "U", "kind": "timed", "rate_by_tokens": {"place": "B", "rates": [0, 3]}, "in": {"B": 1}, "out": {"A": 1}}]}}"#,
    );
    let table = r#"{"kind": "timed", "rate_by_tokens": {"place": "B", "rates": [0, 3]}}"#;
    assert_eq!(with(&format!(r#"{{"T": 2, "U": {table}}}"#)), Ok(wanted));
    for (rates, name) in [
        (r#"{"T": 2}"#, "U"),
        (r#"{"T": 2, "U": 0}"#, "U"),
        (r#"{"T": 2, "U": 1, "V": 1}"#, "V"),
        (r#"{"T": 2, "U": {"rate": 1}}"#, "U"),
    ] {
        assert_eq!(
            with(rates).map_err(|refusal| (refusal.class, refusal.name)),
            Err((Class::Invalid, name.to_owned())),
            "{rates}"
        );
    }
}

/// Who gives rates by names has to be told that ids are the names, and why.
#[test]
fn a_transition_without_an_entry_in_the_file_of_rates_is_told_of_its_name() {
    let told = |text: &str, rates: &str| {
        let rates = json::read_rates(rates.as_bytes()).unwrap();
        let refusal = read(text.as_bytes(), Format::Pnml, &rates).unwrap_err();
        assert_eq!(refusal.class, Class::Invalid);
        (refusal.name, refusal.why)
    };
    let (nameless, twice) = (ISO.replace("<name><text>B</text></name>", ""), ISO.replace(">B<", ">A<"));
    for (text, rates, name, end) in [
        (ISO, "{}", "T", ": give a file of rates beside it that has an entry for it"),
        (ISO, r#"{"T": 1}"#, "U", ", and the file of rates has no entry for it"),
        (
            &nameless,
            r#"{"T": 1, "U": 1}"#,
            "t",
            "no entry for it: ids are the names here, as the place `b` has no name",
        ),
        (&twice, r#"{"T": 1, "U": 1}"#, "t", "ids are the names here, as two nodes are called `A`"),
    ] {
        let (named, why) = told(text, rates);
        assert!(named == name && why.ends_with(end), "{named}: {why}");
    }
}

#[test]
fn an_arc_of_timenet_has_one_inscription() {
    let one = r#"<inscription id="0.7.0" text="1" type="inscriptionText"/>"#;
    assert!(EDSPN.contains(one));
    let refusal = foreign(&EDSPN.replace(one, &one.repeat(2))).unwrap_err();
    assert_eq!((refusal.class, refusal.why.as_str()), (Class::Invalid, "`inscription` stands twice in `arc`"));
}

#[test]
fn an_edspn_of_timenet() {
    let wanted = net(
        r#"{"name": "0", "net": {"places": [{"name": "Free", "tokens": 4}, {"name": "Used"}], "transitions": [
        {"name": "take", "kind": "timed", "rate": 0.25, "servers": "inf", "in": {"Free": 1}, "out": {"Used": 2}},
        {"name": "give", "kind": "deterministic", "delay": 2.5, "in": {"Used": 1}},
        {"name": "skip", "kind": "immediate", "weight": 2, "priority": 3, "in": {"Used": 1}, "inhibit": {"Free": 4}}]}}"#,
    );
    assert_eq!(foreign(EDSPN).as_ref(), Ok(&wanted));
    let powers = EDSPN.replace(r#"expression="2*2""#, r#"expression="2^2""#).replace("4.0", "K^(3-1)/4");
    assert_eq!(foreign(&powers).as_ref(), Ok(&wanted));
    // What other versions save besides, and what says nothing.
    let more = EDSPN
        .replace(
            r#"initialMarking="0""#,
            r#"capacity="0" initialMarking="0" queue="Random" watch="false" tokentype="""#,
        )
        .replace(r#"delay="2.5""#, r#"delay="2.5" specType="Automatic" takeFirst="false""#);
    assert_ne!(more, EDSPN);
    assert_eq!(foreign(&more), Ok(wanted));
}

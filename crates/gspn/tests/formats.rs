//! Nets of other tools: what is read means what that tool means, what is written is read back as the same net, and what cannot be
//! said is refused by name.

use gspn::formats::{Format, read, write};
use gspn::json;
use gspn::net::{Arc, Kind, Net, Phase, Place, Rate, Servers, Transition, build};
use gspn::{Class, Refusal};
use proptest::prelude::*;

fn net(text: &str) -> Net {
    json::read(text.as_bytes()).unwrap().net
}

fn foreign(text: &str) -> Result<Net, Refusal> {
    let format = Format::of(text.as_bytes()).expect("a known root element");
    read(text.as_bytes(), format, &[]).map(|document| document.net)
}

const PNPRO: &str = r#"<?xml version="1.0" encoding="UTF-8" standalone="no"?>
<!-- This project file has been saved by the New GreatSPN Editor, v.100 --><project name="New Project" version="121">
  <gspn name="line" show-color-cmd="false" show-fluid-cmd="false">
    <nodes>
      <constant consttype="INTEGER" name="N" value="3" x="1.0" y="1.0"/>
      <constant consttype="REAL" name="mu" value="1/4" x="1.0" y="3.0"/>
      <place label-y="-2.0" marking="2*N" name="idle" x="4.0" y="5.0"/>
      <place name="busy" x="14.0" y="5.0"/>
      <transition name="start" nservers-x="0.5" type="EXP" delay="mu*2" x="9.5" y="4.0"/>
      <transition name="end" nservers="N" type="EXP" x="9.5" y="7.0" delay-x="1.0" rotation="1.5"/>
      <transition name="now" priority="2" type="IMM" weight="0.5" x="12.0" y="9.0"/>
      <transition name="clock" type="GEN" delay="I[mu]" nservers="1" x="3.0" y="9.0"/>
    </nodes>
    <edges>
      <arc head="start" kind="INPUT" mult="2" tail="idle"/>
      <arc head="busy" kind="OUTPUT" tail="start"><point x="1.0" y="2.0"/></arc>
      <arc head="end" kind="INPUT" tail="busy"/>
      <arc head="idle" kind="OUTPUT" mult="2" tail="end"/>
      <arc head="now" kind="INHIBITOR" mult="N" tail="idle"/>
      <arc head="now" kind="INPUT" tail="busy"/>
      <arc head="clock" kind="INPUT" tail="idle"/>
      <arc head="idle" kind="OUTPUT" tail="clock"/>
    </edges>
  </gspn>
  <measures gspn-name="line" name="Measures" simplified-UI="false"/>
</project>"#;

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

const PIPE: &str = r#"<?xml version="1.0" encoding="iso-8859-1"?>
<pnml><net id="Net-One" type="P/T net">
<token id="Default" enabled="true" red="0" green="0" blue="0"/>
<place id="P0"><graphics><position x="150.0" y="105.0"/></graphics><name><value>wait</value><graphics/></name>
  <initialMarking><value>Default,2</value><graphics><offset x="0.0" y="0.0"/></graphics></initialMarking>
  <capacity><value>0</value></capacity></place>
<place id="P1"><name><value>work</value></name><initialMarking><value>0</value></initialMarking></place>
<transition id="T0"><name><value>go</value></name><orientation><value>0</value></orientation><rate><value>2.5</value></rate>
  <timed><value>true</value></timed><infiniteServer><value>true</value></infiniteServer><priority><value>1</value></priority></transition>
<transition id="T1"><name><value>drop</value></name><rate><value>3</value></rate><timed><value>false</value></timed>
  <priority><text>4</text></priority></transition>
<arc id="P0 to T0" source="P0" target="T0"><graphics/><inscription><value>Default,1</value><graphics/></inscription>
  <tagged><value>false</value></tagged><arcpath id="000" x="1" y="2" curvePoint="false"/><type value="normal"/></arc>
<arc id="T0 to P1" source="T0" target="P1"><inscription><value>Default,2</value></inscription></arc>
<arc id="P1 to T1" source="P1" target="T1"><inscription><value>1</value></inscription></arc>
<arc id="stop" source="P0" target="T1"><inscription><value>Default,2</value></inscription><type value="inhibition"/></arc>
</net></pnml>"#;

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

const ISO: &str = r#"<?xml version="1.0"?>
<pnml xmlns="http://www.pnml.org/version-2009/grammar/pnml">
  <net id="ring" type="http://www.pnml.org/version-2009/grammar/ptnet"><name><text>Ring</text></name><page id="page">
    <place id="a"><name><text>A</text></name><initialMarking><text>1</text></initialMarking></place>
    <place id="b"><name><text>B</text></name></place>
    <page id="inner"><transition id="t"><name><text>T</text></name></transition></page>
    <transition id="u"><name><text>U</text></name></transition>
    <arc id="1" source="a" target="t"/><arc id="2" source="t" target="b"/>
    <arc id="3" source="b" target="u"><inscription><text>1</text></inscription></arc><arc id="4" source="u" target="a"/>
    <toolspecific tool="nupn" version="1.1"><size places="2" transitions="2" arcs="4"/></toolspecific>
  </page></net></pnml>"#;

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

const EDSPN: &str = r#"<?xml version="1.0" encoding="UTF-8" standalone="no"?>
<net xmlns="http://pdv.cs.tu-berlin.de/TimeNET/schema/eDSPN" id="0" netclass="eDSPN"
  xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="http://pdv.cs.tu-berlin.de/TimeNET/schema/eDSPN etc/schemas/eDSPN.xsd">
  <place id="0.0" initialMarking="K" type="node"><graphics orientation="0" x="100" y="100"/>
    <label id="0.0.0" text="Free" type="text"><graphics x="-10" y="-40"/></label></place>
  <place id="0.1" initialMarking="0" type="node"><label id="0.1.0" text="Used" type="text"/></place>
  <exponentialTransition DTSPNpriority="1" delay="4.0" id="0.2" preemptionPolicy="PRD" serverType="InfiniteServer" type="node">
    <label id="0.2.0" text="take" type="text"/></exponentialTransition>
  <deterministicTransition DTSPNpriority="1" delay="2.5" id="0.3" preemptionPolicy="PRD" serverType="ExclusiveServer" type="node">
    <label id="0.3.0" text="give" type="text"/></deterministicTransition>
  <immediateTransition enablingFunction="" id="0.4" priority="3" serverType="ExclusiveServer" type="node" weight="2.0">
    <label id="0.4.0" text="skip" type="text"/></immediateTransition>
  <arc fromNode="0.0" id="0.5" toNode="0.2" type="connector"><inscription id="0.5.0" text="1" type="inscriptionText"/></arc>
  <arc fromNode="0.2" id="0.6" toNode="0.1" type="connector"><inscription id="0.6.0" text="2" type="inscriptionText"/></arc>
  <arc fromNode="0.1" id="0.7" toNode="0.3" type="connector"><inscription id="0.7.0" text="1" type="inscriptionText"/></arc>
  <arc fromNode="0.1" id="0.8" toNode="0.4" type="connector"/>
  <inhibit fromNode="0.0" id="0.9" toNode="0.4" type="connector"><inscription id="0.9.0" text="K" type="inscriptionText"/></inhibit>
  <definition defType="int" expression="2*2" id="0.10" name="K" type="text"/>
  <measure expression="E{#Free};" id="0.11" name="free" type="text"/>
</net>"#;

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

/// Each row: a file, what stands in it, what stands there instead, and who is named.
const REFUSED: &[(&str, &str, &str, &str)] = &[
    (PNPRO, r#"name="busy""#, r#"name="busy" domain="Client""#, "busy"),
    (PNPRO, r#"type="EXP" delay="mu*2""#, r#"type="EXP" guard="x=y" delay="mu*2""#, "start"),
    (PNPRO, r#"delay="mu*2""#, r#"delay="mu*nu""#, "start"),
    (PNPRO, r#"delay="I[mu]""#, r#"delay="Uniform[1, 2]""#, "clock"),
    (PNPRO, r#" name="N" value="3""#, r#" name="N""#, "N"),
    (PNPRO, r#"kind="INHIBITOR""#, r#"kind="RESET""#, "idle"),
    (PNPRO, r#"<place name="busy""#, r#"<continuous-place name="busy""#, "busy"),
    (PNPRO, r#"mult="2" tail="end""#, r#"mult="0" tail="end""#, "end"),
    (PNPRO, r#"head="idle" kind="OUTPUT" tail="clock""#, r#"head="idol" kind="OUTPUT" tail="clock""#, "idol"),
    (PIPE, "Default,2</value><g", "red,2</value><g", "wait"),
    (PIPE, "<capacity><value>0", "<capacity><value>5", "wait"),
    (PIPE, "<rate><value>2.5", "<rate><value>fast", "go"),
    (PIPE, r#"<type value="inhibition"/>"#, r#"<type value="reset"/>"#, "stop"),
    (PIPE, "<timed><value>true</value></timed>", "", "go"),
    (PIPE, r#"<place id="P1">"#, r#"<place id="P1"><toolspecific tool="x"><delay/></toolspecific>"#, "P1"),
    (PIPE, r#"source="P1""#, r#"source="P0" target="P1"><value/></arc><arc id="P" source="P1""#, "P1 to T1"),
    (ISO, "ptnet", "symmetricnet", "net"),
    (ISO, r#"<place id="b">"#, r#"<referencePlace id="r" ref="b"/><place id="b">"#, "r"),
    (PIPE, r#"<place id="P1">"#, r#"<place id="P1" initialMarking="3">"#, "P1"),
    (PIPE, r#"source="P1""#, r#"type="inhibitor" source="P1""#, "P1 to T1"),
    (EDSPN, r#"initialMarking="0" type"#, r#"initialMarking="0" capacity="5" type"#, "Used"),
    (EDSPN, r#"initialMarking="0" type"#, r#"initialMarking="0" tokentype="Client" type"#, "Used"),
    (EDSPN, r#"delay="4.0""#, r#"delay="4.0" timeGuard="N&gt;2""#, "take"),
    (EDSPN, r#"delay="4.0""#, r##"delay="4.0*#Free""##, "take"),
    (EDSPN, r#"delay="4.0""#, r##"delay="IF #Free&gt;2 : 4.0 ELSE 2.0""##, "take"),
    (EDSPN, r#"weight="2.0""#, r##"weight="#Used""##, "skip"),
    (EDSPN, r#"text="2" type"#, r##"text="#Used" type"##, "0.6"),
    (EDSPN, r#"id="0.8""#, r#"id="0.8" kind="reset""#, "0.8"),
    (EDSPN, r#"text="Used" type="text"/>"#, r#"text="Used" type="text"/><guard/>"#, "Used"),
    (EDSPN, r#"serverType="InfiniteServer""#, r#"serverType="TripleServer""#, "take"),
    (EDSPN, r#"enablingFunction="""#, r##"enablingFunction="#Free>2""##, "skip"),
    (EDSPN, r#"delay="2.5" id="0.3" preemptionPolicy="PRD""#, r#"delay="2.5" id="0.3" preemptionPolicy="PRS""#, "give"),
    (EDSPN, r#"delay="4.0""#, r#"delay="0.0""#, "take"),
    (EDSPN, r#"initialMarking="K""#, r##"initialMarking="#Used""##, "Free"),
    (EDSPN, "<immediateTransition enabling", "<generalTransition enabling", "document"),
    (EDSPN, "<measure ", r#"<generalTransition delay="UNIFORM(0.0,1.0);" id="0.12"/><measure "#, "0.12"),
];

#[test]
fn what_is_not_understood_is_refused_by_name() {
    for (file, good, bad, name) in REFUSED {
        assert!(file.contains(good), "{good}");
        let refusal = foreign(&file.replacen(good, bad, 1)).expect_err(bad);
        assert_eq!(refusal.name, *name, "{bad}: {refusal}");
        assert!(matches!(refusal.class, Class::Invalid | Class::Unsupported), "{bad}");
    }
    for text in ["<pnml>", "<pnml/>", "<project/>", "<net><place/></net>", "<pnml><net/><net/></pnml>"] {
        assert!(foreign(text).is_err(), "{text}");
    }
    let entities = r#"<!DOCTYPE pnml [<!ENTITY a "aaaa">]><pnml><net id="&a;"/></pnml>"#;
    assert_eq!(read(entities.as_bytes(), Format::Pnml, &[]).unwrap_err().name, "document");
    let deep = "<page>".repeat(100_000);
    let deep = format!("<pnml><net id=\"n\">{deep}{}</net></pnml>", "</page>".repeat(100_000));
    assert_eq!(foreign(&deep).unwrap_err().name, "page");
}

/// What is to be written instead is said in the words of the format; in those of JSON where a file of rates says it.
#[test]
fn infinitely_many_servers_without_an_input_are_refused_in_the_words_of_the_format() {
    let pnpro = r#"<project name="p"><gspn name="g"><nodes><transition name="t" type="EXP" delay="2"/></nodes><edges/></gspn></project>"#;
    let pipe = r#"<pnml><net id="n"><transition id="t"><rate><value>2</value></rate><timed><value>true</value></timed>
        <infiniteServer><value>true</value></infiniteServer></transition></net></pnml>"#;
    let iso = r#"<pnml><net id="n"><transition id="t"/></net></pnml>"#;
    let timenet =
        r#"<net id="0" netclass="eDSPN"><exponentialTransition id="t" delay="2" serverType="InfiniteServer"/></net>"#;
    let rates = json::read_rates(br#"{"t": {"kind": "timed", "rate": 1, "servers": "inf"}}"#).unwrap();
    for (text, rates, words) in [
        (pnpro, &[][..], r#"write `nservers="1"` for one server"#),
        (pipe, &[], "its `infiniteServer` is `true`"),
        (iso, &rates, "`servers` is `inf`"),
        (timenet, &[], "its `serverType` is `InfiniteServer`"),
    ] {
        let refusal = read(text.as_bytes(), Format::of(text.as_bytes()).unwrap(), rates).unwrap_err();
        assert_eq!((refusal.class, refusal.name.as_str()), (Class::Invalid, "t"), "{refusal}");
        assert!(refusal.why.contains(words) && refusal.why.contains("nothing bounds its rate"), "{refusal}");
    }
}

/// In both formats a constant may use others that stand after it.
#[test]
fn constants_refer_to_later_ones() {
    let (mu, k) = (r#"name="mu" value="1/4""#, r#"expression="2*2""#);
    let refused = |file: &str, good: &str, bad: &str| {
        assert!(file.contains(good), "{good}");
        let refusal = foreign(&file.replacen(good, bad, 1)).unwrap_err();
        (refusal.class, refusal.name.clone(), refusal.to_string())
    };
    let half = r#"<nodes><constant consttype="REAL" name="half" value="2*mu" x="0" y="0"/>"#;
    let before = PNPRO.replace("<nodes>", half);
    let before = before.replace(r#"name="N" value="3""#, r#"name="N" value="6*half""#).replace("mu*2", "half");
    assert_eq!(foreign(&before), foreign(PNPRO));
    let later = EDSPN
        .replace(k, r#"expression="2*L""#)
        .replace("<measure ", r#"<definition defType="int" expression="2" name="L"/><measure "#);
    assert_eq!(foreign(&later), foreign(EDSPN));

    let (class, name, why) = refused(&before, mu, r#"name="mu" value="half/2""#);
    assert!(class == Class::Invalid && ["half", "mu"].contains(&name.as_str()) && why.contains("cycle"), "{why}");
    let (class, name, why) = refused(&later, r#"expression="2" name="L""#, r#"expression="K" name="L""#);
    assert!(class == Class::Invalid && ["K", "L"].contains(&name.as_str()) && why.contains("cycle"), "{why}");
    for (file, good, bad, name) in
        [(PNPRO, r#"name="N" value="3""#, r#"name="N" value="3.5""#, "N"), (EDSPN, k, r#"expression="7/2""#, "K")]
    {
        let (class, named, why) = refused(file, good, bad);
        assert!(class == Class::Unsupported && named == name && why.contains("its value is 3.5"), "{why}");
    }
}

/// As WoPeD, ProM, JARP and the examples of ISO/IEC 15909-2 have it.
#[test]
fn what_tools_say_of_looks_is_passed_over_and_other_remarks_are_refused() {
    let with = |place: &str, transition: &str, arc: &str, net: &str| {
        let tool =
            |tool: &str, inside: &str| format!(r#"<toolspecific tool="{tool}" version="1.0"{inside}</toolspecific>"#);
        let text = PIPE
            .replace(r#"<place id="P1">"#, &format!(r#"<place id="P1">{}"#, tool("org.pnml.tool", place)))
            .replace(r#"<transition id="T0">"#, &format!(r#"<transition id="T0">{}"#, tool("WoPeD", transition)))
            .replace(r#"target="T1"><inscription>"#, &format!(r#"target="T1">{}<inscription>"#, tool("WoPeD", arc)))
            .replace("</net>", &format!("{}</net>", tool("JARP", net)));
        foreign(&text)
    };
    let looks = "><tokengraphics><tokenposition x=\"6\" y=\"9\"/></tokengraphics>";
    let timeless = "><time>0</time><timeUnit>1</timeUnit><orientation>1</orientation>";
    let always = "><probability>1.0</probability><displayProbabilityOn>false</displayProbabilityOn>";
    let colours = "><FrameColor><value>java.awt.Color[r=0,g=0,b=0]</value></FrameColor><resources/>";
    assert_eq!(with(looks, timeless, always, colours), foreign(PIPE));
    let drawn = "><ArrowMode><value>2</value></ArrowMode><FontSize><value>12</value></FontSize>";
    let triggered = "><trigger id=\"\" type=\"201\"><graphics><position x=\"1\" y=\"2\"/></graphics></trigger>";
    assert_eq!(with(">", triggered, drawn, ">"), foreign(PIPE));
    let silent = r#" activity="$invisible$" localNodeID="4">"#;
    assert_eq!(with(">", silent, "> ", ">"), foreign(PIPE));
    let people = "<resources><resource Name=\"Ann\"/><role Name=\"clerk\"/><organizationUnit Name=\"sales\"/>\
        <resourceMapping resourceID=\"Ann\" resourceClass=\"clerk\"/></resources>";
    let of =
        |tool: &str, said: &str| format!("<toolspecific tool=\"{tool}\" version=\"1\">{said}</toolspecific></net>");
    let comment = "<comment id=\"tx8\"><description><text>Fix it.</text></description><graphics/></comment>";
    let cases = "<tokenCaseSensitive><text>true</text></tokenCaseSensitive>";
    for (tool, said) in [("WoPeD", people), ("Yasper", comment), ("Yasper", cases)] {
        assert_eq!(foreign(&PIPE.replace("</net>", &of(tool, said))), foreign(PIPE), "{said}");
    }
    for (refused, name, what) in [
        (with(">", &format!(">{people}"), ">", ">"), "T0", "(`resources`)"),
        (with(">", &format!(">{comment}"), ">", ">"), "T0", "(`comment`)"),
        (with("><delay>2</delay>", ">", ">", ">"), "P1", "`org.pnml.tool` says of it (`delay`)"),
        (with(">", "><time>3</time>", ">", ">"), "T0", "(`time`)"),
        (with(">", "><operator id=\"t\" type=\"103\"/>", ">", ">"), "T0", "(`operator`)"),
        (with("><trigger/>", ">", ">", ">"), "P1", "`org.pnml.tool` says of it (`trigger`)"),
        (with(">", "><trigger><delay/></trigger>", ">", ">"), "T0", "(`trigger`)"),
        (with(">", "><subprocess>true</subprocess>", ">", ">"), "T0", "(`subprocess`)"),
        (with(">", "><transitionResource roleName=\"clerk\"/>", ">", ">"), "T0", "(`transitionResource`)"),
        (with(">", ">", "><ArrowMode><value>3</value></ArrowMode>", ">"), "P1 to T1", "(`ArrowMode`)"),
        (with(">", " rate=\"3\">", ">", ">"), "T0", "(`rate`)"),
        (with(">", ">3", ">", ">"), "T0", "(`3`)"),
        (with(">", ">", "><probability>0.3</probability>", ">"), "P1 to T1", "(`probability`)"),
        (with(">", ">", ">", "><resources><role/></resources>"), "Net-One", "(`resources`)"),
    ] {
        let refusal = refused.unwrap_err();
        assert_eq!((refusal.class, refusal.name.as_str()), (Class::Unsupported, name), "{refusal}");
        assert!(refusal.why.contains(what) && refusal.why.starts_with("line "), "{refusal}");
    }
}

/// In the manner of WoPeD: it writes a gateway as one transition for each branch, with a place between where it both joins and splits. The net is
/// whole without what it says of the gateway, unless somebody else wrote one transition for all.
fn gateways(operator: &str, transitions: &[(&str, &[&str], &[&str])]) -> String {
    let mut text = r#"<pnml><net id="noID" type="http://www.informatik.hu-berlin.de/top/pntd/ptNetb">"#.to_owned();
    for place in ["in", "other", "left", "right"] {
        text += &format!("<place id=\"{place}\"><initialMarking><text>1</text></initialMarking></place>\n");
    }
    for (id, takes, gives) in transitions {
        text += &format!(
            r#"<transition id="{id}"><name><text>decide</text></name><toolspecific tool="WoPeD" version="1.0">{operator}<time>0</time></toolspecific></transition>"#
        );
        for place in *takes {
            text += &format!(r#"<arc id="a" source="{place}" target="{id}"/>"#);
        }
        for place in *gives {
            text += &format!(r#"<arc id="a" source="{id}" target="{place}"/>"#);
        }
    }
    text + "</net></pnml>"
}

#[test]
fn a_gateway_of_woped_is_what_its_transitions_are() {
    let read = |text: &str, transitions: &[&str]| {
        let rates: Vec<String> = transitions.iter().map(|id| format!(r#""{id}": 1"#)).collect();
        let rates = json::read_rates(format!("{{{}}}", rates.join(", ")).as_bytes()).unwrap();
        read(text.as_bytes(), Format::Pnml, &rates).map(|document| document.net)
    };
    let operator = |sort: u32| format!(r#"<operator id="t1" type="{sort}"/>"#);
    let split = [("t1_op_1", &["in"][..], &["left"][..]), ("t1_op_2", &["in"], &["right"])];
    let join = [("t1_op_1", &["in"][..], &["left"][..]), ("t1_op_2", &["other"], &["left"])];
    let all = [("t1_op_1", &["in", "other"][..], &["left", "right"][..])];
    let behind = [("t1_op_1", &["in", "other"][..], &["left"][..]), ("t1_op_2", &["in", "other"], &["right"])];
    let before = [("t1_op_1", &["in"][..], &["left", "right"][..]), ("t1_op_2", &["other"], &["left", "right"])];
    for (sort, transitions) in [
        (101, &all[..]),
        (102, &all),
        (104, &split),
        (105, &join),
        (106, &split),
        (106, &join),
        (107, &all),
        (108, &behind),
        (109, &before),
    ] {
        let named: Vec<&str> = transitions.iter().map(|(id, ..)| *id).collect();
        let plain = read(&gateways("", transitions), &named).unwrap();
        assert_eq!(read(&gateways(&operator(sort), transitions), &named), Ok(plain), "{sort}");
    }
    for (sort, transitions, side) in [
        (104, &all[..], "gives to one"),
        (104, &before, "gives to one"),
        (105, &behind, "takes from one"),
        (106, &behind, "takes from one"),
        (106, &before, "gives to one"),
        (108, &all, "gives to one"),
        (109, &all, "takes from one"),
    ] {
        let refusal = read(&gateways(&operator(sort), transitions), &["t1_op_1", "t1_op_2"]).unwrap_err();
        assert_eq!((refusal.class, refusal.name.as_str()), (Class::Unsupported, "t1_op_1"), "{sort}: {refusal}");
        assert!(refusal.why.contains(side) && refusal.why.contains("`operator`"), "{sort}: {refusal}");
    }
    // What a subprocess does stands in a net on a page.
    let sub = gateways("<subprocess>true</subprocess>", &split);
    let sub = sub.replace("</net>", "<page id=\"t1_op_1\"><net><place id=\"in\"/></net></page></net>");
    let refusal = read(&sub, &["t1_op_1", "t1_op_2"]).unwrap_err();
    assert_eq!((refusal.class, refusal.name.as_str()), (Class::Unsupported, "t1_op_1"), "{refusal}");
    assert!(refusal.why.contains("a net of its own"), "{refusal}");
}

/// In the manner of ProM and pm4py: sorts of arcs, markings in which a run may end, transitions that nobody sees, and nets in a `module`.
#[test]
fn what_prom_writes_is_read_and_its_times_are_not() {
    let rates = json::read_rates(br#"{"work": 2, "tau": 1}"#).unwrap();
    let arc = |from: &str, to: &str, more: &str| {
        format!(r#"<arc id="{from}{to}" source="{from}" target="{to}">{more}</arc>"#)
    };
    let net = |sort: &str, transition: &str, after: &str| {
        let place = |id: &str, tokens: u32| {
            format!(
                "<place id=\"{id}\"><name><text>{id}</text></name><initialMarking><text>{tokens}</text></initialMarking></place>"
            )
        };
        let body = [place("source", 1), place("sink", 0)].concat()
            + &format!("<transition id=\"t\"><name><text>work</text></name>{transition}</transition>")
            + "<transition id=\"n\"><name><text>tau</text></name></transition>"
            + &arc("source", "t", "<inscription/>")
            + &arc("t", "sink", &format!("<name><text>1</text></name>{sort}"))
            + &arc("sink", "n", "<inscription><text>1</text></inscription>")
            + &arc("n", "source", "");
        format!(
            r#"<net id="net1" type="http://www.pnml.org/version-2009/grammar/pnmlcoremodel"><page id="n0">{body}</page>{after}</net>"#
        )
    };
    let pnml = |inner: &str| {
        read(format!("<pnml>{inner}</pnml>").as_bytes(), Format::Pnml, &rates).map(|document| document.net)
    };
    let plain = pnml(&net("", "", ""));
    assert!(plain.is_ok(), "{plain:?}");
    let ends = "<finalmarkings><marking><place idref=\"sink\"><text>1</text></place></marking></finalmarkings>";
    let normal = "<arctype><text>normal</text></arctype>";
    let silent =
        r#"<toolspecific tool="ProM" version="6.4" activity="$invisible$"/><silent><text>true</text></silent>"#;
    assert_eq!(pnml(&net(normal, silent, ends)), plain);
    assert_eq!(pnml(&format!("<module>{}{ends}</module>", net(normal, "", ""))), plain);
    let inhibitor = "<arctype><text>inhibitor</text></arctype>";
    let text =
        net("", "", "").replace(r#"source="sink" target="n">"#, &format!(r#"source="sink" target="n">{inhibitor}"#));
    let transition = pnml(&text).unwrap().transitions()[1].clone();
    assert_eq!((transition.inputs.len(), transition.inhibitors.len()), (0, 1));
    let time = |key: &str| {
        format!(
            r#"<toolspecific tool="StochasticPetriNet" version="0.2"><property key="{key}">1</property></toolspecific>"#
        )
    };
    for (text, named, part) in [
        (net("<arctype><text>reset</text></arctype>", "", ""), "tsink", "`reset`"),
        (net(&format!("{normal}<type value=\"inhibitor\"/>"), "", ""), "tsink", "stands twice"),
        (net("", &time("distributionType"), ""), "t", "(`property distributionType`)"),
        (net("", "", &time("timeUnit")), "net1", "file of rates"),
        (format!("{}<place id=\"lost\"/>", net("", "", "")), "lost", "beside a net"),
        (format!("<module>{}<place id=\"lost\"/></module>", net("", "", "")), "lost", "beside a net"),
    ] {
        let refusal = pnml(&text).unwrap_err();
        assert_eq!(refusal.name, named, "{refusal}");
        assert!(refusal.why.contains(part), "{refusal}");
    }
}

/// Notes of JARP and conditions with a name of PIPE are no part of a net; a second colour is named where there is some of it.
#[test]
fn notes_are_passed_over_and_colours_are_named() {
    let note = "<comment id=\"c1\"><text>what it is for</text><graphics/></comment>";
    let state = "<stategroup id=\"SG1\"><statecondition><value>P1 == 2</value></statecondition></stategroup>";
    assert_eq!(foreign(&PIPE.replace("</net>", &format!("{note}{state}</net>"))), foreign(PIPE));
    let tagged = |text: &str| format!("<place id=\"P1\"><tagged><value>{text}</value></tagged>");
    assert_eq!(foreign(&PIPE.replace("<place id=\"P1\">", &tagged("false"))), foreign(PIPE));
    assert_eq!(foreign(&PIPE.replace("<place id=\"P1\">", &tagged("true"))).unwrap_err().name, "P1");
    let red = "<token id=\"red\" enabled=\"true\" red=\"255\"/>";
    let with = |marking: &str| {
        let marking = format!("<value>{marking}</value><graphics><offset");
        let net = PIPE.replace("<value>Default,2</value><graphics><offset", &marking);
        foreign(&net.replace("</net>", &format!("{red}</net>")))
    };
    assert_eq!(with("Default,2"), foreign(PIPE));
    assert_eq!(with("red,0, Default,2 ,Blue,0"), foreign(PIPE));
    for refused in ["Default,2,red,1", "red,2", "red,0", "Default,1,Default,1", "Default,2,red"] {
        let refusal = with(refused).unwrap_err();
        assert_eq!((refusal.class, refusal.name.as_str()), (Class::Unsupported, "wait"), "{refusal}");
        assert!(refusal.why.ends_with("coloured tokens"), "{refusal}");
    }
    // One colour, and no number of tokens.
    for wrong in ["Default,-2", "Default,2.5", "-2"] {
        let refusal = with(wrong).unwrap_err();
        assert_eq!((refusal.class, refusal.name.as_str()), (Class::Invalid, "wait"), "{refusal}");
    }
    // Nets without what they stand in, and TimeNET's coloured ones.
    for (text, part) in [
        (r#"<net id="n" type="http://www.yasper.org/specs/epnml-2.0"><page id="pg1"/></net>"#, "stands in a `pnml`"),
        (r#"<net id="0" netclass="SCPN"><place id="0.0"/></net>"#, "class `SCPN`"),
    ] {
        let refusal = foreign(text).unwrap_err();
        assert!(refusal.name == "net" && refusal.why.contains(part), "{refusal}");
    }
    let clocks = r#"<pnml xmlns="http://www.informatik.hu-berlin.de/top/pnml/ptNetb"><shared-place name="p"/><net id="n"/></pnml>"#;
    let refusal = foreign(clocks).unwrap_err();
    assert!(refusal.class == Class::Unsupported && refusal.why.contains("dialect of TAPAAL"), "{refusal}");
    assert!(!foreign("<pnml><query/><net id=\"n\"/></pnml>").unwrap_err().why.contains("TAPAAL"));
}

/// A type that no list has is one more name for place/transition nets; what is known to be another is refused.
#[test]
fn the_class_of_a_pnml_net_is_what_its_type_and_attributes_say() {
    let with = |attributes: &str| {
        assert!(PIPE.contains(r#"type="P/T net""#));
        foreign(&PIPE.replace(r#"type="P/T net""#, attributes))
    };
    for read in [
        "",
        r#"type="""#,
        r#"type="PTNet""#,
        r#"type="http://www.pnml.org/version-2009/grammar/ptnet""#,
        r#"type="http://www.pnml.org/version-2009/grammar/pnmlcoremodel""#,
        r#"type="http://www.informatik.hu-berlin.de/top/pntd/ptNetb""#,
        r#"type="http://www.yasper.org/specs/epnml-1.1""#,
        r#"type="Untimed net""#,
        r#"type="P/T net" active="true" name="n" netMode="pt" xmlns="" xml:lang="en""#,
    ] {
        assert!(with(read).is_ok(), "{read}: {:?}", with(read));
    }
    for (refused, why) in [
        (r#"type="http://www.pnml.org/version-2009/grammar/symmetricnet""#, "coloured tokens"),
        (r#"type="http://www.pnml.org/version-2009/grammar/pt-hlpng""#, "coloured tokens"),
        (r#"type="http://www.pnml.org/version-2009/grammar/highlevelnet/""#, "coloured tokens"),
        (r#"type="http://www.informatik.hu-berlin.de/top/pntd/hlNet.pntd""#, "coloured tokens"),
        (r#"type="Coloured P/T net""#, "coloured tokens"),
        (r#"type="http://www.laas.fr/tina/tpn""#, "nets of type `http://www.laas.fr/tina/tpn` have times"),
        (r#"type="Timed P/T net""#, "times"),
        (r#"type="http://example.org/resetnet""#, "arcs that take all tokens"),
        (r#"type="http://example.org/pnml/continuousnet""#, "no whole numbers of tokens"),
        (r#"type="HybridPetriNet""#, "no whole numbers of tokens"),
        (r#"type="NPN""#, "nets as tokens"),
        (r#"type="P/T net" timed="true""#, "its attribute `timed` (`true`)"),
        (r#"netMode="algebraic-int""#, "its attribute `netMode` (`algebraic-int`)"),
    ] {
        let refusal = with(refused).unwrap_err();
        assert_eq!((refusal.class, refusal.name.as_str()), (Class::Unsupported, "net"), "{refusal}");
        assert!(refusal.why.starts_with("line 2: ") && refusal.why.contains(why), "{refusal}");
    }
}

/// The nets are sound, and this program has no method for them.
#[test]
fn coloured_tokens_are_unsupported_and_not_invalid() {
    for (file, good, bad, name) in [
        (PNPRO, r#"marking="2*N""#, r#"marking="&lt;c1&gt; + 2&lt;All&gt;""#, "idle"),
        (PNPRO, r#"mult="2" tail="idle""#, r#"mult="&lt;x&gt;" tail="idle""#, "idle"),
        (PNPRO, r#"name="mu" value="1/4""#, r#"name="mu" value="&lt;All&gt;""#, "mu"),
        (PIPE, "Default,2</value><g", "red,2</value><g", "wait"),
        (PIPE, "Default,2</value><g", "2`red++1`blue</value><g", "wait"),
        (PIPE, "Default,2</value><g", "[]</value><g", "wait"),
        (PIPE, "Default,2</value><g", "[[1]]</value><g", "wait"),
        (PIPE, "<value>1</value></inscription></arc>", "<value>[T]</value></inscription></arc>", "P1 to T1"),
        (PIPE, "<value>1</value></inscription></arc>", "<value>&lt;x&gt;</value></inscription></arc>", "P1 to T1"),
    ] {
        assert!(file.contains(good), "{good}");
        let refusal = foreign(&file.replacen(good, bad, 1)).expect_err(bad);
        assert_eq!((refusal.class, refusal.name.as_str()), (Class::Unsupported, name), "{bad}: {refusal}");
        assert!(refusal.why.contains("coloured tokens"), "{refusal}");
    }
}

#[test]
fn what_holds_no_net_is_invalid() {
    let maven = r#"<project xmlns="http://maven.apache.org/POM/4.0.0"><artifactId>a</artifactId></project>"#;
    for (text, looks) in [(maven, "has no `gspn`"), ("<project/>", "has no `gspn`"), ("<pnml/>", "has no `net`")] {
        let refusal = foreign(text).unwrap_err();
        assert_eq!((refusal.class, refusal.name.as_str()), (Class::Invalid, "document"), "{refusal}");
        assert!(refusal.why.starts_with("this is no net") && refusal.why.contains(looks), "{refusal}");
    }
}

#[test]
fn what_a_format_cannot_say_is_refused_by_name() {
    let with = |kind: &str| {
        net(&format!(
            r#"{{"net": {{"places": [{{"name": "p", "tokens": 1}}], "transitions": [{{"name": "t", {kind}, "in": {{"p": 1}}}}]}}}}"#
        ))
    };
    let table = r#""kind": "timed", "rate_by_tokens": {"place": "p", "rates": [0, 1]}"#;
    let fixed = r#""kind": "deterministic", "delay": 1"#;
    let hyper = r#""kind": "phase", "hyper": [[0.5, 1], [0.5, 2]]"#;
    for (format, kind) in [
        (Format::Pnml, table),
        (Format::Pnml, fixed),
        (Format::Pnml, hyper),
        (Format::Pnml, r#""kind": "timed", "rate": 1, "servers": 2"#),
        (Format::Pnpro, table),
        (Format::Pnpro, hyper),
        (Format::Jani, fixed),
        (Format::Jani, hyper),
    ] {
        let refusal = write(&with(kind), format).unwrap_err();
        assert_eq!((refusal.class, refusal.name.as_str()), (Class::Unsupported, "t"), "{format:?} {kind}");
    }
    let odd = net(r#"{"net": {"places": [{"name": "two words"}], "transitions": []}}"#);
    assert_eq!(write(&odd, Format::Pnpro).unwrap_err().name, "two words");
    assert!(write(&odd, Format::Pnml).is_ok());
    assert!(write(&odd, Format::Edspn).is_err() && read(b"digraph {}", Format::Dot, &[]).is_err());
    let unprintable = net(r#"{"net": {"places": [{"name": "a\u0001"}], "transitions": []}}"#);
    assert!(write(&unprintable, Format::Pnml).is_err() && write(&unprintable, Format::Svg).is_err());
}

#[test]
fn drawings_hold_every_node_and_arc() {
    let net = foreign(PNPRO).unwrap();
    let svg = write(&net, Format::Svg).unwrap();
    let drawn = roxmltree::Document::parse(&svg).unwrap();
    let count = |class: &str| drawn.descendants().filter(|node| node.attribute("class") == Some(class)).count();
    assert_eq!((count("p"), count("a"), count("s")), (2, 7, 1));
    for name in ["idle", "busy", "start", "end", "now", "clock"] {
        assert!(drawn.descendants().any(|node| node.text() == Some(name)), "{name}");
    }
    let dot = write(&net, Format::Dot).unwrap();
    assert_eq!((dot.matches("->").count(), dot.matches("odot").count()), (8, 1));
    let jani: serde_json::Value = serde_json::from_str(&write(&foreign(PIPE).unwrap(), Format::Jani).unwrap()).unwrap();
    assert_eq!((&jani["type"], jani["variables"].as_array().unwrap().len()), (&"ma".into(), 2));
    assert_eq!(jani["automata"][0]["edges"].as_array().unwrap().len(), 2);
}

/// The value of a JANI expression in a marking.
fn value(expression: &serde_json::Value, marking: &dyn Fn(&str) -> f64) -> f64 {
    let of = |key: &str| value(&expression[key], marking);
    let truth = |it: bool| f64::from(u8::from(it));
    match expression {
        serde_json::Value::String(name) => marking(name),
        serde_json::Value::Bool(it) => truth(*it),
        serde_json::Value::Number(number) => number.as_f64().unwrap(),
        _ => match expression["op"].as_str().unwrap() {
            "+" => of("left") + of("right"),
            "*" => of("left") * of("right"),
            "/" => of("left") / of("right"),
            "floor" => of("exp").floor(),
            "∧" | "min" => of("left").min(of("right")),
            "∨" => of("left").max(of("right")),
            "≥" => truth(of("left") >= of("right")),
            "<" => truth(of("left") < of("right")),
            ">" => truth(of("left") > of("right")),
            "=" => truth((of("left") - of("right")).abs() < 0.5),
            "ite" if of("if") > 0.5 => of("then"),
            "ite" => of("else"),
            other => panic!("{other}"),
        },
    }
}

/// In a Markov automaton Storm keeps one of two timed edges from a state to the same other.
#[test]
fn jani_has_one_timed_edge_for_each_change_of_a_markov_automaton() {
    let timed = r#"
        {"name": "a", "kind": "timed", "rate": 1, "in": {"A": 1}, "out": {"B": 1}},
        {"name": "b", "kind": "timed", "rate": 2, "in": {"A": 1}, "out": {"B": 1}},
        {"name": "few", "kind": "timed", "rate": 8, "in": {"B": 1}, "out": {"A": 1}, "inhibit": {"B": 3}},
        {"name": "many", "kind": "timed", "rate": 16, "servers": "inf", "in": {"B": 2}, "out": {"A": 1, "B": 1}},
        {"name": "table", "kind": "timed", "rate_by_tokens": {"place": "B", "rates": [0, 0, 32]}, "in": {"B": 1}, "out": {"A": 1}},
        {"name": "still", "kind": "timed", "rate": 64, "in": {"A": 1}, "out": {"A": 1}},
        {"name": "idle", "kind": "timed", "rate": 128, "in": {"B": 1}, "out": {"B": 1}}"#;
    let edges = |more: &str| {
        let net = net(&format!(
            r#"{{"net": {{"places": [{{"name": "A", "tokens": 1}}, {{"name": "B"}}, {{"name": "C"}}], "transitions": [{timed}{more}]}}}}"#
        ));
        let jani: serde_json::Value = serde_json::from_str(&write(&net, Format::Jani).unwrap()).unwrap();
        (jani["type"].clone(), jani["automata"][0]["edges"].as_array().unwrap().clone())
    };
    let (sort, alone) = edges("");
    assert_eq!((sort, alone.len()), ("ctmc".into(), 7));
    let (sort, edges) = edges(r#", {"name": "i", "kind": "immediate", "in": {"C": 1}, "out": {"A": 1}}"#);
    assert_eq!((sort, edges.len()), ("ma".into(), 4));
    let both = serde_json::json!({"op": "+", "left": 1.0, "right": 2.0});
    assert_eq!(edges[0]["rate"]["exp"], both, "what is enabled together has no conditions");
    let rates = |a: f64, b: f64| {
        [0, 1, 2].map(|edge| {
            let marking = |name: &str| if name == "A" { a } else { b };
            let [guard, rate] = ["guard", "rate"].map(|part| value(&edges[edge][part]["exp"], &marking));
            if guard > 0.5 { rate } else { 0.0 }
        })
    };
    assert_eq!(rates(0.0, 0.0), [0.0, 0.0, 0.0]);
    assert_eq!(rates(1.0, 0.0), [3.0, 0.0, 64.0]);
    assert_eq!(rates(0.0, 1.0), [0.0, 8.0, 128.0]);
    assert_eq!(rates(1.0, 2.0), [3.0, 8.0 + 16.0 + 32.0, 192.0]);
    assert_eq!(rates(0.0, 4.0), [0.0, 32.0 + 32.0, 128.0]);
}

/// Thousands of conditions each inside the next would be more than a reader takes.
#[test]
fn jani_of_many_transitions_is_not_deep() {
    let timed = |index: usize| {
        format!(
            r#"{{"name": "t{index}", "kind": "timed", "rate": 1, "in": {{"A": {}}}, "out": {{"A": {}}}}}"#,
            index + 1,
            index + 1
        )
    };
    let transitions: Vec<_> = (0..3000).map(timed).collect();
    let net = net(&format!(
        r#"{{"net": {{"places": [{{"name": "A", "tokens": 1}}], "transitions": [{{"name": "i", "kind": "immediate", "in": {{"A": 9999}}}}, {}]}}}}"#,
        transitions.join(",")
    ));
    // serde_json reads 128 levels.
    let jani: serde_json::Value = serde_json::from_str(&write(&net, Format::Jani).unwrap()).unwrap();
    assert_eq!(jani["automata"][0]["edges"].as_array().unwrap().len(), 2);
}

/// Graphviz reads `&lt;` in a label as `<`, and ends a text at a character of the number 0.
#[test]
fn names_are_drawn_by_graphviz_as_they_are() {
    let with = |place: &str, transition: &str, name: &str| {
        let text = serde_json::json!({"name": name, "net": {"places": [{"name": place, "tokens": 1}], "transitions": [
            {"name": transition, "kind": "timed", "rate_by_tokens": {"place": place, "rates": [0, 1]}, "in": {place: 1}}]}});
        write(&net(&text.to_string()), Format::Dot)
    };
    let dot = with("a &lt; \"b\" \\N", "R&D", "A&B").unwrap();
    for part in
        [r#"digraph "A&B" {"#, r#"xlabel="a &amp;lt; \"b\" \\N""#, r#"xlabel="R&amp;D\nby a &amp;lt; \"b\" \\N""#]
    {
        assert!(dot.contains(part), "{part}: {dot}");
    }
    let bad = "nul\0x";
    for refused in [with(bad, "t", "n"), with("p", bad, "n"), with("p", "t", bad)] {
        let refusal = refused.unwrap_err();
        assert_eq!((refusal.class, refusal.name.as_str()), (Class::Unsupported, bad));
        assert!(refusal.to_string().contains("U+0000"), "{refusal}");
    }
    assert!(with("two words ", "tab\there", "é→").is_ok());
}

/// An arc that goes back and one that stops, between the same two: whichever of the place's number.
#[test]
fn arcs_between_the_same_two_are_apart() {
    for first in [r#"{"name": "x"}, "#, ""] {
        let net = net(&format!(
            r#"{{"net": {{"places": [{first}{{"name": "p", "tokens": 1}}], "transitions": [
            {{"name": "t", "kind": "timed", "rate": 1, "in": {{"p": 1}}, "out": {{"p": 1}}, "inhibit": {{"p": 2}}}},
            {{"name": "u", "kind": "timed", "rate": 1, "out": {{"p": 1}}, "inhibit": {{"p": 3}}}}]}}}}"#
        ));
        let svg = write(&net, Format::Svg).unwrap();
        let drawn = roxmltree::Document::parse(&svg).unwrap();
        // A curve and the same one turned round have the same point in the middle.
        let middle = |node: roxmltree::Node| -> Option<[i64; 2]> {
            node.attribute("class").filter(|class| matches!(*class, "a" | "s"))?;
            let numbers = node.attribute("d")?.replace(['M', 'Q'], " ");
            let numbers: Vec<f64> = numbers.split_whitespace().map(|number| number.parse().unwrap()).collect();
            let half = |at: usize| ((numbers[at] + 2.0 * numbers[at + 2] + numbers[at + 4]) / 4.0).round() as i64;
            Some([half(0), half(1)])
        };
        let middles: Vec<_> = drawn.descendants().filter_map(middle).collect();
        assert_eq!(middles.len(), 5);
        for (index, one) in middles.iter().enumerate() {
            for other in &middles[..index] {
                assert!(one.iter().zip(other).any(|(one, other)| one.abs_diff(*other) >= 4), "{svg}");
            }
        }
    }
}

#[test]
fn long_names_are_cut_in_drawings_and_whole_in_their_titles() {
    let (long, short) = ("a place that has <words> in its name", "a name of 24 characters.");
    let net = net(&format!(
        r#"{{"net": {{"places": [{{"name": "{long}"}}, {{"name": "{short}"}}], "transitions": [{{"name": "t", "kind": "timed",
        "rate_by_tokens": {{"place": "{long}", "rates": [0, 1]}}, "in": {{"{long}": 1}}}}]}}}}"#
    ));
    let svg = write(&net, Format::Svg).unwrap();
    let drawn = roxmltree::Document::parse(&svg).unwrap();
    let texts: Vec<String> = drawn
        .descendants()
        .filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "text")))
        .map(|node| node.children().filter(|child| child.is_text()).filter_map(|child| child.text()).collect())
        .collect();
    for text in ["a place that has <words…", short, "by a place that has <wo…"] {
        assert!(texts.iter().any(|it| it == text), "{text}: {texts:?}");
    }
    let titles: Vec<_> = drawn.descendants().filter(|node| node.tag_name().name() == "title").collect();
    let titles: Vec<_> = titles.iter().filter_map(|title| title.text()).collect();
    assert_eq!(titles, [long, &format!("by {long}")]);
}

fn arcs(places: usize) -> impl Strategy<Value = Vec<Arc>> {
    prop::collection::btree_map(0..places, 1_u64..5, 0..3)
        .prop_map(|arcs| arcs.into_iter().map(|(place, count)| Arc { place, count }).collect())
}

fn positive() -> impl Strategy<Value = f64> {
    (1_u32..1000).prop_map(|n| f64::from(n) / 64.0)
}

fn servers(any: bool) -> impl Strategy<Value = Servers> {
    let most = if any { 9_u64 } else { 1 };
    prop_oneof![(1..=most).prop_map(Servers::Finite), Just(Servers::Infinite)]
}

fn kinds(format: Format) -> BoxedStrategy<Kind> {
    let timed = (positive(), servers(format != Format::Pnml))
        .prop_map(|(rate, servers)| Kind::Timed { rate: Rate::Constant(rate), servers });
    let immediate = (positive(), 1_u32..9).prop_map(|(weight, priority)| Kind::Immediate { weight, priority });
    let fixed = positive().prop_map(|delay| Kind::Deterministic { delay });
    let erlang = (1_u32..9, positive()).prop_map(|(stages, rate)| Kind::Phase(Phase::Erlang { stages, rate }));
    let table = (prop::collection::vec(0_u32..9, 1..4), 1_u64..4).prop_map(|(rates, servers)| Kind::Timed {
        rate: Rate::ByTokens { place: 0, rates: rates.into_iter().map(f64::from).collect() },
        servers: Servers::Finite(servers),
    });
    let coxian =
        (positive(), positive()).prop_map(|(one, other)| Kind::Phase(Phase::Coxian(vec![(one, 0.25), (other, 0.0)])));
    let hyper =
        (positive(), positive()).prop_map(|(one, other)| Kind::Phase(Phase::Hyper(vec![(0.25, one), (0.75, other)])));
    match format {
        Format::Pnml => prop_oneof![timed, immediate].boxed(),
        Format::Pnpro => prop_oneof![timed, immediate, fixed, erlang].boxed(),
        _ => prop_oneof![timed, immediate, fixed, erlang, table, coxian, hyper].boxed(),
    }
}

fn nets(format: Format) -> impl Strategy<Value = Net> {
    let name = if format == Format::Pnpro {
        "[A-Za-z_][A-Za-z0-9_]{0,8}"
    } else {
        "[A-Za-z<&>\"'é→;,]([ -~é→]{0,8}[!-~])?"
    };
    let tokens = prop::collection::vec(prop_oneof![0_u64..9, Just(u64::MAX)], 1..5);
    tokens.prop_flat_map(move |tokens| {
        let count = tokens.len();
        let transition = (kinds(format), arcs(count), arcs(count), arcs(count));
        let names = prop::collection::btree_set(name, count + 6);
        (Just(tokens), prop::collection::vec(transition, 0..6), names, Just(count)).prop_map(
            |(tokens, transitions, names, _)| {
                let mut names = names.into_iter();
                let places = tokens.into_iter().map(|tokens| Place { name: names.next().unwrap(), tokens }).collect();
                let transitions = transitions.into_iter().map(|(mut kind, inputs, outputs, inhibitors)| {
                    if let Kind::Timed { servers, .. } = &mut kind
                        && inputs.is_empty()
                    {
                        *servers = Servers::Finite(1);
                    }
                    Transition { name: names.next().unwrap(), kind, inputs, outputs, inhibitors }
                });
                build("a net", places, transitions.collect()).unwrap()
            },
        )
    })
}

fn returns(net: &Net, format: Format) {
    let text = write(net, format).unwrap();
    assert_eq!(Format::of(text.as_bytes()), Some(format));
    assert_eq!(&read(text.as_bytes(), format, &[]).unwrap().net, net, "{text}");
}

proptest! {
    #[test]
    fn a_net_returns_from_json(net in nets(Format::Json)) {
        returns(&net, Format::Json);
    }

    #[test]
    fn a_net_returns_from_pnml(net in nets(Format::Pnml)) {
        returns(&net, Format::Pnml);
    }

    #[test]
    fn a_net_returns_from_pnpro(net in nets(Format::Pnpro)) {
        returns(&net, Format::Pnpro);
    }

    #[test]
    fn every_net_can_be_drawn(net in nets(Format::Json)) {
        let svg = write(&net, Format::Svg).unwrap();
        prop_assert!(roxmltree::Document::parse(&svg).is_ok(), "{}", svg);
        let _dot = write(&net, Format::Dot).unwrap();
    }
}

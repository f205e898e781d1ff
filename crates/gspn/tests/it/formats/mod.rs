//! Nets of other tools: what is read means what that tool means, what is written is read back as the same net, and what cannot be
//! said is refused by name.

mod agreement;
mod drawn;
mod jani;
mod pipe;
mod projects;
mod read;
mod remarks;
mod round_trips;
mod strays;
mod whole;

use gspn::formats::{Format, read, write};
use gspn::json;
use gspn::net::Net;
use gspn::{Class, Refusal};

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

#[test]
fn what_holds_no_net_is_invalid() {
    let maven = r#"<project xmlns="http://maven.apache.org/POM/4.0.0"><artifactId>a</artifactId></project>"#;
    for (text, looks) in [(maven, "has no `gspn`"), ("<project/>", "has no `gspn`"), ("<pnml/>", "has no `net`")] {
        let refusal = foreign(text).unwrap_err();
        assert_eq!((refusal.class, refusal.name.as_str()), (Class::Invalid, "document"), "{refusal}");
        assert!(refusal.why.starts_with("this is no net") && refusal.why.contains(looks), "{refusal}");
    }
}

/// Where an arc has no node, there is no name of one to tell: the arc is what is wrong.
#[test]
fn an_arc_without_an_end_is_refused_as_an_arc() {
    let text = r#"<pnml><net id="n" type="P/T net"><place id="a"/><transition id="t"><rate><value>1.0</value></rate><timed><value>true</value></timed></transition><arc id="x" source="a" target=""/></net></pnml>"#;
    let refusal = foreign(text).unwrap_err();
    assert_eq!((refusal.class, refusal.name.as_str()), (Class::Invalid, "arc"), "{refusal}");
    let refusal = foreign(&text.replace(r#"target="""#, r#"target="b""#)).unwrap_err();
    assert_eq!((refusal.class, refusal.name.as_str()), (Class::Invalid, "b"), "{refusal}");
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

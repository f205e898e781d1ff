//! Forms that the editors of GreatSPN and TimeNET save and that are seen rarely: they are read as they are meant, or refused by name.

use gspn::formats::{Beside, Format, read, read_beside};
use gspn::net::{Arc, Kind, Net, Rate, Servers};
use gspn::{Class, Refusal};

fn pnpro(text: &str) -> Result<Net, Refusal> {
    Ok(read(text.as_bytes(), Format::Pnpro, &[])?.net)
}

/// What stands around an element does not matter: how it looks, the tags by which nets are joined, the order for decision diagrams.
#[test]
fn a_pnpro_project_with_all_that_is_drawn() {
    let net = pnpro(
        r##"<?xml version="1.0" encoding="UTF-8" standalone="no"?>
<project name="p" version="121">
  <gspn name="g" show-color-cmd="false" view-rates="false" zoom="50">
    <nodes>
      <place alt-name-fn="NONE" label-x="1.0" label-y="2.0" magnets="TWO_PER_SIDE" marking="3" name="ready" partition="A" partition-x="1.0" shown-as="r_1" superposition-tags="a|b" superpos-x="1.0" text-size="3.0" x="1.0" y="1.0"/>
      <place marking="" name="done" x="5.0" y="1.0"/>
      <transition delay="2.0" height="1.0" magnets="ONE_PER_SIDE" name="work" nservers-x="1.0" rotation="1.5" superposition-tags="" type="EXP" width="0.3" x="3.0" y="1.0"/>
      <transition guard="True" name="again" type="IMM" x="3.0" y="3.0"/>
      <text-box bold="true" name="a word" shape="ROUND" x="1.0" y="1.0"/>
    </nodes>
    <edges>
      <arc broken="true" head="work" head-magnet="2" kind="INPUT" mult="2" mult-k="0.5" mult-x="0.1" mult-y="0.2" tail="ready"><point x="1.0" y="2.0"/></arc>
      <arc head="done" kind="OUTPUT" tail="work" tail-magnet="1" text-size="2.0"/>
      <arc head="again" kind="INPUT" tail="done"/>
      <arc head="ready" kind="OUTPUT" mult="2" tail="again"/>
    </edges>
  </gspn>
  <measures gspn-name="g" name="m"/>
</project>"##,
    )
    .unwrap();
    assert_eq!(net.places().iter().map(|place| place.tokens).collect::<Vec<_>>(), [3, 0]);
    let [work, again] = net.transitions() else { panic!("{:?}", net.transitions()) };
    assert_eq!(work.kind, Kind::Timed { rate: Rate::Constant(2.0), servers: Servers::Infinite });
    assert_eq!(work.inputs, [Arc { place: 0, count: 2 }]);
    assert_eq!(again.kind, Kind::Immediate { weight: 1.0, priority: 1, by: None });
}

/// The first versions of the editor wrote `type` and `multiplicity` where the later ones write `kind` and `mult`.
#[test]
fn arcs_of_old_pnpro_files() {
    let with = |arcs: &str| {
        pnpro(&format!(
            r#"<project name="p" version="100"><gspn name="g"><nodes>
            <place marking="4" name="a" x="1.0" y="1.0"/><place name="b" x="2.0" y="1.0"/>
            <transition delay="1.0" name="t" nservers="1" type="EXP" x="1.0" y="2.0"/></nodes><edges>{arcs}</edges></gspn></project>"#
        ))
    };
    let old = with(
        r#"<arc head="t" multiplicity="3" multiplicity-k="0.1" multiplicity-x="1.0" multiplicity-y="0.0" tail="a" type="INPUT"/>
           <arc head="b" multiplicity="2" tail="t" type="OUTPUT"/><arc head="t" multiplicity="5" tail="b" type="INHIBITOR"/>"#,
    );
    let new = with(
        r#"<arc head="t" kind="INPUT" mult="3" tail="a"/><arc head="b" kind="OUTPUT" mult="2" tail="t"/>
           <arc head="t" kind="INHIBITOR" mult="5" tail="b"/>"#,
    );
    assert_eq!(old.unwrap().transitions(), new.unwrap().transitions());
    let neither = with(r#"<arc head="t" mult="3" tail="a"/>"#).unwrap_err();
    assert_eq!((neither.class, neither.name.as_str()), (Class::Invalid, "a"));
}

#[test]
fn what_a_pnpro_project_has_beyond_a_net_is_refused_by_name() {
    let with = |nodes: &str| {
        let place = r#"<place name="a" marking="1" x="1.0" y="1.0"/>"#;
        format!(
            r#"<project name="p" version="121"><gspn name="g"><nodes>{place}{nodes}</nodes><edges/></gspn></project>"#
        )
    };
    for (rule, node, name) in [
        ("a fluid place", r#"<place name="f" type="CONTINUOUS" marking="1.0"/>"#, "f"),
        ("a coloured place", r#"<place name="c" domain="C"/>"#, "c"),
        ("a rate by tokens", r##"<transition name="t" type="EXP" delay="2*#a"/>"##, "t"),
        ("a weight by tokens", r##"<transition name="t" type="IMM" weight="#a"/>"##, "t"),
        ("another distribution", r#"<transition name="t" type="GEN" delay="Uniform[1, 2]"/>"#, "t"),
        ("a fluid transition", r#"<transition name="t" type="CONT"/>"#, "t"),
        ("a class of colours", r#"<color-class name="C" definition="c{1..3}"/>"#, "C"),
        ("a number that is not said", r#"<template name="N" type="INTEGER"/>"#, "N"),
    ] {
        let refusal = pnpro(&with(node)).unwrap_err();
        assert_eq!((refusal.class, refusal.name.as_str()), (Class::Unsupported, name), "{rule}: {refusal}");
    }
}

/// What another marking would change has no number, nor has a function that the editor works out; both are sound.
#[test]
fn what_the_greatspn_editor_works_out_is_named() {
    let with = |transition: &str, mult: &str| {
        pnpro(&format!(
            r#"<project name="p"><gspn name="g"><nodes><constant consttype="REAL" name="lambda" value="0.25"/>
            <place name="a" marking="1"/><transition name="t" {transition}/></nodes>
            <edges><arc kind="INPUT" tail="a" head="t" mult="{mult}"/></edges></gspn></project>"#
        ))
    };
    let (marking, function) = ("which depends on the marking", "is not understood");
    for (transition, mult, name, why) in [
        ("", "#a", "a", "the multiplicity of its arc to `t` is `#a`, which depends on the marking"),
        ("", "Max[1,#a]", "a", marking),
        ("", "If[#a==1,1,2]", "a", marking),
        ("", "Max[1,2]", "a", "is `Max[1,2]`: the function `Max` is not understood"),
        (r#"delay="Max[1,2]""#, "1", "t", "its `delay` is `Max[1,2]`: the function `Max` is not understood"),
        (r#"delay="2 * Pow [lambda, 2]""#, "1", "t", "the function `Pow`"),
        (r##"delay="If[#a==3, 100, 4]""##, "1", "t", marking),
        (r#"type="IMM" weight="Min[1,2]""#, "1", "t", function),
        (r#"type="GEN" delay="I[1.0]+I[1.5]""#, "1", "t", "its time `I[1.0]+I[1.5]` is not understood"),
        (r#"type="GEN" delay="Erlang[1, 2] + Erlang[3, 4]""#, "1", "t", function),
        (r#"type="GEN" delay="I[Max[1, 2]]""#, "1", "t", function),
    ] {
        let sort = if transition.contains("type=") { "" } else { r#"type="EXP""# };
        let refusal = with(&format!("{sort} {transition}"), mult).unwrap_err();
        assert_eq!((refusal.class, refusal.name.as_str()), (Class::Unsupported, name), "{refusal}");
        assert!(refusal.why.contains(why), "{refusal}");
    }
    let refusal = with(r#"type="GEN" delay="Erlang[3, lambda]""#, "1").unwrap_err();
    assert!(refusal.class == Class::Invalid && refusal.why.starts_with("`lambda` is 0.25"), "{refusal}");
}

fn set(text: &str, values: &[(&str, &str)]) -> Result<Net, (Class, String, String)> {
    let values: Vec<_> = values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let format = Format::of(text.as_bytes()).unwrap();
    let read = read_beside(text.as_bytes(), format, &Beside { set: &values, ..Beside::default() });
    read.map(|document| document.net).map_err(|refusal| (refusal.class, refusal.name, refusal.why))
}

/// Nets are saved with constants that whoever opens them has to give a value.
#[test]
fn constants_get_a_value_beside_the_file() {
    let project = r#"<project name="p"><gspn name="g"><nodes><constant consttype="INTEGER" name="N"/>
        <constant consttype="REAL" name="lambda" value=""/><constant consttype="REAL" name="mu" value="2*lambda"/>
        <template name="K" type="INTEGER"/>
        <place name="a" marking="N+K"/><transition name="t" type="EXP" delay="mu" nservers="1"/></nodes>
        <edges><arc kind="INPUT" tail="a" head="t" mult="K"/></edges></gspn></project>"#;
    let timenet = r#"<net id="0" netclass="eDSPN"><place id="a" initialMarking="N+K"/>
        <exponentialTransition id="t" delay="1/mu"/><arc fromNode="a" toNode="t" id="x"><inscription text="K"/></arc>
        <definition defType="int" name="N"/><definition defType="real" expression="" name="lambda"/>
        <definition defType="real" expression="2*lambda" name="mu"/><definition defType="int" name="K"/></net>"#;
    for text in [project, timenet] {
        let all = [("N", "5"), ("lambda", "0.25"), ("K", "3")];
        let told = |values: &[(&str, &str)]| {
            let net = set(text, values).unwrap();
            let Kind::Timed { rate: Rate::Constant(rate), .. } = net.transitions()[0].kind else { panic!("{net:?}") };
            (net.places()[0].tokens, rate, net.transitions()[0].inputs[0].count)
        };
        assert_eq!(told(&all), (8, 0.5, 3));
        // What the file says may be replaced, and by what the file could say.
        assert_eq!(told(&[all[0], all[1], all[2], ("mu", "4")]), (8, 4.0, 3));
        assert_eq!(told(&[("N", "2*K"), all[1], all[2]]), (9, 0.5, 3));

        let (class, name, why) = set(text, &[]).unwrap_err();
        assert_eq!((class, name.as_str()), (Class::Unsupported, "N"));
        assert!(why.contains("`--set N=VALUE`") && why.ends_with("; without one, too: `lambda`, `K`"), "{why}");
        let refused = |name: &str, value: &str| {
            let values = [&all[..], &[(name, value)]].concat();
            let values: Vec<_> = values.into_iter().rev().filter(|it| *it == (name, value) || it.0 != name).collect();
            set(text, &values).unwrap_err()
        };
        let (class, name, why) = refused("lambdaa", "1");
        assert!(class == Class::Invalid && name == "lambdaa" && why.contains("did you mean `lambda`?"), "{why}");
        let (class, name, why) = refused("capacity", "1");
        assert!(class == Class::Invalid && name == "capacity" && why.contains("`N`, `lambda`"), "{why}");
        assert_eq!(refused("N", "2.5").0, Class::Unsupported);
        assert_eq!(refused("N", "many").1, "N");
        assert_eq!(refused("lambda", "mu").0, Class::Invalid);
        assert!(set(text, &[all[0], all[0]]).unwrap_err().2.contains("two values"));
    }
    let json = r#"{"net": {"places": [{"name": "N"}], "transitions": []}}"#;
    assert_eq!(set(json, &[("N", "1")]).unwrap_err().1, "N");
}

/// Of a file with several nets one has to be named; the name of the only one may be.
#[test]
fn one_of_several_nets_is_chosen_by_its_name() {
    let project = |names: &[&str]| {
        let net =
            |name: &&str| format!(r#"<gspn name="{name}"><nodes><place name="in_{name}"/></nodes><edges/></gspn>"#);
        format!(r#"<project name="p">{}</project>"#, names.iter().map(net).collect::<String>())
    };
    let pnml = r#"<pnml><net id="1"><name><text>one</text></name><place id="in_one"/></net><net id="two"><place id="in_two"/></net></pnml>"#;
    let lone = r#"{"name": "one", "net": {"places": [{"name": "in_one"}], "transitions": []}}"#;
    let of = |text: &str, name: Option<&str>| {
        let format = Format::of(text.as_bytes()).unwrap();
        let read = read_beside(text.as_bytes(), format, &Beside { net: name, ..Beside::default() });
        read.map(|document| document.net).map_err(|refusal| (refusal.class, refusal.name, refusal.why))
    };
    for (text, owner) in [(project(&["one", "two"]).as_str(), "project"), (pnml, "pnml")] {
        for name in ["one", "two"] {
            let net = of(text, Some(name)).unwrap();
            assert_eq!((net.name(), net.places()[0].name.clone()), (name, format!("in_{name}")));
        }
        let (class, name, why) = of(text, None).unwrap_err();
        assert_eq!((class, name.as_str()), (Class::Unsupported, owner));
        assert!(why.contains("2 nets (`one`, `two`)") && why.contains("`--net NAME`"), "{why}");
        let (class, name, why) = of(text, Some("three")).unwrap_err();
        assert_eq!((class, name.as_str()), (Class::Invalid, "three"));
        assert!(why.contains("`one`, `two`"), "{why}");
    }
    for text in [&project(&["one"]), lone] {
        assert_eq!(of(text, Some("one")), of(text, None));
        assert_eq!(of(text, Some("two")).unwrap_err().0, Class::Invalid);
    }
    let (class, name, _) = of(&project(&["one", "one"]), Some("one")).unwrap_err();
    assert_eq!((class, name.as_str()), (Class::Unsupported, "one"));
    let many: Vec<_> = (0..20).map(|index| format!("n{index}")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    assert!(of(&project(&many), None).unwrap_err().2.contains("`n7` and 12 more"));
}

fn edspn(definitions: &str, marking: &str) -> Result<Net, Refusal> {
    let text = format!(
        r#"<net id="0" netclass="eDSPN" xmlns="http://timenet.tu-ilmenau.de/schema/eDSPN">
        <place id="0.0" initialMarking="{marking}" type="node"><label id="0.0.0" text="p" type="text"/></place>
        <exponentialTransition delay="d" id="0.1" preemptionPolicy="PRD" serverType="ExclusiveServer" type="node"><label id="0.1.0" text="t" type="text"/></exponentialTransition>
        <arc fromNode="0.0" id="0.2" toNode="0.1" type="connector"><inscription id="0.2.0" text="1" type="inscriptionText"/></arc>
        {definitions}</net>"#
    );
    Ok(read(text.as_bytes(), Format::Edspn, &[])?.net)
}

fn define(kind: &str, name: &str, expression: &str) -> String {
    format!(r#"<definition defType="{kind}" expression="{expression}" id="0.{name}" name="{name}" type="text"/>"#)
}

/// TimeNET saves definitions in the order in which they were drawn.
#[test]
fn definitions_of_timenet_stand_in_any_order() {
    let all = define("real", "d", "1/(N*mu)")
        + &define("int", "N", "M+1")
        + &define("real", "mu", "0.5")
        + &define("int", "M", "3");
    let net = edspn(&all, "N").unwrap();
    assert_eq!(net.places()[0].tokens, 4);
    assert_eq!(net.transitions()[0].kind, Kind::Timed { rate: Rate::Constant(2.0), servers: Servers::Finite(1) });

    let round = define("real", "d", "e") + &define("real", "e", "d");
    let refusal = edspn(&round, "1").unwrap_err();
    assert_eq!((refusal.class, refusal.name.as_str()), (Class::Invalid, "d"), "{refusal}");
    let twice = define("real", "d", "1") + &define("real", "d", "2");
    assert!(edspn(&twice, "1").unwrap_err().why.contains("two constants"));
    // Ten thousand, each before the one that it needs.
    let chain: String = (1..10_000).map(|at| define("real", &format!("d{at}"), &format!("d{}", at + 1))).collect();
    let chain = define("real", "d", "d1") + &chain;
    let refusal = edspn(&chain, "1").unwrap_err();
    assert_eq!((refusal.class, refusal.name.as_str()), (Class::Invalid, "d9999"), "{refusal}");
    assert!(edspn(&(chain + &define("real", "d10000", "2")), "1").is_ok());
}

/// Whether TimeNET cuts or rounds it is not in the file.
#[test]
fn an_int_of_timenet_is_whole_or_refused() {
    let good = define("int", "d", "6/2");
    assert_eq!(edspn(&good, "d").unwrap().places()[0].tokens, 3);
    let refusal = edspn(&define("int", "d", "7/2"), "1").unwrap_err();
    assert_eq!((refusal.class, refusal.name.as_str()), (Class::Unsupported, "d"), "{refusal}");
}

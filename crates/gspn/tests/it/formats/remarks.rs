//! What tools say beside a net in PNML, and of which class it is.

use gspn::Class;
use gspn::formats::{Format, read};
use gspn::json;

use super::{PIPE, PNPRO, foreign};

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
    let mut number = 0;
    let mut arc = |from: &str, to: &str| {
        number += 1;
        format!(r#"<arc id="a{number}" source="{from}" target="{to}"/>"#)
    };
    for (id, takes, gives) in transitions {
        text += &format!(
            r#"<transition id="{id}"><name><text>decide</text></name><toolspecific tool="WoPeD" version="1.0">{operator}<time>0</time></toolspecific></transition>"#
        );
        for place in *takes {
            text += &arc(place, id);
        }
        for place in *gives {
            text += &arc(id, place);
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
    assert_eq!(with("red,0"), with("Default,0"));
    for refused in ["Default,2,red,1", "red,2", "Default,1,Default,1", "Default,2,red"] {
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
        (r#"type="first-order-hybrid""#, "no whole numbers of tokens"),
        (r#"type="http://example.org/grammar/hpn""#, "no whole numbers of tokens"),
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
        // Before a number that only colours would give a value.
        (
            PNPRO,
            r#"name="mu" value="1/4" x="1.0" y="3.0"/>"#,
            r#"name="mu"/><color-class name="C" definition="c{1..3}"/>"#,
            "C",
        ),
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

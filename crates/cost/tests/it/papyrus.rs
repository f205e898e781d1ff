//! Models in the shape that Papyrus writes: what real ones hold is understood or refused by name.

use cost::read::{Language, read};
use cost::solve::{Solution, solve};
use cost::{Class, Model, print, weave};
use gspn::{Budget, Limits};
use serde_json::json;

/// Work on executions of lifelines, an open load, nodes with components in them.
const READINGS: &str = include_str!("../fixtures/readings.uml");
/// Loops by a guard and by `rep`, one inside the other.
const RECIPE: &str = include_str!("../fixtures/recipe.uml");
/// Roles of a collaboration, two lifelines of one component, fragments inside each other, uses, a channel, a certified key.
const PLC: &str = include_str!("../fixtures/reading-plc.uml");

fn model(text: &str) -> Model {
    read(text, Language::Xmi).unwrap_or_else(|fault| panic!("{fault}"))
}

/// That a text changed in one place is refused, and where.
fn check(text: &str, (from, to): (&str, &str), class: Class, part: &str) {
    assert!(text.contains(from), "{from}");
    let fault = read(&text.replacen(from, to, 1), Language::Xmi).expect_err(part);
    assert_eq!(fault.class, class, "{fault}");
    assert!(fault.to_string().contains(part), "{fault}");
    assert!(fault.line.is_some(), "{fault}");
}

/// The line of [`READINGS`] in which this stands.
fn line(part: &str) -> &'static str {
    READINGS.lines().find(|line| line.contains(part)).unwrap_or_else(|| panic!("{part}"))
}

fn solved(model: &Model) -> Solution {
    let mut go_on = |_| true;
    solve(&weave(model), &mut Budget::new(Limits::default(), &mut go_on)).unwrap_or_else(|fault| panic!("{fault}"))
}

#[test]
fn work_stands_on_executions() {
    let model = model(READINGS);
    let printed = print::annotated(&model);
    for line in ["parsing", "storing", "store(reading)", "stored"] {
        assert!(printed.contains(line), "{line}:\n{printed}");
    }
    let found = solved(&model);
    // Two machines in a row, 8 places: 50/s of 4 ms on two cores, of 6 ms on one that is twice as fast, 2 ms on the line.
    assert!((found.throughput + found.turned_away - 50.0).abs() < 1e-6, "{found:?}");
    let busy: Vec<f64> = found.nodes.iter().map(|node| node.utilisation).collect();
    assert!((busy[0] - found.throughput * 0.004 / 2.0).abs() < 1e-9, "{busy:?}");
    assert!((busy[1] - found.throughput * 0.006).abs() < 1e-9, "{busy:?}");
}

/// Work is laid where its fragment stands: what its ends say else would be lost.
#[test]
fn an_execution_begins_and_ends_where_it_stands() {
    let storing = line("name=\"storing\"");
    let (sent, received) = (line("name=\"s1\""), line("name=\"r1\""));
    // Started by the message itself, as other tools have it, and between its ends.
    let by_message = storing.replace("_Sc5rhU4KqxEfGxkMzEJQgn", "_grFcDG4KqxEfGxGCjSR0yb");
    let usual = READINGS.replacen(storing, &by_message, 1);
    assert_eq!(solved(&model(&usual)).response, solved(&model(READINGS)).response);
    let between = usual.replacen(&by_message, "", 1).replacen(received, &format!("{by_message}\n{received}"), 1);
    assert_eq!(solved(&model(&between)).response, solved(&model(READINGS)).response);

    let moved =
        |before: &str| usual.replacen(&by_message, "", 1).replacen(before, &format!("{by_message}\n{before}"), 1);
    let refused = |text: &str, class, why: &str| check(text, ("", ""), class, &format!("execution storing: {why}"));
    refused(&moved(sent), Class::Invalid, "it stands before `r1`, which starts it");
    refused(&moved("<message xmi:type"), Class::Invalid, "it stands behind `s2`, which is sent when it ends");
    let alone = |fragment: &str| {
        format!(
            "<fragment xmi:type=\"uml:CombinedFragment\" xmi:id=\"_strict\" interactionOperator=\"strict\"><operand xmi:type=\"uml:InteractionOperand\" xmi:id=\"_op\">{fragment}</operand></fragment>"
        )
    };
    let inside = usual.replacen(&by_message, &alone(&by_message), 1);
    refused(&inside, Class::Invalid, "its `start`, `r1`, is not where it stands");
    let elsewhere = usual.replacen("start=\"_grFcDG4KqxEfGxGCjSR0yb\"", "start=\"_7rupGC4KqxEfGxKPeSA2sX\"", 1);
    refused(&elsewhere, Class::Invalid, "its `start`, `parsingStart`, is on another lifeline");
    let nowhere = usual.replacen("start=\"_grFcDG4KqxEfGxGCjSR0yb\"", "start=\"_nobody\"", 1);
    refused(&nowhere, Class::NoSuchName, "its `start` is `_nobody`, which is no occurrence of this file");
}

#[test]
fn loops_go_round_as_often_as_they_say() {
    let found = solved(&model(RECIPE));
    // 10 ms of thought, 20 ms, and five times two strokes of 3 ms.
    assert!((found.throughput - 1.0 / 0.060).abs() < 1e-9, "{found:?}");
    // The same in one line.
    let found = solved(&model(&RECIPE.replace('\n', " ")));
    assert!((found.throughput - 1.0 / 0.060).abs() < 1e-9, "{found:?}");
    // A `rep` on the outer operand, within its guard and not.
    let id = RECIPE.split("InteractionOperand\" xmi:id=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let more = format!("<GQAM:GaStep xmi:id=\"_more\" base_NamedElement=\"{id}\" rep=\"(value=7)\"/>\n</xmi:XMI>");
    let both = RECIPE.replace("</xmi:XMI>", &more);
    let guarded = |least: &str, most: &str| {
        let parts: Vec<&str> = both.splitn(3, " value=\"5\"").collect();
        format!("{}{least}{}{most}{}", parts[0], parts[1], parts[2])
    };
    for (least, most) in [(" value=\"7\"", " value=\"7\""), (" value=\"5\"", " value=\"9\""), ("", " value=\"*\"")] {
        let found = solved(&model(&guarded(least, most)));
        assert!((found.throughput - 1.0 / 0.072).abs() < 1e-9, "{found:?}");
    }
    for (least, most, range) in [("5", "5", "`5..5`"), ("8", "*", "`8..*`"), ("0", "6", "`0..6`")] {
        let text = guarded(&format!(" value=\"{least}\""), &format!(" value=\"{most}\""));
        let fault = read(&text, Language::Xmi).expect_err(range);
        assert_eq!(fault.class, Class::Invalid, "{fault}");
        assert!(fault.to_string().contains(&format!("its `rep` is 7, and its guard says {range}")), "{fault}");
    }
    // A bound may be an expression that is a number.
    let expression = |bound: &str, body: &str| {
        let literal = RECIPE.split(&format!("<{bound} ")).nth(1).and_then(|rest| rest.split("/>").next()).unwrap();
        let id = literal.split("xmi:id=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
        let opaque = format!("<{bound} xmi:type=\"uml:OpaqueExpression\" xmi:id=\"{id}\">{body}</{bound}>");
        RECIPE.replacen(&format!("<{bound} {literal}/>"), &opaque, 1)
    };
    for bound in ["minint", "maxint"] {
        let found = solved(&model(&expression(bound, "<body>5</body>")));
        assert!((found.throughput - 1.0 / 0.060).abs() < 1e-9, "{found:?}");
        for (body, part) in [("<body>n</body>", "is `n`: only whole"), ("", "is a `OpaqueExpression`: only whole")] {
            let fault = read(&expression(bound, body), Language::Xmi).expect_err(part);
            assert_eq!(fault.class, Class::Invalid, "{fault}");
            assert!(fault.to_string().contains(&format!("its `{bound}` {part}")), "{fault}");
        }
    }
}

/// 10 ms of thought, 2 ms to show; two pages, and in half of the runs an alarm of 5 ms (one in five) or a page more. A page is 0.25 ms at
/// half the speed, and two messages of 0.2 ms.
#[test]
fn fragments_stand_in_fragments_and_uses_in_both() {
    let model = model(PLC);
    let (pages, alarms) = (2.0 + 0.5 * 0.8, 0.5 * 0.2);
    let time = 10.0 + 2.0 + pages * (0.5 + 2.0 * 0.2) + alarms * 5.0;
    let found = solved(&model.plain());
    assert!((1000.0 / found.throughput - time).abs() < 1e-9, "{found:?}");
    // A message between two lifelines of one component is its work.
    let busy = |node: &str| found.nodes.iter().find(|it| it.node == node).unwrap().utilisation * time;
    assert!(
        (busy("panel") - (2.0 + alarms * 5.0)).abs() < 1e-9 && (busy("plc") - pages * 0.5).abs() < 1e-9,
        "{found:?}"
    );
}

/// Stereotypes with lists are the annotations that TOML writes with lists.
#[test]
fn channels_and_keys_are_annotations_like_others() {
    let toml = "[workload]\nclients = 1\n[node.a]\n[node.b]\n[node.c]\n[component.p]\nnode = \"a\"\n[component.s]\nnode = \"b\"\n\
        [component.r]\nnode = \"c\"\n[connector.wire]\nfrom = \"p\"\nto = \"s\"\n[connector.enrolment]\nfrom = \"s\"\nto = \"r\"\n\
        [[sequence.main]]\nsend = \"x\"\nover = \"wire\"\n\
        [[secure]]\nproperty = \"secure-channel\"\non = \"connector wire\"\nprotocol = \"opc-ua\"\npolicy = [\"Basic256Sha256\", \"ECC_nistP256\"]\n\
        mode = [\"sign-and-encrypt\", \"sign\"]\nkey = [\"rsa-2048\", \"ecdsa-p256\"]\nreuse = 0.75\nrenewed = 0.125\ndiscovery = false\n\
        [[secure]]\nproperty = \"certified-key\"\non = \"component s\"\nsignature = \"rsa-2048\"\nlife = 1000\nthrough = \"enrolment\"\n\
        issuer = \"rsa-4096\"\nin = [\"SC1\"]\n";
    let (drawn, written) = (model(PLC), read(toml, Language::Toml).unwrap());
    assert_eq!(drawn.annotations.len(), 2);
    for (one, other) in drawn.annotations.iter().zip(&written.annotations) {
        assert_eq!((one.property, &one.alternatives), (other.property, &other.alternatives));
        assert_eq!(one.configurations, other.configurations);
    }
    let ways: Vec<usize> = drawn.annotations.iter().map(|it| it.alternatives.len()).collect();
    assert_eq!(ways, [4, 1]);
    assert_eq!(drawn.target(&drawn.annotations[0]), "connector wire");
    assert_eq!(drawn.target(&drawn.annotations[1]), "component PlcServer");
    // They are woven: the channel is opened once for the pages that follow each other.
    let woven = weave(&drawn);
    let secured = print::annotated(woven.model());
    for phase in ["channel opened", "session activated", "channel renewed", "messages", "certificate"] {
        assert!(secured.contains(phase), "{phase}:\n{secured}");
    }
}

/// A connector may have a stereotype for its channel and one for the tunnel that it goes through.
#[test]
fn a_channel_of_a_diagram_goes_through_a_tunnel() {
    let channel = "  <trapkey:SecureChannel ";
    let tunnel = "  <trapkey:SecureTunnel xmi:id=\"_t1\" base_Connector=\"_wire4LEfGxu2\" protocol=\"wireguard\" reuse=\"0.9\"/>\n";
    let drawn = model(&PLC.replacen(channel, &format!("{tunnel}{channel}"), 1));
    let properties: Vec<&str> = drawn.annotations.iter().map(|it| it.property.word()).collect();
    assert!(["secure-channel", "secure-tunnel"].iter().all(|word| properties.contains(word)), "{properties:?}");
    let secured = print::annotated(weave(&drawn).model());
    assert!(secured.contains("WireGuard handshake") && secured.contains("channel opened"), "{secured}");
}

#[test]
fn what_is_printed_of_them_is_read_back() {
    for text in [READINGS, RECIPE, PLC] {
        let model = model(text);
        let diagram = print::annotated(&model);
        let again = read(&diagram, Language::Mermaid).unwrap_or_else(|fault| panic!("{fault}\n{diagram}"));
        assert_eq!(json!(again), json!(model), "{diagram}");
    }
}

#[test]
fn what_real_models_hold_besides_is_refused_by_name() {
    let pool = "<PAM:PaRunTInstance xmi:id=\"_pool\" poolSize=\"4\" base_NamedElement=\"_bG7UaE4KqxEfGxB7wAPPDg\"/>\n</xmi:XMI>";
    check(READINGS, ("</xmi:XMI>", pool), Class::Unknown, "`poolSize` of the stereotype `PaRunTInstance`");
    let service = "<Core:DaService xmlns:Core=\"http://core/1\" base_NamedElement=\"_x\"/>\n</xmi:XMI>";
    check(READINGS, ("</xmi:XMI>", service), Class::UnknownStereotype, "`DaService`");
    check(READINGS, ("expr=50,", "expr=$arrRateP,"), Class::Invalid, "`$arrRateP` is an expression");
    check(READINGS, ("expr=12,unit=ms,statQ=mean", "expr=12,unit=ms,statQ=max"), Class::Invalid, "statQ=max");
    check(READINGS, (", room=8", ""), Class::Missing, "room");
    // A lifeline that stands for nothing.
    let represents = READINGS.split("represents=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let gone = format!("represents=\"{represents}\" ");
    check(READINGS, (&gone, ""), Class::NoSuchName, "no lifeline that represents a component");
    check(
        PLC,
        ("base_Connector=\"_wire4LEfGxu2\" protocol", "base_Connector=\"_roleP4LEfGxu2\" protocol"),
        Class::NoSuchName,
        "panel",
    );
    check(PLC, ("protocol=\"opc-ua\"", "protocol=\"opc-da\""), Class::Unknown, "opc-da");
    check(PLC, (" renewed=\"0.125\"", " renewal=\"0.125\""), Class::Unknown, "`renewal`");
    check(PLC, ("through=\"enrolment\"", "through=\"wires\""), Class::NoSuchName, "wires");
    check(PLC, (" life=\"1000\"", ""), Class::MissingAnnotation, "life");
    check(PLC, ("refersTo=\"_reading4LEfGxu2\"", "refersTo=\"_main4LEfGxu2\""), Class::Cycle, "Looking");
    check(
        PLC,
        ("interactionOperator=\"alt\"", "interactionOperator=\"strict\""),
        Class::Unknown,
        "`prob` of the stereotype `GaStep`",
    );
    // In MARTE's words, with the units that there are.
    for (from, to, class, part) in [
        ("unit='us'", "unit='tick'", Class::Invalid, "`hostDemand` is `250 tick`: a time in ns, us, ms, s, min or h"),
        ("unit=B)", "unit=word)", Class::Invalid, "`msgSize` is `120 word`: a whole size in B, kB"),
        ("(value=120, unit=B)", "(value=120.5, unit=B)", Class::Invalid, "`msgSize` is `120.5 B`"),
        ("(200,us)", "(200,m)", Class::Invalid, "`blockT` is `200 m`"),
        ("resMult=\"1\"", "resMult=\"0\"", Class::Invalid, "`resMult` is `0`: a whole number from 1 to 1024"),
        ("(value=0.5)\" resMult", "(value=0)\" resMult", Class::Invalid, "`speedFactor` is `0`: a number above 0"),
        ("prob=\"(value=0.5)\"", "prob=\"50 %\"", Class::Invalid, "`prob` is `50 %`: a probability above 0"),
        ("<blockT>", "<capacity>(1,baud)</capacity><blockT>", Class::Invalid, "`capacity` is `1 baud`: a rate above 0"),
        ("<blockT>", "<blockT>(1,us)</blockT><blockT>", Class::Doubled, "`blockT` is said 2 times"),
        ("(value=1,statQ=mean)", "0", Class::Invalid, "`population` is `0`: a whole number"),
        (
            "population=",
            "population=1, crowd=",
            Class::Unknown,
            "`crowd` of `closed` is not understood; known: population",
        ),
        ("population=", "room=", Class::Unknown, "`room` of `closed`"),
        ("population=(value=1,statQ=mean), ", "", Class::Missing, "`closed` has no `population`"),
        ("unit=s,statQ=mean", "unit=Hz,statQ=mean", Class::Invalid, "`extDelay` is `0.01 /s`: a time"),
    ] {
        check(PLC, (from, to), class, part);
    }
    let hours = PLC.replacen("(200,us)", "(0.5,hrs)", 1);
    assert!((model(&hours).connectors[0].latency - 1800.0).abs() < 1e-9);
    check(PLC, ("(200,us)", "(200,us,meas)"), Class::Invalid, "(200,us,meas)");
    // A comma for a point, and what stands twice: one of both would have counted.
    for (from, to, class, part) in [
        (
            "(value=120, unit=B)",
            "(value=120,5,unit=B)",
            Class::Invalid,
            "message Read: `5` in `(value=120,5,unit=B)` is no unit",
        ),
        (
            "(200,us)",
            "(200,5,unit=us)",
            Class::Invalid,
            "connector wire: `5` in `(200,5,unit=us)` is no unit: decimals have a point, `200.5`",
        ),
        (
            "(expr='250', unit='us')",
            "(expr='250', value='2', unit='us')",
            Class::Doubled,
            "execution look up: the value stands twice",
        ),
        ("(200,us)", "(200,us,unit=ms)", Class::Doubled, "the unit stands twice in `(200,us,unit=ms)`"),
        ("(value=1,statQ=mean)", "1, population=2", Class::Doubled, "`population` stands twice"),
    ] {
        check(PLC, (from, to), class, part);
    }
    check(RECIPE, ("\"loop\"", "\"par\""), Class::Unknown, "a guard in `par` is not heeded");
    check(RECIPE, (" value=\"5\"", ""), Class::MissingAnnotation, "how often does it go round");
    let none = RECIPE.replacen(" value=\"5\"", " value=\"0\"", 1);
    check(&none, (" value=\"5\"", " value=\"0\""), Class::Invalid, "its guard says `0..0`: a whole number from 1");
    check(RECIPE, ("rep=\"2\"", "rep=\"2.5\""), Class::Invalid, "2.5");
    check(RECIPE, ("rep=\"2\"", "rep=\"(expr=2,statQ=max)\""), Class::Invalid, "statQ=max");
    check(RECIPE, ("rep=\"2\"", ""), Class::MissingAnnotation, "loop CombinedFragment1");
}

/// What says nothing of times is refused with what to do instead, and a guard without a condition says nothing.
#[test]
fn what_cannot_be_laid_is_refused_with_advice() {
    for (operator, advice) in [
        ("critical", "is held by a resource: write `strict`"),
        ("neg", "what never happens: take it out"),
        ("assert", "says nothing of times: write `strict`"),
        ("odd", "`par`, `seq` and `strict` can"),
    ] {
        let part = format!("the operator `{operator}`: it cannot be laid");
        check(RECIPE, ("\"loop\"", &format!("\"{operator}\"")), Class::Unknown, &part);
        check(RECIPE, ("\"loop\"", &format!("\"{operator}\"")), Class::Unknown, advice);
    }
    let occurrence = "\"uml:MessageOccurrenceSpecification\"";
    check(RECIPE, (occurrence, "\"uml:StateInvariant\""), Class::Unknown, "it takes no time, take it out");
    check("hello", ("hello", "hello"), Class::Syntax, "this is no XML, which a model in UML (XMI) is written in");
    for wrong in ["<?xml", "<?xml =", "<?xml versions="] {
        let part = "is no declaration of XML (`<?xml version=\"1.0\"?>`)";
        check(RECIPE, ("<?xml version=", wrong), Class::Syntax, part);
    }
    // The first loop gone round once.
    let begin = RECIPE.find("<guard").unwrap();
    let end = RECIPE.find("</guard>").unwrap() + "</guard>".len();
    let with =
        |guard: &str| format!("{}{guard}{}", &RECIPE[..begin], &RECIPE[end..]).replacen("\"loop\"", "\"strict\"", 1);
    let wanted = json!(model(&with("")));
    for guard in [
        "<guard/>",
        "<guard xmi:type=\"uml:InteractionConstraint\" xmi:id=\"_g\"><specification xmi:type=\"uml:LiteralString\" xmi:id=\"_s\"/></guard>",
        "<guard xmi:id=\"_g\">\n<specification xmi:type=\"uml:OpaqueExpression\" xmi:id=\"_s\"><body></body></specification>\n</guard>",
    ] {
        assert_eq!(json!(model(&with(guard))), wanted, "{guard}");
    }
    for inside in ["\"uml:LiteralString\" value=\"x\"", "\"uml:LiteralBoolean\"", "\"uml:LiteralInteger\""] {
        let guard = format!("<guard xmi:id=\"_g\"><specification xmi:type={inside} xmi:id=\"_s\"/></guard>");
        check(&with(&guard), ("<guard", "<guard"), Class::Unknown, "a guard in `strict` is not heeded");
    }
}

/// A whole number may be written as a real one, and a probability or factor between brackets in hundredths.
#[test]
fn reals_that_are_whole_and_hundredths_are_taken() {
    let wanted = json!(model(RECIPE));
    for rep in ["2.0", "(value=2.0)", "(expr=2.00, statQ=mean)"] {
        assert_eq!(json!(model(&RECIPE.replacen("rep=\"2\"", &format!("rep=\"{rep}\""), 1))), wanted, "{rep}");
    }
    assert_eq!(json!(model(&RECIPE.replace(" value=\"5\"", " value=\"5.0\""))), wanted);
    let wanted = json!(model(PLC));
    for (from, to) in [
        ("prob=\"(value=0.5)\"", "prob=\"(50,%)\""),
        ("prob=\"(value=0.5)\"", "prob=\"(value=50, unit=%)\""),
        ("prob=\"(value=0.5)\"", "prob=\"(expr=50.0, unit='%', source=est)\""),
        ("(value=0.5)\" resMult=\"1\"", "(50,%)\" resMult=\"1.0\""),
        ("(value=1,statQ=mean)", "(value=1.0,statQ=mean)"),
    ] {
        assert!(PLC.contains(from), "{from}");
        assert_eq!(json!(model(&PLC.replacen(from, to, 1))), wanted, "{to}");
    }
    for (from, to, part) in [
        ("prob=\"(value=0.5)\"", "prob=\"(150,%)\"", "`prob` is `1.5`: a probability above 0 and not above 1"),
        ("prob=\"(value=0.5)\"", "prob=\"(50,ms)\"", "`prob` is `50 ms`: a probability"),
        ("resMult=\"1\"", "resMult=\"1.5\"", "`resMult` is `1.5`: a whole number from 1 to 1024"),
        ("resMult=\"1\"", "resMult=\"(100,%)\"", "`resMult` is `100 %`: a whole number"),
    ] {
        let fault = read(&PLC.replacen(from, to, 1), Language::Xmi).expect_err(part);
        assert_eq!(fault.class, Class::Invalid, "{fault}");
        assert!(fault.to_string().contains(part) && fault.line.is_some(), "{fault}");
    }
}

/// A property of a component is a value, unless it is a part or leads to another component.
#[test]
fn parts_are_no_attributes() {
    let collector =
        "<nestedClassifier xmi:type=\"uml:Component\" xmi:id=\"_bG7UaE4KqxEfGxB7wAPPDg\" name=\"Collector\"";
    assert!(READINGS.contains(collector));
    let attributes = |of: &str| {
        let property = format!("<ownedAttribute xmi:type=\"uml:Property\" xmi:id=\"_it\" name=\"it\" {of}/>");
        let class = "<nestedClassifier xmi:type=\"uml:Class\" xmi:id=\"_class\" name=\"Reading\"/>";
        let text = format!("{class}{collector}>{property}</nestedClassifier>");
        let model = model(&READINGS.replacen(&format!("{collector}/>"), &text, 1));
        model.attributes.iter().map(|it| it.name.clone()).collect::<Vec<_>>()
    };
    for (of, wanted) in [
        ("", vec!["it"]),
        ("type=\"_class\"", vec!["it"]),
        ("type=\"_XAc1HJ4KqxEfGxRyGADf4h\"", vec![]),
        ("type=\"_87c3B84KqxEfGxhpAsvaaq\"", vec![]),
    ] {
        assert_eq!(attributes(of), wanted, "{of}");
    }
}

/// Rules of times, wherever they stand, and parts of which there are several: they would have changed nothing.
#[test]
fn rules_and_multiplicities_are_refused_by_name() {
    let with = |text: &str, before: &str, more: &str| {
        assert!(text.contains(before), "{before}");
        text.replacen(before, &format!("{more}\n{before}"), 1)
    };
    let check = |text: &str, class, part: &str| {
        let fault = read(text, Language::Xmi).expect_err(part);
        assert_eq!(fault.class, class, "{fault}");
        assert!(fault.to_string().contains(part), "{fault}");
        let line = fault.line.and_then(|line| text.lines().nth(line - 1)).unwrap_or("");
        assert!(line.contains("_rule") || line.contains("upperValue"), "{fault}: {line}");
    };
    let lifeline = "<lifeline xmi:type=\"uml:Lifeline\" xmi:id=\"_MwnNej4KqxEfGxNz2JcuaH\"";
    let rule = |tag: &str, of: &str| format!("<{tag} xmi:type=\"uml:{of}\" xmi:id=\"_rule\" name=\"soon\"/>");
    for of in ["DurationConstraint", "TimeConstraint", "Constraint"] {
        check(
            &with(READINGS, lifeline, &rule("ownedRule", of)),
            Class::Unknown,
            &format!("soon: a `{of}` is not heeded"),
        );
    }
    let operand = "<guard xmi:type=\"uml:InteractionConstraint\"";
    check(&with(PLC, operand, &rule("ownedRule", "Constraint")), Class::Unknown, "a `Constraint` is not heeded");
    let node = "<packagedElement xmi:type=\"uml:Node\" xmi:id=\"_87c3B84KqxEfGxhpAsvaaq\"";
    for of in ["DurationObservation", "TimeObservation", "DurationConstraint", "Duration"] {
        let tag = if of == "DurationConstraint" { "ownedRule" } else { "packagedElement" };
        check(&with(READINGS, node, &rule(tag, of)), Class::Unknown, &format!("soon: a `{of}` is not heeded"));
    }
    // What people say, and rules of something else.
    model(&with(
        READINGS,
        lifeline,
        "<ownedComment xmi:type=\"uml:Comment\" xmi:id=\"_rule\"><body>soon</body></ownedComment>",
    ));
    model(&with(READINGS, node, &rule("ownedRule", "Constraint")));

    let several = |text: &str, id: &str, upper: &str| {
        let element = text.split(&format!("xmi:id=\"{id}\"")).nth(1).and_then(|rest| rest.split("/>").next()).unwrap();
        let upper = format!("{element}>\n<upperValue xmi:id=\"_upper\" {upper}/>\n</ownedAttribute>");
        text.replacen(&format!("{element}/>"), &upper, 1)
    };
    let natural = "xmi:type=\"uml:LiteralUnlimitedNatural\"";
    // A part, a lifeline's property, a role.
    for (text, id, part) in [
        (READINGS, "_qWPJJh4KqxEfGxY67CyET5", "part collector"),
        (READINGS, "_6FySW14KqxEfGxQjUBEp2G", "part a"),
        (PLC, "_roleR4LEfGxu2", "part registry"),
    ] {
        for (upper, times) in [
            (format!("{natural} value=\"3\""), "3"),
            (format!("{natural} value=\"*\""), "*"),
            (natural.to_owned(), "0"),
            ("xmi:type=\"uml:OpaqueExpression\"".to_owned(), "an expression"),
        ] {
            let why = format!("{part}: its multiplicity is `{times}`");
            check(&several(text, id, &upper), Class::Invalid, &why);
        }
        model(&several(text, id, &format!("{natural} value=\"1\"")));
    }
    // The end of an association.
    model(&several(READINGS, "_Z0C00y4KqxEfGxJ3XYFwgE", &format!("{natural} value=\"*\"")));
}

/// Other tools write references as elements, leave types out that the metamodel gives, and give the namespace of UML another prefix.
#[test]
fn what_other_tools_write_is_the_same_model() {
    let wanted = json!(model(PLC));
    let with = |key: &str, of: &str, leads: &str| {
        let (mut text, mut from) = (PLC.to_owned(), 0);
        while let Some(at) = text[from..].find(&format!("<{of} ")).map(|at| from + at) {
            let end = at + text[at..].find('>').unwrap();
            from = end;
            let element = text[at..=end].to_owned();
            let Some(id) = element.split(&format!(" {key}=\"")).nth(1).and_then(|rest| rest.split('"').next()) else {
                continue;
            };
            let without = element.replacen(&format!(" {key}=\"{id}\""), "", 1);
            let child = format!("<{key} {}/>", leads.replace("ID", id));
            let whole = match without.strip_suffix("/>") {
                Some(open) => format!("{open}>{child}</{of}>"),
                None => format!("{without}{child}"),
            };
            text.replace_range(at..=end, &whole);
        }
        assert_ne!(text, PLC, "{key}");
        text
    };
    let instead = |key: &str, of: &str| with(key, of, "xmi:idref=\"ID\"");
    for (key, of) in [
        ("type", "ownedAttribute"),
        ("represents", "lifeline"),
        ("role", "end"),
        ("sendEvent", "message"),
        ("receiveEvent", "message"),
        ("message", "fragment"),
        ("covered", "fragment"),
        ("client", "deployment"),
    ] {
        assert_eq!(json!(model(&instead(key, of))), wanted, "{key}");
        assert_eq!(json!(model(&with(key, of, "href=\"#ID\""))), wanted, "{key}");
    }
    // Of a message, of an `InteractionUse`, and of what a stereotype is applied to.
    for (key, of) in [
        ("connector", "message"),
        ("refersTo", "fragment"),
        ("covered", "fragment"),
        ("base_NamedElement", "GQAM:GaStep"),
    ] {
        assert_eq!(json!(model(&with(key, of, "href=\"#ID\""))), wanted, "{key}");
        let fault = read(&with(key, of, "href=\"other.uml#ID\""), Language::Xmi).expect_err(key);
        assert_eq!(fault.class, Class::NoSuchName, "{key}: {fault}");
    }
    let typed =
        instead("type", "ownedAttribute").replace("<type xmi:idref", "<type xmi:type=\"uml:Component\" xmi:idref");
    assert_eq!(json!(model(&typed)), wanted);
    for (tag, of) in [("ownedAttribute", "Property"), ("operand", "InteractionOperand"), ("deployment", "Deployment")] {
        let text = PLC.replace(&format!("<{tag} xmi:type=\"uml:{of}\""), &format!("<{tag}"));
        assert_ne!(text, PLC);
        assert_eq!(json!(model(&text)), wanted, "{tag}");
    }
    let text = PLC.replace("\"uml:", "\"x:").replace("xmlns:uml", "xmlns:x").replace("uml:Model", "x:Model");
    assert_eq!(json!(model(&text)), wanted);
    // An attribute without its type is one, too.
    let attribute = "<packagedElement xmi:type=\"uml:Component\" xmi:id=\"_registry4LEfGxu2\" name=\"Registry\"";
    let text = PLC.replacen(
        &format!("{attribute}/>"),
        &format!("{attribute}><ownedAttribute xmi:id=\"_a\" name=\"a\"/></packagedElement>"),
        1,
    );
    assert_eq!(model(&text).attributes.len(), model(PLC).attributes.len() + 1);
}

/// One after the other, as they stand.
#[test]
fn operands_of_seq_and_strict_follow_each_other() {
    let wanted = solved(&model(READINGS));
    let first = READINGS.find("<fragment ").unwrap();
    let last = READINGS.rfind("<fragment ").unwrap();
    let last = last + READINGS[last..].find("/>").unwrap() + 2;
    let within = |attributes: &str, guard: &str| {
        let (before, rest) = READINGS.split_at(first);
        let (inside, after) = rest.split_at(last - first);
        format!(
            "{before}<fragment xmi:type=\"uml:CombinedFragment\" xmi:id=\"_cf\"{attributes}>\
            <operand xmi:type=\"uml:InteractionOperand\" xmi:id=\"_cfo\" name=\"all\">{guard}{inside}</operand></fragment>{after}"
        )
    };
    for operator in ["", " interactionOperator=\"seq\"", " interactionOperator=\"strict\""] {
        let found = solved(&model(&within(operator, "")));
        assert!((found.throughput - wanted.throughput).abs() < 1e-9, "{operator}: {found:?}");
    }
    let guard = "<guard xmi:type=\"uml:InteractionConstraint\" xmi:id=\"_cfg\"><specification xmi:type=\"uml:LiteralString\" value=\"ready\"/></guard>";
    let fault = read(&within("", guard), Language::Xmi).unwrap_err();
    assert_eq!(fault.class, Class::Unknown, "{fault}");
    assert!(fault.to_string().contains("operand all: a guard in `seq` is not heeded"), "{fault}");
}

/// What leads to another interaction, to no connector or to two places would have been passed over.
#[test]
fn what_leads_elsewhere_is_refused_by_name() {
    let check = |text: &str, from: &str, to: &str, class, part: &str| check(text, (from, to), class, part);
    let lifeline = "represents=\"_roleP4LEfGxu2\"";
    let decomposed = format!("{lifeline} decomposedAs=\"_reading4LEfGxu2\"");
    check(PLC, lifeline, &decomposed, Class::Unknown, "lifeline panel: a `decomposedAs` is not heeded");
    let selected = "represents=\"_roleS4LEfGxu2\"><selector xmi:type=\"uml:LiteralInteger\" xmi:id=\"_sel\" value=\"2\"/></lifeline>";
    check(PLC, "represents=\"_roleS4LEfGxu2\"/>", selected, Class::Unknown, "lifeline plc: a `selector` is not heeded");
    let behavior = "name=\"look up\" behavior=\"_reading4LEfGxu2\"";
    let part = "execution look up: its `behavior` is the interaction `Reading`";
    check(PLC, "name=\"look up\"", behavior, Class::Unknown, part);
    let both = "name=\"look up\" covered=\"_llS4LEfGxu2 _llP4LEfGxu2\"";
    check(PLC, "name=\"look up\" covered=\"_llS4LEfGxu2\"", both, Class::Invalid, "look up: it is on 2 lifelines");
    let both = "name=\"ReadRecv\" covered=\"_llS4LEfGxu2 _llP4LEfGxu2\"";
    let part = "message Read: its end `ReadRecv` is on 2 lifelines";
    check(PLC, "name=\"ReadRecv\" covered=\"_llS4LEfGxu2\"", both, Class::Invalid, part);
    check(PLC, "name=\"Read\" ", "", Class::Missing, "message _mRead4LEfGxu2: it has no name");
    check(PLC, "name=\"look up\"", "name=\" \"", Class::Missing, "execution _ex4LEfGxu2: it has no name");
    check(PLC, "\"synchCall\"", "\"call\"", Class::Unknown, "message Read: the `messageSort` `call` is unknown");
    // A message whose connector is gone is over no other.
    let over = " connector=\"_wire4LEfGxu2\"/>";
    for (to, named) in [
        (" connector=\"_gone\"/>", "_gone"),
        (" connector=\"_roleP4LEfGxu2\"/>", "_roleP4LEfGxu2"),
        ("><connector xmi:type=\"uml:Connector\" href=\"other.uml#_wire\"/></message>", "other.uml#_wire"),
    ] {
        let part = format!("message Read: its `connector` is `{named}`, which is no connector of this file");
        check(PLC, over, to, Class::NoSuchName, &part);
    }
    model(&PLC.replacen(over, "><connector xmi:idref=\"_wire4LEfGxu2\"/></message>", 1));
    // One file is read.
    let line = READINGS.lines().find(|it| it.contains("name=\"collector\"")).unwrap();
    let there = "<type xmi:type=\"uml:Component\" href=\"other.uml#_c\"/>";
    let part =
        line.replace(" type=\"_bG7UaE4KqxEfGxB7wAPPDg\"", "").replace("/>", &format!(">{there}</ownedAttribute>"));
    let why = "connector line: its end with the role `_qWPJJh4KqxEfGxY67CyET5` is a part of the type `other.uml#_c`, which lies in another file";
    check(READINGS, line, &part, Class::NoSuchName, why);
    let role = " role=\"_qWPJJh4KqxEfGxY67CyET5\"/>";
    let why = "connector line: its end has the role `other.uml#_p`, which lies in another file";
    check(READINGS, role, "><role href=\"other.uml#_p\"/></end>", Class::NoSuchName, why);
    // A message that is received in an operand and sent before it.
    let end = "name=\"alarmRecv\" covered=\"_llScreen4LEfGxu2\" message=\"_mAlarm4LEfGxu2\"/>";
    let fragment = format!("<fragment xmi:type=\"uml:MessageOccurrenceSpecification\" xmi:id=\"_mr24LEfGxu2\" {end}");
    let before = "<fragment xmi:type=\"uml:CombinedFragment\" xmi:id=\"_opt4LEfGxu2\"";
    let moved = PLC.replacen(&fragment, "", 1);
    let part = "message alarm: it is sent in `an alarm` and received in `Looking`";
    check(&moved, before, &format!("{fragment}\n{before}"), Class::Invalid, part);
}

/// A message over a connector that leads elsewhere would have cost what somebody else's does.
#[test]
fn a_message_goes_where_its_connector_leads() {
    let text = "
name = \"two lines\"
[workload]
clients = 1
think = \"1 s\"
[node.pc]
[component.a]
node = \"pc\"
[component.b]
node = \"pc\"
[component.c]
node = \"pc\"
[connector.one]
from = \"a\"
to = \"b\"
[[sequence.main]]
send = \"hello\"
over = \"one\"
from = \"a\"
to = \"c\"
";
    let fault = read(text, Language::Toml).unwrap_err();
    assert_eq!((fault.class, fault.line), (Class::NoSuchName, Some(20)), "{fault}");
    assert!(fault.to_string().contains("`one` does not lead to `c`"), "{fault}");
    assert!(read(&text.replace("to = \"c\"", "to = \"b\""), Language::Toml).is_ok());
    let fault = read(&text.replacen("to = \"b\"", "to = \"a\"", 1), Language::Toml).unwrap_err();
    assert_eq!(fault.class, Class::Invalid, "{fault}");
    assert!(fault.to_string().contains("joins a component with itself"), "{fault}");
    let diagram = "sequenceDiagram
  %% trapkey: workload clients=1 think=\"1 s\"
  %% trapkey: node pc
  %% trapkey: component a node=pc
  %% trapkey: component b node=pc
  %% trapkey: component c node=pc
  %% trapkey: connector one from=a to=b
  %% trapkey: step over=one
  a->>c: hello
";
    let fault = read(diagram, Language::Mermaid).unwrap_err();
    assert_eq!((fault.class, fault.line), (Class::NoSuchName, Some(9)), "{fault}");
    assert!(read(&diagram.replace("a->>c", "b->>a"), Language::Mermaid).is_ok());
}

/// A comment and a processing instruction in a value say nothing; an element in it would have been lost.
#[test]
fn values_are_whole_whatever_stands_in_them() {
    let wanted = json!(model(RECIPE));
    let rep = "rep=\"2\"/>";
    let step = RECIPE.split("<GQAM:GaStep ").nth(1).and_then(|rest| rest.split("/>").next()).unwrap();
    let with = |value: &str| {
        assert!(step.contains("rep=\"2\""), "{step}");
        let open = step.replace(" rep=\"2\"", "");
        RECIPE.replacen(&format!("<GQAM:GaStep {step}/>"), &format!("<GQAM:GaStep {open}>{value}</GQAM:GaStep>"), 1)
    };
    for value in ["<rep>2</rep>", "<rep><!-- strokes -->2</rep>", "<rep>2.<!-- a -->0<?b c?></rep>"] {
        assert_eq!(json!(model(&with(value))), wanted, "{value}");
    }
    assert_eq!(
        json!(model(&with("<rep>2<!-- strokes -->5</rep>"))),
        json!(model(&RECIPE.replacen(rep, "rep=\"25\"/>", 1)))
    );
    for (value, class, part) in [
        ("<rep>2<!-- x --> junk</rep>", Class::Invalid, "`rep` is `2 junk`"),
        ("<rep>2<foo>3</foo></rep>", Class::Unknown, "GaStep: `rep` has the element `foo` in it, which would be lost"),
    ] {
        check(&with(value), ("<rep>", "<rep>"), class, part);
    }
    // So in the condition of a guard and in its bounds.
    let said = |body: &str| {
        let literal = RECIPE.split("<minint ").nth(1).and_then(|rest| rest.split("/>").next()).unwrap();
        let opaque = format!("<minint xmi:type=\"uml:OpaqueExpression\"><body>{body}</body></minint>");
        RECIPE.replacen(&format!("<minint {literal}/>"), &opaque, 1)
    };
    assert_eq!(json!(model(&said("<!-- parts -->5"))), wanted);
    check(&said("<n>5</n>"), ("<n>", "<n>"), Class::Invalid, "its `minint` has the element `n` in it");
}

/// What a lifeline does before a message arrives would be done behind its arrival; between lifelines the fragments may stand as they like.
#[test]
fn a_lifeline_does_not_do_before_a_message_what_is_laid_behind_it() {
    let lines: Vec<&str> = READINGS.lines().collect();
    let at = |name: &str| lines.iter().position(|it| it.contains("<fragment ") && it.contains(name)).unwrap();
    let order = |names: [&str; 8]| {
        let first = at("\"parsingStart\"");
        let mut moved = lines.clone();
        for (place, name) in (first..).zip(names) {
            moved[place] = lines[at(&format!("\"{name}\""))];
        }
        moved.join("\n")
    };
    let drawn = ["parsingStart", "parsing", "s1", "r1", "storingStart", "storing", "s2", "r2"];
    let wanted = json!(model(READINGS));
    assert_eq!(json!(model(&order(drawn))), wanted);
    for names in [
        ["storingStart", "parsingStart", "parsing", "s1", "r1", "storing", "s2", "r2"],
        ["parsingStart", "parsing", "s1", "storingStart", "r1", "storing", "s2", "r2"],
    ] {
        let text = order(names);
        let started_by_r1 = text.replace("start=\"_Sc5rhU4KqxEfGxkMzEJQgn\"", "start=\"_grFcDG4KqxEfGxGCjSR0yb\"");
        assert_eq!(json!(model(&started_by_r1)), wanted, "{names:?}");
    }
    // An execution that the message starts may stand before it.
    let before = order(["parsingStart", "parsing", "s1", "storing", "r1", "storingStart", "s2", "r2"]);
    let started = before.replace("start=\"_Sc5rhU4KqxEfGxkMzEJQgn\"", "start=\"_grFcDG4KqxEfGxGCjSR0yb\"");
    assert_eq!(json!(model(&started)), wanted);
    for (names, behind) in [
        (["parsingStart", "parsing", "s1", "storingStart", "storing", "r1", "s2", "r2"], "storing"),
        (["parsingStart", "parsing", "s1", "storingStart", "storing", "s2", "r1", "r2"], "s2"),
        (["parsingStart", "parsing", "s1", "s2", "r1", "storingStart", "storing", "r2"], "s2"),
    ] {
        let part = format!(
            "occurrence r1: on the lifeline `Archive` it comes behind `{behind}`, and what is done follows the order of the fragments, each message arriving before the next step: put them in this order"
        );
        // Where `storing` ends says something of `s2`, too.
        let text = order(names).replacen("finish=\"_RDCMUZ4KqxEfGxkpJFZJeX\"", "", 1);
        check(&text, ("r1", "r1"), Class::Invalid, &part);
    }
    // One that says nothing takes no time.
    let text = order(["parsingStart", "parsing", "s1", "storingStart", "storing", "r1", "s2", "r2"]);
    let idle = text.split("<GQAM:GaStep ").nth(2).and_then(|it| it.split("</GQAM:GaStep>").next()).unwrap();
    model(&text.replacen(&format!("<GQAM:GaStep {idle}</GQAM:GaStep>"), "", 1));
}

/// What other tools write as elements says what the attribute says; one of which a part would be lost is refused.
#[test]
fn properties_may_be_elements() {
    let wanted = json!(model(PLC));
    let element = |element: &str, key: &str, as_element: &str| {
        let at = PLC.find(element).unwrap();
        let at = at + PLC[at..].find(&format!(" {key}=\"")).unwrap();
        let end = at + PLC[at..].find('>').unwrap();
        let (before, rest, open) = (&PLC[..at], &PLC[at..end], &PLC[end..]);
        let value = rest.split('"').nth(1).unwrap();
        let rest = rest.replacen(&format!(" {key}=\"{value}\""), "", 1);
        let child = as_element.replace("VALUE", value);
        match rest.strip_suffix('/') {
            Some(rest) => {
                let tag = PLC[..at].rsplit('<').next().and_then(|it| it.split(' ').next()).unwrap();
                format!("{before}{rest}>{child}</{tag}{open}")
            }
            None => format!("{before}{rest}>{child}{}", &open[1..]),
        }
    };
    for (of, key) in [
        ("<fragment xmi:type=\"uml:CombinedFragment\"", "interactionOperator"),
        ("<message ", "messageSort"),
        ("<message ", "name"),
        ("<message ", "sendEvent"),
        ("<lifeline ", "represents"),
        ("<fragment xmi:type=\"uml:MessageOccurrenceSpecification\"", "covered"),
        ("<packagedElement xmi:type=\"uml:Component\"", "name"),
    ] {
        let text = element(of, key, &format!("<{key}> VALUE </{key}>"));
        assert_eq!(json!(model(&text)), wanted, "{text}");
    }
    let of = "<fragment xmi:type=\"uml:CombinedFragment\"";
    let par = element(of, "interactionOperator", "<interactionOperator>par</interactionOperator>");
    check(&par, (of, of), Class::Unknown, "a guard in `par` is not heeded");
    for (written, class, part) in [
        (
            "p<!-- a -->ar",
            Class::Invalid,
            "its `interactionOperator` is cut by what stands in it: write it as one text",
        ),
        ("VALUE<x/>", Class::Invalid, "its `interactionOperator` is cut by"),
        (
            "VALUE</interactionOperator><interactionOperator>par",
            Class::Doubled,
            "its `interactionOperator` stands twice: which is meant?",
        ),
    ] {
        let written = format!("<interactionOperator>{written}</interactionOperator>");
        check(&element(of, "interactionOperator", &written), (of, of), class, part);
    }
}

/// Only a loop goes round as often as its guard says.
#[test]
fn bounds_in_other_guards_are_refused() {
    for bound in ["minint", "maxint"] {
        let guard = format!("<guard xmi:id=\"_g\"><{bound} xmi:type=\"uml:LiteralInteger\" value=\"3\"/></guard>");
        for (operator, of) in [("opt", "_optO"), ("alt", "_altO")] {
            let at = PLC.find(&format!("interactionOperator=\"{operator}\"")).unwrap_or_else(|| panic!("{of}"));
            let at = at + PLC[at..].find("<operand ").unwrap();
            let at = at + PLC[at..].find('>').unwrap() + 1;
            // In the place of one that is there.
            let rest = &PLC[at..];
            let own = rest.find("</guard>").filter(|end| rest.find("</operand>").is_some_and(|operand| *end < operand));
            let text = format!("{}{guard}{}", &PLC[..at], &rest[own.map_or(0, |end| end + "</guard>".len())..]);
            let part = format!("a `{bound}` in the guard of `{operator}` is not heeded");
            check(&text, ("<guard", "<guard"), Class::Unknown, &part);
        }
    }
}

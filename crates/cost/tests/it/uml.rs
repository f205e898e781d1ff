//! UML with what drawers leave to the tool: components in artifacts, names that stand twice or not at all, work on messages to oneself.

use cost::read::{Beside, Language, read, read_beside};
use cost::solve::solve;
use cost::{Class, Fault, Model, print, weave};
use gspn::{Budget, Limits};
use serde_json::json;

/// Two components, each the content of an artifact on a node of its own, each with a value `id`; a connector without a name.
const HEAD: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<xmi:XMI xmi:version="20131001" xmlns:xmi="http://www.omg.org/spec/XMI/20131001" xmlns:GQAM="http://gqam/1" xmlns:Own="http://own/1" xmlns:Core="http://core/1" xmlns:uml="http://www.eclipse.org/uml2/5.0.0/UML">
<uml:Model xmi:id="m" name="plant">
  <packagedElement xmi:type="uml:Component" xmi:id="a" name="reader"><ownedAttribute xmi:id="a.id" name="id"/></packagedElement>
  <packagedElement xmi:type="uml:Component" xmi:id="b" name="store"><ownedAttribute xmi:id="b.id" name="id"/></packagedElement>
  <packagedElement xmi:type="uml:Component" xmi:id="frame" name="all">
    <ownedAttribute xmi:id="pa" name="ra" type="a"/><ownedAttribute xmi:id="pb" name="sb" type="b"/>
    <ownedConnector xmi:id="wire"><end xmi:id="e1" role="pa"/><end xmi:id="e2" role="pb"/></ownedConnector>
  </packagedElement>
  <packagedElement xmi:type="uml:Artifact" xmi:id="fa" name="reader.bin">
    <manifestation xmi:id="ma" client="fa" supplier="a" utilizedElement="a"/>
  </packagedElement>
  <packagedElement xmi:type="uml:Artifact" xmi:id="fb" name="store.bin"><manifestation xmi:id="mb" utilizedElement="b"/></packagedElement>
  <packagedElement xmi:type="uml:Node" xmi:id="na" name="panel">
    <deployment xmi:type="uml:Deployment" xmi:id="da" client="na" supplier="fa" deployedArtifact="fa"/>
  </packagedElement>
  <packagedElement xmi:type="uml:Node" xmi:id="nb" name="cabinet"><deployment xmi:id="db" client="nb" deployedArtifact="fb"/></packagedElement>
  <packagedElement xmi:type="uml:Interaction" xmi:id="i" name="main">
    <lifeline xmi:id="la" represents="pa" name="ra"/><lifeline xmi:id="lb" represents="pb" name="sb"/>
"#;
const TAIL: &str = r#"</packagedElement></uml:Model>
<GQAM:GaWorkloadEvent xmi:id="w" base_NamedElement="i" pattern="closed(population=1)"/>
"#;

/// A message and the fragments of its two ends.
fn message(id: &str, from: char, to: char) -> [String; 2] {
    let ends = [("s", from), ("r", to)].map(|(end, on)| {
        format!(
            "<fragment xmi:type=\"uml:MessageOccurrenceSpecification\" xmi:id=\"{id}.{end}\" covered=\"l{on}\" message=\"{id}\"/>\n"
        )
    });
    [ends.concat(), format!("<message xmi:id=\"{id}\" name=\"{id}\" sendEvent=\"{id}.s\" receiveEvent=\"{id}.r\"/>\n")]
}

fn takes(base: &str, time: &str) -> String {
    format!("<GQAM:GaStep xmi:id=\"step.{base}\" base_NamedElement=\"{base}\" hostDemand=\"{time}\"/>\n")
}

fn file(fragments: &str, messages: &str, applied: &str) -> String {
    format!("{HEAD}{fragments}{messages}{TAIL}{applied}</xmi:XMI>")
}

fn model(text: &str) -> Model {
    read(text, Language::Xmi).unwrap_or_else(|fault| panic!("{fault}"))
}

fn seconds(model: &Model) -> f64 {
    let mut go_on = |_| true;
    let found = solve(&weave(model), &mut Budget::new(Limits::default(), &mut go_on));
    1.0 / found.unwrap_or_else(|fault| panic!("{fault}")).throughput
}

#[track_caller]
fn refused(text: &str, class: Class, part: &str) -> Fault {
    let fault = read(text, Language::Xmi).expect_err(part);
    assert_eq!(fault.class, class, "{fault}");
    assert!(fault.to_string().contains(part), "{fault}");
    fault
}

/// The reader thinks for 4 ms, tells the store its number, which looks it up in 6 ms.
fn plain() -> String {
    let [think, think_message] = message("think", 'a', 'a');
    let [tell, tell_message] = message("tell", 'a', 'b');
    let [look, look_message] = message("look", 'b', 'b');
    let applied = takes("think", "4 ms") + &takes("look", "6 ms");
    file(&(think + &tell + &look), &(think_message + &tell_message + &look_message), &applied)
}

#[test]
fn components_are_where_their_artifacts_are() {
    let model = model(&plain());
    let nodes: Vec<&str> = model.components.iter().map(|it| model.nodes[it.node].name.as_str()).collect();
    assert_eq!(nodes, ["panel", "cabinet"]);
    assert!((seconds(&model) - 0.010).abs() < 1e-12);
    // Where is said by `location`, or by the node around it.
    for other in ["location=\"nb\" ", ""] {
        assert_eq!(json!(self::model(&plain().replace("client=\"nb\" ", other))), json!(model), "{other}");
    }
    // An artifact drawn in its node needs no deployment.
    let inside = "<nestedClassifier xmi:type=\"uml:Artifact\" xmi:id=\"fb\" name=\"store.bin\"><manifestation xmi:id=\"mb\" utilizedElement=\"b\"/></nestedClassifier>";
    let (drawn, deployed) = (
        "<packagedElement xmi:type=\"uml:Artifact\" xmi:id=\"fb\"",
        "<deployment xmi:id=\"db\" client=\"nb\" deployedArtifact=\"fb\"/>",
    );
    let text = plain().replace(deployed, inside);
    let line = HEAD.lines().find(|line| line.contains(drawn)).unwrap();
    assert_eq!(json!(self::model(&text.replace(line, ""))), json!(model));
    // On two nodes it is on neither.
    let twice = plain().replace("client=\"nb\"", "client=\"nb na\"");
    refused(&twice, Class::Doubled, "component store: it is placed on");
    refused(&plain().replace("deployedArtifact=\"fb\"", ""), Class::MissingAnnotation, "component store");
}

#[test]
fn names_that_stand_twice_are_told_apart() {
    let applied = "<Own:Flow xmi:id=\"f\" base_NamedElement=\"tell\" carries=\"a.id\"/>\n<Own:Sized xmi:id=\"s1\" base_Property=\"a.id\" size=\"8 B\"/>\n<Own:Sized xmi:id=\"s2\" base_Property=\"b.id\" size=\"9 B\"/>\n<Own:DataIntegrity xmi:id=\"d\" base_Property=\"a.id\" signature=\"ed25519\"/>\n</xmi:XMI>";
    let model = model(&plain().replace("</xmi:XMI>", applied));
    let names: Vec<(&str, u64)> = model.attributes.iter().map(|it| (it.name.as_str(), it.bytes)).collect();
    assert_eq!(names, [("reader.id", 8), ("store.id", 9)]);
    assert_eq!(model.connectors[0].name, "reader-store");
    assert_eq!(model.target(&model.annotations[0]), "attribute reader.id");
    let printed = print::annotated(&model);
    assert_eq!(
        json!(read(&printed, Language::Mermaid).unwrap_or_else(|fault| panic!("{fault}\n{printed}"))),
        json!(model)
    );
    // One whose name is its own keeps it.
    let alone = plain().replace("xmi:id=\"b.id\" name=\"id\"", "xmi:id=\"b.id\" name=\"number\"");
    assert_eq!(self::model(&alone).attributes[0].name, "id");
    // Two lines in two frames with the name that the tool gave them.
    let named =
        plain().replace("<ownedConnector xmi:id=\"wire\">", "<ownedConnector xmi:id=\"wire\" name=\"Connector1\">");
    let other = "<packagedElement xmi:type=\"uml:Component\" xmi:id=\"frame2\" name=\"back\"><ownedConnector xmi:id=\"wire2\" name=\"Connector1\"><end xmi:id=\"e3\" role=\"pb\"/><end xmi:id=\"e4\" role=\"pa\"/></ownedConnector></packagedElement>\n  <packagedElement xmi:type=\"uml:Interaction\"";
    let named = named.replace("<packagedElement xmi:type=\"uml:Interaction\"", other);
    let named = named.replace("<message xmi:id=\"tell\"", "<message xmi:id=\"tell\" connector=\"wire2\"");
    let model = self::model(&named);
    let names: Vec<&str> = model.connectors.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["all.Connector1", "back.Connector1"]);
    assert!(print::annotated(&model).contains("over=back.Connector1"), "{}", print::annotated(&model));
}

#[test]
fn work_counts_once_where_message_and_execution_stand_for_it() {
    let [think, message] = message("think", 'a', 'a');
    let execution = "<fragment xmi:type=\"uml:BehaviorExecutionSpecification\" xmi:id=\"x\" name=\"thinking\" covered=\"la\" start=\"think.r\" finish=\"think.r\"/>\n";
    let with = |applied: &str| file(&(think.clone() + execution), &message, applied);
    assert!((seconds(&model(&with(&takes("think", "4 ms")))) - 0.004).abs() < 1e-12);
    assert!((seconds(&model(&with(&takes("x", "5 ms")))) - 0.005).abs() < 1e-12);
    assert!((seconds(&model(&with(&(takes("think", "0 ms") + &takes("x", "5 ms"))))) - 0.005).abs() < 1e-12);
    let both = with(&(takes("think", "4 ms") + &takes("x", "5 ms")));
    refused(
        &both,
        Class::Doubled,
        "message think: it has a `hostDemand`, and the execution `thinking` that it starts has one",
    );
}

/// What an occurrence, its message and its lifeline say of each other is the same: else one of them would not count.
#[test]
fn ends_of_messages_are_where_all_say() {
    let tell = "<message xmi:id=\"tell\" name=\"tell\" sendEvent=\"tell.s\" receiveEvent=\"tell.r\"/>";
    assert!(plain().contains(tell));
    let refused = |text: &str, part: &str| assert!(refused(text, Class::Invalid, part).line.is_some());
    let other = plain().replacen(tell, &tell.replace("\"tell.r\"", "\"look.r\""), 1);
    refused(&other, "message tell: its `receiveEvent` belongs to the message `look`");
    let stray =
        "<fragment xmi:type=\"uml:MessageOccurrenceSpecification\" xmi:id=\"stray\" covered=\"lb\" message=\"tell\"/>";
    let stray = plain().replacen(tell, &format!("{stray}{tell}"), 1);
    refused(&stray, "occurrence stray: it belongs to the message `tell`, of which it is neither");
    // A message of one interaction whose ends are in another.
    let away = plain().replacen(tell, "", 1);
    let interaction = format!(
        "<packagedElement xmi:type=\"uml:Interaction\" xmi:id=\"j\" name=\"other\">{tell}</packagedElement></uml:Model>"
    );
    let away = away.replace("</uml:Model>", &interaction);
    refused(&away, "occurrence tell.s: it belongs to the message `tell`, which is of another interaction");
    let lifelines = |a: &str, b: &str| {
        let text =
            plain().replacen("<lifeline xmi:id=\"la\"", &format!("<lifeline xmi:id=\"la\" coveredBy=\"{a}\""), 1);
        text.replacen("<lifeline xmi:id=\"lb\"", &format!("<lifeline xmi:id=\"lb\" coveredBy=\"{b}\""), 1)
    };
    let right = lifelines("think.s think.r tell.s", "tell.r look.s look.r");
    assert_eq!(json!(model(&right)), json!(model(&plain())));
    refused(&lifelines("think.s", "tell.s tell.r"), "lifeline sb: its `coveredBy` names `tell.s`");
}

/// What is placed on an environment runs on the node around it, which has its own cores once only.
#[test]
fn an_execution_environment_is_no_computer_of_its_own() {
    let placed = "<deployment xmi:id=\"db\" client=\"nb\" deployedArtifact=\"fb\"/>";
    let with = |inside: &str, applied: &str| {
        let jvm = format!(
            "<nestedNode xmi:type=\"uml:ExecutionEnvironment\" xmi:id=\"jvm\" name=\"jvm\">{inside}</nestedNode>"
        );
        assert!(plain().contains(placed));
        plain().replacen(placed, &jvm, 1).replacen("</xmi:XMI>", &format!("{applied}</xmi:XMI>"), 1)
    };
    let deeper = format!(
        "<nestedNode xmi:type=\"uml:ExecutionEnvironment\" xmi:id=\"pod\" name=\"pod\">{}</nestedNode>",
        placed.replace("nb", "pod")
    );
    let outside = with("", "").replacen(
        "<packagedElement xmi:type=\"uml:Interaction\"",
        "<packagedElement xmi:type=\"uml:Abstraction\" xmi:id=\"ab\" client=\"b\" supplier=\"jvm\"/>\n<packagedElement xmi:type=\"uml:Interaction\"",
        1,
    );
    for text in [
        with(&placed.replace("nb", "jvm"), ""),
        with(&placed.replace("client=\"nb\" ", ""), ""),
        with(&deeper, ""),
        outside,
    ] {
        assert_eq!(json!(model(&text)), json!(model(&plain())), "{text}");
    }
    let priced = "<Own:Priced xmi:id=\"p\" base_Classifier=\"jvm\" platform=\"pc\"/>\n";
    let fault = read(&with(&placed.replace("nb", "jvm"), priced), Language::Xmi).unwrap_err();
    assert!(fault.to_string().contains("Priced"), "{fault}");
    // One that is a host has cores of its own; so has one that no node is around.
    let host = "<GQAM:GaExecHost xmi:id=\"h\" base_Classifier=\"jvm\" resMult=\"1\"/>\n";
    let own = model(&with(&placed.replace("nb", "jvm"), host));
    assert_eq!(own.nodes[own.components[1].node].name, "jvm");
    let alone = plain().replacen(
        "xmi:type=\"uml:Node\" xmi:id=\"nb\"",
        "xmi:type=\"uml:ExecutionEnvironment\" xmi:id=\"nb\"",
        1,
    );
    assert_eq!(json!(model(&alone)), json!(model(&plain())));
}

/// A reference that says two things, and what stands where nothing looks for it, would be lost.
#[test]
fn what_is_said_twice_or_elsewhere_is_refused() {
    let with = |from: &str, to: &str| {
        assert!(plain().contains(from), "{from}");
        plain().replacen(from, to, 1)
    };
    let lifeline = "<lifeline xmi:id=\"lb\" represents=\"pb\" name=\"sb\"/>";
    let represents = |other: &str| {
        let child = format!("represents=\"pb\" name=\"sb\"><represents xmi:idref=\"{other}\"/></lifeline>");
        with(lifeline, &lifeline.replace("represents=\"pb\" name=\"sb\"/>", &child))
    };
    assert_eq!(json!(model(&represents("pb"))), json!(model(&plain())));
    refused(&represents("pa"), Class::Doubled, "lifeline sb: its `represents` is `pa` and `pb`");
    let part = "<ownedAttribute xmi:id=\"pb\" name=\"sb\" type=\"b\"/>";
    let typed = part.replace("/>", "><type href=\"other.uml#b\"/></ownedAttribute>");
    refused(&with(part, &typed), Class::Doubled, "ownedAttribute sb: its `type` is `b` and `other.uml#b`");
    let end = "<end xmi:id=\"e2\" role=\"pb\"/>";
    refused(
        &with(end, &end.replace("/>", "><role xmi:idref=\"pa\"/></end>")),
        Class::Doubled,
        "end e2: its `role` is `pa` and `pb`",
    );
    let inside = format!("{}</uml:Model>", takes("tell", "9 ms"));
    let fault = refused(&with("</uml:Model>", &inside), Class::UnknownStereotype, "GaStep: it is applied inside of");
    assert!(fault.line.is_some());
    let package = "<packagedElement href=\"other.uml#p\"/></uml:Model>";
    let fault =
        refused(&with("</uml:Model>", package), Class::NoSuchName, "its part `packagedElement` is `other.uml#p`");
    assert!(fault.line.is_some());
    let message = "<message href=\"other.uml#m\"/><message xmi:id=\"tell\"";
    refused(
        &with("<message xmi:id=\"tell\"", message),
        Class::NoSuchName,
        "packagedElement main: its part `message` is",
    );
    let operand = "<fragment xmi:type=\"uml:CombinedFragment\" xmi:id=\"s\" interactionOperator=\"seq\"><operand href=\"other.uml#o\"/></fragment><message xmi:id=\"tell\"";
    refused(&with("<message xmi:id=\"tell\"", operand), Class::NoSuchName, "fragment s: its part `operand` is");
    let guards = "<guard><specification xmi:type=\"uml:LiteralString\" value=\"one\"/></guard>".repeat(2);
    let guarded = operand.replace(" href=\"other.uml#o\"/>", &format!(" xmi:id=\"o\">{guards}</operand>"));
    refused(&with("<message xmi:id=\"tell\"", &guarded), Class::Doubled, "operand o: it has two guards");
    let bounds =
        guarded.replace(&guards, "<guard><minint value=\"2\"/><maxint value=\"2\"/><maxint value=\"5\"/></guard>");
    refused(&with("<message xmi:id=\"tell\"", &bounds), Class::Doubled, "its `maxint` is said twice");
    let parts = part.replace("/>", "><upperValue value=\"1\"/><upperValue value=\"5\"/></ownedAttribute>");
    refused(&with(part, &parts), Class::Doubled, "ownedAttribute sb: its `upperValue` is said twice");
    for operator in ["alt", "opt", "break"] {
        let bare = operand
            .replace("\"seq\"", &format!("\"{operator}\""))
            .replace(" href=\"other.uml#o\"/>", " xmi:id=\"o\"/>");
        let why = "operand o: it has no `prob` of a `GaStep`: how often is it taken?";
        refused(&with("<message xmi:id=\"tell\"", &bare), Class::MissingAnnotation, why);
    }
    let cut = &plain()[..plain().len() - 120];
    let fault = refused(cut, Class::Syntax, "");
    assert_eq!(fault.line, Some(cut.lines().count()), "{fault}");
    let pattern = "pattern=\"closed(population=1)\"/>";
    let another = pattern.replace("/>", "><pattern>closed(population=8)</pattern></GQAM:GaWorkloadEvent>");
    refused(&with(pattern, &another), Class::Doubled, "workload: `pattern` is said 2 times");
}

/// What is named is the element that has the identifier; another one of its name is not meant.
#[test]
fn what_is_meant_is_the_element_and_not_its_name() {
    let applied = |frame: &str, part: &str, stereotype: &str| {
        let text = plain().replacen("name=\"all\"", &format!("name=\"{frame}\""), 1);
        let text = text.replacen("name=\"sb\" type=\"b\"", &format!("name=\"{part}\" type=\"b\""), 1);
        text.replacen("</xmi:XMI>", &format!("<Own:{stereotype}/>\n</xmi:XMI>"), 1)
    };
    let flow = "Flow xmi:id=\"f\" base_NamedElement=\"tell\" carries";
    let integrity = "DataIntegrity xmi:id=\"d\" signature=\"ed25519\" base_Property";
    let entity = "PeerEntityAuthentication xmi:id=\"p\" key=\"ed25519\" base_Component";
    for part in ["sb", "reader.id"] {
        let why = "message tell: `carries` names `pb`, which is no attribute of a component";
        refused(&applied("all", part, &format!("{flow}=\"pb\"")), Class::NoSuchName, why);
        let why = format!("it is applied to `{part}`, which is no attribute");
        refused(&applied("all", part, &format!("{integrity}=\"pb\"")), Class::NoSuchName, &why);
    }
    for frame in ["all", "store"] {
        let why = format!("it is applied to `{frame}`, which is no component (one that only holds parts");
        refused(&applied(frame, "sb", &format!("{entity}=\"frame\"")), Class::NoSuchName, &why);
        let on = plain().replacen("name=\"all\"", &format!("name=\"{frame}\""), 1);
        let on = on.replacen("represents=\"pb\"", "represents=\"frame\"", 1);
        let why = "no lifeline that represents a component, in `main` (one that only holds parts";
        refused(&on, Class::NoSuchName, why);
        let ends = plain().replacen("name=\"all\"", &format!("name=\"{frame}\""), 1);
        let ends = ends.replacen("role=\"pb\"", "role=\"frame\"", 1);
        refused(&ends, Class::NoSuchName, "no part whose type is a component (one that only holds parts");
    }
}

/// A message between two parts of one component is no call of its own, and one to itself goes over nothing.
#[test]
fn what_stays_at_one_component_stays_at_one_part() {
    let other = "<ownedAttribute xmi:id=\"pc\" name=\"second\" type=\"b\"/><ownedConnector xmi:id=\"wire\">";
    let two = plain().replacen("<ownedConnector xmi:id=\"wire\">", other, 1);
    let two = two.replacen(
        "<lifeline xmi:id=\"lb\"",
        "<lifeline xmi:id=\"lc\" represents=\"pc\" name=\"c\"/><lifeline xmi:id=\"lb\"",
        1,
    );
    assert!((seconds(&model(&two)) - 0.010).abs() < 1e-12);
    let between = two.replacen("xmi:id=\"look.r\" covered=\"lb\"", "xmi:id=\"look.r\" covered=\"lc\"", 1);
    refused(
        &between,
        Class::Invalid,
        "message look: it is sent from `sb` to `second`, which are both the component `store`",
    );
    let over = |wire: &str| {
        plain().replacen("<message xmi:id=\"look\"", &format!("<message connector=\"{wire}\" xmi:id=\"look\""), 1)
    };
    refused(&over("wire"), Class::Invalid, "message look: it has a `connector`, and goes from `store` to itself");
    refused(&over("none"), Class::NoSuchName, "its `connector` is `none`");
}

/// Tools keep elements of their own in a model; they are no parts of it, and stand for nothing that is.
#[test]
fn what_tools_write_for_themselves_is_passed_over() {
    let inside = "<packagedElement xmi:type=\"uml:Component\" xmi:id=\"a\" name=\"other\"/><ownedRule xmi:type=\"uml:TimeConstraint\" xmi:id=\"soon\"/>\
        <packagedElement xmi:type=\"uml:Interaction\" xmi:id=\"j\" name=\"main\"/>";
    let model_of = |open: &str, close: &str, inside: &str| {
        let tail = "</packagedElement></uml:Model>";
        plain().replace(tail, &format!("{open}{inside}{close}</packagedElement></uml:Model>"))
    };
    for (open, close) in [
        ("<xmi:Extension extender=\"a tool\">", "</xmi:Extension>"),
        ("<eAnnotations xmi:type=\"ecore:EAnnotation\" source=\"a tool\">", "</eAnnotations>"),
    ] {
        assert_eq!(json!(model(&model_of(open, close, inside))), json!(model(&plain())), "{open}");
        let step = takes("extra", "1 ms") + "</xmi:XMI>";
        let extra = "<contents xmi:type=\"uml:Comment\" xmi:id=\"extra\"/>";
        let text = model_of(open, close, extra).replace("</xmi:XMI>", &step);
        refused(&text, Class::NoSuchName, "it is applied to `extra`, and there is none");
    }
    // Beside the model it may say what counts, and is left out by name only.
    let beside = plain().replace("</xmi:XMI>", &format!("<xmi:Extension>{inside}</xmi:Extension>\n</xmi:XMI>"));
    refused(&beside, Class::UnknownStereotype, "the stereotype `Extension`");
    let left_out = ["Extension".to_owned()];
    let found = read_beside(&beside, Language::Xmi, Beside { left_out: &left_out, ..Beside::default() });
    assert_eq!(json!(found.unwrap()), json!(model(&plain())));
}

/// An ordering of two occurrences.
fn ordering(id: &str, before: &str, after: &str) -> String {
    format!(
        "<generalOrdering xmi:type=\"uml:GeneralOrdering\" xmi:id=\"{id}\" before=\"{before}\" after=\"{after}\"/>\n"
    )
}

#[test]
fn orderings_say_what_the_order_of_the_fragments_says() {
    let first = "<fragment xmi:type=\"uml:MessageOccurrenceSpecification\" xmi:id=\"think.s\"";
    let with = |orderings: &str| plain().replacen(first, &format!("{orderings}{first}"), 1);
    let order = |before: &str, after: &str| with(&ordering("g", before, after));
    let check = |text: &str, class, part: &str| {
        let fault = refused(text, class, part);
        let line = fault.line.and_then(|line| text.lines().nth(line - 1)).unwrap_or("");
        assert!(line.contains("Ordering") || line.contains("to"), "{fault}: {line}");
    };
    let wanted = json!(model(&plain()));
    for (before, after) in [("think.s", "tell.s"), ("think.r", "look.r"), ("tell.s", "tell.r"), ("tell.r", "look.s")] {
        let text = order(before, after);
        assert_eq!(json!(model(&text)), wanted, "{before} {after}");
        let both = text.replacen(&format!("xmi:id=\"{before}\""), &format!("xmi:id=\"{before}\" toAfter=\"g\""), 1);
        let both = both.replacen(&format!("xmi:id=\"{after}\""), &format!("xmi:id=\"{after}\" toBefore=\"g\""), 1);
        assert_eq!(json!(model(&both)), wanted, "{before} {after}");
        // The occurrences alone may say it.
        let alone = both.replacen(&format!(" before=\"{before}\" after=\"{after}\""), "", 1);
        assert_eq!(json!(model(&alone)), wanted, "{before} {after}");
    }
    for (before, after, part) in [
        ("tell.s", "think.s", "ordering g: it says that `tell.s` comes before `think.s`, and on the lifeline `ra`"),
        ("tell.r", "tell.s", "the message `tell` is sent before it is received"),
        ("look.s", "think.s", "what is done follows the order of the fragments"),
    ] {
        check(&order(before, after), Class::Invalid, part);
    }
    check(&order("think.s", "think.s"), Class::Cycle, "ordering g: it comes before itself: think.s -> think.s");
    let ring = ordering("g1", "think.s", "tell.s")
        + &ordering("g2", "tell.s", "look.s")
        + &ordering("g3", "look.s", "think.s");
    let part = "it comes before itself: think.s -> tell.s -> look.s -> think.s: take one";
    check(&with(&ring), Class::Cycle, part);
    check(&order("gone", "tell.s"), Class::NoSuchName, "ordering g: its `before` is `gone`, which is no occurrence");
    check(&order("think.s", "i"), Class::NoSuchName, "ordering g: its `after` is `i`, which is no occurrence");
    let text = order("think.s", "tell.s");
    check(&text.replace(" before=\"think.s\"", ""), Class::Missing, "ordering g: nothing says what is `before`");
    let text = text.replacen("xmi:id=\"look.s\"", "xmi:id=\"look.s\" toAfter=\"g\"", 1);
    check(&text, Class::Doubled, "ordering g: `look.s` and `think.s` are `before` (`toAfter`)");
    for key in ["toAfter", "toBefore"] {
        let text = plain().replacen("xmi:id=\"look.s\"", &format!("xmi:id=\"look.s\" {key}=\"gone\""), 1);
        check(
            &text,
            Class::NoSuchName,
            &format!("occurrence look.s: its `{key}` is `gone`, which is no `GeneralOrdering`"),
        );
    }
    // Those of another scenario are left out with it; of two interactions one never knows.
    let [say, say_message] = message("say", 'a', 'a');
    let other = |orderings: &str| {
        let interaction = format!(
            "<packagedElement xmi:type=\"uml:Interaction\" xmi:id=\"j\" name=\"other\">\n<lifeline xmi:id=\"lj\" represents=\"pa\"/>{orderings}{}{say_message}</packagedElement></uml:Model>",
            say.replace("\"la\"", "\"lj\"")
        );
        let applied = "<GQAM:GaScenario xmi:id=\"sc\" base_NamedElement=\"i\"/>\n</xmi:XMI>";
        plain()
            .replace("</uml:Model>", &interaction)
            .replace("</xmi:XMI>", applied)
            .replace("</packagedElement></packagedElement>", "</packagedElement>")
    };
    assert_eq!(json!(model(&other(&ordering("g", "say.r", "gone")))), wanted);
    let across = other("").replacen(first, &(ordering("g", "think.s", "say.s") + first), 1);
    check(&across, Class::Unknown, "which are not in one interaction: this is not heeded");
}

/// Operands of a `par` know nothing of each other, of an `alt` a request goes through one, and a message arrives before the next step.
#[test]
fn orderings_know_what_is_done_at_once() {
    let [one, one_message] = message("one", 'a', 'a');
    let [two, two_message] = message("two", 'b', 'b');
    let within = |operator: &str, orderings: &str| {
        let operand = |id: &str, inside: &str| format!("<operand xmi:id=\"{id}\" name=\"{id}\">{inside}</operand>");
        let fragments = format!(
            "{orderings}<fragment xmi:type=\"uml:CombinedFragment\" xmi:id=\"c\" name=\"both\" interactionOperator=\"{operator}\">{}{}</fragment>",
            operand("x", &one),
            operand("y", &two)
        );
        let mut applied = takes("one", "4 ms") + &takes("two", "6 ms");
        if operator == "alt" {
            for id in ["x", "y"] {
                applied += &format!("<GQAM:GaStep xmi:id=\"p{id}\" base_NamedElement=\"{id}\" prob=\"0.5\"/>\n");
            }
        }
        file(&fragments, &(one_message.clone() + &two_message), &applied)
    };
    for (before, after) in [("one.r", "two.s"), ("two.r", "one.s")] {
        let order = ordering("g", before, after);
        let part = "in two operands of `par both` that do not wait for each other";
        refused(&within("par", &order), Class::Unknown, part);
        assert_eq!(json!(model(&within("alt", &order))), json!(model(&within("alt", ""))));
    }
    assert_eq!(json!(model(&within("par", &ordering("g", "one.s", "one.r")))), json!(model(&within("par", ""))));
    model(&within("strict", &ordering("g", "one.r", "two.s")));
    refused(&within("strict", &ordering("g", "two.r", "one.s")), Class::Invalid, "put them in this order");
    // Two messages one behind the other, both sent before the first arrives.
    let [tell, tell_message] = message("tell", 'a', 'b');
    let [say, say_message] = message("say", 'a', 'b');
    let (mut sent, mut received) = (String::new(), String::new());
    for line in (tell + &say).lines() {
        if line.contains(".s\"") { sent += line } else { received += line }
    }
    let with =
        |orderings: &str| file(&format!("{orderings}{sent}{received}"), &(tell_message.clone() + &say_message), "");
    model(&with(&ordering("g", "tell.r", "say.s")));
    refused(&with(&ordering("g", "say.s", "tell.r")), Class::Invalid, "each message arriving before the next step");
    let late = file(&(received.clone() + &sent), &(tell_message.clone() + &say_message), "");
    let part = "message tell: its end `tell.r` stands before `tell.s`: it is received before it is sent";
    assert!(refused(&late, Class::Invalid, part).line.is_some());
}

#[test]
fn a_break_ends_its_interaction() {
    let [think, think_message] = message("think", 'a', 'a');
    let [alarm, alarm_message] = message("alarm", 'a', 'a');
    let [look, look_message] = message("look", 'b', 'b');
    let broken = |inside: &str, operator: &str| {
        format!(
            "<fragment xmi:type=\"uml:CombinedFragment\" xmi:id=\"c{operator}\" name=\"c\" interactionOperator=\"{operator}\"><operand xmi:id=\"o{operator}\" name=\"o\">{inside}</operand></fragment>\n"
        )
    };
    let prob = |prob: &str| format!("<GQAM:GaStep xmi:id=\"p\" base_NamedElement=\"obreak\" prob=\"{prob}\"/>\n");
    let applied = takes("think", "4 ms") + &takes("alarm", "1 ms") + &takes("look", "6 ms");
    let messages = think_message + &alarm_message + &look_message;
    let text = file(&(think.clone() + &broken(&alarm, "break") + &look), &messages, &(applied.clone() + &prob("0.25")));
    let model = model(&text);
    assert!((seconds(&model) - (0.004 + 0.25 * 0.001 + 0.75 * 0.006)).abs() < 1e-12, "{}", seconds(&model));
    let always = text.replace("prob=\"0.25\"", "prob=\"1\"");
    refused(&always, Class::NoEffect, "break c: it is always taken");
    let inner = broken(&broken(&alarm, "break"), "opt");
    let inner = file(&(think + &inner + &look), &messages, &(applied + &prob("0.25")));
    let inner =
        inner.replace("</xmi:XMI>", "<GQAM:GaStep xmi:id=\"q\" base_NamedElement=\"oopt\" prob=\"0.5\"/></xmi:XMI>");
    refused(&inner, Class::Unknown, "a `break` inside of another fragment");
}

/// As in Mermaid: an `opt` or `loop` with nothing in it, and an `opt` that is always taken, change nothing.
#[test]
fn blocks_that_change_nothing_are_refused() {
    let [say, say_message] = message("say", 'a', 'a');
    let [think, think_message] = message("think", 'a', 'a');
    let idle = "<fragment xmi:type=\"uml:BehaviorExecutionSpecification\" xmi:id=\"x\" name=\"idle\" covered=\"la\"/>";
    let with = |operator: &str, says: &str, inside: &str| {
        let fragment = format!(
            "<fragment xmi:type=\"uml:CombinedFragment\" xmi:id=\"c\" name=\"c\" interactionOperator=\"{operator}\"><operand xmi:id=\"o\" name=\"o\">{inside}</operand></fragment>\n"
        );
        let messages =
            if inside.contains("say") { think_message.clone() + &say_message } else { think_message.clone() };
        let mut applied =
            takes("think", "4 ms") + &format!("<GQAM:GaStep xmi:id=\"p\" base_NamedElement=\"o\" {says}/>\n");
        if inside.contains("say") {
            applied += &takes("say", "1 ms");
        }
        file(&(think.clone() + &fragment), &messages, &applied)
    };
    for inside in ["", idle] {
        refused(&with("loop", "rep=\"2\"", inside), Class::NoEffect, "loop c: there is no message in it");
        refused(&with("opt", "prob=\"0.5\"", inside), Class::NoEffect, "opt c: there is no message in it");
    }
    for prob in ["1", "1.0", "(100,%)"] {
        let part = "operand o: `prob` is 1: of `opt` it is a probability between 0 and 1";
        assert!(refused(&with("opt", &format!("prob=\"{prob}\""), &say), Class::Invalid, part).line.is_some());
    }
    assert!((seconds(&model(&with("opt", "prob=\"0.5\"", &say))) - 0.0045).abs() < 1e-12);
    assert!((seconds(&model(&with("loop", "rep=\"2\"", &say))) - 0.006).abs() < 1e-12);
}

/// What stands behind a `break` lies one way deeper: what is taken can be printed and read again, what is too deep is refused.
#[test]
fn breaks_are_counted_with_what_is_inside_of_each_other() {
    let [say, say_message] = message("say", 'a', 'a');
    let many = |breaks: usize, nested: usize| {
        let fragment = |id: &str, operator: &str, inside: &str| {
            format!(
                "<fragment xmi:type=\"uml:CombinedFragment\" xmi:id=\"{id}\" interactionOperator=\"{operator}\"><operand xmi:id=\"o{id}\">{inside}</operand></fragment>\n"
            )
        };
        let mut applied = takes("say", "4 ms");
        let mut half = |id: &str| {
            applied += &format!("<GQAM:GaStep xmi:id=\"p{id}\" base_NamedElement=\"o{id}\" prob=\"0.5\"/>\n");
        };
        let mut before = String::new();
        for index in 0..breaks {
            half(&format!("b{index}"));
            before += &fragment(&format!("b{index}"), "break", "");
        }
        let mut inside = say.clone();
        for index in 0..nested {
            half(&format!("n{index}"));
            inside = fragment(&format!("n{index}"), "opt", &inside);
        }
        file(&(before + &inside), &say_message, &applied)
    };
    for (breaks, nested, taken) in [(30, 0, true), (20, 10, true), (0, 30, true), (31, 0, false), (20, 11, false)] {
        match read(&many(breaks, nested), Language::Xmi) {
            Ok(model) => {
                assert!(taken, "{breaks} {nested}");
                let printed = print::annotated(&model);
                let again = read(&printed, Language::Mermaid).unwrap_or_else(|fault| panic!("{fault}\n{printed}"));
                assert_eq!(print::annotated(&again), printed);
            }
            Err(fault) => assert_eq!((fault.class, taken), (Class::TooLarge, false), "{fault}"),
        }
    }
}

#[test]
fn what_is_not_read_can_be_left_out_by_name() {
    let foreign = "<Core:DaComponent base_Classifier=\"a\"/>\n<Core:DaConnector base_Classifier=\"wire\"/>\n<Core:DaComponent base_Classifier=\"b\"/>\n</xmi:XMI>";
    let text = plain().replace("</xmi:XMI>", foreign);
    let fault = refused(&text, Class::UnknownStereotype, "what it says would be lost; so is `DaConnector`");
    assert_eq!(fault.name, "DaComponent");
    let without = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|it| (*it).to_owned()).collect();
        read_beside(&text, Language::Xmi, Beside { left_out: &names, ..Beside::default() })
    };
    assert_eq!(json!(without(&["DaComponent", "DaConnector"]).unwrap()), json!(model(&plain())));
    for (names, class, part) in [
        (&["DaComponent"][..], Class::UnknownStereotype, "the stereotype `DaConnector`"),
        (
            &["DaComponent", "DaConnector", "DaService"],
            Class::NoSuchName,
            "stereotype DaService: it is applied nowhere",
        ),
        (&["GaStep"], Class::Invalid, "stereotype GaStep: it is read here"),
    ] {
        let fault = without(names).expect_err(part);
        assert_eq!(fault.class, class, "{fault}");
        assert!(fault.to_string().contains(part), "{fault}");
        assert!(!fault.to_string().contains("so is"), "{fault}");
    }
    let names = ["DaComponent".to_owned()];
    let fault = read_beside("", Language::Toml, Beside { left_out: &names, ..Beside::default() }).unwrap_err();
    assert!(fault.to_string().contains("only UML has stereotypes"), "{fault}");
}

/// The store holds a connection of a pool of two from where `tell` arrives until it has looked up.
fn with_pool(acquire: &str, release: &str, size: &str) -> String {
    let pool = "<packagedElement xmi:type=\"uml:Class\" xmi:id=\"p\" name=\"connections\"/>";
    let text = plain().replace(
        "<packagedElement xmi:type=\"uml:Interaction\"",
        &format!("{pool}<packagedElement xmi:type=\"uml:Interaction\""),
    );
    let text = text.replace("population=1", "population=5, extDelay=(20,ms)");
    let applied = format!(
        "<PAM:PaLogicalResource xmlns:PAM=\"http://pam/1\" xmi:id=\"pool\" base_Classifier=\"p\" {size} utilization=\"out$U\"/>\n\
         <GQAM:GaAcqStep xmi:id=\"acq\" base_NamedElement=\"tell\" {acquire}/>\n<GQAM:GaRelStep xmi:id=\"rel\" base_NamedElement=\"look\" {release}/>\n"
    );
    text.replace("</xmi:XMI>", &(applied + "</xmi:XMI>")).replace(
        "<GQAM:GaWorkloadEvent",
        "<GQAM:GaExecHost xmi:id=\"hb\" base_Classifier=\"nb\" resMult=\"8\"/>\n<GQAM:GaExecHost xmi:id=\"ha\" base_Classifier=\"na\" resMult=\"8\"/>\n<GQAM:GaWorkloadEvent",
    )
}

#[test]
fn steps_acquire_and_release_what_they_name() {
    let text = with_pool("acqRes=\"pool\"", "relRes=\"p\"", "poolSize=\"(value=2)\"");
    let printed = print::annotated(&model(&text));
    let steps: Vec<&str> = printed.lines().map(str::trim).filter(|it| !it.contains("step ")).collect();
    let steps = &steps[steps.iter().position(|it| it.ends_with(": think")).unwrap()..];
    let wanted = [
        "c0->>c0: think",
        "c0->>c1: tell",
        "%% trapkey: acquire connections units=1",
        "Note over c0,c1: acquire 1 of connections",
        "c1->>c1: look",
        "%% trapkey: release connections units=1",
        "Note over c0,c1: release 1 of connections",
    ];
    assert_eq!(steps, wanted, "{printed}");
    // Without room for two a request holds the pool alone: as with one that has half.
    let alone = seconds(&model(&with_pool(
        "acqRes=\"pool\" resUnits=\"2\"",
        "relRes=\"pool\" resUnits=\"(value=2)\"",
        "poolSize=\"2\"",
    )));
    let one = seconds(&model(&with_pool("acqRes=\"pool\"", "relRes=\"pool\"", "resMult=\"1\"")));
    assert!((alone / one - 1.0).abs() < 1e-9, "{alone} {one}");
    assert!(one > 1.1 * seconds(&model(&text)));
}

/// Two on one step are acquired in the order of the file; an execution that only releases has no time of its own.
#[test]
fn several_resources_of_a_step_are_had_in_order() {
    let text = with_pool("acqRes=\"pool\"", "relRes=\"pool\"", "poolSize=\"2\"");
    let seats = "<packagedElement xmi:type=\"uml:Class\" xmi:id=\"q\" name=\"seats\"/><packagedElement xmi:type=\"uml:Class\" xmi:id=\"p\"";
    let text = text.replace("<packagedElement xmi:type=\"uml:Class\" xmi:id=\"p\"", seats);
    let more = "<PAM:PaLogicalResource xmlns:PAM=\"http://pam/1\" xmi:id=\"rq\" base_Classifier=\"q\" poolSize=\"3\"/>\n\
        <GQAM:GaAcqStep xmi:id=\"a1\" base_NamedElement=\"think\" acqRes=\"pool\"/>\n<GQAM:GaAcqStep xmi:id=\"a2\" base_NamedElement=\"think\" acqRes=\"rq\"/>\n\
        <GQAM:GaRelStep xmi:id=\"r1\" base_NamedElement=\"think\" relRes=\"rq\"/>\n<GQAM:GaRelStep xmi:id=\"r2\" base_NamedElement=\"think\" relRes=\"pool\"/>\n";
    let text = text.replace("</xmi:XMI>", &format!("{more}</xmi:XMI>"));
    let printed = print::annotated(&model(&text));
    let place = |what: &str| printed.find(what).unwrap_or_else(|| panic!("{what}:\n{printed}"));
    assert!(
        place("acquire connections") < place("acquire seats") && place("acquire seats") < place(": think"),
        "{printed}"
    );
    refused(&text.replace("acqRes=\"rq\"", "acqRes=\"\""), Class::NoSuchName, "no `PaLogicalResource`");
    refused(&text.replace("acqRes=\"rq\"", "acqRes=\"other.uml#rq\""), Class::NoSuchName, "no `PaLogicalResource`");
}

#[test]
fn resources_that_are_not_there_are_refused() {
    let (acquire, release, size) = ("acqRes=\"pool\"", "relRes=\"pool\"", "poolSize=\"2\"");
    refused(&with_pool("acqRes=\"nobody\"", release, size), Class::NoSuchName, "no `PaLogicalResource`");
    refused(&with_pool("", release, size), Class::MissingAnnotation, "`acqRes` is said 0 times");
    refused(
        &with_pool(acquire, "relRes=\"pool\" resUnits=\"2\"", size),
        Class::Invalid,
        "2 are released here and 1 is held",
    );
    refused(&with_pool(acquire, release, ""), Class::MissingAnnotation, "how many are there");
    let both = with_pool(acquire, release, "poolSize=\"2\" resMult=\"2\"");
    refused(&both, Class::Doubled, "a `poolSize` and a `resMult`");
    refused(&with_pool(acquire, release, "poolSize=\"$N\""), Class::Invalid, "`poolSize` is `$N`");
    refused(&with_pool(acquire, release, "poolSize=\"2\" isProtected=\"true\""), Class::Unknown, "isProtected");
    refused(&with_pool("acqRes=\"pool\" prob=\"0.5\"", release, size), Class::Unknown, "prob");
}

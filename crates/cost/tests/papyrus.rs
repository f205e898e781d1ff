//! Models in the shape that Papyrus writes: what real ones hold is understood or refused by name.

use cost::read::{Language, read};
use cost::solve::{Solution, solve};
use cost::{Class, Model, print, weave};
use gspn::{Budget, Limits};
use serde_json::json;

/// Work on executions of lifelines, an open load, nodes with components in them.
const READINGS: &str = include_str!("fixtures/readings.uml");
/// Loops by a guard and by `rep`, one inside the other.
const RECIPE: &str = include_str!("fixtures/recipe.uml");

fn model(text: &str) -> Model {
    read(text, Language::Xmi).unwrap_or_else(|fault| panic!("{fault}"))
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

#[test]
fn loops_go_round_as_often_as_they_say() {
    let found = solved(&model(RECIPE));
    // 10 ms of thought, 20 ms, and five times two strokes of 3 ms.
    assert!((found.throughput - 1.0 / 0.060).abs() < 1e-9, "{found:?}");
    // A `rep` on the outer operand goes before its guard.
    let id = RECIPE.split("InteractionOperand\" xmi:id=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let more = format!("<GQAM:GaStep xmi:id=\"_more\" base_NamedElement=\"{id}\" rep=\"(value=7)\"/>\n</xmi:XMI>");
    let found = solved(&model(&RECIPE.replace("</xmi:XMI>", &more)));
    assert!((found.throughput - 1.0 / 0.072).abs() < 1e-9, "{found:?}");
}

#[test]
fn what_is_printed_of_them_is_read_back() {
    for text in [READINGS, RECIPE] {
        let model = model(text);
        let diagram = print::annotated(&model);
        let again = read(&diagram, Language::Mermaid).unwrap_or_else(|fault| panic!("{fault}\n{diagram}"));
        assert_eq!(json!(again), json!(model), "{diagram}");
    }
}

#[test]
fn what_real_models_hold_besides_is_refused_by_name() {
    let check = |text: &str, (from, to): (&str, &str), class, part: &str| {
        assert!(text.contains(from), "{from}");
        let fault = read(&text.replacen(from, to, 1), Language::Xmi).expect_err(part);
        assert_eq!(fault.class, class, "{fault}");
        assert!(fault.to_string().contains(part), "{fault}");
        assert!(fault.line.is_some(), "{fault}");
    };
    let pool = "<PAM:PaRunTInstance xmi:id=\"_pool\" poolSize=\"4\" base_NamedElement=\"_x\"/>\n</xmi:XMI>";
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
    check(RECIPE, ("\"loop\"", "\"par\""), Class::Unknown, "`par` cannot be laid");
    check(RECIPE, (" value=\"5\"", ""), Class::MissingAnnotation, "how often does it go round");
    check(RECIPE, ("rep=\"2\"", "rep=\"2.5\""), Class::Invalid, "2.5");
    check(RECIPE, ("rep=\"2\"", "rep=\"(expr=2,statQ=max)\""), Class::Invalid, "statQ=max");
    check(RECIPE, ("rep=\"2\"", ""), Class::MissingAnnotation, "loop CombinedFragment1");
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

//! A signature that would be looked at before it is made is refused by name.

use cost::read::{Language, read};
use cost::{Class, Fault, Model};

const PARTS: &str = r#"
[workload]
clients = 1
[node.n]
[component.a]
node = "n"
[component.b]
node = "n"
[connector.wire]
from = "a"
to = "b"
[attribute.v]
of = "a"
[attribute.w]
of = "a"
"#;

/// Steps as words: `make`, `give`, a name of a sequence, or ways apart from each other by `|`.
fn sequence(name: &str, steps: &str) -> String {
    let step = |step: &str| match step {
        "make" => "do = \"make\"\nby = \"a\"\ntime = \"1 ms\"\nreturns = \"v\"".to_owned(),
        "idle" => "do = \"idle\"\nby = \"a\"\ntime = \"1 ms\"".to_owned(),
        "give" => "send = \"give\"\nover = \"wire\"\ncarries = [\"w\", \"v\"]".to_owned(),
        ways if ways.contains('|') => {
            let ways = ways.split('|').map(|way| match way {
                "" => "{ weight = 1 }".to_owned(),
                way => format!("{{ weight = 1, ref = \"{way}\" }}"),
            });
            format!("choose = [{}]", ways.collect::<Vec<_>>().join(", "))
        }
        other => format!("ref = \"{other}\"\ntimes = 2"),
    };
    steps.split(' ').map(|it| format!("[[sequence.{name}]]\n{}\n", step(it))).collect()
}

fn model(property: &str, main: &str) -> Result<Model, Fault> {
    let mut text = format!("{PARTS}{}", sequence("main", main));
    for (name, steps) in [("makes", "make"), ("gives", "give"), ("both", "makes gives"), ("late", "gives makes")] {
        let used = |text: &str| text.contains(&format!("ref = \"{name}\""));
        let inner = ["both", "late"].iter().any(|it| main.split([' ', '|']).any(|word| word == *it));
        if used(&text) || (inner && matches!(name, "makes" | "gives")) {
            text += &sequence(name, steps);
        }
    }
    text += &format!("[[secure]]\nproperty = \"{property}\"\non = \"attribute v\"\nsignature = \"ed25519\"\n");
    read(&text, Language::Toml)
}

#[test]
fn what_is_signed_is_made_before_it_is_sent() {
    for main in [
        "make give",
        "both",
        "makes gives",
        // It may be there already.
        "makes| give",
        "makes| give make",
        "makes|both gives",
        "both late",
        // It is made nowhere: who sends it signs it.
        "idle give",
    ] {
        for property in ["data-integrity", "data-origin-authentication"] {
            if main == "idle give" && property == "data-origin-authentication" {
                continue;
            }
            if let Err(fault) = model(property, main) {
                panic!("{property} {main}: {fault}");
            }
        }
    }
    for main in
        ["give make", "late", "gives makes", "idle gives both", "give makes|", "gives|makes give", "makes|gives"]
    {
        for property in ["data-integrity", "data-origin-authentication"] {
            let fault = model(property, main).expect_err(main);
            assert_eq!((fault.class, fault.name.as_str()), (Class::Invalid, property), "{main}: {fault}");
            assert!(fault.line.is_some(), "{main}: {fault}");
            for part in ["`give` carries `attribute v`", "before `make` has made it"] {
                assert!(fault.why.contains(part), "{main}: {fault}");
            }
        }
        // Without a signature nothing is looked at.
        assert!(read(&format!("{PARTS}{}", sequence("main", "give make")), Language::Toml).is_ok());
    }
}

/// As many ways through sequences as are too many to go: the net is refused for it, and nobody waits for this check.
#[test]
fn a_model_with_too_many_ways_is_read() {
    let mut text = format!("{PARTS}{}", sequence("main", "make s0"));
    for level in 0..60 {
        let next = format!("s{}", level + 1);
        text += &sequence(&format!("s{level}"), &format!("{next} {next}"));
    }
    text += &sequence("s60", "give");
    text += "[[secure]]\nproperty = \"data-integrity\"\non = \"attribute v\"\nsignature = \"ed25519\"\n";
    assert!(read(&text, Language::Toml).is_ok());
}

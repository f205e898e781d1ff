//! What would be read and change nothing, or is said twice and not alike, is refused by name, in each language.

use cost::read::{Beside, Language, read, read_beside, read_priced};
use cost::{Class, print};

const UML: &str = include_str!("../fixtures/cuspis.uml");

const TOML: &str = r#"
[workload]
clients = 1
[node.n]
[component.a]
node = "n"
[component.b]
node = "n"
[component.c]
node = "n"
[connector.wire]
from = "a"
to = "b"
[connector.spare]
from = "a"
to = "c"
[attribute.v]
of = "a"
[attribute.w]
of = "a"
[[sequence.main]]
do = "make"
by = "a"
time = "1 ms"
returns = "v"
[[sequence.main]]
send = "give"
over = "wire"
carries = "v"
"#;

const MERMAID: &str = "sequenceDiagram
  %% trapkey: name one
  %% trapkey: workload clients=1
  %% trapkey: node n
  %% trapkey: component a node=n
  %% trapkey: component b node=n
  %% trapkey: connector wire from=a to=b
  %% trapkey: step bytes=\"1 kB\"
  a->>b: ask
  alt mostly
    %% trapkey: way weight=0.7
    b->>a: answer
  else rarely
    %% trapkey: way weight=0.3
    loop three times
      %% trapkey: loop times=3
      b->>a: part
    end
  end
";

#[track_caller]
fn refused(text: &str, language: Language, class: Class, part: &str) {
    let fault = read(text, language).expect_err(part);
    assert_eq!(fault.class, class, "{fault}");
    assert!(fault.to_string().contains(part), "{fault}");
}

#[test]
fn what_changes_nothing_is_refused() {
    read(TOML, Language::Toml).unwrap();
    let check = |more: &str, class, part: &str| refused(&format!("{TOML}{more}\n"), Language::Toml, class, part);
    let none = Class::NoEffect;
    check(
        "[[sequence.lost]]\ndo = \"x\"\nby = \"a\"\ntime = \"1 ms\"",
        none,
        "sequence lost: no request runs through it",
    );
    check("[pool.spare]\nsize = 2", none, "pool spare: no step acquires anything of it");
    for (property, on, words, part) in [
        ("data-confidentiality", "connector spare", "cipher = \"aes-256-gcm\"\nreuse = 1", "no message goes over it"),
        (
            "secure-channel",
            "connector spare",
            "protocol = \"tls-1.3\"\nkey = \"rsa-2048\"\nreuse = 1",
            "no message goes over",
        ),
        ("data-integrity", "attribute w", "signature = \"ed25519\"", "no step returns it and no message carries it"),
        ("data-origin-authentication", "attribute w", "signature = \"ed25519\"", "no step returns it"),
        ("peer-entity-authentication", "component c", "signature = \"ed25519\"", "no message goes from or to it"),
        (
            "certified-key",
            "component c",
            "signature = \"ed25519\"\nlife = 9\nthrough = \"spare\"",
            "takes part in no step",
        ),
    ] {
        let annotation = format!("[[secure]]\nproperty = \"{property}\"\non = \"{on}\"\n{words}");
        check(&annotation, none, part);
        // The same on what is used is read, and read again from what is printed of it.
        let used = annotation
            .replace("spare", "wire")
            .replace("attribute w", "attribute v")
            .replace("component c", "component b");
        let model = read(&format!("{TOML}{used}\n"), Language::Toml).unwrap_or_else(|fault| panic!("{fault}\n{used}"));
        let printed = print::annotated(&model);
        let again = read(&printed, Language::Mermaid).unwrap_or_else(|fault| panic!("{fault}\n{printed}"));
        assert_eq!(print::annotated(&again), printed);
    }
    for (property, on, words, key) in [
        ("data-confidentiality", "connector wire", "cipher = \"aes-256-gcm\"\nreuse = 1\nvalid = 0.9", "valid"),
        ("data-integrity", "attribute v", "signature = \"ed25519\"\nreuse = 0.5", "reuse"),
        ("data-integrity", "attribute v", "signature = \"ed25519\"\nknown = 0.5", "known"),
        ("data-origin-authentication", "attribute v", "signature = \"ed25519\"\nvalid = 0.5", "valid"),
        ("peer-entity-authentication", "component b", "signature = \"ed25519\"\ntrusted = 0.5", "trusted"),
    ] {
        let annotation = format!("[[secure]]\nproperty = \"{property}\"\non = \"{on}\"\n{words}");
        check(&annotation, Class::Unknown, &format!("`{key}` says nothing about this property"));
    }
    let signed = "[[secure]]\nproperty = \"data-integrity\"\non = \"attribute v\"\nsignature = \"ed25519\"\nin = []";
    check(signed, Class::Missing, "`in` is an empty list");
    check("[[sequence.main]]\nchoose = [{ weight = 0.3 }]", none, "its only way is always taken");
    let large = "[[sequence.main]]\nchoose = [{ weight = 1e308 }, { weight = 1e308 }]";
    check(large, Class::Invalid, "add up to more than numbers can be");
    check("[[sequence.main]]\nchoose = [{ weight = 1e300 }, { weight = 1e-300 }]", none, "a way is never taken");
    for more in ["[level.1]\nmode = \"sign\"", "[money]\nenergy = 100", "[attribute.z]\nof = \"a\""] {
        let fault = read_priced(TOML, Language::Toml, more).expect_err(more);
        assert!(fault.to_string().contains("more in it than `[price]`"), "{fault}");
    }
    refused(
        &TOML.replace("[node.n]", "[node.n]\nmachines = []"),
        Language::Toml,
        Class::Missing,
        "`machines` is an empty",
    );
    let twice = TOML.replace("carries = \"v\"", "carries = [\"v\", \"w\", \"v\"]");
    refused(&twice, Language::Toml, Class::Doubled, "`carries` names `v` twice");
}

#[test]
fn what_a_protocol_does_not_heed_is_refused() {
    let check = |words: &str, class, part: &str| {
        let text =
            format!("{TOML}[[secure]]\nproperty = \"secure-channel\"\non = \"connector wire\"\nreuse = 0.5\n{words}\n");
        refused(&text, Language::Toml, class, part);
    };
    let (none, opcua) = (Class::NoEffect, "protocol = \"opc-ua\"\npolicy = \"ECC_nistP256\"\n");
    let bare = "protocol = \"opc-ua\"\npolicy = \"None\"\n";
    check(&format!("{opcua}token_key = \"ed25519\""), none, "`token_key` says nothing beside");
    check(&format!("{opcua}user = \"password\"\nauthority_policy = \"frog\""), none, "`authority_policy`");
    check(&format!("{bare}key = \"rsa-4096\""), none, "`key`");
    check(&format!("{opcua}login = \"spare\""), none, "`login`");
    check(&format!("{opcua}refreshed = 0.1"), none, "`refreshed`");
    check(&format!("{opcua}life = 100"), none, "`life`");
    check("protocol = \"capability\"\npath = \"stateless\"\nrenewed = 0.1", none, "`renewed`");
    // Users prove themselves without a policy, too, with a key of RSA; a token has no place there, nor in clear where nothing encrypts.
    let users = format!("{bare}user = \"password\"\nkey = \"ecdsa-p256\"");
    check(&users, Class::Invalid, "no policy fits");
    check(&format!("{bare}user = \"start-finish\"\nlogin = \"spare\""), Class::Invalid, "a token has no place");
    let signs = format!("{opcua}mode = \"sign\"\nuser = \"start-finish\"\nlogin = \"spare\"");
    check(&signs, Class::Invalid, "shows a token to everybody");
    check("protocol = \"tls-1.3\"\nkey = \"ed448\"", Class::Invalid, "ed448");
}

#[test]
fn what_a_diagram_says_twice_or_to_nobody_is_refused() {
    let model = read(MERMAID, Language::Mermaid).unwrap();
    assert_eq!(model.sequences.len(), 2);
    let check = |(from, to): (&str, &str), class, part: &str| {
        assert!(MERMAID.contains(from), "{from}");
        refused(&MERMAID.replacen(from, to, 1), Language::Mermaid, class, part);
    };
    let way = "    %% trapkey: way weight=0.3\n";
    check((way, &way.repeat(2)), Class::Doubled, "`way` stands twice");
    check(("loop times=3\n", "loop times=3\n%% trapkey: loop times=4\n"), Class::Doubled, "`loop` stands twice");
    check(("name one\n", "name one\n%% trapkey: name other\n"), Class::Doubled, "`name` stands twice");
    for between in ["  alt mostly", "  else rarely", "    loop three times", "    end"] {
        let step = format!("  %% trapkey: step bytes=\"9 kB\"\n{between}");
        check((between, &step), Class::Syntax, "the `step` before has no message");
    }
    check(("trapkey: step", "trapkey step"), Class::Syntax, "ours begin with `trapkey:`");
    check(("trapkey: step", "Trapkey: step"), Class::Syntax, "ours begin with `trapkey:`");
    check(("a->>b", "a<<->>b"), Class::Unknown, "`<<->>` is two messages");
    let behind = "    end\n  %% trapkey: connector other from=b to=a\n";
    check(("    end\n", behind), Class::MissingAnnotation, "several connectors join `a` and `b`");
    let alone = MERMAID.split("  else").next().unwrap().to_owned() + "  end\n";
    refused(&alone, Language::Mermaid, Class::NoEffect, "its only way is always taken");
}

#[test]
fn what_uml_says_twice_or_to_nobody_is_refused() {
    let with = |more: &str| UML.replace("</xmi:XMI>", &format!("{more}\n</xmi:XMI>"));
    let check = |more: &str, class, part: &str| refused(&with(more), Language::Xmi, class, part);
    let scenario = |on: &str| format!("<GQAM:GaScenario xmi:id=\"_more\" base_NamedElement=\"{on}\"/>");
    check(&scenario("_generation"), Class::Doubled, "GaScenario: there are 2 of them, on `generation`, `generation`");
    check(&scenario("_finish"), Class::Doubled, "GaScenario: there are 2 of them, on `generation`, `finish`");
    for (element, member, key) in [("_m3", "hostDemand=\"(4,ms)\"", "hostDemand"), ("_o1", "prob=\"0.5\"", "prob")] {
        let more = format!("<PAM:PaStep xmi:id=\"_more\" base_NamedElement=\"{element}\" {member}/>");
        check(&more, Class::Doubled, &format!("`{key}` stands twice"));
    }
    let host = "<GQAM:GaExecHost xmi:id=\"_more\" base_Classifier=\"_organisation\" resMult=\"3\"/>";
    check(host, Class::Doubled, "`resMult` stands twice");
    let hertz = "<GQAM:GaExecHost xmi:id=\"_more\" base_Classifier=\"_database\" speedFactor=\"(2,GHz)\"/>";
    check(hertz, Class::Invalid, "2 GHz");
    let check = |(from, to): (&str, &str), class, part: &str| {
        assert!(UML.contains(from), "{from}");
        refused(&UML.replacen(from, to, 1), Language::Xmi, class, part);
    };
    check(
        ("base_NamedElement=\"_generation\"/>", "base_NamedElement=\"_producer\"/>"),
        Class::NoSuchName,
        "no interaction",
    );
    // A connector has the same name.
    let named = UML.replace("name=\"gd\"", "name=\"upload\"");
    let elsewhere = named.replace("base_Connector=\"_upload\" cipher", "base_Property=\"_gd\" cipher");
    refused(&elsewhere, Language::Xmi, Class::NoSuchName, "applied to `upload`, which is no connector");
    let both = "supplier=\"_organisation\"/><packagedElement xmi:type=\"uml:Abstraction\" xmi:id=\"_a3\" client=\"_producer\" supplier=\"_database\"/>";
    check(("supplier=\"_organisation\"/>", both), Class::Doubled, "placed on `organisation` and on `database`");
    let gate = ("sendEvent=\"_s2\"", "sendEvent=\"_gate\"");
    check(gate, Class::Invalid, "occurrence s2: it belongs to the message `send`");
    let gone = UML.lines().filter(|line| !line.contains("xmi:id=\"_s2\"")).collect::<Vec<_>>().join("\n");
    let gone = gone.replacen(gate.0, gate.1, 1).replacen("_b1 _s2", "_b1", 1).replacen("finish=\"_s2\"", "", 1);
    refused(&gone, Language::Xmi, Class::Invalid, "message send: it would be lost");
    check(("interactionOperator=\"alt\"", "interactionOperator=\"opt\""), Class::Invalid, "2 operands");
}

/// Members that no step takes its time from, and stereotypes of elements that are not there.
#[test]
fn what_a_stereotype_says_in_passing_is_refused() {
    let scenario = |member: &str| {
        let from = "<GQAM:GaScenario xmi:id=\"_st2\" base_NamedElement=\"_generation\"";
        assert!(UML.contains(from));
        UML.replacen(from, &format!("{from} {member}"), 1)
    };
    let with = |more: &str| UML.replace("</xmi:XMI>", &format!("{more}\n</xmi:XMI>"));
    let context = |member: &str| {
        with(&format!("<GQAM:GaAnalysisContext xmi:id=\"_m\" base_NamedElement=\"_generation\" {member}/>"))
    };
    let allocate = |member: &str| with(&format!("<Alloc:Allocate xmi:id=\"_m\" base_Abstraction=\"_a2\" {member}/>"));
    let allocated =
        |member: &str| with(&format!("<Alloc:Allocated xmi:id=\"_m\" base_NamedElement=\"_store\" {member}/>"));
    for (text, member) in [
        (scenario("hostDemand=\"(1,h)\""), "`hostDemand` of the stereotype `GaScenario`"),
        (scenario("respT=\"(3,s)\""), "`respT` of the stereotype `GaScenario`"),
        (scenario("GQAM:respT=\"(3,s)\""), "`respT` of the stereotype `GaScenario`"),
        (scenario("respT=\"(expr=$R,unit=s,source=req)\""), "`respT`"),
        (scenario("steps=\"_st11 _gone\""), "`steps`"),
        (scenario("cause=\"_st11\""), "`cause`"),
        (context("contextParams=\"in$N=3\""), "`contextParams` of the stereotype `GaAnalysisContext`"),
        (context("workload=\"_st3\""), "`workload` of the stereotype `GaAnalysisContext`"),
        (allocate("nature=\"timeScheduling\""), "`nature` of the stereotype `Allocate`"),
        (allocate("impliedConstraint=\"_c\""), "`impliedConstraint`"),
        (allocated("allocatedTo=\"_st4\""), "`allocatedTo` of the stereotype `Allocated`"),
    ] {
        refused(&text, Language::Xmi, Class::Unknown, member);
    }
    // Questions, what is read elsewhere, and placing.
    for text in [
        scenario("throughput=\"(expr=$X,unit=Hz,source=calc)\" root=\"_st8\" steps=\"_st8 _st11\" cause=\"_st3\""),
        context("contextParams=\"out$RT\""),
        allocate("kind=\"structural\" nature=\"spatialDistribution\""),
        allocated("kind=\"application\""),
    ] {
        read(&text, Language::Xmi).unwrap_or_else(|fault| panic!("{fault}"));
    }
    let check = |more: &str, class, part: &str| refused(&with(more), Language::Xmi, class, part);
    for (stereotype, member) in
        [("GQAM:GaStep", ""), ("GQAM:GaExecHost", ""), ("Alloc:Allocate", ""), ("Alloc:Allocated", "kind=\"both\"")]
    {
        for base in ["_gone", "_st8", ""] {
            let part = format!("it is applied to `{base}`, and there is none");
            check(
                &format!("<{stereotype} xmi:id=\"_m\" base_NamedElement=\"{base}\" {member}/>"),
                Class::NoSuchName,
                &part,
            );
        }
    }
    let both = "<GQAM:GaStep xmi:id=\"_m\" base_NamedElement=\"_m1\" base_Message=\"_m2\"/>";
    check(both, Class::Doubled, "applied to `_m1` and to `_m2`");
    let (from, to) = ("base_NamedElement=\"_generation\" pattern", "base_NamedElement=\"_gone\" pattern");
    assert!(UML.contains(from));
    let part = "GaWorkloadEvent: it is applied to `_gone`, and there is none";
    refused(&UML.replacen(from, to, 1), Language::Xmi, Class::NoSuchName, part);
}

/// Another scenario stands beside the one that is meant: it is left out, with what is annotated for it alone. Without a `GaScenario` nobody
/// knows which is meant.
#[test]
fn of_several_scenarios_one_is_meant() {
    let other = "<packagedElement xmi:type=\"uml:Interaction\" xmi:id=\"_other\" name=\"other\">
      <lifeline xmi:type=\"uml:Lifeline\" xmi:id=\"_l9\" name=\"producer\" represents=\"_p1\"/>
      <fragment xmi:type=\"uml:MessageOccurrenceSpecification\" xmi:id=\"_s9\" name=\"s9\" covered=\"_l9\" message=\"_m9\"/>
      <fragment xmi:type=\"uml:MessageOccurrenceSpecification\" xmi:id=\"_r9\" name=\"r9\" covered=\"_l9\" message=\"_m9\"/>
      <fragment xmi:type=\"uml:InteractionUse\" xmi:id=\"_use9\" name=\"finish\" refersTo=\"_finish\"/>
      <message xmi:type=\"uml:Message\" xmi:id=\"_m9\" name=\"archive\" sendEvent=\"_s9\" receiveEvent=\"_r9\"/>
    </packagedElement>
    <packagedElement xmi:type=\"uml:Interaction\" xmi:id=\"_finish\"";
    let archive = "<ownedAttribute xmi:type=\"uml:Property\" xmi:id=\"_gd\" name=\"gd\"/>
      <ownedAttribute xmi:type=\"uml:Property\" xmi:id=\"_box\" name=\"box\"/>";
    let annotated = "<GQAM:GaStep xmi:id=\"_st91\" base_NamedElement=\"_m9\" hostDemand=\"(8,ms)\"/>
  <trapkey:Flow xmi:id=\"_st92\" base_Message=\"_m9\" returns=\"_box\"/>
  <trapkey:DataOriginAuthentication xmi:id=\"_st93\" base_Property=\"_box\" signature=\"rsa-2048\"/>\n</xmi:XMI>";
    let text = UML
        .replace("<packagedElement xmi:type=\"uml:Interaction\" xmi:id=\"_finish\"", other)
        .replace("<ownedAttribute xmi:type=\"uml:Property\" xmi:id=\"_gd\" name=\"gd\"/>", archive)
        .replace("</xmi:XMI>", annotated);
    let (one, both) = (read(UML, Language::Xmi).unwrap(), read(&text, Language::Xmi).unwrap());
    let names = |model: &cost::Model| model.sequences.iter().map(|it| it.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&both), names(&one));
    assert_eq!(both.annotations.len(), one.annotations.len());
    assert_eq!(both.sequences, one.sequences, "references lead where they led");
    let meant = "  <GQAM:GaScenario xmi:id=\"_st2\" base_NamedElement=\"_generation\"/>\n";
    refused(&text.replace(meant, ""), Language::Xmi, Class::NoEffect, "no request runs through it");
    // Its load is its own, and what it says of its steps need not be right.
    let load = |more: &str| {
        let event = format!(
            "<GQAM:GaWorkloadEvent xmi:id=\"_st94\" base_NamedElement={more} pattern=\"closed(population=9)\"/>"
        );
        text.replace("</xmi:XMI>", &format!("{event}\n</xmi:XMI>"))
    };
    let beside = read(&load("\"_other\""), Language::Xmi).unwrap();
    assert_eq!((&beside.workload, &beside.sequences), (&one.workload, &one.sequences));
    refused(&load("\"_finish\""), Language::Xmi, Class::Doubled, "GaWorkloadEvent");
    let on = |base: &str| {
        text.replace("base_NamedElement=\"_generation\" pattern", &format!("base_NamedElement=\"{base}\" pattern"))
    };
    for base in ["_other", "_m9"] {
        refused(&on(base), Language::Xmi, Class::MissingAnnotation, "workload");
    }
    let cause = meant.replace("/>", " cause=\"_st3\"/>");
    assert_eq!(read(&on("_other").replace(meant, &cause), Language::Xmi).unwrap().workload, one.workload);
    for (from, to) in [("(8,ms)", "$late"), (" hostDemand=\"(8,ms)\"", "")] {
        assert!(text.contains(from), "{from}");
        let found = read(&text.replace(from, to), Language::Xmi).unwrap_or_else(|fault| panic!("{to}: {fault}"));
        assert_eq!(found.sequences, one.sequences, "{to}");
    }
    let lost = UML.replace("<packagedElement xmi:type=\"uml:Interaction\" xmi:id=\"_finish\"", other);
    let lost = lost.replace(" message=\"_m9\"", " message=\"_m1\"");
    assert_eq!(read(&lost, Language::Xmi).unwrap().sequences, one.sequences);
    // One is named, whether it is said of one, of several or of none.
    let more = "<GQAM:GaScenario xmi:id=\"_st95\" base_NamedElement=\"_other\" respT=\"(3,s)\"/>";
    let several = load("\"_other\"").replace("</xmi:XMI>", &format!("{more}\n</xmi:XMI>"));
    let named =
        |text: &str, name| read_beside(text, Language::Xmi, Beside { scenario: Some(name), ..Beside::default() });
    for text in [&several, &text, &text.replace(meant, "")] {
        let found = named(text, "generation").unwrap();
        assert_eq!((&found.workload, &found.sequences), (&one.workload, &one.sequences));
    }
    let other = several.replace(" respT=\"(3,s)\"", "");
    let found = named(&other, "other").unwrap_or_else(|fault| panic!("{fault}"));
    assert_eq!(names(&found), ["other", "finish"]);
    assert!(matches!(found.workload, cost::model::Workload::Closed { clients: 9, .. }), "{:?}", found.workload);
    assert_eq!(found.annotations.len(), 1);
    let fault = named(&text, "others").unwrap_err();
    assert_eq!(fault.class, Class::NoSuchName);
    assert!(
        fault.to_string().contains("scenario others: no interaction has this name; there are `generation`"),
        "{fault}"
    );
    let fault = read_beside(TOML, Language::Toml, Beside { scenario: Some("main"), ..Beside::default() }).unwrap_err();
    assert_eq!(fault.class, Class::NoSuchName);
    assert!(fault.to_string().contains("only UML"), "{fault}");
    // What no scenario uses is nobody's.
    let unused = text.replace("  <trapkey:Flow xmi:id=\"_st92\" base_Message=\"_m9\" returns=\"_box\"/>\n", "");
    refused(&unused, Language::Xmi, Class::NoEffect, "it has no effect on `attribute box`");
}

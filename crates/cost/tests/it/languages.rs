//! The three languages say the same, and what is wrong in each is refused by class, line and name.

use cost::read::{Language, read, read_priced};
use cost::{Class, Fault, Model, print, weave};
use serde_json::json;

const UML: &str = include_str!("../fixtures/cuspis.uml");

/// What the UML file says, in TOML.
const SAME: &str = r#"
name = "CUSPIS"
[workload]
clients = 2
think = "10 ms"
[node.organisation]
cores = 2
platform = "paper"
[node.database]
platform = "paper"
[component.producer]
node = "organisation"
[component.store]
node = "database"
[connector.upload]
from = "producer"
to = "store"
latency = "2 ms"
rate = "13107200 B/s"
[attribute.gd]
of = "producer"
size = "2 KiB"
[[sequence.generation]]
do = "genGDinfo"
by = "producer"
time = "57.3 ms"
returns = "gd"
[[sequence.generation]]
send = "send"
over = "upload"
carries = "gd"
[[sequence.generation]]
ref = "finish"
[[sequence.finish]]
choose = [{ weight = 3, ref = "new" }, { weight = 1 }]
[[sequence.new]]
do = "storeGDinfo"
by = "store"
time = "3 ms"
[[secure]]
property = "data-origin-authentication"
on = "attribute gd"
signature = "rsa-2048"
[[secure]]
property = "data-confidentiality"
on = "connector upload"
cipher = "aes-256-cbc"
reuse = 1
in = ["SC2"]
"#;

const PRICES: &str = r#"
[price.paper."hash sha-256"]
per_kb = "5 us"
[price.paper."sign rsa-2048"]
each = "2 ms"
variation = 0.25
[price.paper."encrypt aes-256-cbc"]
per_kb = "4 us"
[price.paper."decrypt aes-256-cbc"]
per_kb = "4 us"
"#;

fn priced(text: &str, language: Language) -> Model {
    read_priced(text, language, PRICES).unwrap_or_else(|fault| panic!("{fault}"))
}

#[test]
fn the_same_model_comes_of_uml_and_of_toml() {
    let (uml, toml) = (priced(UML, Language::Xmi), priced(SAME, Language::Toml));
    let statics = |model: &Model| {
        json!([
            model.name,
            model.nodes,
            model.components,
            model.connectors,
            model.attributes,
            model.workload,
            model.annotations
        ])
    };
    assert_eq!(statics(&uml), statics(&toml));
    // In UML the ways of a choice are inside, in TOML in a sequence of their own: the net is the same.
    let net = |model: &Model| print::net(&cost::net::lay(&weave(model)).unwrap());
    assert_eq!(net(&uml), net(&toml));
    let sc2 = |model: &Model| net(&model.configuration("SC2").unwrap());
    assert_eq!(sc2(&uml), sc2(&toml));
}

#[test]
fn what_is_printed_is_read_back() {
    for (text, language) in
        [(UML, Language::Xmi), (SAME, Language::Toml), (include_str!("../../models/cuspis.toml"), Language::Toml)]
    {
        let model = if text == UML || text == SAME {
            priced(text, language)
        } else {
            read(&format!("{text}\n[price.paper.\"sign rsa-1024\"]\neach = \"57 ms\""), language).unwrap()
        };
        let diagram = print::annotated(&model);
        let again = read(&diagram, Language::Mermaid).unwrap_or_else(|fault| panic!("{fault}\n{diagram}"));
        assert_eq!(json!(again), json!(model), "{diagram}");
        assert_eq!(print::annotated(&again), diagram);
    }
}

/// Names that would end a line, a word or a quote, or lose a letter, if they were printed as they are.
#[test]
fn any_name_is_read_back_as_it_was() {
    let names = [
        "ends;",
        "two;;",
        "a; b",
        "a#59;",
        "#35;59;",
        "##59",
        "#9999999;",
        "#",
        " before",
        "after ",
        "\u{a0}wide\u{a0}",
        "a \"quoted\" word",
        "it's",
        "loop 1",
        "x as y",
        "a: b",
        "+plus",
        "end",
        "%% trapkey: x",
        "*",
        "a, b=c",
    ];
    for name in names {
        let toml = json!(name).to_string();
        let text = SAME
            .replace("\"CUSPIS\"", &toml)
            .replace("node.database", &format!("node.{toml}"))
            .replace("node = \"database\"", &format!("node = {toml}"))
            .replace("component.store", &format!("component.{toml}"))
            .replace("= \"store\"", &format!("= {toml}"))
            .replace("connector.upload", &format!("connector.{toml}"))
            .replace("\"upload\"", &toml)
            .replace("\"connector upload\"", &json!(format!("connector {name}")).to_string())
            .replace("sequence.generation", &format!("sequence.{toml}"))
            .replace("\"genGDinfo\"", &toml)
            .replace("\"send\"", &toml)
            .replace("\"SC2\"", &toml);
        let model = priced(&text, Language::Toml);
        let diagram = print::annotated(&model);
        let again = read(&diagram, Language::Mermaid).unwrap_or_else(|fault| panic!("{name:?}: {fault}\n{diagram}"));
        assert_eq!(json!(again), json!(model), "{name:?}: {diagram}");
    }
}

#[test]
fn semicolons_end_a_line_and_numbers_are_letters() {
    let with = |name: &str| {
        let text = MERMAID.replace("C->>C: prepare", &format!("C->>C: {name}")).replace("as client", "as client ;");
        let model = read(&text, Language::Mermaid).unwrap_or_else(|fault| panic!("{name}: {fault}"));
        let cost::model::Step::Operation(first) = &model.sequences[0].steps[0] else { panic!("{:?}", model.sequences) };
        first.name.clone()
    };
    for (written, name) in [
        ("prepare;", "prepare"),
        ("prepare ; ;", "prepare"),
        ("prepare#59;", "prepare;"),
        ("prepare#59;;", "prepare;"),
        ("#945;#946; 1", "\u{3b1}\u{3b2} 1"),
        // No letters: a word, more than there are, half of a pair.
        ("#x; #1114112; #55296; 5", "#x; #1114112; #55296; 5"),
    ] {
        assert_eq!(with(written), name, "{written}");
    }
}

/// What participants are called, and what blocks are for, as Mermaid takes it.
#[test]
fn participants_have_one_name_and_blocks_need_no_space() {
    let m = |one: &str, other: &str| {
        assert!(MERMAID.contains(one), "{one}");
        MERMAID.replacen(one, other, 1)
    };
    let same = |one: &str, other: &str| {
        let found = read(&m(one, other), Language::Mermaid).unwrap_or_else(|fault| panic!("{other}: {fault}"));
        assert_eq!(json!(found), json!(read(MERMAID, Language::Mermaid).unwrap()), "{other}");
    };
    same("Note over C: a note", "participant C");
    same("Note over C: a note", "create actor C as client");
    same("loop three times", "loop[three times]");
    same("opt rarely", "OPT(rarely)");
    let check = |one: &str, other: &str, line, part: &str| {
        refused(&m(one, other), Language::Mermaid, Class::Doubled, Some(line), part);
    };
    // Mermaid would draw the second name everywhere.
    let part = "`C` is called `client` since line 5, and `the server` here: say it once";
    check("Note over C: a note", "participant C as the server", 12, part);
    check("Note over C: a note", "actor C as other", 12, "`C` is called `client`");
    let late = "  participant C as client\n  participant S as the server\n";
    let text = m(late, "");
    let text = text.replacen("  C->>C: prepare", "  client->>client: prepare\n  participant client as other", 1);
    refused(&text, Language::Mermaid, Class::Doubled, Some(13), "`client` is called `client` since line 12");
}

/// Behind a semicolon stands another statement, whatever the one before it is.
#[test]
fn what_stands_behind_a_semicolon_is_not_lost() {
    let same = |one: &str, other: &str| {
        let text = MERMAID.replacen(one, other, 1);
        assert_ne!(text, MERMAID, "{one}");
        let read = |text: &str| read(text, Language::Mermaid).unwrap_or_else(|fault| panic!("{other}: {fault}"));
        assert_eq!(json!(read(&text)), json!(read(MERMAID)), "{other}");
    };
    same("sequenceDiagram\n  autonumber", "sequenceDiagram; autonumber;\n%%");
    // The first statement may stand in the line of the header.
    same("sequenceDiagram\n  autonumber", "sequenceDiagram autonumber\n%%");
    same("sequenceDiagram\n  autonumber", "sequenceDiagram;autonumber\n%%");
    same("sequenceDiagram\n", "sequenceDiagram participant C as client; participant S as the server\n");
    same("sequenceDiagram\n  autonumber", "sequenceDiagram %% a comment\n  autonumber");
    same("participant C as client\n", "%%\nparticipant C as client; ");
    same("Note over C: a note\n", "Note over C: a note; %% with a comment; to its end\n");
    same("Note over C: a note\n", "accTitle: one; C->>C: all of it a title\n");
    same("C->>C: prepare\n", "Note over C: a note; C->>C: prepare; %% trapkey: step carries=order\n%%");
    same("S->>S: look\n  end\n  opt rarely\n", "S->>S: look; end; opt rarely;\n");
    same("S->>S: archive\n  end\n  S-->>-C: done", "S->>S: archive;; end ; S-->>-C: done;");
    same("C->>C: prepare", "C->>C: #112;#114;epare");
    let two =
        read(&MERMAID.replace("S-->>-C: done", "S-->>-C: done; C->>S: more #35;1; S->>C: last"), Language::Mermaid);
    let steps = json!(two.unwrap().sequences[0].steps).to_string();
    assert!(steps.contains("\"done\"") && steps.contains("\"more #1\"") && steps.contains("\"last\""), "{steps}");
    // The line is the one where the statement stands.
    // Two loops in one line are two.
    let loops = "loop a; loop b; %% trapkey: loop times=2\nC->>S: ask\nend; %% trapkey: loop times=3\nend";
    let both = read(&MERMAID.replace("Note over C: a note", loops), Language::Mermaid).unwrap();
    let names: Vec<&str> = both.sequences.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["main", "loop 1", "loop 2", "loop 3"]);
    // They are called by their place in order, whatever stands above them, and by no name that is taken.
    let printed = print::annotated(&read(MERMAID, Language::Mermaid).unwrap());
    let lower = MERMAID.replace("sequenceDiagram\n", "sequenceDiagram\n\n%% one line more\n");
    assert_eq!(print::annotated(&read(&lower, Language::Mermaid).unwrap()), printed);
    let taken = format!("{MERMAID}\n%% trapkey: ref \"loop 1\"\n%% trapkey: sequence \"loop 1\"\nC->>S: ask\n");
    let taken = read(&taken, Language::Mermaid).unwrap();
    let names: Vec<&str> = taken.sequences.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["main", "loop 1", "loop 2"]);
    let check = |to: &str, class, line, part: &str| {
        refused(&MERMAID.replace("Note over C: a note", to), Language::Mermaid, class, line, part);
    };
    check("Note over C: a; critical b", Class::Unknown, Some(12), "`critical` cannot be laid");
    check("C->>S: a; nonsense", Class::Syntax, Some(12), "`nonsense` is no line");
    check("C->>S: no # 3; S->>C: b", Class::Syntax, Some(12), "begins a comment, and `S->>C: b` belongs to it");
}

const MERMAID: &str = r#"sequenceDiagram
  autonumber
  %% trapkey: workload clients=1
  %% trapkey: node pc cores=1 platform=p
  participant C as client
  participant S as the server
  %% trapkey: component client node=pc
  %% trapkey: component "the server" node=pc
  %% trapkey: connector wire from=client to="the server"
  %% trapkey: attribute order of=client size="1 kB"
  %% trapkey: secure data-integrity on="attribute order" signature=rsa-2048,rsa-3072
  Note over C: a note
  %% trapkey: step time="4 ms" returns=order
  C->>C: prepare
  %% trapkey: step carries=order
  C->>+S: order
  loop three times
    %% trapkey: loop times=3
    %% trapkey: step time="1 ms"
    S->>S: look
  end
  opt rarely
    %% trapkey: way weight=0.25
    %% trapkey: step time="8 ms"
    S->>S: archive
  end
  S-->>-C: done
"#;

#[test]
fn a_diagram_is_a_model() {
    let model = read(MERMAID, Language::Mermaid).unwrap();
    // The sequence waits until a message is there, whoever else does.
    for (one, other) in [
        ("C->>+S", "C-)+S"),
        ("S-->>-C", "S--)-C"),
        ("S-->>-C", "S-->-C"),
        ("C->>+S", "C->+S"),
        ("C->>+S", r"C-|\+S"),
        ("S-->>-C", "S--|/-C"),
        ("S-->>-C", r"S--\\-C"),
        ("C->>+S", "C-//+S"),
    ] {
        assert_eq!(json!(read(&MERMAID.replace(one, other), Language::Mermaid).unwrap()), json!(model), "{other}");
    }
    assert_eq!(model.annotations[0].alternatives.len(), 2);
    assert_eq!(model.sequences.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["main", "loop 1"]);
    let mut go_on = |_| true;
    let mut budget = gspn::Budget::new(gspn::Limits::default(), &mut go_on);
    let plain = cost::solve::solve(&weave(&model.plain()), &mut budget).unwrap();
    // 4 + 3 + 8/4 ms
    assert!((plain.throughput - 1000.0 / 9.0).abs() < 1e-9, "{}", plain.throughput);
}

/// What follows a `break` is done where it is not taken.
#[test]
fn a_break_ends_its_sequence() {
    let early = "break closed\n    %% trapkey: way weight=0.2\n    S-->>C: sorry\n  end\n  loop three times";
    let text = MERMAID.replace("loop three times", early);
    let model = read(&text, Language::Mermaid).unwrap_or_else(|fault| panic!("{fault}"));
    let solved = |model: &cost::Model| {
        let mut go_on = |_| true;
        let mut budget = gspn::Budget::new(gspn::Limits::default(), &mut go_on);
        cost::solve::solve(&weave(&model.plain()), &mut budget).unwrap().throughput
    };
    assert!((solved(&model) - 1000.0 / (4.0 + 0.8 * 5.0)).abs() < 1e-9, "{}", solved(&model));
    // A second one, and one at the end.
    let two =
        text.replace("opt rarely", "break never mind\n%% trapkey: way weight=50%\nS-->>C: late\nend\n  opt rarely");
    let two = two + "  break at last\n    %% trapkey: way weight=0.5\n    S-->>C: bye\n  end\n";
    let model = read(&two, Language::Mermaid).unwrap_or_else(|fault| panic!("{fault}"));
    assert!((solved(&model) - 1000.0 / (4.0 + 0.8 * (3.0 + 0.5 * 2.0))).abs() < 1e-9, "{}", solved(&model));
    assert_eq!(model.sequences.len(), 2);
    let printed = cost::print::annotated(&model);
    assert_eq!(json!(read(&printed, Language::Mermaid).unwrap()), json!(model), "{printed}");
    let check = |from: &str, to: &str, class, part: &str| {
        let fault = read(&text.replacen(from, to, 1), Language::Mermaid).expect_err(part);
        assert_eq!(fault.class, class, "{fault}");
        assert!(fault.to_string().contains(part), "{fault}");
    };
    check("    %% trapkey: way weight=0.2\n", "", Class::MissingAnnotation, "break: it has no");
    check("way weight=0.2", "way weight=1", Class::Invalid, "of `break` it is a probability");
    check("opt rarely\n", "opt rarely\nbreak a\n", Class::Unknown, "`break` inside of another block");
    check("opt rarely\n", "opt rarely\nrect red\nbreak a\n", Class::Unknown, "`break` inside of another block");
    // Colours and boxes are passed over, also where a `break` stands in them or they in it.
    for (from, to) in [
        ("break closed", "rect red\nbreak closed"),
        ("break closed", "rect red\nrect blue\nNote over C: a note\nend\nbreak closed"),
    ] {
        let coloured = text.replacen(from, to, 1) + "end\n";
        assert_eq!(json!(read(&coloured, Language::Mermaid).unwrap()), json!(read(&text, Language::Mermaid).unwrap()));
    }
    let (from, inner) = ("S-->>C: sorry\n", "rect red\nS-->>C: sorry\nend\n");
    let coloured =
        text.replacen(from, inner, 1).replacen("break closed", "rect blue\nC->>C: more\nend\nbreak closed", 1);
    let plain = text.replacen("break closed", "C->>C: more\nbreak closed", 1);
    let timed = |text: &str| text.replacen("C->>C: more", "%% trapkey: step time=\"1 ms\"\nC->>C: more", 1);
    let read = |text: &str| json!(read(text, Language::Mermaid).unwrap_or_else(|fault| panic!("{fault}\n{text}")));
    assert_eq!(read(&timed(&coloured)), read(&timed(&plain)));
}

/// One that is in every configuration is in that of another one, too, whichever stands first.
#[test]
fn a_property_is_asked_for_once_in_a_configuration() {
    let again = |first: &str, second: &str| {
        let at = SAME.find("[[secure]]").unwrap();
        let end = SAME[at + 10..].find("[[secure]]").map_or(SAME.len(), |next| at + 10 + next);
        let of = |inside: &str| {
            let lines = SAME[at..end].lines().filter(|line| !line.starts_with("in = "));
            lines.map(|line| format!("{line}\n")).collect::<String>() + inside + "\n"
        };
        format!("{}{}{}{}", &SAME[..at], of(first), of(second), &SAME[end..])
    };
    let why = "the same property is asked for the same thing twice in one configuration";
    for (first, second) in
        [("", "in = [\"SC1\"]"), ("in = [\"SC1\"]", ""), ("", ""), ("in = [\"SC1\"]", "in = [\"SC2\", \"SC1\"]")]
    {
        let fault = read(&again(first, second), Language::Toml).unwrap_err();
        assert!(fault.class == Class::Doubled && fault.line.is_some() && fault.why == why, "{first} {second}: {fault}");
    }
    assert_eq!(priced(&again("in = [\"SC1\"]", "in = [\"SC2\"]"), Language::Toml).configurations(), ["SC1", "SC2"]);
}

/// What several configurations are written like is the same in all languages: an annotation that is in none of them would be gone.
#[test]
fn a_comma_separates_configurations_in_every_language() {
    let uml = |written: &str| UML.replacen("<configuration>SC2</configuration>", written, 1);
    let toml = |written: &str| SAME.replacen("in = [\"SC2\"]", written, 1);
    let in_mermaid = print::annotated(&priced(SAME, Language::Toml));
    let mermaid = |written: &str| in_mermaid.replacen("in=SC2", written, 1);
    let attribute = |text: &str| {
        let inside = uml("");
        inside.replacen("cipher=\"aes-256-cbc\"", &format!("cipher=\"aes-256-cbc\" configuration=\"{text}\""), 1)
    };
    for (text, language) in [
        (attribute("SC1,SC2"), Language::Xmi),
        (attribute(" SC1 , SC2"), Language::Xmi),
        (uml("<configuration>SC1</configuration><configuration>SC2</configuration>"), Language::Xmi),
        (toml("in = [\"SC1\", \"SC2\"]"), Language::Toml),
        (toml("in = \"SC1,SC2\""), Language::Toml),
        (mermaid("in=SC1,SC2"), Language::Mermaid),
        (mermaid("in=\"SC1, SC2\""), Language::Mermaid),
    ] {
        let printed = language == Language::Mermaid;
        let model = if printed { read(&text, language) } else { read_priced(&text, language, PRICES) };
        let model = model.unwrap_or_else(|fault| panic!("{fault}\n{text}"));
        assert_eq!(model.configurations(), ["SC1", "SC2"], "{text}");
        for name in ["SC1", "SC2"] {
            assert_eq!(model.configuration(name).unwrap().annotations.len(), 2, "{name}: {text}");
        }
    }
    // A blank is part of a name, and of what may be two names nobody knows which are meant.
    let more = |name: &str| {
        let origin = "signature = \"rsa-2048\"";
        SAME.replacen(origin, &format!("{origin}\nin = \"{name}\""), 1)
    };
    assert_eq!(priced(&more("all of it"), Language::Toml).configurations(), ["SC2", "all of it"]);
    let again = print::annotated(&priced(&more("all of it"), Language::Toml));
    assert_eq!(read(&again, Language::Mermaid).unwrap().configurations(), ["SC2", "all of it"]);
    refused(&more("SC1 SC2"), Language::Toml, Class::Invalid, Some(40), "a comma separates them, `SC1,SC2`");
    refused(&more("SC1,"), Language::Toml, Class::Missing, Some(44), "a configuration has no name");
    refused(&more("SC1,SC1"), Language::Toml, Class::Doubled, Some(44), "`SC1` stands twice");
    let spaced = attribute("SC2").replace("signature=\"rsa-2048\"", "signature=\"rsa-2048\" configuration=\"SC1 SC2\"");
    let fault = read_priced(&spaced, Language::Xmi, PRICES).unwrap_err();
    assert_eq!(fault.class, Class::Invalid, "{fault}");
    assert!(fault.to_string().contains("`SC1,SC2`"), "{fault}");
}

/// `--configuration none` leaves all annotations out, so that one which belongs to a configuration of that name could never be asked for.
#[test]
fn no_configuration_is_called_none() {
    let why = "no configuration is called `none`";
    let toml = SAME.replace("in = [\"SC2\"]", "in = [\"SC2\", \"none\"]");
    refused(&toml, Language::Toml, Class::Invalid, Some(49), why);
    let mermaid = MERMAID.replace("signature=rsa-2048,rsa-3072", "signature=rsa-2048 in=none");
    refused(&mermaid, Language::Mermaid, Class::Invalid, Some(11), why);
    let uml = UML.replace("<configuration>SC2</configuration>", "<configuration>none</configuration>");
    refused(&uml, Language::Xmi, Class::Invalid, Some(74), why);
    for near in ["None", "none of it"] {
        let toml = SAME.replace("in = [\"SC2\"]", &format!("in = \"{near}\""));
        assert_eq!(priced(&toml, Language::Toml).configurations(), [near]);
    }
}

#[track_caller]
fn refused(text: &str, language: Language, class: Class, line: Option<usize>, part: &str) {
    let fault: Fault = read(text, language).expect_err(part);
    assert_eq!((fault.class, fault.line), (class, line), "{fault}");
    assert!(fault.to_string().contains(part), "{fault}");
}

#[test]
fn wrong_diagrams_are_refused() {
    let m = |from: &str, to: &str| MERMAID.replacen(from, to, 1);
    let check = |text: &str, class, line, part: &str| refused(text, Language::Mermaid, class, line, part);
    check("graph TD\n", Class::Syntax, Some(1), "sequenceDiagram");
    check(&m("sequenceDiagram", "sequenceDiagrams"), Class::Syntax, Some(1), "begins with `sequenceDiagram`");
    check(&m("sequenceDiagram", "sequenceDiagram nonsense"), Class::Syntax, Some(1), "`nonsense` is no line");
    check(&m("opt rarely", "critical rarely"), Class::Unknown, Some(22), "`critical` cannot be laid");
    check(&m("    %% trapkey: way weight=0.25\n", ""), Class::MissingAnnotation, Some(22), "how probable");
    check(&m("    %% trapkey: loop times=3\n", ""), Class::MissingAnnotation, Some(17), "how often");
    check(&m("time=\"4 ms\" ", ""), Class::MissingAnnotation, Some(13), "`prepare` has no `time`");
    check(&m("time=\"4 ms\"", "time=\"4 furlongs\""), Class::Invalid, Some(13), "4 furlongs");
    check(&m("time=\"4 ms\"", "tim=\"4 ms\""), Class::MissingAnnotation, Some(13), "`prepare` has no `time`");
    check(&m("returns=order", "return=order"), Class::Unknown, Some(13), "`return` is unknown");
    check(
        &m("%% trapkey: component client node=pc", ""),
        Class::MissingAnnotation,
        Some(5),
        "nobody knows where it runs",
    );
    check(&m("connector wire from=client", "conn wire from=client"), Class::Unknown, Some(9), "no statement");
    check(&m("  end\n", ""), Class::Syntax, Some(26), "still open");
    check(&m("rsa-2048,rsa-3072", "rsa-2048,rsa-77"), Class::Invalid, Some(11), "rsa-77");
    check(&m("C->>C: prepare", "nonsense"), Class::Syntax, Some(14), "no line of a sequence diagram");
    check(&m("C->>+S: order", "C-x+S: order"), Class::Unknown, Some(16), "`-x` is a message that is lost");
    check(&m("S-->>-C: done", "S--x-C: done"), Class::Unknown, Some(27), "`--x` is a message that is lost");
    check(&m("S-->>-C: done", "C/|-S: done"), Class::Unknown, Some(27), "`/|-` has its head where it comes from");
    check(&m("S-->>-C: done", r"C\\--S: done"), Class::Unknown, Some(27), r"`\\--` has its head where it comes from");
    check(&m("opt rarely", "critical rarely"), Class::Unknown, Some(22), "`critical` cannot be laid");
    check(&m("  S-->>-C: done", "  %% trapkey: ref main"), Class::Cycle, Some(14), "main -> main");
    check(&m("S-->>-C: done", "S-->>-C:"), Class::Missing, Some(27), "the step has no name");
    check(&m("S-->>-C: done", "S-->>-C: done %% trapkey: step bytes=1"), Class::Syntax, Some(27), "a line of its own");
    // What stands behind something else would have been lost with it.
    for line in [
        "Note over C: a note",
        "autonumber",
        "participant C as client",
        "opt rarely",
        "C->>+S: order %% first",
        "accTitle: one",
    ] {
        let text = m("Note over C: a note", &format!("{line} %% trapkey: step carries=order"));
        check(&text, Class::Syntax, Some(12), "a line of its own");
    }
    for (open, close) in [("accDescr {", "}"), ("%%{init: {", "}}%%")] {
        let text = m("Note over C: a note", &format!("{open}\n%% trapkey: step carries=order\n{close}"));
        check(&text, Class::NoEffect, Some(13), "is said to Mermaid alone: put this behind it");
    }
    let ours = "trapkey: step carries=order";
    for (line, class, part) in [
        (format!("%% hello %% {ours}"), Class::Syntax, "a line of its own"),
        (format!("%%%% {ours}"), Class::Syntax, "is no statement: ours begin with `trapkey:` behind one `%%`"),
        (format!("%%% {ours}"), Class::Syntax, "is no statement"),
        (format!("%%%% hello %% {ours}"), Class::Syntax, "a line of its own"),
        (format!("%%{{ {ours} }}%%"), Class::NoEffect, "before `}%%` is said to Mermaid alone"),
        (format!("accDescr {{ {ours} }}"), Class::NoEffect, "before `}` is said to Mermaid alone"),
        ("accDescr { Trapkey : step carries=order }".to_owned(), Class::NoEffect, "is said to Mermaid alone"),
        (format!("accDescr: {ours}"), Class::Syntax, "a line of its own"),
        (format!("accTitle : {ours}"), Class::Syntax, "a line of its own"),
        (format!("title {ours}"), Class::Syntax, "a line of its own"),
        (format!("Note over C: {ours}"), Class::Syntax, "a line of its own"),
        ("title ".to_owned(), Class::Syntax, "`title` has no text, and takes the next line for it"),
        ("accTitle :".to_owned(), Class::Syntax, "`accTitle` has no text"),
        ("accDescr:".to_owned(), Class::Syntax, "`accDescr:` has no text"),
        ("note ->> S: lost".to_owned(), Class::Syntax, "`note` begins a line of its own in Mermaid"),
        ("destroy-->>S: lost".replacen('-', " -", 1), Class::Syntax, "`destroy` begins a line of its own"),
    ] {
        check(&m("Note over C: a note", &line), class, Some(12), part);
    }
    let lines = m(
        "Note over C: a note",
        &format!(
            "accDescr {{
{ours}
}}"
        ),
    );
    check(&lines, Class::NoEffect, Some(13), "is said to Mermaid alone");
    // What people write of it is no statement.
    for line in [
        "accDescr { Trapkey shows this }",
        "title Trapkey",
        "Note over C: see trapkey",
        "%% a %% of trapkey: b",
        "%% %% trapkey: step carries=order",
    ] {
        read(&m("Note over C: a note", line), Language::Mermaid).unwrap_or_else(|fault| panic!("{line}: {fault}"));
    }
    check(&m("%% trapkey: loop", "%% trap-key: loop"), Class::Syntax, Some(18), "is no statement");
    check(&m("time=\"4 ms\"", "time=4 ms"), Class::Syntax, Some(13), "in quotes, `time=\"4 ms\"`");
    check(&m("S->>S: archive\n", "Note over S: nothing\n"), Class::Syntax, Some(26), "has no message");
    let empty = "loop never\n%% trapkey: loop times=2\nNote over C: nothing\nend\n  Note over";
    check(&m("Note over", empty), Class::NoEffect, Some(12), "there is no message in it");
    check(&m("autonumber", "accDescr {"), Class::Syntax, Some(2), "`}` is missing");
    check(&format!("---\ntitle: one\n{MERMAID}"), Class::Syntax, Some(1), "`---` is missing");
    let lost = format!("---\ntitle: one\n%% trapkey: node zz\n---\n{MERMAID}");
    check(&lost, Class::NoEffect, Some(3), "put this behind it");
}

/// What tools of Mermaid say before and between, and its words in capitals, change nothing.
#[test]
fn what_is_said_to_mermaid_is_passed_over() {
    let model = json!(read(MERMAID, Language::Mermaid).unwrap());
    let same = |text: &str| {
        let read = json!(read(text, Language::Mermaid).unwrap_or_else(|fault| panic!("{fault}\n{text}")));
        assert_eq!(read.to_string(), model.to_string(), "{text}");
    };
    same(&format!("\u{feff}{MERMAID}"));
    let begun = MERMAID.replace("  autonumber\n", "");
    same(&format!("---\ntitle: C->>S: one\nconfig: {{}}\n---\n{begun}"));
    same(&format!("%%{{init: {{\n  'theme': 'base'\n  }} }}%%\n%% a comment\n{begun}"));
    let described = "  accDescr {\n  C->>S: a description; of\n  two lines } autonumber\n\n";
    same(&MERMAID.replace("  autonumber\n", described));
    same(&MERMAID.replace("participant C as", "Participant C@{ \"type\": \"queue\" } as").replace("Note", "NOTE"));
    // What stands in the braces is not read, another name neither.
    same(&MERMAID.replace("participant C as", "create participant C@{ \"alias\": \"other\" } as"));
    same(&MERMAID.replace("Note over C: a note", "destroy S"));
    same(&MERMAID.replace("C as client", "C AS client").replace("S as the", "S As the"));
    same(&MERMAID.replace("opt rarely", "OPT rarely").replace("C->>+S", "C()->>()+S"));
    same(&MERMAID.replace("Note over C: a note", "properties C: {\"class\": \"x\"}").replace("0.25", "\"25 %\""));
}

/// Weights are numbers or shares: only how they stand to each other counts.
#[test]
fn a_weight_may_be_a_share() {
    let steps = |text: &str| json!(read_priced(text, Language::Toml, PRICES).unwrap().sequences).to_string();
    let shares = SAME.replace("weight = 3", "weight = \"75 %\"").replace("weight = 1 ", "weight = \"25 %\" ");
    assert_eq!(steps(&shares), steps(SAME));
    // Both ways of writing may stand beside each other where they say the same: 30 % and 70 would be taken once in 234 times.
    let mixed = |number: &str| shares.replace("\"25 %\"", number);
    assert_eq!(steps(&mixed("0.25")), steps(SAME));
    for number in ["25", "1", "0.2"] {
        let fault = read_priced(&mixed(number), Language::Toml, PRICES).unwrap_err();
        assert_eq!(fault.class, Class::Invalid, "{number}: {fault}");
        assert!(fault.to_string().contains("write all in one way"), "{fault}");
    }
    // What was divided by the sum and printed is read back to the last digit.
    for (one, other) in [("2025", "35"), ("15", "7"), ("57", "70"), ("0.1", "0.7")] {
        let text = SAME
            .replace("weight = 3", &format!("weight = {one}"))
            .replace("weight = 1 ", &format!("weight = {other} "));
        let printed = print::annotated(&priced(&text, Language::Toml));
        assert_eq!(print::annotated(&read(&printed, Language::Mermaid).unwrap()), printed);
    }
}

#[test]
fn wrong_uml_is_refused() {
    let u = |from: &str, to: &str| {
        assert!(UML.contains(from), "{from}");
        UML.replacen(from, to, 1)
    };
    let check = |text: &str, class, part: &str| {
        let fault = read_priced(text, Language::Xmi, PRICES).expect_err(part);
        assert_eq!(fault.class, class, "{fault}");
        assert!(fault.to_string().contains(part), "{fault}");
        assert!(fault.line.is_some(), "{fault}");
    };
    check(&u("<GQAM:GaScenario", "<GQAM:GaSomething"), Class::UnknownStereotype, "`GaSomething`");
    check(&u("<trapkey:DataOriginAuthentication", "<trapkey:Critical"), Class::UnknownStereotype, "Critical");
    check(&u("hostDemand=\"(3,ms)\"", ""), Class::MissingAnnotation, "storeGDinfo: it has no `hostDemand`");
    check(&u("prob=\"0.25\"", ""), Class::MissingAnnotation, "no `prob`");
    check(&u("prob=\"0.25\"", "prob=\"0.15\""), Class::Invalid, "add up to 0.9");
    check(&u("refersTo=\"_finish\"", "refersTo=\"_generation\""), Class::Cycle, "generation -> generation");
    check(&u("refersTo=\"_finish\"", "refersTo=\"_gone\""), Class::NoSuchName, "no interaction");
    check(
        &u("supplier=\"_organisation\"", "supplier=\"_gone\""),
        Class::MissingAnnotation,
        "nobody knows where it runs",
    );
    check(&u("statQ=mean", "statQ=percent"), Class::Invalid, "statQ=percent");
    check(&u("interactionOperator=\"alt\"", "interactionOperator=\"ignore\""), Class::Unknown, "`ignore`");
    check(&u("xmi:id=\"_e2\"", "xmi:id=\"_e1\""), Class::Doubled, "xmi:id");
    check(&u("base_Connector=\"_upload\" capacity", "base_Connector=\"_m1\" capacity"), Class::Unknown, "GaCommHost");
    check(&u("</uml:Model>", ""), Class::Syntax, "expected");
}

#[test]
fn wrong_toml_is_refused() {
    let t = |from: &str, to: &str| {
        assert!(SAME.contains(from), "{from}");
        SAME.replacen(from, to, 1)
    };
    let check = |text: &str, class, line, part: &str| refused(text, Language::Toml, class, Some(line), part);
    check(&t("clients = 2", "clients = 0"), Class::Invalid, 4, "1 to 1000000");
    check(&t("clients = 2", "cliants = 2"), Class::Unknown, 4, "`cliants` is unknown here; known: threads, clients");
    check(&t("clients = 2", "room = 2"), Class::Missing, 3, "or `arrivals` and `room`: here it is `think` and `room`");
    check(&t("clients = 2", ""), Class::Missing, 3, "or `arrivals` and `room`: here it is `think`");
    check(&t("cores = 2", "core = 2"), Class::Unknown, 7, "`core` is unknown here; known: cores");
    check(&t("node = \"database\"", "node = \"databse\""), Class::NoSuchName, 14, "no node `databse`");
    check(&t("ref = \"new\" }", "ref = \"finish\" }"), Class::Cycle, 34, "finish -> finish");
    check(&t("on = \"attribute gd\"", "on = \"connector upload\""), Class::Invalid, 42, "goes with `attribute ..`");
    check(&t("by = \"store\"", "bye = \"store\""), Class::Missing, 38, "`by` is missing (is it meant by `bye`?)");
    check(&t("time = \"3 ms\"", "times = \"3 ms\""), Class::MissingAnnotation, 39, "(is it meant by `times`?)");
    let steps = "has exactly one of `do`, `send`, `ref`, `choose`, `par`, `acquire`, `release`";
    check(&t("send = \"send\"", "sent = \"send\""), Class::Missing, 29, &format!("{steps} (is it meant by `sent`?)"));
    check(
        &t("ref = \"finish\"", "released = \"finish\""),
        Class::Missing,
        33,
        &format!("{steps} (is it meant by `released`?)"),
    );
    check(&t("cores = 2", "cores = [[2]]"), Class::Invalid, 7, "this is an array, and a string or a number is wanted");
    check(&t("of = \"producer\"\n", ""), Class::Missing, 20, "`of` is missing");
    check(&t("reuse = 1\n", ""), Class::MissingAnnotation, 44, "`reuse` is missing");
    check(&t("reuse = 1\n", "reuse = 0.5\n"), Class::MissingAnnotation, 44, "`exchange` is missing");
    check(&t("cipher = \"aes-256-cbc\"", "cipher = \"rot13\""), Class::Invalid, 47, "rot13");
    check(&t("weight = 3", "weight = 0"), Class::Invalid, 35, "a number above 0");
    check(&t("do = \"storeGDinfo\"", "do = \" \""), Class::Missing, 37, "the step has no name");
    check(&t("[node.database]", "[node.organisation]"), Class::Syntax, 9, "duplicate key");
    check(&t("[workload]", "[workload"), Class::Syntax, 3, "");
}

/// A chain of references is walked with the stack: one that is too long for it is refused, one that is not is laid.
#[test]
fn a_long_chain_of_references_is_refused_and_takes_no_stack() {
    let chain = |length: usize| {
        let mut text = String::from(
            "[workload]\nclients = 1\n[node.n]\n[component.a]\nnode = \"n\"\n[[sequence.s0]]\nref = \"s1\"\n",
        );
        for index in 1..length {
            text.push_str(&format!("[[sequence.s{index}]]\nref = \"s{}\"\n", index + 1));
        }
        text.push_str(&format!("[[sequence.s{length}]]\ndo = \"x\"\nby = \"a\"\ntime = \"1 ms\"\n"));
        cost::net::lay(&weave(&read(&text, Language::Toml).unwrap()))
    };
    assert!(chain(400).is_ok());
    let fault = chain(60_000).unwrap_err();
    assert_eq!(fault.class, Class::TooLarge, "{fault}");
}

/// What makes many elements makes them once: the time of a reader grows with its text, not with its square.
#[test]
fn many_elements_are_read_one_by_one() {
    let many = 30_000;
    let mut uml = String::from("<xmi:XMI xmlns:xmi=\"x\" xmlns:uml=\"u\"><uml:Model xmi:id=\"m\" name=\"M\">\n");
    let mut diagram = String::from("sequenceDiagram\n");
    for index in 0..many {
        uml.push_str(&format!("<packagedElement xmi:type=\"uml:Component\" xmi:id=\"c{index}\" name=\"c{index}\"/>\n"));
        diagram.push_str(&format!("a{index}->>a{index}: x\n"));
    }
    uml.push_str("</uml:Model></xmi:XMI>");
    assert_eq!(read(&uml, Language::Xmi).unwrap_err().class, Class::MissingAnnotation);
    assert_eq!(read(&diagram, Language::Mermaid).unwrap_err().class, Class::MissingAnnotation);
}

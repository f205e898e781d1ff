//! Parallel fragments in the three languages: how they are written, woven and printed, and what of them is refused.

use cost::model::Step;
use cost::read::{Language, read};
use cost::solve::solve;
use cost::{Class, print, weave};

use crate::branches::{SMALL, TWO, changed, close, loaded, model, sequences, signed, within};

#[track_caller]
fn refused(text: &str, language: Language, class: Class, name: &str, part: &str) {
    let fault = read(text, language).expect_err(part);
    assert_eq!((fault.class, fault.name.as_str()), (class, name), "{fault}");
    assert!(fault.to_string().contains(part), "{fault}");
    assert!(fault.line.is_some(), "{fault}");
}

#[test]
fn what_cannot_be_done_at_once_is_refused() {
    let steps = "[[sequence.a]]\ndo = \"a\"\nby = \"x\"\ntime = \"1 ms\"\n";
    let main = |par: &str| format!("{SMALL}[[sequence.main]]\n{par}\n{steps}");
    let toml = |par: &str, class, name: &str, part: &str| refused(&main(par), Language::Toml, class, name, part);
    toml("par = [ { ref = \"a\" } ]", Class::NoEffect, "par", "it has one branch, and nothing is done beside it");
    toml("par = []", Class::NoEffect, "par", "it has no branch");
    toml("par = [ { ref = \"a\" }, { } ]", Class::NoEffect, "par", "branch 2 of 2 is empty");
    toml("par = [ { ref = \"a\" }, { ref = \"b\" } ]", Class::NoSuchName, "sequence main", "no sequence `b`");
    toml(
        "par = [ { ref = \"a\" }, { weight = 1, ref = \"a\" } ]",
        Class::Unknown,
        "sequence main",
        "`weight` is unknown",
    );
    toml(
        "par = [ { ref = \"a\" }, { ref = \"a\" } ]\ntimes = 2",
        Class::Unknown,
        "sequence main",
        "stands beside `par`",
    );
    toml("par = \"a\"", Class::Invalid, "sequence main", "a list of tables is wanted");
    toml("par = [ { ref = \"a\" }, { ref = \"main\" } ]", Class::Cycle, "sequence main", "main -> main");
}

/// Pools that branches acquire and release.
#[test]
fn pools_are_given_back_by_the_branch_that_has_them() {
    let invalid = |text: &[(&str, &str)], pool: &str, part: &str| {
        refused(&sequences(text), Language::Toml, Class::Invalid, &format!("pool {pool}"), part);
    };
    let main = ("main", "take p, par a b, give p");
    invalid(
        &[main, ("a", "give p, take p"), ("b", "work")],
        "p",
        "0 are held by this branch: what was acquired before",
    );
    invalid(&[("main", "par a b, give p"), ("a", "take p"), ("b", "work")], "p", "leaves 1 of it held and finds 0");
    invalid(&[("main", "par a b"), ("a", "take p"), ("b", "work, give p")], "p", "leaves 1 of it held");
    // Whoever holds one waits for the other, each the other way round.
    let crossed =
        [("main", "par a b"), ("a", "take p, take q, give q, give p"), ("b", "take q, take p, give p, give q")];
    invalid(&crossed, "p", "may wait for each other for ever");
    // Both branches of both requests have one of two, and want one more.
    let more = [("main", "par a b"), ("a", "take p, take p, give p, give p"), ("b", "take p, take p, give p, give p")];
    invalid(&more, "p", "and all wait for ever");
    let one = sequences(&more).replace("clients = 2", "clients = 1");
    refused(&one, Language::Toml, Class::Invalid, "pool p", "and all wait for ever");
    model(&one.replace("size = 2", "size = 3"));
    invalid(&[main, ("a", "take p, take p, give p, give p"), ("b", "work")], "p", "a request would hold 3 of it");
    // What a request holds in all is what its branches hold together.
    let both = model(&sequences(&[
        ("main", "take q, par a b, give q"),
        ("a", "take p, work, give p"),
        ("b", "take p, rest, give p"),
    ]));
    assert_eq!((both.pools[0].most, both.pools[1].most), (2, 1));
    let two = model(&sequences(&[("main", "par a a"), ("a", "take p, work, give p")]));
    assert_eq!(two.pools[0].most, 2);
}

/// What a message carries is made before it is sent, and not beside that.
#[test]
fn branches_know_nothing_of_what_others_make() {
    let secure = "[[secure]]\nproperty = \"data-integrity\"\non = \"attribute v\"\nsignature = \"ed25519\"\n";
    let of = |text: &[(&str, &str)]| sequences(text) + secure;
    let beside = of(&[("main", "par a b"), ("a", "make v"), ("b", "send v")]);
    refused(&beside, Language::Toml, Class::Invalid, "data-integrity", "before or while `make` makes it");
    model(&of(&[("main", "par a b, send v"), ("a", "make v"), ("b", "work")]));
    model(&of(&[("main", "make v, par a b"), ("a", "send v"), ("b", "send v")]));
    model(&of(&[("main", "par a b"), ("a", "make v, send v"), ("b", "work")]));
}

/// Mechanisms stand in the branch of what they are about; what comes before the first step stands before the fragment.
#[test]
fn mechanisms_are_woven_into_branches() {
    let text = signed("clients = 1")
        + "[[secure]]\nproperty = \"secure-channel\"\non = \"connector wire\"\nprotocol = \"tls-1.3\"\nkey = \"ed25519\"\nreuse = 0.5\n";
    let woven = weave(&model(&text));
    let main = &woven.model().sequences[0].steps;
    let last = main.last().unwrap();
    assert!(main.len() > 1 && matches!(last, Step::Par(_)), "{main:?}");
    // A channel is opened once for both branches.
    let opens = main.iter().filter(|step| matches!(step, Step::Choice(_))).count();
    assert_eq!(opens, 1, "{main:?}");
    let drawn = print::secured(&woven);
    let (at, and) = (drawn.find("par branch 1").unwrap(), drawn.find("and branch 2").unwrap());
    assert!(at < and && drawn[and..].contains("end\n"), "{drawn}");
    let inside = TWO.replace("{ ref = \"other\" }", "{ ref = \"deep\" }")
        + "[[sequence.deep]]\npar = [ { ref = \"other\" }, { ref = \"one\" } ]\n";
    assert!(matches!(&model(&inside).sequences[0].steps[0], Step::Par(branches) if branches.len() == 2));
}

const MERMAID: &str = r#"sequenceDiagram
  %% trapkey: workload clients=2
  %% trapkey: node n cores=2
  participant X as x
  participant Y as y
  %% trapkey: component x node=n
  %% trapkey: component y node=n
  %% trapkey: connector wire from=x to=y latency="1 ms"
  par [look it up]
    %% trapkey: step time="4 ms"
    X->>X: look
    alt found
      %% trapkey: way weight=0.5
      X->>Y: ask
    else not
      %% trapkey: way weight=0.5
      %% trapkey: step time="2 ms"
      Y->>Y: search
    end
  and write it down
    %% trapkey: step time="3 ms"
    Y->>Y: write
  and
    par_over a
      %% trapkey: step time="1 ms"
      X->>X: one
    and b
      %% trapkey: step time="1 ms"
      Y->>Y: other
    end
  end
  %% trapkey: step time="5 ms"
  X->>X: after
"#;

/// What has no net is refused at the line of its fragment.
#[test]
fn too_many_requests_are_refused_where_the_fragment_stands() {
    let many = read(&MERMAID.replace("clients=2", "clients=17"), Language::Mermaid).unwrap();
    let fault = within(|budget| solve(&weave(&many), budget)).unwrap_err();
    assert_eq!((fault.class, fault.name.as_str(), fault.line), (Class::TooLarge, "par", Some(9)), "{fault}");
}

#[test]
fn diagrams_say_what_is_done_at_once() {
    let read = |text: &str| read(text, Language::Mermaid).unwrap_or_else(|fault| panic!("{fault}\n{text}"));
    let found = read(MERMAID);
    let Step::Par(branches) = &found.sequences[0].steps[0] else { panic!("{found:?}") };
    assert_eq!(branches.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1, 1]);
    assert!(matches!(&branches[2][0], Step::Par(inner) if inner.len() == 2));
    // Printed, it is read as the same.
    let printed = print::annotated(&found);
    assert_eq!(read(&printed), found);
    assert_eq!(print::annotated(&read(&printed)), printed);
    let toml = print::annotated(&model(&loaded("clients = 3\nthink = \"20 ms\"")));
    assert_eq!(print::annotated(&read(&toml)), toml);
    let m = |from: &str, to: &str| changed(MERMAID, &[(from, to)]);
    let check = |text: &str, class, name: &str, part: &str| refused(text, Language::Mermaid, class, name, part);
    check(&m("  and write it down\n", "  else\n"), Class::Syntax, "", "`else` stands outside of `alt`");
    check(&m("    else not\n", "    and not\n"), Class::Syntax, "", "`and` stands outside of `par`");
    check(
        &m("    %% trapkey: step time=\"3 ms\"\n    Y->>Y: write\n", ""),
        Class::NoEffect,
        "par",
        "branch 2 of 3 is empty",
    );
    check(&m("    end\n  end\n", "    end\n"), Class::Syntax, "", "`end` is missing");
    check(
        &m("    and b\n      %% trapkey: step time=\"1 ms\"\n      Y->>Y: other\n", ""),
        Class::NoEffect,
        "par",
        "it has one branch",
    );
    check(&m("  and write it down\n", "  break a\n"), Class::Unknown, "", "inside of another block");
    check(
        &m("  and write it down\n", "  %% trapkey: step time=\"1 ms\"\n  and more\n"),
        Class::Syntax,
        "",
        "has no message",
    );
}

/// A fragment with two operands; what stands in them, and beside them in the first.
fn uml(operator: &str, operands: [&str; 2], guard: &str) -> String {
    let message = |id: &str| {
        let end = |end: &str| {
            format!(
                "<fragment xmi:type=\"uml:MessageOccurrenceSpecification\" xmi:id=\"{id}.{end}\" covered=\"l\" message=\"{id}\"/>\n"
            )
        };
        end("s") + &end("r")
    };
    let inside = |words: &str| words.split_whitespace().map(message).collect::<String>();
    let declared = ["look", "write"]
        .map(|id| format!("<message xmi:id=\"{id}\" name=\"{id}\" sendEvent=\"{id}.s\" receiveEvent=\"{id}.r\"/>\n"));
    let (first, second) = (inside(operands[0]), inside(operands[1]));
    format!(
        r#"<?xml version="1.0" encoding="UTF-8"?>
<xmi:XMI xmi:version="20131001" xmlns:xmi="http://www.omg.org/spec/XMI/20131001" xmlns:GQAM="http://gqam/1" xmlns:uml="http://www.eclipse.org/uml2/5.0.0/UML">
<uml:Model xmi:id="m" name="plant">
  <packagedElement xmi:type="uml:Node" xmi:id="n" name="pc"><nestedClassifier xmi:type="uml:Component" xmi:id="c" name="reader"/>
    <nestedClassifier xmi:type="uml:Component" xmi:id="d" name="store"/></packagedElement>
  <packagedElement xmi:type="uml:Component" xmi:id="frame" name="all">
    <ownedAttribute xmi:id="p" name="r" type="c"/><ownedAttribute xmi:id="q" name="s" type="d"/>
    <ownedConnector xmi:id="k"><end xmi:id="k1" role="p"/><end xmi:id="k2" role="q"/></ownedConnector>
  </packagedElement>
  <packagedElement xmi:type="uml:Interaction" xmi:id="i" name="main">
    <lifeline xmi:id="l" represents="p" name="r"/>
    <fragment xmi:type="uml:CombinedFragment" xmi:id="f" name="both" interactionOperator="{operator}">
      <operand xmi:id="o1">{guard}
{first}</operand>
      <operand xmi:id="o2">
{second}</operand>
    </fragment>
    {}
  </packagedElement>
</uml:Model>
<GQAM:GaWorkloadEvent xmi:id="w" base_NamedElement="i" pattern="closed(population=1)"/>
<GQAM:GaStep xmi:id="s1" base_NamedElement="look" hostDemand="4 ms"/>
<GQAM:GaStep xmi:id="s2" base_NamedElement="write" hostDemand="6 ms"/>
</xmi:XMI>"#,
        declared.concat()
    )
}

#[test]
fn the_three_languages_say_the_same() {
    let of = |text: &str, language| read(text, language).unwrap_or_else(|fault| panic!("{fault}\n{text}"));
    let diagram = "sequenceDiagram\n%% trapkey: name plant\n%% trapkey: workload clients=1\n%% trapkey: node pc\nparticipant R as reader\n\
        %% trapkey: component reader node=pc\npar both\n%% trapkey: step time=\"4 ms\"\nR->>R: look\nand\n\
        %% trapkey: step time=\"6 ms\"\nR->>R: write\nend\n";
    let diagram = of(diagram, Language::Mermaid);
    let drawn = of(&uml("par", ["look", "write"], ""), Language::Xmi);
    assert_eq!(
        (&drawn.sequences, &drawn.workload, &drawn.nodes),
        (&diagram.sequences, &diagram.workload, &diagram.nodes)
    );
    let text = "name = \"plant\"\n[workload]\nclients = 1\n[node.pc]\n[component.reader]\nnode = \"pc\"\n\
        [[sequence.main]]\npar = [ { ref = \"a\" }, { ref = \"b\" } ]\n\
        [[sequence.a]]\ndo = \"look\"\nby = \"reader\"\ntime = \"4 ms\"\n[[sequence.b]]\ndo = \"write\"\nby = \"reader\"\ntime = \"6 ms\"\n";
    let written = of(text, Language::Toml);
    let Step::Par(branches) = &diagram.sequences[0].steps[0] else { panic!("{diagram:?}") };
    // In TOML a branch is a sequence.
    assert_eq!([&written.sequences[1].steps, &written.sequences[2].steps], [&branches[0], &branches[1]]);
    let times: Vec<f64> = [&diagram, &drawn, &written]
        .map(|model| within(|budget| solve(&weave(model), budget)).unwrap().response)
        .to_vec();
    times.iter().for_each(|time| close("response", *time, 0.01));
    let check = |text: &str, class, name: &str, part: &str| refused(text, Language::Xmi, class, name, part);
    let guard =
        "<guard xmi:id=\"g\"><specification xmi:type=\"uml:LiteralString\" xmi:id=\"gs\" value=\"cold\"/></guard>";
    check(&uml("par", ["look", "write"], guard), Class::Unknown, "operand o1", "a guard in `par` is not heeded");
    check(&uml("par", ["look write", ""], ""), Class::NoEffect, "par", "branch 2 of 2 is empty");
    check(&uml("par", ["look", ""], ""), Class::Invalid, "message write", "would be lost");
}

/// Fragments inside each other are laid with the stack, as sequences are: too many are refused, the others take no more than there is.
#[test]
fn deep_fragments_are_refused_and_take_no_stack() {
    let chain = |length: usize| {
        let mut text = SMALL.replace("clients = 2", "clients = 1");
        text += "[[sequence.s0]]\nref = \"s1\"\n[[sequence.leaf]]\ndo = \"leaf\"\nby = \"x\"\ntime = \"1 ms\"\n";
        for index in 1..length {
            text += &format!("[[sequence.s{index}]]\npar = [ {{ ref = \"s{}\" }}, {{ ref = \"leaf\" }} ]\n", index + 1);
        }
        text += &format!("[[sequence.s{length}]]\ndo = \"x\"\nby = \"x\"\ntime = \"1 ms\"\n");
        cost::net::lay(&weave(&model(&text)))
    };
    assert!(chain(60).is_ok());
    for length in [500, 5000] {
        let fault = chain(length).unwrap_err();
        assert_eq!(fault.class, Class::TooLarge, "{fault}");
    }
}

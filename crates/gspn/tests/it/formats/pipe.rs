//! PNML as PIPE saves and opens it.

use gspn::Class;
use gspn::formats::{Format, read, write};

use super::{PIPE, foreign, net};

fn written(kind: &str, more: &str) -> Result<String, gspn::Refusal> {
    let net = net(&format!(
        r#"{{"name": "a net", "net": {{"places": [{{"name": "p & q", "tokens": 3}}, {{"name": "r"}}], "transitions": [
        {{"name": "t", {kind}, "in": {{"p & q": 2}}, "out": {{"r": 1}}{more}}}]}}}}"#
    ));
    write(&net, Format::Pipe)
}

/// What PIPE 4 and 5 save of each, in their order; PIPE 5 opens no node without a position.
#[test]
fn a_net_is_written_as_pipe_saves_it() {
    let text = written(r#""kind": "timed", "rate": 1e-7, "servers": "inf""#, r#", "inhibit": {"r": 1}"#).unwrap();
    let mut rest = text.as_str();
    for part in [
        r#"<net id="a net" type="P/T net">"#,
        r#"<token id="Default" enabled="true" red="0" green="0" blue="0"/>"#,
        r#"<place id="p &amp; q">"#,
        r#"<graphics><position x=""#,
        r#"<name><value>p &amp; q</value><graphics><offset x="0.0" y="0.0"/></graphics></name>"#,
        r#"<initialMarking><value>Default,3</value><graphics>"#,
        "<capacity><value>0</value></capacity>",
        r#"<initialMarking><value>Default,0</value><graphics>"#,
        r#"<transition id="t">"#,
        r#"<graphics><position x=""#,
        r#"<name><value>t</value><graphics><offset x="0.0" y="0.0"/></graphics></name>"#,
        "<orientation><value>0</value></orientation>",
        "<rate><value>0.0000001</value></rate>",
        "<timed><value>true</value></timed>",
        "<infiniteServer><value>true</value></infiniteServer>",
        "<priority><value>1</value></priority>",
        r#" source="p &amp; q" target="t">"#,
        "<graphics/>",
        "<inscription><value>Default,2</value><graphics/></inscription>",
        "<tagged><value>false</value></tagged>",
        r#"<arcpath id="000" x=""#,
        r#"curvePoint="false"/>"#,
        r#"<arcpath id="001" x=""#,
        r#"<type value="normal"/>"#,
        r#" source="t" target="r">"#,
        r#" source="r" target="t">"#,
        r#"<type value="inhibitor"/>"#,
    ] {
        let at = rest.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
        rest = &rest[at + part.len()..];
    }
    let immediate = written(r#""kind": "immediate", "weight": 3, "priority": 2"#, "").unwrap();
    for part in ["<rate><value>3.0</value>", "<timed><value>false</value>", "<priority><value>2</value>"] {
        assert!(immediate.contains(part), "{part}: {immediate}");
    }
    assert!(immediate.contains("<infiniteServer><value>false</value></infiniteServer>"), "{immediate}");
    let there = foreign(&text).unwrap();
    assert_eq!(read(text.as_bytes(), Format::Pipe, &[]).unwrap().net, there);
}

#[test]
fn what_pipe_cannot_say_is_refused_by_name() {
    let timed = r#""kind": "timed", "rate": 1"#;
    for (kind, more, name, part) in [
        (timed, r#", "inhibit": {"r": 2}"#, "t", "any token stops"),
        (timed, r#", "inhibit": {"p & q": 3}"#, "t", "3 tokens in `p & q` stop it"),
        (r#""kind": "timed", "rate": 1, "servers": 2"#, "", "t", "2 servers"),
        (r#""kind": "deterministic", "delay": 1"#, "", "t", "a fixed time"),
        (r#""kind": "immediate", "priority": 2147483648"#, "", "t", "more than PIPE can hold"),
    ] {
        let refusal = written(kind, more).unwrap_err();
        assert_eq!((refusal.class, refusal.name.as_str()), (Class::Unsupported, name), "{refusal}");
        assert!(refusal.why.contains(part), "{refusal}");
    }
    let many = net(r#"{"net": {"places": [{"name": "p", "tokens": 2147483648}], "transitions": []}}"#);
    assert_eq!(write(&many, Format::Pipe).unwrap_err().name, "p");
    assert!(write(&many, Format::Pnml).is_ok());
}

/// What Storm reads has `inhibition`, and a priority in a `text`.
#[test]
fn pnml_is_written_for_storm() {
    let net = foreign(PIPE).unwrap();
    let text = write(&net, Format::Pnml).unwrap();
    for part in [r#"<type value="inhibition"/>"#, "<priority><text>4</text></priority>", "Default,2"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("<position") && !text.contains("\"inhibitor\""), "{text}");
}

/// PIPE 5 has no number for an inhibitor arc, and any arc may have nothing but where its number is drawn.
#[test]
fn an_empty_inscription_is_one_where_pipe_has_it_so() {
    let with = |arc: &str, inscription: &str| {
        let (good, sort) = match arc {
            "inhibitor" => ("<inscription><value>Default,2</value></inscription><type value=\"inhibition\"/>", arc),
            _ => ("<inscription><value>1</value></inscription></arc>", arc),
        };
        assert!(PIPE.contains(good), "{good}");
        let end = if sort == "inhibitor" { "<type value=\"inhibitor\"/>" } else { "</arc>" };
        foreign(&PIPE.replace(good, &format!("{inscription}{end}")))
    };
    let drawn = "<inscription><graphics><offset x=\"10\" y=\"20\"/></graphics></inscription>";
    let empty = "<inscription><value></value><graphics/></inscription>";
    for inscription in
        ["", "<inscription/>", "<inscription> </inscription>", drawn, empty, "<inscription><value/></inscription>"]
    {
        let read = with("inhibitor", inscription).unwrap();
        assert_eq!(read.transitions()[1].inhibitors[0].count, 1, "{inscription}");
    }
    for inscription in ["", "<inscription/>", drawn] {
        assert_eq!(with("normal", inscription), foreign(PIPE), "{inscription}");
    }
    let structure = "<inscription><structure/></inscription>";
    for (inscription, class) in [(empty, Class::Invalid), (structure, Class::Unsupported)] {
        let refusal = with("normal", inscription).unwrap_err();
        assert_eq!((refusal.class, refusal.name.as_str()), (class, "P1 to T1"), "{refusal}");
    }
    assert!(with("inhibitor", structure).is_err());
    for sort in ["test", "read"] {
        let arc = |inscription: &str| {
            let sort = format!("{inscription}<type value=\"{sort}\"/></arc>");
            foreign(&PIPE.replace("<inscription><value>1</value></inscription></arc>", &sort))
        };
        assert_eq!(arc("<inscription><value/></inscription>"), arc("<inscription><value>1</value></inscription>"));
        let read = arc(empty).unwrap();
        assert_eq!((read.transitions()[1].inputs[0].count, read.transitions()[1].outputs[0].count), (1, 1), "{sort}");
    }
}

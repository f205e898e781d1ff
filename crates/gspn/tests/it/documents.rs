//! What is wrong with a document is said by name: the place, transition or question that a person finds in it.

use gspn::formats::{Format, read};
use gspn::{Class, json};

const GOOD: &str = r#"{"name": "net", "net": {
    "places": [{"name": "a", "tokens": 2}, {"name": "b"}],
    "transitions": [
        {"name": "t", "kind": "timed", "rate": 2, "in": {"a": 1}, "out": {"b": 1}},
        {"name": "now", "kind": "immediate", "weight": 3, "in": {"b": 2}, "out": {"a": 2}}]},
    "ask": [{"id": "n", "kind": "mean_tokens", "place": "a", "at": 4}], "limit": 100, "remark": {"of": "mine"}}"#;

/// Each row: the text in [`GOOD`], what stands there instead, and who is named.
const WRONG: &[(&str, &str, &str)] = &[
    (r#""rate": 2"#, r#""rate": 0"#, "t"),
    (r#""rate": 2"#, r#""rate": -2"#, "t"),
    (r#""rate": 2"#, r#""rate": 1e999"#, "t"),
    (r#""rate": 2"#, r#""rate": -1e999"#, "t"),
    (r#""rate": 2"#, r#""rate": Infinity"#, "t"),
    (r#""rate": 2"#, r#""rate": NaN"#, "t"),
    (r#""rate": 2"#, r#""rate": "2""#, "t"),
    (r#""rate": 2"#, r#""rate": 2, "rate": 2"#, "t"),
    (r#""rate": 2"#, r#""rate": 2, "priority": 1"#, "t"),
    (r#""rate": 2"#, r#""rate": 2, "servers": 0"#, "t"),
    (r#""rate": 2"#, r#""rate": 2, "servers": 1.5"#, "t"),
    (r#""rate": 2"#, r#""rate": 2, "speed": 1"#, "t"),
    (r#""rate": 2"#, r#""rate_by_tokens": {"place": "a", "rates": []}"#, "t"),
    (r#""rate": 2"#, r#""rate_by_tokens": {"place": "c", "rates": [1]}"#, "t"),
    (r#""rate": 2"#, r#""rate": 2, "rate_by_tokens": {"place": "a", "rates": [1]}"#, "t"),
    (r#"{"a": 1}"#, r#"{"a": 0}"#, "t"),
    (r#"{"a": 1}"#, r#"{"a": 1, "a": 1}"#, "t"),
    (r#"{"a": 1}"#, r#"{"c": 1}"#, "t"),
    (r#""rate": 2, "in": {"a": 1}"#, r#""rate": 2, "servers": "inf""#, "t"),
    (r#""weight": 3"#, r#""weight": 0"#, "now"),
    (r#""weight": 3"#, r#""priority": 0"#, "now"),
    (r#""weight": 3"#, r#""weight_by": "a""#, "now"),
    (r#""weight": 3"#, r#""weight_by": "c""#, "now"),
    (r#""weight": 3"#, r#""weight_by": 3"#, "now"),
    (r#""weight": 3"#, r#""weight": 1e300, "weight_by": "b""#, "now"),
    (r#""tokens": 2"#, r#""tokens": -1"#, "a"),
    (r#""tokens": 2"#, r#""tokens": 1e999"#, "a"),
    (r#"{"name": "b"}"#, r#"{"name": "b"}, {"name": "a"}"#, "a"),
    (r#"{"name": "b"}"#, r#"{"name": "b"}, {"name": "t"}"#, "t"),
    (r#"{"name": "b"}"#, r#"{"name": "b"}, {"name": ""}"#, "name"),
    (r#""at": 4"#, r#""at": -4"#, "n"),
    (r#""at": 4"#, r#""at": 1e999"#, "n"),
    (r#""at": 4"#, r#""when": 4"#, "n"),
    (r#""place": "a""#, r#""place": "c""#, "n"),
    (r#""mean_tokens""#, r#""mean""#, "n"),
    (r#""limit": 100"#, r#""limit": 0"#, "limit"),
    (r#""limit": 100"#, r#""limit": -1"#, "limit"),
    (r#""limit": 100"#, r#""limit": 100, "limit": 100"#, "limit"),
    (r#""name": "net","#, r#""name": 7,"#, "name"),
    (r#""mine"}}"#, r#""mine"}"#, "document"),
];

#[test]
fn a_wrong_document_names_what_is_wrong() {
    let document = json::read(GOOD.as_bytes()).unwrap();
    assert_eq!((document.net.places().len(), document.asks.len(), document.limit), (2, 1, Some(100)));
    for (good, wrong, name) in WRONG {
        assert!(GOOD.contains(good), "{good}");
        let refusal = json::read(GOOD.replacen(good, wrong, 1).as_bytes()).expect_err(wrong);
        assert_eq!((refusal.class, refusal.name.as_str()), (Class::Invalid, *name), "{wrong}: {refusal}");
    }
}

#[test]
fn a_word_for_a_number_is_a_word_where_a_string_stands() {
    let text = GOOD.replace(r#""b""#, r#""1e999 \" NaN \\""#);
    assert_eq!(json::read(text.as_bytes()).unwrap().net.places()[1].name, r#"1e999 " NaN \"#);
    let refusal = json::read(text.replace("\"rate\": 2", "\"rate\": 1e999").as_bytes()).unwrap_err();
    assert_eq!(refusal.name, "t");
}

#[test]
fn a_mark_of_the_byte_order_is_passed_over_or_named() {
    let marked = format!("\u{feff}{GOOD}");
    assert_eq!(json::read(marked.as_bytes()), json::read(GOOD.as_bytes()));
    assert_eq!(Format::of(marked.as_bytes()), Some(Format::Json));
    for wide in [&[0xff, 0xfe][..], &[0xfe, 0xff]] {
        let text: Vec<u8> = wide.iter().copied().chain([b'{', 0, b'}', 0]).collect();
        for refusal in [json::read(&text).unwrap_err(), read(&text, Format::Json, &[]).unwrap_err()] {
            assert!(refusal.class == Class::Invalid && refusal.why.contains("UTF-16"), "{refusal}");
        }
    }
}

#[test]
fn what_is_no_net_is_told_which_nets_are_read() {
    for (text, looks) in [
        ("# Trapkey\n", "neither"),
        ("", "nothing in it"),
        (" \n", "nothing in it"),
        ("<html><body/></html>", "`html`"),
        ("<!DOCTYPE pnml [<!ENTITY a \"a\">]><pnml/>", "it has a document type"),
        ("\u{0}", "neither"),
    ] {
        let refusal = read(text.as_bytes(), Format::Json, &[]).unwrap_err();
        assert_eq!((refusal.class, refusal.name.as_str()), (Class::Invalid, "document"), "{text:?}");
        assert!(refusal.why.contains(looks) && refusal.why.contains("JSON, PNPRO, PNML and eDSPN"), "{refusal}");
    }
    let latin = b"<pnml><net id=\"\xe9\"/></pnml>";
    let refusal = read(latin, Format::Json, &[]).unwrap_err();
    assert!(refusal.class == Class::Invalid && refusal.why.contains("save it as UTF-8"), "{refusal}");
}

/// With a mark of the byte order and without, either byte first; what is broken off is refused.
#[test]
fn a_file_of_two_bytes_a_letter_is_read() {
    let text = "<?xml version=\"1.0\" encoding=\"UTF-16\"?><pnml><net id=\"net\"><place id=\"d\u{e9}but \u{1f512}\"/></net></pnml>";
    for marked in ["\u{feff}", ""] {
        let units: Vec<u16> = format!("{marked}{text}").encode_utf16().collect();
        let little: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
        let big: Vec<u8> = units.iter().flat_map(|unit| unit.to_be_bytes()).collect();
        for bytes in [&little, &big] {
            assert_eq!(Format::of(bytes), Some(Format::Pnml));
            let document = read(bytes, Format::Pnml, &[]).unwrap();
            assert_eq!(document.net.places()[0].name, "d\u{e9}but \u{1f512}");
            let odd = read(&bytes[..bytes.len() - 1], Format::Pnml, &[]).unwrap_err();
            assert!(odd.why.contains("odd number of bytes"), "{odd}");
        }
        let half: Vec<u8> = units.iter().filter(|unit| **unit != 0xd83d).flat_map(|unit| unit.to_le_bytes()).collect();
        let half = read(&half, Format::Pnml, &[]).unwrap_err();
        assert!(half.why.contains("half of a letter"), "{half}");
    }
    let lies = b"<?xml version=\"1.0\" encoding=\"UTF-16\"?><pnml><net id=\"\xc3\xa9\"/></pnml>";
    let lies = read(lies, Format::Pnml, &[]).unwrap_err();
    assert!(lies.why.contains("`utf-16`, and its bytes are not"), "{lies}");
    let marked = "\u{feff}<?xml version=\"1.0\" encoding=\"windows-1252\"?><pnml><net id=\"n\"><place id=\"\u{e9}\"/></net></pnml>";
    assert_eq!(read(marked.as_bytes(), Format::Pnml, &[]).unwrap().net.places()[0].name, "\u{e9}");
    let four: Vec<u8> = "\u{feff}<pnml/>".chars().flat_map(|letter| u32::from(letter).to_le_bytes()).collect();
    for bytes in [&four[..], &four[4..]] {
        let four = read(bytes, Format::Pnml, &[]).unwrap_err();
        assert!(four.why.contains("UTF-32"), "{four}");
    }
    let other = b"<?xml version=\"1.0\" encoding=\"koi8-r\"?><pnml><net id=\"\xc4\"/></pnml>";
    let other = read(other, Format::Pnml, &[]).unwrap_err();
    assert!(other.why.contains("its encoding is `koi8-r`"), "{other}");
    // Where nobody says what it is, rates beside it are not the fault.
    let beside = json::read_rates(b"{\"t\": 1}").unwrap();
    let other =
        read(b"<?xml version=\"1.0\" encoding=\"koi8-r\"?><pnml><net id=\"\xc4\"/></pnml>", Format::Json, &beside);
    assert!(other.unwrap_err().why.contains("its encoding is `koi8-r`"));
}

#[test]
fn a_file_of_pipe_says_itself_that_it_is_no_utf_8() {
    let of = |encoding: &str| {
        let (before, after) =
            (format!("<?xml version=\"1.0\"{encoding}?><pnml><net id=\"net\"><place id=\"d"), "but\"/></net></pnml>");
        [before.as_bytes(), b"\xe9", after.as_bytes()].concat()
    };
    for encoding in [" encoding=\"ISO-8859-1\"", " encoding = 'iso-8859-1' standalone=\"no\""] {
        let text = of(encoding);
        assert_eq!(Format::of(&text), Some(Format::Pnml));
        let document = read(&text, Format::Pnml, &[]).unwrap();
        assert_eq!(document.net.places()[0].name, "d\u{e9}but");
    }
    let windows = String::from_utf8_lossy(&of(" encoding=\"windows-1252\"")).replace('\u{fffd}', "@");
    let windows: Vec<u8> = windows.bytes().map(|byte| if byte == b'@' { 0x80 } else { byte }).collect();
    assert_eq!(read(&windows, Format::Pnml, &[]).unwrap().net.places()[0].name, "d\u{20ac}but");
    for encoding in ["", " encoding=\"UTF-8\"", " encoding=\"windows-1250\"", " encoding=", " encoding=\"ISO-8859-1"] {
        let refusal = read(&of(encoding), Format::Pnml, &[]).unwrap_err();
        assert!(refusal.class == Class::Invalid && refusal.why.contains("save it as UTF-8"), "{refusal}");
    }
}

/// What the schema lets through and the program refuses costs its user a round.
#[test]
fn the_schema_has_a_version_and_demands_an_input_of_infinitely_many_servers() {
    let schema: serde_json::Value = serde_json::from_str(json::SCHEMA).unwrap();
    assert_eq!(schema["$id"], "urn:trapkey:net:1");
    assert!(schema["description"].as_str().is_some_and(|text| text.starts_with("Version 1,")));
    let timed = &schema["$defs"]["transition"]["oneOf"][0];
    assert_eq!(timed["properties"]["kind"]["const"], "timed");
    assert_eq!(timed["if"]["properties"]["servers"]["const"], "inf");
    assert_eq!(timed["then"]["required"][0], "in");
    assert_eq!(timed["then"]["properties"]["in"]["minProperties"], 1);
}

/// Each of these is refused by the reader, and the schema says why.
#[test]
fn the_schema_says_what_the_reader_refuses() {
    let schema: serde_json::Value = serde_json::from_str(json::SCHEMA).unwrap();
    let transition = |at: usize| &schema["$defs"]["transition"]["oneOf"][at]["properties"];
    assert_eq!(transition(1)["priority"]["maximum"], u32::MAX);
    assert_eq!(transition(3)["erlang"]["properties"]["k"]["maximum"], 10_000);
    assert_eq!(
        (&transition(3)["hyper"]["maxItems"], &transition(3)["coxian"]["maxItems"]),
        (&10_000.into(), &10_000.into())
    );
    assert!(transition(3)["hyper"]["description"].as_str().is_some_and(|text| text.contains("add up to 1")));
    let sensitivity = schema["$defs"]["question"]["oneOf"].as_array().unwrap().last().unwrap();
    let of = sensitivity["properties"]["of"]["allOf"].as_array().unwrap();
    assert_eq!(of[1]["not"]["required"][0], "id");
    assert_eq!(of[2]["not"]["properties"]["kind"]["const"], "sensitivity");
    assert_eq!(schema["properties"]["ask"]["items"]["allOf"][1]["required"][0], "id");

    let refused = |own: &serde_json::Value, ask: &serde_json::Value| {
        let mut one = serde_json::json!({"name": "t", "in": {"a": 1}});
        one.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        let other = serde_json::json!({"name": "u", "kind": "timed", "rate": 1, "in": {"a": 1}});
        let net = serde_json::json!({"places": [{"name": "a"}], "transitions": [one, other]});
        json::read(serde_json::json!({"net": net, "ask": [ask]}).to_string().as_bytes()).err()
    };
    let plain = serde_json::json!({"kind": "immediate"});
    let mean = serde_json::json!({"kind": "mean_tokens", "place": "a"});
    let slope =
        |id: &str, of: &serde_json::Value| serde_json::json!({"id": id, "kind": "sensitivity", "wrt": "u", "of": of});
    assert_eq!(refused(&plain, &slope("s", &mean)), None);
    let mut named = mean.clone();
    named["id"] = serde_json::json!("m");
    assert_eq!(refused(&plain, &named), None);
    let mut inner = slope("s", &mean);
    inner.as_object_mut().unwrap().remove("id");
    let coxian: Vec<_> = std::iter::repeat_n([1, 1], 10_000).chain([[1, 0]]).collect();
    for own in [
        serde_json::json!({"kind": "phase", "erlang": {"k": 4_294_967_296_u64, "rate": 1}}),
        serde_json::json!({"kind": "phase", "erlang": {"k": 10_001, "rate": 1}}),
        serde_json::json!({"kind": "phase", "coxian": coxian}),
    ] {
        let refusal = refused(&own, &named).unwrap();
        assert_eq!((refusal.class, refusal.name.as_str()), (Class::TooLarge, "t"), "{refusal}");
    }
    for (own, ask) in [
        (serde_json::json!({"kind": "immediate", "priority": 4_294_967_296_u64}), &named),
        (serde_json::json!({"kind": "phase", "hyper": [[0.5, 1], [0.4, 2]]}), &named),
        (plain.clone(), &mean),
        (plain.clone(), &slope("s", &named)),
        (plain.clone(), &slope("s", &inner)),
    ] {
        assert_eq!(refused(&own, ask).map(|refusal| refusal.class), Some(Class::Invalid), "{own} {ask}");
    }
}

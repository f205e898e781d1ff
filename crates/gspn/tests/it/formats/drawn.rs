//! Drawings: DOT and SVG.

use gspn::Class;
use gspn::formats::{Format, write};

use super::{PIPE, PNPRO, foreign, net};

#[test]
fn drawings_hold_every_node_and_arc() {
    let net = foreign(PNPRO).unwrap();
    let svg = write(&net, Format::Svg).unwrap();
    let drawn = roxmltree::Document::parse(&svg).unwrap();
    let count = |class: &str| drawn.descendants().filter(|node| node.attribute("class") == Some(class)).count();
    assert_eq!((count("p"), count("a"), count("s")), (2, 7, 1));
    for name in ["idle", "busy", "start", "end", "now", "clock"] {
        assert!(drawn.descendants().any(|node| node.text() == Some(name)), "{name}");
    }
    // White around each text is a text of its own before it, for all that show pictures.
    let texts: Vec<_> = drawn.descendants().filter(|node| node.has_tag_name("text")).collect();
    let white = |node: &roxmltree::Node| node.attribute("class").is_some_and(|class| class.ends_with('h'));
    assert!(!svg.contains("paint-order") && texts.iter().filter(|node| white(node)).count() >= 6);
    for pair in texts.windows(2).filter(|pair| white(&pair[0])) {
        assert!(
            !white(&pair[1]) && pair[0].text() == pair[1].text() && pair[0].attribute("x") == pair[1].attribute("x")
        );
    }
    let dot = write(&net, Format::Dot).unwrap();
    assert_eq!((dot.matches("->").count(), dot.matches("odot").count()), (8, 1));
    let jani: serde_json::Value = serde_json::from_str(&write(&foreign(PIPE).unwrap(), Format::Jani).unwrap()).unwrap();
    assert_eq!((&jani["type"], jani["variables"].as_array().unwrap().len()), (&"ma".into(), 2));
    assert_eq!(jani["automata"][0]["edges"].as_array().unwrap().len(), 2);
}

/// Graphviz reads `&lt;` in a label as `<`, and ends a text at a character of the number 0.
#[test]
fn names_are_drawn_by_graphviz_as_they_are() {
    let with = |place: &str, transition: &str, name: &str| {
        let text = serde_json::json!({"name": name, "net": {"places": [{"name": place, "tokens": 1}], "transitions": [
            {"name": transition, "kind": "timed", "rate_by_tokens": {"place": place, "rates": [0, 1]}, "in": {place: 1}}]}});
        write(&net(&text.to_string()), Format::Dot)
    };
    let dot = with("a &lt; \"b\" \\N", "R&D", "A&B").unwrap();
    for part in
        [r#"digraph "A&B" {"#, r#"xlabel="a &amp;lt; \"b\" \\N""#, r#"xlabel="R&amp;D\nby a &amp;lt; \"b\" \\N""#]
    {
        assert!(dot.contains(part), "{part}: {dot}");
    }
    let bad = "nul\0x";
    for refused in [with(bad, "t", "n"), with("p", bad, "n"), with("p", "t", bad)] {
        let refusal = refused.unwrap_err();
        assert_eq!((refusal.class, refusal.name.as_str()), (Class::Unsupported, bad));
        assert!(refusal.to_string().contains("U+0000"), "{refusal}");
    }
    assert!(with("two words ", "tab\there", "é→").is_ok());
}

/// An arc that goes back and one that stops, between the same two: whichever of the place's number.
#[test]
fn arcs_between_the_same_two_are_apart() {
    for first in [r#"{"name": "x"}, "#, ""] {
        let net = net(&format!(
            r#"{{"net": {{"places": [{first}{{"name": "p", "tokens": 1}}], "transitions": [
            {{"name": "t", "kind": "timed", "rate": 1, "in": {{"p": 1}}, "out": {{"p": 1}}, "inhibit": {{"p": 2}}}},
            {{"name": "u", "kind": "timed", "rate": 1, "out": {{"p": 1}}, "inhibit": {{"p": 3}}}}]}}}}"#
        ));
        let svg = write(&net, Format::Svg).unwrap();
        let drawn = roxmltree::Document::parse(&svg).unwrap();
        // A curve and the same one turned round have the same point in the middle.
        let middle = |node: roxmltree::Node| -> Option<[i64; 2]> {
            node.attribute("class").filter(|class| matches!(*class, "a" | "s"))?;
            let numbers = node.attribute("d")?.replace(['M', 'Q'], " ");
            let numbers: Vec<f64> = numbers.split_whitespace().map(|number| number.parse().unwrap()).collect();
            let half = |at: usize| ((numbers[at] + 2.0 * numbers[at + 2] + numbers[at + 4]) / 4.0).round() as i64;
            Some([half(0), half(1)])
        };
        let middles: Vec<_> = drawn.descendants().filter_map(middle).collect();
        assert_eq!(middles.len(), 5);
        for (index, one) in middles.iter().enumerate() {
            for other in &middles[..index] {
                assert!(one.iter().zip(other).any(|(one, other)| one.abs_diff(*other) >= 4), "{svg}");
            }
        }
    }
}

/// Readers of XML take blanks at an end away, and those that draw keep them where they are told to.
#[test]
fn names_with_blanks_at_an_end_are_drawn_by_svg_as_they_are() {
    let net = net(
        r#"{"name": " a net ", "net": {"places": [{"name": " lead", "tokens": 1}, {"name": "<&\ttail \n"}], "transitions": [
        {"name": "two  blanks", "kind": "timed", "rate": 1, "in": {" lead": 1}}]}}"#,
    );
    let svg = write(&net, Format::Svg).unwrap();
    let drawn = roxmltree::Document::parse(&svg).unwrap();
    let space = ("http://www.w3.org/XML/1998/namespace", "space");
    assert_eq!(drawn.root_element().attribute(space), Some("preserve"));
    for name in [" a net ", " lead", "<&\ttail \n", "two  blanks"] {
        assert!(drawn.descendants().any(|node| node.is_text() && node.text() == Some(name)), "{name:?}: {svg}");
    }
    for format in [Format::Pnml, Format::Pipe, Format::Pnpro] {
        assert!(write(&net, format).is_err(), "{format:?}");
    }
}

#[test]
fn long_names_are_cut_in_drawings_and_whole_in_their_titles() {
    let (long, short) = ("a place that has <words> in its name", "a name of 24 characters.");
    let net = net(&format!(
        r#"{{"net": {{"places": [{{"name": "{long}"}}, {{"name": "{short}"}}], "transitions": [{{"name": "t", "kind": "timed",
        "rate_by_tokens": {{"place": "{long}", "rates": [0, 1]}}, "in": {{"{long}": 1}}}}]}}}}"#
    ));
    let svg = write(&net, Format::Svg).unwrap();
    let drawn = roxmltree::Document::parse(&svg).unwrap();
    let texts: Vec<String> = drawn
        .descendants()
        .filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "text")))
        .map(|node| node.children().filter(|child| child.is_text()).filter_map(|child| child.text()).collect())
        .collect();
    for text in ["a place that has <words…", short, "by a place that has <wo…"] {
        assert!(texts.iter().any(|it| it == text), "{text}: {texts:?}");
    }
    let titles: Vec<_> = drawn.descendants().filter(|node| node.tag_name().name() == "title").collect();
    let titles: Vec<_> = titles.iter().filter_map(|title| title.text()).collect();
    assert_eq!(titles, [long, &format!("by {long}")]);
}

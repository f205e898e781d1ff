//! What belongs to nothing in PNML, and what two arcs may not share.

use gspn::formats::{Format, read};
use gspn::{Class, json};

use super::{EDSPN, ISO, PIPE, foreign};

fn refused(file: &str, good: &str, bad: &str) -> (Class, String, String) {
    assert!(file.contains(good), "{good}");
    let rates = json::read_rates(if file == ISO { br#"{"T": 2, "U": 1}"# } else { b"{}" }).unwrap();
    let text = file.replacen(good, bad, 1);
    let format = Format::of(text.as_bytes()).unwrap();
    let refusal = read(text.as_bytes(), format, &rates).expect_err(bad);
    (refusal.class, refusal.name.clone(), refusal.why)
}

#[test]
fn elements_of_other_namespaces_are_refused() {
    let space = "xmlns:x=\"urn:y\"";
    for (good, bad, name, words) in [
        (
            "<initialMarking><text>1</text></initialMarking>",
            "<x:initialMarking S><text>1</text></x:initialMarking>",
            "a",
            "`initialMarking` of the namespace `urn:y`",
        ),
        (r#"<place id="b">"#, r#"<place id="b"><x:capacity S>3</x:capacity>"#, "b", "`capacity` of"),
        (r#"<transition id="u">"#, r#"<transition id="u"><x:rate S/>"#, "u", "`rate` of"),
        (r#"source="u" target="a"/>"#, r#"source="u" target="a"><x:type S value="reset"/></arc>"#, "4", "`type` of"),
        (r#"<page id="inner">"#, r#"<x:place S id="c"/><page id="inner">"#, "c", "`place` of"),
        (r#"<page id="inner">"#, r#"<page id="inner"><x:name S/>"#, "inner", "`name` of"),
        (r#"<name><text>Ring"#, r#"<x:name S/><name><text>Ring"#, "ring", "`name` of the namespace `urn:y`"),
        (r#"<name><text>Ring"#, r#"<labels xmlns=""/><name><text>Ring"#, "ring", "`labels` of no namespace"),
    ] {
        let (class, named, why) = refused(ISO, good, &bad.replace('S', space));
        assert!(class == Class::Unsupported && named == name, "{named}: {why}");
        assert!(why.contains(words) && why.starts_with("line "), "{why}");
    }
    let (_, name, why) = refused(PIPE, "<place id=\"P1\">", "<place id=\"P1\"><capacity xmlns=\"urn:y\"/>");
    assert!(name == "P1" && why.contains("`urn:y`"), "{why}");
    // What a tool says for itself may stand in its own.
    let tool = "<place id=\"P1\"><x:toolspecific xmlns:x=\"urn:y\" tool=\"x\" version=\"1\"/>";
    assert_eq!(foreign(&PIPE.replace("<place id=\"P1\">", tool)), foreign(PIPE));
}

#[test]
fn attributes_of_other_namespaces_are_refused() {
    let space = "xmlns:x=\"urn:y\" x:cap=\"3\"";
    for (good, name) in [("<place id=\"P1\"", "P1"), ("<transition id=\"T0\"", "T0"), ("<arc id=\"stop\"", "stop")] {
        let (class, named, why) = refused(PIPE, good, &format!("{good} {space}"));
        assert!(class == Class::Unsupported && named == name, "{named}: {why}");
        assert!(why.contains("its attribute `cap` (`3`) of the namespace `urn:y`"), "{why}");
        let silent = "xml:lang=\"en\" xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:nil=\"false\"";
        assert_eq!(foreign(&PIPE.replace(good, &format!("{good} {silent}"))), foreign(PIPE), "{good}");
    }
}

#[test]
fn text_that_belongs_to_nothing_is_refused_with_its_line() {
    for (file, good, bad, name, line) in [
        (PIPE, "<place id=\"P1\">", "<place id=\"P1\">hello", "P1", 7),
        (PIPE, "<place id=\"P1\">", "<place id=\"P1\">\n\n  3 <!-- -->", "P1", 9),
        (PIPE, "<rate><value>2.5", "&#50;<rate><value>2.5", "T0", 8),
        (PIPE, "<arcpath", "<![CDATA[x]]><arcpath", "P0 to T0", 13),
        (ISO, "<page id=\"inner\">", "<page id=\"inner\">.", "inner", 6),
        (PIPE, "</net>", "5 tokens more</net>", "Net-One", 17),
        (ISO, "</pnml>", "more</pnml>", "pnml", 11),
    ] {
        let (class, named, why) = refused(file, good, bad);
        assert!(class == Class::Invalid && named == name, "{named}: {why}");
        assert!(why.starts_with(&format!("line {line}: the text `")) && why.contains("belongs to nothing"), "{why}");
    }
}

#[test]
fn text_without_a_value_around_it_is_refused_with_what_to_write() {
    for (good, bad, name, words) in [
        (
            "<initialMarking><value>0</value>",
            "<initialMarking>7",
            "P1",
            "write `<initialMarking><value>7</value></initialMarking>`",
        ),
        ("<capacity><value>0</value>", "<capacity>0", "P0", "`0` of its `capacity`"),
        (
            "<rate><value>2.5</value>",
            "<rate>2.5",
            "T0",
            "the text `2.5` of its `rate` has no `value` or `text` around it",
        ),
        ("<timed><value>true</value>", "<timed>true", "T0", "`true` of its `timed`"),
        ("<infiniteServer><value>true</value>", "<infiniteServer>true", "T0", "`infiniteServer`"),
        ("<priority><text>4</text>", "<priority>4", "T1", "`priority`"),
        (
            "<inscription><value>1</value></inscription></arc>",
            "<inscription>2</inscription></arc>",
            "P1 to T1",
            "`inscription`",
        ),
        ("<type value=\"inhibition\"/>", "<type>inhibition</type>", "stop", "`type`"),
        ("<rate><value>2.5</value>", "<rate>3<value>2.5</value>", "T0", "take one of both out"),
    ] {
        let (class, named, why) = refused(PIPE, good, bad);
        assert!(class == Class::Invalid && named == name, "{named}: {why}");
        assert!(why.contains(words) && why.starts_with("line "), "{why}");
    }
}

/// Each of these would be read as something else than what it says, or in part.
#[test]
fn what_stands_in_a_label_beside_its_value_is_refused() {
    let tool = |said: &str| format!("<toolspecific tool=\"x\" version=\"1\">{said}</toolspecific>");
    let (capacity, inhibitor) = (tool("<capacity>1</capacity>"), tool("<inhibitor/>"));
    for (good, bad, name, words) in [
        ("<rate><value>2.5", "<rate><value>2<x/>5", "T0", "line 8: the element `x` in its `rate` is not understood"),
        (
            "<value>Default,2</value><g",
            "<value>Default,2<text>0</text></value><g",
            "P0",
            "`text` in its `initialMarking`",
        ),
        ("<value>work</value>", "<value>wo<x/>rk</value>", "P1", "`x` in its `name`"),
        ("<tagged><value>false", "<tagged><value>false<x/>", "P0 to T0", "`x` in its `tagged`"),
        ("<rate><value>2.5</value>", "<rate><value>2.5</value><server>3</server>", "T0", "`server` in its `rate`"),
        (
            "<initialMarking><value>0</value>",
            &format!("<initialMarking><value>0</value>{capacity}"),
            "P1",
            "(`capacity`)",
        ),
        (
            "<inscription><value>1</value>",
            &format!("<inscription><value>1</value>{inhibitor}"),
            "P1 to T1",
            "(`inhibitor`)",
        ),
        (
            "<inscription><value>1</value></inscription></arc>",
            "<inscription value=\"3\"/></arc>",
            "P1 to T1",
            "the attribute `value` (`3`) of its `inscription` is not understood: write `<inscription><value>3</value></inscription>`",
        ),
        (
            "<initialMarking><value>0</value>",
            "<initialMarking value=\"3\">",
            "P1",
            "attribute `value` (`3`) of its `initialMarking`",
        ),
        ("<rate><value>2.5", "<rate unit=\"h\"><value>2.5", "T0", "attribute `unit` (`h`) of its `rate`"),
        (
            "<rate><value>2.5",
            "<rate xmlns:x=\"urn:y\" x:unit=\"h\"><value>2.5",
            "T0",
            "attribute `unit` (`h`) of the namespace",
        ),
        (
            "<rate><value>2.5</value>",
            "<rate><x:value xmlns:x=\"urn:y\">2.5</x:value>",
            "T0",
            "`value` of the namespace",
        ),
    ] {
        let (class, named, why) = refused(PIPE, good, bad);
        assert!(class == Class::Unsupported && named == name, "{named}: {why}");
        assert!(why.contains(words) && why.starts_with("line "), "{why}");
    }
    let (_, name, why) = refused(ISO, "<text>Ring</text>", "<text>Ri<x/>ng</text>");
    assert!(name == "ring" && why.contains("`x` in its `name`"), "{why}");
    // A marking with its tokens as they are drawn, as in the examples of the standard.
    let drawn = tool("<tokengraphics><tokenposition x=\"6\" y=\"9\"/></tokengraphics>");
    let text = PIPE.replace("<value>Default,2</value><g", &format!("<value>Default,2</value>{drawn}<g"));
    assert_eq!(foreign(&text), foreign(PIPE));
    let (class, name, why) =
        refused(PIPE, "<type value=\"inhibition\"/>", "<type value=\"normal\"><value>inhibitor</value></type>");
    assert!(class == Class::Invalid && name == "stop" && why == "`type` has two values", "{why}");
}

/// `red,0` is no tokens of another colour; a colour has a name, and only PIPE has colours.
#[test]
fn a_number_with_commas_is_no_colour() {
    let marking = "<value>Default,2</value><g";
    for (text, instead) in [
        ("<value>10,000</value>", ", without a comma: write `10000`"),
        ("<value>1,000,000</value>", ", without a comma: write `1000000`"),
        ("<text>10,000</text>", ", without a comma: write `10000`"),
        ("<value>5,0</value>", ", without a comma"),
        ("<text>red,0</text>", "coloured tokens"),
        ("<text>Default,2</text>", "wanted"),
        ("<value>Default,3,5,0</value>", "coloured tokens"),
        ("<value>,0</value>", "coloured tokens"),
    ] {
        let refusal = foreign(&PIPE.replace(marking, &format!("{text}<g"))).unwrap_err();
        let class = if instead.starts_with("colour") { Class::Unsupported } else { Class::Invalid };
        assert_eq!((refusal.class, refusal.name.as_str()), (class, "wait"), "{refusal}");
        assert!(refusal.why.ends_with(instead), "{refusal}");
    }
    for text in ["10,000", "2,0"] {
        let (class, name, why) = refused(ISO, "<inscription><text>1", &format!("<inscription><text>{text}"));
        assert!(class == Class::Invalid && name == "3" && why.contains("without a comma"), "{why}");
    }
}

#[test]
fn what_is_tagged_is_told_that_its_value_is_not_understood() {
    for (good, bad, name) in [
        ("<place id=\"P1\">", "<place id=\"P1\"><tagged><value>true</value></tagged>", "P1"),
        ("<place id=\"P1\">", "<place id=\"P1\"><tagged>true</tagged>", "P1"),
        ("<tagged><value>false", "<tagged><value>true", "P0 to T0"),
    ] {
        let (class, named, why) = refused(PIPE, good, bad);
        assert!(class == Class::Unsupported && named == name, "{named}: {why}");
        assert!(why.contains("`tagged` is `true`") && why.contains("write `false`"), "{why}");
    }
    let bare = PIPE.replace("<tagged><value>false</value></tagged>", "<tagged>false</tagged>");
    assert_eq!(foreign(&bare), foreign(PIPE));
}

/// Arcs that are parallel add up, so that a copy would change the net in silence.
#[test]
fn two_arcs_have_two_ids() {
    for (file, good, bad, name) in [
        (PIPE, r#"<arc id="stop""#, r#"<arc id="P1 to T1""#, "P1 to T1"),
        (ISO, r#"<arc id="4""#, r#"<arc id="1""#, "1"),
        (EDSPN, r#"id="0.8""#, r#"id="0.7""#, "0.7"),
        (EDSPN, r#"id="0.9""#, r#"id="0.8""#, "0.8"),
    ] {
        let (class, named, why) = refused(file, good, bad);
        assert!(class == Class::Invalid && named == name && why.contains("two arcs have this id"), "{why}");
    }
    let arc = "<arc id=\"P1 to T1\" source=\"P1\" target=\"T1\"><inscription><value>1</value></inscription></arc>";
    let two = foreign(&PIPE.replace(arc, &arc.replace("<value>1", "<value>2"))).unwrap();
    assert!(PIPE.contains(arc));
    for second in [arc.replace("id=\"P1 to T1\"", "id=\"more\""), arc.replace("id=\"P1 to T1\" ", "")] {
        assert_eq!(foreign(&PIPE.replace(arc, &format!("{arc}{second}"))).as_ref(), Ok(&two), "{second}");
    }
    let nameless = arc.replace("id=\"P1 to T1\" ", "").repeat(2);
    assert_eq!(foreign(&PIPE.replace(arc, &nameless)), Ok(two));
}

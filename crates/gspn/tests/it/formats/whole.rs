//! Files that are no XML, or have in them what no net has.

use gspn::Class;
use gspn::formats::{Format, read};

use super::{PIPE, foreign};

fn why(text: &str) -> String {
    // Without a format it is the reader of JSON that says what a file looks like.
    let format = Format::of(text.as_bytes()).unwrap_or(Format::Json);
    let refusal = read(text.as_bytes(), format, &[]).unwrap_err();
    assert_eq!((refusal.class, refusal.name.as_str()), (Class::Invalid, "document"), "{refusal}");
    refusal.why
}

#[test]
fn a_document_type_is_to_be_taken_out() {
    let net = "<pnml><net id=\"n\"/></pnml>";
    for declaration in [
        "<!DOCTYPE pnml>",
        "<!DOCTYPE pnml SYSTEM \"pnml.dtd\">",
        "<!-- a --><!DOCTYPE pnml [<!ENTITY a \"]>\"> <!-- don't -->\n<!ENTITY b \"&a;&a;\">]>\n",
        "<!DOCTYPE pnml [<!ENTITY a ",
    ] {
        for text in [format!("{declaration}{net}"), format!("<?xml version=\"1.0\"?>\n{declaration}\n{net}")] {
            let why = why(&text);
            assert!(why.contains("document type") && why.contains("take the `<!DOCTYPE ..>` out"), "{text}: {why}");
        }
    }
}

#[test]
fn a_file_that_ends_early_is_asked_whether_it_is_whole() {
    let begins = PIPE.find("<pnml>").unwrap() + "<pnml".len();
    for end in begins..PIPE.len() {
        let part = &PIPE[..end];
        let why = why(part);
        let line = format!("ends in line {} ", part.trim_end().lines().count());
        assert!(why.contains("is the file whole?") && why.contains(&line), "{part}: {why}");
    }
}

#[test]
fn a_reference_to_no_character_is_refused_with_its_line() {
    for reference in ["&#0;", "&#x1F;", "&#x110000;", "&#xD800;", "&#xFFFE;", "&#1114112;"] {
        for (from, to, line) in [
            ("<value>wait</value>", format!("<value>wa{reference}it</value>"), 4),
            ("id=\"P1\"", format!("id=\"P1{reference}\""), 7),
        ] {
            assert!(PIPE.contains(from), "{from}");
            let why = why(&PIPE.replace(from, &to));
            assert!(why.contains(&format!("`{reference}` in line {line} is no character of XML")), "{why}");
        }
    }
    let commented = PIPE.replace("<value>wait</value>", "<value><!-- &#xD800; -->wa<![CDATA[i]]>t</value>");
    assert_eq!(foreign(&commented), foreign(PIPE));
    assert!(foreign(&PIPE.replace("<value>wait</value>", "<value>w&#x61;&#xFFFD;it</value>")).is_ok());
}

#[test]
fn a_declaration_that_is_none_is_refused() {
    let net = "<pnml><net id=\"n\"/></pnml>";
    for bad in ["versionndalone=\"no\"", "encoding=\"UTF-8\"", "version", "version=1.0", ""] {
        let text = format!("<?xml {bad}?>{net}");
        let why = why(&text);
        assert!(why.contains("no declaration of XML"), "{text}: {why}");
    }
    for good in ["version=\"1.0\"", "version = '1.0' encoding=\"UTF-8\"", "\n version=\"1.1\" standalone=\"no\""] {
        assert!(foreign(&format!("<?xml {good}?>{net}")).is_ok(), "{good}");
    }
}

/// Rates beside a net of PNML that lacks what stands around it: that is what is wrong.
#[test]
fn a_net_of_pnml_without_its_root_is_told_so_also_with_rates() {
    let text = br#"<net id="n" type="http://www.pnml.org/version-2009/grammar/ptnet"><place id="p"/></net>"#;
    let rates = gspn::json::read_rates(br#"{"t": 1}"#).unwrap();
    let refusal = read(text, Format::of(text).unwrap(), &rates).unwrap_err();
    assert!(refusal.why.contains("stands in a `pnml`"), "{refusal}");
    let timenet = br#"<net id="0" netclass="eDSPN"><place id="p" initialMarking="1"/></net>"#;
    let refusal = read(timenet, Format::of(timenet).unwrap(), &rates).unwrap_err();
    assert!(refusal.name == "t" && refusal.why.contains("has its own"), "{refusal}");
}

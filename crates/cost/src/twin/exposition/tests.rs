//! What is read of a text, and each way in which one is none.

use super::*;

const GOOD: &str = "# HELP a_seconds What\n# TYPE a_seconds histogram\n# UNIT a_seconds seconds\n\
    a_seconds_bucket{le=\"0.1\",listener=\"m \\\"1\\\"\\n\\\\\"} 2\na_seconds_bucket{listener=\"m \\\"1\\\"\\n\\\\\",le=\"+Inf\"} 3 # {id=\"1\"} 0.3 1.5\n\
    a_seconds_sum{listener=\"m \\\"1\\\"\\n\\\\\"} 0.25\na_seconds_count{listener=\"m \\\"1\\\"\\n\\\\\"} 3 1700000000.5\n\
    # TYPE b counter\nb_total 1e3\n# TYPE c gauge\nc -Inf\nd{} NaN\n# TYPE e info\ne_info{v=\"1\"} 1\n# EOF\n";

#[test]
fn what_stands_there_is_read() {
    let read = read(GOOD).unwrap();
    let histograms = read.family("a_seconds").unwrap().histograms().unwrap();
    let (labels, histogram) = histograms.first_key_value().unwrap();
    assert_eq!(labels["listener"], "m \"1\"\n\\");
    assert_eq!(histogram.buckets, [(0.1, 2.0), (f64::INFINITY, 3.0)]);
    assert_eq!((histogram.count, histogram.sum), (Some(3.0), Some(0.25)));
    assert_eq!(read.family("b").unwrap().samples[0].value, 1_000.0);
    assert_eq!(read.family("c").unwrap().samples[0].value, f64::NEG_INFINITY);
    assert_eq!(read.family("d").unwrap().kind, Kind::Unknown);
    assert_eq!(read.families().count(), 5);
}

#[test]
fn each_deviation_is_refused_by_its_line() {
    let wrong = [
        ("the end is not marked", "# TYPE a gauge\na 1\n", Class::Syntax),
        ("something after the end", "# EOF\na 1\n", Class::Syntax),
        ("the last line is cut", "a 1# EOF\n", Class::Syntax),
        ("a comment", "# a comment\n# EOF\n", Class::Syntax),
        ("no such type", "# TYPE a timer\n# EOF\n", Class::Invalid),
        ("the unit is not in the name", "# UNIT a seconds\n# EOF\n", Class::Invalid),
        ("metadata twice", "# TYPE a gauge\n# TYPE a gauge\n# EOF\n", Class::Doubled),
        ("metadata behind samples", "# TYPE a gauge\na 1\n# HELP a b\n# EOF\n", Class::Syntax),
        ("families in pieces", "# TYPE a gauge\na 1\n# TYPE b gauge\n# TYPE a gauge\n# EOF\n", Class::Doubled),
        ("a suffix that the type lacks", "# TYPE a counter\na 1\n# EOF\n", Class::Doubled),
        ("twice", "# TYPE a gauge\na{b=\"1\",c=\"2\"} 1\na{c=\"2\",b=\"1\"} 1\n# EOF\n", Class::Doubled),
        ("a label twice", "a{b=\"1\",b=\"2\"} 1\n# EOF\n", Class::Doubled),
        ("a counter below 0", "# TYPE a counter\na_total -1\n# EOF\n", Class::Invalid),
        ("a counter that is no number", "# TYPE a counter\na_total NaN\n# EOF\n", Class::Invalid),
        ("a sum that is no number", "# TYPE a histogram\na_bucket{le=\"+Inf\"} 1\na_sum NaN\n# EOF\n", Class::Invalid),
        ("a sum below 0", "# TYPE a histogram\na_bucket{le=\"+Inf\"} 1\na_sum -1\n# EOF\n", Class::Invalid),
        ("no value", "a\n# EOF\n", Class::Syntax),
        ("no number", "a b\n# EOF\n", Class::Syntax),
        ("a word that Rust reads", "a infinity\n# EOF\n", Class::Syntax),
        ("more behind the time", "a 1 2 3\n# EOF\n", Class::Syntax),
        ("a quote that stays open", "a{b=\"1} 1\n# EOF\n", Class::Syntax),
        ("an escape that is none", "a{b=\"\\t\"} 1\n# EOF\n", Class::Syntax),
        ("a name that is none", "1a 1\n# EOF\n", Class::Syntax),
        ("an empty line", "\n# EOF\n", Class::Syntax),
        ("a histogram without the last bucket", "# TYPE a histogram\na_bucket{le=\"1\"} 1\n# EOF\n", Class::Invalid),
        ("a bucket without a bound", "# TYPE a histogram\na_bucket{b=\"1\"} 1\n# EOF\n", Class::Invalid),
        (
            "buckets that shrink",
            "# TYPE a histogram\na_bucket{le=\"1\"} 2\na_bucket{le=\"+Inf\"} 1\n# EOF\n",
            Class::Invalid,
        ),
        ("a count that disagrees", "# TYPE a histogram\na_bucket{le=\"+Inf\"} 1\na_count 2\n# EOF\n", Class::Invalid),
    ];
    for (rule, text, class) in wrong {
        assert_eq!(read(text).map_err(|fault| fault.class), Err(class), "{rule}");
    }
    assert_eq!(read("a 1\nb x\n# EOF\n").unwrap_err().line, Some(2));
}

#[test]
fn there_is_a_bound_for_everything() {
    let many = "a 1\n".repeat(MAX_BYTES / 4 + 1) + "# EOF\n";
    assert_eq!(read(&many).unwrap_err().class, Class::TooLarge);
    let long = format!("a{{b=\"{}\"}} 1\n# EOF\n", "x".repeat(MAX_LINE));
    assert_eq!(read(&long).unwrap_err().class, Class::TooLarge);
    let labels: Vec<String> = (0..=MAX_LABELS).map(|number| format!("l{number}=\"\"")).collect();
    assert_eq!(read(&format!("a{{{}}} 1\n# EOF\n", labels.join(","))).unwrap_err().class, Class::TooLarge);
    let mut samples = String::from("# TYPE a gauge\n");
    (0..=MAX_SAMPLES).for_each(|number| samples.push_str(&format!("a{{n=\"{number}\"}} 1\n")));
    assert_eq!(read(&(samples + "# EOF\n")).unwrap_err().class, Class::TooLarge);
}

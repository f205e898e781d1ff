//! The figures of a program that is watched, as OpenMetrics: what is taken keeps what the format promises, and a twin that looks at it
//! keeps to numbers.

use cost::twin::exposition::{Exposition, Kind, read};
use cost::twin::reading::Reading;
use cost::twin::{Estimate, Event, Settings, Twin};

/// Up to each zero byte stands one text; a twin looks at them one after the other, ten seconds apart.
pub fn figures(data: &[u8]) {
    let mut twin = Twin::new(Settings { learn: 20.0, ..Settings::default() }, None);
    let mut at = 0.0;
    for text in data.split(|byte| *byte == 0).take(16) {
        let Ok(text) = std::str::from_utf8(text) else { continue };
        at += 10.0;
        let events = match read(text) {
            Ok(exposition) => {
                holds(&exposition);
                match Reading::of(&exposition, at) {
                    Ok(reading) => twin.look(reading),
                    Err(fault) => {
                        assert!(!fault.why.is_empty());
                        twin.gone(at, &fault.why).into_iter().collect()
                    }
                }
            }
            Err(fault) => {
                assert!(!fault.why.is_empty());
                twin.gone(at, &fault.why).into_iter().collect()
            }
        };
        for event in &events {
            match event {
                Event::Learned { took, .. } => is_number(took),
                Event::Alarm { before, now, factor, .. } => {
                    [before, now].into_iter().for_each(is_number);
                    assert!(factor.is_finite() && *factor > 0.0, "{event:?}");
                }
                _ => {}
            }
        }
        for seen in twin.report(at).stages {
            [seen.reference, seen.now].iter().flatten().for_each(is_number);
            assert!(seen.band.is_none_or(|(low, high)| low < high && high.is_finite()), "{seen:?}");
        }
    }
}

fn is_number(estimate: &Estimate) {
    let known = estimate.mean.is_finite() && estimate.mean >= 0.0 && estimate.variation.is_finite();
    assert!(known && estimate.uses.is_finite() && estimate.batches.is_finite(), "{estimate:?}");
    assert!(estimate.interval.is_none_or(|(low, high)| low <= high), "{estimate:?}");
}

/// Counts are no less than nothing, and the buckets of a histogram rise to its count.
fn holds(exposition: &Exposition) {
    for (name, family) in exposition.families() {
        for sample in &family.samples {
            let counts = family.kind == Kind::Counter && sample.suffix == "_total";
            assert!(!counts || sample.value >= 0.0, "{name}: {sample:?}");
        }
        if family.kind != Kind::Histogram {
            continue;
        }
        for (labels, histogram) in family.histograms().expect("the reader has seen the bounds") {
            let all = histogram.buckets.last().expect("a histogram has buckets");
            assert!(all.0.is_infinite() && histogram.buckets.is_sorted_by(|one, other| one.0 < other.0), "{labels:?}");
            assert!(histogram.count.is_none_or(|count| count == all.1), "{labels:?}");
        }
    }
}

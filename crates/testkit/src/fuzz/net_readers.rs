//! Nets in every format that is read: one that is taken can be written, read again, drawn, solved and simulated.

use gspn::formats::{Format, read, write};
use gspn::json::{self, Document};
use gspn::net::Net;
use gspn::simulate::{Plan, simulate};
use gspn::{Budget, Limits};

/// Places and transitions of a net that is solved, too.
const SMALL: usize = 12;

/// First byte: the format; the rest is the file. In the fifth kind rates stand before it, up to the first zero byte.
pub fn net_readers(data: &[u8]) {
    let Some((kind, file)) = data.split_first() else { return };
    let read = match kind % 5 {
        0 => read(file, Format::Json, &[]),
        1 => read(file, Format::Pnpro, &[]),
        2 => read(file, Format::Pnml, &[]),
        3 => read(file, Format::Edspn, &[]),
        _ => {
            let mut parts = file.splitn(2, |byte| *byte == 0);
            let (rates, file) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            json::read_rates(rates).and_then(|rates| gspn::formats::read(file, Format::Pnml, &rates))
        }
    };
    let document = match read {
        Ok(document) => document,
        Err(refusal) => {
            assert!(!refusal.why.is_empty());
            return;
        }
    };
    for format in [Format::Json, Format::Pnpro, Format::Pnml, Format::Pipe] {
        returns(&document.net, format);
    }
    for format in [Format::Jani, Format::Dot, Format::Svg] {
        let _written = write(&document.net, format);
    }
    if document.net.places().len() + document.net.transitions().len() <= SMALL {
        work(&document);
    }
}

/// What is written in a format can be read in it, and has the same nodes and arcs.
fn returns(net: &Net, format: Format) {
    let Ok(text) = write(net, format) else { return };
    let again = match gspn::formats::read(text.as_bytes(), format, &[]) {
        Ok(again) => again.net,
        Err(refusal) => panic!("{format:?} cannot be read back: {refusal}\n{text}"),
    };
    assert_eq!(again.places(), net.places(), "{format:?}");
    let arcs = |net: &Net| {
        let all = net.transitions().iter();
        let all = all.map(|it| (it.name.clone(), it.inputs.clone(), it.outputs.clone(), it.inhibitors.clone()));
        all.collect::<Vec<_>>()
    };
    assert_eq!(arcs(&again), arcs(net), "{format:?}");
}

/// Solves and simulates a net for a moment.
fn work(document: &Document) {
    let mut looks = 0;
    let mut go_on = |_| {
        looks += 1;
        looks < 40
    };
    let limits = Limits { markings: document.limit.unwrap_or(300).min(300), bytes: 16 << 20 };
    if let Ok(answer) = gspn::ask::answer(&document.net, &document.asks, &mut Budget::new(limits, &mut go_on)) {
        assert_eq!(answer.values.len() + answer.unanswered.len(), document.asks.len());
    }
    let mut go_on = |_| true;
    let plan = Plan { seed: 1, relative: 0.1, firings: 2_000 };
    if let Ok(found) = simulate(&document.net, &document.asks, plan, &mut Budget::new(limits, &mut go_on)) {
        assert_eq!(found.estimates.len() + found.unanswered.len(), document.asks.len());
    }
}

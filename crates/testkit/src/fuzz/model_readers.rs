//! Models of applications in every language that is read, and calibrations: a model that is taken can be printed and read again, and
//! woven; what is laid of it is a net that the solver reads.

use cost::calibration::Calibration;
use cost::read::{Language, read, read_priced};
use cost::{Fault, Model, print};
use gspn::{Budget, Limits};

/// Steps, settings and prices of a model that is woven and solved, too.
const SMALL: usize = 40;

/// First byte: the language; the rest is the file. In the third kind a text of prices stands before it, up to the first zero byte.
pub fn model_readers(data: &[u8]) {
    let Some((kind, file)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(file) else { return };
    let read = match kind % 5 {
        0 => read(text, Language::Toml),
        1 => read(text, Language::Mermaid),
        2 => read(text, Language::Xmi),
        3 => {
            let (prices, text) = text.split_once('\0').unwrap_or(("", text));
            read_priced(text, Language::Mermaid, prices)
        }
        _ => return calibration(text),
    };
    match read {
        Ok(model) => work(&model),
        Err(fault) => says(&fault),
    }
}

/// A fault says what is wrong, in one line of a terminal.
fn says(fault: &Fault) {
    assert!(!fault.why.is_empty(), "{fault:?}");
}

fn work(model: &Model) {
    let printed = print::annotated(model);
    let again = match read(&printed, Language::Mermaid) {
        Ok(again) => again,
        Err(fault) => panic!("cannot be read back: {fault}\n{printed}"),
    };
    assert_eq!(print::annotated(&again), printed);
    let steps: usize = model.sequences.iter().map(|sequence| sequence.steps.len()).sum();
    let ways: usize = model.annotations.iter().map(|annotation| annotation.alternatives.len()).sum();
    if steps + ways + model.nodes.len() > SMALL {
        return;
    }
    let secured = cost::weave(model);
    let _diagram = print::secured(&secured);
    let laid = match cost::net::lay(&secured) {
        Ok(laid) => laid,
        Err(fault) => return says(&fault),
    };
    let _table = print::net(&laid);
    let document = cost::net::document(&laid, &cost::solve::questions(&laid)).to_string();
    match gspn::json::read(document.as_bytes()) {
        Ok(document) => assert_eq!(document.net.places(), laid.net.places()),
        Err(refusal) => panic!("the net is refused: {refusal}\n{document}"),
    }
    let mut looks = 0;
    let mut go_on = |_| {
        looks += 1;
        looks < 40
    };
    let limits = Limits { markings: 300, bytes: 16 << 20 };
    if let Err(fault) = cost::solve::solve(&secured, &mut Budget::new(limits, &mut go_on)) {
        says(&fault);
    }
}

/// One that is taken is written as the same, and its prices are numbers.
fn calibration(text: &str) {
    let read = match Calibration::read(text) {
        Ok(read) => read,
        Err(fault) => return says(&fault),
    };
    let again = read.write().and_then(|text| Calibration::read(&text));
    assert_eq!(again, Ok(read.clone()));
    for (name, known) in read.prices() {
        let price = known.price;
        assert!(price.each.is_finite() && price.per_byte.is_finite() && !known.error.is_nan(), "{name}: {known:?}");
        assert!((0.01..=100.0).contains(&price.cv2), "{name}: {known:?}");
    }
    assert!(read.compare(&read.machine, &read.versions).is_empty());
}

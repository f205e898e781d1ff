//! Documents answered, and answers held against what is known of them.

use gspn::ask::{self, Answer, Value};
use gspn::{Budget, Limits, json};

pub(crate) fn solve(document: &serde_json::Value) -> Answer {
    let document = json::read(document.to_string().as_bytes()).unwrap();
    let mut go_on = |_| true;
    ask::answer(&document.net, &document.asks, &mut Budget::new(Limits::default(), &mut go_on)).unwrap()
}

/// To seven digits.
#[track_caller]
pub(crate) fn close(answer: &Answer, id: &str, wanted: f64) {
    let Some(Value::Number(value)) = answer.values.get(id) else { panic!("`{id}`: {:?}", answer.unanswered.get(id)) };
    assert!(
        (value - wanted).abs() <= 1e-7 * wanted.abs(),
        "`{id}` is {value:e}, and {wanted:e} is wanted: {:?}",
        answer.method.get(id)
    );
}

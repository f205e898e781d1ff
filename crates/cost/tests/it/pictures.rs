//! The pictures of the guides are what the commands that stand beside them draw. `TRAPKEY_UPDATE=1 cargo test -p cost --test it -- pictures` draws
//! them anew.

use std::path::Path;

use cost::choose::{Effort, Minimum, Wanted, choose, svg};
use cost::read::{Language, read};
use gspn::{Budget, Limits};

fn is_drawn(name: &str, picture: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures").join(name);
    if std::env::var_os("TRAPKEY_UPDATE").is_some() {
        std::fs::write(&path, picture).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap();
    assert!(
        there == picture,
        "docs/pictures/{name} is out of date: TRAPKEY_UPDATE=1 cargo test -p cost --test it -- pictures"
    );
}

#[test]
fn the_front_of_the_orders_is_drawn() {
    let model = read(include_str!("../../../../examples/cost/orders.toml"), Language::Toml).unwrap();
    let minimum = Minimum { level: Some(2), ..Minimum::default() };
    let wanted = Wanted { p99: Some(0.08), minimum, ..Wanted::default() };
    let effort = Effort { limits: Limits::default(), threads: 1, go_on: &|_| true };
    is_drawn("choose-orders.svg", &svg(&choose(&model, &wanted, &effort).unwrap()));
}

#[test]
fn the_figure_of_the_paper_is_drawn() {
    let mut go_on = |_| true;
    let all = cost::reproduce::p4(&mut Budget::new(Limits::default(), &mut go_on)).unwrap();
    is_drawn("p4-figure-7.svg", &all.figure.svg());
}

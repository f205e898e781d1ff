//! Steps in processes of their own.

use std::process::Command;
use std::time::Duration;

use bench::steps::{Bed, Entry, Plan, Program, all, measure};
use cost::calibration::Calibration;

const PLAN: Plan = Plan { rounds: 2, time: Duration::from_millis(2), within: Duration::from_secs(60), quick: true };

fn program() -> Program {
    Program { path: env!("CARGO_BIN_EXE_bench").into(), words: vec!["step".into()] }
}

#[test]
fn steps_become_a_calibration() {
    let wanted = ["hash sha-256/64", "hash sha-256/16384", "verify ed25519/32"];
    let entries: Vec<Entry> = all().into_iter().filter(|entry| wanted.contains(&entry.id().as_str())).collect();
    let mut told = Vec::new();
    let calibration = measure(&entries, PLAN, &program(), &mut |now| told.push(now.step.to_owned())).unwrap();
    assert_eq!(Calibration::read(&calibration.write().unwrap()).unwrap().steps.len(), 3);
    assert!(calibration.steps.iter().all(|step| step.moments.len() == 2), "a process for each round");
    assert!(calibration.law("hash sha-256").is_some_and(|law| law.from == 64 && law.to == 16_384));
    assert!(calibration.law("verify ed25519").is_none(), "there is only one size");
    // The second round goes the other way, so that what grows over time meets all steps alike.
    let back: Vec<String> = told[3..].iter().rev().cloned().collect();
    assert_eq!(told[..3], back[..]);
}

#[test]
fn a_step_that_fails_is_named() {
    let unknown = Entry::new("juggle", "balls", 3, |_| Err("never asked".into()));
    let error = measure(&[unknown], PLAN, &program(), &mut |_| ()).unwrap_err().to_string();
    assert!(error.contains("there is no step `juggle balls/3`"), "{error}");
    let bed = Bed::make().unwrap();
    for words in [&["step"][..], &["step", "folder", "hash sha-256/64"], &["step", "folder", "hash sha-256/64", "soon"]]
    {
        let done = Command::new(env!("CARGO_BIN_EXE_bench")).args(words).current_dir(bed.folder()).output().unwrap();
        assert!(!done.status.success() && done.stdout.is_empty(), "{words:?}");
    }
}

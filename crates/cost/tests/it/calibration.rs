//! The record of a calibration: what it says, what is refused, and what comes back.

use std::collections::BTreeMap;

use cost::Class;
use cost::calibration::{Calibration, Laid, Law, Step, fit, student, summary};
use cost::model::Price;
use proptest::prelude::*;

use crate::measured;

/// Both times are the same.
fn step(name: &str, bytes: u64, times: &[f64]) -> Step {
    measured::step(name, bytes, times, times)
}

fn calibration() -> Calibration {
    let steps = vec![
        step("sign rsa-2048", 32, &[0.9e-3, 1e-3, 1.1e-3]),
        step("encrypt aes-256-cbc", 1_000, &[2e-6, 2e-6]),
        step("encrypt aes-256-cbc", 11_000, &[12e-6, 12e-6]),
    ];
    let law = Law { residual: 0.125, ..fit(&[&steps[1], &steps[2]]).unwrap() };
    measured::calibration(steps, vec![law])
}

#[test]
fn what_is_written_is_read_back() {
    let calibration = calibration();
    assert_eq!(Calibration::read(&calibration.write().unwrap()).unwrap(), calibration);
}

#[test]
fn what_is_wrong_is_refused_with_its_place() {
    let good = calibration().write().unwrap();
    let cases = [
        ("no JSON", good.replace('{', "("), Class::Syntax, "calibration"),
        ("cut off", good[..good.len() / 2].to_owned(), Class::Syntax, "calibration"),
        ("another version", good.replace("\"schema\": 1", "\"schema\": 2"), Class::Invalid, "schema"),
        ("an unknown member", good.replace("\"taken\"", "\"when\": 1, \"taken\""), Class::Invalid, "calibration"),
        ("a member twice", good.replace("\"taken\"", "\"schema\": 1, \"taken\""), Class::Invalid, "calibration"),
        ("no finite number", good.replace("\"mean\": 0.001", "\"mean\": 1e999"), Class::Syntax, "calibration"),
        ("a mean below 0", good.replace("\"mean\": 0.001", "\"mean\": -1"), Class::Invalid, "steps[0].cpu.mean"),
        ("a mean above all", good.replace("\"mean\": 0.001", "\"mean\": 7"), Class::Invalid, "steps[0].cpu.mean"),
        ("no timing", good.replacen("\"n\": 3", "\"n\": 0", 1), Class::Invalid, "steps[0].cpu.n"),
        (
            "quantiles that fall",
            good.replacen("\"p95\": 0.0011", "\"p95\": 0.0001", 1),
            Class::Invalid,
            "steps[0].cpu.p95",
        ),
        ("another unit", good.replacen("\"unit\": \"s\"", "\"unit\": \"ms\"", 1), Class::Invalid, "calibration"),
        ("a list", "[]".to_owned(), Class::Invalid, "calibration"),
        ("no day", good.replace("2026-11-22", "yesterday"), Class::Invalid, "taken"),
        ("a day that is none", good.replace("2026-11-22", "2026-02-30"), Class::Invalid, "taken"),
        ("a clock without a zone", good.replace("2026-11-22", "2026-11-22T10:00:00"), Class::Invalid, "taken"),
        ("no core", good.replace("\"cores\": 2", "\"cores\": 0"), Class::Invalid, "machine.cores"),
        ("no name", good.replace("Some CPU", ""), Class::Missing, "machine.cpu"),
        ("escape codes", good.replace("Some CPU", "\\u001b[2J"), Class::Invalid, "machine.cpu"),
        ("a long name", good.replace("Some CPU", &"x".repeat(161)), Class::TooLarge, "machine.cpu"),
        ("a step twice", good.replace("\"bytes\": 11000", "\"bytes\": 1000"), Class::Doubled, "steps[2]"),
        ("a line beside its steps", good.replace("\"fixed\": ", "\"fixed\": 1"), Class::Invalid, "laws[0].residual"),
        ("a line through one size", good.replace("\"to\": 11000", "\"to\": 1000"), Class::Invalid, "laws[0].to"),
    ];
    for (rule, text, class, place) in cases {
        assert_ne!(text, good, "{rule}: the case changes nothing");
        let fault = Calibration::read(&text).expect_err(rule);
        assert_eq!((fault.class, fault.name.as_str()), (class, place), "{rule}: {fault}");
    }
    let large = format!("{good}{}", " ".repeat(4 << 20));
    assert_eq!(Calibration::read(&large).unwrap_err().class, Class::TooLarge);
    let mut many = calibration();
    many.steps = (0..4_097).map(|bytes| step("hash sha-256", bytes, &[1e-6])).collect();
    assert_eq!(many.write().unwrap_err().class, Class::TooLarge);
}

#[test]
fn a_step_that_contradicts_itself_is_refused_by_its_name() {
    let with = |change: &dyn Fn(&mut Step)| {
        let mut changed = calibration();
        change(&mut changed.steps[0]);
        changed.check()
    };
    let moments = |moments: &[f64]| with(&|step| step.moments = moments.to_vec());
    // The mean is 1e-3: of all timings together it lies between those of single processes, but for digits that somebody has cut off.
    for good in [&[][..], &[1e-3], &[0.9e-3, 1.2e-3], &[0.8e-3, 0.995e-3], &[1.005e-3; 3]] {
        moments(good).unwrap();
    }
    for bad in [&[1.0, 1.0][..], &[0.0], &[0.9e-3, 0.98e-3], &[1.02e-3, 2e-3]] {
        let fault = moments(bad).unwrap_err();
        assert_eq!((fault.class, fault.name.as_str()), (Class::Invalid, "steps[0].moments"), "{fault}");
        assert!(fault.why.ends_with("the mean of `sign rsa-2048` over all of them is 0.001"), "{fault}");
    }
    for (algorithm, good, bad) in [
        ("rsa-2048", Some(2_048), Some(4_096)),
        ("rsa-3072-pss", None, Some(2_048)),
        ("rsa-2048-oaep-sha256", Some(2_048), Some(256)),
        ("ecdsa-p521", Some(521), Some(512)),
        ("aes-256-cbc", Some(256), Some(128)),
        ("hmac-sha256", Some(512), None),
        ("token-rs256", Some(2_048), None),
    ] {
        let of = |bits| with(&|step| (step.algorithm, step.bits) = (algorithm.into(), bits));
        of(good).unwrap();
        let Some(bad) = bad else { continue };
        let fault = of(Some(bad)).unwrap_err();
        assert_eq!((fault.class, fault.name.as_str()), (Class::Invalid, "steps[0].bits"), "{fault}");
        assert!(fault.why.starts_with(&format!("is {bad}, and the key of `sign {algorithm}` has ")), "{fault}");
    }
}

/// What `measure` writes besides operations is accepted and is no price; a slip of an operation is refused.
#[test]
fn a_slip_in_a_calibration_is_refused_and_other_steps_are_no_prices() {
    let others = [
        "sign token-es256",
        "append audit-disk",
        "seal basic256sha256-sign-of-1",
        "read server-of-8",
        "read message-awake",
        "write message",
        "generate tag",
        "handshake tls13-full-rsa-2048-server",
        "copy",
        "encrypt rsa-2048-after-1500us",
        "stage plc token",
        "juggle balls",
    ];
    let all = others.into_iter().chain(["sign rsa-2048-pss"]).map(|name| step(name, 0, &[1e-3, 1e-3]));
    let mut calibration = measured::calibration(all.collect(), Vec::new());
    let priced = calibration.operations().unwrap();
    assert_eq!(priced.keys().collect::<Vec<_>>(), ["sign rsa-2048-pss"]);
    for (slip, meant) in [("sing rsa-2048", "`sign rsa-2048`"), ("hash sha256", "`hash sha-256`")] {
        calibration.steps[3] = step(slip, 0, &[1e-3, 1e-3]);
        let fault = calibration.operations().unwrap_err();
        assert_eq!((fault.class, fault.name.as_str()), (Class::NoSuchName, "steps[3]"), "{fault}");
        assert!(fault.why.contains(meant) && fault.why.contains(slip), "{fault}");
    }
}

/// What was measured stands in the place of prices of its name, with the energy that they had; or nothing has changed.
#[test]
fn what_was_measured_is_laid_over_prices() {
    let old = |per_byte| Price { each: 7.0, per_byte, cv2: 1.0, error: 0.5, energy: 3.0 };
    let mut prices: BTreeMap<String, Price> =
        [("sign rsa-2048", 0.0), ("encrypt aes-256-cbc", 1.0), ("hash sha-256", 1.0)]
            .into_iter()
            .map(|(name, per_byte)| (name.to_owned(), old(per_byte)))
            .collect();
    let laid = calibration().lay(&mut prices).unwrap();
    assert_eq!(laid, Laid { measured: 2, before: 3, replaced: 2, stay: vec!["hash sha-256".to_owned()] });
    let sign = prices["sign rsa-2048"];
    assert!((sign.each - 1e-3).abs() < 1e-12 && sign.energy.to_bits() == 3.0_f64.to_bits(), "{sign:?}");
    assert!(sign.error > 0.0 && sign.error <= 1.0, "{sign:?}");
    assert!((prices["encrypt aes-256-cbc"].per_byte - 1e-9).abs() < 1e-15, "{prices:?}");
    assert_eq!(prices["hash sha-256"], old(1.0));

    // One size for a price of each byte, after another that would do.
    let before = prices.clone();
    let steps = vec![step("sign rsa-2048", 32, &[2e-3]), step("hash sha-256", 64, &[1e-6])];
    let fault = measured::calibration(steps, Vec::new()).lay(&mut prices).unwrap_err();
    assert_eq!((fault.class, fault.name.as_str()), (Class::Missing, "steps[1]"), "{fault}");
    assert!(fault.why.contains("`hash sha-256` was measured with one size"), "{fault}");
    assert_eq!(prices, before);
    // A single timing says nothing of its error.
    measured::calibration(vec![step("sign rsa-2048", 32, &[2e-3])], Vec::new()).lay(&mut prices).unwrap();
    assert!((prices["sign rsa-2048"].error - 1.0).abs() < 1e-12, "{prices:?}");
}

#[test]
fn what_is_doubtful_about_a_calibration_is_said() {
    let mut calibration = calibration();
    calibration.others = 0.05;
    assert!(calibration.doubts().is_empty());
    (calibration.quick, calibration.others) = (true, 0.3);
    let doubts = calibration.doubts();
    assert!(doubts.len() == 2 && doubts[0].contains("quick") && doubts[1].contains("30 %"), "{doubts:?}");
    let read = Calibration::read(&calibration.write().unwrap()).unwrap();
    assert_eq!(read.doubts(), doubts);
    // A day is 1970-01-01 and so many after it.
    calibration.taken = "2026-11-25T22:00:00Z".to_owned();
    let day = 20_782;
    assert_eq!([day - 1, day, day + 180].map(|today| calibration.out_of_date(today)), [None, None, None]);
    let (early, late) = (calibration.out_of_date(day - 2).unwrap(), calibration.out_of_date(day + 181).unwrap());
    assert!(early.contains("yet to come") && late.contains("181 days old"), "{early} {late}");
    for wrong in [-0.1, 1.1, f64::NAN] {
        calibration.others = wrong;
        assert_eq!(calibration.check().unwrap_err().name, "others");
    }
}

#[test]
fn what_takes_no_time_is_said_and_is_off_its_line() {
    let free = |step: &str, index: usize| {
        let mut calibration = calibration();
        calibration.steps[index] = self::step(step, calibration.steps[index].bytes, &[0.0; 3]);
        calibration
    };
    let doubts = free("sign rsa-2048", 0).doubts();
    assert!(doubts.len() == 1 && doubts[0].ends_with("free: `sign rsa-2048`"), "{doubts:?}");
    // What is left of an exchange, beside what is known already.
    assert!(free("exchange client-of-8", 0).doubts().is_empty());
    for index in [1, 2] {
        assert_eq!(free("encrypt aes-256-cbc", index).check().unwrap_err().name, "laws[0].residual", "{index}");
    }
}

#[test]
fn a_calibration_of_another_machine_is_named() {
    let calibration = calibration();
    let (mut machine, mut versions) = (calibration.machine.clone(), calibration.versions.clone());
    assert!(calibration.compare(&machine, &versions).is_empty());
    versions.library = "other".into();
    let found = calibration.compare(&machine, &versions);
    assert!(found.len() == 1 && !found[0].is_another_machine());
    machine.cpu = "Other CPU".into();
    let found = calibration.compare(&machine, &versions);
    assert!(found.len() == 2 && found[0].is_another_machine());
    assert_eq!(
        found[0].to_string(),
        "the calibration is from another machine: its processor is `Some CPU`, here it is `Other CPU`"
    );
}

#[test]
fn prices_are_those_of_the_law_or_of_the_only_size() {
    let prices = calibration().prices();
    let (sign, encrypt) = (prices["sign rsa-2048"], prices["encrypt aes-256-cbc"]);
    assert_eq!(prices.len(), 2);
    assert!((sign.price.each - 1e-3).abs() < 1e-12 && sign.price.per_byte == 0.0);
    // Three timings, 10 % apart: 4.3 times 1e-4 over the root of 3.
    assert!((sign.error - 0.2484).abs() < 1e-3, "{}", sign.error);
    assert!((sign.price.cv2 - 0.01).abs() < 1e-9);
    assert!((encrypt.price.each - 1e-6).abs() < 1e-12 && (encrypt.price.per_byte - 1e-9).abs() < 1e-15);
}

/// Without its law an operation of several sizes is priced by the line through them, in whatever order they stand.
#[test]
fn several_sizes_without_a_law_are_priced_by_their_line() {
    let mut lawless = calibration();
    lawless.laws.clear();
    lawless.steps = vec![step("hash sha-256", 1024, &[5e-6; 40]), step("hash sha-256", 64, &[1e-6; 40])];
    for _ in 0..2 {
        let hash = lawless.prices()["hash sha-256"].price;
        assert!((hash.per_byte - 4e-6 / 960.0).abs() < 1e-15, "{hash:?}");
        assert!((hash.each + 64.0 * hash.per_byte - 1e-6).abs() < 1e-12, "{hash:?}");
        lawless.steps.reverse();
    }
}

#[test]
fn what_moves_between_processes_widens_the_interval() {
    let mut step = step("hash sha-256", 64, &[1e-6; 100]);
    assert!(step.error() < 1e-9, "{}", step.error());
    step.moments = vec![0.9e-6, 1e-6, 1.1e-6];
    assert!((step.error() - 0.2484).abs() < 1e-3, "{}", step.error());
}

#[test]
fn student_is_that_of_the_tables() {
    for (freedom, wanted) in [(1, 12.706), (6, 2.447), (7, 2.3646), (10, 2.2281), (30, 2.0423), (1_000, 1.9623)] {
        assert!((student(freedom) - wanted).abs() < 2e-3, "{freedom}: {}", student(freedom));
    }
}

#[test]
fn summaries_have_the_order_statistics() {
    let times: Vec<f64> = (1..=100).rev().map(f64::from).collect();
    let sample = summary(&times).unwrap();
    assert_eq!((sample.min, sample.p50, sample.p95, sample.p99, sample.max), (1.0, 50.0, 95.0, 99.0, 100.0));
    assert!((sample.mean - 50.5).abs() < 1e-12 && (sample.sd - 29.011_491_975_882_016).abs() < 1e-9);
    for none in [&[][..], &[f64::NAN], &[-1.0], &[f64::INFINITY]] {
        assert!(summary(none).is_none());
    }
}

proptest! {
    /// A line is found again, whatever its parts.
    #[test]
    fn a_line_is_found_again(fixed in 0.0..1e-3_f64, per_byte in 1e-12..1e-6_f64) {
        let at = |bytes: u64| step("hash sha-256", bytes, &[fixed + per_byte * bytes as f64]);
        let steps = [at(64), at(1_024), at(16_384), at(262_144)];
        let Law { fixed: found, per_byte: slope, residual, .. } = fit(&steps.each_ref()).unwrap();
        prop_assert!(residual < 1e-6, "{residual}");
        prop_assert!((found + slope * 1_024.0 - fixed - per_byte * 1_024.0).abs() <= 1e-6 * (fixed + per_byte * 1_024.0));
    }

    /// No part is below 0, so no size has a negative price.
    #[test]
    fn no_part_of_a_line_is_negative(times in proptest::collection::vec(1e-9..1.0_f64, 2..8)) {
        let steps: Vec<Step> = (1..).zip(&times).map(|(bytes, time)| step("hash sha-256", bytes, &[*time])).collect();
        let law = fit(&steps.iter().collect::<Vec<_>>()).unwrap();
        prop_assert!(law.fixed >= 0.0 && law.per_byte >= 0.0);
    }

    /// Whatever is in a file, reading it ends in a value or a fault.
    #[test]
    fn any_text_is_answered(text in ".{0,200}") {
        let _ = Calibration::read(&text);
    }
}

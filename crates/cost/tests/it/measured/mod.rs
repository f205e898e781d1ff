//! Calibrations of steps that somebody made up.

use cost::calibration::{Calibration, Law, Machine, SCHEMA, Step, Unit, Versions, summary};

/// A step, each use timed by itself: seconds of processor time, and on the clock.
pub(crate) fn step(name: &str, bytes: u64, cpu: &[f64], wall: &[f64]) -> Step {
    let (operation, algorithm) = name.split_once(' ').unwrap_or((name, ""));
    Step {
        operation: operation.into(),
        algorithm: algorithm.into(),
        bits: None,
        bytes,
        unit: Unit::Seconds,
        batch: 1,
        left_out: 0,
        cpu: summary(cpu).unwrap(),
        wall: summary(wall).unwrap(),
        moments: Vec::new(),
    }
}

/// What a machine of nobody's took for them.
pub(crate) fn calibration(steps: Vec<Step>, laws: Vec<Law>) -> Calibration {
    let calibration = Calibration {
        schema: SCHEMA,
        taken: "2026-11-22".into(),
        machine: Machine { cpu: "Some CPU".into(), cores: 2, kernel: "Linux 6.1".into() },
        versions: Versions { program: "1.0".into(), library: "aws-lc".into(), build: "release".into() },
        quick: false,
        others: 0.0,
        steps,
        laws,
    };
    calibration.check().unwrap();
    calibration
}

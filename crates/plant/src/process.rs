//! The physics of a small batch line: a mixer that is charged, a reactor that heats and reacts, a filler that discharges.
//!
//! First-order models with fixed parameters, stepped by the caller's clock: the same inputs give the same run.

use std::time::Duration;

/// What the recipe is doing, in ISA-88 terms one phase after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// Nothing runs; equipment may be set up.
    Idle,
    /// The mixer is charged and stirred.
    Charge,
    /// The batch is in the reactor and heats to the set point.
    Heat,
    /// The reaction runs at the set point.
    React,
    /// The product goes to the filler.
    Discharge,
    /// The line is rinsed.
    Clean,
}

impl Step {
    /// Every step in the order of the recipe.
    pub const ALL: [Self; 6] = [Self::Idle, Self::Charge, Self::Heat, Self::React, Self::Discharge, Self::Clean];

    /// The name as it stands in the workflow file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Charge => "charge",
            Self::Heat => "heat",
            Self::React => "react",
            Self::Discharge => "discharge",
            Self::Clean => "clean",
        }
    }

    /// The step with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|step| step.name() == name)
    }
}

/// Pressure at which the relief valve opens by itself, bar.
const RELIEF: f64 = 2.5;

/// What people and recipes set. Units stand with each field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SetPoints {
    /// Agitator speed of the mixer, 1/min.
    pub mixer_speed: f64,
    /// Amount to charge, kg.
    pub mixer_dose: f64,
    /// How far the mixer's inlet valve is open, %.
    pub mixer_inlet: f64,
    /// Reactor temperature, °C.
    pub reactor_temperature: f64,
    /// Filler speed, bottles per minute.
    pub filler_rate: f64,
}

impl Default for SetPoints {
    fn default() -> Self {
        Self { mixer_speed: 120.0, mixer_dose: 400.0, mixer_inlet: 0.0, reactor_temperature: 78.0, filler_rate: 40.0 }
    }
}

/// What the line measures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Mixer level, kg.
    pub mixer_level: f64,
    /// Agitator speed, 1/min.
    pub mixer_speed: f64,
    /// Reactor level, kg.
    pub reactor_level: f64,
    /// Reactor temperature, °C.
    pub reactor_temperature: f64,
    /// Reactor pressure, bar.
    pub reactor_pressure: f64,
    /// Share of the batch that has reacted, 0 to 1.
    pub conversion: f64,
    /// Bottles filled in this batch.
    pub bottles: u32,
}

impl Default for Measured {
    fn default() -> Self {
        Self {
            mixer_level: 0.0,
            mixer_speed: 0.0,
            reactor_level: 0.0,
            reactor_temperature: 20.0,
            reactor_pressure: 1.0,
            conversion: 0.0,
            bottles: 0,
        }
    }
}

/// The line: where the recipe stands, what is set, what is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Line {
    /// What is set.
    pub set: SetPoints,
    /// What is measured.
    pub measured: Measured,
    /// Mixer, reactor and filler, stopped by hand until they are started again.
    pub halted: [bool; 3],
    filled: f64,
}

/// Something that happened between two moments of the line, for those who watch it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Occurrence {
    /// The path of the node that it comes from, below `Objects`.
    pub(crate) source: &'static str,
    /// 1 (lowest) to 1,000.
    pub(crate) severity: u16,
    /// What happened.
    pub(crate) message: &'static str,
}

/// Limits whose crossing is told, up and down: whose, of what, and how grave it is above.
type Limit = (&'static str, fn(&Measured) -> f64, f64, (u16, &'static str), (u16, &'static str));

const LIMITS: [Limit; 3] = [
    (
        "Reactor.Measurements.Pressure",
        |now| now.reactor_pressure,
        1.3,
        (600, "the pressure is above 1.3 bar"),
        (200, "the pressure is below 1.3 bar again"),
    ),
    (
        "Reactor.Measurements.Temperature",
        |now| now.reactor_temperature,
        60.0,
        (400, "the reactor is hotter than 60 °C"),
        (200, "the reactor is cooler than 60 °C again"),
    ),
    (
        "Mixer.Measurements.Speed",
        |now| now.mixer_speed,
        10.0,
        (100, "the agitator turns"),
        (100, "the agitator stands"),
    ),
];

/// What happened while the line went from `before` to `after`.
pub(crate) fn occurrences(before: &Measured, after: &Measured) -> impl Iterator<Item = Occurrence> {
    LIMITS.iter().filter_map(move |(source, of, limit, above, below)| {
        let (severity, message) = match (of(before) > *limit, of(after) > *limit) {
            (false, true) => *above,
            (true, false) => *below,
            _ => return None,
        };
        Some(Occurrence { source, severity, message })
    })
}

/// Moves `value` towards `target` with time constant `tau` seconds.
fn approach(value: f64, target: f64, tau: f64, dt: f64) -> f64 {
    target + (value - target) * (-dt / tau).exp()
}

impl Line {
    /// Lets `by` pass while the recipe stands in `step`. Steps longer than a second are cut into seconds.
    pub fn advance(&mut self, step: Step, by: Duration) {
        let mut left = by.as_secs_f64().min(3600.0);
        while left > 0.0 {
            self.tick(step, left.min(1.0));
            left -= 1.0;
        }
    }

    fn tick(&mut self, step: Step, dt: f64) {
        let (set, now) = (self.set, &mut self.measured);
        let [mixer_halted, reactor_halted, filler_halted] = self.halted;
        let stirring = matches!(step, Step::Charge | Step::Clean) && !mixer_halted;
        now.mixer_speed = approach(now.mixer_speed, if stirring { set.mixer_speed } else { 0.0 }, 1.5, dt);
        if step == Step::Charge && set.mixer_inlet > 0.0 && !mixer_halted {
            now.mixer_level = (now.mixer_level + 0.8 * set.mixer_inlet * dt).min(set.mixer_dose);
        }
        if step == Step::Heat {
            let moved = (100.0 * dt).min(now.mixer_level);
            now.mixer_level -= moved;
            now.reactor_level += moved;
        }
        let hot = matches!(step, Step::Heat | Step::React) && !reactor_halted;
        let target = if hot { set.reactor_temperature } else { 20.0 };
        now.reactor_temperature = approach(now.reactor_temperature, target, if hot { 4.0 } else { 9.0 }, dt);
        let vapour = ((now.reactor_temperature - 60.0) / 30.0).max(0.0);
        now.reactor_pressure = (1.0 + vapour).min(RELIEF);
        if step == Step::React && now.reactor_level > 0.0 {
            let rate = 0.4 * ((now.reactor_temperature - 70.0) / 10.0).exp().min(3.0);
            now.conversion = approach(now.conversion, 1.0, 1.0 / rate, dt);
        }
        if step == Step::Discharge && !filler_halted {
            let drawn = (set.filler_rate / 60.0 * dt * 20.0).min(now.reactor_level);
            now.reactor_level -= drawn;
            self.filled += drawn;
            now.bottles = (self.filled / 5.0) as u32;
        }
        if step == Step::Clean {
            (now.mixer_level, now.reactor_level, now.conversion) = (0.0, 0.0, 0.0);
        }
        if step == Step::Idle {
            (self.filled, now.bottles) = (0.0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &mut Line, step: Step, seconds: u64) {
        line.advance(step, Duration::from_secs(seconds));
    }

    #[test]
    fn a_batch_goes_through_the_line() {
        let mut line = Line::default();
        line.set.mixer_inlet = 100.0;
        run(&mut line, Step::Charge, 10);
        assert!((line.measured.mixer_level - 400.0).abs() < 1e-9, "{line:?}");
        run(&mut line, Step::Heat, 20);
        assert!((line.measured.reactor_level - 400.0).abs() < 1e-9 && line.measured.mixer_level == 0.0, "{line:?}");
        assert!((line.measured.reactor_temperature - 78.0).abs() < 1.0);
        run(&mut line, Step::React, 20);
        assert!(line.measured.conversion > 0.99, "{line:?}");
        run(&mut line, Step::Discharge, 40);
        assert!(line.measured.bottles == 80, "{line:?}");
        run(&mut line, Step::Clean, 1);
        assert_eq!(line.measured.conversion, 0.0);
    }

    #[test]
    fn a_limit_is_told_when_it_is_crossed_and_not_while_it_stays_so() {
        let mut line = Line::default();
        let mut told = Vec::new();
        for (step, seconds) in
            [(Step::Charge, 5), (Step::Heat, 30), (Step::React, 5), (Step::Clean, 60), (Step::Idle, 60)]
        {
            for _ in 0..seconds {
                let before = line.measured;
                run(&mut line, step, 1);
                told.extend(occurrences(&before, &line.measured).map(|one| (step, one.message)));
            }
        }
        let expected = [
            (Step::Charge, "the agitator turns"),
            (Step::Heat, "the agitator stands"),
            (Step::Heat, "the reactor is hotter than 60 °C"),
            (Step::Heat, "the pressure is above 1.3 bar"),
            (Step::Clean, "the agitator turns"),
            (Step::Clean, "the pressure is below 1.3 bar again"),
            (Step::Clean, "the reactor is cooler than 60 °C again"),
            (Step::Idle, "the agitator stands"),
        ];
        let sorted = |mut list: Vec<(Step, &'static str)>| {
            list.sort_unstable();
            list
        };
        assert_eq!(sorted(told), sorted(expected.to_vec()));
    }

    #[test]
    fn a_closed_inlet_charges_nothing() {
        let mut line = Line::default();
        run(&mut line, Step::Charge, 60);
        assert_eq!(line.measured.mixer_level, 0.0);
    }

    #[test]
    fn a_halted_station_stands_still() {
        let mut line = Line { halted: [true; 3], ..Line::default() };
        line.set.mixer_inlet = 100.0;
        line.measured.reactor_level = 50.0;
        for step in [Step::Charge, Step::Heat, Step::Discharge] {
            run(&mut line, step, 20);
        }
        assert_eq!((line.measured.mixer_level, line.measured.bottles), (0.0, 0));
        assert_eq!(line.measured.reactor_temperature, 20.0);
    }

    #[test]
    fn pressure_stays_below_its_limit() {
        let mut line =
            Line { set: SetPoints { reactor_temperature: 400.0, ..SetPoints::default() }, ..Line::default() };
        run(&mut line, Step::Heat, 600);
        assert!(line.measured.reactor_pressure <= 2.5);
    }
}

//! Units in which people read figures.

use super::short;

/// What a figure is multiplied with, and its unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Unit(pub(super) f64, pub(super) &'static str);

impl Unit {
    /// Of seconds.
    pub(super) fn of_time(seconds: f64) -> Self {
        match seconds.abs() {
            it if it < 1e-4 && it > 0.0 => Self(1e6, " us"),
            it if it < 10.0 => Self(1e3, " ms"),
            _ => Self(1.0, " s"),
        }
    }

    /// Of joules.
    pub(super) fn of_energy(joules: f64) -> Self {
        match joules.abs() {
            it if it < 1e-4 && it > 0.0 => Self(1e6, " uJ"),
            it if it < 0.1 && it > 0.0 => Self(1e3, " mJ"),
            _ => Self(1.0, " J"),
        }
    }
}

/// Seconds, as text.
pub(super) fn time(seconds: f64) -> String {
    told(seconds, Unit::of_time(seconds))
}

/// Joules, as text.
pub(super) fn energy(joules: f64) -> String {
    told(joules, Unit::of_energy(joules))
}

fn told(value: f64, Unit(factor, unit): Unit) -> String {
    format!("{}{unit}", short(value * factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_the_unit_in_which_they_are_read() {
        let times = [0.0, 2.5e-7, 99e-6, 0.000_12, 0.06, 1.5, 9.99, 10.0, 86_400.0].map(time);
        assert_eq!(times, ["0 ms", "0.25 us", "99 us", "0.12 ms", "60 ms", "1500 ms", "9990 ms", "10 s", "86400 s"]);
        let energies = [0.0, 2.793e-5, 0.003, 0.099, 0.1, 2.0].map(energy);
        assert_eq!(energies, ["0 J", "27.93 uJ", "3 mJ", "99 mJ", "0.1 J", "2 J"]);
    }
}

//! Numbers of variants held against bounds, exactly: whole numbers of 64 bits as such, and distances rounded up, so that
//! what passes is never more than the bound says.

use opcua_types::Variant;

/// A number of a variant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Whole(i128),
    /// Neither infinite nor not a number.
    Real(f64),
}

impl Number {
    /// The number of a scalar; `None` of whatever is none.
    pub(super) fn of(value: &Variant) -> Option<Self> {
        Some(match *value {
            Variant::SByte(value) => Self::Whole(value.into()),
            Variant::Byte(value) => Self::Whole(value.into()),
            Variant::Int16(value) => Self::Whole(value.into()),
            Variant::UInt16(value) => Self::Whole(value.into()),
            Variant::Int32(value) => Self::Whole(value.into()),
            Variant::UInt32(value) => Self::Whole(value.into()),
            Variant::Int64(value) => Self::Whole(value.into()),
            Variant::UInt64(value) => Self::Whole(value.into()),
            Variant::Float(value) if value.is_finite() => Self::Real(value.into()),
            Variant::Double(value) if value.is_finite() => Self::Real(value),
            _ => return None,
        })
    }

    /// Whether it lies in a closed range.
    pub(super) fn lies_in(self, (low, high): (f64, f64)) -> bool {
        match self {
            Self::Whole(number) => low <= below(number) && above(number) <= high,
            Self::Real(number) => low <= number && number <= high,
        }
    }

    /// How far two numbers of one kind are apart, rounded up; `None` when that is beyond every number.
    pub(super) fn distance(self, other: Self) -> Option<f64> {
        match (self, other) {
            (Self::Whole(one), Self::Whole(other)) => one.checked_sub(other).and_then(i128::checked_abs).map(above),
            (Self::Real(one), Self::Real(other)) => {
                let apart = if one > other { sum_up(one, -other) } else { sum_up(other, -one) };
                apart.is_finite().then_some(apart)
            }
            _ => None,
        }
    }
}

/// The sum of two numbers, rounded up.
pub(super) fn sum_up(one: f64, other: f64) -> f64 {
    let sum = one + other;
    // What rounding has taken away (Knuth, The Art of Computer Programming volume 2, theorem 4.2.2B).
    let back = sum - one;
    let lost = (one - (sum - back)) + (other - back);
    if lost > 0.0 { sum.next_up() } else { sum }
}

/// The double next to a whole number.
fn near(number: i128) -> f64 {
    #[expect(clippy::cast_precision_loss, clippy::as_conversions, reason = "both callers look which way it went")]
    let near = number as f64;
    near
}

/// Whether a double of about the size of 64 bits is greater than a whole number, and whether it is less.
fn beside(double: f64, number: i128) -> std::cmp::Ordering {
    #[expect(clippy::cast_possible_truncation, clippy::as_conversions, reason = "whole, and far from the ends of i128")]
    let back = double as i128;
    back.cmp(&number)
}

/// The greatest double that is not greater than a number of at most 66 bits.
fn below(number: i128) -> f64 {
    let near = near(number);
    if beside(near, number).is_gt() { near.next_down() } else { near }
}

/// The least double that is not less.
fn above(number: i128) -> f64 {
    let near = near(number);
    if beside(near, number).is_lt() { near.next_up() } else { near }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn whole_numbers_beyond_doubles_are_told_apart() {
        const FIRST: i64 = 1 << 53;
        let whole = |number: i64| Number::of(&Variant::Int64(number)).unwrap();
        let bound = (-9_007_199_254_740_992.0, 9_007_199_254_740_992.0);
        for (number, inside) in [(FIRST, true), (FIRST + 1, false), (-FIRST, true), (-FIRST - 1, false)] {
            assert_eq!(whole(number).lies_in(bound), inside, "{number}");
        }
        let most = Number::of(&Variant::UInt64(u64::MAX)).unwrap();
        assert!(!most.lies_in((0.0, 18_446_744_073_709_549_568.0)), "the double below the greatest");
        assert!(most.lies_in((0.0, 18_446_744_073_709_551_616.0)));
        assert_eq!(whole(FIRST + 1).distance(whole(0)), Some(9_007_199_254_740_994.0), "rounded up");
        assert_eq!(whole(i64::MIN).distance(whole(i64::MAX)), Some(18_446_744_073_709_551_616.0));
    }

    #[test]
    fn what_is_no_finite_number_is_none() {
        let none = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY].map(Variant::Double);
        let others = [f32::NAN.into(), f32::INFINITY.into(), Variant::Empty, true.into(), "5".into()];
        for value in none.iter().chain(&others) {
            assert_eq!(Number::of(value), None, "{value:?}");
        }
        assert_eq!(Number::Real(f64::MAX).distance(Number::Real(-f64::MAX)), None);
        assert_eq!(Number::Real(1.0).distance(Number::Whole(1)), None, "two kinds");
    }

    #[test]
    fn a_distance_that_rounding_would_shorten_is_longer() {
        // Exactly 1 + 2^-60: a double of 1 stands next to it.
        let apart = Number::Real(1.0).distance(Number::Real(-(0.5_f64.powi(60)))).unwrap();
        assert!(apart > 1.0);
        assert_eq!(Number::Real(0.75).distance(Number::Real(0.5)), Some(0.25));
    }

    proptest! {
        #[test]
        fn whole_numbers_lie_between_their_neighbours(number: i64) {
            let number = i128::from(number);
            prop_assert!(beside(below(number), number).is_le());
            prop_assert!(beside(above(number), number).is_ge());
            prop_assert!(below(number) == above(number) || below(number).next_up() == above(number));
        }

        #[test]
        fn distances_are_symmetric(one: f64, other: f64) {
            prop_assume!(one.is_finite() && other.is_finite());
            let (one, other) = (Number::Real(one), Number::Real(other));
            prop_assert_eq!(one.distance(other), other.distance(one));
        }
    }
}

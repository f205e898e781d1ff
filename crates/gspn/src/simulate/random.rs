//! Random numbers that are the same on every machine: xoshiro256++ (Blackman and Vigna), seeded by SplitMix64.

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub struct Stream {
    state: [u64; 4],
}

impl Stream {
    /// The stream of a name that is a number, in repetition `run` of a simulation with `seed`.
    #[must_use]
    pub fn new(seed: u64, run: u64, name: u64) -> Self {
        let mut seed = seed;
        let mut mixed = split(&mut seed) ^ run.wrapping_mul(0xd134_2543_de82_ef95);
        let mut mixed = split(&mut mixed) ^ name;
        Self { state: std::array::from_fn(|_| split(&mut mixed)) }
    }

    fn next(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// From 0 up to, and not with, 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are left")]
    pub fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
    }

    /// With mean 1.
    pub fn exponential(&mut self) -> f64 {
        -ln(1.0 - self.uniform())
    }

    /// The sum of so many exponential times, each with mean 1: one by one where they are few, else by rejection (Marsaglia and Tsang 2000).
    pub fn erlang(&mut self, stages: u32) -> f64 {
        const FEW: u32 = 6;
        if stages <= FEW {
            return (0..stages).map(|_| self.exponential()).sum();
        }
        let d = f64::from(stages) - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let normal = self.normal();
            let v = (1.0 + c * normal).powi(3);
            if v > 0.0 && accepts(1.0 - self.uniform(), normal, d, v) {
                return d * v;
            }
        }
    }

    /// With mean 0 and variance 1 (Marsaglia's polar method).
    fn normal(&mut self) -> f64 {
        loop {
            let (x, y) = (2.0 * self.uniform() - 1.0, 2.0 * self.uniform() - 1.0);
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                return x * (-2.0 * ln(square) / square).sqrt();
            }
        }
    }
}

/// Whether a sum is taken: mostly that is plain without logarithms (their squeeze, which takes none that they would not).
fn accepts(uniform: f64, normal: f64, d: f64, v: f64) -> bool {
    let square = normal * normal;
    uniform < 1.0 - 0.0331 * square * square || ln(uniform) < 0.5 * square + d * (1.0 - v + ln(v))
}

/// A number for a name (FNV-1a): a transition keeps its stream when others are added to the net.
pub(super) fn named(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn split(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The natural logarithm of a normal number above 0, to 1e-14: `f64::ln` belongs to the machine, and its last digit differs.
#[expect(clippy::cast_precision_loss, reason = "an exponent has eleven bits")]
fn ln(x: f64) -> f64 {
    /// The root of 1/2.
    const LEAST: u64 = 0x3fe6_a09e_667f_3bcd;
    let bits = x.to_bits();
    // By how many powers of two the number is away from the range between the roots of 1/2 and of 2.
    let exponent = bits.wrapping_sub(LEAST).cast_signed() >> 52;
    let mantissa = f64::from_bits(bits.wrapping_sub((exponent << 52).cast_unsigned()));
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let q = s * s;
    let high = 1.0 / 9.0 + q * (1.0 / 11.0 + q * (1.0 / 13.0 + q * (1.0 / 15.0 + q * (1.0 / 17.0))));
    let series = 1.0 + q * (1.0 / 3.0 + q * (1.0 / 5.0 + q * (1.0 / 7.0 + q * high)));
    exponent as f64 * std::f64::consts::LN_2 + 2.0 * s * series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_the_machines_to_fourteen_digits() {
        let mut stream = Stream::new(1, 0, named("x"));
        for scale in [1.0, 1e-3, 1e-9, 1e-16] {
            for _ in 0..20_000 {
                let x = (1.0 - stream.uniform()) * scale;
                assert!((ln(x) - x.ln()).abs() <= 2e-15 + 1e-14 * x.ln().abs(), "{x}: {} {}", ln(x), x.ln());
            }
        }
        assert_eq!(ln(1.0), 0.0);
    }

    #[test]
    fn streams_are_the_published_generator_and_their_own() {
        // The first outputs of xoshiro256++ from the state 1, 2, 3, 4.
        let mut stream = Stream { state: [1, 2, 3, 4] };
        assert_eq!([stream.next(), stream.next(), stream.next()], [41_943_041, 58_720_359, 3_588_806_011_781_223]);
        let first = |seed, run, name| Stream::new(seed, run, named(name)).next();
        let all = [first(1, 0, "a"), first(2, 0, "a"), first(1, 1, "a"), first(1, 0, "b"), first(2, 1, "b")];
        assert!((0..5).all(|one| (0..one).all(|other| all[one] != all[other])));
    }

    /// Mean, variance and third moment about the mean of a sum of `k` exponential times are k, k and 2 k.
    #[test]
    fn sums_of_exponential_times_have_their_moments() {
        let mut stream = Stream::new(7, 3, named("t"));
        for stages in [1_u32, 2, 6, 7, 8, 20, 100] {
            let samples: Vec<f64> = (0..200_000).map(|_| stream.erlang(stages)).collect();
            let (k, count) = (f64::from(stages), samples.len() as f64);
            let moment = |power: i32| samples.iter().map(|x| (x - k).powi(power)).sum::<f64>() / count;
            assert!(moment(1).abs() < 0.01 * k.sqrt(), "{stages}: {}", moment(1));
            assert!((moment(2) / k - 1.0).abs() < 0.03, "{stages}: {}", moment(2));
            assert!((moment(3) - 2.0 * k).abs() < 0.15 * k.powf(1.5), "{stages}: {}", moment(3));
        }
    }

    /// What is taken without logarithms is taken with them, and that is most.
    #[test]
    fn the_squeeze_takes_no_other_sums() {
        let mut stream = Stream::new(3, 1, named("t"));
        for stages in [7_u32, 9, 30, 1_000, 1_000_000] {
            let d = f64::from(stages) - 1.0 / 3.0;
            let mut plain = 0;
            for _ in 0..100_000 {
                let normal = stream.normal();
                let v = (1.0 + normal / (9.0 * d).sqrt()).powi(3);
                if v > 0.0 {
                    let most = 1.0 - 0.0331 * normal.powi(4);
                    let uniform = stream.uniform() * most.max(0.0);
                    let logarithms = uniform.ln() < 0.5 * normal * normal + d * (1.0 - v + v.ln());
                    assert!(most <= 0.0 || logarithms, "{stages} {normal} {uniform}");
                    plain += u32::from(accepts(uniform, normal, d, v) && most > 0.0);
                }
            }
            assert!(plain > 95_000, "{stages}: {plain}");
        }
    }

    #[test]
    fn exponential_times_have_their_mean_and_spread() {
        let mut stream = Stream::new(7, 3, named("t"));
        let samples: Vec<f64> = (0..200_000).map(|_| stream.exponential()).collect();
        let count = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / count;
        let square = samples.iter().map(|x| x * x).sum::<f64>() / count;
        assert!((mean - 1.0).abs() < 0.01 && (square - 2.0).abs() < 0.05, "{mean} {square}");
    }
}

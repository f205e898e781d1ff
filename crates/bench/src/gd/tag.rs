//! The data of a tag: an asset, and the positions at which it may be on its way (P4, section 5: geo data of a qualified organisation).

use std::fmt::Write;

use crate::random::Random;

/// Positions on a way.
pub const POINTS: u32 = 64;
/// Mean radius of the earth, metres.
const RADIUS: f64 = 6_371_008.8;

/// Writes the data of a client's `number`-th tag: points on a great circle from a place of its own, each with the distance so far.
pub fn generate(client: u32, number: u64, text: &mut String) {
    let mut random = Random::new(u64::from(client) << 40 ^ number);
    let mut share = || f64::from(random.below(1 << 30)) / f64::from(1 << 30);
    let (latitude, longitude) = ((share() - 0.5) * 2.4, (share() - 0.5) * 6.0);
    let (bearing, step) = (share() * std::f64::consts::TAU, 500.0 + share() * 2_000.0);
    text.clear();
    let _ = write!(text, "GD1;organisation=1;client={client:04};number={number:010};asset={:016x}", random.draw());
    let (sine, cosine) = latitude.sin_cos();
    for point in 0..POINTS {
        let angle = step * f64::from(point) / RADIUS;
        let (far, near) = angle.sin_cos();
        let there = (sine * near + cosine * far * bearing.cos()).asin();
        let along = longitude + (bearing.sin() * far * cosine).atan2(near - sine * there.sin());
        let _ = write!(text, ";{:+010.6},{:+011.6}", there.to_degrees(), along.to_degrees());
    }
    text.push(';');
}

/// Bytes of the data of every tag.
#[must_use]
pub fn bytes() -> usize {
    let mut text = String::new();
    generate(0, 0, &mut text);
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_differ_have_one_length_and_lie_on_the_earth() {
        let (mut one, mut other) = (String::new(), String::new());
        generate(1, 7, &mut one);
        for (client, number) in [(0, 0), (1, 8), (2, 7), (63, 4_000_000_000)] {
            generate(client, number, &mut other);
            assert_ne!(one, other);
            assert_eq!(other.len(), bytes());
            let points: Vec<(f64, f64)> = other
                .split(';')
                .filter_map(|word| word.split_once(',').map(|(a, b)| (a.parse().unwrap(), b.parse().unwrap())))
                .collect();
            assert_eq!(points.len(), POINTS as usize);
            assert!(points.iter().all(|(latitude, longitude)| latitude.abs() <= 90.0 && longitude.abs() <= 360.0));
        }
        generate(1, 7, &mut other);
        assert_eq!(one, other);
    }
}

//! Where labels go beside dots: near their own, on no dot and on no other label, with a line to their dot where they had to go farther.

use std::fmt::Write;

/// How far a label may be from its dot, and where around it: to the right first.
const DISTANCES: [f64; 5] = [7.0, 13.0, 20.0, 30.0, 42.0];
const DIRECTIONS: [(f64, f64); 8] =
    [(1.0, 0.5), (1.0, -0.5), (-1.0, 0.5), (-1.0, -0.5), (0.0, 1.0), (0.0, -1.0), (1.0, 0.0), (-1.0, 0.0)];
/// From this distance on a line leads to the dot.
const LED: f64 = 13.0;
/// What a dot covers to each side.
const DOT: f64 = 5.0;

/// Left, top, right, bottom.
type Place = [f64; 4];

/// What is covered already.
pub(super) struct Labels {
    inside: Place,
    covered: Vec<Place>,
}

impl Labels {
    /// With these dots; labels stay `inside`.
    pub(super) fn new(inside: Place, dots: impl Iterator<Item = (f64, f64)>) -> Self {
        Self { inside, covered: dots.map(|dot| around(dot, DOT)).collect() }
    }

    /// With a ring around a dot, too.
    pub(super) fn cover(&mut self, dot: (f64, f64), radius: f64) {
        self.covered.push(around(dot, radius));
    }

    /// Puts a text so wide beside its dot.
    pub(super) fn put(&mut self, svg: &mut String, (x, y): (f64, f64), wide: f64, size: f64, words: &str, style: &str) {
        let places = DISTANCES.iter().flat_map(|far| DIRECTIONS.iter().map(move |way| (*far, *way)));
        let of = |(far, (right, down)): (f64, (f64, f64))| {
            // The middle of the text: its near edge is as far from the dot as it should be.
            let (x, y) = (x + right * (far + wide / 2.0), y + down * (far + size / 2.0));
            (far, [x - wide / 2.0, y - size / 2.0, x + wide / 2.0, y + size / 2.0])
        };
        let free = |place: &Place| {
            let [left, top, right, bottom] = self.inside;
            let inside = place[0] >= left && place[1] >= top && place[2] <= right && place[3] <= bottom;
            inside && !self.covered.iter().any(|other| overlap(place, other))
        };
        // Where there is no room at all, what is near is less bad than what is not there.
        let found = places.clone().map(of).find(|(_, place)| free(place)).or_else(|| places.clone().map(of).next());
        let Some((far, place)) = found else { return };
        let (middle, bottom) = (f64::midpoint(place[0], place[2]), place[3]);
        if far >= LED {
            let (to_x, to_y) = (x.clamp(place[0], place[2]), y.clamp(place[1], place[3]));
            let _ =
                writeln!(svg, "<path d=\"M{x:.1} {y:.1}L{to_x:.1} {to_y:.1}\" stroke=\"#999\" stroke-width=\"0.7\"/>");
        }
        let base = bottom - 0.2 * size;
        let _ = writeln!(
            svg,
            "<text x=\"{middle:.1}\" y=\"{base:.1}\" text-anchor=\"middle\" font-size=\"{size}\"{style}>{words}</text>"
        );
        self.covered.push(place);
    }
}

fn around((x, y): (f64, f64), radius: f64) -> Place {
    [x - radius, y - radius, x + radius, y + radius]
}

fn overlap(one: &Place, other: &Place) -> bool {
    one[0] < other[2] && other[0] < one[2] && one[1] < other[3] && other[1] < one[3]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_cover_neither_dots_nor_each_other() {
        let dots: Vec<(f64, f64)> =
            (0..12).map(|nth| (200.0 + 6.0 * f64::from(nth), 200.0 + f64::from(nth % 3))).collect();
        let mut labels = Labels::new([0.0, 0.0, 500.0, 400.0], dots.iter().copied());
        let mut svg = String::new();
        for dot in &dots {
            labels.put(&mut svg, *dot, 14.0, 10.0, "12", "");
        }
        let places = &labels.covered;
        for (at, one) in places.iter().enumerate().skip(dots.len()) {
            for (other_at, other) in places.iter().enumerate().take(at) {
                assert!(!overlap(one, other), "{at} and {other_at}: {one:?} {other:?}");
            }
        }
        assert!(svg.contains("<path"), "who went far is led back: {svg}");
    }
}

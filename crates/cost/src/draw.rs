//! Line plots as SVG, without a library: axes, curves, marks. The same input gives the same bytes.

use std::fmt::Write;

use crate::quantity::digits;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 520.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 230.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 56.0;
/// Colours that people with any kind of colour vision tell apart.
const COLOURS: [&str; 4] = ["#0072b2", "#d55e00", "#009e73", "#777777"];

/// A curve.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
    /// Index of a colour; curves of one family share it.
    pub(crate) colour: usize,
}

/// A plot whose axes begin at 0.
pub(crate) struct Plot {
    title: String,
    x: String,
    y: String,
    lines: Vec<Line>,
    marks: Vec<(f64, f64, String)>,
}

impl Plot {
    pub(crate) fn new(title: &str, x: &str, y: &str) -> Self {
        Self { title: title.into(), x: x.into(), y: y.into(), lines: Vec::new(), marks: Vec::new() }
    }

    pub(crate) fn line(&mut self, line: Line) {
        self.lines.push(line);
    }

    pub(crate) fn mark(&mut self, x: f64, y: f64, label: &str) {
        self.marks.push((x, y, label.to_owned()));
    }

    pub(crate) fn svg(&self) -> String {
        let all = || self.lines.iter().flat_map(|line| &line.points).copied();
        let marked = || self.marks.iter().map(|(x, y, _)| (*x, *y));
        let most = |pick: fn((f64, f64)) -> f64| {
            nice(all().chain(marked()).map(pick).filter(|it| it.is_finite()).fold(1e-300, f64::max))
        };
        let (width, height) = (most(|point| point.0), most(|point| point.1));
        let at_x = |x: f64| LEFT + x / width * (WIDTH - LEFT - RIGHT);
        let at_y = |y: f64| HEIGHT - BOTTOM - y / height * (HEIGHT - TOP - BOTTOM);
        let mut svg = String::new();
        let _ = writeln!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">"
        );
        let _ = writeln!(svg, "<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>");
        let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"24\" font-size=\"15\">{}</text>", escaped(&self.title));
        for step in 0..=5 {
            let share = f64::from(step) / 5.0;
            let (x, y) = (at_x(width * share), at_y(height * share));
            let (right, bottom) = (at_x(width), at_y(0.0));
            let _ = writeln!(svg, "<path d=\"M{LEFT} {y:.1}H{right:.1}\" stroke=\"#ddd\"/>");
            let label = digits(height * share);
            let _ =
                writeln!(svg, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>", LEFT - 8.0, y + 4.0);
            let label = digits(width * share);
            let _ =
                writeln!(svg, "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>", bottom + 18.0);
        }
        let middle = at_x(width / 2.0);
        let _ = writeln!(
            svg,
            "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            HEIGHT - 14.0,
            escaped(&self.x)
        );
        let middle = at_y(height / 2.0);
        let _ = writeln!(
            svg,
            "<text transform=\"translate(18 {middle:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            escaped(&self.y)
        );
        for (index, line) in self.lines.iter().enumerate() {
            let colour = COLOURS[line.colour % COLOURS.len()];
            // Curves of one family differ by their dashes.
            let dash = self.lines.iter().take(index).filter(|other| other.colour == line.colour).count();
            let dash = if dash == 0 {
                String::new()
            } else {
                format!(" stroke-dasharray=\"{} {}\"", 14 - 2 * dash.min(6), 2 + dash)
            };
            let points: Vec<String> =
                line.points.iter().map(|(x, y)| format!("{:.1},{:.1}", at_x(*x), at_y(*y))).collect();
            let points = points.join(" ");
            let _ = writeln!(
                svg,
                "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\"{dash}/>"
            );
            #[expect(clippy::cast_precision_loss, reason = "a few lines")]
            let y = TOP + 6.0 + 18.0 * index as f64;
            let (from, to) = (WIDTH - RIGHT + 14.0, WIDTH - RIGHT + 44.0);
            let _ = writeln!(svg, "<path d=\"M{from} {y}H{to}\" stroke=\"{colour}\" stroke-width=\"1.6\"{dash}/>");
            let _ = writeln!(svg, "<text x=\"{}\" y=\"{}\">{}</text>", to + 6.0, y + 4.0, escaped(&line.name));
        }
        for (x, y, label) in &self.marks {
            let (x, y) = (at_x(*x), at_y(*y));
            let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"none\" stroke=\"black\"/>");
            let _ = writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                y - 9.0,
                escaped(label)
            );
        }
        svg.push_str("</svg>\n");
        svg
    }
}

/// The next number of one digit or of the form 1.2, 1.5, 2.5.
pub(crate) fn nice(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    let step = steps.into_iter().find(|step| step * power >= value * (1.0 - 1e-12));
    step.map_or(value, |step| step * power)
}

/// Text inside a document of markup.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

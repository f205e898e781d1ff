//! A drawing of a net: circles with their tokens, bars with their rates, arrows, and small circles where an arc stops.

use super::dot::timing;
use super::layout::Layout;
use super::xml::{escape, writable};
use crate::net::{Kind, Net};
use crate::{Class, Refusal};

/// Nodes that a drawing may have: more are no picture.
const MOST: usize = 5_000;
/// Half of a place.
const PLACE: f64 = 16.0;
/// Half of the height of a transition.
const BAR: f64 = 18.0;
/// Characters of a text that are drawn: the next column is not far.
const LONG: usize = 24;
/// What is left free around all that is drawn.
const FREE: f64 = 6.0;

const HEAD: &str = r##"<defs>
<marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0.5 8 4 0 7.5z" fill="#333"/></marker>
<marker id="stop" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="8" markerHeight="8" orient="auto"><circle cx="4" cy="4" r="3" fill="#fff" stroke="#b00020"/></marker>
</defs>
<style>text{font:11px sans-serif;text-anchor:middle;fill:#111}.t{fill:#555;font-size:10px}.a{fill:none;stroke:#333;marker-end:url(#arrow)}.s{fill:none;stroke:#b00020;marker-end:url(#stop)}.p{fill:#fff;stroke:#111;stroke-width:1.4}.h{fill:#fff;stroke:#fff;stroke-width:3px;stroke-linejoin:round}</style>
"##;

pub(super) fn write(net: &Net) -> Result<String, Refusal> {
    let nodes = net.places().len() + net.transitions().len();
    if nodes > MOST {
        let why = format!("{nodes} places and transitions are no picture: at most {MOST}");
        return Err(Refusal::new(Class::TooLarge, "places", why));
    }
    writable(net.name())?;
    let layout = Layout::of(net);
    let mut sheet = Sheet { out: String::new(), left: 0.0, top: 0.0, right: layout.width, bottom: layout.height };
    for (index, transition) in net.transitions().iter().enumerate() {
        let here = Shape::bar(layout.transition(index), &transition.kind);
        for arc in &transition.inputs {
            sheet.curve(Shape::circle(layout.place(arc.place)), here, arc.count, "a", arc.place % 2 == 0);
        }
        for arc in &transition.outputs {
            sheet.curve(here, Shape::circle(layout.place(arc.place)), arc.count, "a", arc.place % 2 == 0);
        }
        for arc in &transition.inhibitors {
            sheet.curve(Shape::circle(layout.place(arc.place)), here, arc.count, "s", arc.place % 2 == 1);
        }
    }
    for (index, place) in net.places().iter().enumerate() {
        writable(&place.name)?;
        let (x, y) = layout.place(index);
        sheet.out +=
            &format!("<circle class=\"p\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{PLACE}\"/>{}", tokens(x, y, place.tokens));
        sheet.text("", x, y + PLACE + 13.0, &place.name);
    }
    for (index, transition) in net.transitions().iter().enumerate() {
        writable(&transition.name)?;
        let (x, y) = layout.transition(index);
        let (half, fill) = bar(&transition.kind);
        sheet.out += &format!(
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{fill}\" stroke=\"#111\" stroke-width=\"1.4\"/>",
            x - half,
            y - BAR,
            2.0 * half,
            2.0 * BAR
        );
        sheet.text("", x, y + BAR + 12.0, &transition.name);
        sheet.text("t", x, y - BAR - 5.0, &timing(net, &transition.kind));
    }
    Ok(sheet.page(net.name()))
}

/// What is drawn, and how far it reaches.
struct Sheet {
    out: String,
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

impl Sheet {
    fn page(self, name: &str) -> String {
        let (left, top) = (self.left.floor(), self.top.floor());
        let (width, height) = ((self.right - left).ceil(), (self.bottom - top).ceil());
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" xml:space=\"preserve\" viewBox=\"{left:.0} {top:.0} {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\">\n\
             <title>{}</title>\n{HEAD}<rect x=\"{left:.0}\" y=\"{top:.0}\" width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{}</svg>\n",
            escape(name),
            self.out
        )
    }

    fn reach(&mut self, x: f64, y: f64) {
        self.left = self.left.min(x - FREE);
        self.right = self.right.max(x + FREE);
        self.top = self.top.min(y - FREE);
        self.bottom = self.bottom.max(y + FREE);
    }

    /// A text around `x`; what is too long is cut, and whole where the mouse rests.
    fn text(&mut self, class: &str, x: f64, y: f64, text: &str) {
        let (drawn, title) = if text.chars().count() > LONG {
            let start: String = text.chars().take(LONG - 1).collect();
            (format!("{}…", start.trim_end()), format!("<title>{}</title>", escape(text)))
        } else {
            (text.to_owned(), String::new())
        };
        let half: f64 = drawn.chars().map(|next| if next.is_ascii() { 3.4 } else { 5.5 }).sum();
        self.reach(x - half, y);
        self.reach(x + half, y);
        self.label(class, x, y, &title, &escape(&drawn));
        self.out.push('\n');
    }

    /// What is written, over its own outline in white: not all that show pictures know of one that is painted first.
    fn label(&mut self, class: &str, x: f64, y: f64, title: &str, text: &str) {
        let at = format!("x=\"{x:.1}\" y=\"{y:.1}\"");
        let with = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        let halo = [class, "h"].join(" ");
        self.out += &format!(
            "<text class=\"{}\" {at} aria-hidden=\"true\">{text}</text><text{with} {at}>{title}{text}</text>",
            halo.trim_start()
        );
    }

    /// An arc; straight to the right, and bent where it goes back or up and down, so that a pair of arcs can be told apart. One that stops is
    /// bent half as much as one that goes back: turned round, both lie on one side.
    fn curve(&mut self, from: Shape, to: Shape, count: u64, class: &str, left: bool) {
        let (dx, dy) = (to.x - from.x, to.y - from.y);
        let length = dx.hypot(dy).max(1.0);
        let bend = match class {
            "s" => (0.09 * length).min(35.0),
            _ if dx > 1.0 => 0.0,
            _ => (0.18 * length).min(70.0),
        };
        let bend = if left { bend } else { -bend };
        let middle =
            ((from.x + to.x) / 2.0 - dy / length * bend * 2.0, (from.y + to.y) / 2.0 + dx / length * bend * 2.0);
        let (start, end) = (from.border(middle), to.border(middle));
        let half = ((start.0 + 2.0 * middle.0 + end.0) / 4.0, (start.1 + 2.0 * middle.1 + end.1) / 4.0);
        self.reach(half.0, half.1);
        self.out += &format!(
            "<path class=\"{class}\" d=\"M{:.1} {:.1}Q{:.1} {:.1} {:.1} {:.1}\"/>",
            start.0, start.1, middle.0, middle.1, end.0, end.1
        );
        if count != 1 {
            let (x, y) = (half.0, half.1 - 3.0);
            self.label("", x, y, "", &count.to_string());
            self.reach(x, y - 10.0);
        }
        self.out.push('\n');
    }
}

/// Half of the width of a transition, and its colour.
fn bar(kind: &Kind) -> (f64, &'static str) {
    match kind {
        Kind::Timed { .. } => (5.0, "#fff"),
        Kind::Immediate { .. } => (2.0, "#111"),
        Kind::Deterministic { .. } => (5.0, "#111"),
        Kind::Phase(_) => (5.0, "#999"),
    }
}

fn tokens(x: f64, y: f64, count: u64) -> String {
    let dots: &[(f64, f64)] = match count {
        0 => &[],
        1 => &[(0.0, 0.0)],
        2 => &[(-5.0, 0.0), (5.0, 0.0)],
        3 => &[(-5.0, 4.0), (5.0, 4.0), (0.0, -5.0)],
        _ => return format!("<text x=\"{x:.1}\" y=\"{:.1}\">{count}</text>", y + 4.0),
    };
    dots.iter()
        .map(|(dx, dy)| format!("<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"#111\"/>", x + dx, y + dy))
        .collect()
}

/// A node as arcs see it: its middle and half of its sides; a circle has no corners.
#[derive(Clone, Copy)]
struct Shape {
    x: f64,
    y: f64,
    half: (f64, f64),
    round: bool,
}

impl Shape {
    fn circle((x, y): (f64, f64)) -> Self {
        Self { x, y, half: (PLACE, PLACE), round: true }
    }

    fn bar((x, y): (f64, f64), kind: &Kind) -> Self {
        Self { x, y, half: (bar(kind).0, BAR), round: false }
    }

    /// Where the line from the middle towards `to` leaves.
    fn border(self, to: (f64, f64)) -> (f64, f64) {
        let (dx, dy) = (to.0 - self.x, to.1 - self.y);
        let length = dx.hypot(dy).max(1e-9);
        let part = if self.round {
            PLACE / length
        } else {
            (self.half.0 / dx.abs().max(1e-9)).min(self.half.1 / dy.abs().max(1e-9))
        };
        (self.x + dx * part, self.y + dy * part)
    }
}

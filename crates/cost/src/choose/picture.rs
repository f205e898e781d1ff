//! The front as a picture: time against cost, colours for strength, bars for intervals; what is beaten is grey and says by whom. Below stand
//! the settings of the front by their numbers, the first choice in front, then the quickest.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::{Choice, Outcome, short};
use crate::draw::{escaped, nice};

const WIDTH: f64 = 940.0;
const HEIGHT: f64 = 560.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 250.0;
const TOP: f64 = 64.0;
const BOTTOM: f64 = 62.0;
/// So many times the longest time that is shown lies out of the picture, and so does what of an interval is farther from its time.
const FAR: f64 = 3.0;
/// Of a setting that is named below.
const ROW: f64 = 18.0;
/// Settings that are named, at most.
const NAMED: usize = 12;
/// What is left free at the right edge.
const EDGE: f64 = 8.0;
/// From weak to strong; people with any kind of colour vision tell them apart.
const COLOURS: [&str; 6] = ["#cc79a7", "#e69f00", "#56b4e9", "#d55e00", "#009e73", "#0072b2"];
const GREY: &str = "#b5b5b5";
/// Grey dots, at most: the picture stays one that a browser shows.
const MOST: usize = 5000;

/// A point, how far its interval reaches to the left and to the right, and half of the other.
type Shown = ((f64, f64), (f64, f64, f64));

/// Where the axes begin and end.
struct Frame {
    x: (f64, f64),
    y: (f64, f64),
}

impl Frame {
    fn x(&self, milliseconds: f64) -> f64 {
        LEFT + part(self.x, milliseconds) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, cost: f64) -> f64 {
        HEIGHT - BOTTOM - part(self.y, cost) * (HEIGHT - TOP - BOTTOM)
    }

    fn holds(&self, point: (f64, f64)) -> bool {
        point.0 <= self.x.1 && point.1 <= self.y.1
    }
}

fn part((least, most): (f64, f64), value: f64) -> f64 {
    ((value - least) / (most - least)).clamp(0.0, 1.0)
}

/// Where an axis begins: at 0, unless all lies in its farther half.
fn begins(least: f64, most: f64) -> f64 {
    if least < 0.5 * most {
        return 0.0;
    }
    // A round number with a margin below the least.
    let step = nice((most - least).max(most * 1e-3)) / 2.0;
    (((least - step / 2.0) / step).floor() * step).max(0.0)
}

/// What the picture is over.
struct Axes {
    money: bool,
    p99: bool,
}

impl Axes {
    fn point(&self, it: &Outcome) -> Option<(f64, f64)> {
        let time = if self.p99 { it.p99 } else { it.mean };
        let cost = if self.money { it.money? } else { it.cores * 1e3 };
        Some((time? * 1e3, cost))
    }

    fn reach(&self, it: &Outcome) -> (f64, f64, f64) {
        let half = |name: &str| it.plus_minus.get(name).copied().unwrap_or(0.0);
        let (name, time) = if self.p99 { ("p99", it.p99) } else { ("mean", it.mean) };
        let cost = if self.money { half("money") } else { half("cores") * 1e3 };
        let time = time.unwrap_or(0.0);
        // What may saturate has no end.
        let right = (it.high(name, time) - time).min(FAR * time);
        ((time - it.low(name, time)) * 1e3, right * 1e3, cost)
    }
}

/// Time against cost of all settings.
#[must_use]
pub fn svg(choice: &Choice) -> String {
    let all = &choice.settings;
    let axes = Axes {
        money: all.iter().any(|it| it.money.is_some()),
        p99: all.iter().all(|it| it.saturated || it.p99.is_some() || it.unsolved.is_some()),
    };
    let front: Vec<&Outcome> = choice.front.iter().map(|index| &all[*index]).collect();
    let first = choice.ranked.first().map(|index| &all[*index]);
    let wanted = if axes.p99 { choice.wanted.p99 } else { choice.wanted.mean }.map(|it| it * 1e3);
    // What is far from the front and from what is wanted stays outside.
    let shown = front.iter().copied().chain(first).filter_map(|it| axes.point(it).map(|at| (at, axes.reach(it))));
    let shown: Vec<Shown> = shown.collect();
    let most = |of: fn(&Shown) -> f64| shown.iter().map(of).fold(1e-9, f64::max);
    let right = most(|(at, reach)| at.0 + reach.1);
    // What is wanted lies far beyond all of them at times.
    let near = wanted.filter(|wanted| *wanted < FAR * right);
    let right = right.max(near.unwrap_or(0.0) * 1.1);
    let width = nice(right * 1.02);
    let high = most(|(at, reach)| at.1 + reach.2);
    // Beaten ones that are as quick are shown, too, unless they cost many times as much.
    let beaten = all.iter().filter_map(|it| axes.point(it)).filter(|at| at.0 <= width).map(|at| at.1);
    let high = nice(beaten.fold(high, f64::max).min(high * 4.0) * 1.05);
    let seen = || all.iter().filter_map(|it| axes.point(it)).filter(|at| at.0 <= width && at.1 <= high);
    let least = |of: fn((f64, f64)) -> f64| seen().map(of).fold(f64::INFINITY, f64::min);
    let empty = seen().next().is_none();
    let frame = if empty {
        Frame { x: (0.0, 1.0), y: (0.0, 1.0) }
    } else {
        Frame { x: (begins(least(|at| at.0), right), width), y: (begins(least(|at| at.1), high), high) }
    };
    let near = near.filter(|_| !empty);
    let named = named(choice);
    #[expect(clippy::cast_precision_loss, reason = "a dozen")]
    let whole = HEIGHT + ROW * (named.len() + usize::from(named.len() < front.len())) as f64 + 12.0;
    let mut svg = String::new();
    let _ = writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {whole}\" font-family=\"sans-serif\" font-size=\"12\">"
    );
    let _ = writeln!(svg, "<rect width=\"{WIDTH}\" height=\"{whole}\" fill=\"white\"/>");
    titles(&mut svg, &frame, &axes, choice, empty);
    let mut outside = 0;
    let beaten = all.iter().filter(|it| !it.on_front);
    for (count, it) in beaten.filter(|it| axes.point(it).is_some()).enumerate() {
        let Some(at) = axes.point(it).filter(|at| frame.holds(*at) && count < MOST) else {
            outside += 1;
            continue;
        };
        let by = it.beaten_by.map_or_else(String::new, |by| format!("\nbeaten by: {}", all[by].setting.join("; ")));
        dot(&mut svg, &frame, at, GREY, it, &by);
    }
    let strengths: BTreeSet<u32> = front.iter().map(|it| it.strength.unwrap_or(0)).collect();
    let strengths: Vec<u32> = strengths.into_iter().collect();
    let colour = |it: &Outcome| {
        let place = strengths.iter().position(|bits| *bits == it.strength.unwrap_or(0)).unwrap_or(0);
        COLOURS[(place + COLOURS.len().saturating_sub(strengths.len())) % COLOURS.len()]
    };
    if let (Some(wanted), None) = (wanted, near) {
        let (x, y) = (WIDTH - RIGHT - 4.0, TOP + 12.0);
        let wanted = short(wanted);
        let _ = writeln!(
            svg,
            "<text x=\"{x}\" y=\"{y}\" text-anchor=\"end\" fill=\"#444\">wanted: {wanted} ms \u{2192}</text>"
        );
    }
    if let Some(wanted) = near {
        let (x, bottom) = (frame.x(wanted), HEIGHT - BOTTOM);
        let _ = writeln!(svg, "<path d=\"M{x:.1} {TOP}V{bottom:.1}\" stroke=\"#444\" stroke-dasharray=\"6 4\"/>");
        let _ = writeln!(svg, "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"#444\">wanted</text>", x + 4.0, TOP + 12.0);
    }
    for it in &front {
        let Some(at) = axes.point(it) else { continue };
        bars(&mut svg, &frame, at, axes.reach(it), colour(it));
        let fails: Vec<&str> = it.fails.iter().map(|fail| fail.why.as_str()).collect();
        let fails = if fails.is_empty() { String::new() } else { format!("\nfails: {}", fails.join("; ")) };
        dot(&mut svg, &frame, at, colour(it), it, &fails);
    }
    legend(&mut svg, &strengths, &|bits| {
        front.iter().find(|it| it.strength.unwrap_or(0) == bits).map_or(GREY, |it| colour(it))
    });
    if let Some(at) = first.and_then(|it| axes.point(it)) {
        let (x, y) = (frame.x(at.0), frame.y(at.1));
        let _ = writeln!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"8\" fill=\"none\" stroke=\"black\" stroke-width=\"1.5\"/>"
        );
        // To the left where the legend is near.
        let (x, anchor) = if x > WIDTH - RIGHT - 90.0 { (x - 14.0, "end") } else { (x + 14.0, "start") };
        let y = if y < TOP + 36.0 { y + 26.0 } else { y - 22.0 };
        let _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-weight=\"bold\">first choice</text>"
        );
    }
    let unsolved = all.iter().filter(|it| it.unsolved.is_some()).count();
    let saturated = all.iter().filter(|it| axes.point(it).is_none()).count() - unsolved;
    let left_out =
        [(saturated, "cannot carry what comes"), (outside, "beaten ones lie outside"), (unsolved, "were not solved")];
    let notes: Vec<String> =
        left_out.iter().filter(|(count, _)| *count > 0).map(|(count, why)| format!("{count} {why}")).collect();
    let (x, mut y) = (WIDTH - RIGHT + 16.0, HEIGHT - BOTTOM - ROW * 3.0);
    let head = (!notes.is_empty()).then(|| "not shown:".to_owned());
    for note in head.iter().chain(&notes) {
        let note = fitting(note, WIDTH - EDGE - x);
        let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y}\" fill=\"#777\">{note}</text>");
        y += ROW;
    }
    names(&mut svg, choice, &named, &frame, &axes);
    svg.push_str("</svg>\n");
    svg
}

fn titles(svg: &mut String, frame: &Frame, axes: &Axes, choice: &Choice, empty: bool) {
    let (all, feasible) = (choice.settings.len(), choice.ranked.len());
    let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"26\" font-size=\"16\">What each setting costs</text>");
    let about = format!("{all} settings, {feasible} can be chosen, {} are beaten by no other", choice.front.len());
    let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"46\" fill=\"#555\">{about}</text>");
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    if empty {
        let (x, y) = (f64::midpoint(LEFT, right), f64::midpoint(TOP, bottom));
        let _ = writeln!(
            svg,
            "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\" fill=\"#555\">no setting has a time</text>"
        );
    }
    for step in (0..=5).filter(|_| !empty) {
        let at = |(least, most): (f64, f64)| least + (most - least) * f64::from(step) / 5.0;
        let (x, y) = (frame.x(at(frame.x)), frame.y(at(frame.y)));
        let _ = writeln!(svg, "<path d=\"M{LEFT} {y:.1}H{right}\" stroke=\"#e4e4e4\"/>");
        let label = short(at(frame.y));
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>", LEFT - 8.0, y + 4.0);
        let label = short(at(frame.x));
        let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{label}</text>", bottom + 18.0);
    }
    let x = if axes.p99 { "99 % of the requests are faster, ms" } else { "mean time of a request, ms" };
    let y = if axes.money { "money an hour" } else { "core milliseconds of a request" };
    let middle = f64::midpoint(LEFT, right);
    let _ = writeln!(svg, "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{x}</text>", HEIGHT - 18.0);
    let middle = f64::midpoint(TOP, bottom);
    let _ = writeln!(svg, "<text transform=\"translate(20 {middle}) rotate(-90)\" text-anchor=\"middle\">{y}</text>");
}

/// The settings that are named: the first choice, then those of the front, the quickest first.
fn named(choice: &Choice) -> Vec<usize> {
    let first = choice.ranked.first().copied();
    let others = choice.front.iter().copied().filter(|index| Some(*index) != first);
    first.into_iter().chain(others).take(NAMED).collect()
}

/// Numbers at their dots, and what they stand for.
fn names(svg: &mut String, choice: &Choice, named: &[usize], frame: &Frame, axes: &Axes) {
    let mut y = HEIGHT + 6.0;
    let mut taken: Vec<(f64, f64)> = Vec::new();
    for (number, it) in named.iter().map(|index| &choice.settings[*index]).enumerate() {
        let number = number + 1;
        if let Some(at) = axes.point(it).filter(|at| frame.holds(*at)) {
            let (mut x, y) = (frame.x(at.0) + 6.0, frame.y(at.1) + 14.0);
            // Beside the numbers of dots that are as near.
            while taken.iter().any(|(other, height)| (x - other).abs() < 12.0 && (y - height).abs() < 9.0) {
                x += 13.0;
            }
            taken.push((x, y));
            let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"10\">{number}</text>");
        }
        let words = fitting(&it.setting.join("; "), WIDTH - EDGE - LEFT);
        let fails = if it.fails.is_empty() { "black" } else { "#777" };
        let left = LEFT - 10.0;
        let _ = writeln!(svg, "<text x=\"{left}\" y=\"{y}\" text-anchor=\"end\" fill=\"{fails}\">{number}</text>");
        let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"{y}\" fill=\"{fails}\">{}</text>", escaped(&words));
        y += ROW;
    }
    let more = choice.front.iter().filter(|index| !named.contains(index)).count();
    if more > 0 {
        let words = format!("and {more} more that no other beats: all of them in the answer as CSV or JSON");
        let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"{y}\" fill=\"#777\">{words}</text>");
    }
}

/// As much of a text as is sure to have room, in the widest of the letters that people mostly have.
fn fitting(text: &str, room: f64) -> String {
    let all: f64 = text.chars().map(width).sum();
    if all <= room {
        return text.to_owned();
    }
    let mut used = width('\u{2026}');
    let fits = |letter: &char| {
        used += width(*letter);
        used <= room
    };
    text.chars().take_while(fits).chain(std::iter::once('\u{2026}')).collect()
}

/// How wide a letter is at most, in DejaVu Sans or narrower ones, and what is written in squares.
fn width(letter: char) -> f64 {
    const SIZE: f64 = 12.0;
    SIZE * match letter {
        'i' | 'j' | 'l' | '\'' | ' ' | '.' | ',' | ';' | ':' | '|' | 'I' => 0.34,
        'f' | 't' | 'r' | '-' | '(' | ')' | '/' => 0.42,
        'm' | 'w' | 'M' | 'W' | '@' | '%' | '\u{2026}' => 1.0,
        'a'..='z' | '0'..='9' => 0.64,
        'A'..='Z' => 0.79,
        letter if letter.is_ascii() => 0.84,
        _ => 1.1,
    }
}

/// A dot that says what it is when it is pointed at.
fn dot(svg: &mut String, frame: &Frame, at: (f64, f64), colour: &str, it: &Outcome, more: &str) {
    let (x, y) = (frame.x(at.0), frame.y(at.1));
    // Hollow is what cannot be chosen.
    let (fill, radius) = if it.fails.is_empty() { (colour, 3.5) } else { ("white", 3.0) };
    let said = escaped(&format!("{}{more}", it.setting.join("; ")));
    let _ = writeln!(
        svg,
        "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{fill}\" stroke=\"{colour}\"><title>{said}</title></circle>"
    );
}

/// Intervals as bars in both directions.
fn bars(svg: &mut String, frame: &Frame, at: (f64, f64), reach: (f64, f64, f64), colour: &str) {
    let (x, y) = (frame.x(at.0), frame.y(at.1));
    let (left, right, half) = reach;
    if left + right > 0.0 {
        let (low, high) = (frame.x(at.0 - left), frame.x(at.0 + right));
        let _ = writeln!(
            svg,
            "<path d=\"M{low:.1} {y:.1}H{high:.1}\" stroke=\"{colour}\" stroke-width=\"5\" stroke-opacity=\"0.35\"/>"
        );
    }
    if half > 0.0 {
        let (low, high) = (frame.y(at.1 - half), frame.y(at.1 + half));
        let _ = writeln!(
            svg,
            "<path d=\"M{x:.1} {low:.1}V{high:.1}\" stroke=\"{colour}\" stroke-width=\"5\" stroke-opacity=\"0.35\"/>"
        );
    }
}

fn legend(svg: &mut String, strengths: &[u32], colour: &dyn Fn(u32) -> &'static str) {
    let x = WIDTH - RIGHT + 24.0;
    let mut y = TOP + 6.0;
    let mut line = |svg: &mut String, fill: &str, stroke: &str, words: &str| {
        let _ = writeln!(svg, "<circle cx=\"{x}\" cy=\"{y}\" r=\"4\" fill=\"{fill}\" stroke=\"{stroke}\"/>");
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{}\">{}</text>", x + 12.0, y + 4.0, escaped(words));
        y += 20.0;
    };
    for bits in strengths.iter().rev() {
        let words = if *bits == 0 { "nothing, or SHA-1".to_owned() } else { format!("{bits} bits at its weakest") };
        line(svg, colour(*bits), colour(*bits), &words);
    }
    line(svg, GREY, GREY, "beaten by another");
    line(svg, "white", "#777", "hollow: fails a constraint");
}

//! The front as a picture: time against cost, colours for strength, bars for intervals; what is beaten is grey and says by whom. Below stand
//! the settings of the front by their numbers, the first choice in front, then the quickest.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::labels::Labels;
use super::{Choice, Outcome, short};
use crate::draw::escaped;

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
/// Lines of a name, at most.
const LINES: usize = 3;
/// What is left free at the right edge.
const EDGE: f64 = 8.0;
/// Of strengths up to so many bits, the same in each picture; people with any kind of colour vision tell them apart.
const COLOURS: [(u32, &str); 6] =
    [(0, "#d55e00"), (111, "#e69f00"), (127, "#009e73"), (191, "#0072b2"), (255, "#56b4e9"), (u32::MAX, "#cc79a7")];
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

/// Where an axis begins and ends, and the numbers that stand at it: it begins at 0, unless all lies in its farther half.
fn axis(least: f64, most: f64) -> (f64, f64) {
    let begin = if least < 0.5 * most { 0.0 } else { least - 0.08 * (most - least).max(most * 1e-3) };
    let step = step(begin, most);
    ((begin / step).floor() * step, (most / step).ceil() * step)
}

/// The distance of numbers at an axis: one, two or five of a power of ten, so that some five fit.
fn step(least: f64, most: f64) -> f64 {
    let rough = (most - least) / 5.0;
    let power = 10_f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|step| step * power).find(|step| *step >= rough * 0.8).unwrap_or(10.0 * power)
}

/// The numbers at an axis, none of which lies before it: it begins at a number of its step, which over the whole of it may be a wider one.
fn numbers((least, most): (f64, f64)) -> impl Iterator<Item = f64> {
    let step = step(least, most);
    let first = (least / step - 1e-6).ceil();
    (0..24).map(move |nth| (first + f64::from(nth)) * step).take_while(move |at| *at <= most + step * 1e-6)
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

impl Axes {
    /// In what no other beats those of the front: not all of it has an axis.
    fn compared(&self, choice: &Choice) -> String {
        let all = &choice.settings;
        let differs = |of: fn(&Outcome) -> Option<f64>| {
            let mut known = all.iter().filter_map(of);
            let first = known.next();
            first.is_some_and(|first| known.any(|other| other != first))
        };
        let mut parts = vec!["security", "time"];
        parts.push("cores");
        parts.extend(differs(|it| it.energy).then_some("energy"));
        parts.extend(self.money.then_some("money"));
        parts.extend(differs(|it| it.availability).then_some("availability"));
        let last = parts.pop().unwrap_or_default();
        format!("{} and {last}", parts.join(", "))
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
    let latest = right * 1.02;
    let high = most(|(at, reach)| at.1 + reach.2);
    // Beaten ones that are as quick are shown, too, unless they cost many times as much.
    let beaten = all.iter().filter_map(|it| axes.point(it)).filter(|at| at.0 <= latest).map(|at| at.1);
    let high = beaten.fold(high, f64::max).min(high * 4.0) * 1.05;
    let seen = || all.iter().filter_map(|it| axes.point(it)).filter(|at| at.0 <= latest && at.1 <= high);
    let least = |of: fn((f64, f64)) -> f64| seen().map(of).fold(f64::INFINITY, f64::min);
    let empty = seen().next().is_none();
    let frame = if empty {
        Frame { x: (0.0, 1.0), y: (0.0, 1.0) }
    } else {
        Frame { x: axis(least(|at| at.0), latest), y: axis(least(|at| at.1), high) }
    };
    let near = near.filter(|_| !empty);
    let named = named(choice);
    let list = list(choice, &named);
    #[expect(clippy::cast_precision_loss, reason = "some dozens")]
    let whole = HEIGHT + ROW * list.iter().map(|line| line.words.len()).sum::<usize>() as f64 + 12.0;
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
        bars(&mut svg, &frame, at, axes.reach(it), colour(it.strength));
        let fails: Vec<&str> = it.fails.iter().map(|fail| fail.why.as_str()).collect();
        let fails = if fails.is_empty() { String::new() } else { format!("\nfails: {}", fails.join("; ")) };
        dot(&mut svg, &frame, at, colour(it.strength), it, &fails);
    }
    legend(&mut svg, &strengths);
    let place = |it: &Outcome| axes.point(it).filter(|at| frame.holds(*at)).map(|at| (frame.x(at.0), frame.y(at.1)));
    // Grey dots may be covered: of those there are thousands at times.
    let inside = [LEFT, TOP, WIDTH - RIGHT + 10.0, HEIGHT - BOTTOM];
    let mut labels = Labels::new(inside, front.iter().copied().chain(first).filter_map(place));
    let ring = first.and_then(place);
    ring.into_iter().for_each(|dot| labels.cover(dot, 9.0));
    for (nth, at) in named.iter().enumerate().filter_map(|(nth, index)| Some((nth, place(&all[*index])?))) {
        let number = (nth + 1).to_string();
        let wide = number.chars().map(width).sum::<f64>() * 10.0 / 12.0;
        labels.put(&mut svg, at, wide, 10.0, &number, "");
    }
    if let Some((x, y)) = ring {
        let _ = writeln!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"8\" fill=\"none\" stroke=\"black\" stroke-width=\"1.5\"/>"
        );
        let words = "first choice";
        let wide = words.chars().map(width).sum();
        labels.put(&mut svg, (x, y), wide, 12.0, words, " font-weight=\"bold\"");
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
    names(&mut svg, &list);
    svg.push_str("</svg>\n");
    svg
}

fn titles(svg: &mut String, frame: &Frame, axes: &Axes, choice: &Choice, empty: bool) {
    let (all, feasible) = (choice.settings.len(), choice.ranked.len());
    let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"26\" font-size=\"16\">What each setting costs</text>");
    let kept = choice.front.len();
    let are = if kept == 1 { "is" } else { "are" };
    let about = format!(
        "{all} settings, {feasible} can be chosen, {kept} {are} beaten by no other in {}",
        axes.compared(choice)
    );
    let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"46\" fill=\"#555\">{about}</text>");
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    if empty {
        let (x, y) = (f64::midpoint(LEFT, right), f64::midpoint(TOP, bottom));
        let _ = writeln!(
            svg,
            "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\" fill=\"#555\">no setting has a time</text>"
        );
    }
    for at in numbers(frame.y).filter(|_| !empty) {
        let (y, label) = (frame.y(at), short(at));
        let _ = writeln!(svg, "<path d=\"M{LEFT} {y:.1}H{right}\" stroke=\"#e4e4e4\"/>");
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>", LEFT - 8.0, y + 4.0);
    }
    for at in numbers(frame.x).filter(|_| !empty) {
        let (x, label) = (frame.x(at), short(at));
        let _ = writeln!(svg, "<path d=\"M{x:.1} {bottom}v4\" stroke=\"#999\"/>");
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

/// A setting that is named: its number, and what it is, in lines that have room.
struct Named {
    number: String,
    words: Vec<String>,
    colour: &'static str,
}

/// What stands below the picture. What all of the named have in common is said once.
fn list(choice: &Choice, named: &[usize]) -> Vec<Named> {
    let grey = |words: String| Named { number: String::new(), words: lines(&words), colour: "#777" };
    let of = |index: &usize| &choice.settings[*index];
    let common = |part: &String| named.len() > 1 && named.iter().all(|index| of(index).setting.contains(part));
    let shared: Vec<&str> = named
        .first()
        .map(of)
        .into_iter()
        .flat_map(|it| &it.setting)
        .filter(|part| common(part))
        .map(String::as_str)
        .collect();
    let mut list = Vec::new();
    if !shared.is_empty() {
        list.push(grey(format!("in each: {}", shared.join("; "))));
    }
    for (number, it) in (1..).zip(named.iter().map(of)) {
        let own: Vec<&str> = it.setting.iter().filter(|part| !common(part)).map(String::as_str).collect();
        let words = if own.is_empty() { it.setting.join("; ") } else { own.join("; ") };
        let colour = if it.fails.is_empty() { "black" } else { "#777" };
        list.push(Named { number: format!("{number}"), words: lines(&words), colour });
    }
    let more = choice.front.iter().filter(|index| !named.contains(index)).count();
    if more > 0 {
        list.push(grey(format!("and {more} more that no other beats: all of them in the answer as CSV or JSON")));
    }
    list
}

/// Numbers and what they stand for.
fn names(svg: &mut String, list: &[Named]) {
    let mut y = HEIGHT + 6.0;
    for Named { number, words, colour } in list {
        let left = LEFT - 10.0;
        let _ = writeln!(svg, "<text x=\"{left}\" y=\"{y}\" text-anchor=\"end\" fill=\"{colour}\">{number}</text>");
        for words in words {
            let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"{y}\" fill=\"{colour}\">{}</text>", escaped(words));
            y += ROW;
        }
    }
}

/// A text in lines, at most three.
fn lines(text: &str) -> Vec<String> {
    let room = WIDTH - EDGE - LEFT;
    let wide = |text: &str| text.chars().map(width).sum::<f64>();
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let full = lines.len() == LINES;
        match lines.last_mut() {
            Some(last) if last.is_empty() => last.push_str(word),
            Some(last) if full || wide(last) + wide(" ") + wide(word) <= room => *last = format!("{last} {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    lines.iter().map(|line| fitting(line, room)).collect()
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

fn colour(strength: Option<u32>) -> &'static str {
    let bits = strength.unwrap_or(0);
    COLOURS.iter().find(|(most, _)| bits <= *most).map_or(GREY, |(_, colour)| colour)
}

fn legend(svg: &mut String, strengths: &BTreeSet<u32>) {
    let x = WIDTH - RIGHT + 24.0;
    let mut y = TOP + 6.0;
    let mut line = |svg: &mut String, fill: &str, stroke: &str, words: &str| {
        let _ = writeln!(svg, "<circle cx=\"{x}\" cy=\"{y}\" r=\"4\" fill=\"{fill}\" stroke=\"{stroke}\"/>");
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{}\">{}</text>", x + 12.0, y + 4.0, escaped(words));
        y += 20.0;
    };
    for bits in strengths.iter().rev() {
        let words = if *bits == 0 { "nothing, or SHA-1".to_owned() } else { format!("{bits} bits at its weakest") };
        line(svg, colour(Some(*bits)), colour(Some(*bits)), &words);
    }
    line(svg, GREY, GREY, "beaten by another");
    line(svg, "white", "#777", "hollow: fails a constraint");
}

//! When a transition of PNML fires: by what the net says, or by what stands in a file of rates and has to agree with the rest that the net
//! says.

use roxmltree::Node;

use super::pnml::count;
use super::xml;
use crate::Refusal;
use crate::net::{Kind, Rate, Servers};

/// What the net says.
#[derive(Debug, Default)]
pub(super) struct Said {
    rate: Option<f64>,
    timed: Option<bool>,
    priority: Option<u64>,
    infinite: Option<bool>,
}

impl Said {
    /// Takes what an element says, with its text; whether it says anything of times.
    pub(super) fn take(&mut self, child: Node<'_, '_>, text: &str, called: &str) -> Result<bool, Refusal> {
        match xml::name(child) {
            "rate" => self.rate = Some(number(text, called)?),
            "timed" => self.timed = Some(truth(text, "timed", called)?),
            "infiniteServer" => self.infinite = Some(truth(text, "infiniteServer", called)?),
            "priority" => self.priority = Some(count(child, called)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Whether it says nothing of when it fires, but perhaps of servers and priorities.
    pub(super) fn open(&self) -> bool {
        self.timed.is_none() && self.rate.is_none()
    }

    /// What the net says; none where it does not say when it fires. `lift` is added to its priority.
    pub(super) fn kind(&self, called: &str, lift: u64) -> Result<Option<Kind>, Refusal> {
        match (self.timed, self.rate) {
            (None, None) => Ok(None),
            (None, Some(_)) => Err(Refusal::invalid(
                called,
                "it has a `rate`, and `timed` is missing: write `<timed><value>true</value></timed>` if `rate` is that of an \
                 exponential time, with `false` if it is the weight of an immediate transition",
            )),
            (Some(true), rate) => {
                let rate = rate.ok_or_else(|| Refusal::invalid(called, "a timed transition needs `rate`"))?;
                // PIPE writes a priority everywhere and heeds it among immediates only.
                let servers = if self.infinite == Some(true) { Servers::Infinite } else { Servers::Finite(1) };
                Ok(Some(Kind::Timed { rate: Rate::Constant(rate), servers }))
            }
            (Some(false), rate) => {
                let priority = self.priority.unwrap_or(1).saturating_add(lift);
                let priority = u32::try_from(priority)
                    .map_err(|_| Refusal::invalid(called, format!("`priority` is {priority}: too large")))?;
                Ok(Some(Kind::Immediate { weight: rate.unwrap_or(1.0), priority, by: None }))
            }
        }
    }

    /// Why there may be no entry in the file of rates.
    pub(super) fn twice(&self, called: &str) -> Refusal {
        let why = match self.timed {
            Some(_) => "a rate is given beside the net, which has one for it: take one of both out",
            None => {
                "a rate is given beside the net, which has a `rate` for it, too, where `timed` is missing: take `rate` out of the net; or \
                 the entry out of the file of rates, and write `<timed><value>true</value></timed>` if it is that of an exponential time, \
                 with `false` if it is the weight of an immediate transition"
            }
        };
        Refusal::invalid(called, why)
    }

    /// Whether its priority is the lowest of files whose priorities begin at 0, if it fires at once.
    pub(super) fn lowest(&self) -> bool {
        self.priority == Some(0) && self.timed != Some(true)
    }

    /// Refuses servers and a priority of the net that are not those of the file of rates: one of both would be passed over in silence.
    pub(super) fn agrees(&self, kind: &Kind, called: &str, lift: u64) -> Result<(), Refusal> {
        let refused = |why: String| Err(Refusal::invalid(called, why));
        let many = |servers: &Servers| match servers {
            Servers::Finite(1) => "one server".to_owned(),
            Servers::Finite(servers) => format!("{servers} servers"),
            Servers::Infinite => "infinitely many servers".to_owned(),
        };
        match (kind, self.infinite, self.priority) {
            (Kind::Timed { servers, .. }, Some(infinite), _) => {
                let (net, word) = if infinite { (Servers::Infinite, "\"inf\"") } else { (Servers::Finite(1), "1") };
                if *servers == net {
                    return Ok(());
                }
                refused(format!(
                    "its `infiniteServer` is `{infinite}`, and by the file of rates it has {}{}: say `\"servers\": {word}` there, or take \
                     `infiniteServer` out of the net",
                    many(servers),
                    if *servers == Servers::Finite(1) { ", as without `servers`" } else { "" }
                ))
            }
            (Kind::Deterministic { .. } | Kind::Phase(_), Some(true), _) => refused(
                "its `infiniteServer` is `true`, and the file of rates gives it a time that has one server: take `infiniteServer` out \
                 of the net"
                    .to_owned(),
            ),
            (Kind::Immediate { priority, .. }, _, Some(said)) if said.saturating_add(lift) != u64::from(*priority) => {
                refused(format!(
                    "its `priority` is `{said}`{}, and by the file of rates it is {priority}{}: say `\"priority\": {}` there, or take \
                     `priority` out of the net",
                    if lift > 0 { ", which is one more here, as the priorities of the net begin at 0" } else { "" },
                    if *priority == 1 { ", as without `priority`" } else { "" },
                    said.saturating_add(lift)
                ))
            }
            _ => Ok(()),
        }
    }
}

/// A rate or a weight.
fn number(text: &str, owner: &str) -> Result<f64, Refusal> {
    let number: f64 =
        text.parse().map_err(|_| Refusal::invalid(owner, format!("`rate` is `{text}`, and a number is wanted")))?;
    if number > 0.0 && number.is_finite() {
        return Ok(number);
    }
    // What is not 0, or has digits, is too small or too large to be held.
    let (mantissa, digit) = (text.split(['e', 'E']).next().unwrap_or_default(), |next: char| next.is_ascii_digit());
    let why = if number == 0.0 && mantissa.contains(|next| digit(next) && next != '0') {
        "too small for a number here"
    } else if number.is_infinite() && text.contains(digit) {
        "too large for a number here"
    } else {
        "above 0 and finite"
    };
    Err(Refusal::invalid(owner, format!("`rate` is `{text}`: {why}")))
}

fn truth(text: &str, key: &str, owner: &str) -> Result<bool, Refusal> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(Refusal::invalid(owner, format!("`{key}` is `{text}`: `true` or `false`"))),
    }
}

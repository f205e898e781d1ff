//! `/metrics`: the figures as OpenMetrics 1.0. The hot paths only count; names and text are made here, when somebody asks.
//! Labels are names of the configuration and words of our own: nothing that a peer sends becomes one.

use std::fmt;

use access_model::meter::Histogram;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use super::look::{Part, State, View};
use super::{Phase, ready};

/// The content type of the text.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Labels = Vec<(&'static str, String)>;

pub(super) fn text(view: View) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(view));
    let mut text = String::new();
    text::encode(&mut text, &registry)?;
    Ok(text)
}

impl Collector for View {
    #[expect(clippy::cast_precision_loss, reason = "microseconds of the present fit for two centuries")]
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let out = &mut encoder;
        let build = [vec![("version", env!("CARGO_PKG_VERSION").to_owned())]];
        let mut info = out.encode_descriptor("trapkey_build", "The program", None, MetricType::Info)?;
        info.encode_info(&build[0])?;
        let started = self.started.as_micros() as f64 / 1e6;
        let help = "When the program was started, of UNIX time: another time is another program";
        let unit = Some(&Unit::Seconds);
        let mut family = out.encode_descriptor("trapkey_start_time", help, unit, MetricType::Gauge)?;
        family.encode_gauge(&started)?;
        let phases = [Phase::Starting, Phase::Running, Phase::Draining];
        let phases = phases.map(|phase| (vec![("state", phase.word().to_owned())], u64::from(phase == self.phase)));
        gauges(out, "trapkey_state", "1 for how far the program has come", phases)?;
        self.ledger(out)?;
        self.authority(out)?;
        self.listeners(out)?;
        self.links(out)?;
        self.decisions(out)
    }
}

impl View {
    fn ledger(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let up = u64::from(self.ledger.is_available());
        gauges(out, "trapkey_ledger_up", "1 while the audit ledger takes records", [(Labels::new(), up)])?;
        let waiting = self.ledger.waiting as u64;
        gauges(out, "trapkey_ledger_backlog", "Audit records that wait to be written", [(Labels::new(), waiting)])?;
        let written = [(Labels::new(), self.ledger.sequence)];
        gauges(out, "trapkey_ledger_sequence", "Number of the last record in the audit ledger", written)?;
        let refused = [(Labels::new(), self.ledger.refused)];
        counters(out, "trapkey_ledger_refused", "Audit records that the ledger turned away", refused)?;
        let lost = [(Labels::new(), self.way.lost.get())];
        counters(out, "trapkey_ledger_lost", "Audit records that nobody awaited and that are lost", lost)?;
        let help = "From a record that somebody awaits to the word that it is kept";
        histograms(out, "trapkey_ledger_write", help, [(Labels::new(), &self.way.writes)])
    }

    fn authority(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Some(authority) = &self.authority else { return Ok(()) };
        let tokens = [("issued", authority.issued), ("refused", authority.refused)];
        let tokens = tokens.map(|(outcome, count)| (vec![("outcome", outcome.to_owned())], count));
        counters(out, "trapkey_authority_tokens", "Tokens that the authority issued, or refused to", tokens)?;
        let help = "How long tokens took to be decided, made and signed";
        histograms(out, "trapkey_authority_issue", help, [(Labels::new(), authority.whole.issuing())])?;
        let epoch = [(Labels::new(), authority.epoch.0)];
        gauges(out, "trapkey_authority_policy_epoch", "Number of the policy snapshot in force", epoch)
    }

    fn listeners(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let up = self.parts.iter().map(|part| (part.labels(), u64::from(part.state.is_some())));
        gauges(out, "trapkey_listener_up", "1 while the thread of a listener answers", up)?;
        let cpu = self.states().map(|(part, state)| (part.labels(), state.cpu.as_secs_f64()));
        let mut family = out.encode_descriptor(
            "trapkey_listener_cpu",
            "Processor time of the thread of a listener",
            Some(&Unit::Seconds),
            MetricType::Counter,
        )?;
        for (labels, seconds) in cpu {
            family.encode_family(&labels)?.encode_counter::<[(&str, &str); 0], _, f64>(&seconds, None)?;
        }
        let each = |get: fn(&State) -> usize| move |(part, state): (&Part, &State)| (part.labels(), get(state) as u64);
        let connections = self.states().map(each(|state| state.connections));
        gauges(out, "trapkey_connections", "Connections of clients", connections)?;
        gauges(out, "trapkey_sessions", "Sessions", self.states().map(each(|state| state.sessions)))?;
        gauges(out, "trapkey_subscriptions", "Subscriptions", self.states().map(each(|state| state.subscriptions)))?;
        gauges(
            out,
            "trapkey_grants",
            "Grants, those in their grace included",
            self.states().map(each(|state| state.grants)),
        )?;
        let held = self.states().flat_map(|(part, state)| {
            let (all, strangers) = state.held;
            let of = |peers, bytes: usize| (part.labelled("peers", peers), bytes as u64);
            [of("all", all), of("strangers", strangers)]
        });
        gauges(out, "trapkey_held_bytes", "Bytes held for clients: unsent, not answered yet, gathered for them", held)?;
        let stages = self.states().flat_map(|(part, state)| {
            let meters = &state.meters;
            let stages = [
                ("hello", &meters.hello),
                ("open_channel", &meters.open),
                ("create", &meters.create),
                ("activate", &meters.activate),
                ("activate_here", &meters.activate_here),
                ("authority", &meters.authority),
            ];
            stages.map(|(stage, histogram)| (part.labelled("stage", stage), histogram))
        });
        let help = "Stages of setting a session up: to Hello, to the open channel, each request to its answer, and of \
                    these what the authority was asked for and what is left without it";
        histograms(out, "trapkey_session_setup", help, stages)
    }

    fn links(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        use pep::FailState::{Closed, InStep, LastKnown, ReadOnly};
        let linked = || self.states().filter_map(|(part, state)| state.link.as_ref().map(|link| (part, state, link)));
        let all = [InStep, LastKnown, ReadOnly, Closed];
        let states = linked().flat_map(|(part, _, link)| {
            all.map(|state| (part.labelled("state", ready::word(state)), u64::from(state == link.state)))
        });
        gauges(out, "trapkey_authority_link", "1 for how a listener stands with its authority", states)?;
        let turns = || self.parts.iter().filter_map(|part| part.turn.map(|turn| (part, turn)));
        let active = turns().map(|(part, turn)| (part.labels(), u64::from(turn.active)));
        gauges(out, "trapkey_turn_active", "1 while a guard that another stands in for serves", active)?;
        let terms = turns().map(|(part, turn)| (part.labels(), turn.term));
        gauges(out, "trapkey_turn_term", "Number of the latest turn of such a guard", terms)?;
        let begun = turns().map(|(part, turn)| (part.labels(), turn.turns));
        counters(out, "trapkey_turns", "Turns that such a guard began", begun)?;
        let other = turns().map(|(part, turn)| (part.labels(), u64::from(turn.reached.0)));
        gauges(out, "trapkey_turn_other_up", "1 while the guard that stands in for it answers", other)?;
        let recorded = self.states().flat_map(|(part, state)| {
            all.map(|left| (part.labelled("state", ready::word(left)), u64::from(left == state.ledger)))
        });
        gauges(out, "trapkey_recording", "1 for what is left while nothing can be recorded", recorded)?;
        let zones = self.states().flat_map(|(part, state)| {
            state.zones.iter().flat_map(move |zone| {
                let left = zone.authority.max(zone.ledger);
                all.map(|state| {
                    let labels =
                        [part.labelled("state", ready::word(state)), vec![("zone", zone.name.clone())]].concat();
                    (labels, u64::from(state == left))
                })
            })
        });
        gauges(out, "trapkey_zone", "1 for what is left in a zone while something is lost", zones)?;
        let epochs = linked().filter_map(|(part, _, link)| Some((part.labels(), link.epoch?.0)));
        gauges(out, "trapkey_epoch", "Epoch of the last update of the authority", epochs)?;
        let lags = linked().map(|(part, state, _)| (part.labels(), &state.gate.lag));
        let help = "From when the authority signed that rights end or change to when they did, by the clocks of both";
        histograms(out, "trapkey_revocation_lag", help, lags)?;
        let upstream = || self.parts.iter().filter_map(|part| Some((part, part.upstream.as_ref()?)));
        let up = upstream().map(|(part, trouble)| (part.labels(), u64::from(trouble.is_none())));
        gauges(out, "trapkey_upstream_up", "1 while the server behind a guard is within reach", up)?;
        let guards = || upstream().filter_map(|(part, _)| Some((part.labels(), &part.state.as_ref()?.meters)));
        let help = "From a guard's call to its server until a session there is active, of those that become so";
        let opened = guards().map(|(labels, meters)| (labels, &meters.upstream_open));
        histograms(out, "trapkey_upstream_open", help, opened)?;
        let guards = guards().map(|(labels, meters)| (labels, &meters.upstream));
        histograms(out, "trapkey_upstream_latency", "From a guard's request to its server's answer", guards)
    }

    fn decisions(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let checks = self.states().map(|(part, state)| (part.labels(), state.gate.checks.get()));
        counters(out, "trapkey_decisions", "Items of requests and values that were decided", checks)?;
        let permits = self.states().map(|(part, state)| (part.labels(), state.gate.permits()));
        counters(out, "trapkey_permits", "Of these, those that were allowed", permits)?;
        let denials = self.states().flat_map(|(part, state)| {
            state.meters.denials().map(|(reason, count)| (part.labelled("reason", reason.word()), count))
        });
        let help = "Requests, items and connections that were turned away, as in the audit";
        counters(out, "trapkey_denials", help, denials)?;
        let times = self.states().map(|(part, state)| (part.labels(), &state.gate.decisions));
        histograms(out, "trapkey_decision", "How long decisions took, of one in 64", times)?;
        let times = self.states().map(|(part, state)| (part.labels(), &state.gate.tokens));
        histograms(out, "trapkey_token", "How long tokens took to be verified and their rights to be compiled", times)
    }

    fn states(&self) -> impl Iterator<Item = (&Part, &State)> {
        self.parts.iter().filter_map(|part| Some((part, part.state.as_ref()?)))
    }
}

impl Part {
    fn labels(&self) -> Labels {
        vec![("listener", self.name.clone()), ("kind", self.kind.to_owned())]
    }

    fn labelled(&self, name: &'static str, word: &str) -> Labels {
        let mut labels = self.labels();
        labels.push((name, word.to_owned()));
        labels
    }
}

fn gauges(
    out: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    samples: impl IntoIterator<Item = (Labels, u64)>,
) -> fmt::Result {
    let mut family = out.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in samples {
        family.encode_family(&labels)?.encode_gauge(&value)?;
    }
    Ok(())
}

fn counters(
    out: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    samples: impl IntoIterator<Item = (Labels, u64)>,
) -> fmt::Result {
    let mut family = out.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, value) in samples {
        family.encode_family(&labels)?.encode_counter::<[(&str, &str); 0], _, f64>(&value, None)?;
    }
    Ok(())
}

fn histograms<'a>(
    out: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    samples: impl IntoIterator<Item = (Labels, &'a Histogram)>,
) -> fmt::Result {
    let mut family = out.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)?;
    for (labels, histogram) in samples {
        #[expect(clippy::cast_precision_loss, reason = "bounds are small")]
        let within = |bound: Option<u64>| bound.map_or(f64::INFINITY, |nanos| nanos as f64 / 1e9);
        let buckets: Vec<(f64, u64)> = histogram.buckets().map(|(bound, count)| (within(bound), count)).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum = histogram.sum().as_secs_f64();
        let mut family = family.encode_family(&labels)?;
        family.encode_histogram::<[(&str, &str); 0]>(sum, count, &buckets, None)?;
    }
    Ok(())
}

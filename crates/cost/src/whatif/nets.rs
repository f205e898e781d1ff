//! The nets of a prediction.

use std::collections::VecDeque;

use gspn::ask::{Value, answer};
use gspn::{Budget, json};
use serde_json::{Value as Json, json};

use crate::{Class, Fault};

/// Threads for private keys, as `bench` starts them.
const KEY_THREADS: u32 = 2;
/// Stages of the times at a thread, times clients, at least; as of so many clients where there are fewer, and so many stages at least.
const STAGES: u32 = 384;
const FEWEST: u32 = 8;
const LEAST: u32 = 8;
/// Of the standard normal distribution: 50, 95 and 99 of 100 lie below.
const QUANTILES: [f64; 3] = [0.0, 1.644_853_626_951_472_2, 2.326_347_874_040_841];

/// Where the time of a request goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stages {
    pub(super) clients: u32,
    /// Seconds at the one thread of the clients.
    pub(super) client: f64,
    /// Seconds at the one thread of the server.
    pub(super) server: f64,
    /// Seconds at neither.
    pub(super) way: f64,
    /// Variance of the turns that a request waits for, in seconds squared.
    pub(super) turns: f64,
    /// Variance of what is at neither, in seconds squared.
    pub(super) beside: f64,
}

/// Seconds from a request to its answer: the mean, and what 50, 95 and 99 of 100 do not exceed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) mean: f64,
    pub(super) quantiles: [f64; 3],
}

/// Requests a second: clients go from one thread, which takes them one by one, to the other and back. How much the slower one rests
/// because nothing is there was measured and is in its time; so times at threads are as even as stages in a row can make them, or the net
/// would have it rest once more. With many clients fewer stages are the same: what they are off is one over both together.
pub(super) fn throughput(stages: &Stages, budget: &mut Budget<'_>) -> Result<f64, Fault> {
    let count = STAGES.div_ceil(stages.clients.max(FEWEST)).max(LEAST);
    let phase = |mean: f64| json!({"kind": "phase", "erlang": {"k": count, "rate": f64::from(count) / mean}});
    // Who is nowhere on its way is at the server at once: a time of nearly nothing would be rates that are far apart.
    let sent = if stages.way > 0.0 { "sent" } else { "arrived" };
    let mut transitions = vec![
        with(phase(stages.client), "client works", &[("asked", 1)], &[(sent, 1)], &[]),
        with(phase(stages.server), "server works", &[("arrived", 1)], &[("asked", 1)], &[]),
    ];
    if stages.way > 0.0 {
        let on = json!({"kind": "timed", "rate": 1.0 / stages.way, "servers": "inf"});
        transitions.push(with(on, "on its way", &[("sent", 1)], &[("arrived", 1)], &[]));
    }
    let places = json!([{"name": "asked", "tokens": stages.clients}, {"name": "sent"}, {"name": "arrived"}]);
    let ask = json!([{"id": "x", "kind": "throughput", "transition": "server works"}]);
    solve(&json!({"net": {"places": places, "transitions": transitions}, "ask": ask}), budget)
}

/// Seconds until everybody is connected again: each client has work for the server's thread, then for one of the threads for keys, and all of
/// them share the processors.
pub(super) fn storm(clients: u32, cores: u32, thread: f64, keys: f64, budget: &mut Budget<'_>) -> Result<f64, Fault> {
    let timed = |mean: f64, servers: u32| json!({"kind": "timed", "rate": 1.0 / mean.max(1e-12), "servers": servers});
    let at_once = json!({"kind": "immediate"});
    let transitions = vec![
        with(at_once.clone(), "serve", &[("waiting", 1), ("core", 1)], &[("served", 1)], &[("served", 1)]),
        with(timed(thread, 1), "thread works", &[("served", 1)], &[("asked", 1), ("core", 1)], &[]),
        with(at_once, "use", &[("asked", 1), ("core", 1)], &[("used", 1)], &[("used", KEY_THREADS)]),
        with(timed(keys, KEY_THREADS), "key works", &[("used", 1)], &[("connected", 1), ("core", 1)], &[]),
    ];
    let places = json!([
        {"name": "waiting", "tokens": clients}, {"name": "core", "tokens": cores.max(1)}, {"name": "served"}, {"name": "asked"},
        {"name": "used"}, {"name": "connected"}
    ]);
    let ask = json!([{"id": "x", "kind": "mtta"}]);
    solve(&json!({"net": {"places": places, "transitions": transitions}, "ask": ask}), budget)
}

/// Seconds until clients that begin at once are connected, where one thread does the work of all of them and one processor that of the server,
/// each first come, first served; of each exchange what the client and what the server does.
pub(super) fn together(clients: u32, exchanges: &[(f64, f64)]) -> f64 {
    // Clients that wait for each end, in order: since when, who, and in which exchange.
    let mut waiting = [VecDeque::new(), VecDeque::new()];
    waiting[0].extend((0..clients).map(|client| (0.0_f64, client, 0)));
    let (mut free, mut last) = ([0.0_f64; 2], 0.0_f64);
    loop {
        let begins = |end: usize| waiting[end].front().map(|(since, ..)| since.max(free[end]));
        let end = match (begins(0), begins(1)) {
            (Some(client), Some(server)) => usize::from(server < client),
            (Some(_), None) => 0,
            (None, Some(_)) => 1,
            (None, None) => return last,
        };
        let Some((since, client, exchange)) = waiting[end].pop_front() else { return last };
        let Some(&(asks, answers)) = exchanges.get(exchange) else { continue };
        free[end] = free[end].max(since) + if end == 0 { asks } else { answers };
        last = last.max(free[end]);
        waiting[1 - end].push_back((free[end], client, exchange + end));
    }
}

fn with(mut kind: Json, name: &str, from: &[(&str, u32)], to: &[(&str, u32)], unless: &[(&str, u32)]) -> Json {
    let arcs = |arcs: &[(&str, u32)]| -> Json {
        arcs.iter().map(|(place, count)| ((*place).to_owned(), json!(count))).collect()
    };
    if let Some(members) = kind.as_object_mut() {
        members.insert("name".into(), json!(name));
        members.insert("in".into(), arcs(from));
        members.insert("out".into(), arcs(to));
        members.insert("inhibit".into(), arcs(unless));
    }
    kind
}

/// The answer to the only question.
fn solve(document: &Json, budget: &mut Budget<'_>) -> Result<f64, Fault> {
    let document = json::read(document.to_string().as_bytes())?;
    let mut answered = answer(&document.net, &document.asks, budget)?;
    match answered.values.get("x") {
        Some(Value::Number(value)) => Ok(*value),
        #[expect(clippy::cast_precision_loss, reason = "no count is asked for")]
        Some(Value::Count(count)) => Ok(*count as f64),
        None => Err(answered
            .unanswered
            .remove("x")
            .map_or_else(|| Fault::new(Class::Unanswered, "net", "the net has no answer"), Fault::from)),
    }
}

/// From a request to its answer: the mean by Little's law; its quantiles are those of a gamma distribution with the variance of what it waits
/// for, by the formula of Wilson and Hilferty (1931).
pub(super) fn response(stages: &Stages, throughput: f64) -> Times {
    let mean = f64::from(stages.clients) / throughput;
    let variance = stages.turns + stages.beside;
    let shape = if variance > 0.0 { mean * mean / variance } else { 1e12 };
    let quantile = |z: f64| mean * (1.0 - 1.0 / (9.0 * shape) + z / (9.0 * shape).sqrt()).max(0.0).powi(3);
    Times { mean, quantiles: QUANTILES.map(quantile) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(value: f64, wanted: f64) {
        assert!((value / wanted - 1.0).abs() < 1e-9, "{value}, not {wanted}");
    }

    #[test]
    fn who_is_nowhere_on_its_way_is_no_state_of_a_net() {
        let mut go_on = |_| true;
        let mut few = Budget::new(gspn::Limits { markings: 400, ..gspn::Limits::default() }, &mut go_on);
        let stages = Stages { clients: 64, client: 2e-6, server: 5e-6, way: 0.0, turns: 0.0, beside: 0.0 };
        // One of the two never rests, but for one turn in a great many.
        close(throughput(&stages, &mut few).unwrap(), 2e5);
        let rare = Stages { way: 1e-9, ..stages };
        let mut all = Budget::new(gspn::Limits::default(), &mut go_on);
        close(throughput(&rare, &mut all).unwrap(), 2e5);
    }

    /// Turns that spread as exponential times do, which is the most: their sum has the shape of so many clients.
    #[test]
    fn quantiles_are_nearly_those_of_a_gamma_distribution() {
        for (clients, off, wanted) in [
            (1, 0.014, [std::f64::consts::LN_2, 2.995_732, 4.605_170]),
            (2, 0.004, [1.678_347, 4.743_865, 6.638_352]),
            (8, 0.001, [7.669_249, 13.148_114, 15.999_963]),
            (64, 0.0001, [63.666_977, 77.702_36, 84.066_602]),
        ] {
            let turns = f64::from(clients);
            let stages = Stages { clients, client: 1.0, server: 0.5, way: 0.0, turns, beside: 0.0 };
            let found = response(&stages, 1.0);
            close(found.mean, f64::from(clients));
            for (found, wanted) in found.quantiles.into_iter().zip(wanted) {
                assert!((found / wanted - 1.0).abs() < off, "{clients}: {found}, not {wanted}");
            }
        }
    }

    #[test]
    fn one_client_does_all_exchanges_one_after_the_other() {
        close(together(1, &[(1.0, 2.0), (3.0, 4.0), (0.5, 0.0)]), 10.5);
        assert!(together(1, &[]) == 0.0 && together(0, &[(1.0, 1.0)]) == 0.0);
    }

    #[test]
    fn of_one_exchange_the_busier_end_never_rests_but_for_the_first_and_the_last() {
        close(together(8, &[(3.0, 2.0)]), 8.0 * 3.0 + 2.0);
        close(together(8, &[(2.0, 3.0)]), 2.0 + 8.0 * 3.0);
        // While one asks, the other is answered; then they change places.
        close(together(2, &[(1.0, 1.0), (1.0, 1.0)]), 5.0);
    }

    #[test]
    fn all_are_there_no_sooner_than_the_busier_end_is_done_and_no_later_than_both_in_turn() {
        let exchanges = [(0.3, 0.1), (1.0, 4.0), (2.0, 0.7), (0.2, 0.0)];
        let (asks, answers) = exchanges.iter().fold((0.0, 0.0), |all, it| (all.0 + it.0, all.1 + it.1));
        for clients in [1, 2, 7, 64, 256] {
            let (count, found) = (f64::from(clients), together(clients, &exchanges));
            assert!(
                found >= count * f64::max(asks, answers) && found <= count * (asks + answers),
                "{clients}: {found}"
            );
        }
    }
}

//! Predictions of settings of OPC UA, from calibrations whose steps are known.

use cost::Class;
use cost::calibration::{Calibration, fit, summary};
use cost::choose::Mode;
use cost::whatif::{Grid, Prediction, Row, SLOWER, Setting, Token, Way, predict};
use gspn::{Budget, Limits};

use crate::measured;

const CLIENTS: [u32; 3] = [1, 8, 64];

/// In microseconds: an exchange takes 4 at each end and 30 on the clock, a Read 6 and 5 (of one client alone 8 and 7), protection 1 and 2 beside 1 a kB.
fn calibration(spread: f64) -> Calibration {
    let micros = |time: f64| [time * (1.0 - spread) * 1e-6, time * 1e-6, time * (1.0 + spread) * 1e-6];
    let step = |name: &str, bytes, cpu: &[f64], wall| measured::step(name, bytes, cpu, &[wall, wall]);
    let mut steps = vec![step("append audit", 0, &micros(20.0), 1e-3)];
    for clients in CLIENTS {
        for (end, time, alone) in [("server", 6.0, 8.0), ("client", 5.0, 7.0)] {
            let time = if clients == 1 { alone } else { time };
            steps.push(step(&format!("read {end}-of-{clients}"), 0, &micros(time), time * 1e-6));
        }
        for (end, bytes) in [("server", 128), ("client", 128), ("server", 4_096), ("client", 4_096)] {
            let wall = if clients == 1 { 30e-6 } else { 4e-6 };
            steps.push(step(&format!("exchange {end}-of-{clients}"), bytes, &micros(4.0), wall));
        }
    }
    for (mode, fixed) in [("sign", 1.0), ("sign-and-encrypt", 2.0)] {
        for operation in ["seal", "open"] {
            for bytes in [0, 1_000] {
                let time = fixed + bytes as f64 / 1_000.0;
                steps.push(step(&format!("{operation} basic256sha256-{mode}"), bytes, &micros(time), 1e-6));
            }
        }
    }
    for (bits, time) in [(2_048, 900.0), (3_072, 2_500.0), (4_096, 5_500.0)] {
        for (operation, part) in [("sign", 1.0), ("decrypt", 1.0), ("verify", 0.03), ("encrypt", 0.03)] {
            steps.push(step(&format!("{operation} rsa-{bits}"), 32, &micros(time * part), 1e-3));
        }
    }
    // What nobody can leave out, and what takes no time here.
    let free = "hash sha-256,hash sha-512,derive p-sha256,encrypt aes-256-cbc,decrypt aes-256-cbc,sign hmac-sha256,verify hmac-sha256,verify ed25519";
    steps.extend(free.split(',').map(|name| step(name, 32, &[0.0; 3], 0.0)));
    let laws = steps
        .iter()
        .filter_map(|one| fit(&steps.iter().filter(|other| other.name() == one.name()).collect::<Vec<_>>()))
        .fold(Vec::new(), |mut laws: Vec<cost::calibration::Law>, law| {
            if laws.iter().all(|known| known.name() != law.name()) {
                laws.push(law);
            }
            laws
        });
    measured::calibration(steps, laws)
}

fn grid() -> Grid {
    Grid { bits: vec![2_048], tokens: vec![None], clients: CLIENTS.to_vec(), ..Grid::default() }
}

fn predicted(calibration: &Calibration, grid: &Grid, present: Option<&Setting>) -> Prediction {
    let mut go_on = |_| true;
    predict(calibration, grid, present, &mut Budget::new(Limits::default(), &mut go_on)).unwrap()
}

fn close(value: f64, wanted: f64, relative: f64) {
    assert!((value / wanted - 1.0).abs() <= relative, "{value}, wanted {wanted}");
}

#[test]
fn a_single_client_goes_through_all_steps_one_after_the_other() {
    let found = predicted(&calibration(0.0), &grid(), None);
    let one = &found.rows[0];
    assert_eq!((one.setting, one.clients, one.limited_by), (Setting::NONE, 1, "way"));
    // 30 on the clock for the exchange, 8 and 7 for the Read that follows when the other end has done its part.
    close(1.0 / one.throughput.value, 45e-6, 1e-6);
    close(one.response.mean.value, 45e-6, 1e-6);
    close(one.saturation.value, 1e6 / 12.0, 1e-6);
    assert_eq!(found.fitted, 0);
    assert!(found.measured >= 8, "{}", found.measured);
}

/// Protection by the keys of one of so many clients, with so many seconds, as a newer calibration has it.
fn keys(of: &[(u32, f64)]) -> Calibration {
    let mut steps = Vec::new();
    for (clients, seconds) in of {
        for (operation, bytes) in [("seal", 54), ("seal", 108), ("open", 54), ("open", 108)] {
            let name = format!("{operation} basic256sha256-sign-of-{clients}");
            steps.push(measured::step(&name, bytes, &[*seconds; 3], &[*seconds; 2]));
        }
    }
    measured::calibration(steps, Vec::new())
}

#[test]
fn a_single_client_and_its_server_have_slept_before_they_protect_a_message() {
    let (warm, cold) = (calibration(0.0), calibration(0.0).renewed(&keys(&[(1, 9e-6)])));
    let (before, after) = (predicted(&warm, &grid(), None), predicted(&cold, &grid(), None));
    for (before, after) in before.rows.iter().zip(&after.rows) {
        match (before.setting.mode, before.clients) {
            // Two messages, each sealed and opened.
            (Mode::Sign, 1) => close(1.0 / after.throughput.value, 81e-6, 1e-6),
            _ => assert_eq!(before.throughput, after.throughput, "{}", before.setting.name()),
        }
    }
    assert!(
        after.steps.contains("seal basic256sha256-sign-of-1")
            && !before.steps.contains("seal basic256sha256-sign-of-1")
    );
    assert_eq!(after.measured, after.steps.len());
}

#[test]
fn many_clients_have_as_many_keys() {
    let grid = Grid { modes: vec![Mode::Sign], clients: vec![1, 4, 8, 16, 64, 256], ..grid() };
    let server = |of: &[(u32, f64)]| {
        let rows = predicted(&calibration(0.0).renewed(&keys(of)), &grid, None).rows;
        rows.iter().map(|row| 1.0 / row.saturation.value).collect::<Vec<f64>>()
    };
    let before = server(&[]);
    // A server opens one message and seals another; what they took before was 2.162 us.
    for (rule, of, wanted) in [
        ("of a single client nothing is known", &[(8, 3e-6), (64, 6e-6)][..], [0.0, 6.0, 6.0, 8.0, 12.0, 12.0]),
        ("all is known", &[(1, 9e-6), (8, 3e-6), (64, 6e-6)], [18.0, 10.0, 6.0, 8.0, 12.0, 12.0]),
        ("of a single one only", &[(1, 9e-6)], [18.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
    ] {
        for ((before, after), wanted) in before.iter().zip(server(of)).zip(wanted) {
            let wanted = if wanted > 0.0 { before + wanted * 1e-6 - 2.162e-6 } else { *before };
            // Renewals take a part of the processor, too.
            assert!((after / wanted - 1.0).abs() < 1e-3, "{rule}: {after}, wanted {wanted}");
        }
    }
}

#[test]
fn newer_steps_take_the_place_of_the_old_ones_and_laws_follow_them() {
    let old = calibration(0.0);
    let name = "seal basic256sha256-sign";
    let newer = measured::step(name, 1_000, &[5e-6; 3], &[5e-6; 2]);
    let renewed = old.renewed(&measured::calibration(vec![newer], Vec::new()));
    assert_eq!((renewed.steps.len(), renewed.laws.len()), (old.steps.len(), old.laws.len()));
    close(renewed.step(name, 1_000).unwrap().cpu.mean, 5e-6, 1e-9);
    assert_eq!(renewed.step(name, 0), old.step(name, 0));
    // 1 at nothing, now 5 at a kB.
    close(renewed.law(name).unwrap().at(500), 3e-6, 1e-6);
    assert_eq!(renewed.law("open basic256sha256-sign"), old.law("open basic256sha256-sign"));
    assert_eq!((&renewed.taken, &renewed.machine), (&old.taken, &old.machine));
}

#[test]
fn many_clients_saturate_the_thread_that_has_more_to_do() {
    let found = predicted(&calibration(0.0), &grid(), None);
    for row in found.rows.iter().filter(|row| row.clients == 64) {
        assert_eq!(row.limited_by, "server");
        close(row.throughput.value, row.saturation.value, 0.01);
        close(row.server_busy.value, 1.0, 0.01);
        // 64 turns of the server.
        close(row.response.p50.value, 64.0 / row.throughput.value, 0.01);
        let times = [row.response.p50, row.response.p95, row.response.p99];
        assert!(times.is_sorted_by(|one, other| one.value <= other.value), "{times:?}");
    }
    for clients in CLIENTS {
        let of: Vec<f64> =
            found.rows.iter().filter(|row| row.clients == clients).map(|row| row.throughput.value).collect();
        assert!(of.len() == 3 && of.is_sorted_by(|before, after| before > after), "security costs: {of:?}");
    }
}

#[test]
fn ends_that_rest_at_times_lengthen_each_turn_of_the_slower_one() {
    let mut rests = calibration(0.0);
    for step in rests.steps.iter_mut().filter(|step| step.name() == "exchange client-of-8") {
        step.wall = summary(&[5e-6, 5e-6]).unwrap();
    }
    let of = |calibration: &Calibration, clients: u32| {
        let found = predicted(calibration, &grid(), None);
        found.rows.into_iter().find(|row| row.clients == clients && row.setting == Setting::NONE).unwrap()
    };
    let (busy, rested) = (of(&calibration(0.0), 8), of(&rests, 8));
    let added = 1.0 / rested.throughput.value - 1.0 / busy.throughput.value;
    assert!((0.8e-6..=1.0e-6).contains(&added), "{added}");
    close(rested.server_busy.value / rested.throughput.value, 10e-6, 1e-6);
    assert_eq!(of(&rests, 64), of(&calibration(0.0), 64));
}

#[test]
fn the_end_that_has_more_to_do_pays_for_the_other_that_waits() {
    let mut uneven = calibration(0.0);
    for clients in [8, 64] {
        for (end, time) in [("server", 4.5), ("client", 7.0)] {
            let name = format!("exchange {end}-of-{clients}{}", SLOWER.1);
            uneven.steps.push(measured::step(&name, 128, &[time * 1e-6; 3], &[4e-6; 2]));
        }
    }
    let of = |calibration: &Calibration, clients: u32| {
        let grid = Grid { modes: vec![Mode::None], clients: vec![clients], ..grid() };
        let found = predicted(calibration, &grid, None);
        let row = found.rows.into_iter().next().unwrap();
        (row.server_busy.value / row.throughput.value, row, found.unmeasured)
    };
    // The server has 6 us of a Read and the client 5: one that was measured, with 0.5 us more.
    let (server, row, unmeasured) = of(&uneven, 64);
    close(server, 10.5e-6, 1e-6);
    assert!(!unmeasured.iter().any(|name| name.contains("slower")), "{unmeasured:?}");
    // The client has 3 us more, which makes it the one that everybody waits for.
    assert_eq!(row.limited_by, "client");
    close(row.throughput.value, 1.0 / 12e-6, 0.01);
    assert_eq!(of(&uneven, 1).1, of(&calibration(0.0), 1).1);
    assert!(of(&calibration(0.0), 8).2.contains("exchange server-of-N-slower-server"));
    // Twice as far apart costs twice as much, and beyond four times no more.
    let apart = |more: f64| {
        let mut calibration = uneven.clone();
        for step in calibration.steps.iter_mut().filter(|step| step.name() == "read server-of-64") {
            step.cpu = summary(&[(6.0 + more) * 1e-6; 3]).unwrap();
        }
        of(&calibration, 64).0 * 1e6 - 10.0 - more
    };
    for (more, costs) in [(0.0, 0.5), (1.0, 1.0), (3.0, 2.0), (30.0, 2.0)] {
        assert!((apart(more) - costs).abs() < 1e-6, "{more}: {}", apart(more));
    }
}

/// The exchange of clients that were measured, and what it takes beyond computing on the clock.
fn resting(rests: [(u32, f64); 2]) -> Calibration {
    let mut calibration = calibration(0.0);
    for (clients, wall) in rests {
        let name = format!("exchange client-of-{clients}");
        for step in calibration.steps.iter_mut().filter(|step| step.name() == name) {
            step.wall = summary(&[4e-6 + wall; 2]).unwrap();
        }
    }
    calibration
}

#[test]
fn what_rests_take_lies_between_measured_numbers_of_clients() {
    let calibration = resting([(8, 20e-6), (64, 50e-6)]);
    let of = |clients: &[u32]| {
        let grid = Grid { modes: vec![Mode::None], clients: clients.to_vec(), ..grid() };
        predicted(&calibration, &grid, None).rows.into_iter().map(|row| 1.0 / row.throughput.value).collect::<Vec<_>>()
    };
    // The server's 10 us and what it rests: half of the way from 8 to 64, by the logarithm, is 22.6.
    let found = of(&[8, 22, 23, 36, 37, 64, 256]);
    close(found[5], 60e-6, 1e-3);
    assert!(found[1] < 45e-6 && 45e-6 < found[2], "{found:?}");
    assert!(found.is_sorted(), "{found:?}");
    close(found[4] / found[3], 1.0, 0.02);
    close(found[6], found[5], 1e-3);
}

#[test]
fn a_single_clients_times_spread_as_its_exchange_does() {
    let mut spread = calibration(0.0);
    for step in spread.steps.iter_mut().filter(|step| step.name() == "exchange client-of-1") {
        step.wall = summary(&[15e-6, 30e-6, 45e-6]).unwrap();
    }
    let of = |calibration: &Calibration| predicted(calibration, &grid(), None).rows[0].response;
    let (before, after) = (of(&calibration(0.0)), of(&spread));
    close(after.mean.value, before.mean.value, 1e-9);
    // A deviation of 15 us around 45: a gamma distribution of shape 9.
    close(before.p95.value, 45e-6, 1e-5);
    close(after.p95.value, 45e-6 * 1.604, 2e-3);
    close(after.p99.value, 45e-6 * 1.934, 2e-3);
}

#[test]
fn a_busy_server_is_busy_once_with_what_it_renews() {
    let setting =
        Grid { modes: vec![Mode::SignAndEncrypt], lifetimes: vec![3.0, 3_600.0], clients: vec![64], ..grid() };
    for row in predicted(&calibration(0.0), &setting, None).rows {
        assert_eq!(row.limited_by, "server");
        close(row.throughput.value, row.saturation.value, 1e-4);
        close(row.server_busy.value, 1.0, 1e-4);
    }
    // One number has one interval.
    for row in predicted(&calibration(0.02), &setting, None).rows {
        assert!(row.saturation.error > 0.02 && (row.throughput.error - row.saturation.error).abs() < 1e-4, "{row:?}");
    }
}

/// Nearly all of the server's time goes to keys, so that 5 % more for them leaves no request, or hardly any: an interval without them would be a
/// promise that nobody could keep.
#[test]
fn what_is_uncertain_of_renewals_is_uncertain_of_requests_and_what_takes_most_is_named() {
    let setting = Grid {
        modes: vec![Mode::SignAndEncrypt],
        bits: vec![4_096],
        lifetimes: vec![1.5],
        clients: vec![64],
        ..grid()
    };
    let of = |spread| predicted(&calibration(spread), &setting, None).rows.remove(0);
    let (certain, uncertain) = (of(0.0), of(0.006));
    close(uncertain.throughput.value, certain.throughput.value, 1e-9);
    assert!(certain.throughput.error < 1e-3, "{certain:?}");
    // Two decryptions and a signature of 5.5 ms at each of 64 clients in 1.125 s: 0.94 of a processor, known to 1 or 2 %.
    for figure in [uncertain.throughput, uncertain.saturation, uncertain.response.p99] {
        assert!((0.3..0.8).contains(&figure.error), "{uncertain:?}");
    }
    let (largest, share) = &certain.largest;
    assert!(largest == "decrypt rsa-4096" && (0.55..0.65).contains(share), "{largest} {share}");
}

/// The authority is another computer, and how clients come to their tokens there is nothing that they and the server do.
#[test]
fn how_a_client_comes_to_its_token_changes_nothing_of_its_requests() {
    let setting = Grid {
        modes: vec![Mode::SignAndEncrypt],
        tokens: Way::ALL.into_iter().map(|way| Some(Token { way, encrypted: false })).collect(),
        lifetimes: vec![5.0],
        clients: vec![64],
        ..grid()
    };
    let mut slow = calibration(0.0);
    for step in slow.steps.iter_mut().filter(|step| step.name() == "read client-of-64") {
        step.cpu = summary(&[60e-6; 3]).unwrap();
    }
    let found = predicted(&slow, &setting, None);
    assert_eq!((found.rows.len(), found.rows[0].limited_by), (3, "client"));
    for row in &found.rows {
        close(row.throughput.value, found.rows[0].throughput.value, 1e-12);
    }
}

/// A request waits for the turns of the slower thread; what the other does meanwhile lengthens nothing.
#[test]
fn times_spread_as_the_turns_of_the_slower_thread_do() {
    let p95 = |end: &str, rests: f64| {
        let mut spread = calibration(0.0);
        for step in &mut spread.steps {
            if step.name() == format!("read {end}-of-8") {
                let mean = step.cpu.mean;
                step.cpu = summary(&[mean / 2.0, mean, mean * 1.5]).unwrap();
            }
            if step.name() == "exchange client-of-8" {
                step.wall = summary(&[rests * 1e-6; 2]).unwrap();
            }
        }
        let alone = Grid { modes: vec![Mode::None], clients: vec![8], ..grid() };
        let row = &predicted(&spread, &alone, None).rows[0];
        assert_eq!(row.limited_by, "server");
        row.response.p95.value / row.response.mean.value
    };
    close(p95("client", 4.0), 1.0, 1e-5);
    // A deviation of 3 in 10 us, of eight turns: a gamma distribution of shape 800 / 9.
    close(p95("server", 4.0), 1.180, 2e-3);
    // And of 3 in 20, of which 10 are rest.
    close(p95("server", 14.0), 1.089, 2e-3);
}

/// Both ends alike, which is where they wait for each other most.
#[test]
fn more_clients_never_have_fewer_answers() {
    let mut even = calibration(0.0);
    for step in &mut even.steps {
        if step.operation == "read" {
            step.cpu = summary(&[6e-6; 3]).unwrap();
        }
    }
    let clients = vec![2, 4, 7, 8, 9, 10, 12, 16, 17, 20, 32, 48, 64, 256];
    let found = predicted(&even, &Grid { modes: vec![Mode::None], clients, ..grid() }, None);
    for pair in found.rows.windows(2) {
        let more = pair[1].throughput.value / pair[0].throughput.value;
        assert!(more > 1.0 - 2e-4, "{} to {} clients: {more}", pair[0].clients, pair[1].clients);
    }
}

/// What the ends rest is half of the time here, and is known as well as the times on the clock are.
#[test]
fn what_is_uncertain_of_resting_is_uncertain_of_requests() {
    let error = |spread: f64| {
        let mut rests = calibration(0.0);
        for step in rests.steps.iter_mut().filter(|step| step.name() == "exchange client-of-8") {
            step.wall = summary(&[(14.0 - spread) * 1e-6, 14e-6, (14.0 + spread) * 1e-6]).unwrap();
        }
        predicted(&rests, &Grid { modes: vec![Mode::None], clients: vec![8], ..grid() }, None).rows[0].throughput.error
    };
    assert!(error(0.0) < 1e-3);
    let (some, more) = (error(1.0), error(4.0));
    assert!((0.02..0.06).contains(&some) && (3.5..4.5).contains(&(more / some)), "{some} {more}");
}

#[test]
fn a_crowd_that_connects_is_served_as_a_crowd() {
    let mut dear = calibration(0.0);
    for step in dear.steps.iter_mut().filter(|step| step.name() == "read server-of-64") {
        step.cpu = summary(&[60e-6; 3]).unwrap();
    }
    let storm = |calibration: &Calibration, clients: u32| {
        let grid = Grid { modes: vec![Mode::None], clients: vec![clients], ..grid() };
        predicted(calibration, &grid, None).rows[0].storm.value
    };
    assert!(storm(&dear, 64) > 2.0 * storm(&calibration(0.0), 64));
    close(storm(&dear, 8), storm(&calibration(0.0), 8), 1e-9);
}

#[test]
fn differences_are_told_against_the_present_setting() {
    let found = predicted(&calibration(0.0), &grid(), Some(&Setting::NONE));
    for row in &found.rows {
        let difference = row.difference.unwrap();
        assert!(if row.setting == Setting::NONE { difference == 0.0 } else { (-0.9..0.0).contains(&difference) });
    }
}

#[test]
fn what_is_uncertain_of_a_step_is_uncertain_of_the_throughput() {
    let certain = predicted(&calibration(0.0), &grid(), None);
    assert!(certain.rows.iter().all(|row| row.throughput.error < 1e-3));
    let uncertain = predicted(&calibration(0.02), &grid(), None);
    for row in uncertain.rows.iter().filter(|row| row.clients == 64) {
        // 2 % of each of three timings is 5 % of their mean at 95 %; independent steps make up for each other in part.
        assert!((0.02..0.06).contains(&row.throughput.error), "{row:?}");
        // Where all times are as long as their intervals allow, so are these, and requests are as few.
        for time in [row.response.mean, row.response.p50, row.response.p95, row.response.p99] {
            assert!((time.error / row.throughput.error - 1.0).abs() < 0.1, "{row:?}");
        }
    }
}

#[test]
fn keys_and_tokens_cost_when_they_are_renewed_and_when_all_connect() {
    let token = |encrypted| Some(Token { way: Way::StartFinish, encrypted });
    let grid = Grid {
        modes: vec![Mode::SignAndEncrypt],
        bits: vec![2_048, 4_096],
        tokens: vec![None, token(false), token(true)],
        lifetimes: vec![60.0, 3_600.0],
        clients: vec![64],
    };
    let found = predicted(&calibration(0.0), &grid, None);
    assert_eq!(found.rows.len(), 12);
    let of = |bits, token, lifetime| {
        let setting = Setting { mode: Mode::SignAndEncrypt, bits, token, lifetime };
        found.rows.iter().find(|row| row.setting == setting).unwrap()
    };
    let (long, short) = (of(4_096, token(true), 3_600.0), of(4_096, token(true), 60.0));
    assert!(short.throughput.value < long.throughput.value, "renewals take time");
    assert!(of(2_048, token(true), 60.0).throughput.value > short.throughput.value, "longer keys take more of it");
    assert!(
        of(2_048, token(true), 60.0).storm.value > of(2_048, token(false), 60.0).storm.value,
        "a secret is opened by key"
    );
    // OPN: two blocks to decrypt and a signature; CreateSession: a signature. Two threads share the work of 64 clients.
    close(of(2_048, None, 3_600.0).storm.value, 64.0 * 4.0 * 900e-6 / 2.0, 0.1);
    // In a run one thread of the clients has as much to do as the server's processor: a signature, two blocks of the answer, a signature.
    close(of(2_048, None, 3_600.0).storm_here.value, 64.0 * 4.0 * 900e-6, 0.1);
    assert!(found.unmeasured.contains("read token"), "{:?}", found.unmeasured);
}

/// Without protection and tokens nothing has a lifetime: one row, of what was asked for, and of the same figures.
#[test]
fn the_row_without_protection_says_the_lifetime_that_was_asked_for() {
    let asked = |lifetimes: Vec<f64>| {
        let grid = Grid { lifetimes, bits: vec![2_048, 4_096], clients: vec![8], ..Grid::default() };
        let found = predicted(&calibration(0.0), &grid, grid.settings().first());
        let mut none = found.rows.into_iter().filter(|row| row.setting.mode == Mode::None);
        let (only, more) = (none.next().unwrap(), none.next());
        assert_eq!((more, only.setting.name().as_str(), only.difference), (None, "none", Some(0.0)));
        only
    };
    let usual = asked(vec![3_600.0]);
    assert_eq!(usual.setting, Setting::NONE);
    for lifetimes in [vec![5_400.0], vec![5_400.0, 60.0], vec![1.0, 3_600.0]] {
        let (first, row) = (lifetimes[0], asked(lifetimes));
        assert_eq!(row.setting, Setting { lifetime: first, ..Setting::NONE });
        assert_eq!(Row { setting: usual.setting, ..row }, usual);
    }
}

#[test]
fn what_does_not_go_together_is_left_out_or_refused() {
    let all = Grid {
        bits: vec![2_048, 3_072, 4_096],
        tokens: [None].into_iter().chain(all_tokens()).collect(),
        ..Grid::default()
    };
    // None once; Sign with no token or one of three that is encrypted; SignAndEncrypt with all seven.
    assert_eq!(all.settings().len(), 1 + 3 * 4 + 3 * 7);
    let refused = |grid: Grid| {
        let mut go_on = |_| true;
        predict(&calibration(0.0), &grid, None, &mut Budget::new(Limits::default(), &mut go_on)).unwrap_err()
    };
    let tokens = Grid { modes: vec![Mode::None], tokens: all_tokens(), ..Grid::default() };
    assert_eq!(refused(tokens).class, Class::Missing);
    for (clients, class) in [(0, Class::Invalid), (257, Class::TooLarge)] {
        assert_eq!(refused(Grid { clients: vec![clients], ..grid() }).class, class);
    }
    for lifetime in [0.0, f64::NAN, f64::INFINITY, 1e300] {
        assert_eq!(refused(Grid { lifetimes: vec![lifetime], ..grid() }).class, Class::Invalid);
    }
    // Beside others, too, which would have been all that is told.
    for bits in [0, 1_024, 2_047, 4_097] {
        let fault = refused(Grid { bits: vec![2_048, bits], ..grid() });
        assert_eq!((fault.class, fault.name.as_str()), (Class::Invalid, "key"), "{fault}");
    }
    assert_eq!(refused(Grid { clients: vec![1; 1_000], ..grid() }).class, Class::TooLarge);
}

/// RSA-4096 for 256 clients every three quarters of a second is more than a processor does; what others ask for is answered.
#[test]
fn a_setting_that_renewals_alone_keep_busy_has_no_row_and_is_told() {
    let busy = Grid {
        modes: vec![Mode::Sign],
        bits: vec![4_096],
        lifetimes: vec![1.0, 3_600.0],
        clients: vec![1, 256],
        ..grid()
    };
    let calibration = calibration(0.0);
    let first = busy.settings()[0];
    let found = predicted(&calibration, &busy, Some(&first));
    let of = |lifetime: f64, clients: u32| {
        found.rows.iter().find(|it| it.setting.lifetime == lifetime && it.clients == clients)
    };
    assert_eq!((found.rows.len(), found.saturated.len()), (3, 1));
    let it = &found.saturated[0];
    assert_eq!((it.setting, it.clients, it.end), (first, 256, "server"));
    // Two clients have a 128th of it to renew, and that is in the part of a processor that requests do not have.
    let few = predicted(&calibration, &Grid { clients: vec![2], ..busy.clone() }, None);
    let renewing = it.renewing / 128.0;
    assert!(it.renewing > 1.0 && few.rows[0].server_busy.value >= renewing, "{it:?}");
    assert!(of(3_600.0, 256).unwrap().difference.is_none() && of(3_600.0, 1).unwrap().difference.is_some());
}

#[test]
fn an_end_that_does_nothing_for_a_request_is_refused() {
    for end in ["server", "client"] {
        let mut free = calibration(0.0);
        for step in free.steps.iter_mut().filter(|step| step.name().contains(&format!(" {end}-of-"))) {
            step.cpu = summary(&[0.0; 3]).unwrap();
        }
        free.laws.retain(|law| !law.name().contains(&format!(" {end}-of-")));
        let alone = Grid { modes: vec![Mode::None], clients: vec![8], ..grid() };
        let mut go_on = |_| true;
        let fault = predict(&free, &alone, None, &mut Budget::new(Limits::default(), &mut go_on)).unwrap_err();
        assert_eq!(fault.class, Class::Invalid, "{fault}");
        assert!(fault.why.contains(if end == "server" { "at the server" } else { "at the load generator" }), "{fault}");
    }
}

/// Who connects would pay nothing for it, and longer keys would look like the faster ones.
#[test]
fn an_operation_that_nobody_has_measured_is_refused_by_name() {
    let signed = |bits: u32| Grid { modes: vec![Mode::Sign], bits: vec![2_048, bits], ..grid() };
    let refused = |calibration: &Calibration, grid: &Grid| {
        let mut go_on = |_| true;
        predict(calibration, grid, None, &mut Budget::new(Limits::default(), &mut go_on)).unwrap_err()
    };
    let whole = calibration(0.0);
    let unknown = refused(&whole, &signed(3_000));
    assert!(unknown.class == Class::NoPrice && unknown.name.ends_with(" rsa-3000"), "{unknown}");
    assert!(unknown.why.contains("rsa-2048") && unknown.why.contains("rsa-4096"), "{unknown}");
    for name in ["decrypt rsa-4096", "sign rsa-4096", "hash sha-256", "derive p-sha256"] {
        let mut part = whole.clone();
        part.steps.retain(|step| step.name() != name);
        part.laws.retain(|law| law.name() != name);
        let fault = refused(&part, &signed(4_096));
        assert_eq!((fault.class, fault.name.as_str()), (Class::NoPrice, name), "{fault}");
    }
    let mut part = whole.clone();
    part.steps.retain(|step| step.name() != "append audit");
    let fault = refused(&part, &signed(4_096));
    assert!(fault.name == "append audit" && !fault.why.contains("of its kind"), "{fault}");
}

fn all_tokens() -> Vec<Option<Token>> {
    let both = |way| [true, false].map(|encrypted| Some(Token { way, encrypted }));
    Way::ALL.into_iter().flat_map(both).collect()
}

/// One client says nothing of several, nor they of it.
#[test]
fn another_number_of_clients_does_not_stand_for_one() {
    for (without, clients) in
        [(&["exchange server-of-1"][..], 1), (&["exchange server-of-8", "exchange server-of-64"], 64)]
    {
        let mut calibration = calibration(0.0);
        calibration.steps.retain(|step| !without.contains(&step.name().as_str()));
        let (mut go_on, grid) = (|_| true, Grid { clients: vec![clients], ..grid() });
        let fault = predict(&calibration, &grid, None, &mut Budget::new(Limits::default(), &mut go_on)).unwrap_err();
        assert_eq!((fault.class, fault.name), (Class::NoPrice, format!("exchange server-of-{clients}")));
    }
}

#[test]
fn a_step_that_nobody_has_measured_is_named() {
    for (name, clients) in [("read server-of-8", 8), ("exchange client-of-1", 1)] {
        let mut calibration = calibration(0.0);
        let start = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
        calibration.steps.retain(|step| !step.name().starts_with(start));
        let (mut go_on, grid) = (|_| true, Grid { clients: vec![clients], ..grid() });
        let fault = predict(&calibration, &grid, None, &mut Budget::new(Limits::default(), &mut go_on)).unwrap_err();
        assert_eq!((fault.class, fault.name.as_str()), (Class::NoPrice, name));
    }
}

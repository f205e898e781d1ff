//! GD generation end to end, as small as it gets: real processes, a real database, and the register.

use std::path::{Path, PathBuf};

use bench::gd::launch::Launch;
use bench::gd::run::{Plan, measure};
use bench::gd::{Kind, postgres, report};

fn plan(medium: &Path, databases: &[Kind]) -> Plan {
    Plan {
        rounds: 1,
        seconds: 0.02,
        step_seconds: 0.005,
        limit: 600.0,
        keys: vec![2048],
        clients: vec![1, 3],
        reuse: 0.5,
        databases: databases.to_vec(),
        medium: medium.to_owned(),
        quick: true,
        tries: 3,
    }
}

#[test]
fn every_row_is_predicted_in_the_ledger_before_it_is_run() {
    let folder = tempfile::tempdir().unwrap();
    // PostgreSQL, which may run as somebody else, must get into it.
    let medium =
        tempfile::Builder::new().permissions(std::os::unix::fs::PermissionsExt::from_mode(0o711)).tempdir().unwrap();
    let launch = Launch::new(PathBuf::from(env!("CARGO_BIN_EXE_bench")), &["gd"]);
    let plan = plan(medium.path(), &[Kind::Sqlite, Kind::Postgres]);
    let mut said = Vec::new();
    let series = measure(&launch, &plan, folder.path(), &mut |line| said.push(line.to_owned())).unwrap();
    let unmeasured = series.unmeasured.join("; ");
    if unmeasured.contains("one processor") {
        println!("SKIPPED: {unmeasured}");
        return;
    }
    if postgres::find().is_none() {
        println!("SKIPPED rows with PostgreSQL: {unmeasured}");
        assert!(unmeasured.contains("rows with PostgreSQL: it is not installed"));
    }
    // SC0, SC1 and SC2 for each number of clients and database.
    let databases = if postgres::find().is_some() { 2 } else { 1 };
    assert_eq!(series.singles.len(), 6 * databases, "{said:?} {unmeasured}");
    for single in &series.singles {
        let entry = |id: &str| series.register.iter().find(|entry| entry.id == id).unwrap();
        let (prediction, run) = (entry(&single.prediction_id), entry(&single.run_id));
        assert_eq!((prediction.state.as_str(), run.state.as_str()), ("predicted", "ended"));
        assert!(prediction.records[0] < run.records[0], "predicted first");
        assert_eq!(prediction.of, single.scenario.name());
        let (predicted, outcome) = (&single.prediction, &single.outcome);
        assert!(predicted.throughput > 0.0 && predicted.processor > 0.0 && predicted.p95 > 0.0, "{predicted:?}");
        let (all, clients) = (outcome.all, f64::from(single.scenario.clients));
        assert!(all.tags >= 2.0 * clients && all.processor > 0.0 && all.p50 <= all.p95, "{outcome:?}");
        if let Some(quiet) = outcome.quiet {
            assert!(quiet.seconds <= all.seconds && quiet.tags > 0.0 && quiet.processor > 0.0, "{outcome:?}");
        }
        assert!(series.distances[single.state][0] > 0.0, "{:?}", series.distances);
        assert_eq!(all.tags % clients, 0.0, "as many of each client");
    }
    // What anybody can check with the ledger's own means.
    let ledger = store::verify(&folder.path().join("ledger"), None).unwrap();
    assert!(ledger.is_intact(), "{ledger:?}");

    let report = report::of(series);
    assert_eq!(report.rows.len(), 6 * databases);
    assert!(report.rows.iter().all(|row| !row.throughput.measurable), "one run says nothing");
    assert!(!report.throughput.met);
    // Runs during which the host moved a processor away, or lent both cores to others, were taken once more.
    let whys = ["the machine changed its state meanwhile", "others computed on the cores nearly all of the time"];
    let again = said.iter().filter(|line| whys.iter().any(|why| line.ends_with(why))).count();
    assert_eq!(report.abandoned.len(), again, "{:?}", report.abandoned);
    for used in ["sign rsa-2048", "read message-among-3", "write answer-after-15us-among-3"] {
        assert!(report.parameters.iter().any(|name| name == used), "{used}: {:?}", report.parameters);
    }
    let (text, page) = (report::text(&report), report::html(&report));
    assert!(text.contains("SC2 rsa-2048 sqlite 3") && text.contains("not measurable"), "{text}");
    assert!(page.contains("<svg") && page.contains(&report.series.singles[0].prediction_id));
}

#[test]
fn a_series_that_was_broken_off_stays_in_the_register() {
    let folder = tempfile::tempdir().unwrap();
    let medium = tempfile::tempdir().unwrap();
    // A program that is none of the parts: no step can be timed.
    let launch = Launch::new(PathBuf::from("false"), &[]);
    let mut plan = plan(medium.path(), &[Kind::Sqlite]);
    assert!(
        measure(&launch, &plan, folder.path(), &mut |_| ()).is_err() || bench::gd::accounts::processors().is_none()
    );
    plan.rounds = 0;
    // What the other test starts holds the lock of this ledger, too, until it is its own program.
    let again = |_| match measure(&launch, &plan, folder.path(), &mut |_| ()) {
        Err(error) if error.to_string().contains("in use") => {
            std::thread::sleep(std::time::Duration::from_millis(100));
            None
        }
        series => Some(series.unwrap()),
    };
    let series = (0..100).find_map(again).expect("nobody keeps the ledger");
    let begun: Vec<&str> = series.register.iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!(begun, ["s1", "s2"]);
}

#[test]
fn what_was_found_before_a_series_failed_stands() {
    let folder = tempfile::tempdir().unwrap();
    let medium = tempfile::tempdir().unwrap();
    // A program that is one of the parts until the second round begins.
    let (script, stop) = (folder.path().join("part.sh"), folder.path().join("stop"));
    let lines = format!("[ -e '{}' ] && exit 1\nexec '{}' \"$@\"\n", stop.display(), env!("CARGO_BIN_EXE_bench"));
    std::fs::write(&script, lines).unwrap();
    let launch = Launch::new(PathBuf::from("/bin/sh"), &[script.to_str().unwrap(), "gd"]);
    let mut plan = plan(medium.path(), &[Kind::Sqlite]);
    (plan.rounds, plan.clients) = (3, vec![1]);
    let mut say = |line: &str| {
        if line == "round 2 of 3" {
            std::fs::write(&stop, "").unwrap();
        }
    };
    let series = measure(&launch, &plan, &folder.path().join("series"), &mut say).unwrap();
    let unmeasured = series.unmeasured.join("; ");
    if unmeasured.contains("one processor") {
        println!("SKIPPED: {unmeasured}");
        return;
    }
    // SC0, SC1 and SC2, but for those during which the machine changed its state again and again.
    let runs = series.singles.len();
    assert!((1..=3).contains(&runs), "{unmeasured}");
    assert!(unmeasured.contains(&format!("round 2 after {runs} run")), "{unmeasured}");
    let report = report::of(series);
    assert!(report.rows.len() == runs && report::text(&report).contains("not measured: round 2"));
}

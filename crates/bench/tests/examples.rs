//! The programs in `examples/` run. Cargo builds them before the tests.

use std::process::Command;

use bench::fixture::Fixture;

#[test]
fn the_core_serves_reads_in_memory() {
    let own = std::env::current_exe().unwrap();
    let program = own.ancestors().nth(2).expect("tests lie in target/PROFILE/deps").join("examples/in_memory");
    let fixture = Fixture::make().unwrap();
    let run = |folder: &std::path::Path| Command::new(&program).arg(folder).output().unwrap();
    let done = run(fixture.folder());
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let empty = tempfile::tempdir().unwrap();
    assert!(!run(empty.path()).status.success(), "without certificates and keys there is nothing to serve");
}

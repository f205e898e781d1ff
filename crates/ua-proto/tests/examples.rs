//! The programs in `examples/` run. Cargo builds them before the tests.

use std::process::Command;

#[test]
fn the_bytes_of_variables_are_measured() {
    let own = std::env::current_exe().unwrap();
    let program = own.ancestors().nth(2).expect("tests lie in target/PROFILE/deps").join("examples/space_bytes");
    let said = |count: &str| {
        let done = Command::new(&program).arg(count).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    let numbers = |text: String| -> Vec<u64> { text.split_whitespace().filter_map(|word| word.parse().ok()).collect() };
    let (none, many) = (numbers(said("0")), numbers(said("20000")));
    let [[nodes, peak], [more_nodes, more_peak]] =
        [none.as_slice(), &many].map(|two| <[u64; 2]>::try_from(two).unwrap());
    assert_eq!(more_nodes - nodes, 20_000 + 20, "the variables and their folders");
    assert!(0 < peak && peak < more_peak, "{peak} kB, then {more_peak} kB");
}

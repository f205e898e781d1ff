//! Runs every tidy check against this workspace, one test each run, so that a fault names its check and its place.

#[test]
fn the_workspace_is_tidy() {
    let root = xtask::root();
    let mut faults = Vec::new();
    for check in xtask::CHECKS {
        match (check.run)(&root) {
            Ok(found) => faults.extend(found.into_iter().map(|fault| format!("{}: {fault}", check.name))),
            Err(reason) => faults.push(format!("{}: could not run: {reason}", check.name)),
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

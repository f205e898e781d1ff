//! The walls between crates. `walls.toml` beside this crate's manifest holds the table of DESIGN section 2; cargo says what is true.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Walls {
    #[serde(rename = "crate")]
    crates: BTreeMap<String, Wall>,
    forbidden: Forbidden,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wall {
    #[serde(default)]
    pure: bool,
    may: BTreeSet<String>,
    #[serde(default)]
    dev: BTreeSet<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Forbidden {
    runtime: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
}

impl Wall {
    fn allows(&self, dependency: &Dependency) -> bool {
        let name = dependency.name.as_str();
        let named = |set: &BTreeSet<String>| set.contains(name) || (set.contains("*") && name != "trapkey");
        match dependency.kind.as_deref() {
            Some("dev") => named(&self.may) || named(&self.dev) || name == "testkit",
            _ => named(&self.may),
        }
    }
}

/// Compares the direct dependencies among our own crates with the table.
pub fn imports(root: &Path) -> Result<Vec<String>, String> {
    let walls = table()?;
    let metadata = metadata(root)?;
    let ours: BTreeSet<&str> = metadata.packages.iter().map(|package| package.name.as_str()).collect();
    let mut faults = Vec::new();
    for package in &metadata.packages {
        let Some(wall) = walls.crates.get(&package.name) else {
            faults.push(format!("crate `{}` is not in crates/xtask/walls.toml", package.name));
            continue;
        };
        let own = package.dependencies.iter().filter(|dependency| ours.contains(dependency.name.as_str()));
        for dependency in own.filter(|dependency| !wall.allows(dependency)) {
            faults.push(format!("crate `{}` must not import `{}` (DESIGN section 2)", package.name, dependency.name));
        }
    }
    Ok(faults)
}

/// Asks `cargo tree` whether a runtime or a socket library leaked into a pure crate.
pub fn runtimes(root: &Path) -> Result<Vec<String>, String> {
    let walls = table()?;
    let mut faults = Vec::new();
    for package in metadata(root)?.packages {
        if !walls.crates.get(&package.name).is_some_and(|wall| wall.pure) {
            continue;
        }
        let arguments =
            ["tree", "--offline", "-e", "normal", "--prefix", "none", "--format", "{p}", "-p", &package.name];
        let tree = crate::run(root, &crate::cargo(), &arguments)?;
        let reached: BTreeSet<&str> = tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
        for runtime in walls.forbidden.runtime.iter().filter(|runtime| reached.contains(runtime.as_str())) {
            faults.push(format!(
                "pure crate `{}` reaches `{runtime}`; see `cargo tree -p {0} -i {runtime}`",
                package.name
            ));
        }
    }
    Ok(faults)
}

fn table() -> Result<Walls, String> {
    toml::from_str(include_str!("../walls.toml")).map_err(|error| format!("crates/xtask/walls.toml: {error}"))
}

fn metadata(root: &Path) -> Result<Metadata, String> {
    let text = crate::run(root, &crate::cargo(), &["metadata", "--no-deps", "--offline", "--format-version", "1"])?;
    serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(of: &str, name: &str, kind: Option<&str>) -> bool {
        let walls = table().expect("the table parses");
        walls.crates[of].allows(&Dependency { name: name.to_owned(), kind: kind.map(str::to_owned) })
    }

    #[test]
    fn the_table_says_no_where_the_design_says_never() {
        let cases = [
            ("a token format in the decision", "pdp", "token", None, false),
            ("the decision in a gate", "gates", "pdp", None, false),
            ("the store in a gate", "gates", "store", None, false),
            ("the policy in the protocol", "ua-proto", "pdp", None, false),
            ("a gate in the authority", "authority", "gates", None, false),
            ("the program in the plant", "plant", "trapkey", None, false),
            ("the test kit in a product crate", "gates", "testkit", None, false),
            ("the test kit in a test", "gates", "testkit", Some("dev"), true),
            ("a build script is code too", "ua-proto", "store", Some("build"), false),
            ("a token in the protocol", "ua-proto", "token", None, true),
        ];
        for (rule, of, name, kind, allowed) in cases {
            assert_eq!(verdict(of, name, kind), allowed, "{rule}");
        }
    }
}

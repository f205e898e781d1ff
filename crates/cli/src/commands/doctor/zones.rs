//! Whether zones of the configuration and of the plant file are of one another.

use std::collections::{BTreeMap, BTreeSet};

use super::{Findings, Standing};
use crate::commands::up::zones_of;
use crate::config::Config;
use crate::nearest::nearest;

/// Each `[[zone]]`, and each zone without one in which something stands that is configured here.
pub(super) fn look(config: &Config, plant: &pdp::Plant, findings: &mut Findings) {
    let servers = config.server.iter().map(|role| role.name.as_str());
    let guards = config.guard.iter().map(|role| role.name.as_str());
    let mut there: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for name in servers.chain(guards) {
        let Some((_, server)) = plant.server(name) else { continue };
        for zone in zones_of(plant, server) {
            there.entry(zone).or_default().insert(name);
        }
    }
    for zone in &config.zone {
        let what = format!("zone {}", zone.name);
        let known = plant.zones.keys().map(String::as_str);
        match there.remove(zone.name.as_str()) {
            Some(names) => findings.add(Standing::Ok, what, format!("holds for what stands in it of {}", list(&names))),
            None if plant.zones.contains_key(&zone.name) => {
                findings.add(Standing::Warning, what, "nothing that is configured here stands in it");
            }
            None => {
                let near = nearest(&zone.name, known).map(|near| format!("; did you mean `{near}`?"));
                let detail = format!("the plant file has no such zone{}", near.unwrap_or_default());
                findings.add(Standing::Failed, what, detail);
            }
        }
    }
    // Whoever names no zone at all means to say everything with `fail_mode`.
    for (zone, names) in there.into_iter().filter(|_| !config.zone.is_empty()) {
        let detail = format!("has no `[[zone]]`: the `fail_mode` of {} holds there alone", list(&names));
        findings.add(Standing::Warning, format!("zone {zone}"), detail);
    }
}

fn list(names: &BTreeSet<&str>) -> String {
    names.iter().copied().collect::<Vec<_>>().join(", ")
}

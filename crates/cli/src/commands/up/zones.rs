//! Zones of the configuration: which scopes of a server or guard stand in them, and what holds there while something is
//! lost; and the ledger, of which every gate hears when it takes no more records.

use std::collections::BTreeSet;
use std::time::Duration;

use gates::opcua::Enforcing;
use gates::opcua::server::Handle;
use pdp::plant::{EquipmentPlace, Server};
use pep::{FailMode, LedgerTrouble};
use store::{Health, Ledger};
use ua_proto::server::Input;

use crate::config::{FailMode as Configured, Zone};

/// How often it is looked whether there is still room while nothing can be written.
const LOOK: Duration = Duration::from_millis(250);

/// What one server or guard has to hold to.
#[derive(Clone, Debug)]
pub(super) struct Zoned {
    /// Zones of the configuration.
    pub(super) zones: Vec<Zone>,
    /// What it is configured to do itself, if anything; it holds everywhere besides.
    pub(super) own: Option<FailMode>,
}

impl Zoned {
    /// The zones with scopes of this server.
    pub(super) fn of(&self, plant: &pdp::Plant, server: &Server) -> Vec<pep::Zone> {
        let placed = |zone: &Zone| {
            let within = |equipment: &str| zone_of(plant, equipment) == Some(zone.name.as_str());
            let scopes = server.scopes.iter().filter(|scope| within(&scope.equipment)).map(|scope| scope.name.clone());
            let public = within(&server.equipment).then(|| "public".to_owned());
            let scopes: Vec<String> = public.into_iter().chain(scopes).collect();
            let modes = [mode(zone.fail_mode, zone.last_known_good_for.get())].into_iter().chain(self.own).collect();
            (!scopes.is_empty()).then(|| pep::Zone { name: zone.name.clone(), modes, scopes })
        };
        self.zones.iter().filter_map(placed).collect()
    }
}

/// The zones of the plant file in which something of this server stands.
pub(crate) fn zones_of<'a>(plant: &'a pdp::Plant, server: &Server) -> BTreeSet<&'a str> {
    let all = server.scopes.iter().map(|scope| &scope.equipment).chain([&server.equipment]);
    all.filter_map(|equipment| zone_of(plant, equipment)).collect()
}

/// A mode of the configuration as a gate knows it.
pub(super) const fn mode(mode: Configured, grace: Duration) -> FailMode {
    match mode {
        Configured::Closed => FailMode::Closed,
        Configured::ReadOnly => FailMode::ReadOnly,
        Configured::LastKnownGood => FailMode::LastKnownGood(grace),
    }
}

/// The zone that a piece of equipment stands in, as part of others or by itself.
fn zone_of<'a>(plant: &'a pdp::Plant, equipment: &str) -> Option<&'a str> {
    let mut at = plant.equipment.get(equipment)?;
    loop {
        match &at.place {
            EquipmentPlace::Zone(zone) => return Some(zone),
            // Nothing is part of itself: the plant file was checked.
            EquipmentPlace::PartOf(whole) => at = plant.equipment.get(whole)?,
        }
    }
}

/// Tells a gate whether anything can be recorded, until its server has stopped.
pub(super) async fn follow_ledger<C: Enforcing>(name: String, ledger: Ledger, handle: Handle<C>) {
    let mut changed = ledger.watch();
    let mut told = None;
    loop {
        let trouble = trouble(&ledger.health());
        if trouble != told {
            if handle.with(move |core, now| core.tell(Input::Ledger(trouble), now)).await.is_err() {
                return;
            }
            match trouble {
                None => tracing::info!(name, "the audit ledger takes records again"),
                Some(LedgerTrouble::Failing) => {
                    tracing::warn!(name, "the audit ledger cannot be written: what passes is recorded later");
                }
                Some(LedgerTrouble::Full) => {
                    tracing::error!(name, "there is no more room for audit records: nothing passes");
                }
            }
            told = trouble;
        }
        tokio::select! {
            () = handle.stopped() => return,
            () = tokio::time::sleep(LOOK), if told.is_some() => {}
            watched = changed.changed() => if watched.is_err() {
                return;
            }
        }
    }
}

fn trouble(health: &Health) -> Option<LedgerTrouble> {
    health.trouble.as_ref()?;
    Some(if health.is_crowded { LedgerTrouble::Full } else { LedgerTrouble::Failing })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLANT: &str = "[plant]\nname = \"p\"\n[[site]]\nname = \"s\"\n[[zone]]\nname = \"hall\"\nsite = \"s\"\n\
        [[zone]]\nname = \"yard\"\nsite = \"s\"\n[[equipment]]\nname = \"mixer\"\nzone = \"hall\"\n\
        [[equipment]]\nname = \"valve\"\npart_of = \"mixer\"\n[[equipment]]\nname = \"tank\"\nzone = \"yard\"\n\
        [[server]]\nname = \"m\"\nuri = \"urn:m\"\nequipment = \"mixer\"\n[[server.scope]]\nname = \"a\"\n\
        [[server.scope]]\nname = \"b\"\nequipment = \"tank\"\n[[server.scope]]\nname = \"c\"\nequipment = \"valve\"\n";

    #[test]
    fn zones_of_the_configuration_hold_for_the_scopes_that_stand_in_them() {
        let zone = "# [[zone]]\n# name = \"hall-1\"\n# fail_mode = \"read_only\"\n";
        let written = "[[zone]]\nname = \"hall\"\nfail_mode = \"read_only\"\n\
                       [[zone]]\nname = \"yard\"\nfail_mode = \"last_known_good\"\nlast_known_good_for = \"3m\"\n";
        assert!(crate::config::TEMPLATE.contains(zone));
        let text = crate::config::TEMPLATE.replacen(zone, written, 1);
        let config = ::config::read(&text, &::config::Overrides::default()).unwrap();
        let plant = pdp::Plant::parse(PLANT).unwrap();
        let (_, server) = plant.server("m").unwrap();
        let span = FailMode::LastKnownGood(Duration::from_secs(180));
        for own in [None, Some(FailMode::Closed)] {
            let zoned = Zoned { zones: config.zone.clone(), own };
            let modes = |mode| [mode].into_iter().chain(own).collect::<Vec<_>>();
            let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
            let expected = [
                pep::Zone {
                    name: "hall".into(),
                    modes: modes(FailMode::ReadOnly),
                    scopes: names(&["public", "a", "c"]),
                },
                pep::Zone { name: "yard".into(), modes: modes(span), scopes: names(&["b"]) },
            ];
            assert_eq!(zoned.of(&plant, server), expected, "{own:?}");
        }
    }
}

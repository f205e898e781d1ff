//! The snapshot in force, with what the authority looks up in it.

use std::collections::BTreeMap;

use access_model::{Epoch, Thumbprint};
use pdp::{Faults, Snapshot, Sources};

use crate::config::PolicyTexts;

/// The snapshot in force.
pub(crate) struct Standing {
    pub snapshot: Snapshot,
    /// Certificates that the plant file pins.
    pub pinned: BTreeMap<Thumbprint, String>,
}

impl Standing {
    pub(crate) fn load(texts: &PolicyTexts, epoch: Epoch) -> Result<Self, Faults> {
        let sources = Sources { plant: &texts.plant, policies: &texts.policies, workflow: texts.workflow.as_deref() };
        Snapshot::load(sources, &token::map_digest, epoch).map(Self::new)
    }

    pub(crate) fn new(snapshot: Snapshot) -> Self {
        let applications = snapshot.plant().applications.iter();
        let pinned = applications.filter_map(|(uri, one)| one.thumbprint.map(|thumbprint| (thumbprint, uri.clone())));
        Self { pinned: pinned.collect(), snapshot }
    }
}

//! NodeSet2 files: whatever they say, an import adds all of it or nothing.

use access_model::ScopeIndex;
use ua_proto::space::{ImportOptions, NodeSetLimits, Space, SpaceConfig, UnfitValue};

/// First byte: whether unknown structures are left out; the rest is the file.
pub fn nodeset(data: &[u8]) {
    let Some((kind, file)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(file) else { return };
    let config = SpaceConfig { application_uri: "urn:fuzz".into(), namespaces: vec!["urn:fuzz:there".into()] };
    let Ok(mut space) = Space::new(config) else { return };
    let options = ImportOptions {
        scope: ScopeIndex(1),
        unfit_values: if kind % 2 == 0 { UnfitValue::Refuse } else { UnfitValue::LeaveEmpty },
        limits: NodeSetLimits { bytes: 64 << 10, parts: 10_000, nodes: 500, depth: 32, text: 16 << 10 },
    };
    let before = (space.len(), space.namespaces().to_vec());
    match space.import(text, &options) {
        Ok(imported) => {
            for node in imported.nodes {
                assert!(space.contains(node), "a node that was added is there");
                assert_eq!(space.find(&space.id(node)), Some(node));
                assert!(space.parent(node).is_none_or(|parent| space.contains(parent)));
            }
            let again = space.import(text, &options);
            assert!(again.is_err() || space.len() >= before.0);
        }
        Err(error) => {
            assert_eq!((space.len(), space.namespaces().to_vec()), before, "{error}");
            assert!(error.line > 0 && !error.to_string().is_empty());
        }
    }
}

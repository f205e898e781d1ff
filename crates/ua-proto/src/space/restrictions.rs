//! AccessRestrictions (OPC 10000-3 §5.2.11 and §8.56): one byte per scope of the map and nothing per node.

use access_model::{Restrictions, ScopeIndex, ScopeMap};
use opcua_types::Variant;

use super::Space;

/// What each scope asks of a channel.
#[derive(Debug, Default)]
pub(super) struct ByScope {
    scopes: Box<[Restrictions]>,
    /// Of scopes that do not say.
    pub(super) default: Restrictions,
    /// Whether any asks for anything.
    any: bool,
}

impl Space {
    /// Sets what channels must be: `default` for every scope but `public`, which holds types and the Server object,
    /// and what single scopes ask for instead. The default is the DefaultAccessRestrictions of the added namespaces.
    pub fn set_restrictions(
        &mut self,
        default: Restrictions,
        scopes: impl IntoIterator<Item = (ScopeIndex, Restrictions)>,
    ) {
        let mut table = vec![Restrictions::NONE];
        for (scope, restrictions) in scopes {
            let Some(at) = usize::try_from(scope.0).ok().filter(|at| *at < ScopeMap::MAX) else { continue };
            if table.len() <= at {
                table.resize(at + 1, default);
            }
            if let Some(place) = table.get_mut(at) {
                *place = restrictions;
            }
        }
        let any = !default.is_empty() || table.iter().any(|asked| !asked.is_empty());
        self.restrictions = ByScope { scopes: table.into_boxed_slice(), default, any };
        for at in self.default_restrictions.iter().copied().filter_map(Self::added_at) {
            self.added.set_value(at, Variant::UInt16(default.bits()));
        }
    }

    /// Whether any node asks anything of a channel.
    #[inline]
    pub(crate) fn restricts(&self) -> bool {
        self.restrictions.any
    }

    /// What the nodes of a scope ask of a channel: their attribute AccessRestrictions.
    #[must_use]
    #[inline]
    pub fn restrictions(&self, scope: ScopeIndex) -> Restrictions {
        let at = usize::try_from(scope.0).ok();
        at.and_then(|at| self.restrictions.scopes.get(at)).copied().unwrap_or(self.restrictions.default)
    }
}

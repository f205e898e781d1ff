//! The entity types of the schema.

use std::str::FromStr;

use cedar_policy::{EntityId, EntityTypeName, EntityUid};

macro_rules! kinds {
    ($($variant:ident $field:ident,)+) => {
        /// A type of entity.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Kind { $($variant,)+ }

        /// The parsed names of all types.
        pub(crate) struct Kinds { $($field: EntityTypeName,)+ }

        impl Kind {
            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$variant => stringify!($variant),)+ }
            }

            pub(crate) fn of(uid: &EntityUid) -> Option<Self> {
                match uid.type_name().basename() { $(stringify!($variant) => Some(Self::$variant),)+ _ => None }
            }
        }

        impl Kinds {
            pub(crate) fn new() -> Result<Self, Box<cedar_policy::ParseErrors>> {
                Ok(Self { $($field: EntityTypeName::from_str(stringify!($variant)).map_err(Box::new)?,)+ })
            }

            pub(crate) fn uid(&self, kind: Kind, id: &str) -> EntityUid {
                let name = match kind { $(Kind::$variant => &self.$field,)+ };
                EntityUid::from_type_name_and_id(name.clone(), EntityId::new(id))
            }
        }
    };
}

kinds! {
    Site site,
    Zone zone,
    Equipment equipment,
    Server server,
    Scope scope,
    Method method,
    Role role,
    Group group,
    Person person,
    Application application,
    Procedure procedure,
    Phase phase,
    Step step,
    Action action,
}

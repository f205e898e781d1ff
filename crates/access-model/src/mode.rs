//! Whether a gate holds what policy says, or only watches.

/// What a gate does with a denial. Whatever cannot be read as a mode is [`Mode::Enforce`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// It holds.
    #[default]
    Enforce,
    /// It is recorded, and the operation passes: for learning what a plant does before locking it.
    Observe,
}

impl Mode {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Enforce, Self::Observe];

    /// The word in configuration, control updates and records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Observe => "observe",
        }
    }

    /// The mode with this name, and no other spelling.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

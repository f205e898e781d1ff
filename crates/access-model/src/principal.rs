//! Who asks.

use std::fmt;

/// SHA-256 over a DER certificate (RFC 8705 `x5t#S256`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Thumbprint(pub [u8; 32]);

impl fmt::Display for Thumbprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Thumbprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Thumbprint({self})")
    }
}

/// The ApplicationUri of an OPC UA application instance (OPC 10000-6 §6.2.2), as proven by its certificate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApplicationUri(pub String);

/// The person and the application that ask together. Either may be missing, never both in a permitted request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Principal {
    /// The user: JWT `sub`, user name or certificate subject. `None` for an application that acts for itself.
    pub person: Option<String>,
    /// The application, proven by its certificate.
    pub application: Option<ApplicationUri>,
    /// Role names, sorted.
    pub roles: Vec<String>,
    /// Group names, sorted.
    pub groups: Vec<String>,
}

/// What the names of nobody begin with: `anonymous@<server>` is whoever signs in at a server without any identity.
const NOBODY: &str = "anonymous@";

/// The server of `anonymous@<server>`, in whatever letters; `None` of a person's name. Nobody else may be called so, or it
/// would be told nowhere who acted.
#[must_use]
pub fn nobody_at(name: &str) -> Option<&str> {
    let (first, server) = name.split_at_checked(NOBODY.len())?;
    first.eq_ignore_ascii_case(NOBODY).then_some(server)
}

impl Principal {
    /// The one name under which this principal appears in a token's `sub`, in the audit and on screens.
    #[must_use]
    pub fn name(&self) -> &str {
        match (&self.person, &self.application) {
            (Some(person), _) => person,
            (None, Some(application)) => &application.0,
            (None, None) => "anonymous",
        }
    }
}

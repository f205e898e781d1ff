//! Scopes in which two persons are needed for a change: what is asked of the gate, and what everybody is told.

use access_model::{Now, Reason, TwoPersons};
use aws_lc_rs::digest::{Context, SHA256};
use opcua_types::{BinaryEncodable, ContextOwned, StatusCode, Variant};
use pep::{Asking, Consent, Gate, GrantId};

use super::No;

/// Longest value that a second person is shown, in characters. Of a longer one the beginning and the digest are.
const SHOWN: usize = 160;

/// What makes a change this one and no other.
pub(crate) struct Change(Context);

impl Change {
    /// A change by a service.
    pub(crate) fn by(service: &str) -> Self {
        Self(Context::new(&SHA256)).with(service.as_bytes())
    }

    /// One part of it; no two lists of parts have the same bytes.
    pub(crate) fn with(mut self, part: &[u8]) -> Self {
        self.0.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
        self.0.update(part);
        self
    }

    /// A part in binary.
    pub(crate) fn with_encoded(self, part: &impl BinaryEncodable) -> Self {
        self.with(&part.encode_to_vec(&ContextOwned::default().context()))
    }

    /// The beginning of its digest, for words that cannot show all of it.
    pub(crate) fn short(&self) -> String {
        let digest = self.0.clone().finish();
        digest.as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }

    fn digest(self) -> [u8; 32] {
        let mut digest = [0; 32];
        digest.iter_mut().zip(self.0.finish().as_ref()).for_each(|(to, from)| *to = *from);
        digest
    }
}

/// A refusal: for the audit and for the client.
pub(crate) struct Unapproved {
    pub(crate) detail: String,
    pub(crate) no: No,
}

impl Unapproved {
    pub(crate) const REASON: Reason = Reason::ApprovalNeeded;

    /// The session is nobody's any more.
    pub(crate) fn nobody() -> Self {
        Self { detail: "there is no grant".to_owned(), no: StatusCode::BadUserAccessDenied.into() }
    }
}

/// Asks whether the change may be made; gives what its record says of that. `terms`: of every scope that it touches; if
/// empty, nobody needs to be asked.
pub(crate) fn consent(
    gate: &mut Gate,
    grant: GrantId,
    (change, words): (Change, &str),
    terms: &[TwoPersons],
    now: Now,
) -> Result<String, Unapproved> {
    let digest = change.digest();
    let refused = |detail: String, told: String| {
        Err(Unapproved { detail, no: No { status: StatusCode::BadRequestNotAllowed, told: Some(told) } })
    };
    match gate.consent(&Asking { grant, digest, terms, change: words }, now) {
        Consent::Given { id, by } => Ok(format!("approved by `{by}` ({id})")),
        Consent::Waits { id } => {
            let mut roles: Vec<String> = terms.iter().map(|terms| format!("`{}`", terms.role)).collect();
            roles.sort_unstable();
            roles.dedup();
            let roles = roles.join(" and ");
            let told =
                format!("approval {id} is needed, by a second person with the role {roles}; then the same again");
            refused(format!("approval {id} is needed by a second person with the role {roles}"), told)
        }
        Consent::Never(why) => refused(format!("a second person must approve: {why}"), why.to_owned()),
    }
}

/// A value as the second person is shown it: whoever approves must see what of.
pub(crate) fn shown(value: Option<&Variant>) -> String {
    let Some(value) = value else { return "nothing".to_owned() };
    let whole = match value {
        Variant::Array(array) => {
            let parts: Vec<String> = array.values.iter().take(SHOWN).map(ToString::to_string).collect();
            format!("[{}]", parts.join(", "))
        }
        Variant::String(text) => format!("{:?}", text.as_ref()),
        scalar => scalar.to_string(),
    };
    let plain = value.is_numeric() || matches!(value, Variant::Array(_) | Variant::String(_) | Variant::Boolean(_));
    if plain && whole.chars().count() <= SHOWN {
        return whole;
    }
    let digest = Change::by("shown").with_encoded(value).short();
    let beginning: String = whole.chars().take(SHOWN).filter(|c| !c.is_control()).collect();
    format!("{beginning}… (digest {digest})")
}

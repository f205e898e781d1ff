//! The audit record: a noun that gates produce and the ledger keeps (DESIGN D12).

use crate::{Action, Epoch, Reason, UnixTime};

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum AuditKind {
    /// A secure channel was opened, or its opening refused.
    ChannelOpened,
    /// A secure channel ended.
    ChannelClosed,
    /// A session was created.
    SessionCreated,
    /// A session was activated, or the activation refused.
    SessionActivated,
    /// A session ended.
    SessionClosed,
    /// A client took requests back that waited.
    Cancelled,
    /// A value or attribute was written, or the write denied.
    Write,
    /// A method was called, or the call denied.
    Call,
    /// A node or reference was added or deleted, or that was denied.
    NodesChanged,
    /// History was changed, or that was denied.
    HistoryChanged,
    /// Reads of one session, scope and second.
    Read,
    /// Browses of one session, scope and second.
    Browse,
    /// Values delivered by subscriptions of one session, scope and second.
    Notify,
    /// A grant ended by time.
    GrantExpired,
    /// A grant was revoked.
    GrantRevoked,
    /// A grant lost rights.
    GrantNarrowed,
    /// A grant gained rights.
    GrantWidened,
    /// A token was issued, or the request for it refused.
    TokenIssued,
    /// A token was refreshed, or the refresh refused.
    TokenRefreshed,
    /// A token was revoked.
    TokenRevoked,
    /// A policy decision answered over AuthZEN.
    Decision,
    /// Policy or plant files changed, or a change was refused.
    PolicyChanged,
    /// The configuration changed.
    ConfigurationChanged,
    /// The account of a person or an application was made, changed, closed or removed.
    AccountChanged,
    /// The workflow moved to another step.
    StepChanged,
    /// Break-glass rights were taken.
    BreakGlass,
    /// A second person was asked to approve of a change, approved or declined.
    Approval,
    /// A fail mode took effect or ended.
    FailMode,
    /// Contact between gate and authority was lost or found.
    Contact,
    /// A certificate was rejected, or a trust list changed.
    Certificate,
}

impl AuditKind {
    /// The name in the ledger and in exports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ChannelOpened => "channel_opened",
            Self::ChannelClosed => "channel_closed",
            Self::SessionCreated => "session_created",
            Self::SessionActivated => "session_activated",
            Self::SessionClosed => "session_closed",
            Self::Cancelled => "cancelled",
            Self::Write => "write",
            Self::Call => "call",
            Self::NodesChanged => "nodes_changed",
            Self::HistoryChanged => "history_changed",
            Self::Read => "read",
            Self::Browse => "browse",
            Self::Notify => "notify",
            Self::GrantExpired => "grant_expired",
            Self::GrantRevoked => "grant_revoked",
            Self::GrantNarrowed => "grant_narrowed",
            Self::GrantWidened => "grant_widened",
            Self::TokenIssued => "token_issued",
            Self::TokenRefreshed => "token_refreshed",
            Self::TokenRevoked => "token_revoked",
            Self::Decision => "decision",
            Self::PolicyChanged => "policy_changed",
            Self::ConfigurationChanged => "configuration_changed",
            Self::AccountChanged => "account_changed",
            Self::StepChanged => "step_changed",
            Self::BreakGlass => "break_glass",
            Self::Approval => "approval",
            Self::FailMode => "fail_mode",
            Self::Contact => "contact",
            Self::Certificate => "certificate",
        }
    }
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was done.
    Allowed,
    /// It was turned away.
    Denied(Reason),
    /// It was allowed and then failed; the status code of the protocol says how.
    Failed(u32),
    /// It was done because a gate only observes; enforcement would have turned it away for this reason.
    Observed(Reason),
}

/// What a gate decided about, in the words that a policy is asked with: for whoever decides it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The server's ApplicationUri.
    pub server: String,
    /// The scope's name; empty for what no scope of the server names.
    pub scope: String,
    /// What was to be done there.
    pub action: Action,
    /// Where the workflow stood, steps joined by `, `, as far as the gate was told; empty when it was told nothing.
    pub steps: String,
    /// The roles that the grant named, in the words of [`Place::roles_of`]; empty when it named none.
    pub roles: String,
}

impl Place {
    /// The longest words for roles, in bytes.
    pub const MAX_ROLES: usize = 512;

    /// Roles in words: sorted, joined by `, `, as many as fit and then `…`. A comma or a percent sign of a name is escaped
    /// (`%2C`, `%25`), so that no name passes for two.
    #[must_use]
    pub fn roles_of(roles: &[String]) -> String {
        let mut names: Vec<String> = roles.iter().map(|role| escaped(role)).collect();
        names.sort_unstable();
        names.dedup();
        let mut words = String::new();
        for name in names {
            let joined = if words.is_empty() { 0 } else { 2 };
            // Room for the sign that some are left out.
            if words.len() + joined + name.len() + 5 > Self::MAX_ROLES {
                return words + if joined == 0 { "…" } else { ", …" };
            }
            words.push_str(if joined == 0 { "" } else { ", " });
            words.push_str(&name);
        }
        words
    }

    /// The roles of such words; those that were left out are not among them.
    #[must_use]
    pub fn roles_in(words: &str) -> Vec<String> {
        let names = words.split(", ").filter(|name| !name.is_empty() && *name != "…");
        names.map(|name| name.replace("%2C", ",").replace("%25", "%")).collect()
    }
}

fn escaped(name: &str) -> String {
    name.chars()
        .map(|letter| match letter {
            '%' => "%25".to_owned(),
            ',' => "%2C".to_owned(),
            letter if letter.is_control() => "\u{fffd}".to_owned(),
            letter => letter.to_string(),
        })
        .collect()
}

/// Who did it, as far as it was proven.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Actor {
    /// The principal's name.
    pub name: String,
    /// The ApplicationUri of the client, if a certificate proved one.
    pub application: Option<String>,
    /// The network address the request came from.
    pub address: Option<String>,
    /// The session, as the protocol names it.
    pub session: Option<String>,
}

/// One audit record. Secrets and tokens never enter it; a token is named by its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRecord {
    /// When.
    pub at: UnixTime,
    /// What.
    pub kind: AuditKind,
    /// Who.
    pub actor: Actor,
    /// The server, scope, node or token it was done to; empty when there is none.
    pub object: String,
    /// How it ended.
    pub outcome: Outcome,
    /// One sentence with the rest, at most 1,024 bytes.
    pub detail: String,
    /// How many equal events this record stands for; at least 1.
    pub count: u64,
    /// The policy epoch, if a decision took part.
    pub epoch: Option<Epoch>,
    /// What was decided about, if it was one thing.
    pub place: Option<Box<Place>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_told_in_words_that_are_bounded_and_read_back() {
        let told = |roles: &[&str]| Place::roles_of(&roles.iter().map(|role| (*role).to_owned()).collect::<Vec<_>>());
        for (rule, roles, words) in [
            ("none", vec![], ""),
            ("sorted, each once", vec!["setter", "observer", "setter"], "observer, setter"),
            ("a name that looks like two", vec!["a, operator", "50%"], "50%25, a%2C operator"),
        ] {
            assert_eq!(told(&roles), words, "{rule}");
        }
        assert_eq!(Place::roles_in("50%25, a%2C operator, …"), ["50%", "a, operator"]);
        assert_eq!(Place::roles_in(&told(&["%2C"])), ["%2C"]);
        let many: Vec<String> = (0..1_000).map(|number| format!("role {number:04}")).collect();
        let words = Place::roles_of(&many);
        assert!(words.len() <= Place::MAX_ROLES && words.ends_with(", …"), "{words}");
        assert!(many.starts_with(&Place::roles_in(&words)));
        assert_eq!(Place::roles_of(&["x".repeat(5_000)]), "…");
    }
}

//! What the server says of itself in ServerCapabilities: facets and profiles of OPC 10000-7 that hold as it is set up.
//!
//! No full server profile is among them: the smallest of those beyond the facets listed here ask for what is not there
//! (diagnostics).

use std::collections::BTreeSet;

use super::config::ServerConfig;

/// What every server of this crate has.
const ALWAYS: [&str; 5] = [
    "http://opcfoundation.org/UA-Profile/Transport/uatcp-uasc-uabinary",
    "http://opcfoundation.org/UA-Profile/Server/Core2017Facet",
    "http://opcfoundation.org/UA-Profile/Server/EmbeddedDataChangeSubscription",
    "http://opcfoundation.org/UA-Profile/Server/StandardEventSubscription",
    "http://opcfoundation.org/UA-Profile/Server/Methods",
];

/// Its messages and names for people.
pub(super) const LOCALE: &str = "en";

/// The URIs of ServerProfileArray, in order.
pub(super) fn of(config: &ServerConfig) -> Vec<String> {
    let mut uris: Vec<&str> = ALWAYS.to_vec();
    if config.audit.events.is_some() {
        uris.push("http://opcfoundation.org/UA-Profile/Server/Auditing");
    }
    let policies: BTreeSet<&str> = config.endpoints.iter().map(|(policy, _)| policy.uri()).collect();
    uris.extend(policies);
    let identities = &config.identities;
    for (taken, uri) in [
        (identities.anonymous, "http://opcfoundation.org/UA-Profile/Security/UserToken/Anonymous"),
        (identities.user_name, "http://opcfoundation.org/UA-Profile/Security/UserToken/Server/UserNamePassword"),
        (
            identities.certificate.is_some(),
            "http://opcfoundation.org/UA-Profile/Security/UserToken/Server/X509Certificate",
        ),
        (identities.issued.is_some(), "http://opcfoundation.org/UA-Profile/Security/UserToken/Server/JsonWebToken"),
    ] {
        if taken {
            uris.push(uri);
        }
    }
    uris.into_iter().map(str::to_owned).collect()
}

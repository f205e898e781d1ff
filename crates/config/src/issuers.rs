//! What makes no sense of issuers beside the authority.

use crate::ForeignIssuer;
use crate::fault::{Fault, Step};

/// Issuers beside the authority of a server or a guard.
pub(crate) fn issuers(all: &[ForeignIssuer], authority: &str, tokens: bool) -> Result<(), Fault> {
    for (at, issuer) in all.iter().enumerate() {
        let way = [Step::Key("issuer"), Step::Entry(at)];
        if !tokens {
            let fault = "`identities` lists no `token`";
            return Err(Fault::at("identities", fault.to_owned(), "add it: issuers make tokens"));
        }
        let name = issuer.name.trim_end_matches('/');
        let known = all.iter().take(at).any(|before| before.name == issuer.name);
        if name.is_empty() || known || name == authority.trim_end_matches('/') {
            let help = "write what stands in `iss` of its tokens; the authority and each issuer once";
            return Err(Fault::at("name", "this issuer has no name of its own", help).below(&way));
        }
        foreign(issuer).map_err(|fault| fault.below(&way))?;
    }
    Ok(())
}

fn foreign(issuer: &ForeignIssuer) -> Result<(), Fault> {
    let help = "name a file with `jwks`, or an address with `jwks_url`";
    match (&issuer.jwks, &issuer.jwks_url) {
        (None, None) => return Err(Fault::at("name", "nothing says which keys it signs with", help)),
        (Some(_), Some(_)) => return Err(Fault::at("jwks_url", "its keys have two places", help)),
        (None, Some(url)) if !url.starts_with("https://") => {
            return Err(Fault::at(
                "jwks_url",
                "this is no https URL",
                "keys that anybody on the way can swap are none",
            ));
        }
        (Some(_), None) if !issuer.ca.is_empty() => {
            return Err(Fault::at("ca", "nobody is asked over HTTPS", "take it away, or name a `jwks_url`"));
        }
        _ => {}
    }
    if issuer.audience.as_ref().is_some_and(String::is_empty) {
        let help = "write what stands in `aud` of its tokens, or leave the key out";
        return Err(Fault::at("audience", "the audience is empty", help));
    }
    for (at, given) in issuer.rights.iter().enumerate() {
        if given.role.is_some() == given.group.is_some() {
            let fault = Fault::at("rights", "these rights are for nobody", "name one `role` or one `group`");
            return Err(fault.below(&[Step::Key("rights"), Step::Entry(at)]));
        }
    }
    if issuer.rights.is_empty() {
        let help = "say with `[[server.issuer.rights]]` what a role or group of it may do";
        return Err(Fault::at("name", "none of its tokens would have a right", help));
    }
    Ok(())
}

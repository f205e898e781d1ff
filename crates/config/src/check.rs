//! What can be read and makes no sense: keys that contradict each other.

use crate::fault::{Fault, Step};
use crate::issuers::issuers;
use crate::{
    Authority, Config, Endpoint, Guard, Identity, Limits, MAX_REVERSE_CONNECT, Mode, Operation, Policy, Server,
    TokenSecret, UpstreamSecurity,
};

/// The first fault.
pub(crate) fn check(config: &Config) -> Result<(), Fault> {
    operation(&config.operation).map_err(|fault| fault.below(&[Step::Key("operation")]))?;
    if let Some(role) = &config.authority {
        authority(role).map_err(|fault| fault.below(&[Step::Key("authority")]))?;
    }
    once("register_with", &config.discovery.register_with).map_err(|fault| fault.below(&[Step::Key("discovery")]))?;
    for (at, role) in config.server.iter().enumerate() {
        let way = [Step::Key("server"), Step::Entry(at)];
        endpoint(&role.endpoint()).and_then(|()| server(role)).map_err(|fault| fault.below(&way))?;
    }
    for (at, role) in config.guard.iter().enumerate() {
        let way = [Step::Key("guard"), Step::Entry(at)];
        endpoint(&role.endpoint()).and_then(|()| guard(role)).map_err(|fault| fault.below(&way))?;
    }
    for (at, zone) in config.zone.iter().enumerate() {
        if config.zone.iter().take(at).any(|before| before.name == zone.name) {
            let help = "write one `[[zone]]` for each zone of the plant file";
            let fault = Fault::at("name", "this zone is listed twice", help);
            return Err(fault.below(&[Step::Key("zone"), Step::Entry(at)]));
        }
    }
    crate::ports::check(config)
}

fn operation(operation: &Operation) -> Result<(), Fault> {
    match operation.listen {
        Some(address) if !address.ip().is_loopback() && !operation.danger_beyond_loopback => {
            let help = "listen at 127.0.0.1, or write `danger_beyond_loopback = true`";
            Err(Fault::at("listen", "whoever reaches this address would see how the program is, without a login", help))
        }
        _ => Ok(()),
    }
}

fn guard(role: &Guard) -> Result<(), Fault> {
    let upstream = [Step::Key("upstream")];
    if role.danger_passwords_without_security && !role.danger_without_security {
        let help = "`danger_without_security = true` takes clients without security at all";
        let key = "danger_passwords_without_security";
        return Err(Fault::at(key, "there are no channels without security here", help));
    }
    if role.upstream.security == UpstreamSecurity::None && role.upstream.certificate.is_some() {
        let help = "a server that shows no security proves no certificate: take one of the two away";
        return Err(Fault::at("certificate", "nothing would hold the server to it", help).below(&upstream));
    }
    if let Some(standby) = &role.standby {
        let way = [Step::Key("standby")];
        if standby.listen == standby.peer {
            let help = "write where the other guard has its `listen`";
            return Err(Fault::at("peer", "this guard would ask itself", help).below(&way));
        }
        if !role.reverse_connect.is_empty() {
            let help = "let clients dial both guards, or take `[guard.standby]` away";
            return Err(Fault::at("reverse_connect", "two guards that take turns call nobody", help));
        }
    }
    if role.upstream.listen.is_some() != role.upstream.server_uri.is_some() {
        let (key, missing) =
            if role.upstream.listen.is_some() { ("listen", "server_uri") } else { ("server_uri", "listen") };
        let help = format!("a server that calls needs both: add `{missing}`, or take this away");
        return Err(Fault::at(key, format!("there is no `{missing}`"), help).below(&upstream));
    }
    if role.upstream.listen.is_some() && role.upstream.security == UpstreamSecurity::None {
        let help = "take this away, so that the server proves its `server_uri`, or let the guard dial";
        return Err(Fault::at("security", "whoever calls here could say to be the server", help).below(&upstream));
    }
    if role.upstream.users().any(|user| !user.is_whole()) {
        let help = "write `name` and `password_file`, or `certificate` and `key`";
        return Err(Fault::at("user", "this is neither a user with a password nor one with a certificate", help)
            .below(&upstream));
    }
    issuers(&role.issuer, role.authority.as_deref().unwrap_or_default(), role.identities.contains(&Identity::Token))
}

fn authority(role: &Authority) -> Result<(), Fault> {
    once("policies", &role.policies)?;
    once("identities", &role.identities)?;
    if role.policies.is_empty() {
        let help = "write `policies = [\"Aes256_Sha256_RsaPss\"]`, or leave the key out";
        return Err(Fault::at("policies", "there is no security policy", help));
    }
    if role.identities.is_empty() || role.identities.contains(&Identity::Token) {
        let help = "list some of `user_name`, `x509` and `anonymous`";
        return Err(Fault::at("identities", "these are no identities of an authority's sessions", help));
    }
    if role.min_key_bits.get() > role.max_key_bits.get() {
        let help = format!("`max_key_bits` is {}", role.max_key_bits);
        return Err(Fault::at("min_key_bits", "no RSA key would be accepted", help));
    }
    if role.refresh_lifetime.get() > role.refresh_line.get() {
        let help = format!("`refresh_line` is {}", role.refresh_line);
        return Err(Fault::at("refresh_lifetime", "a refresh token would outlive its line", help));
    }
    if role.connections_per_address.get() > role.connections.get() {
        let help = format!("`connections` is {}", role.connections);
        return Err(Fault::at("connections_per_address", "one address could have more than all", help));
    }
    for (at, issuer) in role.identity_issuer.iter().enumerate() {
        let known = role.identity_issuer.iter().take(at).any(|before| before.name == issuer.name);
        if issuer.name.is_empty() || known || issuer.name.trim_end_matches('/') == role.issuer.trim_end_matches('/') {
            let help = "write what stands in `iss` of its tokens; each issuer once";
            let fault = Fault::at("name", "this issuer has no name of its own", help);
            return Err(fault.below(&[Step::Key("identity_issuer"), Step::Entry(at)]));
        }
    }
    limits(&role.limits)
}

fn limits(limits: &Limits) -> Result<(), Fault> {
    for (low, least, high, most) in limits.pairs() {
        if least > most {
            let fault =
                Fault::at(low, format!("`{low}` is more than `{high}`"), format!("raise `{high}` or lower this"));
            return Err(fault.below(&[Step::Key("limits")]));
        }
    }
    Ok(())
}

/// The first fault of an endpoint side.
pub(crate) fn endpoint(role: &Endpoint) -> Result<(), Fault> {
    once("modes", &role.modes)?;
    once("policies", &role.policies)?;
    once("identities", &role.identities)?;
    once("token_secrets", &role.token_secrets)?;
    if role.modes.is_empty() {
        return Err(Fault::at("modes", "there is no mode", "write `modes = [\"sign_and_encrypt\"]`"));
    }
    if role.policies.is_empty() {
        let help = "write `policies = [\"Aes256_Sha256_RsaPss\"]`, or leave the key out";
        return Err(Fault::at("policies", "there is no security policy", help));
    }
    if role.identities.is_empty() {
        let help = "write `identities = [\"token\"]`, or leave the key out";
        return Err(Fault::at("identities", "nobody could log in", help));
    }
    if role.identities.contains(&Identity::Token) && !role.takes_tokens() {
        let help = "`clear` needs the mode `sign_and_encrypt`, and `legacy_rsa` a policy with RSA";
        return Err(Fault::at("token_secrets", "no endpoint would take a token in these forms", help));
    }
    if role.min_key_bits.get() > role.max_key_bits.get() {
        let help = format!("`max_key_bits` is {}", role.max_key_bits);
        return Err(Fault::at("min_key_bits", "no RSA key would be accepted", help));
    }
    once("reverse_connect", &role.reverse_connect)?;
    if role.reverse_connect.len() > MAX_REVERSE_CONNECT {
        let help = format!("list at most {MAX_REVERSE_CONNECT}");
        return Err(Fault::at("reverse_connect", "these are too many clients to connect to", help));
    }
    limits(&role.limits)
}

fn once<T: PartialEq>(key: &'static str, list: &[T]) -> Result<(), Fault> {
    let twice = list.iter().enumerate().any(|(at, one)| list.iter().take(at).any(|before| before == one));
    if twice { Err(Fault::at(key, "something is listed twice", "list each once, the preferred first")) } else { Ok(()) }
}

impl Endpoint {
    /// Whether some endpoint takes tokens in some form.
    fn takes_tokens(&self) -> bool {
        self.token_secrets.iter().any(|form| match form {
            TokenSecret::Clear => self.modes.contains(&Mode::SignAndEncrypt),
            TokenSecret::EncryptedSecret => true,
            TokenSecret::LegacyRsa => self.policies.iter().any(|policy| Policy::RSA.contains(policy)),
        })
    }
}

fn server(role: &Server) -> Result<(), Fault> {
    let taken = |identity| role.identities.contains(&identity);
    let without = |word: &str| format!("`identities` lists no `{word}`");
    if taken(Identity::Anonymous) && role.anonymous.is_empty() {
        let help = "say with `[[server.anonymous]]` what nobody in particular may do, or take `anonymous` away";
        return Err(Fault::at("identities", "anonymous sessions would have no rights", help));
    }
    if !taken(Identity::Anonymous) && !role.anonymous.is_empty() {
        let help = "add it if anonymous sessions are wanted";
        return Err(Fault::at("anonymous", without("anonymous"), help));
    }
    issuers(&role.issuer, &role.authority, taken(Identity::Token))?;
    for (at, user) in role.user.iter().enumerate() {
        if user.name.to_ascii_lowercase().starts_with("anonymous@") {
            let help = "name a person; what nobody in particular may do is said with `[[server.anonymous]]`";
            let fault = Fault::at("name", "nobody in particular logs in by name", help);
            return Err(fault.below(&[Step::Key("user"), Step::Entry(at)]));
        }
        let below = |key, word| {
            let fault = Fault::at(key, without(word), "add it, or take this key away: nobody would be asked for it");
            fault.below(&[Step::Key("user"), Step::Entry(at)])
        };
        if user.password.is_some() && !taken(Identity::UserName) {
            return Err(below("password", "user_name"));
        }
        if user.certificate.is_some() && !taken(Identity::X509) {
            return Err(below("certificate", "x509"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::{At, Overrides, TEMPLATE, read};

    const ISSUER: &str = "# [[server.issuer]]\n";

    #[test]
    fn keys_that_contradict_each_other_are_shown_where_they_stand() {
        for (from, to, place, says) in [
            ("modes = [\"sign_and_encrypt\"]", "modes = []", "[]", "there is no mode"),
            ("modes = [\"sign_and_encrypt\"]", "modes = [\"sign\", \"sign\"]", "[\"sign\", \"sign\"]", "listed twice"),
            (
                "policies = [\"Aes256_Sha256_RsaPss\", \"Aes128_Sha256_RsaOaep\", \"Basic256Sha256\"]",
                "policies = []",
                "[]",
                "no security policy",
            ),
            ("identities = [\"token\", \"user_name\", \"x509\"]", "identities = []", "[]", "nobody could log in"),
            (
                "identities = [\"token\", \"user_name\", \"x509\"]",
                "identities = [\"anonymous\"]",
                "[\"anonymous\"]",
                "would have no rights",
            ),
            (
                "# [[server.anonymous]]\n# rights = [\"browse\", \"read\"]",
                "[[server.anonymous]]\nrights = [\"read\"]",
                "[[server.anonymous]]",
                "lists no `anonymous`",
            ),
            (
                "identities = [\"token\", \"user_name\", \"x509\"]\n",
                "identities = [\"token\"]\nuser = [{ name = \"victor\", password = \"x\" }]\n",
                "\"x\"",
                "lists no `user_name`",
            ),
            (
                "token_secrets = [\"clear\", \"encrypted_secret\", \"legacy_rsa\"]",
                "token_secrets = []",
                "[]",
                "no endpoint would take a token",
            ),
            (ISSUER, "[[server.issuer]]\nname = \"https://idp\"\n", "\"https://idp\"", "which keys it signs with"),
            (
                ISSUER,
                "[[server.issuer]]\nname = \"https://localhost:8443/\"\njwks = \"a\"\n",
                "\"https://localhost:8443/\"",
                "no name of its own",
            ),
            (
                ISSUER,
                "[[server.issuer]]\nname = \"https://idp\"\njwks_url = \"http://idp\"\n",
                "\"http://idp\"",
                "no https URL",
            ),
            (
                ISSUER,
                "[[server.issuer]]\nname = \"https://idp\"\njwks = \"a\"\nca = [\"b\"]\n",
                "[\"b\"]",
                "nobody is asked over HTTPS",
            ),
            (ISSUER, "[[server.issuer]]\nname = \"a\"\njwks = \"a\"\n", "\"a\"", "would have a right"),
            (
                ISSUER,
                "[[server.issuer]]\nname = \"a\"\njwks = \"a\"\n[[server.issuer.rights]]\nrights = [\"read\"]\n",
                "[\"read\"]",
                "for nobody",
            ),
            (
                "modes = [\"sign_and_encrypt\"]",
                "modes = [\"sign\"]\ntoken_secrets = [\"clear\"]",
                "[\"clear\"]",
                "no endpoint would take a token",
            ),
            (
                "min_key_bits = 2048\nmax_key_bits = 4096",
                "min_key_bits = 4096\nmax_key_bits = 3072",
                "4096",
                "no RSA key",
            ),
            ("refresh_line = \"12h\"", "refresh_line = \"1h\"", "\"8h\"", "would outlive its line"),
            ("connections_per_address = 128", "connections_per_address = 4000", "4000", "more than all"),
            (
                "identities = [\"user_name\", \"anonymous\"]",
                "identities = [\"token\"]",
                "[\"token\"]",
                "no identities of an authority's sessions",
            ),
            ("{ burst = 200, every = \"10ms\" }", "{ burst = 0, every = \"10ms\" }", "0", "1 to 1000000"),
            ("min_key_bits = 2048", "min_key_bits = 1024", "1024", "2048 to 4096"),
            ("missing_crl = \"refuse\"", "missing_crl = \"reject\"", "\"reject\"", "`reject` is not known here"),
            ("names = []", "names = [\"a b\"]", "[\"a b\"]", "no host name"),
            (
                "# url = \"opc.tcp://mixer.plant.local:4850\"",
                "url = \"mixer:4850\"",
                "\"mixer:4850\"",
                "opc.tcp://mixer:4840",
            ),
            ("expiry_grace = \"1m\"", "expiry_grace = \"2d\"", "\"2d\"", "0s to 1d"),
            (
                "# reverse_connect = [\"opc.tcp://scada.plant.local:4845\"]",
                "reverse_connect = [\"opc.tcp://a:1\", \"opc.tcp://a:1\"]",
                "[\"opc.tcp://a:1\", \"opc.tcp://a:1\"]",
                "listed twice",
            ),
            ("register_with = []", "register_with = [\"lds:4840\"]", "[\"lds:4840\"]", "opc.tcp://mixer:4840"),
            (
                "# [[guard]]\n",
                "[[guard]]\nname = \"g\"\nlisten = \"[::1]:1\"\nupstream = { url = \"opc.tcp://a:1\", listen = \"[::1]:2\" }\n",
                "\"[::1]:2\"",
                "no `server_uri`",
            ),
            (
                "# [[guard]]\n",
                "[[guard]]\nname = \"g\"\nlisten = \"[::1]:1\"\nupstream = { url = \"opc.tcp://a:1\", listen = \"[::1]:2\", \
                 server_uri = \"urn:a\", security = \"none\" }\n",
                "\"none\"",
                "could say to be the server",
            ),
            (
                "# [[guard]]\n",
                "[[guard]]\nname = \"g\"\nlisten = \"[::1]:1\"\nupstream = \"opc.tcp://a:1\"\n\
                 standby = { listen = \"[::1]:2\", peer = \"[::1]:2\" }\n",
                "\"[::1]:2\"",
                "ask itself",
            ),
            (
                "# [[guard]]\n",
                "[[guard]]\nname = \"g\"\nlisten = \"[::1]:1\"\nupstream = \"opc.tcp://a:1\"\n\
                 reverse_connect = [\"opc.tcp://b:1\"]\nstandby = { listen = \"[::1]:2\", peer = \"[::1]:3\" }\n",
                "[\"opc.tcp://b:1\"]",
                "call nobody",
            ),
            (
                "# [[zone]]\n",
                "[[zone]]\nname = \"a\"\nfail_mode = \"closed\"\n[[zone]]\nname = \"a\"\nfail_mode = \"closed\"\n",
                "\"a\"",
                "listed twice",
            ),
            ("# [[zone]]\n", "[[zone]]\nname = \"a\"\nfail_mode = \"open\"\n", "\"open\"", "`open` is not known here"),
            ("danger_without_security", "without_security", "without_security", "there is no key"),
        ] {
            let roles = TEMPLATE.find("[[server]]").unwrap();
            let from_server = from.starts_with("policies") || from.starts_with("min_key_bits");
            let (before, after) = TEMPLATE.split_at(if from_server { roles } else { 0 });
            let mut text = format!("{before}{}", after.replacen(from, to, 1));
            if to.contains("\ntoken_secrets") {
                text = text.replacen("token_secrets = [\"clear\", \"encrypted_secret\", \"legacy_rsa\"]\n", "", 1);
            }
            assert_ne!(text, TEMPLATE, "{from}");
            let invalid = read(&text, &Overrides::default()).expect_err(to);
            let At::Text(at) = invalid.at.clone() else { panic!("{invalid:?}") };
            assert_eq!((&text[at], invalid.message.contains(says)), (place, true), "{to}: {invalid:?}");
            assert!(
                invalid.help.is_some() || invalid.message.contains("expected") || invalid.message.contains('`'),
                "{to}"
            );
        }
    }

    #[test]
    fn a_variable_that_contradicts_the_file_is_named() {
        let name = "TRAPKEY__SERVER__0__LIMITS__SESSION_TIMEOUT_MIN";
        for (name, value) in
            [("TRAPKEY__SERVER__1__MODES", "[]"), (name, "1h"), ("TRAPKEY__SERVER__2__MIN_KEY_BITS", "1")]
        {
            let over: Overrides = [(name.to_owned(), value.to_owned())].into_iter().collect();
            let text = TEMPLATE.replace("# [server.limits]", "[server.limits]\nsession_timeout_max = \"30m\"");
            assert_eq!(read(&text, &over).unwrap_err().at, At::Variable(name.to_owned()), "{value}");
        }
    }
}

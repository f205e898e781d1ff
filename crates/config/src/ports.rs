//! Two roles cannot listen at one address.

use std::net::SocketAddr;

use crate::Config;
use crate::fault::{Fault, Step};

/// Where a role listens, and where the configuration says so.
struct Place {
    address: SocketAddr,
    way: Vec<Step>,
    /// The key that names the address.
    key: &'static str,
    /// What people call the role.
    name: String,
}

/// The second of two that would listen at one address. Port 0 is whichever is free.
pub(crate) fn check(config: &Config) -> Result<(), Fault> {
    let mut before: Vec<Place> = Vec::new();
    for place in places(config).into_iter().filter(|place| place.address.port() != 0) {
        if let Some(first) = before.iter().find(|first| meet(first.address, place.address)) {
            let message = format!("two roles would listen at {}", place.address);
            let help = format!("{} has {}; give this one another port", first.name, first.address);
            return Err(Fault::at(place.key, message, help).below(&place.way));
        }
        before.push(place);
    }
    Ok(())
}

fn places(config: &Config) -> Vec<Place> {
    let of = |address, way: &[Step], key, name| Place { address, way: way.to_vec(), key, name };
    let mut all = Vec::new();
    if let Some(role) = &config.authority {
        let way = [Step::Key("authority")];
        all.push(of(role.https, &way, "https", "the authority's HTTPS".to_owned()));
        all.push(of(role.opcua, &way, "opcua", "the authority's OPC UA side".to_owned()));
    }
    for (at, role) in config.server.iter().enumerate() {
        let way = [Step::Key("server"), Step::Entry(at)];
        all.push(of(role.listen, &way, "listen", format!("the server `{}`", role.name)));
    }
    for (at, role) in config.guard.iter().enumerate() {
        let way = [Step::Key("guard"), Step::Entry(at)];
        all.push(of(role.listen, &way, "listen", format!("the guard `{}`", role.name)));
        if let Some(standby) = &role.standby {
            let way = [Step::Key("guard"), Step::Entry(at), Step::Key("standby")];
            all.push(of(standby.listen, &way, "listen", format!("the guard `{}` for its other", role.name)));
        }
    }
    if let Some(address) = config.operation.listen {
        all.push(of(address, &[Step::Key("operation")], "listen", "what says how it is".to_owned()));
    }
    all
}

/// Whether nobody could listen at both: the same port, and the same address or every one.
fn meet(one: SocketAddr, other: SocketAddr) -> bool {
    let everywhere = one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() == other.port() && (everywhere || one.ip() == other.ip())
}

#[cfg(test)]
mod tests {
    use crate::{At, Overrides, TEMPLATE, read};

    #[test]
    fn the_second_of_two_roles_at_one_address_is_shown_where_it_stands() {
        let guard =
            "\n[[guard]]\nname = \"press\"\nlisten = \"127.0.0.1:4860\"\nupstream = \"opc.tcp://10.0.0.7:4840\"\n";
        let template = format!("{TEMPLATE}{guard}");
        for (from, to, line, has) in [
            ("127.0.0.1:4851", "127.0.0.1:4850", "listen = \"127.0.0.1:4850\"", "the server `mixer`"),
            ("127.0.0.1:4851", "0.0.0.0:4850", "listen = \"0.0.0.0:4850\"", "the server `mixer` has 127.0.0.1:4850"),
            ("127.0.0.1:4841", "127.0.0.1:8443", "opcua = \"127.0.0.1:8443\"", "the authority's HTTPS"),
            ("127.0.0.1:4852", "127.0.0.1:4841", "listen = \"127.0.0.1:4841\"", "the authority's OPC UA side"),
            (
                "# listen = \"127.0.0.1:9480\"",
                "listen = \"127.0.0.1:4851\"",
                "listen = \"127.0.0.1:4851\"",
                "the server `reactor`",
            ),
            ("127.0.0.1:4860", "[::]:4852", "listen = \"[::]:4852\"", "the server `filler`"),
        ] {
            let text = template.replace(from, to);
            let invalid = read(&text, &Overrides::default()).expect_err(to);
            let At::Text(at) = invalid.at.clone() else { panic!("{invalid:?}") };
            // The last role of these that names the address.
            let number = text[..at.start].lines().count();
            assert_eq!(text.lines().nth(number - 1), Some(line), "{to}: {invalid:?}");
            assert!(invalid.message.starts_with("two roles would listen at "), "{invalid:?}");
            assert!(invalid.help.as_ref().is_some_and(|help| help.contains(has)), "{invalid:?}");
        }
        for text in [template.replace("127.0.0.1:4851", "127.0.0.2:4850"), free(&template)] {
            assert!(read(&text, &Overrides::default()).is_ok(), "{text}");
        }
        let over: Overrides =
            [("TRAPKEY__SERVER__2__LISTEN".to_owned(), "127.0.0.1:4850".to_owned())].into_iter().collect();
        let named = At::Variable("TRAPKEY__SERVER__2__LISTEN".to_owned());
        assert_eq!(read(TEMPLATE, &over).unwrap_err().at, named);
    }

    /// Every role at whichever port is free.
    fn free(text: &str) -> String {
        ["4850", "4851", "4852", "4860", "8443", "4841"]
            .iter()
            .fold(text.to_owned(), |text, port| text.replace(&format!("\"127.0.0.1:{port}\""), "\"127.0.0.1:0\""))
    }
}

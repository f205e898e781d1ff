//! Which URL a client is told: the host it dialled, where that is one of ours (OPC 10000-4 §5.5.2, §5.5.4 and §5.7.2).

use std::borrow::Cow;
use std::net::Ipv6Addr;

use super::config::ServerConfig;
use crate::pki::{OwnIdentity, check_host};

/// The URL for a client that dialled `dialled`. A host that neither a configured URL nor the certificate names is not
/// repeated: the first configured URL is the answer, so that nobody can make this server advertise another computer.
pub(crate) fn told<'a>(config: &'a ServerConfig, own: &OwnIdentity, dialled: &str) -> Cow<'a, str> {
    let first = config.endpoint_urls.first().map_or("", String::as_str);
    let Some(host) = host(dialled) else { return Cow::Borrowed(first) };
    if let Some(known) = config.endpoint_urls.iter().find(|url| self::host(url).is_some_and(|known| same(known, host)))
    {
        return Cow::Borrowed(known);
    }
    match parts(first) {
        Some((_, rest)) if check_host(&own.certificate, host).is_ok() => Cow::Owned(format!("opc.tcp://{host}{rest}")),
        _ => Cow::Borrowed(first),
    }
}

/// Whether a client that dialled `dialled` dialled one of our URLs: the same host, port and path.
pub(crate) fn is_ours(config: &ServerConfig, own: &OwnIdentity, dialled: &str) -> bool {
    let bare = |url: &str| url.trim_end_matches('/').to_ascii_lowercase();
    bare(&told(config, own, dialled)) == bare(dialled)
}

/// The host that a client dialled, when our certificate does not name it: a client that looks will refuse us.
pub(crate) fn uncertified<'a>(own: &OwnIdentity, dialled: &'a str) -> Option<&'a str> {
    host(dialled).filter(|host| check_host(&own.certificate, host).is_err())
}

fn same(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
}

/// The host of an `opc.tcp` URL; an address of IPv6 with its brackets.
fn host(url: &str) -> Option<&str> {
    parts(url).map(|(host, _)| host)
}

/// Host, and what follows it: port and path.
fn parts(url: &str) -> Option<(&str, &str)> {
    const SCHEME: &str = "opc.tcp://";
    let (scheme, rest) = url.split_at_checked(SCHEME.len())?;
    if !same(scheme, SCHEME) {
        return None;
    }
    let end = match rest.strip_prefix('[') {
        Some(inside) => {
            let end = inside.find(']')?;
            inside.get(..end)?.parse::<Ipv6Addr>().ok()?;
            end + 2
        }
        None => rest.find([':', '/']).unwrap_or(rest.len()),
    };
    let (host, rest) = rest.split_at_checked(end)?;
    (!host.is_empty()).then_some((host, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_url() {
        for (url, expected) in [
            ("opc.tcp://mixer:4840", Some(("mixer", ":4840"))),
            ("OPC.TCP://mixer:4840/a/b", Some(("mixer", ":4840/a/b"))),
            ("opc.tcp://mixer", Some(("mixer", ""))),
            ("opc.tcp://10.0.0.7/a", Some(("10.0.0.7", "/a"))),
            ("opc.tcp://[::1]:4840/", Some(("[::1]", ":4840/"))),
            ("opc.tcp://[localhost]:4840", None),
            ("opc.tcp://[::1", None),
            ("opc.tcp://:4840", None),
            ("opc.tcp://", None),
            ("https://mixer", None),
            ("opc.tcpé//mixer", None),
            ("", None),
        ] {
            assert_eq!(parts(url), expected, "{url}");
        }
    }
}

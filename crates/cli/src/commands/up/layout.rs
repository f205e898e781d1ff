//! A server of the plant file as a guard sees it: which node of the upstream server lies in which scope.

use opcua_types::{Identifier, NodeId};
use pdp::plant::{Covered, Server};
use ua_proto::guard::{Layout, ScopeEntry, ScopeRule, ScopeRules};

use crate::failure::Failure;

const STANDARD: &str = "http://opcfoundation.org/UA/";

/// The rules, interlocks and restrictions of a guarded server.
///
/// # Errors
/// A NodeId that names its namespace by a number: that is the upstream server's to change whenever it starts.
pub(crate) fn of(server: &Server) -> Result<Layout, Failure> {
    let mut entries = Vec::new();
    for (scope, row) in server.numbered() {
        for covered in &row.covers {
            let (namespace, rule) = match covered {
                Covered::Node(text) => {
                    let (namespace, id) = identifier(server, text)?;
                    (namespace, ScopeRule::Node(id))
                }
                Covered::SubtreeOf(text) => {
                    let (namespace, id) = identifier(server, text)?;
                    (namespace, ScopeRule::Subtree(id))
                }
                Covered::SubtreeAt(path) => (String::new(), ScopeRule::Path(path.clone())),
            };
            entries.push(ScopeEntry { scope, namespace, rule });
        }
    }
    let map = server.scope_map().map_err(|error| Failure::from_error(&error).into_bad_input())?;
    let own = server.numbered().filter_map(|(scope, row)| Some((scope, row.restrictions?)));
    Ok(Layout {
        map,
        rules: ScopeRules { entries }.with_public_types(),
        interlocks: server.interlocks(),
        restrictions: (server.restrictions, own.collect()),
    })
}

/// `nsu=urn:plant;s=Speed`, or `i=2258` of the standard's own namespace.
fn identifier(server: &Server, text: &str) -> Result<(String, Identifier), Failure> {
    let unusable = |why: &str| {
        Failure::bad_input(format!("`{text}` of the guarded server `{}` {why}", server.name))
            .help("name the namespace by its URI, as in `nsu=urn:plant:mixer;s=Speed`")
    };
    let (namespace, rest) = match text.strip_prefix("nsu=") {
        Some(named) => {
            let (uri, rest) = named.split_once(';').ok_or_else(|| unusable("is no NodeId"))?;
            (uri.replace("%3B", ";").replace("%3b", ";").replace("%25", "%"), rest)
        }
        None => (STANDARD.to_owned(), text),
    };
    let id: NodeId = rest.parse().map_err(|_| unusable("is no NodeId"))?;
    if id.namespace != 0 {
        return Err(unusable("names its namespace by a number, which the server may change at any start"));
    }
    Ok((namespace, id.identifier))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(scope: &str) -> Server {
        let text = format!(
            "[plant]\nname = \"p\"\n[[site]]\nname = \"s\"\n[[zone]]\nname = \"z\"\nsite = \"s\"\n\
             [[equipment]]\nname = \"e\"\nzone = \"z\"\n\
             [[server]]\nname = \"m\"\nuri = \"urn:m\"\nequipment = \"e\"\n[[server.scope]]\nname = \"a\"\n{scope}\n"
        );
        pdp::Plant::parse(&text).unwrap().server("m").unwrap().1.clone()
    }

    #[test]
    fn scopes_of_the_plant_file_become_rules_under_their_numbers() {
        let text = "nodes = [\"nsu=urn:plant;s=A;B\", \"i=2258\"]\nsubtrees = [\"nsu=urn:plant;i=7\", \"/Objects/2:Line\"]\n\
                    range = { low = 0.0, high = 9.0 }";
        let layout = of(&server(text)).unwrap();
        let rules: Vec<(u32, &str, &ScopeRule)> =
            layout.rules.entries.iter().map(|entry| (entry.scope.0, entry.namespace.as_str(), &entry.rule)).collect();
        let path = ScopeRule::Path(vec![(0, "Objects".into()), (2, "Line".into())]);
        assert_eq!(
            rules[1..4],
            [
                (1, STANDARD, &ScopeRule::Node(Identifier::Numeric(2258))),
                (1, "urn:plant", &ScopeRule::Subtree(Identifier::Numeric(7))),
                (1, "", &path),
            ]
        );
        let ranges = layout.interlocks.values().map(|interlock| interlock.bounds.range);
        assert_eq!(ranges.collect::<Vec<_>>(), [Some((0.0, 9.0))]);
        assert_eq!(token::map_digest(&layout.map), token::map_digest(&server(text).scope_map().unwrap()));
    }

    #[test]
    fn a_namespace_by_number_is_refused() {
        for text in ["nodes = [\"ns=2;s=Speed\"]", "subtrees = [\"ns=2;s=Line\"]"] {
            let said = of(&server(text)).unwrap_err().in_short();
            assert!(said.contains("names its namespace by a number"), "{said}");
        }
    }
}

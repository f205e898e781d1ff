//! RolePermissions and AccessRestrictions of node sets (OPC 10000-3 §5.2.9, §5.2.11) as a plant file and policies. Nodes with
//! the same permissions and restrictions are one scope. What comes out is loaded and asked again before anybody sees it: each
//! node has to lie in its scope, and each role has to have exactly the rights that the node sets state.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::PathBuf;

use access_model::{Action, Effect, Epoch, Restrictions, Rights, ScopeIndex};
use clap::Args;
use opcua_types::NodeId;
use pdp::{Snapshot, Sources};
use serde_json::{Value, json};
use ua_proto::space::{NodeRef, Space};

use super::{Loaded, Sets};
use crate::answer::Answer;
use crate::failure::Failure;
use crate::files;

/// More scopes than this nobody reads, and a token has one bit for each.
const MOST_SCOPES: usize = 1_000;

#[derive(Debug, Args)]
pub(crate) struct Scopes {
    #[command(flatten)]
    sets: Sets,
    /// Short name of the server or guard whose nodes these are
    #[arg(long, value_name = "NAME")]
    server: String,
    /// Its ApplicationUri
    #[arg(long, value_name = "URI")]
    uri: String,
    /// Write plant.toml and policies.cedar into this folder; they must not exist yet
    #[arg(long, value_name = "FOLDER")]
    into: Option<PathBuf>,
}

/// What a node set says of a node: roles by name with their rights, and what a channel must be. `None`: it says nothing.
type Stated = (Option<BTreeMap<String, Rights>>, Option<Restrictions>);

/// Nodes of which the node sets say the same.
struct Group {
    name: String,
    stated: Stated,
    roots: Vec<NodeRef>,
    single: BTreeSet<NodeRef>,
    count: usize,
}

pub(super) fn run(args: &Scopes) -> Result<Answer, Failure> {
    let mut loaded = args.sets.load()?;
    let (mut groups, of) = group(&loaded)?;
    // A node that is reached by more than one way may lie closer to another scope's root: then it is named itself.
    for again in [true, false] {
        let elsewhere = misplaced(args, &mut loaded.space, &groups, &of)?;
        if elsewhere.is_empty() {
            break;
        }
        if !again {
            let node = elsewhere.first().map(|(node, _)| loaded.space.id(*node).to_string()).unwrap_or_default();
            return Err(Failure::unavailable(format!("no scope can be laid over `{node}` alone")));
        }
        for (node, at) in elsewhere {
            groups.get_mut(at).map(|group| group.single.insert(node));
        }
    }
    let (plant, policies) = (plant(args, &loaded.space, &groups, false), policies(args, &groups));
    hold(args, &loaded.space, &groups)?;
    if let Some(folder) = &args.into {
        files::make_folder(folder)?;
        files::create(&folder.join("plant.toml"), plant.as_bytes(), false)?;
        files::create(&folder.join("policies.cedar"), policies.as_bytes(), false)?;
    }
    let text = match &args.into {
        Some(folder) => {
            let folder = folder.display();
            format!("{} scopes in {folder}/plant.toml, their policies in {folder}/policies.cedar\n", groups.len())
        }
        None => format!("# plant.toml\n{plant}\n# policies.cedar\n{policies}"),
    };
    let scopes: Vec<Value> = groups.iter().map(|group| listed(&loaded.space, group)).collect();
    Ok(Answer::ok(text, json!({"plant": plant, "policies": policies, "scopes": scopes})))
}

fn listed(space: &Space, group: &Group) -> Value {
    let roles = group.stated.0.as_ref().map(|roles| {
        roles
            .iter()
            .map(|(role, rights)| (role.clone(), json!(actions(*rights).collect::<Vec<_>>())))
            .collect::<serde_json::Map<_, _>>()
    });
    let restrictions = group.stated.1.map(words);
    let ids = |nodes: &mut dyn Iterator<Item = &NodeRef>| nodes.map(|node| named(space, *node)).collect::<Vec<_>>();
    json!({"name": group.name, "roles": roles, "restrictions": restrictions, "nodes": group.count,
           "subtrees": ids(&mut group.roots.iter()), "single": ids(&mut group.single.iter())})
}

/// The groups, and the one of each node.
fn group(loaded: &Loaded) -> Result<(Vec<Group>, BTreeMap<NodeRef, usize>), Failure> {
    let space = &loaded.space;
    let mut by: BTreeMap<Stated, usize> = BTreeMap::new();
    let mut members: Vec<(Stated, Vec<NodeRef>)> = Vec::new();
    let mut of = BTreeMap::new();
    for set in &loaded.sets {
        let own: BTreeMap<NodeRef, &Vec<(NodeId, u32)>> =
            set.permissions.iter().map(|(node, all)| (*node, all)).collect();
        let model: BTreeMap<&str, &Vec<(NodeId, u32)>> =
            set.default_permissions.iter().map(|(uri, all)| (uri.as_str(), all)).collect();
        let channel: BTreeMap<NodeRef, u16> = set.restrictions.iter().copied().collect();
        for node in &set.nodes {
            let all = own.get(node).or_else(|| model.get(namespace(space, *node))).copied();
            let roles = all.map(|all| roles(space, *node, all)).transpose()?;
            let stated = (roles, channel.get(node).map(|bits| Restrictions::from_bits(*bits)));
            let at = *by.entry(stated.clone()).or_insert(members.len());
            if at == members.len() {
                members.push((stated, Vec::new()));
            }
            if let Some((_, nodes)) = members.get_mut(at) {
                nodes.push(*node);
            }
            of.insert(*node, at);
        }
    }
    if members.len() > MOST_SCOPES {
        let count = members.len();
        return Err(Failure::bad_input(format!(
            "the node sets state {count} different permissions; {MOST_SCOPES} is the bound"
        ))
        .help("give nodes that belong together the same RolePermissions"));
    }
    let mut taken = BTreeSet::from(["public".to_owned()]);
    let named = members.into_iter().enumerate().map(|(at, (stated, nodes))| {
        let root = |node: &&NodeRef| space.parent(**node).is_none_or(|parent| of.get(&parent) != Some(&at));
        let roots: Vec<NodeRef> = nodes.iter().filter(root).copied().collect();
        let name = roots.first().map_or("nodes".to_owned(), |first| word(space.name(*first).1, '-'));
        let name = (1..).map(|n| if n == 1 { name.clone() } else { format!("{name}-{n}") });
        let name = name.into_iter().find(|name| taken.insert(name.clone())).unwrap_or_default();
        Group { name, stated, roots, single: BTreeSet::new(), count: nodes.len() }
    });
    Ok((named.collect(), of))
}

fn namespace(space: &Space, node: NodeRef) -> &str {
    space.namespaces().get(usize::from(space.id(node).namespace)).map_or("", String::as_str)
}

fn roles(space: &Space, node: NodeRef, all: &[(NodeId, u32)]) -> Result<BTreeMap<String, Rights>, Failure> {
    let mut roles: BTreeMap<String, Rights> = BTreeMap::new();
    for (role, bits) in all {
        let id = space.id(node);
        let rights = Rights::from_bits(*bits).ok_or_else(|| {
            Failure::bad_input(format!(
                "the permissions {bits} of `{id}` have bits that OPC 10000-3 §8.55 does not name"
            ))
        })?;
        let found = space.find(role).map(|role| word(space.browse_name(role).name.as_ref(), '_'));
        let name = found.unwrap_or_else(|| word(&role.to_string(), '_'));
        let held = roles.entry(name).or_default();
        *held |= rights;
    }
    roles.retain(|_, rights| *rights != Rights::NONE);
    Ok(roles)
}

/// A name of small letters, digits and `between`: `ConfigureAdmin` becomes `configure_admin`.
fn word(text: &str, between: char) -> String {
    let mut word = String::new();
    let mut small = false;
    for letter in text.chars().take(100) {
        if letter.is_ascii_alphanumeric() {
            if letter.is_ascii_uppercase() && small {
                word.push(between);
            }
            small = !letter.is_ascii_uppercase();
            word.push(letter.to_ascii_lowercase());
        } else {
            small = false;
            if !word.ends_with(between) && !word.is_empty() {
                word.push(between);
            }
        }
    }
    let word = word.trim_end_matches(between);
    if word.is_empty() { "nodes".to_owned() } else { word.to_owned() }
}

/// The actions of policies, one for each right.
fn actions(rights: Rights) -> impl Iterator<Item = &'static str> {
    let single = move |action: &Action| action.needed().bits().count_ones() == 1 && rights.contains(action.needed());
    Action::ALL.into_iter().filter(single).map(Action::name)
}

/// The NodeId as plant files write it.
fn named(space: &Space, node: NodeRef) -> String {
    let id = space.id(node);
    let uri = namespace(space, node).replace('%', "%25").replace(';', "%3B");
    format!("nsu={uri};{}", id.identifier)
}

fn words(restrictions: Restrictions) -> Vec<&'static str> {
    let one = |name: &&str| Restrictions::from_name(name).is_some_and(|one| restrictions.touches(one));
    Restrictions::names().filter(one).collect()
}

/// Who has a role in the copy that is asked: one person for each role.
fn holder(role: &str) -> String {
    format!("holder of {role}")
}

fn plant(args: &Scopes, space: &Space, groups: &[Group], holders: bool) -> String {
    let text = |text: &str| Value::from(text).to_string();
    let list = |all: &mut dyn Iterator<Item = String>| {
        let all: Vec<String> = all.map(|one| format!("\n    {},", text(&one))).collect();
        format!("[{}\n]", all.concat())
    };
    let server = text(&args.server);
    let mut plant = format!(
        "[plant]\nname = {server}\n\n[[site]]\nname = \"site\"\n\n[[zone]]\nname = \"zone\"\nsite = \"site\"\n\n\
         [[equipment]]\nname = {server}\nzone = \"zone\"\n"
    );
    for role in all_roles(groups) {
        let _ = writeln!(plant, "\n[[role]]\nname = {}", text(role));
        if holders {
            let _ = writeln!(plant, "\n[[person]]\nname = {}\nroles = [{}]", text(&holder(role)), text(role));
        }
    }
    let _ = writeln!(plant, "\n[[server]]\nname = {server}\nuri = {}\nequipment = {server}", text(&args.uri));
    for group in groups {
        let _ = writeln!(plant, "\n[[server.scope]]\nname = {}", text(&group.name));
        if group.stated.0.is_none() {
            plant.push_str("# The node sets state no permissions: nobody sees these nodes until a policy says so.\n");
        }
        let _ = writeln!(plant, "subtrees = {}", list(&mut group.roots.iter().map(|node| named(space, *node))));
        if !group.single.is_empty() {
            let _ = writeln!(plant, "nodes = {}", list(&mut group.single.iter().map(|node| named(space, *node))));
        }
        if let Some(restrictions) = group.stated.1 {
            let all: Vec<String> = words(restrictions).into_iter().map(text).collect();
            let _ = writeln!(plant, "restrictions = [{}]", all.join(", "));
        }
    }
    plant
}

fn all_roles(groups: &[Group]) -> BTreeSet<&str> {
    groups.iter().flat_map(|group| group.stated.0.iter().flat_map(BTreeMap::keys)).map(String::as_str).collect()
}

fn policies(args: &Scopes, groups: &[Group]) -> String {
    let mut policies = String::new();
    for group in groups {
        for (role, rights) in group.stated.0.iter().flatten() {
            let actions: Vec<String> = actions(*rights).map(|name| format!("Action::\"{name}\"")).collect();
            let (server, scope) = (&args.server, &group.name);
            let _ = writeln!(
                policies,
                "@id(\"{role}-{scope}\")\npermit (principal in Role::\"{role}\", action in [{}], resource in \
                 Scope::\"{server}/{scope}\");\n",
                actions.join(", ")
            );
        }
    }
    policies
}

fn snapshot(args: &Scopes, space: &Space, groups: &[Group]) -> Result<Snapshot, Failure> {
    let (plant, policies) = (plant(args, space, groups, true), policies(args, groups));
    let sources = Sources { plant: &plant, policies: &policies, workflow: None };
    Snapshot::load(sources, &token::map_digest, Epoch(0)).map_err(|faults| {
        let said = faults.0.first().map(|fault| fault.message.clone()).unwrap_or_default();
        Failure::bad_input(format!("what the node sets say makes no plant file: {said}"))
    })
}

/// The nodes that lie in another scope than their own when the plant file is laid over the space.
fn misplaced(
    args: &Scopes,
    space: &mut Space,
    groups: &[Group],
    of: &BTreeMap<NodeRef, usize>,
) -> Result<Vec<(NodeRef, usize)>, Failure> {
    let snapshot = snapshot(args, space, groups)?;
    let missing = || Failure::bad_input(format!("`{}` cannot be the name of a server", args.server));
    let (_, server) = snapshot.plant().server(&args.server).ok_or_else(missing)?;
    plant::scoping::apply(space, server).map_err(|error| Failure::from_error(&error).into_bad_input())?;
    let index: BTreeMap<ScopeIndex, &str> =
        server.numbered().map(|(index, scope)| (index, scope.name.as_str())).collect();
    let wrong = of.iter().filter(|(node, at)| {
        let name = groups.get(**at).map(|group| group.name.as_str());
        index.get(&space.scope(**node)).copied() != name
    });
    Ok(wrong.map(|(node, at)| (*node, *at)).collect())
}

/// Asks for each role, scope and right whether the policies say what the node sets say.
fn hold(args: &Scopes, space: &Space, groups: &[Group]) -> Result<(), Failure> {
    let snapshot = snapshot(args, space, groups)?;
    for role in all_roles(groups) {
        let principal = snapshot.principal(Some(&holder(role)), None, false);
        for group in groups {
            let stated = group.stated.0.as_ref().and_then(|roles| roles.get(role)).copied().unwrap_or(Rights::NONE);
            for action in Action::ALL {
                let request = access_model::AccessRequest {
                    principal: principal.clone(),
                    action,
                    server: args.uri.clone(),
                    scope: group.name.clone(),
                    at: gates::clock::now().unix,
                    break_glass: None,
                };
                let permitted = pdp::decide(&snapshot, &request).effect == Effect::Permit;
                if permitted != stated.contains(action.needed()) {
                    let (name, action) = (&group.name, action.name());
                    return Err(Failure::unavailable(format!(
                        "the policies do not say of `{action}` for `{role}` on `{name}` what the node sets say"
                    )));
                }
            }
        }
    }
    Ok(())
}

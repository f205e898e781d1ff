//! From XML to a plan: every id is one of the space's namespaces, every text is read, nothing is added yet but namespaces.

use std::collections::{BTreeMap, BTreeSet};

use opcua_types::{Identifier, LocalizedText, NodeClass, NodeId, Variant};
use roxmltree::{Document, Node};

use super::super::{Space, UA_NAMESPACE};
use super::value;
use super::{ImportOptions, NodeSetError, NodeSetFault, NodeSetLimits, StatedPermissions, UnfitValue};

/// The most dimensions of an array.
pub(super) const MAX_RANK: i32 = 32;

/// A file as it was read.
pub(super) struct NodeSet {
    pub(super) models: Vec<(String, String, String)>,
    pub(super) default_permissions: Vec<(String, StatedPermissions)>,
    pub(super) nodes: Vec<Planned>,
}

/// One node to be added.
pub(super) struct Planned {
    pub(super) line: u32,
    pub(super) class: NodeClass,
    pub(super) id: NodeId,
    pub(super) name: (u16, String),
    pub(super) display: Option<LocalizedText>,
    pub(super) description: Option<LocalizedText>,
    pub(super) inverse: Option<LocalizedText>,
    /// ParentNodeId: which of several parents is meant.
    pub(super) parent: Option<NodeId>,
    pub(super) references: Vec<PlannedReference>,
    pub(super) data_type: Option<NodeId>,
    pub(super) rank: i32,
    pub(super) dimensions: Vec<u32>,
    pub(super) access: u32,
    pub(super) is_abstract: bool,
    pub(super) symmetric: bool,
    pub(super) historizing: bool,
    pub(super) executable: bool,
    pub(super) value: Option<Variant>,
    /// There is a value, of a structure that nobody knows.
    pub(super) value_left_out: bool,
    pub(super) permissions: Option<StatedPermissions>,
    pub(super) restrictions: Option<u16>,
}

/// A reference as the file states it, on one of its ends.
#[derive(Clone)]
pub(super) struct PlannedReference {
    pub(super) line: u32,
    pub(super) type_: NodeId,
    pub(super) forward: bool,
    pub(super) target: NodeId,
}

/// How the file's ids and lines are read.
pub(super) struct Reading<'a> {
    lines: Lines,
    /// The space's index for each index of the file.
    namespaces: Vec<u16>,
    aliases: BTreeMap<&'a str, &'a str>,
}

type Fallible<T> = Result<T, NodeSetError>;

pub(super) fn read(space: &mut Space, document: &Document<'_>, options: &ImportOptions) -> Fallible<NodeSet> {
    let lines = Lines::of(document.input_text());
    check_bounds(document, &lines, &options.limits)?;
    let root = document.root_element();
    if root.tag_name().name() != "UANodeSet" {
        let line = lines.of_node(root);
        return Err(NodeSetFault::NotANodeSet(root.tag_name().name().chars().take(60).collect()).at(line));
    }
    let mut reading = Reading { lines, namespaces: vec![0], aliases: BTreeMap::new() };
    let mut known: BTreeSet<String> = space.namespaces().iter().cloned().collect();
    reading.namespaces(space, root)?;
    for alias in children(root, "Aliases").flat_map(|aliases| children(aliases, "Alias")) {
        let (Some(name), Some(id)) = (alias.attribute("Alias"), alias.text()) else { continue };
        reading.aliases.insert(name, id.trim());
    }
    let mut set = NodeSet { models: Vec::new(), default_permissions: Vec::new(), nodes: Vec::new() };
    let models = || children(root, "Models").flat_map(|models| children(models, "Model"));
    known.extend(models().filter_map(|model| model.attribute("ModelUri")).map(str::to_owned));
    for model in models() {
        reading.model(&known, model, &mut set)?;
    }
    for element in root.children().filter(Node::is_element) {
        let Some(class) = class_of(element.tag_name().name()) else { continue };
        if set.nodes.len() >= options.limits.nodes {
            return Err(NodeSetFault::TooManyNodes(options.limits.nodes).at(reading.line(element)));
        }
        set.nodes.push(reading.node(class, element, options)?);
    }
    Ok(set)
}

/// Where the lines of a file end: the parser would count them from the start for every node.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(at, _)| at).collect())
    }

    /// The line that a node begins in, from 1.
    fn of_node(&self, node: Node<'_, '_>) -> u32 {
        let start = node.range().start;
        u32::try_from(self.0.partition_point(|end| *end < start)).map_or(u32::MAX, |before| before.saturating_add(1))
    }
}

fn check_bounds(document: &Document<'_>, lines: &Lines, limits: &NodeSetLimits) -> Fallible<()> {
    for node in document.descendants() {
        let line = || lines.of_node(node);
        if node.ancestors().take(limits.depth + 2).count() > limits.depth + 1 {
            return Err(NodeSetFault::TooDeep(limits.depth).at(line()));
        }
        let text = node.text().filter(|_| node.is_text()).map_or(0, str::len);
        let longest = node.attributes().map(|attribute| attribute.value().len()).max().unwrap_or(0).max(text);
        if longest > limits.text {
            return Err(NodeSetFault::TextTooLong(limits.text).at(line()));
        }
    }
    Ok(())
}

fn class_of(name: &str) -> Option<NodeClass> {
    Some(match name {
        "UAObject" => NodeClass::Object,
        "UAVariable" => NodeClass::Variable,
        "UAMethod" => NodeClass::Method,
        "UAObjectType" => NodeClass::ObjectType,
        "UAVariableType" => NodeClass::VariableType,
        "UAReferenceType" => NodeClass::ReferenceType,
        "UADataType" => NodeClass::DataType,
        "UAView" => NodeClass::View,
        _ => return None,
    })
}

/// The child elements of this name, in whatever namespace.
pub(super) fn children<'a, 'input>(
    of: Node<'a, 'input>,
    name: &'static str,
) -> impl Iterator<Item = Node<'a, 'input>> + use<'a, 'input> {
    of.children().filter(move |child| child.is_element() && child.tag_name().name() == name)
}

impl<'a> Reading<'a> {
    pub(super) fn line(&self, node: Node<'_, '_>) -> u32 {
        self.lines.of_node(node)
    }

    /// The file's namespaces; new ones are added to the space, which forgets them again if the import fails.
    fn namespaces(&mut self, space: &mut Space, root: Node<'a, '_>) -> Fallible<()> {
        for uri in children(root, "NamespaceUris").flat_map(|uris| children(uris, "Uri")) {
            let text = uri.text().unwrap_or_default().trim();
            let index = if text == UA_NAMESPACE {
                0
            } else {
                let refused = |error| NodeSetFault::Space(text.to_owned(), error).at(self.line(uri));
                space.add_namespace(text).map_err(refused)?
            };
            self.namespaces.push(index);
        }
        Ok(())
    }

    fn model(&self, known: &BTreeSet<String>, model: Node<'a, '_>, set: &mut NodeSet) -> Fallible<()> {
        let text = |name| model.attribute(name).unwrap_or_default().to_owned();
        let uri = text("ModelUri");
        for required in children(model, "RequiredModel") {
            let wanted = required.attribute("ModelUri").unwrap_or_default();
            if !known.contains(wanted) {
                return Err(NodeSetFault::RequiredModel(wanted.to_owned()).at(self.line(required)));
            }
        }
        if let Some(permissions) = self.permissions(model)? {
            set.default_permissions.push((uri.clone(), permissions));
        }
        set.models.push((uri, text("Version"), text("PublicationDate")));
        Ok(())
    }

    fn node(&self, class: NodeClass, element: Node<'a, '_>, options: &ImportOptions) -> Fallible<Planned> {
        let line = self.line(element);
        let id = self.attribute(element, "NodeId")?;
        let id = self.node_id(id, line)?;
        let access = match class {
            NodeClass::Variable => self.number(element, "AccessLevel", 1)?,
            _ => self.number(element, "EventNotifier", 0)?,
        };
        let typed = matches!(class, NodeClass::Variable | NodeClass::VariableType);
        let data_type = element.attribute("DataType").filter(|_| typed).unwrap_or("i=24");
        let mut planned = Planned {
            line,
            class,
            id,
            name: self.qualified_name(self.attribute(element, "BrowseName")?, line)?,
            display: localized(element, "DisplayName"),
            description: localized(element, "Description"),
            inverse: localized(element, "InverseName"),
            parent: element.attribute("ParentNodeId").map(|id| self.node_id(id, line)).transpose()?,
            references: self.references(element)?,
            data_type: typed.then(|| self.node_id(data_type, line)).transpose()?,
            rank: self.rank(element)?,
            dimensions: self.dimensions(element)?,
            access,
            is_abstract: flag(element, "IsAbstract", false),
            symmetric: flag(element, "Symmetric", false),
            historizing: flag(element, "Historizing", false),
            executable: flag(element, "Executable", true),
            value: None,
            value_left_out: false,
            permissions: self.permissions(element)?,
            restrictions: match element.attribute("AccessRestrictions") {
                Some(_) => Some(self.number(element, "AccessRestrictions", 0)?),
                None => None,
            },
        };
        let value = children(element, "Value").next().filter(|_| typed);
        if let Some(content) = value.and_then(|value| value.first_element_child()) {
            match value::read(self, content) {
                Ok(value) => planned.value = Some(value),
                Err(NodeSetError { fault: NodeSetFault::Structure(_), .. })
                    if options.unfit_values == UnfitValue::LeaveEmpty =>
                {
                    planned.value_left_out = true;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(planned)
    }

    fn references(&self, element: Node<'a, '_>) -> Fallible<Vec<PlannedReference>> {
        let all = children(element, "References").flat_map(|references| children(references, "Reference"));
        all.map(|reference| {
            let line = self.line(reference);
            Ok(PlannedReference {
                line,
                type_: self.node_id(self.attribute(reference, "ReferenceType")?, line)?,
                forward: flag(reference, "IsForward", true),
                target: self.node_id(reference.text().unwrap_or_default(), line)?,
            })
        })
        .collect()
    }

    fn permissions(&self, element: Node<'a, '_>) -> Fallible<Option<StatedPermissions>> {
        let Some(list) = children(element, "RolePermissions").next() else { return Ok(None) };
        let read = |entry: Node<'a, '_>| {
            let role = self.node_id(entry.text().unwrap_or_default(), self.line(entry))?;
            Ok((role, self.number(entry, "Permissions", 0)?))
        };
        children(list, "RolePermission").map(read).collect::<Fallible<_>>().map(Some)
    }

    fn dimensions(&self, element: Node<'_, '_>) -> Fallible<Vec<u32>> {
        let text = element.attribute("ArrayDimensions").unwrap_or_default();
        let read = |part: &str| {
            part.trim()
                .parse()
                .map_err(|_| NodeSetFault::unreadable("list of array dimensions", text).at(self.line(element)))
        };
        text.split(',').filter(|part| !part.trim().is_empty()).map(read).collect()
    }

    /// A ValueRank of -3 to a few dimensions.
    fn rank(&self, element: Node<'_, '_>) -> Fallible<i32> {
        let rank = self.number(element, "ValueRank", -1)?;
        if (-3..=MAX_RANK).contains(&rank) {
            return Ok(rank);
        }
        let text = element.attribute("ValueRank").unwrap_or_default();
        Err(NodeSetFault::unreadable("value rank", text).at(self.line(element)))
    }

    fn attribute<'b>(&self, element: Node<'b, '_>, name: &'static str) -> Fallible<&'b str> {
        element.attribute(name).ok_or_else(|| NodeSetFault::Missing(name).at(self.line(element)))
    }

    fn number<T: std::str::FromStr>(&self, element: Node<'_, '_>, name: &'static str, absent: T) -> Fallible<T> {
        let Some(text) = element.attribute(name) else { return Ok(absent) };
        text.trim().parse().map_err(|_| NodeSetFault::unreadable("number that fits here", text).at(self.line(element)))
    }

    /// An id or an alias, in the space's namespaces.
    pub(super) fn node_id(&self, text: &str, line: u32) -> Fallible<NodeId> {
        let text = text.trim();
        let text = self.aliases.get(text).copied().unwrap_or(text);
        if text.starts_with("svr=") {
            return Err(NodeSetFault::OtherServer(text.chars().take(60).collect()).at(line));
        }
        let id: NodeId = text.parse().map_err(|_| NodeSetFault::Alias(text.chars().take(60).collect()).at(line))?;
        let (namespace, identifier) = (self.namespace(id.namespace, line)?, id.identifier);
        Ok(NodeId { namespace, identifier: tidy(identifier) })
    }

    pub(super) fn namespace(&self, index: u16, line: u32) -> Fallible<u16> {
        let known = self.namespaces.get(usize::from(index)).copied();
        known.ok_or_else(|| NodeSetFault::NamespaceIndex(index).at(line))
    }

    /// `1:Name`, or `Name` of namespace 0.
    fn qualified_name(&self, text: &str, line: u32) -> Fallible<(u16, String)> {
        let split = text.split_once(':').and_then(|(index, name)| Some((index.parse().ok()?, name)));
        let (index, name) = split.unwrap_or((0, text));
        Ok((self.namespace(index, line)?, name.to_owned()))
    }
}

/// A null string identifies nothing; it is written as an empty one.
fn tidy(identifier: Identifier) -> Identifier {
    match identifier {
        Identifier::String(text) if text.is_null() => Identifier::String("".into()),
        other => other,
    }
}

fn localized(element: Node<'_, '_>, name: &'static str) -> Option<LocalizedText> {
    let found = children(element, name).next()?;
    let text = found.text().filter(|text| !text.is_empty())?;
    Some(LocalizedText::new(found.attribute("Locale").unwrap_or_default(), text))
}

fn flag(element: Node<'_, '_>, name: &str, absent: bool) -> bool {
    match element.attribute(name).map(str::trim) {
        Some("true" | "1") => true,
        Some(_) => false,
        None => absent,
    }
}

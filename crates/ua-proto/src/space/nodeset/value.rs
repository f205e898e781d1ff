//! Values as XML writes them (OPC 10000-6 §5.3).

use opcua_types::{
    Argument, Array, ByteString, DataTypeId, DateTime, EUInformation, EnumValueType, ExpandedNodeId, ExtensionObject,
    LocalizedText, NodeId, QualifiedName, Range, StatusCode, UAString, Variant, VariantScalarTypeId, XmlElement,
};
use roxmltree::Node;

use super::read::{MAX_RANK, Reading, children};
use super::{NodeSetError, NodeSetFault};

/// How deeply variants may nest.
const MAX_DEPTH: u32 = 8;

type Fallible<T> = Result<T, NodeSetError>;

/// Reads the element inside `Value`.
pub(super) fn read(reading: &Reading<'_>, element: Node<'_, '_>) -> Fallible<Variant> {
    Values { reading }.any(element, 0)
}

struct Values<'a, 'b> {
    reading: &'a Reading<'b>,
}

impl Values<'_, '_> {
    fn any(&self, element: Node<'_, '_>, depth: u32) -> Fallible<Variant> {
        let name = element.tag_name().name();
        if depth > MAX_DEPTH {
            return Err(self.fault(element, NodeSetFault::ValueKind(name.to_owned())));
        }
        if name == "Matrix" {
            return self.matrix(element, depth);
        }
        let Some(kind) = name.strip_prefix("ListOf") else { return self.scalar(element, depth) };
        let value_type = self.kind(element, kind)?;
        let items = element.children().filter(Node::is_element);
        let values = items.map(|item| self.element(item, value_type, depth)).collect::<Fallible<_>>()?;
        Ok(Variant::Array(Box::new(Array { value_type, values, dimensions: None })))
    }

    fn matrix(&self, element: Node<'_, '_>, depth: u32) -> Fallible<Variant> {
        let sizes = children(element, "Dimensions").flat_map(|sizes| sizes.children().filter(Node::is_element));
        let dimensions: Vec<u32> = sizes.map(|size| self.parse(size, "number")).collect::<Fallible<_>>()?;
        let items: Vec<_> =
            children(element, "Elements").flat_map(|items| items.children().filter(Node::is_element)).collect();
        let product = dimensions.iter().try_fold(1_usize, |product, size| product.checked_mul(*size as usize));
        let first = items.first().filter(|_| product == Some(items.len()));
        let first = first.ok_or_else(|| self.fault(element, NodeSetFault::ValueKind("Matrix".to_owned())))?;
        let value_type = self.kind(*first, first.tag_name().name())?;
        let values = items.iter().map(|item| self.element(*item, value_type, depth)).collect::<Fallible<_>>()?;
        Ok(Variant::Array(Box::new(Array { value_type, values, dimensions: Some(dimensions) })))
    }

    /// An element of an array, which has to be of the array's kind.
    fn element(&self, item: Node<'_, '_>, expected: VariantScalarTypeId, depth: u32) -> Fallible<Variant> {
        let name = item.tag_name().name();
        if self.kind(item, name)? != expected {
            return Err(self.fault(item, NodeSetFault::ValueKind(name.to_owned())));
        }
        self.scalar(item, depth)
    }

    fn kind(&self, element: Node<'_, '_>, name: &str) -> Fallible<VariantScalarTypeId> {
        use VariantScalarTypeId as K;
        Ok(match name {
            "Boolean" => K::Boolean,
            "SByte" => K::SByte,
            "Byte" => K::Byte,
            "Int16" => K::Int16,
            "UInt16" => K::UInt16,
            "Int32" => K::Int32,
            "UInt32" => K::UInt32,
            "Int64" => K::Int64,
            "UInt64" => K::UInt64,
            "Float" => K::Float,
            "Double" => K::Double,
            "String" => K::String,
            "DateTime" => K::DateTime,
            "Guid" => K::Guid,
            "ByteString" => K::ByteString,
            "XmlElement" => K::XmlElement,
            "NodeId" => K::NodeId,
            "ExpandedNodeId" => K::ExpandedNodeId,
            "StatusCode" => K::StatusCode,
            "QualifiedName" => K::QualifiedName,
            "LocalizedText" => K::LocalizedText,
            "ExtensionObject" => K::ExtensionObject,
            "Variant" => K::Variant,
            other => return Err(self.fault(element, NodeSetFault::ValueKind(other.chars().take(60).collect()))),
        })
    }

    fn scalar(&self, element: Node<'_, '_>, depth: u32) -> Fallible<Variant> {
        use VariantScalarTypeId as K;
        Ok(match self.kind(element, element.tag_name().name())? {
            K::Boolean => Variant::Boolean(matches!(text(element), "true" | "1")),
            K::SByte => Variant::SByte(self.parse(element, "SByte")?),
            K::Byte => Variant::Byte(self.parse(element, "Byte")?),
            K::Int16 => Variant::Int16(self.parse(element, "Int16")?),
            K::UInt16 => Variant::UInt16(self.parse(element, "UInt16")?),
            K::Int32 => Variant::Int32(self.parse(element, "Int32")?),
            K::UInt32 => Variant::UInt32(self.parse(element, "UInt32")?),
            K::Int64 => Variant::Int64(self.parse(element, "Int64")?),
            K::UInt64 => Variant::UInt64(self.parse(element, "UInt64")?),
            K::Float => Variant::Float(self.real(element)? as f32),
            K::Double => Variant::Double(self.real(element)?),
            K::String => Variant::String(UAString::from(element.text().unwrap_or_default())),
            K::DateTime => Variant::DateTime(Box::new(self.date(element)?)),
            K::Guid => Variant::Guid(Box::new(self.parse_text(element, inner(element, "String"), "Guid")?)),
            K::ByteString => Variant::ByteString(self.bytes(element)?),
            K::XmlElement => Variant::XmlElement(XmlElement::from(self.source(element))),
            K::NodeId => Variant::NodeId(Box::new(self.id(element)?)),
            K::ExpandedNodeId => Variant::ExpandedNodeId(Box::new(ExpandedNodeId::from(self.id(element)?))),
            K::StatusCode => Variant::StatusCode(StatusCode::from(self.parse_text::<u32>(
                element,
                inner(element, "Code"),
                "status",
            )?)),
            K::QualifiedName => Variant::QualifiedName(Box::new(self.qualified_name(element)?)),
            K::LocalizedText => Variant::LocalizedText(Box::new(localized(element))),
            K::ExtensionObject => Variant::ExtensionObject(self.structure(element)?),
            _ => {
                let content = children(element, "Value").next().and_then(|value| value.first_element_child());
                Variant::Variant(Box::new(match content {
                    Some(content) => self.any(content, depth + 1)?,
                    None => Variant::Empty,
                }))
            }
        })
    }

    /// A structure, by the id of its XML encoding or of its data type.
    fn structure(&self, element: Node<'_, '_>) -> Fallible<ExtensionObject> {
        let line = self.reading.line(element);
        let type_id = children(element, "TypeId").next().map_or("", |id| inner(id, "Identifier"));
        let id = self.reading.node_id(type_id, line)?;
        let body = children(element, "Body").next().and_then(|body| body.first_element_child());
        let unknown = || NodeSetFault::Structure(id.to_string()).at(line);
        let body = body.ok_or_else(unknown)?;
        let number = id.as_u32().filter(|_| id.namespace == 0).ok_or_else(unknown)?;
        Ok(match number {
            // The data type, its XML encoding and its binary encoding.
            296..=298 => ExtensionObject::from_message(self.argument(body)?),
            7594 | 7616 | 8251 => ExtensionObject::from_message(EnumValueType {
                value: self.parse_text(body, inner(body, "Value"), "Int64")?,
                display_name: children(body, "DisplayName").next().map_or_else(LocalizedText::null, localized),
                description: children(body, "Description").next().map_or_else(LocalizedText::null, localized),
            }),
            887..=889 => ExtensionObject::from_message(EUInformation {
                namespace_uri: UAString::from(inner(body, "NamespaceUri")),
                unit_id: self.parse_text(body, inner(body, "UnitId"), "Int32")?,
                display_name: children(body, "DisplayName").next().map_or_else(LocalizedText::null, localized),
                description: children(body, "Description").next().map_or_else(LocalizedText::null, localized),
            }),
            884..=886 => ExtensionObject::from_message(Range {
                low: self.parse_text(body, inner(body, "Low"), "Double")?,
                high: self.parse_text(body, inner(body, "High"), "Double")?,
            }),
            _ => return Err(unknown()),
        })
    }

    fn argument(&self, body: Node<'_, '_>) -> Fallible<Argument> {
        let data_type = children(body, "DataType").next();
        let sizes = children(body, "ArrayDimensions").flat_map(|sizes| sizes.children().filter(Node::is_element));
        let dimensions: Vec<u32> = sizes.map(|size| self.parse(size, "UInt32")).collect::<Fallible<_>>()?;
        let rank = inner(body, "ValueRank");
        let value_rank = if rank.is_empty() { -1 } else { self.parse_text(body, rank, "Int32")? };
        if !(-3..=MAX_RANK).contains(&value_rank) {
            return Err(self.fault(body, NodeSetFault::unreadable("value rank", rank)));
        }
        Ok(Argument {
            name: UAString::from(inner(body, "Name")),
            data_type: data_type.map_or_else(|| Ok(DataTypeId::BaseDataType.into()), |id| self.id(id))?,
            value_rank,
            array_dimensions: (!dimensions.is_empty()).then_some(dimensions),
            description: children(body, "Description").next().map_or_else(LocalizedText::null, localized),
        })
    }

    fn id(&self, element: Node<'_, '_>) -> Fallible<NodeId> {
        let text = inner(element, "Identifier");
        if text.is_empty() { Ok(NodeId::null()) } else { self.reading.node_id(text, self.reading.line(element)) }
    }

    fn qualified_name(&self, element: Node<'_, '_>) -> Fallible<QualifiedName> {
        let index = inner(element, "NamespaceIndex");
        let index = if index.is_empty() { 0 } else { self.parse_text(element, index, "namespace index")? };
        let index = self.reading.namespace(index, self.reading.line(element))?;
        Ok(QualifiedName::new(index, inner(element, "Name")))
    }

    fn bytes(&self, element: Node<'_, '_>) -> Fallible<ByteString> {
        let packed: String = text(element).chars().filter(|letter| !letter.is_whitespace()).collect();
        let wrong = || self.fault(element, NodeSetFault::unreadable("ByteString in base64", &packed));
        ByteString::from_base64(&packed).ok_or_else(wrong)
    }

    /// With or without a time zone: node sets are written in UTC.
    fn date(&self, element: Node<'_, '_>) -> Fallible<DateTime> {
        let text = text(element);
        let read = DateTime::parse_from_rfc3339(text).or_else(|_| DateTime::parse_from_rfc3339(&format!("{text}Z")));
        read.map_err(|_| self.fault(element, NodeSetFault::unreadable("DateTime", text)))
    }

    fn real(&self, element: Node<'_, '_>) -> Fallible<f64> {
        match text(element) {
            "INF" => Ok(f64::INFINITY),
            "-INF" => Ok(f64::NEG_INFINITY),
            other => self.parse_text(element, other, "number"),
        }
    }

    fn source<'c>(&self, element: Node<'c, '_>) -> &'c str {
        element.document().input_text().get(element.range()).unwrap_or_default()
    }

    fn parse<T: std::str::FromStr>(&self, element: Node<'_, '_>, what: &'static str) -> Fallible<T> {
        self.parse_text(element, text(element), what)
    }

    fn parse_text<T: std::str::FromStr>(&self, at: Node<'_, '_>, text: &str, what: &'static str) -> Fallible<T> {
        text.trim().parse().map_err(|_| self.fault(at, NodeSetFault::unreadable(what, text)))
    }

    fn fault(&self, element: Node<'_, '_>, fault: NodeSetFault) -> NodeSetError {
        fault.at(self.reading.line(element))
    }
}

fn text<'a>(element: Node<'a, '_>) -> &'a str {
    element.text().unwrap_or_default().trim()
}

/// The text of a child element.
fn inner<'a>(element: Node<'a, '_>, name: &'static str) -> &'a str {
    children(element, name).next().map_or("", text)
}

fn localized(element: Node<'_, '_>) -> LocalizedText {
    let whole = |name| children(element, name).next().and_then(|child| child.text()).unwrap_or_default();
    LocalizedText::new(whole("Locale"), whole("Text"))
}

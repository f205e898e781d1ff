//! Which values fit which data type and rank.

use opcua_types::{Array, ExtensionObject, Variant, VariantScalarTypeId, VariantTypeId};

use super::{NodeRef, Space, ns0};

impl Space {
    /// Whether a value fits a data type and a ValueRank (OPC 10000-3 §5.6.2): same built-in type as the data type
    /// derives from, or a subtype of an abstract one; structures by the type of their body.
    #[must_use]
    pub fn value_fits(&self, value: &Variant, data_type: NodeRef, rank: i32) -> bool {
        match value {
            Variant::Empty => false,
            Variant::Array(array) => self.array_fits(array, data_type, rank),
            scalar => matches!(rank, -3..=-1) && self.scalar_fits(scalar, data_type),
        }
    }

    /// As [`Space::value_fits`], and no dimension is longer than ArrayDimensions allows; 0 allows any length.
    pub(crate) fn value_fits_node(&self, value: &Variant, node: NodeRef) -> bool {
        let Some(data_type) = self.data_type(node) else { return false };
        if !self.value_fits(value, data_type, self.value_rank(node)) {
            return false;
        }
        let Variant::Array(array) = value else { return true };
        let allowed = self.dimensions(node);
        shape_of(array).iter().zip(&allowed).all(|(len, max)| *max == 0 || len <= max)
    }

    /// A ByteString written to a Byte array becomes that array (OPC 10000-3 §8.2, both have the same encoding).
    pub(super) fn adapt(&self, value: Variant, node: NodeRef) -> Variant {
        let takes_bytes = || {
            let data_type = self.data_type(node);
            data_type.is_some_and(|it| self.is_subtype_of(it, ns0::BYTE)) && self.value_rank(node) != -1
        };
        match &value {
            Variant::ByteString(_) if takes_bytes() => value.to_byte_array().unwrap_or(value),
            _ => value,
        }
    }

    fn array_fits(&self, array: &Array, data_type: NodeRef, rank: i32) -> bool {
        let dimensions = shape_of(array);
        let product = dimensions.iter().try_fold(1_u32, |product, len| product.checked_mul(*len));
        if product.map(|product| product as usize) != Some(array.values.len()) {
            return false;
        }
        let rank_fits = match rank {
            -2 | 0 => true,
            -3 | 1 => dimensions.len() == 1,
            2.. => usize::try_from(rank) == Ok(dimensions.len()),
            _ => false,
        };
        rank_fits && self.type_of_elements_fits(array, data_type) && self.elements_fit(array, data_type)
    }

    /// Also decides for an empty array.
    fn type_of_elements_fits(&self, array: &Array, data_type: NodeRef) -> bool {
        match array.value_type {
            VariantScalarTypeId::Variant => true,
            VariantScalarTypeId::ExtensionObject => {
                data_type == ns0::BASE_DATA_TYPE || self.is_subtype_of(data_type, ns0::STRUCTURE)
            }
            kind => self.built_in_fits(kind, data_type),
        }
    }

    fn elements_fit(&self, array: &Array, data_type: NodeRef) -> bool {
        let checked_by_type =
            !matches!(array.value_type, VariantScalarTypeId::Variant | VariantScalarTypeId::ExtensionObject);
        array.values.iter().all(|value| {
            matches!(value.type_id(), VariantTypeId::Scalar(kind) if kind == array.value_type)
                && (checked_by_type || self.scalar_fits(value, data_type))
        })
    }

    fn scalar_fits(&self, value: &Variant, data_type: NodeRef) -> bool {
        match value {
            Variant::ExtensionObject(object) => self.structure_fits(object, data_type),
            Variant::Variant(inner) if data_type != ns0::BASE_DATA_TYPE => {
                !matches!(**inner, Variant::Variant(_) | Variant::Array(_)) && self.scalar_fits(inner, data_type)
            }
            other => match other.type_id() {
                VariantTypeId::Scalar(kind) => self.built_in_fits(kind, data_type),
                VariantTypeId::Array(..) | VariantTypeId::Empty => false,
            },
        }
    }

    fn structure_fits(&self, object: &ExtensionObject, data_type: NodeRef) -> bool {
        if data_type == ns0::BASE_DATA_TYPE || data_type == ns0::STRUCTURE {
            return true;
        }
        let body = object.data_type().filter(|id| id.server_index == 0);
        let known = body.and_then(|id| match id.namespace_uri.value() {
            None => self.find(&id.node_id),
            Some(uri) => {
                let namespace = u16::try_from(self.namespaces.iter().position(|known| known == uri)?).ok()?;
                self.find(&opcua_types::NodeId { namespace, identifier: id.node_id.identifier.clone() })
            }
        });
        known.is_some_and(|body| self.is_subtype_of(body, data_type))
    }

    /// `kind` is the value's built-in type; its number is its data type's id.
    fn built_in_fits(&self, kind: VariantScalarTypeId, data_type: NodeRef) -> bool {
        let Some(own) = ns0::find_numeric(kind as u32) else { return false };
        self.is_subtype_of(own, data_type)
            || self.is_subtype_of(data_type, own) && own != ns0::BASE_DATA_TYPE
            || own == ns0::INT32 && self.is_subtype_of(data_type, ns0::ENUMERATION)
    }
}

/// Lengths of the dimensions. An empty array has one: the decoder gives it none.
pub(super) fn shape_of(array: &Array) -> Vec<u32> {
    match &array.dimensions {
        Some(dimensions) if !dimensions.is_empty() => dimensions.clone(),
        _ => vec![u32::try_from(array.values.len()).unwrap_or(u32::MAX)],
    }
}

/// The data type a value has by itself, and its rank.
pub(super) fn inferred(value: &Variant) -> (Option<NodeRef>, i32) {
    let (kind, rank) = match value {
        Variant::Array(array) => (Some(array.value_type), i32::try_from(shape_of(array).len()).unwrap_or(0)),
        other => (other.scalar_type_id(), -1),
    };
    let kind = match kind {
        None | Some(VariantScalarTypeId::Variant) => Some(ns0::BASE_DATA_TYPE),
        Some(kind) => ns0::find_numeric(kind as u32),
    };
    (kind, rank)
}

//! The nodes of an authorization service (OPC 10000-12 §9): the GDS namespace with its AuthorizationServices folder,
//! the type, and one service. What its methods do is the authority's.

use access_model::ScopeIndex;
use opcua_types::{Argument, LocalizedText, NodeId, Variant};

use super::grow::structures;
use super::{
    AuthorizationNodes, AuthorizationService, NewMethod, NewNode, NewVariable, NodeRef, Space, SpaceError, ns0,
};

/// The namespace of the GDS.
pub const GDS_NAMESPACE: &str = "http://opcfoundation.org/UA/GDS/";

/// AuthorizationServicesFolderType and the placeholder in it.
const FOLDER_TYPE: u32 = 233;
const PLACEHOLDER: u32 = 234;
/// AuthorizationServices.
const FOLDER: u32 = 959;
/// AuthorizationServiceType.
const SERVICE_TYPE: u32 = 966;
const SERVICE_URI: u32 = 1003;
const SERVICE_CERTIFICATE: u32 = 968;
const USER_TOKEN_POLICIES: u32 = 967;

/// HasModellingRule and the rules, in namespace 0.
const HAS_MODELLING_RULE: u32 = 37;
const MANDATORY: u32 = 78;
const OPTIONAL: u32 = 80;
const OPTIONAL_PLACEHOLDER: u32 = 11508;

// Data types, in namespace 0.
const STRING: u32 = 12;
const DATE_TIME: u32 = 13;
const GUID: u32 = 14;
const BYTE_STRING: u32 = 15;
const USER_TOKEN_POLICY: u32 = 304;
const USER_IDENTITY_TOKEN: u32 = 316;
const SIGNATURE_DATA: u32 = 456;

/// A method of AuthorizationServiceType; ids of the declaration and its argument properties.
struct Declared {
    name: &'static str,
    ids: [u32; 3],
    rule: u32,
    inputs: &'static [Declaration],
    outputs: &'static [Declaration],
}

/// Argument name, data type, whether it is an array.
type Declaration = (&'static str, u32, bool);

const GET_SERVICE_DESCRIPTION: Declared = Declared {
    name: "GetServiceDescription",
    ids: [1004, 0, 1005],
    rule: MANDATORY,
    inputs: &[],
    outputs: &[
        ("ServiceUri", STRING, false),
        ("ServiceCertificate", BYTE_STRING, false),
        ("UserTokenPolicies", USER_TOKEN_POLICY, true),
    ],
};

const REQUEST_ACCESS_TOKEN: Declared = Declared {
    name: "RequestAccessToken",
    ids: [969, 970, 971],
    rule: OPTIONAL,
    inputs: &[("IdentityToken", USER_IDENTITY_TOKEN, false), ("ResourceId", STRING, false)],
    outputs: &[("AccessToken", STRING, false)],
};

const START_REQUEST_TOKEN: Declared = Declared {
    name: "StartRequestToken",
    ids: [95, 96, 97],
    rule: OPTIONAL,
    inputs: &[("ResourceId", STRING, false), ("PolicyId", STRING, false), ("RequestorData", BYTE_STRING, false)],
    outputs: &[("ServiceData", BYTE_STRING, false), ("RequestId", GUID, false)],
};

const FINISH_REQUEST_TOKEN: Declared = Declared {
    name: "FinishRequestToken",
    ids: [98, 99, 100],
    rule: OPTIONAL,
    inputs: &[
        ("RequestId", GUID, false),
        ("RequestedRoles", STRING, true),
        ("UserIdentityToken", USER_IDENTITY_TOKEN, false),
        ("UserTokenSignature", SIGNATURE_DATA, false),
    ],
    outputs: &[
        ("AccessToken", STRING, false),
        ("AccessTokenExpiryTime", DATE_TIME, false),
        ("RefreshToken", STRING, false),
        ("RefreshTokenExpiryTime", DATE_TIME, false),
    ],
};

const REFRESH_TOKEN: Declared = Declared {
    name: "RefreshToken",
    ids: [64, 65, 66],
    rule: OPTIONAL,
    inputs: &[("ResourceId", STRING, false), ("CurrentRefreshToken", STRING, false)],
    outputs: &[
        ("AccessToken", STRING, false),
        ("AccessTokenExpiryTime", DATE_TIME, false),
        ("NewRefreshToken", STRING, false),
        ("NewRefreshTokenExpiryTime", DATE_TIME, false),
    ],
};

/// Adds the GDS namespace, its types, the AuthorizationServices folder under Objects, and one service in it.
///
/// # Errors
/// A node cannot be added: the service was added before, or its name is unusable.
pub fn add(space: &mut Space, service: &AuthorizationService<'_>) -> Result<AuthorizationNodes, SpaceError> {
    let namespace = space.add_namespace(GDS_NAMESPACE)?;
    let mut gds = Gds { space, namespace };
    let (folder_type, service_type) = gds.add_types()?;
    let folder = gds.add_folder(folder_type)?;
    gds.add_service(folder, service_type, service)
}

struct Gds<'a> {
    space: &'a mut Space,
    namespace: u16,
}

impl Gds<'_> {
    fn id(&self, number: u32) -> Option<NodeId> {
        Some(NodeId::new(self.namespace, number))
    }

    fn add_types(&mut self) -> Result<(NodeRef, NodeRef), SpaceError> {
        let service_type =
            NewNode::object_type(ns0::BASE_OBJECT_TYPE, self.id(SERVICE_TYPE), "AuthorizationServiceType");
        let service_type = self.space.add_node(service_type)?;
        let public = ScopeIndex::PUBLIC;
        let declared = [
            ("ServiceUri", SERVICE_URI, STRING, -1, MANDATORY),
            ("ServiceCertificate", SERVICE_CERTIFICATE, BYTE_STRING, -1, MANDATORY),
            ("UserTokenPolicies", USER_TOKEN_POLICIES, USER_TOKEN_POLICY, 1, OPTIONAL),
        ];
        for (name, id, data_type, rank, rule) in declared {
            let property = NewVariable::property(service_type, self.id(id), name, Variant::Empty, public);
            let data_type = ns0::find_numeric(data_type);
            let node = self.space.add_variable(NewVariable { data_type, value_rank: Some(rank), ..property })?;
            self.rule(node, rule)?;
        }
        let methods = [
            &GET_SERVICE_DESCRIPTION,
            &START_REQUEST_TOKEN,
            &FINISH_REQUEST_TOKEN,
            &REFRESH_TOKEN,
            &REQUEST_ACCESS_TOKEN,
        ];
        for method in methods {
            let [id, inputs, outputs] = method.ids.map(|id| self.id(id));
            let node = self.add_method(service_type, method, id, [inputs, outputs], public)?;
            self.rule(node, method.rule)?;
        }
        let folder_type =
            NewNode::object_type(ns0::FOLDER_TYPE, self.id(FOLDER_TYPE), "AuthorizationServicesFolderType");
        let folder_type = self.space.add_node(folder_type)?;
        let placeholder = NewNode::object(folder_type, self.id(PLACEHOLDER), "<ServiceName>", public);
        let reference = ns0::ORGANIZES;
        let placeholder =
            self.space.add_node(NewNode { reference, type_definition: Some(service_type), ..placeholder })?;
        self.rule(placeholder, OPTIONAL_PLACEHOLDER)?;
        Ok((folder_type, service_type))
    }

    fn rule(&mut self, node: NodeRef, rule: u32) -> Result<(), SpaceError> {
        match (ns0::find_numeric(HAS_MODELLING_RULE), ns0::find_numeric(rule)) {
            (Some(type_), Some(rule)) => self.space.add_reference(node, type_, rule),
            _ => Ok(()),
        }
    }

    fn add_folder(&mut self, folder_type: NodeRef) -> Result<NodeRef, SpaceError> {
        let object = NewNode::object(ns0::OBJECTS, self.id(FOLDER), "AuthorizationServices", ScopeIndex::PUBLIC);
        let reference = ns0::ORGANIZES;
        self.space.add_node(NewNode { reference, type_definition: Some(folder_type), ..object })
    }

    fn add_service(
        &mut self,
        folder: NodeRef,
        service_type: NodeRef,
        new: &AuthorizationService<'_>,
    ) -> Result<AuthorizationNodes, SpaceError> {
        let scope = new.scope;
        let object = NewNode::object(folder, None, new.name, scope);
        let reference = ns0::ORGANIZES;
        let service = self.space.add_node(NewNode { reference, type_definition: Some(service_type), ..object })?;
        self.property(service, "ServiceUri", Variant::String(new.uri.into()), None, scope)?;
        let certificate = Variant::ByteString(new.certificate.clone());
        let service_certificate = self.property(service, "ServiceCertificate", certificate, None, scope)?;
        let policies = structures(new.policies.clone());
        self.property(service, "UserTokenPolicies", policies, Some(ns0::USER_TOKEN_POLICY), scope)?;
        let mut method = |declared| self.add_method(service, declared, None, [None, None], scope);
        Ok(AuthorizationNodes {
            folder,
            service,
            service_certificate,
            get_service_description: method(&GET_SERVICE_DESCRIPTION)?,
            start_request_token: method(&START_REQUEST_TOKEN)?,
            finish_request_token: method(&FINISH_REQUEST_TOKEN)?,
            refresh_token: method(&REFRESH_TOKEN)?,
            request_access_token: new.request_access_token.then(|| method(&REQUEST_ACCESS_TOKEN)).transpose()?,
            namespace: self.namespace,
        })
    }

    fn property(
        &mut self,
        parent: NodeRef,
        name: &str,
        value: Variant,
        data_type: Option<NodeRef>,
        scope: ScopeIndex,
    ) -> Result<NodeRef, SpaceError> {
        let property = NewVariable::property(parent, None, name, value, scope);
        self.space.add_variable(NewVariable { name_namespace: Some(self.namespace), data_type, ..property })
    }

    fn add_method(
        &mut self,
        parent: NodeRef,
        declared: &Declared,
        id: Option<NodeId>,
        argument_ids: [Option<NodeId>; 2],
        scope: ScopeIndex,
    ) -> Result<NodeRef, SpaceError> {
        self.space.add_method(NewMethod {
            argument_ids,
            name_namespace: Some(self.namespace),
            inputs: arguments(declared.inputs),
            outputs: arguments(declared.outputs),
            ..NewMethod::new(parent, id, declared.name, scope)
        })
    }
}

fn arguments(declared: &[Declaration]) -> Vec<Argument> {
    let argument = |(name, data_type, is_array): &Declaration| Argument {
        name: (*name).into(),
        data_type: NodeId::new(0, *data_type),
        value_rank: if *is_array { 1 } else { -1 },
        // The codec refuses an argument of rank 1 without its one dimension; 0 leaves the length open.
        array_dimensions: is_array.then(|| vec![0]),
        description: LocalizedText::null(),
    };
    declared.iter().map(argument).collect()
}

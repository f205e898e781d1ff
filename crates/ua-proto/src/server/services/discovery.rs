//! GetEndpoints and FindServers (OPC 10000-4 §5.5): the only services without a session.

use access_model::Now;
use opcua_types::{FindServersRequest, FindServersResponse, GetEndpointsRequest, GetEndpointsResponse, StatusCode};

use crate::pki::OwnIdentity;
use crate::server::codec::{Codec, response_header, write_message};
use crate::server::config::ServerConfig;
use crate::server::endpoints::{application, descriptions};
use crate::server::registry::Registry;
use crate::server::told::told;

const TRANSPORT: &str = "http://opcfoundation.org/UA-Profile/Transport/uatcp-uasc-uabinary";

pub(crate) fn get_endpoints(
    config: &ServerConfig,
    codec: &Codec,
    own: &OwnIdentity,
    request: &GetEndpointsRequest,
    now: Now,
    out: &mut Vec<u8>,
) -> Result<(), StatusCode> {
    let profiles = request.profile_uris.as_deref().unwrap_or_default();
    let wanted = profiles.is_empty() || profiles.iter().any(|profile| profile.as_ref() == TRANSPORT);
    let url = told(config, own, request.endpoint_url.as_ref());
    let response = GetEndpointsResponse {
        response_header: response_header(now, request.request_header.request_handle),
        endpoints: Some(if wanted { descriptions(config, own, &url) } else { Vec::new() }),
    };
    write_message(out, &response, &codec.context(0))
}

pub(crate) fn find_servers(
    (config, registry): (&ServerConfig, &Registry),
    codec: &Codec,
    own: &OwnIdentity,
    request: &FindServersRequest,
    now: Now,
    out: &mut Vec<u8>,
) -> Result<(), StatusCode> {
    let uris = request.server_uris.as_deref().unwrap_or_default();
    let wanted = uris.is_empty() || uris.iter().any(|uri| uri.as_ref() == config.application_uri);
    let url = told(config, own, request.endpoint_url.as_ref());
    let own = wanted.then(|| application(config, &url));
    let response = FindServersResponse {
        response_header: response_header(now, request.request_header.request_handle),
        servers: Some(own.into_iter().chain(registry.descriptions(uris)).collect()),
    };
    write_message(out, &response, &codec.context(0))
}

//! `mcpio serve --issuer`: a server that requires access tokens, to test clients and authorization servers.

use mcp_proto::auth::server::{DpopConfig, JwtConfig, Protection};
use mcp_proto::front::guard::{Guard, JwtVerifier};
use mcp_proto::front::{Context, NoArguments, Router};
use mcp_proto::schema::Tool;
use mcp_proto::transport::http::server::Hosts;
use serde_json::json;

use crate::error::CommandError;
use crate::options::ProtectionOptions;

/// Protection of the server by access tokens.
pub(crate) struct ProtectionSetup {
    pub(crate) guard: Guard,
    /// The hosts that requests may name.
    pub(crate) host: Hosts,
}

/// The protection of a server at `url`, if the options require access tokens.
pub(crate) fn protection(
    url: &str,
    demands: &ProtectionOptions,
) -> Result<Option<ProtectionSetup>, CommandError> {
    let Some(issuer) = &demands.issuer else { return Ok(None) };
    let failed = |error| CommandError::Usage(format!("access tokens: {error}"));
    let resource = demands.resource.as_deref().unwrap_or(url);
    let mut protection = Protection::new(resource, issuer)
        .and_then(|protection| protection.required(demands.scope.iter().map(String::as_str)))
        .map_err(failed)?
        .name("mcpio demo");
    for audience in &demands.audience {
        protection = protection.audience(audience);
    }
    protection = protection.dpop(if demands.dpop { DpopConfig::required() } else { DpopConfig::accepted() });
    let host = match demands.resource.as_deref().and_then(host) {
        Some(host) => Hosts::Only(vec![host.to_owned()]),
        None => Hosts::default(),
    };
    let guard = Guard::new(protection, JwtVerifier::new(JwtConfig::new(issuer)));
    Ok(Some(ProtectionSetup { guard, host }))
}

/// The host of a URL.
fn host(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    rest.split('/').next()
}

/// The same tools with their required scopes, and one that reports the caller.
pub(crate) fn with_scopes(router: Router, demands: &ProtectionOptions) -> Router {
    if demands.issuer.is_none() {
        return router;
    }
    let whoami =
        Tool::new("whoami", "Reports who you are according to your token", json!({ "type": "object" }));
    let mut router = router.tool_with(whoami, async |NoArguments {}, cx: Context| match cx.access() {
        Some(access) => {
            let client = access.client_id.as_deref().unwrap_or("an unnamed client");
            let scopes = if access.scopes.is_empty() { "none".to_owned() } else { access.scopes.to_string() };
            format!("{}, by {client}; scopes: {scopes}", access.principal.as_str())
        }
        None => "an anonymous caller".to_owned(),
    });
    for (tool, _) in &demands.tool_scope {
        let scopes = demands.tool_scope.iter().filter(|(other, _)| other == tool);
        router = router.tool_scopes(tool, scopes.map(|(_, scope)| scope.as_str()));
    }
    router
}

//! `mcpio serve --issuer`: a server that demands tokens, to try other people's clients and authorization servers on.

use mcp_proto::auth::server::{DpopConfig, JwtConfig, Protection};
use mcp_proto::front::guard::{Guard, JwtVerifier};
use mcp_proto::front::{Context, NoArguments, Router};
use mcp_proto::schema::Tool;
use mcp_proto::transport::http::server::Hosts;
use serde_json::json;

use crate::failure::CommandError;
use crate::options::ProtectionOptions;

/// How the server is protected.
pub(crate) struct ProtectionSetup {
    pub(crate) guard: Guard,
    /// By which names it may be asked for.
    pub(crate) host: Hosts,
}

/// What is demanded of the clients of a server at `url`, if anything.
pub(crate) fn protection(
    url: &str,
    demands: &ProtectionOptions,
) -> Result<Option<ProtectionSetup>, CommandError> {
    let Some(issuer) = &demands.issuer else { return Ok(None) };
    let failed = |error| CommandError::Usage(format!("demanding tokens: {error}"));
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

/// The same tools with what they need, and one that tells who calls it.
pub(crate) fn with_scopes(router: Router, demands: &ProtectionOptions) -> Router {
    if demands.issuer.is_none() {
        return router;
    }
    let whoami = Tool::new("whoami", "Says who you are by your token", json!({ "type": "object" }));
    let mut router = router.tool_with(whoami, async |NoArguments {}, cx: Context| match cx.access() {
        Some(access) => {
            let client = access.client_id.as_deref().unwrap_or("an unnamed client");
            let scopes = if access.scopes.is_empty() { "none".to_owned() } else { access.scopes.to_string() };
            format!("{}, by {client}; scopes: {scopes}", access.principal.as_str())
        }
        None => "nobody".to_owned(),
    });
    for (tool, _) in &demands.tool_scope {
        let scopes = demands.tool_scope.iter().filter(|(other, _)| other == tool);
        router = router.tool_scopes(tool, scopes.map(|(_, scope)| scope.as_str()));
    }
    router
}

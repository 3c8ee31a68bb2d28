//! Discovery of the authorization server and its metadata.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/authorization-server-discovery>

use alloc::collections::VecDeque;
use alloc::sync::Arc;

use crate::auth::{Fetch, MetadataError, ResourceIdentity, ResourceMetadata, Secret, ServerMetadata};
use crate::prelude::*;

use super::AuthClient;
use super::config::{LegacyDiscovery, Preregistration, TrailingSlash};
use super::error::AuthError;
use super::event::{Deviation, Event};
use super::exchange::{Exchange, FetchReply, without_query};
use super::flow::{DiscoveredServer, DocumentError, Flow, FlowPurpose, FlowStep, Search, StepResult};

/// Maximum number of listed authorization servers to try.
const MAX_SERVERS: usize = 3;

/// Parses the document in a reply.
fn parse_document<T>(
    reply: FetchReply,
    parse: fn(&[u8]) -> Result<T, MetadataError>,
) -> Result<T, DocumentError> {
    let answer = reply.map_err(|error| {
        // An unsafe URL is never fetched, so it certainly has no document.
        let absent = matches!(error, AuthError::UnsafeUrl { .. });
        (error, absent)
    })?;
    let (url, status) = (without_query(&answer.url), answer.status);
    if status != 200 {
        let absent = (400..500).contains(&status) && status != 429;
        return Err((AuthError::Status { url, status }, absent));
    }
    // What is no JSON is no document at all: many servers answer every path with a page.
    parse(&answer.body).map_err(|error| (AuthError::Metadata { url, error }, error == MetadataError::Json))
}

impl AuthClient {
    /// Looks up the resource metadata: at the URL of the challenge, then at the well-known ones.
    pub(super) fn discover_resource(&mut self, mut flow: Flow) -> StepResult {
        flow.resource_searched = true;
        //= C12.3 "PRM: `resource_metadata` URL first, else path well-known, else root well-known, in this order"
        let mut urls: VecDeque<_> = ResourceMetadata::well_known_urls(&self.server).into();
        if let Some(named) = &flow.requirement.resource_metadata {
            urls.retain(|url| url != named);
            urls.push_front(named.clone());
        }
        self.try_next_resource(flow, Search { urls, ..Search::default() })
    }

    /// Fetches the next URL of a search. Returns whether there was one.
    fn fetch_next(&mut self, search: &mut Search) -> bool {
        while let Some(url) = search.next_url() {
            search.current.clone_from(&url);
            let mut request = Exchange::new(Fetch::get(url));
            if search.at_origin {
                // Servers of that revision may depend on it.
                request.fetch.headers.push(("mcp-protocol-version", Secret::new("2025-03-26")));
            }
            match self.fetch(request) {
                Ok(()) => return true,
                Err(error) => search.failed((error, true)),
            }
        }
        false
    }

    fn try_next_resource(&mut self, flow: Flow, mut search: Search) -> StepResult {
        if self.fetch_next(&mut search) {
            return flow.enter(FlowStep::Resource(search));
        }
        // Only a server that certainly has no metadata is of 2025-03-26. An unreachable one may be of any revision, and
        // then credentials must not be sent to its origin.
        let silent = !search.maybe_present && flow.requirement.resource_metadata.is_none();
        if silent && self.config.legacy_discovery == LegacyDiscovery::Accepted {
            //= R3 "Authorization metadata at the origin of the MCP URL"
            let origin = ServerMetadata::at_origin(&self.server);
            let origin = origin.map_err(|_| AuthError::NoResourceMetadata)?;
            let issuers = self.eligible_issuers(Vec::from([origin.issuer]))?;
            return self.try_next_server(flow, Search::of_servers(issuers, true));
        }
        let known = search.failure.filter(|_| search.maybe_present);
        Err(known.unwrap_or(AuthError::NoResourceMetadata))
    }

    pub(super) fn handle_resource_reply(
        &mut self,
        mut flow: Flow,
        mut search: Search,
        reply: FetchReply,
    ) -> StepResult {
        let found = parse_document(reply, ResourceMetadata::parse).and_then(|resource| {
            //= C12.4 "PRM `resource` must equal the requested resource / origin"
            if self.is_about_server(&resource, &search.current) {
                return Ok(resource);
            }
            // Many servers answer every well-known path with the document of their origin.
            Err((AuthError::ResourceMismatch { resource: without_query(&resource.resource) }, false))
        });
        let resource = match found {
            Ok(resource) => resource,
            Err(error) => {
                search.failed(error);
                return self.try_next_resource(flow, search);
            }
        };
        if resource.authorization_servers.is_empty() {
            return Err(AuthError::NoAuthorizationServer);
        }
        let issuers = self.eligible_issuers(resource.authorization_servers.clone())?;
        flow.resource = Some(resource);
        self.try_next_server(flow, Search::of_servers(issuers, false))
    }

    /// Whether a document from `place` describes the server.
    fn is_about_server(&mut self, resource: &ResourceMetadata, place: &str) -> bool {
        if self.config.resource.as_ref().is_some_and(|chosen| resource.is_for(chosen)) {
            return true;
        }
        match resource.identity(&self.server, place) {
            ResourceIdentity::Exact | ResourceIdentity::Origin => true,
            ResourceIdentity::TrailingSlash if self.config.trailing_slash == TrailingSlash::Accepted => {
                let resource = without_query(&resource.resource);
                self.events.push(Event::Tolerated(Deviation::TrailingSlash { resource }));
                true
            }
            _ => false,
        }
    }

    /// The authorization servers to try, in order: first those that know this client. If there are preregistrations,
    /// only their issuers.
    fn eligible_issuers(&self, issuers: Vec<String>) -> Result<VecDeque<String>, AuthError> {
        let first = issuers.first().map(|issuer| without_query(issuer)).unwrap_or_default();
        let knows = |issuer: &String| {
            let configured = self.config.preregistrations.iter().filter_map(Preregistration::issuer);
            let token = self.tokens.current().map(|tokens| tokens.issuer.as_str());
            configured
                .chain(self.tokens.record.clients.keys().map(String::as_str))
                .chain(token)
                .any(|known| self.same_issuer(known, issuer))
        };
        let issuers = issuers.into_iter().filter(|issuer| self.is_issuer_allowed(issuer));
        let (mut known, unknown): (VecDeque<_>, VecDeque<_>) = issuers.partition(knows);
        known.extend(unknown);
        known.truncate(MAX_SERVERS);
        if known.is_empty() {
            return Err(AuthError::RegisteredElsewhere { issuer: first });
        }
        Ok(known)
    }

    /// Whether the preregistrations, if there are any, allow this authorization server.
    pub(super) fn is_issuer_allowed(&self, issuer: &str) -> bool {
        self.config.preregistrations.is_empty()
            || self.config.preregistrations.iter().any(|registered| match registered.issuer() {
                Some(known) => self.same_issuer(known, issuer),
                None => !self.tokens.record.clients.iter().any(|(known, client)| {
                    client.redirect_uri.is_none()
                        && client.id == registered.credentials().id
                        && !self.same_issuer(known, issuer)
                }),
            })
    }

    pub(super) fn same_issuer(&self, one: &str, other: &str) -> bool {
        let known = ServerMetadata { issuer: one.into(), ..ServerMetadata::default() };
        known.matches_issuer(other, self.config.issuer_match)
    }

    /// Looks up the authorization server that issued the token.
    pub(super) fn discover_issuer(&mut self, flow: Flow) -> StepResult {
        let Some(tokens) = self.tokens.current().cloned() else { return self.discover_resource(flow) };
        self.discover_known(flow, &tokens.issuer, tokens.at_origin)
    }

    /// Looks up an authorization server that was discovered before.
    pub(super) fn discover_known(&mut self, mut flow: Flow, issuer: &str, at_origin: bool) -> StepResult {
        let is_known =
            |found: &&Arc<DiscoveredServer>| found.metadata.issuer == issuer && found.at_origin == at_origin;
        match self.discovered.as_ref().filter(is_known).cloned() {
            Some(found) => {
                flow.server = found;
                self.continue_with_server(flow)
            }
            None => {
                let search = Search::of_servers([String::from(issuer)], at_origin);
                self.try_next_server(flow, search)
            }
        }
    }

    pub(super) fn try_next_server(&mut self, mut flow: Flow, mut search: Search) -> StepResult {
        if self.fetch_next(&mut search) {
            return flow.enter(FlowStep::Server(search));
        }
        if search.at_origin && !search.maybe_present {
            let metadata = ServerMetadata::at_origin(&self.server);
            let metadata = metadata.map_err(|_| AuthError::NoResourceMetadata)?;
            flow.server = Arc::new(DiscoveredServer { metadata, at_origin: true, has_metadata: false });
            return self.continue_with_server(flow);
        }
        Err(search.failure.unwrap_or(AuthError::NoAuthorizationServer))
    }

    pub(super) fn handle_server_reply(
        &mut self,
        mut flow: Flow,
        mut search: Search,
        reply: FetchReply,
    ) -> StepResult {
        match (self.parse_server(reply, &search.issuer), &search.subject) {
            (Ok(provider), Some(subject)) => self.exchange_token(flow, &provider, subject),
            (Ok(metadata), None) => {
                let at_origin = search.at_origin;
                flow.server = Arc::new(DiscoveredServer { metadata, at_origin, has_metadata: true });
                self.continue_with_server(flow)
            }
            (Err(error), _) => {
                search.failed(error);
                self.try_next_server(flow, search)
            }
        }
    }

    /// The metadata of the issuer.
    fn parse_server(&self, reply: FetchReply, issuer: &str) -> Result<ServerMetadata, DocumentError> {
        let metadata = parse_document(reply, ServerMetadata::parse)?;
        //= C12.6 "metadata.issuer identical to the issuer used to build the URL, else not used"
        if metadata.matches_issuer(issuer, self.config.issuer_match) {
            return Ok(metadata);
        }
        Err((AuthError::IssuerMismatch { expected: without_query(issuer) }, false))
    }

    /// Continues with the discovered authorization server.
    fn continue_with_server(&mut self, mut flow: Flow) -> StepResult {
        self.discovered = Some(flow.server.clone());
        if flow.removed_tokens.is_some() {
            return self.revoke(flow);
        }
        if flow.redemption.is_some() {
            return self.use_login(flow);
        }
        let issuer = &flow.server.metadata.issuer;
        let same = self.tokens.current().is_some_and(|tokens| tokens.issuer == *issuer);
        let may_renew =
            matches!(flow.purpose, FlowPurpose::EarlyRenewal | FlowPurpose::NewToken { may_renew: true, .. });
        if may_renew && same && !flow.refresh_rejected && self.tokens.can_renew() {
            return self.renew_in_turn(flow);
        }
        flow.refresh_rejected = true;
        self.continue_without_renewal(flow)
    }

    /// Continues without renewing the token.
    pub(super) fn continue_without_renewal(&mut self, flow: Flow) -> StepResult {
        match flow.purpose {
            FlowPurpose::EarlyRenewal if self.is_interactive() => Ok(None),
            _ if flow.resource_searched => self.register(flow),
            _ => self.discover_resource(flow),
        }
    }
}

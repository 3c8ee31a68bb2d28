//! Discovery of the authorization server and its metadata.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/authorization-server-discovery>

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::AuthClient;
use super::config::{LegacyDiscovery, Preregistration, TrailingSlash};
use super::error::AuthError;
use super::event::{Deviation, Event};
use super::exchange::{FetchReply, FetchRequest, without_query};
use super::flow::{DiscoveredServer, DocumentSearch, Flow, FlowPurpose, FlowStep, ServerSearch, StepResult};
use super::record::{ClientSource, IssuerSource};
use crate::auth::{MetadataError, Now, ResourceIdentity, ResourceMetadata, Secret, ServerMetadata};

/// Maximum number of listed authorization servers to try.
const MAX_SERVERS: usize = 3;

/// The reply of one URL in the search for a document.
enum DocumentReply {
    Found(bytes::Bytes),
    /// There is no document. The flag tells whether that is certain.
    Missing(AuthError, bool),
}

impl DocumentReply {
    fn from_reply(reply: FetchReply) -> (String, Self) {
        match reply {
            FetchReply::Failed(error) => {
                // An unsafe URL is never fetched, so it certainly has no document.
                let absent = matches!(error, AuthError::UnsafeUrl { .. });
                (String::new(), Self::Missing(error, absent))
            }
            FetchReply::Answer { url, status: 200, body, .. } => (without_query(&url), Self::Found(body)),
            FetchReply::Answer { url, status, .. } => {
                let url = without_query(&url);
                let absent = (400..500).contains(&status) && status != 429;
                (url.clone(), Self::Missing(AuthError::Status { url, status }, absent))
            }
        }
    }
}

/// Whether the body is no document at all: many servers answer every path with a page.
fn is_no_document(error: MetadataError) -> bool {
    error == MetadataError::Json
}

impl AuthClient {
    /// Looks up the resource metadata: at the URL of the challenge, then at the well-known ones.
    pub(super) fn discover_resource(&mut self, now: Now, mut flow: Box<Flow>) -> StepResult {
        flow.resource_searched = true;
        //= C12.3 "PRM: `resource_metadata` URL first, else path well-known, else root well-known, in this order"
        let mut places: Vec<String> = flow.requirement.metadata.iter().cloned().collect();
        for place in ResourceMetadata::well_known_urls(&self.server) {
            if !places.contains(&place) {
                places.push(place);
            }
        }
        self.try_next_resource(now, flow, DocumentSearch::new(places))
    }

    fn try_next_resource(&mut self, now: Now, flow: Box<Flow>, mut search: DocumentSearch) -> StepResult {
        while let Some(url) = search.urls.pop_front() {
            search.current.clone_from(&url);
            match self.fetch(now, FetchRequest::get(url)) {
                Ok(()) => return Ok(flow.into_step(FlowStep::Resource(search))),
                Err(error) => search.failed(error, true),
            }
        }
        // Only a server that certainly has no metadata is of 2025-03-26. An unreachable one may be of any revision, and
        // then credentials must not be sent to its origin.
        let silent = search.all_absent && flow.requirement.metadata.is_none();
        if silent && self.config.legacy_discovery == LegacyDiscovery::Accepted {
            //= R3 "Authorization metadata at the origin of the MCP URL"
            let origin = ServerMetadata::at_origin(&self.server);
            let origin = origin.map_err(|_| AuthError::NoResourceMetadata)?;
            let issuers = self.eligible_issuers(Vec::from([origin.issuer]))?;
            return self.discover_server(now, flow, issuers, IssuerSource::Origin);
        }
        let known = search.failure.filter(|_| !search.all_absent);
        Err(known.unwrap_or(AuthError::NoResourceMetadata).into())
    }

    pub(super) fn handle_resource_reply(
        &mut self,
        now: Now,
        mut flow: Box<Flow>,
        mut search: DocumentSearch,
        reply: FetchReply,
    ) -> StepResult {
        let resource = match DocumentReply::from_reply(reply) {
            (_, DocumentReply::Missing(error, absent)) => {
                search.failed(error, absent);
                return self.try_next_resource(now, flow, search);
            }
            (url, DocumentReply::Found(body)) => match ResourceMetadata::parse(&body) {
                Ok(resource) => resource,
                Err(error) => {
                    search.failed(AuthError::Metadata { url, error }, is_no_document(error));
                    return self.try_next_resource(now, flow, search);
                }
            },
        };
        //= C12.4 "PRM `resource` must equal the requested resource / origin"
        if !self.is_about_server(&resource, &search.current) {
            // Many servers answer every well-known path with the document of their origin.
            search.failed(AuthError::ResourceMismatch { resource: without_query(&resource.resource) }, false);
            return self.try_next_resource(now, flow, search);
        }
        if resource.authorization_servers.is_empty() {
            return Err(AuthError::NoAuthorizationServer.into());
        }
        let issuers = self.eligible_issuers(resource.authorization_servers.clone())?;
        flow.resource = Some(resource);
        self.discover_server(now, flow, issuers, IssuerSource::Named)
    }

    /// Whether a document from `place` describes the server.
    fn is_about_server(&mut self, resource: &ResourceMetadata, place: &str) -> bool {
        if self.config.resource.as_ref().is_some_and(|chosen| resource.is_for(chosen)) {
            return true;
        }
        match resource.identity(&self.server, place) {
            ResourceIdentity::Exact | ResourceIdentity::Origin => true,
            ResourceIdentity::TrailingSlash if self.config.trailing_slash == TrailingSlash::Accepted => {
                let resource = self::without_query(&resource.resource);
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
                .chain(self.tokens.record().clients.keys().map(String::as_str))
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
                None => !self.tokens.record().clients.iter().any(|(known, client)| {
                    client.source == ClientSource::Configured
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
    pub(super) fn discover_issuer(&mut self, now: Now, mut flow: Box<Flow>) -> StepResult {
        let Some(tokens) = self.tokens.current() else { return self.discover_resource(now, flow) };
        let (issuer, source) = (tokens.issuer.clone(), tokens.issuer_source);
        if let Some(found) = self
            .discovered
            .clone()
            .filter(|found| found.metadata.issuer == issuer && found.issuer_source == source)
        {
            flow.discovered = Some(found);
            return self.continue_with_server(now, flow);
        }
        self.discover_server(now, flow, VecDeque::from([issuer]), source)
    }

    pub(super) fn discover_server(
        &mut self,
        now: Now,
        flow: Box<Flow>,
        issuers: VecDeque<String>,
        source: IssuerSource,
    ) -> StepResult {
        let mut others = issuers;
        let issuer = others.pop_front().unwrap_or_default();
        let search = DocumentSearch::new(ServerMetadata::well_known_urls(&issuer));
        self.try_next_server(
            now,
            flow,
            ServerSearch { issuer, issuer_source: source, search, remaining: others, failure: None },
        )
    }

    fn try_next_server(&mut self, now: Now, mut flow: Box<Flow>, mut at: ServerSearch) -> StepResult {
        loop {
            while let Some(url) = at.search.urls.pop_front() {
                let mut request = FetchRequest::get(url);
                if at.issuer_source == IssuerSource::Origin {
                    // Servers of that revision may depend on it.
                    request.headers.push(("mcp-protocol-version", Secret::new("2025-03-26")));
                }
                match self.fetch(now, request) {
                    Ok(()) => return Ok(flow.into_step(FlowStep::Server(at))),
                    Err(error) => at.search.failed(error, true),
                }
            }
            if at.issuer_source == IssuerSource::Origin && at.search.all_absent {
                let metadata = ServerMetadata::at_origin(&self.server);
                let metadata = metadata.map_err(|_| AuthError::NoResourceMetadata)?;
                flow.discovered = Some(Arc::new(DiscoveredServer {
                    metadata,
                    issuer_source: IssuerSource::Origin,
                    has_metadata: false,
                }));
                return self.continue_with_server(now, flow);
            }
            let failure = at.search.failure.take();
            let failure =
                failure.unwrap_or(AuthError::IssuerMismatch { expected: without_query(&at.issuer) });
            let failure = at.failure.take().unwrap_or(failure);
            let Some(issuer) = at.remaining.pop_front() else { return Err(failure.into()) };
            at.search = DocumentSearch::new(ServerMetadata::well_known_urls(&issuer));
            at.issuer = issuer;
            at.failure = Some(failure);
        }
    }

    pub(super) fn handle_server_reply(
        &mut self,
        now: Now,
        mut flow: Box<Flow>,
        mut at: ServerSearch,
        reply: FetchReply,
    ) -> StepResult {
        match self.parse_server(reply, &at.issuer) {
            Ok(metadata) => {
                flow.discovered = Some(Arc::new(DiscoveredServer {
                    metadata,
                    issuer_source: at.issuer_source,
                    has_metadata: true,
                }));
                self.continue_with_server(now, flow)
            }
            Err((error, absent)) => {
                at.search.failed(error, absent);
                self.try_next_server(now, flow, at)
            }
        }
    }

    /// The metadata of the issuer, or the error and whether its absence is certain.
    pub(super) fn parse_server(
        &self,
        reply: FetchReply,
        issuer: &str,
    ) -> Result<ServerMetadata, (AuthError, bool)> {
        match DocumentReply::from_reply(reply) {
            (_, DocumentReply::Missing(error, absent)) => Err((error, absent)),
            (url, DocumentReply::Found(body)) => match ServerMetadata::parse(&body) {
                //= C12.6 "metadata.issuer identical to the issuer used to build the URL, else not used"
                Ok(metadata) if metadata.matches_issuer(issuer, self.config.issuer_match) => Ok(metadata),
                Ok(_) => Err((AuthError::IssuerMismatch { expected: without_query(issuer) }, false)),
                Err(error) => Err((AuthError::Metadata { url, error }, is_no_document(error))),
            },
        }
    }

    /// Forgets the authorization server: the next flow looks for it again.
    pub(super) fn forget_server(&mut self) {
        self.discovered = None;
    }

    /// Continues with the discovered authorization server.
    fn continue_with_server(&mut self, now: Now, mut flow: Box<Flow>) -> StepResult {
        self.discovered = flow.discovered.clone();
        if flow.removed_tokens.is_some() {
            return self.revoke(now, flow);
        }
        let issuer = flow.discovered.as_ref().map(|found| found.metadata.issuer.as_str());
        let same = self.tokens.current().map(|tokens| tokens.issuer.as_str()) == issuer;
        let may_renew =
            matches!(flow.purpose, FlowPurpose::EarlyRenewal | FlowPurpose::NewToken { may_renew: true, .. });
        if may_renew && same && !flow.refresh_rejected && self.tokens.can_renew() {
            return self.renew_in_turn(now, flow);
        }
        flow.refresh_rejected = true;
        self.continue_without_renewal(now, flow)
    }

    /// Continues without renewing the token.
    pub(super) fn continue_without_renewal(&mut self, now: Now, flow: Box<Flow>) -> StepResult {
        match flow.purpose {
            FlowPurpose::EarlyRenewal if self.is_interactive() => Err(super::flow::FlowEnd::Ready),
            _ if flow.resource_searched => self.register(now, flow),
            _ => self.discover_resource(now, flow),
        }
    }
}

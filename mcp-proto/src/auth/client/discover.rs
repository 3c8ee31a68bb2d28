//! Finding out which authorization server a server trusts, and what that one offers.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/authorization-server-discovery>

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::auth::{MetadataError, Now, ResourceIdentity, ResourceMetadata, Secret, ServerMetadata};

use super::AuthClient;
use super::config::{Legacy, Registered, TrailingSlash};
use super::error::AuthError;
use super::event::{Deviation, Event};
use super::fetching::{Reply, Request, place};
use super::flow::{Flow, Found, Next, Search, ServerSearch, Step, Want};
use super::record::{Era, Source};

/// What the search for a document came to in one place.
enum Document {
    Here(bytes::Bytes),
    /// There is none, for certain or not.
    Not(AuthError, bool),
}

impl Document {
    fn of(reply: Reply) -> (String, Self) {
        match reply {
            Reply::None(error) => {
                // What is not visited has nothing to say: that will not change.
                let absent = matches!(error, AuthError::Refused { .. });
                (String::new(), Self::Not(error, absent))
            }
            Reply::Answer { url, status: 200, body, .. } => (place(&url), Self::Here(body)),
            Reply::Answer { url, status, .. } => {
                let url = place(&url);
                let absent = (400..500).contains(&status) && status != 429;
                (url.clone(), Self::Not(AuthError::Status { url, status }, absent))
            }
        }
    }
}

/// Whether this is no document at all: many servers answer every path with a page.
fn is_none(error: MetadataError) -> bool {
    error == MetadataError::Json
}

impl AuthClient {
    /// Looks for what the server says of itself as a resource: where its challenge says, then where such documents are.
    pub(super) fn look_for_resource(&mut self, now: Now, mut flow: Box<Flow>) -> Next {
        flow.looked = true;
        let mut places: Vec<String> = flow.asked.metadata.iter().cloned().collect();
        for place in ResourceMetadata::places(&self.server) {
            if !places.contains(&place) {
                places.push(place);
            }
        }
        self.look_in_next(now, flow, Search::new(places))
    }

    fn look_in_next(&mut self, now: Now, flow: Box<Flow>, mut search: Search) -> Next {
        while let Some(url) = search.places.pop_front() {
            search.asked.clone_from(&url);
            match self.fetch(now, Request::get(url)) {
                Ok(()) => return Ok(flow.at(Step::Resource(search))),
                Err(error) => search.failed(error, true),
            }
        }
        // Only a server that certainly says nothing of itself is of 2025-03-26: one that can not be asked may be of any
        // revision, and its own origin is no place for credentials then.
        let silent = search.absent && flow.asked.metadata.is_none();
        if silent && self.config.legacy == Legacy::Accepted {
            let origin = ServerMetadata::at_origin(&self.server);
            let origin = origin.map_err(|_| AuthError::NoResourceMetadata)?;
            let issuers = self.eligible(Vec::from([origin.issuer]))?;
            return self.look_for_server(now, flow, issuers, Era::Origin);
        }
        let known = search.failure.filter(|_| !search.absent);
        Err(known.unwrap_or(AuthError::NoResourceMetadata).into())
    }

    pub(super) fn resource_replied(
        &mut self,
        now: Now,
        mut flow: Box<Flow>,
        mut search: Search,
        reply: Reply,
    ) -> Next {
        let resource = match Document::of(reply) {
            (_, Document::Not(error, absent)) => {
                search.failed(error, absent);
                return self.look_in_next(now, flow, search);
            }
            (url, Document::Here(body)) => match ResourceMetadata::read(&body) {
                Ok(resource) => resource,
                Err(error) => {
                    search.failed(AuthError::Metadata { url, error }, is_none(error));
                    return self.look_in_next(now, flow, search);
                }
            },
        };
        if !self.is_described(&resource, &search.asked) {
            // Many servers answer every well-known path with the document of their origin.
            search.failed(AuthError::OtherResource { resource: place(&resource.resource) }, false);
            return self.look_in_next(now, flow, search);
        }
        if resource.authorization_servers.is_empty() {
            return Err(AuthError::NoAuthorizationServer.into());
        }
        let issuers = self.eligible(resource.authorization_servers.clone())?;
        flow.resource = Some(resource);
        self.look_for_server(now, flow, issuers, Era::Named)
    }

    /// Whether a document that was asked for at `place` is about the server.
    fn is_described(&mut self, resource: &ResourceMetadata, place: &str) -> bool {
        if self.config.resource.as_ref().is_some_and(|chosen| resource.names(chosen)) {
            return true;
        }
        match resource.identity(&self.server, place) {
            ResourceIdentity::Exact | ResourceIdentity::Origin => true,
            ResourceIdentity::TrailingSlash if self.config.trailing_slash == TrailingSlash::Accepted => {
                let resource = self::place(&resource.resource);
                self.tell(Event::Tolerated(Deviation::TrailingSlash { resource }));
                true
            }
            _ => false,
        }
    }

    /// The authorization servers to try, in order: first those that know this client. If the application has
    /// credentials, only those that they are of.
    fn eligible(&self, issuers: Vec<String>) -> Result<VecDeque<String>, AuthError> {
        let first = issuers.first().map(|issuer| place(issuer)).unwrap_or_default();
        let knows = |issuer: &String| {
            let configured = self.config.registered.iter().filter_map(Registered::issuer);
            let token = self.record.tokens.as_ref().map(|tokens| tokens.issuer.as_str());
            configured
                .chain(self.record.clients.keys().map(String::as_str))
                .chain(token)
                .any(|known| self.same_issuer(known, issuer))
        };
        let issuers = issuers.into_iter().filter(|issuer| self.may_be_asked(issuer));
        let (mut known, unknown): (VecDeque<_>, VecDeque<_>) = issuers.partition(knows);
        known.extend(unknown);
        known.truncate(self.config.servers.max(1));
        if known.is_empty() {
            return Err(AuthError::RegisteredElsewhere { issuer: first });
        }
        Ok(known)
    }

    /// Whether the application's credentials, if there are any, may be used with that authorization server.
    pub(super) fn may_be_asked(&self, issuer: &str) -> bool {
        self.config.registered.is_empty()
            || self.config.registered.iter().any(|registered| match registered.issuer() {
                Some(known) => self.same_issuer(known, issuer),
                None => !self.record.clients.iter().any(|(known, client)| {
                    client.source == Source::Configured
                        && client.id == registered.credentials().id
                        && !self.same_issuer(known, issuer)
                }),
            })
    }

    pub(super) fn same_issuer(&self, one: &str, other: &str) -> bool {
        let known = ServerMetadata { issuer: one.into(), ..ServerMetadata::default() };
        known.is_of(other, self.config.issuer_match)
    }

    /// Looks for the authorization server that issued the token.
    pub(super) fn look_for_issuer(&mut self, now: Now, mut flow: Box<Flow>) -> Next {
        let Some(tokens) = &self.record.tokens else { return self.look_for_resource(now, flow) };
        let (issuer, era) = (tokens.issuer.clone(), tokens.era);
        if let Some(found) =
            self.found.clone().filter(|found| found.metadata.issuer == issuer && found.era == era)
        {
            flow.found = Some(found);
            return self.server_found(now, flow);
        }
        self.look_for_server(now, flow, VecDeque::from([issuer]), era)
    }

    pub(super) fn look_for_server(
        &mut self,
        now: Now,
        flow: Box<Flow>,
        issuers: VecDeque<String>,
        era: Era,
    ) -> Next {
        let mut others = issuers;
        let issuer = others.pop_front().unwrap_or_default();
        let search = Search::new(ServerMetadata::places(&issuer));
        self.look_for_server_in_next(now, flow, ServerSearch { issuer, era, search, others, failure: None })
    }

    fn look_for_server_in_next(&mut self, now: Now, mut flow: Box<Flow>, mut at: ServerSearch) -> Next {
        loop {
            while let Some(url) = at.search.places.pop_front() {
                let mut request = Request::get(url);
                if at.era == Era::Origin {
                    // Such a server may answer as the revision has it.
                    request.headers.push(("mcp-protocol-version", Secret::new("2025-03-26")));
                }
                match self.fetch(now, request) {
                    Ok(()) => return Ok(flow.at(Step::Server(at))),
                    Err(error) => at.search.failed(error, true),
                }
            }
            if at.era == Era::Origin && at.search.absent {
                let metadata = ServerMetadata::at_origin(&self.server);
                let metadata = metadata.map_err(|_| AuthError::NoResourceMetadata)?;
                flow.found = Some(Arc::new(Found { metadata, era: Era::Origin, told: false }));
                return self.server_found(now, flow);
            }
            let failure = at.search.failure.take();
            let failure = failure.unwrap_or(AuthError::OtherIssuer { expected: place(&at.issuer) });
            let failure = at.failure.take().unwrap_or(failure);
            let Some(issuer) = at.others.pop_front() else { return Err(failure.into()) };
            at.search = Search::new(ServerMetadata::places(&issuer));
            at.issuer = issuer;
            at.failure = Some(failure);
        }
    }

    pub(super) fn server_replied(
        &mut self,
        now: Now,
        mut flow: Box<Flow>,
        mut at: ServerSearch,
        reply: Reply,
    ) -> Next {
        match self.read_server(reply, &at.issuer) {
            Ok(metadata) => {
                flow.found = Some(Arc::new(Found { metadata, era: at.era, told: true }));
                self.server_found(now, flow)
            }
            Err((error, absent)) => {
                at.search.failed(error, absent);
                self.look_for_server_in_next(now, flow, at)
            }
        }
    }

    /// The metadata of that issuer, or why there is none and whether that is for certain.
    pub(super) fn read_server(
        &self,
        reply: Reply,
        issuer: &str,
    ) -> Result<ServerMetadata, (AuthError, bool)> {
        match Document::of(reply) {
            (_, Document::Not(error, absent)) => Err((error, absent)),
            (url, Document::Here(body)) => match ServerMetadata::read(&body) {
                Ok(metadata) if metadata.is_of(issuer, self.config.issuer_match) => Ok(metadata),
                Ok(_) => Err((AuthError::OtherIssuer { expected: place(issuer) }, false)),
                Err(error) => Err((AuthError::Metadata { url, error }, is_none(error))),
            },
        }
    }

    /// Goes on with the authorization server.
    fn server_found(&mut self, now: Now, mut flow: Box<Flow>) -> Next {
        self.found = flow.found.clone();
        if flow.forgotten.is_some() {
            return self.revoke(now, flow);
        }
        let issuer = flow.found.as_ref().map(|found| found.metadata.issuer.as_str());
        let same = self.record.tokens.as_ref().map(|tokens| tokens.issuer.as_str()) == issuer;
        let wants = matches!(flow.want, Want::Early | Want::Token { renew: true, .. });
        if wants && same && !flow.spent && self.can_renew() {
            return self.renew_in_turn(now, flow);
        }
        flow.spent = true;
        self.without_renewal(now, flow)
    }

    /// Goes on if the token can not be renewed.
    pub(super) fn without_renewal(&mut self, now: Now, flow: Box<Flow>) -> Next {
        match flow.want {
            Want::Early if self.is_interactive() => Err(super::flow::End::Ready),
            _ if flow.looked => self.register(now, flow),
            _ => self.look_for_resource(now, flow),
        }
    }
}

//! The ways of asking for a token, and what is asked for.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;

use crate::auth::tokens::id_token_subject;
use crate::auth::{Es256, Granted, Now, Scopes, Secret, ServerMetadata, Signer, TokenKind, TokenRefusal};

use super::AuthClient;
use super::config::{DpopKey, Grant, IdentityProvider, ProviderPlace};
use super::credentials::{Via, end};
use super::error::AuthError;
use super::event::{Action, AssertionPurpose, AssertionRequest};
use super::exchange::{Form, Presented, TokenRequest};
use super::fetching::{Reply, Request};
use super::flow::{Flow, Next, Search, Step};
use super::record::{Client, Era, Source, Tokens};
use super::save::{Awaits, Change, Question};

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";

impl AuthClient {
    /// What a token is asked for: what the challenge names besides what there was, or what the application or the
    /// server's metadata says.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#scope-selection-strategy>
    pub(super) fn scopes_for(&self, flow: &Flow, issuer: &str) -> Option<Scopes> {
        let supported = flow.resource.as_ref().and_then(|resource| resource.scopes_supported.as_ref());
        let chosen = self.config.scopes.as_ref();
        let asked = match (&flow.asked.scopes, chosen) {
            (Some(asked), Some(chosen)) => Some(chosen.union(asked)),
            (Some(asked), None) => Some(asked.clone()),
            (None, chosen) => chosen.or(supported).cloned(),
        };
        let tokens = self.record.tokens.as_ref().filter(|tokens| tokens.issuer == issuer);
        let before = tokens.and_then(|tokens| tokens.asked.as_ref());
        let scopes = match (before, asked) {
            (Some(before), Some(asked)) => Some(before.union(&asked)),
            (before, asked) => asked.or_else(|| before.cloned()),
        };
        scopes.filter(|scopes| !scopes.is_empty())
    }

    /// The same with `offline_access`, where that is known and gets a token that can be renewed.
    pub(super) fn to_ask(&self, flow: &Flow) -> Option<Scopes> {
        let scopes = flow.scopes.clone()?;
        let known = flow.found.as_ref().and_then(|found| found.metadata.scopes_supported.as_ref());
        let offline = known.is_some_and(|known| known.contains("offline_access"));
        match self.config.grant {
            Grant::Code if offline => Some(scopes.union(&Scopes::parse("offline_access"))),
            _ => Some(scopes),
        }
    }

    /// What a token is asked for as its resource.
    pub(super) fn resource_for(&self, flow: &Flow) -> String {
        let told = flow.resource.as_ref().map(|resource| resource.resource.clone());
        self.config.resource.clone().or(told).unwrap_or_else(|| self.resource.clone())
    }

    /// The key that the token is going to be bound to, if it is.
    pub(super) fn choose_key(&mut self, flow: &mut Flow, server: &ServerMetadata) -> Result<(), AuthError> {
        let needed = flow.asked.dpop || flow.resource.as_ref().is_some_and(|resource| resource.dpop_bound);
        let Some(choice) = &self.config.dpop else {
            return if needed { Err(AuthError::DpopNeeded) } else { Ok(()) };
        };
        let algorithm = match choice {
            DpopKey::Given(key) => key.algorithm(),
            DpopKey::Kept => "ES256",
        };
        let known = server.dpop_algorithms.as_ref();
        let offered = known.is_some_and(|known| known.iter().any(|known| known == algorithm));
        if !needed && !offered {
            return Ok(());
        }
        if self.signer().is_none() {
            let key = Es256::from_entropy(&self.chance.bytes()).map_err(|_| AuthError::Key)?;
            flow.new_key = Some(key.to_pkcs8_pem().map_err(|_| AuthError::Key)?);
            flow.key = Some(Arc::new(key));
        } else {
            flow.key = self.signer();
            // Another process may keep another key by then.
            flow.new_key = self.record.key.clone().filter(|_| matches!(choice, DpopKey::Kept));
        }
        Ok(())
    }

    /// The key that tokens are bound to, if there is one.
    pub(super) fn signer(&self) -> Option<Arc<dyn Signer>> {
        match &self.config.dpop {
            Some(DpopKey::Given(key)) => Some(key.clone()),
            _ => self.kept_key.clone(),
        }
    }

    /// Asks for a token, now that this client is known.
    pub(super) fn grant(&mut self, now: Now, flow: Box<Flow>) -> Next {
        match &self.config.grant {
            Grant::Code => self.open_page(now, flow),
            Grant::ClientCredentials => {
                let form = self.with_target(Form::of("client_credentials"), &flow);
                self.request_grant(now, flow, form)
            }
            Grant::Enterprise(_) | Grant::JwtBearer => self.ask_host(flow),
        }
    }

    fn with_target(&self, form: Form, flow: &Flow) -> Form {
        let scopes = self.to_ask(flow).map(|scopes| scopes.to_string());
        form.with("resource", &self.resource_for(flow)).with_some("scope", scopes.as_deref())
    }

    fn request_grant(&mut self, now: Now, flow: Box<Flow>, form: Form) -> Next {
        let Some(found) = flow.found.clone() else { return self.look_for_resource(now, flow) };
        let request = TokenRequest {
            endpoint: found.metadata.token_endpoint.clone(),
            audience: found.metadata.issuer.clone(),
            form,
            client: flow.client.clone(),
            bound: flow.key.clone(),
            until: None,
            again: false,
        };
        self.request_token(now, &request)?;
        Ok(flow.at(Step::Granting(request)))
    }

    /// Asks the host for an assertion.
    fn ask_host(&mut self, flow: Box<Flow>) -> Next {
        if self.host.is_some() {
            return Ok(flow.at(Step::AskingLater));
        }
        let server = flow.found.as_ref().map(|found| found.metadata.issuer.clone());
        let (purpose, audience) = match &self.config.grant {
            Grant::Enterprise(IdentityProvider { place: ProviderPlace::Issuer(issuer), .. }) => {
                (AssertionPurpose::Identity, Some(issuer.clone()))
            }
            Grant::Enterprise(_) => (AssertionPurpose::Identity, None),
            _ => (AssertionPurpose::Grant, server),
        };
        let resource = self.resource_for(&flow);
        self.host = Some(Awaits { what: Question::Assertion, polled: false });
        self.actions.push_back(Action::Assertion(AssertionRequest { purpose, audience, resource }));
        Ok(flow.at(Step::Asking))
    }

    pub(super) fn asserted(&mut self, now: Now, assertion: Result<Secret, String>) {
        if self.host.take_if(|host| host.is(Question::Assertion)).is_none() {
            return;
        }
        self.step(now, |client, mut flow| match flow.take_step() {
            Step::AskingLater => client.ask_host(flow),
            Step::Asking => {
                let assertion = assertion.map_err(AuthError::Assertion)?;
                match client.config.grant.clone() {
                    Grant::Enterprise(provider) => client.look_for_provider(now, flow, &provider, assertion),
                    _ => client.present_assertion(now, flow, &assertion),
                }
            }
            other => Ok(flow.at(other)),
        });
    }

    fn present_assertion(&mut self, now: Now, flow: Box<Flow>, assertion: &Secret) -> Next {
        let form = self.with_target(Form::of(JWT_BEARER).with_secret("assertion", assertion), &flow);
        self.request_grant(now, flow, form)
    }

    fn look_for_provider(
        &mut self,
        now: Now,
        flow: Box<Flow>,
        provider: &IdentityProvider,
        subject: Secret,
    ) -> Next {
        match &provider.place {
            ProviderPlace::TokenEndpoint(endpoint) => {
                let server = ServerMetadata::default();
                let client = Presented::at(&server, provider.credentials.clone());
                let target = (endpoint.clone(), endpoint.clone());
                self.exchange(now, flow, provider, (target, client), &subject)
            }
            ProviderPlace::Issuer(issuer) => {
                let search = Search::new(ServerMetadata::places(issuer));
                self.look_for_provider_in_next(now, flow, (search, subject, issuer.clone()))
            }
        }
    }

    fn look_for_provider_in_next(
        &mut self,
        now: Now,
        flow: Box<Flow>,
        (mut search, subject, issuer): (Search, Secret, String),
    ) -> Next {
        while let Some(url) = search.places.pop_front() {
            match self.fetch(now, Request::get(url)) {
                Ok(()) => return Ok(flow.at(Step::Provider { search, subject, issuer })),
                Err(error) => search.failed(error, true),
            }
        }
        let failure = search.failure.take();
        Err(failure.unwrap_or(AuthError::OtherIssuer { expected: issuer }).into())
    }

    pub(super) fn provider_replied(
        &mut self,
        now: Now,
        flow: Box<Flow>,
        (mut search, subject, issuer): (Search, Secret, String),
        reply: Reply,
    ) -> Next {
        let Grant::Enterprise(provider) = self.config.grant.clone() else { return self.grant(now, flow) };
        match self.read_server(reply, &issuer) {
            Ok(server) => {
                let client = Presented::at(&server, provider.credentials.clone());
                let target = (server.token_endpoint.clone(), server.issuer.clone());
                self.exchange(now, flow, &provider, (target, client), &subject)
            }
            Err((error, absent)) => {
                search.failed(error, absent);
                self.look_for_provider_in_next(now, flow, (search, subject, issuer))
            }
        }
    }

    /// Has the identity provider turn what says who the person is into what the authorization server takes.
    fn exchange(
        &mut self,
        now: Now,
        flow: Box<Flow>,
        provider: &IdentityProvider,
        ((endpoint, audience), client): ((String, String), Presented),
        subject: &Secret,
    ) -> Next {
        let server = flow.found.as_ref().map(|found| found.metadata.issuer.clone()).unwrap_or_default();
        let form = Form::of(TOKEN_EXCHANGE)
            .with("requested_token_type", ID_JAG)
            .with("audience", &server)
            .with_secret("subject_token", subject)
            .with("subject_token_type", provider.subject.urn());
        let form = self.with_target(form, &flow);
        let client = Some(client);
        let request =
            TokenRequest { endpoint, audience, form, client, bound: None, until: None, again: false };
        self.request_token(now, &request)?;
        Ok(flow.at(Step::Exchanging(request)))
    }

    pub(super) fn exchange_replied(
        &mut self,
        now: Now,
        flow: Box<Flow>,
        mut request: TokenRequest,
        reply: Reply,
    ) -> Next {
        match self.token_replied(now, &mut request, reply)? {
            None => Ok(flow.at(Step::Exchanging(request))),
            Some(granted) if granted.issued_type.as_deref() == Some(ID_JAG) => {
                self.present_assertion(now, flow, &granted.access)
            }
            Some(_) => Err(AuthError::WrongToken.into()),
        }
    }

    pub(super) fn grant_replied(
        &mut self,
        now: Now,
        flow: Box<Flow>,
        mut request: TokenRequest,
        reply: Reply,
    ) -> Next {
        let granted = match self.token_replied(now, &mut request, reply) {
            Ok(None) => return Ok(flow.at(Step::Granting(request))),
            Ok(Some(granted)) => granted,
            Err(error) => return self.ungranted(now, flow, error),
        };
        let needed = flow.resource.as_ref().is_some_and(|resource| resource.dpop_bound) || flow.asked.dpop;
        match granted.kind {
            TokenKind::Bearer if !needed => {}
            TokenKind::Dpop if flow.key.is_some() => {}
            _ => return Err(AuthError::WrongToken.into()),
        }
        let Some(found) = flow.found.clone() else { return self.look_for_resource(now, flow) };
        let client = flow.client.as_ref().map(|client| client.credentials.id.clone()).unwrap_or_default();
        let pin = flow.pin.then(|| Client {
            id: client.clone(),
            secret: None,
            method: None,
            expires: None,
            source: Source::Configured,
        });
        let tokens = self.tokens_of(now, granted, &flow, (&found.metadata.issuer, found.era), client);
        let key = flow.new_key.clone();
        self.save(now, flow, Change::Tokens { tokens, replaced: None, pin, key })
    }

    fn tokens_of(
        &mut self,
        now: Now,
        granted: Granted,
        flow: &Flow,
        (issuer, era): (&str, Era),
        client_id: String,
    ) -> Arc<Tokens> {
        self.issued(now, &granted, Via::Grant);
        let subject = granted.id_token.as_ref().and_then(|token| id_token_subject(token, issuer));
        Arc::new(Tokens {
            subject,
            issuer: issuer.into(),
            client_id,
            resource: self.resource_for(flow),
            access: granted.access,
            kind: granted.kind,
            refresh: granted.refresh,
            issued: now.unix,
            expires: granted.lifetime.and_then(|lifetime| end(now, lifetime)),
            granted: granted.scope,
            asked: flow.scopes.clone(),
            era,
        })
    }

    /// Goes on if no token was granted. A registration that is not known there any more is of no more use.
    fn ungranted(&mut self, now: Now, flow: Box<Flow>, error: AuthError) -> Next {
        let lost = matches!(&error, AuthError::Token(TokenRefusal::Refused { error, .. })
            if error == "invalid_client");
        let issuer = flow.found.as_ref().map(|found| found.metadata.issuer.clone());
        let client = flow.client.as_ref().map(|client| client.credentials.id.clone());
        match (issuer, client) {
            (Some(issuer), Some(id))
                if lost && self.record.clients.get(&issuer).is_some_and(|known| known.id == id) =>
            {
                self.save(now, flow, Change::Stranger { issuer, id, error })
            }
            _ => Err(error.into()),
        }
    }
}

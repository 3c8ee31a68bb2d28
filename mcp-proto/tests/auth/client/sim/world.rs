//! The server, and the authorization servers it trusts.

use std::collections::BTreeMap;

use mcp_proto::auth::client::{RefusedRequest, TokenGeneration};
use mcp_proto::auth::{Fetch, Secret, dpop};
use serde_json::{Value, json};

use super::{Answer, ISSUER, Issuer, SERVER, Store, claims};

/// The fault of an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The exchange fails.
    Network,
    /// No response arrives.
    Silence,
    /// The response has this status and no body.
    Status(u16),
    /// The response has this status and body.
    Body(u16, String),
    /// The response repeats the request.
    Echo(u16),
}

/// A refusal of the server.
#[derive(Clone, Debug)]
pub(crate) struct CannedError {
    pub(crate) status: u16,
    pub(crate) header: Option<String>,
    pub(crate) nonce: Option<String>,
}

impl CannedError {
    pub(crate) fn at(&self, used: Option<TokenGeneration>, attempt: u32) -> RefusedRequest<'_> {
        RefusedRequest {
            status: self.status,
            www_authenticate: self.header.as_deref(),
            generation: used,
            attempt,
            nonce: self.nonce.as_deref(),
        }
    }
}

pub(crate) struct World {
    pub(crate) issuers: BTreeMap<String, Issuer>,
    /// The documents of the server and of others, by URL.
    pub(crate) documents: BTreeMap<String, Answer>,
    /// The issuer that the server trusts.
    pub(crate) trusts: String,
    /// The challenge of every refusal.
    pub(crate) challenge: String,
    /// The scope that every request needs.
    pub(crate) scope: Option<String>,
    /// The nonce that proofs must have.
    pub(crate) nonce: Option<String>,
    pub(crate) store: Store,
    /// Every exchange: verb and URL.
    pub(crate) log: Vec<String>,
    /// Faults by the number of the exchange.
    pub(crate) faults: BTreeMap<usize, Fault>,
    /// The fault of every URL that contains this text.
    pub(crate) faulty: Option<(String, Fault)>,
    /// The proofs used so far.
    proofs: Vec<String>,
}

impl World {
    pub(crate) fn new() -> Self {
        let mut world = Self {
            issuers: BTreeMap::new(),
            documents: BTreeMap::new(),
            trusts: ISSUER.into(),
            challenge: "Bearer".into(),
            scope: None,
            nonce: None,
            store: Store::default(),
            log: Vec::new(),
            faults: BTreeMap::new(),
            faulty: None,
            proofs: Vec::new(),
        };
        world.add(Issuer::new(ISSUER));
        world.describe(json!({}));
        world
    }

    /// A server of 2025-03-26: it has no metadata, and is its own authorization server.
    pub(crate) fn legacy() -> Self {
        let mut world = Self::new();
        world.documents.clear();
        let origin = "https://mcp.example.com";
        world.trusts = origin.into();
        world.add(Issuer::new(origin));
        world
    }

    pub(crate) fn add(&mut self, issuer: Issuer) {
        self.publish(&issuer);
        self.issuers.insert(issuer.issuer.clone(), issuer);
    }

    /// Serves the metadata of an authorization server at its first well-known place.
    pub(crate) fn publish(&mut self, issuer: &Issuer) {
        let place = format!("{}/.well-known/oauth-authorization-server", issuer.issuer);
        self.documents.insert(place, Answer::json(200, &issuer.metadata));
    }

    /// Changes the metadata of the authorization server.
    pub(crate) fn metadata(&mut self, change: Value) {
        let issuer = self.issuers.get_mut(&self.trusts).unwrap();
        for (name, value) in change.as_object().unwrap() {
            match value {
                Value::Null => drop(issuer.metadata.as_object_mut().unwrap().remove(name)),
                value => issuer.metadata[name] = value.clone(),
            }
        }
        let place = format!("{}/.well-known/oauth-authorization-server", issuer.issuer);
        self.documents.insert(place, Answer::json(200, &issuer.metadata));
    }

    /// Serves the server's resource metadata at its own path.
    pub(crate) fn describe(&mut self, more: Value) {
        let mut document = json!({ "resource": SERVER, "authorization_servers": [self.trusts] });
        for (name, value) in more.as_object().unwrap() {
            document[name] = value.clone();
        }
        let place = "https://mcp.example.com/.well-known/oauth-protected-resource/mcp";
        self.documents.insert(place.into(), Answer::json(200, &document));
    }

    pub(crate) fn issuer(&mut self) -> &mut Issuer {
        self.issuers.get_mut(&self.trusts).unwrap()
    }

    /// Answers an exchange. `None` if it is never answered, `Some(Err)` if it fails.
    pub(crate) fn answer(&mut self, fetch: &Fetch) -> Option<Result<Answer, String>> {
        let number = self.log.len();
        self.log.push(format!("{} {}", fetch.verb.as_str(), fetch.url));
        let faulty = self.faulty.clone().filter(|(part, _)| fetch.url.contains(part)).map(|(_, fault)| fault);
        match self.faults.get(&number).cloned().or(faulty) {
            Some(Fault::Network) => return Some(Err("connection refused".into())),
            Some(Fault::Silence) => return None,
            Some(Fault::Status(status)) => return Some(Ok(Answer::status(status))),
            Some(Fault::Body(status, body)) => {
                return Some(Ok(Answer { status, fields: Vec::new(), body: body.into_bytes() }));
            }
            Some(Fault::Echo(status)) => {
                let sent = String::from_utf8_lossy(&fetch.body).into_owned();
                let values: Vec<_> = super::members(sent.as_bytes()).into_values().collect();
                let headers: Vec<_> = fetch.headers.iter().map(|(_, value)| value.expose()).collect();
                let said = format!("{} {} {sent}", values.join(" "), headers.join(" "));
                for issuer in self.issuers.values_mut() {
                    issuer.secrets.extend(values.iter().filter(|value| is_secret(value)).cloned());
                }
                let body = json!({ "error": "invalid_grant", "error_description": said });
                return Some(Ok(Answer::json(status, &body)));
            }
            None => {}
        }
        if let Some(document) = self.documents.get(&fetch.url) {
            return Some(Ok(document.clone()));
        }
        let owner = self.issuers.keys().find(|issuer| fetch.url.starts_with(&format!("{issuer}/"))).cloned();
        let Some(owner) = owner else { return Some(Ok(Answer::status(404))) };
        let path = fetch.url[owner.len()..].to_owned();
        let issuer = self.issuers.get_mut(&owner).unwrap();
        Some(Ok(issuer.answer(&path, fetch)))
    }

    /// A request to the server.
    pub(crate) fn request(&mut self, headers: &[(&'static str, Secret)]) -> Result<(), CannedError> {
        let header = |name: &str| {
            let found = headers.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| value.expose().to_owned())
        };
        let refuse = |status, challenge: String| CannedError { status, header: Some(challenge), nonce: None };
        let unknown = || refuse(401, self.challenge.clone());
        let authorization = header("authorization").ok_or_else(unknown)?;
        let (scheme, token) = authorization.split_once(' ').unwrap();
        let issued = self.issuers[&self.trusts].tokens.get(token).cloned().ok_or_else(unknown)?;
        assert!(SERVER.starts_with(&issued.resource), "a token for {}", issued.resource);
        assert_eq!(scheme == "DPoP", issued.key.is_some());
        if let Some(key) = &issued.key {
            let proof = header("dpop").ok_or_else(unknown)?;
            assert!(!self.proofs.contains(&proof));
            let (head, claims) = claims(&proof);
            assert_eq!(dpop::thumbprint(&head["jwk"].to_string()).as_ref(), Some(key));
            assert_eq!(claims["htu"], SERVER);
            if self.nonce.as_deref().is_some_and(|nonce| claims["nonce"] != nonce) {
                let nonce = self.nonce.clone();
                return Err(CannedError { nonce, ..refuse(401, r#"DPoP error="use_dpop_nonce""#.into()) });
            }
            self.proofs.push(proof);
        }
        let has = issued.scope.unwrap_or_default();
        let needs = self.scope.clone().unwrap_or_default();
        if needs.split_whitespace().any(|scope| !has.split_whitespace().any(|known| known == scope)) {
            let says = format!(r#"{}, error="insufficient_scope", scope="{needs}""#, self.challenge);
            return Err(refuse(403, says.replace("Bearer,", "Bearer ")));
        }
        Ok(())
    }

    /// Ends every access token, but no refresh token.
    pub(crate) fn end_tokens(&mut self) {
        for issuer in self.issuers.values_mut() {
            issuer.tokens.clear();
        }
    }

    /// Everything that must not be shown.
    pub(crate) fn secrets(&self) -> Vec<String> {
        self.issuers.values().flat_map(|issuer| issuer.secrets.iter().cloned()).collect()
    }

    pub(crate) fn count(&self, part: &str) -> usize {
        self.log.iter().filter(|line| line.contains(part)).count()
    }
}

fn is_secret(value: &str) -> bool {
    ["code-", "access-", "refresh-", "secret", "assert"].iter().any(|kind| value.starts_with(kind))
        || (value.len() == 43 && !value.starts_with("urn:"))
}

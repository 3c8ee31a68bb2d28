//! An authorization server.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use mcp_proto::auth::{Fetch, dpop};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Answer, claims, members};

/// The data of an authorization code.
#[derive(Clone)]
struct Code {
    client: String,
    challenge: String,
    redirect: String,
    resource: String,
    scope: Option<String>,
}

/// The data of a token.
#[derive(Clone, Debug)]
pub(crate) struct Issued {
    pub(crate) scope: Option<String>,
    pub(crate) resource: String,
    /// The thumbprint of the key that it is bound to.
    pub(crate) key: Option<String>,
}

pub(crate) struct Issuer {
    pub(crate) issuer: String,
    pub(crate) metadata: Value,
    /// Client secrets by client id; none for public clients.
    pub(crate) clients: BTreeMap<String, Option<String>>,
    /// The response to a registration, besides the client id.
    pub(crate) registers: Value,
    codes: BTreeMap<String, Code>,
    /// The refresh tokens and their data; used ones are in `used`.
    pub(crate) refresh: BTreeMap<String, Issued>,
    used: BTreeSet<String>,
    /// How often a refresh token was used a second time: that revokes everything.
    pub(crate) reused: u32,
    pub(crate) tokens: BTreeMap<String, Issued>,
    /// In seconds.
    pub(crate) lifetime: Option<u64>,
    pub(crate) gives_refresh: bool,
    /// The nonce that proofs must have.
    pub(crate) nonce: Option<String>,
    /// The scopes of every grant, in place of the requested ones.
    pub(crate) grants_only: Option<String>,
    /// The ID token that comes with every token.
    pub(crate) id_token: Option<String>,
    /// The `iss` of redirects.
    pub(crate) iss: Option<String>,
    /// Every token request, as a form.
    pub(crate) requests: Vec<BTreeMap<String, String>>,
    /// The `Authorization` header of each.
    pub(crate) authorizations: Vec<Option<String>>,
    /// Every registration.
    pub(crate) registrations: Vec<Value>,
    /// Every query of the page.
    pub(crate) pages: Vec<BTreeMap<String, String>>,
    pub(crate) revoked: Vec<String>,
    pub(crate) renewals: u32,
    count: u32,
    /// Everything that must not be shown.
    pub(crate) secrets: Vec<String>,
}

impl Issuer {
    pub(crate) fn new(issuer: &str) -> Self {
        let metadata = json!({
            "issuer": issuer,
            "authorization_endpoint": format!("{issuer}/authorize"),
            "token_endpoint": format!("{issuer}/token"),
            "registration_endpoint": format!("{issuer}/register"),
            "revocation_endpoint": format!("{issuer}/revoke"),
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
            "authorization_response_iss_parameter_supported": true,
        });
        Self {
            issuer: issuer.into(),
            metadata,
            clients: BTreeMap::new(),
            registers: json!({}),
            codes: BTreeMap::new(),
            refresh: BTreeMap::new(),
            used: BTreeSet::new(),
            reused: 0,
            tokens: BTreeMap::new(),
            lifetime: Some(3600),
            gives_refresh: true,
            nonce: None,
            grants_only: None,
            id_token: None,
            iss: Some(issuer.into()),
            requests: Vec::new(),
            authorizations: Vec::new(),
            registrations: Vec::new(),
            pages: Vec::new(),
            revoked: Vec::new(),
            renewals: 0,
            count: 0,
            secrets: Vec::new(),
        }
    }

    fn secret(&mut self, kind: &str) -> String {
        self.count += 1;
        let host = self.issuer.trim_start_matches("https://");
        let secret = format!("{kind}-{}-of-{host}", self.count);
        self.secrets.push(secret.clone());
        secret
    }

    /// The user agrees: returns the redirect of the page.
    pub(crate) fn agree(&mut self, url: &str) -> String {
        let query = members(url.split_once('?').unwrap().1.as_bytes());
        self.pages.push(query.clone());
        assert_eq!(query["response_type"], "code");
        assert_eq!(query["code_challenge_method"], "S256");
        let code = self.secret("code");
        self.codes.insert(
            code.clone(),
            Code {
                client: query["client_id"].clone(),
                challenge: query["code_challenge"].clone(),
                redirect: query["redirect_uri"].clone(),
                resource: query["resource"].clone(),
                scope: query.get("scope").cloned(),
            },
        );
        let mut back = form_urlencoded::Serializer::new(format!("{}?", query["redirect_uri"]));
        back.append_pair("code", &code).append_pair("state", &query["state"]);
        if let Some(iss) = &self.iss {
            back.append_pair("iss", iss);
        }
        back.finish()
    }

    pub(crate) fn answer(&mut self, path: &str, fetch: &Fetch) -> Answer {
        // An issuer may have its endpoints below another path.
        match path.strip_prefix("/oauth").unwrap_or(path) {
            "/register" => self.register(fetch),
            "/token" => self.token(fetch),
            "/revoke" => {
                self.revoked.push(members(&fetch.body)["token"].clone());
                Answer::status(200)
            }
            _ => Answer::status(404),
        }
    }

    fn register(&mut self, fetch: &Fetch) -> Answer {
        let request: Value = serde_json::from_slice(&fetch.body).unwrap();
        self.registrations.push(request.clone());
        self.count += 1;
        let name = format!("client-{}-of-{}", self.count, self.issuer.trim_start_matches("https://"));
        let mut answer = json!({ "client_id": name, "redirect_uris": request["redirect_uris"] });
        for (member, value) in self.registers.as_object().unwrap() {
            answer[member] = value.clone();
        }
        let password = answer["client_secret"].as_str().map(String::from);
        self.secrets.extend(password.clone());
        self.clients.insert(name, password);
        Answer::json(201, &answer)
    }

    /// The client that sent the request, if it authenticates.
    fn client(&self, form: &BTreeMap<String, String>, header: Option<&str>) -> Result<String, Answer> {
        let stranger = || Answer::json(401, &json!({ "error": "invalid_client" }));
        let (name, password) = if let Some(header) = header {
            let both = header.strip_prefix("Basic ").ok_or_else(stranger)?;
            let both = base64::engine::general_purpose::STANDARD.decode(both).map_err(|_| stranger())?;
            let both = String::from_utf8(both).unwrap();
            let (name, password) = both.split_once(':').ok_or_else(stranger)?;
            let plain = |text: &str| members(format!("x={text}").as_bytes())["x"].clone();
            (plain(name), Some(plain(password)))
        } else if let Some(assertion) = form.get("client_assertion") {
            let (_, claims) = claims(assertion);
            assert_eq!(claims["aud"], self.issuer.as_str());
            assert_eq!(claims["iss"], claims["sub"]);
            (claims["sub"].as_str().unwrap().into(), None)
        } else {
            (form.get("client_id").cloned().ok_or_else(stranger)?, form.get("client_secret").cloned())
        };
        match self.clients.get(&name) {
            Some(known) if *known == password => Ok(name),
            None if name.starts_with("https://") => Ok(name),
            _ => Err(stranger()),
        }
    }

    fn token(&mut self, fetch: &Fetch) -> Answer {
        let form = members(&fetch.body);
        self.requests.push(form.clone());
        let header = |name: &str| {
            let found = fetch.headers.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| value.expose().to_owned())
        };
        self.authorizations.push(header("authorization"));
        for name in ["code_verifier", "client_assertion", "assertion", "subject_token", "client_secret"] {
            self.secrets.extend(form.get(name).cloned());
        }
        let refused = |error: &str| Answer::json(400, &json!({ "error": error }));
        let who = match self.client(&form, header("authorization").as_deref()) {
            Ok(who) => who,
            Err(_) if form["grant_type"].ends_with("jwt-bearer") => String::new(),
            Err(answer) => return answer,
        };
        let mut key = None;
        if let Some(proof) = header("dpop") {
            let (head, claims) = claims(&proof);
            assert_eq!((claims["htm"].as_str(), claims["htu"].as_str()), (Some("POST"), Some(&*fetch.url)));
            if self.nonce.as_deref().is_some_and(|nonce| claims["nonce"] != nonce) {
                let nonce = self.nonce.clone().unwrap();
                return refused("use_dpop_nonce").with("DPoP-Nonce", &nonce);
            }
            key = dpop::thumbprint(&head["jwk"].to_string());
        }
        let issued = match form["grant_type"].as_str() {
            "authorization_code" => {
                let Some(code) = self.codes.remove(&form["code"]) else { return refused("invalid_grant") };
                let digest = Sha256::digest(&form["code_verifier"]);
                let challenge = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(digest);
                if (code.challenge, code.client, code.redirect)
                    != (challenge, who, form["redirect_uri"].clone())
                    || form["resource"] != code.resource
                {
                    return refused("invalid_grant");
                }
                Issued { scope: code.scope, resource: code.resource, key }
            }
            "refresh_token" => {
                let token = &form["refresh_token"];
                if self.used.contains(token) {
                    // A stolen token.
                    self.reused += 1;
                    self.refresh.clear();
                    self.tokens.clear();
                }
                let Some(issued) = self.refresh.remove(token) else { return refused("invalid_grant") };
                self.used.insert(token.clone());
                self.renewals += 1;
                assert_eq!(form["resource"], issued.resource);
                Issued { key, ..issued }
            }
            _ => Issued { scope: form.get("scope").cloned(), resource: form["resource"].clone(), key },
        };
        self.grant(issued)
    }

    fn grant(&mut self, mut issued: Issued) -> Answer {
        if let Some(only) = &self.grants_only {
            issued.scope = Some(only.clone());
        }
        let access = self.secret("access");
        let kind = if issued.key.is_some() { "DPoP" } else { "Bearer" };
        let mut answer = json!({ "access_token": access, "token_type": kind });
        if let Some(lifetime) = self.lifetime {
            answer["expires_in"] = lifetime.into();
        }
        if let Some(token) = &self.id_token {
            answer["id_token"] = token.as_str().into();
        }
        if let Some(scope) = &issued.scope {
            answer["scope"] = scope.as_str().into();
        }
        if self.gives_refresh {
            let refresh = self.secret("refresh");
            answer["refresh_token"] = refresh.as_str().into();
            self.refresh.insert(refresh, issued.clone());
        }
        self.tokens.insert(access, issued);
        Answer::json(200, &answer)
    }
}

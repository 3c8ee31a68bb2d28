//! A server, its authorization servers, a store that processes share, and hosts, all simulated: no exchange is real.

mod host;
mod issuer;
mod store;
mod world;

pub(crate) use host::{Call, Host, Outcome, UserAction};
pub(crate) use issuer::Issuer;
pub(crate) use store::Store;
pub(crate) use world::{Fault, World};

use mcp_proto::auth::{SignError, Signer};
use serde_json::Value;
use sha2::{Digest, Sha256};

pub(crate) const SERVER: &str = "https://mcp.example.com/mcp";
pub(crate) const ISSUER: &str = "https://auth.example.com";
pub(crate) const REDIRECT: &str = "http://127.0.0.1:4870/callback";

/// The response of a simulated server.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        let fields = vec![("Content-Type".into(), "application/json".into())];
        Self { status, fields, body: body.to_string().into_bytes() }
    }

    pub(crate) fn status(status: u16) -> Self {
        Self { status, fields: Vec::new(), body: Vec::new() }
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.fields.push((name.into(), value.into()));
        self
    }
}

/// A request that was not sent yet.
pub(crate) fn call() -> Call {
    Call::default()
}

/// A fake key: other tests check real signatures.
pub(crate) struct FakeKey;

impl Signer for FakeKey {
    fn algorithm(&self) -> &str {
        "ES256"
    }

    fn key_id(&self) -> Option<&str> {
        None
    }

    fn public_jwk(&self) -> String {
        r#"{"crv":"P-256","kty":"EC","x":"paper","y":"paper"}"#.into()
    }

    fn sign(&self, input: &[u8]) -> Result<Vec<u8>, SignError> {
        Ok(Sha256::digest(input).to_vec())
    }
}

/// The members of a form or a query.
pub(crate) fn members(text: &[u8]) -> std::collections::BTreeMap<String, String> {
    form_urlencoded::parse(text).into_owned().collect()
}

/// The header and claims of a signed text; the signature is not verified.
pub(crate) fn claims(jwt: &str) -> (Value, Value) {
    use base64::Engine as _;
    let part = |at: usize| {
        let part = jwt.split('.').nth(at).unwrap();
        let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(part).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    };
    (part(0), part(1))
}

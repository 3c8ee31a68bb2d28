//! Authorization without a browser: the authorization page redirects at once, and this client follows it.

use std::sync::Arc;

use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use mcp_hyper::auth::{AuthHandle, Authorization};
use mcp_proto::Bytes;
use mcp_proto::auth::client::{
    AuthConfig, AuthorizationPage, ClientCredentials, DpopKey, Event, Grant, IdentityProvider,
    Preregistration, ProviderLocation, Redirect, SubjectKind,
};
use mcp_proto::auth::{Es256, ResourceMetadata, Secret};
use mcp_proto::front::{Client, Error};
use serde::Deserialize;
use smol::channel::{Receiver, Sender, unbounded};
use smol::net::TcpStream;
use smol_hyper::rt::FuturesIo;

use crate::{Outcome, basics};

/// Redirect URI. Nothing listens there.
const REDIRECT: &str = "http://localhost:3000/callback";
/// The suite's example of a client metadata document.
const DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";

/// Context that the suite passes to some scenarios.
#[derive(Default, Deserialize)]
#[serde(default)]
struct AuthScenario {
    client_id: String,
    client_secret: Option<String>,
    private_key_pem: String,
    issuer: Option<String>,
    idp_client_id: String,
    idp_id_token: Option<String>,
    idp_issuer: String,
    valid_jwt: Option<String>,
}

/// The authorization of a scenario, and the pages that it asks to open.
pub(crate) async fn authorization(
    scenario: &str,
    url: &str,
) -> Outcome<(Authorization, Receiver<AuthorizationPage>)> {
    let mut context = match std::env::var("MCP_CONFORMANCE_CONTEXT") {
        Ok(context) => serde_json::from_str(&context)?,
        Err(_) => AuthScenario::default(),
    };
    if context.issuer.is_none() && !context.client_id.is_empty() {
        context.issuer = issuer(url).await;
    }
    let (pages, opened) = unbounded();
    let assertion = context.idp_id_token.clone().or(context.valid_jwt.clone()).map(Secret::new);
    let authorization = Authorization::new(config(scenario, context)?)
        .on_event(move |event| forward_page(event, &pages))
        .assertions(move |_| {
            let assertion = assertion.clone().ok_or_else(|| "the suite gave no assertion".to_owned());
            async move { assertion }
        });
    Ok((authorization, opened))
}

fn forward_page(event: &Event, pages: &Sender<AuthorizationPage>) {
    match event {
        Event::NeedsAuthorization(page) => {
            // Without a receiver no task waits for the page.
            let _ = pages.try_send(page.clone());
        }
        Event::Failed(error) => eprintln!("conformance-client: {error}"),
        _ => {}
    }
}

fn config(scenario: &str, context: AuthScenario) -> Outcome<AuthConfig> {
    let mut config = AuthConfig::new("conformance-client", REDIRECT);
    config.client_id_document = Some(DOCUMENT.to_owned());
    let known = match (scenario, context.client_secret.map(Secret::new)) {
        ("auth/client-credentials-jwt", _) => {
            let key = Es256::from_pkcs8_pem(&context.private_key_pem)?;
            Some(ClientCredentials::with_key(context.client_id, Arc::new(key)))
        }
        (_, Some(secret)) => Some(ClientCredentials::with_secret(context.client_id, secret)),
        _ if !context.client_id.is_empty() => Some(ClientCredentials::new(context.client_id)),
        _ => None,
    };
    if let Some(credentials) = known {
        let issuer = context.issuer.ok_or("the suite does not name the issuer of these credentials")?;
        config.preregistrations.push(Preregistration::for_issuer(issuer, credentials));
    }
    match scenario {
        "auth/client-credentials-jwt" | "auth/client-credentials-basic" => {
            config.grant = Grant::ClientCredentials;
        }
        "auth/enterprise-managed-authorization" => {
            config.grant = Grant::Enterprise(IdentityProvider {
                location: ProviderLocation::Issuer(context.idp_issuer),
                credentials: ClientCredentials::new(context.idp_client_id),
                subject: SubjectKind::IdToken,
            });
        }
        "auth/wif-jwt-bearer" => config.grant = Grant::JwtBearer,
        "auth/dpop" | "auth/dpop-nonce" => config.dpop = Some(DpopKey::Generated),
        _ => {}
    }
    Ok(config)
}

/// Requests every page, and returns its redirect to the authorization.
pub(crate) async fn agree(pages: Receiver<AuthorizationPage>, handle: AuthHandle) {
    while let Ok(page) = pages.recv().await {
        let finished = match location(&page.url).await {
            Ok(location) => handle.finish(Redirect::parse(&location)).map_err(Into::into),
            Err(error) => Err(error),
        };
        if let Err(error) = finished {
            eprintln!("conformance-client: {error}");
            handle.cancel_page();
        }
    }
}

/// The issuer that the server's metadata names. Some scenarios give out credentials without their issuer; a
/// user who configures a client would look it up before entering the secret.
async fn issuer(url: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Metadata {
        authorization_servers: Vec<String>,
    }
    let place = ResourceMetadata::well_known_urls(url).into_iter().next()?;
    let body = get(&place).await.ok()?.into_body().collect().await.ok()?;
    let metadata: Metadata = serde_json::from_slice(&body.to_bytes()).ok()?;
    metadata.authorization_servers.into_iter().next()
}

/// The redirect of a page.
async fn location(url: &str) -> Outcome<String> {
    let response = get(url).await?;
    let location = response.headers().get("location").ok_or("the page does not redirect")?;
    Ok(location.to_str()?.to_owned())
}

/// Requests a page, without following its redirect.
async fn get(url: &str) -> Outcome<hyper::http::Response<Incoming>> {
    let url: hyper::http::Uri = url.parse()?;
    let host = url.authority().ok_or("the URL of the page has no host")?.as_str();
    let io = FuturesIo::new(TcpStream::connect(host).await?);
    let (mut sender, connection) = http1::handshake(io).await?;
    smol::spawn(connection).detach();
    let path = url.path_and_query().map_or("/", hyper::http::uri::PathAndQuery::as_str);
    let request = hyper::http::Request::get(path).header("host", host).body(Empty::<Bytes>::new())?;
    Ok(sender.send_request(request).await?)
}

/// Uses a server that requires a token.
pub(crate) async fn use_server(client: &Client, scenario: &str) -> Outcome {
    let used = match client.ready().await {
        Ok(_) => basics::call_listed(client, "test-tool").await,
        Err(error) => Err(error.into()),
    };
    if !is_refused(scenario) {
        return used;
    }
    let Err(error) = used else { return Err("the request was not rejected".into()) };
    // Either this side rejected the server's metadata, or it made all its attempts.
    let unauthorized = error.downcast_ref::<Error>().and_then(Error::unauthorized);
    if unauthorized.is_some_and(|http| http.unauthorized.is_some()) { Ok(()) } else { Err(error) }
}

/// Whether the scenario must end without a token.
fn is_refused(scenario: &str) -> bool {
    matches!(
        scenario,
        "auth/resource-mismatch"
            | "auth/iss-supported-missing"
            | "auth/iss-wrong-issuer"
            | "auth/iss-unexpected"
            | "auth/iss-normalized"
            | "auth/metadata-issuer-mismatch"
            | "auth/scope-retry-limit"
    )
}

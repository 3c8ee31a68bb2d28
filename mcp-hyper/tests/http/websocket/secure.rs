//! Tokens and TLS.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_rustls::pki_types::PrivateKeyDer;
use mcp_hyper::auth::{Authorization, LoopbackRedirects};
use mcp_hyper::mcp_proto::UnixTime;
use mcp_hyper::mcp_proto::auth::client::{AuthConfig, Event};
use mcp_hyper::mcp_proto::auth::server::{Access, PresentedToken, Protection, VerifyError};
use mcp_hyper::mcp_proto::front::guard::Guard;
use mcp_hyper::mcp_proto::front::{Context, NoArguments};
use mcp_hyper::mcp_proto::peer::Principal;
use mcp_hyper::mcp_proto::peer::client::EraPolicy;
use mcp_hyper::mcp_proto::schema::Tool;
use mcp_hyper::{http, rustls};
use serde_json::json;

use super::pair::speaking;
use crate::common::auth_testbed::{AuthTestbed, agree};
use crate::common::client::{connect, run};
use crate::common::runtime::within;
use crate::common::server::{HandlerLog, listener, router, serving};

/// A server that accepts the token `token-1` of this issuer, for `lifetime`; its WebSocket URL.
fn protected(issuer: &str, lifetime: Duration) -> (String, smol::Task<std::io::Result<()>>) {
    let (listener, address) = listener();
    let url = format!("http://{address}/mcp");
    let audience = url.clone();
    let guard = Guard::new(Protection::new(&url, issuer).unwrap(), move |presented: PresentedToken| {
        let mut access = Access::new(Principal::new("ada"), &*audience);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        access.expires = Some(UnixTime::from_epoch(now + lifetime));
        let known = presented.token.expose() == "token-1";
        async move { if known { Ok(access) } else { Err(VerifyError::invalid("it is not known")) } }
    });
    let who = Tool::new("who", "", json!({ "type": "object" }));
    let router = router(&HandlerLog::default()).tool_with(who, async |NoArguments {}, cx: Context| {
        let head = cx.attachments().get::<http::request::Parts>().unwrap();
        assert!(!head.headers.contains_key("authorization"));
        cx.access().unwrap().principal.as_str().to_owned()
    });
    let (_, driver) = serving(router).websocket().protect(guard).listen(listener);
    (url.replace("http:", "ws:"), smol::spawn(within(driver)))
}

#[test]
fn server_demands_a_token_at_the_upgrade() {
    run(async {
        let (url, _server) = protected("http://localhost:1", Duration::from_secs(60));
        for token in [None, Some("Bearer other")] {
            let mut options = speaking(EraPolicy::Auto);
            if let Some(token) = token {
                options = options.header("authorization", token);
            }
            let (client, _driver) = connect(options, &url);
            let error = client.ready().await.unwrap_err();
            let refusal = error.unauthorized().unwrap();
            assert_eq!(refusal.status, 401);
            assert!(refusal.challenge.as_deref().unwrap().contains("resource_metadata="), "{refusal:?}");
            assert!(error.to_string().contains("HTTP status 401 (no login configured)"), "{error}");
        }
        let options = speaking(EraPolicy::Auto).header("authorization", "Bearer token-1");
        let (client, _driver) = connect(options, &url);
        let who = client.call_tool("who", json!({})).await.unwrap();
        assert_eq!(who.text_content(), "ada");
    });
}

#[test]
fn connection_ends_when_its_token_expires() {
    run(async {
        let (url, _server) = protected("http://localhost:1", Duration::from_secs(2));
        let options = speaking(EraPolicy::Auto).header("authorization", "Bearer token-1");
        let (client, driver) = connect(options, &url);
        let error = client.call_tool("wait", json!({})).await.unwrap_err().to_string();
        assert!(error.contains("1008 (policy violation): the access token has expired"), "{error}");
        driver.await.unwrap_err();
    });
}

/// C12.1
#[test]
fn client_logs_in_and_repeats_the_upgrade() {
    run(async {
        let issuer = AuthTestbed::new().await;
        let (url, _server) = protected(issuer.base(), Duration::from_secs(60));
        let redirects = LoopbackRedirects::bind().unwrap();
        let (pages, opened) = smol::channel::unbounded();
        let authorization = Authorization::new(AuthConfig::new("test", redirects.uri()));
        let authorization = authorization.redirects(redirects).on_event(move |event| {
            if let Event::NeedsAuthorization(page) = event {
                pages.try_send(page.clone()).unwrap();
            }
        });
        let (client, driver) = connect(speaking(EraPolicy::Auto).authorization(authorization), &url);
        let calling = smol::spawn({
            let client = client.clone();
            async move { client.call_tool("who", json!({})).await }
        });
        let page = opened.recv().await.unwrap();
        assert_eq!(agree(&page.url).await.status, 200);
        assert_eq!(calling.await.unwrap().text_content(), "ada");
        client.close().await;
        driver.await.unwrap();
    });
}

#[test]
fn client_and_server_speak_over_tls() {
    run(async {
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ServerConfig::builder_with_provider(provider.clone());
        let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let tls = builder.with_single_cert(vec![made.cert.der().clone()], key).unwrap();
        let (listener, address) = listener();
        let options = serving(router(&HandlerLog::default())).websocket().tls(tls);
        let (_, driver) = options.listen(listener);
        let _server = smol::spawn(within(driver));

        let mut roots = rustls::RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        let builder = rustls::ClientConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let trusting = builder.with_root_certificates(roots).with_no_client_auth();
        let (client, driver) =
            connect(speaking(EraPolicy::Auto).tls(trusting), &format!("wss://{address}/mcp"));
        let echoed = client.call_tool("echo", json!({ "message": "secret" })).await.unwrap();
        assert_eq!(echoed.text_content(), "secret");
        client.close().await;
        driver.await.unwrap();

        let (client, _driver) = connect(speaking(EraPolicy::Auto), &format!("wss://{address}/mcp"));
        let error = client.ready().await.unwrap_err().to_string();
        assert!(error.contains("certificate"), "{error}");
    });
}

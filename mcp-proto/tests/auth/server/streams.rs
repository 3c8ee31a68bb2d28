//! Streams of changes, which end with the token that opened them.

use core::pin::Pin;
use core::sync::atomic::{AtomicU8, Ordering::SeqCst};
use core::task::{Context, Poll, Waker};
use std::sync::Arc;

use mcp_proto::Bytes;
use mcp_proto::adapter::Clock as _;
use mcp_proto::auth::server::VerifyError;
use mcp_proto::front::Attachments;
use mcp_proto::front::guard::{Guard, GuardDecision};
use mcp_proto::front::http::HttpChannel;
use mcp_proto::peer::server::ListKind;
use serde_json::json;

use super::*;
use crate::common::front_http::{HttpHarness, ParkedHandlers, TestExchange, router, sent};
use crate::common::messages::request;

const CHANGES: [&str; 2] = ["notifications/subscriptions/acknowledged", "notifications/tools/list_changed"];

/// The issuer's answers about the token.
#[derive(Clone, Default)]
struct Issuer(Arc<AtomicU8>);

impl Issuer {
    const REVOKED: u8 = 1;
    const UNREACHABLE: u8 = 2;
    const SILENT: u8 = 3;
    const OF_ANOTHER: u8 = 4;
    const FOR_ANOTHER_SERVER: u8 = 5;

    fn says(&self, answer: u8) {
        self.0.store(answer, SeqCst);
    }

    /// A guard for tokens that expire this long after each verification.
    fn guard(&self, lifetime: Option<Duration>) -> Guard {
        let answer = self.0.clone();
        Guard::new(protection(), move |presented: PresentedToken| {
            let answer = answer.clone();
            async move {
                let mut access = access("");
                access.expires = lifetime.map(|lifetime| presented.received.unix + lifetime);
                match answer.load(SeqCst) {
                    Self::REVOKED => return Err(VerifyError::invalid("it was revoked")),
                    Self::UNREACHABLE => return Err(VerifyError::unavailable("no route")),
                    Self::SILENT => core::future::pending().await,
                    Self::OF_ANOTHER => access.principal = Principal::new("https://login.example#bob"),
                    Self::FOR_ANOTHER_SERVER => access.audiences = vec!["https://other.example".into()],
                    _ => {}
                }
                Ok(access)
            }
        })
    }
}

fn protected(guard: Guard) -> (HttpHarness, ParkedHandlers) {
    let (router, held) = router();
    let mut web = HttpHarness::new(router);
    web.guard = Some(guard);
    web.token = Some("abc".into());
    (web, held)
}

fn listen(web: &mut HttpHarness) -> TestExchange {
    let mut stream =
        web.ask("subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } }));
    assert_eq!(stream.message()["method"], CHANGES[0]);
    web.server.list_changed(ListKind::Tools);
    assert_eq!(stream.message()["method"], CHANGES[1]);
    stream
}

/// Lets time pass for the server and the stream.
fn pass(web: &mut HttpHarness, stream: &mut TestExchange, seconds: u64) {
    web.advance(Duration::from_secs(seconds));
    stream.advance_to_timeout();
}

#[track_caller]
fn expect_end(stream: &mut TestExchange) {
    let end = stream.message();
    assert_eq!(end["result"]["resultType"], "complete", "{end}");
    stream.expect_silence();
    assert!(stream.ended);
}

/// S10.2
#[test]
fn subscription_ends_with_its_result_when_the_token_expires() {
    let (mut web, held) = protected(Issuer::default().guard(Some(Duration::from_secs(60))));
    let mut stream = listen(&mut web);
    let mut call = web.call("hold", json!({}));
    assert!(!call.has_head());
    pass(&mut web, &mut stream, 59);
    stream.expect_silence();
    assert!(!stream.ended);
    let due = stream.exchange.next_timeout().unwrap();
    assert_eq!(due.saturating_since(web.clock.now()), Duration::from_secs(1));
    pass(&mut web, &mut stream, 1);
    expect_end(&mut stream);
    // A call in progress is still answered.
    held.release("done");
    assert_eq!(call.message()["result"]["content"][0]["text"], "done");
}

/// S10.2
#[test]
fn get_stream_of_a_session_closes_when_the_token_expires() {
    let (mut web, _) = protected(Issuer::default().guard(Some(Duration::from_secs(60))));
    let session = web.open();
    let mut stream = web.get(&session, None);
    assert_eq!(stream.head().status, 200);
    pass(&mut web, &mut stream, 59);
    web.server.list_changed(ListKind::Tools);
    web.poll_driver();
    assert_eq!(stream.message()["method"], CHANGES[1]);
    assert!(!stream.ended);
    pass(&mut web, &mut stream, 1);
    stream.expect_silence();
    assert!(stream.ended);
    drop(stream);
    // The session goes on, for requests with a valid token.
    let mut stream = web.get(&session, None);
    assert_eq!(stream.head().status, 200);
    web.server.list_changed(ListKind::Tools);
    web.poll_driver();
    assert_eq!(stream.message()["method"], CHANGES[1]);
}

#[test]
fn token_without_expiry_ends_no_stream() {
    let issuer = Issuer::default();
    let (mut web, _) = protected(issuer.guard(None));
    let mut stream = listen(&mut web);
    issuer.says(Issuer::REVOKED);
    pass(&mut web, &mut stream, 1_000_000);
    stream.expect_silence();
    assert!(!stream.ended);
}

/// S10.2
#[test]
fn stream_ends_when_its_token_is_refused_at_a_later_verification() {
    let refusals = [Issuer::REVOKED, Issuer::UNREACHABLE, Issuer::OF_ANOTHER, Issuer::FOR_ANOTHER_SERVER];
    for answer in refusals {
        let issuer = Issuer::default();
        let (mut web, _) = protected(issuer.guard(None).reverify_every(Duration::from_secs(60)));
        let session = web.open();
        let mut stream = listen(&mut web);
        let mut legacy = web.get(&session, None);
        assert_eq!(legacy.head().status, 200);
        pass(&mut web, &mut stream, 60);
        legacy.advance_to_timeout();
        issuer.says(answer);
        pass(&mut web, &mut stream, 59);
        legacy.advance_to_timeout();
        stream.expect_silence();
        assert!(!stream.ended && !legacy.ended, "it was verified a second ago");
        pass(&mut web, &mut stream, 1);
        legacy.advance_to_timeout();
        expect_end(&mut stream);
        assert!(legacy.ended, "{answer}");
    }
}

#[test]
fn stream_ends_when_its_token_is_not_verified_in_time() {
    let issuer = Issuer::default();
    let (mut web, _) = protected(issuer.guard(None).reverify_every(Duration::from_secs(60)));
    let mut stream = listen(&mut web);
    issuer.says(Issuer::SILENT);
    pass(&mut web, &mut stream, 60);
    pass(&mut web, &mut stream, 14);
    stream.expect_silence();
    assert!(!stream.ended);
    pass(&mut web, &mut stream, 1);
    expect_end(&mut stream);
}

#[test]
fn later_verification_extends_the_time_of_a_stream() {
    let issuer = Issuer::default();
    let lifetime = Some(Duration::from_secs(90));
    let (mut web, _) = protected(issuer.guard(lifetime).reverify_every(Duration::from_secs(60)));
    let mut stream = listen(&mut web);
    for _ in 0..5 {
        pass(&mut web, &mut stream, 60);
        assert!(!stream.ended);
    }
}

fn open_channel(web: &HttpHarness) -> HttpChannel {
    let fields = [("host", "localhost"), ("authorization", "Bearer abc")];
    let head = RequestHead { method: "GET", path: "/mcp", fields: &fields, client: None };
    let now = Now { instant: web.clock.now(), unix: web.clock.unix_time() };
    let GuardDecision::Verifying(mut verifying) = web.guard.as_ref().unwrap().check(&head, now) else {
        panic!("the guard refuses the upgrade")
    };
    let mut cx = Context::from_waker(Waker::noop());
    let Poll::Ready(Ok(authorized)) = Pin::new(&mut verifying).poll(&mut cx) else { panic!() };
    let handshake = Ok(vec![("upgrade", "websocket".into())]);
    web.server.upgrade_for(&head, authorized, Attachments::new(), handshake.map(Into::into)).1.unwrap()
}

/// S10.2
#[test]
fn channel_ends_its_subscriptions_and_then_itself_when_the_token_is_no_longer_valid() {
    let expiring = |issuer: &Issuer| issuer.guard(Some(Duration::from_secs(60)));
    let revoked = |issuer: &Issuer| issuer.guard(None).reverify_every(Duration::from_secs(60));
    for guard in [&expiring as &dyn Fn(&Issuer) -> Guard, &revoked] {
        let issuer = Issuer::default();
        let (mut web, held) = protected(guard(&issuer));
        let mut channel = open_channel(&web);
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let filter = json!({ "toolsListChanged": true });
        let listen = json!({ "notifications": filter, "_meta": meta });
        let call = json!({ "name": "hold", "arguments": {}, "_meta": meta });
        for message in
            [request(&json!(1), "subscriptions/listen", listen), request(&json!(2), "tools/call", call)]
        {
            channel.handle_message(&Bytes::from(message.to_string()));
        }
        assert_eq!(sent(&mut channel)[0]["method"], CHANGES[0]);
        issuer.says(Issuer::REVOKED);
        web.advance(Duration::from_secs(59));
        assert!(sent(&mut channel).is_empty() && channel.closed().is_none());
        assert!(channel.next_timeout().is_some());
        web.advance(Duration::from_secs(1));
        let last = sent(&mut channel);
        assert_eq!((&last[0]["id"], &last[0]["result"]["resultType"]), (&json!(1), &json!("complete")));
        assert_eq!(last[1]["method"], "notifications/cancelled");
        assert_eq!((&last[1]["params"]["requestId"], last.len()), (&json!(1), 2));
        assert!(channel.closed().is_some() && channel.has_expired());
        assert!(sent(&mut channel).is_empty());
        assert_eq!(held.dropped_count(), 1);
        assert_eq!(channel.next_timeout(), None);
    }
}

//! Exchanges and sessions of a server over HTTP.

use super::*;
use crate::peer::Principal;
use crate::peer::server::{ListKind, ServerTransport as _, SubscriptionAccess};
use crate::quota::{ByteAccount, ByteBudget, ByteLimits, QuotaOwner};
use crate::transport::http::server::{
    Chunk, CorsOrigins, Exchange, HttpServerConfig, PostOutcome, RequestHead, RequestIntake, RequestRoute,
    Session, SessionId, Setup,
};

const NOW: Instant = Instant::ORIGIN;

/// A server whose byte budget is small, and of whose resources one is not to be subscribed to.
struct Server {
    setup: Setup,
    account: ByteAccount,
}

impl Server {
    fn new(recorder: MachineRecorder) -> Self {
        let mut config = ServerConfig::new(info());
        config.recorder = Some(recorder);
        config.capabilities = config
            .capabilities
            .with(ServerCapability::ToolsListChanged)
            .with(ServerCapability::ResourcesSubscribe);
        config.subscription_access = Some(SubscriptionAccess::new(|uri, _| uri != "a:secret"));
        let limits = ByteLimits { total: 4000, unauthenticated: 4000, owner: 4000 };
        let account = ByteBudget::new(limits).account(&QuotaOwner::LOCAL);
        Self { setup: Setup::new(HttpServerConfig::new(config)), account }
    }

    /// Takes a request in, with its body in two pieces; `None` if it is refused.
    fn take(&self, method: &str, fields: &[(&str, &str)], body: &str) -> Option<RequestRoute> {
        let mut all = Vec::from([
            ("host", "localhost"),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ]);
        all.extend(fields);
        let head = RequestHead { method, path: "/mcp", fields: &all.as_slice(), client: None };
        let mut intake = RequestIntake::new(&self.setup, &head).ok()?.charge(&self.account);
        let (first, rest) = body.as_bytes().split_at(body.len() / 2);
        for piece in [first, rest] {
            intake.handle_body(Bytes::copy_from_slice(piece)).ok()?;
        }
        Some(intake.finish())
    }

    /// Opens the exchange of a call, and answers it.
    fn call(&self, tool: &str) -> Option<Exchange> {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
        );
        let fields =
            [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", tool)];
        let RequestRoute::Modern(request) = self.take("POST", &fields, &body)? else { panic!() };
        let request = request.on_behalf_of(Some(Principal::new("ada")));
        let mut exchange = Exchange::open(&self.setup, request, NOW);
        let Some(Event::Request { id, .. }) = exchange.poll_event() else { panic!() };
        exchange.at(NOW).respond(id, Answer::Result(&CallToolResult::text(tool)));
        Some(exchange)
    }

    fn post(&self, session: &mut Session, body: &str) -> PostOutcome {
        let id = SessionId::from_entropy([1; 16]).to_string();
        let Some(RequestRoute::Session { post, .. }) = self.take("POST", &[("mcp-session-id", &id)], body)
        else {
            panic!()
        };
        session.handle_post(NOW, post)
    }

    fn open_session(&self) -> Session {
        let body = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}"#;
        let Some(RequestRoute::OpenSession(post)) = self.take("POST", &[], body) else { panic!() };
        Session::open(&self.setup, SessionId::from_entropy([1; 16]), post, NOW).unwrap().0
    }
}

/// Contract 13, for an exchange that is answered, one that is left, and requests that are refused before they have one.
#[test]
fn exchanges_do_the_same_again() {
    let trace = traced(|recorder| {
        let server = Server::new(recorder);
        let mut exchange = server.call("a").unwrap();
        assert_eq!(exchange.poll_head().unwrap().status, 200);
        assert!(matches!(exchange.poll_body(), Chunk::Bytes(_)));
        assert_eq!(exchange.poll_body(), Chunk::End);
        server.call("b").unwrap().handle_disconnect(NOW);
        let mut exchange = server.call("c").unwrap();
        assert!(exchange.poll_head().is_some() && exchange.take_body().is_some());
        assert!(server.call(&"d".repeat(4000)).is_none(), "the budget has no room");
        assert!(server.take("PUT", &[], "").is_none());
        assert!(matches!(server.take("POST", &[], "{}"), Some(RequestRoute::Answer(_))));
    });
    let report = replay_machines(&trace).unwrap();
    assert_eq!((report.machines, report.steps, report.unfinished.len()), (7, trace.records.len(), 0));
    assert_eq!(assert_outputs_are_compared(&trace), 14);
    assert_eq!(denials(&trace), 1);
}

/// Contract 13, for a session with a stream, subscriptions, changes and an end.
#[test]
fn sessions_do_the_same_again() {
    let trace = traced(|recorder| {
        let server = Server::new(recorder);
        let mut session = server.open_session();
        session.at(NOW).set_principal(Some(Principal::new("ada")));
        let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        assert!(matches!(server.post(&mut session, initialized), PostOutcome::Answer(_)));
        while session.poll_event().is_some() {}
        session = Session::from_idle(&mut session.take_idle().unwrap());
        let stream = session.listen(NOW, None).unwrap();
        for uri in ["a:open", "a:secret"] {
            let body = format!(
                r#"{{"jsonrpc":"2.0","id":"{uri}","method":"resources/subscribe","params":{{"uri":"{uri}"}}}}"#
            );
            let PostOutcome::Connection(connection) = server.post(&mut session, &body) else { panic!() };
            assert!(session.poll_head(connection).is_some());
            assert!(session.take_answer(NOW, connection).is_some());
        }
        session.at(NOW).resource_updated("a:open");
        session.at(NOW).list_changed(ListKind::Tools);
        while session.poll_event().is_some() || session.poll_connection().is_some() {}
        assert!(matches!(session.poll_body(NOW, stream), Chunk::Bytes(_)));
        session.handle_disconnect(NOW, stream);
        assert!(session.listen(NOW, Some("unknown")).is_err());
        session.charge(&server.account);
        session.handle_timeout(NOW);
        assert_eq!(session.delete(NOW).status, 200);
        while session.poll_event().is_some() {}
    });
    let report = replay_machines(&trace).unwrap();
    assert_eq!((report.machines, report.steps, report.unfinished.len()), (6, trace.records.len(), 0));
    assert!(assert_outputs_are_compared(&trace) > 20);
    assert_eq!(denials(&trace), 1);
}

/// The number of questions that were answered with no.
fn denials(trace: &Trace) -> usize {
    let is_denial = |record: &&TraceRecord| {
        matches!(&record.event, TraceEvent::Machine(MachineRecord { step: MachineStep::Denied { .. }, .. }))
    };
    trace.records.iter().filter(is_denial).count()
}

/// A function cannot be written.
#[test]
fn server_with_a_function_for_origins_does_not_run_again() {
    let trace = traced(|recorder| {
        let mut config = ServerConfig::new(info());
        config.recorder = Some(recorder);
        let mut config = HttpServerConfig::new(config);
        config.cors = Some(CorsOrigins::matching(|_| true));
        drop(Setup::new(config));
    });
    let what = "a function for the origins of web pages".into();
    assert_eq!(replay_machines(&trace), Err(MachineReplayError::Missing { what }));
    assert_eq!(trace.records.len(), 1);
}

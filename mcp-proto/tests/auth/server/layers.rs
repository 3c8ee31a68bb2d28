//! Tokens, scopes and rates beside layers: the server checks each request before any layer, and again after a layer changed it.

use std::sync::{Arc, Mutex};

use mcp_proto::auth::Requirement;
use mcp_proto::front::layer::{
    Audit, AuditOutcome, AuditRecord, Decision, Layer, LayerFuture, LayerMessage, LayerRequest, Next,
    RuleMatch, Rules,
};
use mcp_proto::front::{LimitedCall, Router};
use mcp_proto::schema::CallToolParams;
use mcp_proto::transport::http::server::ResponseHead;
use serde_json::{Value, json};

use super::handlers::{demand, guard, router, text};
use crate::common::front_http::HttpHarness;

type Log = Arc<Mutex<Vec<String>>>;

/// Records each call and message, and replaces the tool of a call by `to`.
struct Redirect {
    to: Option<&'static str>,
    log: Log,
}

impl Layer for Redirect {
    fn request(&self, mut request: LayerRequest, next: Next) -> LayerFuture {
        let tool = request.item().unwrap_or_default();
        if let (Some(to), "tools/call") = (self.to, request.method()) {
            let mut call: CallToolParams = request.decode().unwrap();
            call.name = to.into();
            request.set_params(&call).unwrap();
        }
        let log = self.log.clone();
        next.run_then(request, move |reply| {
            let how = if reply.is_failure() { "failure" } else { "success" };
            log.lock().unwrap().push(format!("{tool}: {how}"));
            reply
        })
    }

    fn message(&self, message: &mut LayerMessage<'_>) -> Decision {
        if let Some(method) = message.method() {
            self.log.lock().unwrap().push(method.to_owned());
        }
        Decision::Keep
    }
}

/// A protected server in one of the eras.
struct Server {
    web: HttpHarness,
    session: Option<String>,
    log: Log,
}

impl Server {
    /// Starts a server in each era, whose router is changed and then gets the layer. The log of the layer is empty.
    fn in_both_eras(to: Option<&'static str>, change: impl Fn(Router) -> Router) -> [Self; 2] {
        [false, true].map(|is_legacy| {
            let log = Log::default();
            let router = change(router().0).layer(Redirect { to, log: log.clone() });
            let mut web = HttpHarness::new(router);
            web.guard = Some(guard());
            web.token = Some("ada~mcp".into());
            let session = is_legacy.then(|| web.open());
            log.lock().unwrap().clear();
            Self { web, session, log }
        })
    }

    fn call(&mut self, token: Option<&str>, tool: &str) -> (ResponseHead, Value) {
        self.web.token = token.map(String::from);
        let call = json!({ "name": tool, "arguments": {} });
        let mut caller = match &self.session {
            Some(session) => self.web.post_request(&session.clone(), "tools/call", call),
            None => self.web.ask("tools/call", call),
        };
        (caller.head(), caller.json())
    }

    /// Takes the records of the layer.
    fn seen(&self) -> Vec<String> {
        std::mem::take(&mut *self.log.lock().unwrap())
    }
}

#[track_caller]
fn insufficient((head, answer): (ResponseHead, Value)) -> String {
    assert_eq!((head.status, &answer["error"]["code"]), (403, &json!(-32600)), "{answer}");
    let demand: Requirement = demand(&head);
    assert!(demand.is_insufficient_scope());
    demand.scope.unwrap().to_string()
}

/// S10.3, S10.9
#[test]
fn layers_see_no_request_whose_token_is_bad() {
    for mut server in Server::in_both_eras(None, |router| router) {
        for (token, status, error) in [
            (None, 401, None),
            (Some("unknown"), 401, Some("invalid_token")),
            (Some("ada~files_admin"), 403, Some("insufficient_scope")),
        ] {
            server.web.token = token.map(String::from);
            let headers = [("mcp-session-id", server.session.as_deref().unwrap_or("none"))];
            let body =
                json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "who" } });
            let head = server.web.send("POST", &headers, &body.to_string()).head();
            server.web.poll_driver();
            assert_eq!((head.status, demand(&head).error.as_deref()), (status, error));
            assert_eq!(server.seen(), Vec::<String>::new());
        }
        let (head, answer) = server.call(Some("ada~mcp"), "who");
        assert_eq!((head.status, text(&answer)), (200, "ada by Some(\"tester\")"));
        assert_eq!(server.seen(), ["tools/call", "who: success"]);
    }
}

/// S8.8, S10.4
#[test]
fn scopes_of_the_tool_that_arrives_are_checked_before_layers() {
    // The layer would call a tool without scopes.
    for mut server in Server::in_both_eras(Some("who"), |router| router) {
        let answer = server.call(Some("ada~mcp"), "declared");
        assert_eq!(insufficient(answer), "mcp files:admin");
        // The message passes the layer, but no request reaches it.
        assert_eq!(server.seen(), ["tools/call"]);
        let (_, answer) = server.call(Some("ada~mcp+files_admin"), "declared");
        assert_eq!(text(&answer), "ada by Some(\"tester\")");
        assert_eq!(server.seen(), ["tools/call", "declared: success"]);
    }
}

/// S8.8, S10.4
#[test]
fn scopes_of_the_tool_that_a_layer_calls_instead_are_checked_inside() {
    for mut server in Server::in_both_eras(Some("declared"), |router| router) {
        let answer = server.call(Some("ada~mcp"), "who");
        assert_eq!(insufficient(answer), "mcp files:admin");
        assert_eq!(server.seen(), ["tools/call", "who: failure"]);
        let (head, answer) = server.call(Some("ada~mcp+files_admin"), "who");
        assert_eq!((head.status, text(&answer)), (200, "done"));
        assert_eq!(server.seen(), ["tools/call", "who: success"]);
    }
    // Also before the call becomes a task; and the scopes of both tools are needed.
    for mut server in Server::in_both_eras(Some("bake"), |router| router) {
        assert_eq!(insufficient(server.call(Some("ada~mcp"), "who")), "mcp kitchen");
        assert_eq!(
            insufficient(server.call(Some("ada~mcp+files_admin"), "declared")),
            "mcp files:admin kitchen"
        );
    }
}

/// S10.4
#[test]
fn scope_that_a_handler_requires_is_a_challenge_through_layers() {
    for mut server in Server::in_both_eras(Some("write"), |router| router) {
        assert_eq!(insufficient(server.call(Some("ada~mcp"), "who")), "mcp files:write files:lock");
        assert_eq!(server.seen(), ["tools/call", "who: failure"]);
    }
}

/// S8.8
#[test]
fn rates_are_counted_for_what_arrives_and_for_the_other_tool_of_a_layer() {
    let counted = Log::default();
    let limited = |router: Router| {
        let counted = counted.clone();
        router.tool_limiter(move |call: &LimitedCall<'_>| {
            let principal = call.principal.map_or("anonymous", |principal| principal.as_str());
            counted.lock().unwrap().push(format!("{principal} {}", call.tool));
            if call.tool == "late" { Err("not so fast") } else { Ok(()) }
        })
    };
    for mut server in Server::in_both_eras(Some("late"), limited) {
        let took = || std::mem::take(&mut *counted.lock().unwrap());
        // Without a good token, and without the scopes of the tool, nothing is counted.
        assert_eq!(server.call(Some("unknown"), "who").0.status, 401);
        insufficient(server.call(Some("ada~mcp"), "declared"));
        assert_eq!(took(), Vec::<String>::new());
        server.seen();
        // The layer sees the call of `who`, and that `late` is refused.
        assert_eq!(text(&server.call(Some("ada~mcp"), "who").1), "not so fast");
        assert_eq!(
            (server.seen(), took()),
            (strings(["tools/call", "who: failure"]), strings(["ada who", "ada late"]))
        );
        // A call beyond the rate reaches no layer.
        assert_eq!(text(&server.call(Some("ada~mcp"), "late").1), "not so fast");
        assert_eq!((server.seen(), took()), (strings(["tools/call"]), strings(["ada late"])));
    }
}

fn strings<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(String::from).into()
}

/// S10.9
#[test]
fn audit_and_rules_know_the_principal_of_the_token() {
    for is_legacy in [false, true] {
        let records = Arc::new(Mutex::new(Vec::<AuditRecord>::new()));
        let sink = records.clone();
        let rules = Rules::new()
            .allow(RuleMatch::tool("declared").principal("ada"))
            .deny(RuleMatch::tool("declared"), "only Ada does that");
        let audit = Audit::new(move |record| sink.lock().unwrap().push(record.clone()));
        let mut web = HttpHarness::new(router().0.layer(audit).layer(rules));
        web.guard = Some(guard());
        let mut call = |token: &str| {
            web.token = Some(token.into());
            let call = json!({ "name": "declared", "arguments": { "token": token } });
            let session = is_legacy.then(|| web.open());
            let mut caller = match session {
                Some(session) => web.post_request(&session, "tools/call", call),
                None => web.ask("tools/call", call),
            };
            (caller.head().status, caller.json())
        };
        assert_eq!(text(&call("ada~mcp+files_admin").1), "done");
        assert_eq!(text(&call("eve~mcp+files_admin").1), "only Ada does that");
        assert_eq!(call("ada~mcp").0, 403);
        let records = std::mem::take(&mut *records.lock().unwrap());
        let who: Vec<_> = records
            .iter()
            .map(|record| {
                (record.principal.as_ref().unwrap().as_str(), record.item.as_deref(), &record.outcome)
            })
            .collect();
        let declared = Some("declared");
        let denied = AuditOutcome::ToolError { message: "only Ada does that".into() };
        // The last was refused before any layer.
        assert_eq!(who, [("ada", declared, &AuditOutcome::Success), ("eve", declared, &denied)]);
        assert!(records.iter().all(|record| !record.request.contains("files_admin")), "{records:?}");
    }
}

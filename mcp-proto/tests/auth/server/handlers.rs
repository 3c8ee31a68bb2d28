//! What handlers learn from tokens and require of them; the owners of sessions and states.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use mcp_proto::auth::server::{Access, PresentedToken, Protection, VerifyError};
use mcp_proto::auth::{Requirement, Scopes, Secret};
use mcp_proto::front::guard::Guard;
use mcp_proto::front::tasks::{TaskChoice, TaskConfig};
use mcp_proto::front::{Context, HandlerError, NoArguments, Progress, Router, RouterError};
use mcp_proto::peer::Principal;
use mcp_proto::schema::{Json, Resource, Tool};
use mcp_proto::transport::http::server::{CorsOrigins, ResponseHead};
use serde_json::{Value, json};

use super::{ISSUER, METADATA, RESOURCE};
use crate::common::front_http::{HttpHarness, field};

fn tool(name: &str) -> Tool {
    Tool::new(name, "A tool", Json::empty_object())
}

/// Tools, and how often each was started.
pub(super) fn router() -> (Router, Arc<AtomicUsize>) {
    let begun = Arc::new(AtomicUsize::new(0));
    let begins = begun.clone();
    let router = Router::new("files", "1")
        .tool_with(tool("who"), async |NoArguments {}, cx: Context| match cx.access() {
            Some(access) => format!("{} by {:?}", access.principal.as_str(), access.client_id),
            None => "nobody".to_owned(),
        })
        .tool_with(tool("write"), async |NoArguments {}, cx: Context| {
            cx.require(["files:write", "files:lock"])?;
            Ok::<_, HandlerError>("written")
        })
        .tool_with(tool("late"), async |NoArguments {}, cx: Context| {
            cx.progress(Progress::new(1));
            cx.require(["files:write"])?;
            Ok::<_, HandlerError>("written")
        })
        .tool_with(tool("odd"), async |NoArguments {}, cx: Context| {
            cx.require(["files write"])?;
            Ok::<_, HandlerError>("written")
        })
        .tool_with(tool("declared"), move |NoArguments {}, cx: Context| {
            begins.fetch_add(1, Ordering::Relaxed);
            async move {
                cx.require(["files:purge"])?;
                Ok::<_, HandlerError>("done")
            }
        })
        .tool_scopes("declared", ["files:admin"])
        .tasks(TaskConfig::default())
        .task_tool(tool("bake"), TaskChoice::Optional, async |NoArguments {}, _| "baked")
        .tool_scopes("bake", ["kitchen"])
        .resource(Resource::new("file:///a", "a"), async |_, cx: Context| {
            cx.require(["files:read"])?;
            Ok::<_, HandlerError>("text")
        });
    (router, begun)
}

/// Tokens are `PRINCIPAL~SCOPE+SCOPE`, with `_` for `:`; a real server must not do this.
pub(super) fn guard() -> Guard {
    let protection = Protection::new(RESOURCE, ISSUER)
        .and_then(|protection| protection.required(["mcp"]))
        .unwrap()
        .implies(|granted, needed| granted == "files:admin" && needed.starts_with("files:"));
    Guard::new(protection, async |presented: PresentedToken| {
        let token = presented.token.expose();
        let (name, scopes) = token.split_once('~').ok_or(VerifyError::invalid("it is not known"))?;
        let mut access = Access::new(Principal::new(name), RESOURCE);
        access.scopes = Scopes::parse(&scopes.replace('+', " ").replace('_', ":"));
        access.client_id = Some("tester".into());
        Ok(access)
    })
}

fn web(token: &str) -> HttpHarness {
    let mut web = HttpHarness::new(router().0);
    web.guard = Some(guard());
    web.token = Some(token.into());
    web
}

#[track_caller]
pub(super) fn demand(head: &ResponseHead) -> Requirement {
    Requirement::parse(field(head, "www-authenticate").expect("a challenge"))
        .expect("a challenge for bearer tokens")
}

#[track_caller]
pub(super) fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

/// S10.3, S10.9
#[test]
fn server_refuses_a_request_without_a_token() {
    let mut web = web("");
    web.token = None;
    let head = web.call("who", json!({})).head();
    assert_eq!(head.status, 401);
    assert_eq!(demand(&head).resource_metadata.as_deref(), Some(METADATA));
    web.token = Some("unknown".into());
    let head = web.call("who", json!({})).head();
    assert_eq!((head.status, demand(&head).error.as_deref()), (401, Some("invalid_token")));
}

/// S10.3, S10.9
#[test]
fn server_checks_every_request_of_either_era() {
    let mut web = web("ada~mcp");
    let session = web.open();
    web.token = None;
    for (method, headers) in [
        ("POST", &[][..]),
        ("GET", &[("mcp-session-id", session.as_str()), ("mcp-protocol-version", "2025-11-25")]),
        ("DELETE", &[("mcp-session-id", session.as_str()), ("mcp-protocol-version", "2025-11-25")]),
        ("PUT", &[]),
    ] {
        assert_eq!(web.send(method, headers, "{}").head().status, 401, "{method}");
    }
}

#[test]
fn web_page_asks_without_a_token_and_reads_the_challenge() {
    const PAGE: (&str, &str) = ("origin", "https://app.example");
    let mut web = HttpHarness::configured(router().0, |config| {
        config.cors = Some(CorsOrigins::only([PAGE.1]));
    });
    web.guard = Some(guard());
    let asked = [PAGE, ("access-control-request-method", "POST")];
    assert_eq!(web.send("OPTIONS", &asked, "").head().status, 204);
    let head = web.send("POST", &[PAGE], "{}").head();
    assert_eq!((head.status, field(&head, "access-control-allow-origin")), (401, Some(PAGE.1)));
    assert!(field(&head, "access-control-expose-headers").unwrap().contains("www-authenticate"));
    // Others ask in vain, and everyone may read the metadata.
    let other = [("origin", "http://localhost"), ("access-control-request-method", "POST")];
    assert_eq!(web.send("OPTIONS", &other, "").head().status, 401);
    let metadata = web.send_to("/.well-known/oauth-protected-resource/mcp", "GET", &[PAGE], "").head();
    let allowed = metadata.headers.iter().filter(|(name, _)| *name == "access-control-allow-origin");
    assert_eq!(allowed.map(|(_, value)| &**value).collect::<Vec<_>>(), ["*"]);
}

#[test]
fn handlers_know_the_principal_and_the_client() {
    let mut web = web("ada~mcp");
    assert_eq!(text(&web.call("who", json!({})).json()), "ada by Some(\"tester\")");
    web.guard = None;
    web.token = None;
    assert_eq!(text(&web.call("who", json!({})).json()), "nobody");
}

/// S10.4
#[test]
fn scope_required_by_a_handler_is_403_with_all_needed_scopes() {
    let mut web = web("ada~mcp+files_lock");
    let mut caller = web.call("write", json!({}));
    let head = caller.head();
    assert_eq!((head.status, field(&head, "content-type")), (403, Some("application/json")));
    let demand = demand(&head);
    assert!(demand.is_insufficient_scope());
    assert_eq!(demand.scope, Some(Scopes::parse("mcp files:write files:lock")));
    assert_eq!(demand.resource_metadata.as_deref(), Some(METADATA));
    let answer = caller.json();
    assert_eq!(answer["error"]["code"], -32600, "{answer}");
    assert!(answer["id"].is_number());
    web.token = Some("ada~mcp+files_lock+files_write".into());
    let mut caller = web.call("write", json!({}));
    assert_eq!((caller.head().status, text(&caller.json())), (200, "written"));
}

/// S10.5
#[test]
fn broader_scopes_satisfy_handlers() {
    assert_eq!(text(&web("ada~mcp+files_admin").call("write", json!({})).json()), "written");
}

#[test]
fn resources_may_require_scopes() {
    let mut caller = web("ada~mcp").ask("resources/read", json!({"uri": "file:///a"}));
    assert_eq!(demand(&caller.head()).scope, Some(Scopes::parse("mcp files:read")));
}

/// The first output decides the kind of the response.
#[test]
fn missing_scope_is_an_error_once_output_was_sent() {
    let mut caller = web("ada~mcp").ask("tools/call", json!({"name": "late", "_meta": {"progressToken": 1}}));
    let head = caller.head();
    assert_eq!((head.status, field(&head, "www-authenticate")), (200, None));
    assert_eq!(caller.message()["method"], "notifications/progress");
    assert_eq!(caller.message()["error"]["code"], -32600);
    assert!(caller.ended);
}

#[test]
fn handler_that_requires_an_invalid_scope_fails() {
    let answer = web("ada~mcp").call("odd", json!({})).json();
    assert_eq!(answer["result"]["isError"], true, "{answer}");
}

/// S8.8, S10.4
#[test]
fn server_checks_the_scopes_of_a_tool_before_it_starts() {
    let (router, begun) = router();
    let mut web = HttpHarness::new(router);
    web.guard = Some(guard());
    web.token = Some("ada~mcp".into());
    let head = web.call("declared", json!({})).head();
    assert_eq!((head.status, demand(&head).scope), (403, Some(Scopes::parse("mcp files:admin"))));
    assert_eq!(begun.load(Ordering::Relaxed), 0);
    // One challenge names these scopes and those that the handler requires.
    web.guard = Some(Guard::new(Protection::new(RESOURCE, ISSUER).unwrap(), async |_: PresentedToken| {
        let mut access = Access::new(Principal::new("ada"), RESOURCE);
        access.scopes = Scopes::parse("files:admin");
        Ok(access)
    }));
    let head = web.call("declared", json!({})).head();
    assert_eq!(demand(&head).scope, Some(Scopes::parse("files:admin files:purge")));
    assert_eq!(begun.load(Ordering::Relaxed), 1);
}

/// S8.8, S10.4
#[test]
fn server_checks_the_scopes_of_a_tool_before_it_becomes_a_task() {
    let call = json!({"name": "bake", "arguments": {}});
    let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let mut web = web("ada~mcp");
    let head = web.ask_with("tools/call", call.clone(), capabilities.clone()).head();
    assert_eq!((head.status, demand(&head).scope), (403, Some(Scopes::parse("mcp kitchen"))));
    web.token = Some("ada~mcp+kitchen".into());
    let mut caller = web.ask_with("tools/call", call, capabilities);
    caller.poll_exchange();
    web.poll_driver();
    assert_eq!(caller.json()["result"]["resultType"], "task");
}

/// S8.8: a handler that replaces the router's own does not bypass the scopes of tools.
#[test]
fn custom_call_handler_does_not_bypass_tool_scopes() {
    use mcp_proto::schema::{CallTool, CallToolResult};

    let router = Router::new("a", "1")
        .handler::<CallTool, _, _>(async |_, _| CallToolResult::text("anything"))
        .tool_scopes("declared", ["notes:write"]);
    let mut web = HttpHarness::new(router);
    web.guard = Some(guard());
    web.token = Some("ada~mcp".into());
    assert_eq!(web.call("declared", json!({})).head().status, 403);
    assert_eq!(web.call("who", json!({})).head().status, 200);
}

#[test]
fn scopes_of_a_mounted_router_hold_under_the_new_names() {
    let mut web = HttpHarness::new(Router::new("a", "1").mount("files", router().0));
    web.guard = Some(guard());
    web.token = Some("ada~mcp".into());
    assert_eq!(web.call("files_declared", json!({})).head().status, 403);
    web.token = Some("ada~mcp+files_admin".into());
    assert_eq!(web.call("files_declared", json!({})).head().status, 200);
}

#[test]
fn router_refuses_scopes_of_an_unknown_tool() {
    let router = Router::new("a", "1").tool_scopes("nothing", ["a"]);
    assert_eq!(router.check(), Err(RouterError::NoTool { tool: "nothing".into() }));
    let router =
        Router::new("a", "1").tool_with(tool("t"), async |NoArguments {}, _| "").tool_scopes("t", ["a b"]);
    assert!(matches!(router.check(), Err(RouterError::Scope { .. })));
}

/// S10.10: standard input and output carry no tokens, and the user who started the server may do everything.
#[test]
fn server_without_tokens_allows_everything() {
    let mut web = HttpHarness::new(router().0);
    assert_eq!(text(&web.call("write", json!({})).json()), "written");
    assert_eq!(text(&web.call("declared", json!({})).json()), "done");
}

// --- Sessions ---

#[test]
fn request_in_a_session_has_the_permissions_of_its_own_token() {
    let mut web = web("ada~mcp+files_write+files_lock");
    let session = web.open();
    let call = json!({"name": "write", "arguments": {}});
    let mut caller = web.post_request(&session, "tools/call", call.clone());
    assert_eq!(text(&caller.json()), "written");
    web.token = Some("ada~mcp".into());
    let mut caller = web.post_request(&session, "tools/call", call.clone());
    let head = caller.head();
    assert_eq!(head.status, 403, "{:?}", caller.json());
    assert_eq!(demand(&head).scope, Some(Scopes::parse("mcp files:write files:lock")));
    assert_eq!(caller.json()["error"]["code"], -32600);
    web.token = Some("ada~mcp+files_admin".into());
    assert_eq!(text(&web.post_request(&session, "tools/call", call).json()), "written");
}

/// A response within an array has no status of its own, in a session and without one.
#[test]
fn missing_scope_in_a_batch_is_an_error_among_the_responses() {
    let call = |id: i64, tool: &str| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": {}}});
    let batch = json!([call(1, "write"), call(2, "who")]).to_string();
    for is_stateless in [false, true] {
        let mut web = HttpHarness::configured(router().0, |config| config.stateless = is_stateless);
        (web.guard, web.token) = (Some(guard()), Some("ada~mcp".into()));
        let session = if is_stateless { None } else { Some(web.open_with("2025-03-26", json!({}))) };
        let mut headers = vec![("mcp-protocol-version", "2025-03-26")];
        headers.extend(session.as_deref().map(|session| ("mcp-session-id", session)));
        let mut caller = web.send("POST", &headers, &batch);
        web.poll_driver();
        let head = caller.head();
        assert_eq!((head.status, field(&head, "www-authenticate")), (200, None), "{is_stateless}");
        let answers = caller.json();
        let codes: Vec<&Value> =
            answers.as_array().unwrap().iter().map(|answer| &answer["error"]["code"]).collect();
        assert!(codes.contains(&&json!(-32600)) && codes.contains(&&Value::Null), "{answers}");
    }
}

/// A refusal is never a stream, whatever the client accepts.
#[test]
fn client_that_accepts_only_streams_is_refused_by_status() {
    let mut web = web("ada~mcp");
    let session = web.open();
    let call = json!({"name": "write", "arguments": {}});
    let message = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": call});
    let headers = [
        ("mcp-session-id", session.as_str()),
        ("mcp-protocol-version", "2025-11-25"),
        ("accept", "text/event-stream"),
    ];
    let mut caller = web.send("POST", &headers, &message.to_string());
    web.poll_driver();
    let head = caller.head();
    assert_eq!((head.status, field(&head, "content-type")), (403, Some("application/json")));
    assert!(demand(&head).is_insufficient_scope());
    assert_eq!(caller.json()["id"], 7);
}

/// For servers whose tokens are checked by a proxy in front.
#[test]
fn handler_can_deny_a_request_without_a_guard() {
    let router = Router::new("files", "1").tool_with(tool("no"), async |NoArguments {}, _| {
        Err::<String, _>(HandlerError::denied("not you", "Bearer error=\"insufficient_scope\", scope=\"a\""))
    });
    let mut web = HttpHarness::new(router);
    let mut caller = web.call("no", json!({}));
    let head = caller.head();
    assert_eq!((head.status, demand(&head).scope), (403, Some(Scopes::parse("a"))));
    assert_eq!(caller.json()["error"]["message"], "not you");
}

/// S9.3, S10.9
#[test]
fn session_id_is_no_credential() {
    let mut web = web("ada~mcp");
    let session = web.open();
    web.token = Some("eve~mcp".into());
    let who = json!({"name": "who", "arguments": {}});
    assert_eq!(web.post_request(&session, "tools/call", who.clone()).head().status, 404);
    assert_eq!(web.get(&session, None).head().status, 404);
    assert_eq!(web.delete(&session).status, 404);
    web.token = None;
    assert_eq!(web.post_request(&session, "tools/call", who.clone()).head().status, 401);
    web.token = Some("ada~mcp".into());
    assert_eq!(text(&web.post_request(&session, "tools/call", who).json()), "ada by Some(\"tester\")");
}

/// S10.9
#[test]
fn task_belongs_to_the_principal_that_started_it() {
    let mut web = web("ada~mcp+kitchen");
    let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let call = json!({"name": "bake", "arguments": {}});
    let mut caller = web.ask_with("tools/call", call, capabilities.clone());
    caller.poll_exchange();
    web.poll_driver();
    let task = caller.json()["result"]["taskId"].as_str().unwrap().to_owned();
    let get = json!({"taskId": task});
    web.token = Some("eve~mcp+kitchen".into());
    let answer = web.ask_with("tasks/get", get.clone(), capabilities.clone()).json();
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    web.token = Some("ada~mcp".into());
    let answer = web.ask_with("tasks/get", get, capabilities).json();
    assert_eq!(answer["result"]["taskId"], task, "{answer}");
}

/// S9.3, S10.9
#[cfg(feature = "seal")]
#[test]
fn sealed_state_is_valid_only_for_its_principal() {
    use mcp_proto::schema::{ElicitParams, ElicitSchema, Map};

    let router = Router::new("asking", "1").tool_with(tool("ask"), async |NoArguments {}, cx: Context| {
        cx.elicit("name", ElicitParams::form("Who?", ElicitSchema::new(Map::new()))).await?;
        Ok::<_, HandlerError>("asked")
    });
    let mut web = HttpHarness::new(router);
    web.guard = Some(guard());
    web.token = Some("ada~mcp".into());
    let capabilities = json!({"elicitation": {"form": {}}});
    let mut call = json!({"name": "ask", "arguments": {}});
    let answer = web.ask_with("tools/call", call.clone(), capabilities.clone()).json();
    call["requestState"] = answer["result"]["requestState"].clone();
    call["inputResponses"] = json!({"name": {"action": "accept", "content": {}}});
    web.token = Some("eve~mcp".into());
    let answer = web.ask_with("tools/call", call.clone(), capabilities.clone()).json();
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    web.token = Some("ada~mcp".into());
    assert_eq!(text(&web.ask_with("tools/call", call, capabilities).json()), "asked");
}

/// S10.10: a server for one program on the same machine may have one fixed token.
#[test]
fn local_server_compares_its_token_in_constant_time() {
    let token = Secret::new("fresh-and-random");
    let mut web = HttpHarness::new(router().0);
    let protection = Protection::new("http://localhost:8080/mcp", "http://localhost:8080").unwrap();
    web.guard = Some(Guard::new(protection, move |presented: PresentedToken| {
        let good = presented.token == token;
        async move {
            good.then(|| Access::new(Principal::new("local"), "http://localhost:8080/mcp"))
                .ok_or(VerifyError::invalid("it is not known"))
        }
    }));
    web.token = Some("fresh-and-random".into());
    assert_eq!(text(&web.call("who", json!({})).json()), "local by None");
    web.token = Some("fresh-and-randon".into());
    assert_eq!(web.call("who", json!({})).head().status, 401);
}

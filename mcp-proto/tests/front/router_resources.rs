//! Resources, prompts, completions and other methods behind a router.

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::router::ServerHarness;
use mcp_proto::front::{HandlerError, NoArguments, ResultOrInput, Router, RouterError, TemplateError};
use mcp_proto::rpc::code;
use mcp_proto::schema::{
    BlobResourceContents, CacheHint, CacheScope, Cached, CachedPage, CompleteParams, Discover, EmptyResult,
    GetPrompt, GetPromptResult, InputRequiredResult, ListResources, ListTools, ListToolsResult,
    PaginatedParams, Prompt, PromptArgument, PromptMessage, ReadResource, ReadResourceResult, Resource,
    ResourceContents, ResourceTemplate, Tool,
};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Note {
    id: String,
}

fn notes() -> Router {
    let mut today = Resource::new("note:///today", "today");
    today.mime_type = Some("text/plain".into());
    let mut note = ResourceTemplate::new("note:///by-id/{id}", "note");
    note.mime_type = Some("text/markdown".into());
    Router::new("notes", "1").resource(today, async |_, _| "Buy milk").template(
        note,
        async |Note { id }, _| match id.as_str() {
            "7 up" => Ok("A drink".to_owned()),
            _ => Err(HandlerError::no_resource(format!("note:///by-id/{id}"))),
        },
    )
}

fn read(s: &mut ServerHarness, uri: &str) -> Value {
    s.result("resources/read", json!({"uri": uri}))["contents"].clone()
}

/// F101
#[test]
fn client_reads_a_resource() {
    for mut s in [ServerHarness::modern(notes()), ServerHarness::legacy(notes())] {
        let contents = read(&mut s, "note:///today");
        assert_eq!(contents, json!([{"uri": "note:///today", "mimeType": "text/plain", "text": "Buy milk"}]));
    }
}

#[test]
fn template_serves_the_uris_that_match_it() {
    let mut s = ServerHarness::modern(notes());
    let contents = read(&mut s, "note:///by-id/7%20up");
    let expected = json!([{"uri": "note:///by-id/7%20up", "mimeType": "text/markdown", "text": "A drink"}]);
    assert_eq!(contents, expected);
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Format {
    Plain,
}

#[derive(Deserialize)]
struct Page {
    id: u32,
    draft: Option<bool>,
    format: Format,
}

#[test]
fn template_and_prompt_parse_numbers_and_other_simple_types() {
    let show = |Page { id, draft, format: Format::Plain }: Page, _| async move { format!("{id} {draft:?}") };
    let mut prompt = Prompt::new("page");
    prompt.arguments = Some(["id", "draft", "format"].map(PromptArgument::new).into());
    let router = Router::new("notes", "1")
        .template(ResourceTemplate::new("page:///{format}/{id}{?draft}", "page"), show)
        .prompt(prompt, show);
    for mut s in [ServerHarness::modern(router.clone()), ServerHarness::legacy(router.clone())] {
        assert_eq!(read(&mut s, "page:///plain/7")[0]["text"], "7 None");
        assert_eq!(read(&mut s, "page:///plain/7?draft=true")[0]["text"], "7 Some(true)");
        let params = json!({"name": "page", "arguments": {"id": "12", "draft": "false", "format": "plain"}});
        let prompt = s.result("prompts/get", params);
        assert_eq!(prompt["messages"][0]["content"]["text"], "12 Some(false)");
        for (uri, at) in [
            ("page:///plain/seven", "id: invalid value: string \"seven\", expected u32"),
            ("page:///plain/-1", "id: invalid value: string \"-1\", expected u32"),
            ("page:///bold/7", "format: unknown variant `bold`"),
        ] {
            let error = s.error("resources/read", json!({"uri": uri}));
            assert_eq!(error["code"], json!(code::INVALID_PARAMS));
            assert!(error["message"].as_str().unwrap().contains(at), "{error}");
        }
    }
}

/// A value that leads out of its directory is no match: no handler sees it.
#[test]
fn router_does_not_hand_values_to_templates_that_lead_elsewhere() {
    let runs = Arc::new(AtomicUsize::new(0));
    let count = |router: Router, template: &str| {
        let runs = runs.clone();
        let handler = move |values: BTreeMap<String, String>, _| {
            runs.fetch_add(1, Ordering::Relaxed);
            async { values.into_values().collect::<Vec<_>>().join("|") }
        };
        router.template(ResourceTemplate::new(template, "t"), handler)
    };
    let router = count(Router::new("files", "1"), "file:///one/{name}");
    let router = count(count(router, "file:///any/{+path}"), "file:///query{?q}");
    let mut s = ServerHarness::modern(router);
    let segments =
        ["..", ".", "%2e%2e", "%2e", "a%2Fb", "..%2f", "%5C", "..%5C", "a%00", "%c0%ae%c0%ae", "a/b"];
    let paths =
        ["../a", "%2e%2e/a", "a/..", "a/%2e%2e/b", "..%2fa", "..%5Ca", "a\\..\\b", "a%00", "%c0%ae%c0%ae/a"];
    let of = |place: &str, values: &[&str]| {
        values.iter().map(|value| format!("{place}{value}")).collect::<Vec<_>>()
    };
    let refused = [of("file:///one/", &segments), of("file:///any/", &paths), of("file:///query?q=", &paths)];
    for uri in refused.iter().flatten() {
        let error = s.error("resources/read", json!({"uri": uri}));
        assert_eq!(error["code"], json!(code::INVALID_PARAMS), "{uri}: not found");
    }
    assert_eq!(runs.load(Ordering::Relaxed), 0, "no handler ran");
    let allowed = [
        ("file:///one/%252e%252e", "%2e%2e"),
        ("file:///any/a/b", "a/b"),
        ("file:///query?q=a%2Fb", "a/b"),
        ("file:///query", ""),
    ];
    for (uri, text) in allowed {
        assert_eq!(read(&mut s, uri)[0]["text"], text, "{uri}");
    }
    assert_eq!(runs.load(Ordering::Relaxed), allowed.len());
}

#[test]
fn resource_takes_precedence_over_a_template() {
    let router = Router::new("x", "1")
        .template(ResourceTemplate::new("n:{id}", "all"), async |_: BTreeMap<String, String>, _| "template")
        .resource(Resource::new("n:1", "one"), async |_, _| "resource");
    let mut s = ServerHarness::modern(router);
    assert_eq!(read(&mut s, "n:1")[0]["text"], "resource");
    assert_eq!(read(&mut s, "n:2")[0]["text"], "template");
}

/// S8.11, S8.12
#[test]
fn unknown_resource_has_the_error_code_of_the_revision() {
    for uri in ["note:///tomorrow", "note:///by-id/8"] {
        let error = ServerHarness::modern(notes()).error("resources/read", json!({"uri": uri}));
        assert_eq!((&error["code"], &error["data"]["uri"]), (&json!(code::INVALID_PARAMS), &json!(uri)));
        let error = ServerHarness::legacy(notes()).error("resources/read", json!({"uri": uri}));
        assert_eq!(error["code"], code::RESOURCE_NOT_FOUND);
    }
}

/// S1.11
#[test]
fn error_of_a_resource_handler_is_an_internal_error() {
    let router = Router::new("x", "1").resource(Resource::new("n:1", "one"), async |_, _| {
        Err::<&str, _>(HandlerError::new("the disk is on fire"))
    });
    let error = ServerHarness::modern(router).error("resources/read", json!({"uri": "n:1"}));
    assert_eq!(error, json!({"code": code::INTERNAL_ERROR, "message": "the disk is on fire"}));
}

#[test]
fn handler_may_return_any_contents() {
    let router = Router::new("x", "1")
        .resource(Resource::new("n:1", "one"), async |uri, _| {
            vec![ResourceContents::text(uri.clone(), "a"), BlobResourceContents::new(uri, "AAAA").into()]
        })
        .resource(Resource::new("n:2", "two"), async |_, _| ReadResourceResult::new(Vec::new()));
    let mut s = ServerHarness::modern(router);
    assert_eq!(read(&mut s, "n:1"), json!([{"uri": "n:1", "text": "a"}, {"uri": "n:1", "blob": "AAAA"}]));
    assert_eq!(read(&mut s, "n:2"), json!([]));
}

/// F101
#[test]
fn server_lists_resources_and_templates() {
    let mut s = ServerHarness::modern(notes());
    let listed = s.result("resources/list", json!({}));
    assert_eq!(
        listed["resources"],
        json!([{"uri": "note:///today", "name": "today", "mimeType": "text/plain"}])
    );
    let listed = s.result("resources/templates/list", json!({}));
    assert_eq!(listed["resourceTemplates"][0]["uriTemplate"], "note:///by-id/{id}");
}

/// S8.13
#[test]
fn router_checks_uris_at_registration() {
    let router = Router::new("x", "1").resource(Resource::new("/etc/passwd", "p"), async |_, _| "");
    assert_eq!(router.check(), Err(RouterError::Uri { uri: "/etc/passwd".into() }));
    let router =
        Router::new("x", "1").template(ResourceTemplate::new("n:{;q}", "q"), async |Note { .. }, _| "");
    let error = TemplateError::Unsupported { variable: ";q".into() };
    assert_eq!(router.check(), Err(RouterError::Template { template: "n:{;q}".into(), error }));
    assert!(router.check().unwrap_err().to_string().contains("{;q} is not supported: use {a}"));
    let router = notes().resource(Resource::new("note:///today", "again"), async |_, _| "");
    assert!(matches!(router.check(), Err(RouterError::Duplicate { kind: "resource", .. })));
}

// --- Prompts ---

#[derive(Deserialize)]
struct Review {
    code: String,
    language: Option<String>,
}

fn reviews() -> Router {
    let mut code = PromptArgument::new("code");
    code.required = Some(true);
    let mut prompt = Prompt::new("review");
    prompt.description = Some("Reviews code".into());
    prompt.arguments = Some(vec![code, PromptArgument::new("language")]);
    Router::new("reviews", "1").prompt(prompt, async |Review { code, language }, _| {
        format!("Review this {}: {code}", language.unwrap_or("code".into()))
    })
}

/// F101
#[test]
fn prompt_handler_receives_its_arguments() {
    let mut s = ServerHarness::modern(reviews());
    let result =
        s.result("prompts/get", json!({"name": "review", "arguments": {"code": "x", "language": "Rust"}}));
    let message = json!({"role": "user", "content": {"type": "text", "text": "Review this Rust: x"}});
    assert_eq!(result["messages"], json!([message]));
    assert_eq!(result["description"], "Reviews code");
}

/// S8.14
#[test]
fn server_refuses_a_prompt_without_a_required_argument() {
    let mut s = ServerHarness::modern(reviews());
    for arguments in [json!({}), json!({"language": "Rust"})] {
        let error = s.error("prompts/get", json!({"name": "review", "arguments": arguments}));
        assert_eq!(error["code"], code::INVALID_PARAMS);
        assert!(error["message"].as_str().unwrap().contains("code"), "{error}");
    }
}

/// S8.14
#[test]
fn server_refuses_an_unknown_prompt() {
    let error = ServerHarness::modern(reviews()).error("prompts/get", json!({"name": "rewrite"}));
    assert_eq!(error["code"], code::INVALID_PARAMS);
}

#[test]
fn raw_prompt_receives_the_responses_to_its_input_requests() {
    let router = Router::new("x", "1").prompt_raw(Prompt::new("p"), async |get, _| match get.request_state {
        Some(state) => ResultOrInput::Result(state),
        None => {
            let mut needed = InputRequiredResult::new();
            needed.request_state = Some("round two".into());
            ResultOrInput::InputRequired(needed)
        }
    });
    let mut s = ServerHarness::modern(router);
    let first = s.result("prompts/get", json!({"name": "p"}));
    assert_eq!(first["resultType"], "input_required");
    let second = s.result("prompts/get", json!({"name": "p", "requestState": first["requestState"]}));
    assert_eq!(second["messages"][0]["content"]["text"], "round two");
}

#[test]
fn a_prompt_may_be_a_conversation() {
    let router = Router::new("x", "1").prompt(Prompt::new("p"), async |_: BTreeMap<String, String>, _| {
        vec![PromptMessage::user("Hello"), PromptMessage::assistant("Hello yourself")]
    });
    let result = ServerHarness::modern(router).result("prompts/get", json!({"name": "p"}));
    assert_eq!(result["messages"][1]["role"], "assistant");
}

// --- Completion ---

fn complete(s: &mut ServerHarness, typed: &str) -> Value {
    let params = json!({
        "ref": {"type": "ref/prompt", "name": "review"}, "argument": {"name": "language", "value": typed},
    });
    s.result("completion/complete", params)["completion"].clone()
}

/// S8.17
#[test]
fn server_sends_at_most_a_hundred_completions_and_counts_all() {
    let router = reviews().completion(async |params, _| {
        (0..250).map(|number| format!("{}{number}", params.argument.value)).collect::<Vec<_>>()
    });
    let mut s = ServerHarness::modern(router);
    let completion = complete(&mut s, "r");
    assert_eq!(completion["values"].as_array().unwrap().len(), 100);
    assert_eq!((&completion["total"], &completion["hasMore"]), (&json!(250), &json!(true)));
    assert_eq!(completion["values"][0], "r0");
}

#[test]
fn server_sends_few_completions_and_their_total() {
    let router = reviews().completion(async |_, _| vec!["Rust".to_owned()]);
    let completion = complete(&mut ServerHarness::modern(router), "");
    assert_eq!(completion, json!({"values": ["Rust"], "total": 1, "hasMore": false}));
    // As many as a result may have.
    let router = reviews().completion(async |_, _| vec!["Rust"; 100]);
    let completion = complete(&mut ServerHarness::modern(router), "");
    assert_eq!((&completion["total"], &completion["hasMore"]), (&json!(100), &json!(false)));
}

/// S8.21: what the server does not offer reaches no handler.
#[test]
fn server_refuses_completions_for_what_it_does_not_offer() {
    let query = ResourceTemplate::new("search:///{kind}{?after}", "search");
    let router = reviews()
        .resource(Resource::new("note:///today", "today"), async |_, _| "")
        .template(ResourceTemplate::new("note:///by-id/{id}", "note"), async |NoArguments {}, _| "")
        .template(query, async |NoArguments {}, _| "")
        .completion(async |_, _| vec!["completed"]);
    for mut s in [ServerHarness::modern(router.clone()), ServerHarness::legacy(router)] {
        for (kind, of, argument, is_offered) in [
            ("prompt", "review", "language", true),
            ("prompt", "review", "speed", false),
            ("prompt", "preview", "language", false),
            ("resource", "note:///by-id/{id}", "id", true),
            ("resource", "note:///by-id/{id}", "name", false),
            // The URI of a resource stands for its template.
            ("resource", "note:///by-id/7", "id", true),
            ("resource", "search:///{kind}{?after}", "after", true),
            ("resource", "note:///by-name/{id}", "id", false),
            ("resource", "note:///today", "id", false),
            ("tool", "review", "language", false),
        ] {
            let member = if kind == "prompt" { "name" } else { "uri" };
            let params = json!({
                "ref": {"type": format!("ref/{kind}"), member: of}, "argument": {"name": argument, "value": ""},
            });
            let answer = s.request("completion/complete", params);
            assert_eq!(answer["result"].is_object(), is_offered, "{of} {argument}: {answer}");
            if !is_offered {
                assert_eq!(answer["error"]["code"], code::INVALID_PARAMS, "{answer}");
            }
        }
    }
}

/// S8.21: a router does not know what hand-written handlers list.
#[test]
fn server_completes_what_hand_written_handlers_list() {
    let router = Router::new("x", "1")
        .handler::<GetPrompt, _, _>(async |_, _| GetPromptResult::new(Vec::new()))
        .completion(async |_, _| vec!["completed"]);
    let mut s = ServerHarness::modern(router);
    assert_eq!(complete(&mut s, "")["values"], json!(["completed"]));
}

/// C9.17: in either era. A malformed one is refused, not left out.
#[test]
fn handler_of_completions_sees_the_arguments_that_have_values() {
    let router = reviews().completion(async |params: CompleteParams, _| {
        let earlier = params.context.and_then(|context| context.arguments).unwrap_or_default();
        earlier.get("code").cloned().into_iter().collect::<Vec<_>>()
    });
    let params = json!({
        "ref": {"type": "ref/prompt", "name": "review"}, "argument": {"name": "language", "value": ""},
        "context": {"arguments": {"code": "fn main() {}"}},
    });
    for mut s in [ServerHarness::modern(router.clone()), ServerHarness::legacy(router)] {
        let result = s.result("completion/complete", params.clone());
        assert_eq!(result["completion"]["values"], json!(["fn main() {}"]));
        for malformed in [json!("code"), json!({"arguments": []}), json!({"arguments": {"code": 1}})] {
            let mut params = params.clone();
            params["context"] = malformed;
            assert_eq!(s.error("completion/complete", params)["code"], code::INVALID_PARAMS);
        }
    }
}

// --- Other methods ---

/// R5
#[test]
fn list_method_may_have_a_custom_handler() {
    let router = Router::new("x", "1").handler::<ListTools, _, _>(async |params, _| {
        let name = params.cursor.unwrap_or("first".into());
        let tools = ListToolsResult::new(vec![Tool::new(name, "", json!({"type": "object"}))]);
        CachedPage::new(Duration::from_secs(5), tools)
    });
    let mut s = ServerHarness::modern(router);
    let result = s.result("tools/list", json!({"cursor": "x"}));
    assert_eq!(result["tools"][0]["name"], "x");
    assert_eq!(hints(&result), (json!(5_000), json!("private")));
    assert_eq!(s.error("tools/list", json!({"cursor": 7}))["code"], code::INVALID_PARAMS);
    assert_eq!(s.result("server/discover", json!({}))["capabilities"], json!({"tools": {}}));
}

#[test]
fn custom_method_may_have_a_handler() {
    let router = Router::new("x", "1")
        .custom("com.example/echo", async |params, _| {
            let mut result = EmptyResult::new();
            result.extra = params.extra;
            result
        })
        .custom("com.example/fail", async |_, _| Err(HandlerError::invalid_params("no")));
    let mut s = ServerHarness::modern(router);
    assert_eq!(s.result("com.example/echo", json!({"word": "hi"}))["word"], "hi");
    assert_eq!(s.error("com.example/fail", json!({}))["code"], code::INVALID_PARAMS);
    assert_eq!(s.error("com.example/other", json!({}))["code"], code::METHOD_NOT_FOUND);
}

#[test]
fn server_config_contains_name_instructions_and_extensions() {
    let config = notes().instructions("Read them.").extension("com.example/x", json!({})).config();
    assert_eq!((config.info.name.as_str(), config.instructions.as_deref()), ("notes", Some("Read them.")));
    assert!(config.capabilities.has_extension("com.example/x"));
}

// --- Cache hints ---

fn hints(result: &Value) -> (Value, Value) {
    (result["ttlMs"].clone(), result["cacheScope"].clone())
}

/// S7.1, S7.3: without configured hints, results are stale at once and private.
#[test]
fn every_cacheable_result_has_cache_hints() {
    let mut s = ServerHarness::modern(notes().prompt(Prompt::new("p"), async |NoArguments {}, _| "p"));
    let methods = [
        ("server/discover", json!({})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({"uri": "note:///today"})),
        ("prompts/list", json!({})),
    ];
    for (method, params) in methods {
        assert_eq!(hints(&s.result(method, params)), (json!(0), json!("private")), "{method}");
    }
    let got = s.result("prompts/get", json!({"name": "p"}));
    assert_eq!(hints(&got), (Value::Null, Value::Null));
    assert!(s.error("resources/read", json!({"uri": "note:///none/of/them"})).get("ttlMs").is_none());
}

/// S7.1
#[test]
fn router_can_set_the_cache_hints_of_a_method() {
    let minute = Duration::from_secs(60);
    let router = notes()
        .cache::<ListResources>(CacheHint::public(minute))
        .cache::<ReadResource>(CacheHint::private(Duration::from_millis(1_500)))
        .cache::<Discover>(CacheHint::public(Duration::MAX));
    let mut s = ServerHarness::modern(router);
    assert_eq!(hints(&s.result("resources/list", json!({}))), (json!(60_000), json!("public")));
    let read = s.result("resources/read", json!({"uri": "note:///today"}));
    assert_eq!(hints(&read), (json!(1_500), json!("private")));
    let longest = 9_007_199_254_740_991_u64;
    assert_eq!(hints(&s.result("server/discover", json!({}))), (json!(longest), json!("public")));
    assert_eq!(hints(&s.result("resources/templates/list", json!({}))), (json!(0), json!("private")));
}

/// S7.1: the hints of a resource override those of the router.
#[test]
fn handler_can_set_the_cache_hints_of_its_resource() {
    const HINT: CacheHint = CacheHint::public(Duration::from_secs(1));
    let router = Router::new("x", "1")
        .cache::<ReadResource>(CacheHint::private(Duration::from_secs(60)))
        .resource(Resource::new("x://a", "a"), async |_, _| Cached::new(HINT, "text"))
        .resource(Resource::new("x://b", "b"), async |_, _| {
            Ok::<_, HandlerError>(Cached::new(CacheHint::none(), "text"))
        })
        .resource(Resource::new("x://c", "c"), async |_, _| {
            Cached::new(HINT, Err::<String, _>(HandlerError::new("no")))
        });
    let mut s = ServerHarness::modern(router);
    let mut read = |uri: &str| s.result("resources/read", json!({"uri": uri}));
    let a = read("x://a");
    assert_eq!((hints(&a), &a["contents"][0]["text"]), ((json!(1_000), json!("public")), &json!("text")));
    assert_eq!(hints(&read("x://b")), (json!(0), json!("private")));
    assert_eq!(s.error("resources/read", json!({"uri": "x://c"}))["code"], code::INTERNAL_ERROR);
}

/// S7.2: pages differ in their lifetime, and never in their scope.
#[test]
fn all_pages_of_a_list_have_the_same_cache_scope() {
    let named = |name: &str| Tool::new(name, "", json!({"type": "object"}));
    let registered = |router: Router| {
        let tool = |router: Router, name: &str| router.tool_raw(named(name), async |_, _| "");
        ["a", "b", "c"].into_iter().fold(router.page_size(1), tool)
    };
    let by_hand = |router: Router| {
        router.handler::<ListTools, _, _>(async |params: PaginatedParams, _| {
            let (name, next, ttl) = match params.cursor.as_deref() {
                None => ("a", Some("b"), 60),
                Some("b") => ("b", Some("c"), 30),
                _ => ("c", None, 1),
            };
            let mut page = ListToolsResult::new(vec![Tool::new(name, "", json!({"type": "object"}))]);
            page.next_cursor = next.map(String::from);
            // Despite the page's own hints.
            page.cache_scope = Some(CacheScope::Public);
            CachedPage::new(Duration::from_secs(ttl), page)
        })
    };
    let scopes = |router: Router| {
        let mut s = ServerHarness::modern(router);
        let mut scopes = Vec::new();
        let mut params = json!({});
        loop {
            let page = s.result("tools/list", params);
            scopes.push(page["cacheScope"].clone());
            match page.get("nextCursor") {
                Some(next) => params = json!({"cursor": next}),
                None => return scopes,
            }
        }
    };
    let hint = CacheHint::public(Duration::from_secs(60));
    for list in [&registered as &dyn Fn(Router) -> Router, &by_hand] {
        assert_eq!(scopes(list(Router::new("x", "1"))), ["private"; 3]);
        assert_eq!(scopes(list(Router::new("x", "1").cache::<ListTools>(hint))), ["public"; 3]);
    }
}

/// S7.3: the server runs the handler for each request, cacheable or not, so it sees each principal.
#[test]
fn server_caches_nothing_itself() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    let hint = CacheHint::public(Duration::from_secs(60));
    let router = Router::new("x", "1").resource(Resource::new("x://a", "a"), move |_, _| {
        let calls = counter.clone();
        async move {
            calls.fetch_add(1, Ordering::Relaxed);
            Cached::new(hint, "text")
        }
    });
    let mut s = ServerHarness::modern(router);
    for _ in 0..3 {
        s.result("resources/read", json!({"uri": "x://a"}));
    }
    assert_eq!(calls.load(Ordering::Relaxed), 3);
}

/// S7.1: revisions before 2026-07-28 define no hints.
#[test]
fn server_sends_no_cache_hints_to_a_legacy_client() {
    let router = notes().cache::<ListResources>(CacheHint::public(Duration::from_secs(60)));
    let mut s = ServerHarness::legacy(router);
    assert_eq!(hints(&s.result("resources/list", json!({}))), (Value::Null, Value::Null));
}

//! Completions, access, rates, limits, tasks and cache hints of combined routers.

use super::*;

fn completing(router: Router, by: &'static str) -> Router {
    router.completion(move |params: CompleteParams, _| {
        let reference = serde_json::to_value(&params.reference).unwrap();
        let name = reference.get("name").or(reference.get("uri")).unwrap().as_str().unwrap();
        core::future::ready(vec![format!("{by}: {name}")])
    })
}

fn completed(s: &mut ServerHarness, reference: Value, argument: &str) -> Value {
    let params = json!({"ref": reference, "argument": {"name": argument, "value": ""}});
    s.result("completion/complete", params)["completion"]["values"].clone()
}

fn of_prompt(name: &str) -> Value {
    json!({"type": "ref/prompt", "name": name})
}

fn typist() -> Router {
    Router::new("typist", "1").prompt(prompt("letter", "text"), async |NoArguments {}, _| "")
}

/// S8.17, S8.21
#[test]
fn completions_are_asked_of_the_router_that_registered_the_item() {
    let part = completing(notes(), "notes");
    let router = completing(typist().mount("n", part.clone()).merge(part), "own").mount("silent", typist());
    for mut s in both_eras(&router) {
        assert_eq!(completed(&mut s, of_prompt("letter"), "text"), json!(["own: letter"]));
        assert_eq!(completed(&mut s, of_prompt("n_review"), "text"), json!(["notes: review"]));
        assert_eq!(completed(&mut s, of_prompt("review"), "text"), json!(["notes: review"]));
        assert_eq!(completed(&mut s, of_prompt("silent_letter"), "text"), json!([]));
        for uri in ["n+note:///by-id/{id}", "n+note:///by-id/7"] {
            let values = completed(&mut s, json!({"type": "ref/resource", "uri": uri}), "id");
            assert_eq!(values, json!([format!("notes: {}", &uri[2..])]));
        }
        let unknown = json!({"ref": of_prompt("n_letter"), "argument": {"name": "text", "value": ""}});
        assert_eq!(s.error("completion/complete", unknown)["code"], -32602);
    }
}

#[test]
fn router_without_completions_answers_those_of_its_parts() {
    let router = typist().mount("a", Router::new("b", "1").mount("b", completing(notes(), "notes")));
    let mut s = ServerHarness::modern(router);
    assert_eq!(completed(&mut s, of_prompt("a_b_review"), "text"), json!(["notes: review"]));
    assert_eq!(completed(&mut s, of_prompt("letter"), "text"), json!([]));
}

/// S8.17
#[test]
fn completions_of_a_part_with_its_own_handlers_are_asked_for_what_these_serve() {
    let read =
        async |_, _| Cached::new(CacheHint::public(Duration::ZERO), ReadResourceResult::new(Vec::new()));
    let part = Router::new("part", "1").handler::<ReadResource, _, _>(read);
    let mut s = ServerHarness::modern(typist().merge(completing(part, "part")));
    let file = json!({"type": "ref/resource", "uri": "file:///{name}"});
    assert_eq!(completed(&mut s, file, "name"), json!(["part: file:///{name}"]));
    assert_eq!(completed(&mut s, of_prompt("letter"), "text"), json!([]));
}

#[test]
fn updates_of_mounted_resources_are_published_under_their_new_uris() {
    let live = desk().mount("notes", notes().declare(ServerCapability::ResourcesSubscribe)).live();
    let uri = mounted_uri("notes", "note:///today");
    let mut legacy = ServerHarness::legacy_shared(live.clone(), LEGACY, json!({}));
    legacy.result("resources/subscribe", json!({"uri": uri}));
    let filter = json!({"notifications": {"resourceSubscriptions": [uri]}});
    let mut modern = ServerHarness::modern(live.clone());
    modern.send("subscriptions/listen", filter.clone());
    assert_eq!(modern.line()["method"], "notifications/subscriptions/acknowledged");
    let mut web = HttpHarness::new(live.clone());
    let mut listener = web.ask("subscriptions/listen", filter);
    assert_eq!(listener.message()["method"], "notifications/subscriptions/acknowledged");
    live.resource_updated("note:///today");
    live.resource_updated(&uri);
    for updated in [legacy.line(), modern.line(), listener.message()] {
        assert_eq!(updated["method"], "notifications/resources/updated", "{updated}");
        assert_eq!(updated["params"]["uri"], uri);
    }
    legacy.expect_silence();
    modern.expect_silence();
}

/// S5.2
#[test]
fn access_to_subscriptions_holds_for_the_resources_of_each_router() {
    fn mail() -> Router {
        Router::new("mail", "1")
            .declare(ServerCapability::ResourcesSubscribe)
            .resource(Resource::new("mail:///open", "open"), async |uri, _| uri)
            .resource(Resource::new("mail:///closed", "closed"), async |uri, _| uri)
            .subscription_access(|uri, _| uri == "mail:///open")
    }
    let granted = |router: Router, uris: &[&str], principal: Option<&str>| {
        let mut s = ServerHarness::modern(router);
        let principal = principal.map(Principal::new);
        s.driver.lock(|machine, now| machine.at(now).set_principal(principal));
        s.send("subscriptions/listen", json!({"notifications": {"resourceSubscriptions": uris}}));
        let line = s.line();
        serde_json::from_value::<Vec<String>>(
            line["params"]["notifications"]["resourceSubscriptions"].clone(),
        )
        .unwrap()
    };
    let own = || {
        desk()
            .declare(ServerCapability::ResourcesSubscribe)
            .resource(Resource::new("own:///a", "a"), async |uri, _| uri)
    };
    let uris = ["own:///a", "mail:///open", "mail:///closed"];
    assert_eq!(granted(own().merge(mail()), &uris, None), ["own:///a", "mail:///open"]);
    let uris = ["own:///a", "m+mail:///open", "m+mail:///closed", "m+mail:///other", "mail:///closed"];
    let mounted = own().mount("m", mail());
    assert_eq!(granted(mounted.clone(), &uris, None), ["own:///a", "m+mail:///open", "mail:///closed"]);
    // The check of the whole holds for all of it.
    let guarded = mounted.subscription_access(|_, principal| principal.is_some());
    assert!(granted(guarded.clone(), &uris, None).is_empty());
    assert_eq!(granted(guarded, &uris, Some("a")), ["own:///a", "m+mail:///open", "mail:///closed"]);
    let deep = Router::new("house", "1").mount("d", own().mount("m", mail()));
    assert_eq!(granted(deep, &["d+m+mail:///open", "d+m+mail:///closed"], None), ["d+m+mail:///open"]);
}

/// S8.8
#[test]
fn rates_of_a_part_hold_for_its_tools() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let limiter = |by: &'static str, seen: &Arc<Mutex<Vec<String>>>| {
        let seen = seen.clone();
        move |call: &LimitedCall<'_>| {
            seen.lock().unwrap().push(format!("{by}: {}", call.tool));
            Ok::<_, Duration>(())
        }
    };
    let part = notes().tool_rate(RateLimit::per_second(1).burst(1)).tool_limiter(limiter("notes", &seen));
    let middle = Router::new("middle", "1").mount("n", part).tool_limiter(limiter("middle", &seen));
    let router = desk().mount("m", middle).tool_limiter(limiter("desk", &seen));
    let mut s = ServerHarness::modern(router);
    assert_eq!(text(&mut s, "m_n_clear"), "clear");
    assert_eq!(*seen.lock().unwrap(), ["desk: m_n_clear", "middle: n_clear", "notes: clear"]);
    assert_eq!(text(&mut s, "m_n_clear"), "too many calls: try again in 1 s");
    assert_eq!([text(&mut s, "date"), text(&mut s, "date")], ["Monday", "Monday"]);
}

/// Counts what reaches it, and calls `n_clear` in place of `date`, or completes `n_review` in place of `letter`.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Layer for Seen {
    fn request(&self, mut request: LayerRequest, next: Next) -> LayerFuture {
        self.0.lock().unwrap().push(request.method().to_owned());
        let params = request.params().map_or("{}", Raw::as_str);
        if params.contains("date") || params.contains("letter") {
            let other = params.replace("date", "n_clear").replace("letter", "n_review");
            request.set_raw_params(Raw::new(other).unwrap()).unwrap();
        }
        next.run(request)
    }
}

/// S8.8, S8.17
#[test]
fn rates_of_a_part_are_checked_before_the_layers_and_for_what_they_change() {
    let once = RateLimit::per_second(1).burst(1);
    let part = || completing(notes(), "notes").tool_rate(once).completion_rate(once);
    let seen = Seen::default();
    let server = || ServerHarness::modern(desk().merge(typist()).mount("n", part()).layer(seen.clone()));
    let taken = || std::mem::take(&mut *seen.0.lock().unwrap()).len();
    let exceeded = "too many calls: try again in 1 s";

    let mut s = server();
    assert_eq!([text(&mut s, "n_clear"), text(&mut s, "n_clear")], ["clear", exceeded]);
    assert_eq!(taken(), 1, "the second call is refused before the layers");
    assert_eq!((text(&mut s, "date"), taken()), (exceeded.into(), 1));
    let mut s = server();
    assert_eq!([text(&mut s, "date"), text(&mut s, "date")], ["clear", exceeded]);
    assert_eq!(taken(), 2);

    let request = |name: &str| json!({"ref": of_prompt(name), "argument": {"name": "text", "value": ""}});
    let complete = |s: &mut ServerHarness, name: &str| s.request("completion/complete", request(name));
    let mut s = server();
    assert_eq!(complete(&mut s, "n_review")["result"]["completion"]["values"], json!(["notes: review"]));
    assert_eq!((complete(&mut s, "n_review")["error"]["code"].clone(), taken()), (json!(-32603), 1));
    assert_eq!((complete(&mut s, "letter")["error"]["code"].clone(), taken()), (json!(-32603), 1));
}

/// A hand-written handler of tool calls keeps the rates of its router.
#[test]
fn rates_of_a_part_with_its_own_handler_are_checked_before_the_layers() {
    let seen = Seen::default();
    let part = Router::new("part", "1")
        .handler::<CallTool, _, _>(async |_, _| CallToolResult::text("done"))
        .tool_rate(RateLimit::per_second(1).burst(1));
    let mut s = ServerHarness::modern(Router::new("whole", "1").merge(part).layer(seen.clone()));
    assert_eq!(text(&mut s, "any"), "done");
    assert_eq!(text(&mut s, "any"), "too many calls: try again in 1 s");
    assert_eq!(seen.0.lock().unwrap().len(), 1);
}

#[test]
fn time_limits_of_a_part_hold_under_the_new_name() {
    let slow = Router::new("slow", "1")
        .tool_with(tool("wait"), async |NoArguments {}, _| core::future::pending::<String>().await)
        .tool_timeout("wait", Duration::from_secs(3));
    let mut s = ServerHarness::modern(desk().mount("slow", slow));
    s.send("tools/call", json!({"name": "slow_wait"}));
    s.advance(Duration::from_secs(4));
    let text = s.line()["result"]["content"][0]["text"].clone();
    assert_eq!(text, "the tool \"slow_wait\" did not finish within 3 s, the limit of this server");
}

/// S11.1
#[test]
fn tools_of_a_mounted_router_become_tasks() {
    let worker = Router::new("worker", "1").tasks(TaskConfig::default()).task_tool(
        tool("hold"),
        TaskChoice::Required,
        async |NoArguments {}, _| "held",
    );
    let own = desk().tasks(TaskConfig::default());
    for router in [desk().mount("w", worker.clone()), own.mount("w", worker)] {
        let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
        let mut s = ServerHarness::modern_with(router, tasks);
        let created = s.call("w_hold", json!({}));
        assert_eq!(created["resultType"], "task", "{created}");
        let task = s.result("tasks/get", json!({"taskId": created["taskId"]}));
        assert_eq!(task["result"]["content"][0]["text"], "held", "{task}");
    }
}

#[test]
fn handlers_of_a_mounted_router_request_input() {
    let asking = Router::new("asking", "1").tool_with(tool("ask"), async |NoArguments {}, cx: Context| {
        Ok::<_, HandlerError>(named(&cx.elicit("name", name_form()).await?))
    });
    let mut s = ServerHarness::modern_with(desk().mount("a", asking), json!({"elicitation": {"form": {}}}));
    let asked = s.call("a_ask", json!({}));
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let again = json!({
        "name": "a_ask", "arguments": {}, "requestState": asked["requestState"],
        "inputResponses": {"name": accept("Ada")},
    });
    assert_eq!(s.result("tools/call", again)["content"][0]["text"], "Ada");
}

/// S7.1
#[test]
fn cache_hints_of_a_part_hold_for_its_resources() {
    let part = || {
        notes()
            .cache::<ReadResource>(CacheHint::public(Duration::from_secs(9)))
            .cache::<ListTools>(CacheHint::public(Duration::from_secs(9)))
            .cache::<Discover>(CacheHint::public(Duration::from_secs(9)))
    };
    let own = || desk().resource(Resource::new("own:///a", "a"), async |uri, _| uri);
    for (router, uri) in
        [(own().merge(part()), "note:///today"), (own().mount("n", part()), "n+note:///today")]
    {
        let mut s = ServerHarness::modern(router.clone());
        let hint = |result: Value| (result["ttlMs"].clone(), result["cacheScope"].clone());
        let none = (json!(0), json!("private"));
        assert_eq!(hint(s.result("resources/read", json!({"uri": uri}))), (json!(9000), json!("public")));
        assert_eq!(hint(s.result("resources/read", json!({"uri": "own:///a"}))), none);
        assert_eq!(hint(s.result("tools/list", json!({}))), none);
        let stricter = own().cache::<ListTools>(CacheHint::private(Duration::from_secs(20)));
        let mut s = ServerHarness::modern(stricter.merge(part()));
        assert_eq!(hint(s.result("tools/list", json!({}))), (json!(9000), json!("private")));
    }
}

#[test]
fn combined_router_handles_the_methods_and_notifications_of_its_parts() {
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let part = Router::new("printer", "1")
        .custom("com.example/print", async |_, _| {
            let mut result = mcp_proto::schema::EmptyResult::new();
            result.extra.insert("printed", true);
            result
        })
        .on_notification("com.example/low", {
            let heard = heard.clone();
            move |_: CustomParams, _: NotificationContext| {
                heard.lock().unwrap().push("low".into());
                async {}
            }
        });
    for router in [desk().merge(part.clone()), desk().mount("p", part)] {
        let mut s = ServerHarness::modern(router);
        assert_eq!(s.result("com.example/print", json!({}))["printed"], true);
        s.notify("com.example/low", json!({}));
    }
    assert_eq!(*heard.lock().unwrap(), ["low", "low"]);
}

//! Layers around the calls of a client's application, and around the requests of its server.

use core::time::Duration;
use std::sync::{Arc, Mutex};

use futures_lite::future::poll_once;
use mcp_proto::front::layer::{Layer, LayerFuture, LayerRequest, MessageDirection, Next, Reply, Side};
use mcp_proto::front::tasks::{DetachedWork, TaskChoice, TaskConfig};
use mcp_proto::front::{
    ClientHandlers, Context, Error, HandlerError, NoArguments, Progress, Router, ToolCallOutcome,
};
use mcp_proto::peer::RequestError;
use mcp_proto::rpc::{ErrorObject, code};
use mcp_proto::schema::tasks::TaskIdParams;
use mcp_proto::schema::{
    CachedPage, CallToolParams, CallToolResult, CustomResult, ElicitParams, ElicitResult, ElicitSchema, Json,
    ListTools, ListToolsResult, StringSchema, Tool,
};
use mcp_proto::testing::pair;
use serde_json::json;

use crate::common::front::ClientHarness;
use crate::common::messages::{answer, notification};

type Log = Arc<Mutex<Vec<String>>>;

/// A layer made of a closure.
struct ClosureLayer<F>(F);

fn act<F: Fn(LayerRequest, Next) -> LayerFuture + Send + Sync + 'static>(act: F) -> ClosureLayer<F> {
    ClosureLayer(act)
}

impl<F: Fn(LayerRequest, Next) -> LayerFuture + Send + Sync + 'static> Layer for ClosureLayer<F> {
    fn request(&self, request: LayerRequest, next: Next) -> LayerFuture {
        (self.0)(request, next)
    }
}

fn recording(log: &Log) -> impl Layer + Send + Sync + use<> {
    let log = log.clone();
    act(move |request: LayerRequest, next: Next| {
        assert_eq!(request.side(), Side::Client);
        let made = if request.direction() == MessageDirection::Sent { "made" } else { "received" };
        let (log, method) = (log.clone(), request.method().to_owned());
        Box::pin(async move {
            let reply = next.run(request).await;
            let how = if reply.is_failure() { "failure" } else { "success" };
            log.lock().unwrap().push(format!("{made} {method}: {how}"));
            reply
        })
    })
}

fn taken(log: &Log) -> Vec<String> {
    std::mem::take(&mut log.lock().unwrap())
}

fn tool(name: &str) -> Tool {
    Tool::new(name, "", Json::empty_object())
}

fn form() -> ElicitParams {
    ElicitParams::form("Your name?", ElicitSchema::new([("name", StringSchema::new().into())]))
}

fn router() -> Router {
    Router::new("test", "1")
        .tool_with(tool("greet"), async |NoArguments {}, cx: Context| {
            cx.progress(Progress::new(1).message("one"));
            cx.progress(Progress::new(2).message("two"));
            "hello"
        })
        .tool_with(tool("ask"), async |NoArguments {}, cx: Context| {
            let answer = cx.elicit("name", form()).await?;
            Ok::<_, HandlerError>(answer.action.as_str().to_owned())
        })
        .tool_with(tool("fail"), async |NoArguments {}, _| Err::<(), _>(HandlerError::new("no")))
        .tool_raw(tool("echo"), async |call: CallToolParams, cx: Context| {
            let by = cx.meta().get("com.example/by").map_or("nobody".into(), |by| by.as_str().to_owned());
            format!("{} for {by}", call.arguments.unwrap_or_else(Json::empty_object).as_str())
        })
}

#[test]
fn layer_of_a_client_runs_once_for_each_call_and_for_each_request_of_the_server() {
    for (legacy, http) in [(false, false), (false, true), (true, false), (true, true)] {
        let log = Log::default();
        let handlers =
            ClientHandlers::new().elicitation(async |_, _| ElicitResult::decline()).layer(recording(&log));
        let mut pair = pair(router()).handlers(handlers);
        if legacy {
            pair = pair.legacy();
        }
        if http {
            pair = pair.http();
        }
        pair.run(async |client| {
            assert_eq!(client.call_tool("greet", json!({})).await.unwrap().text_content(), "hello");
            assert_eq!(client.call_tool("ask", json!({})).await.unwrap().text_content(), "decline");
            assert!(client.call_tool("fail", json!({})).await.unwrap().failed());
            assert_eq!(client.list_tools().await.unwrap().len(), 4);
            let error = client.read_resource("file:///none").await.unwrap_err();
            assert!(matches!(error, Error::NotSent(_)), "{error}");
        });
        let expected = [
            "made tools/call: success",
            "received elicitation/create: success",
            "made tools/call: success",
            "made tools/call: failure",
            "made tools/list: success",
            "made resources/read: failure",
        ];
        assert_eq!(taken(&log), expected, "legacy {legacy}, HTTP {http}");
    }
}

#[test]
fn progress_reaches_the_caller_through_layers() {
    let log = Log::default();
    let handlers = ClientHandlers::new().layer(recording(&log));
    pair(router()).handlers(handlers).run(async |client| {
        let reports = Arc::new(Mutex::new(Vec::new()));
        let seen = reports.clone();
        let call = client.call_tool("greet", json!({}));
        call.on_progress(move |progress| seen.lock().unwrap().push(progress.message.unwrap())).await.unwrap();
        assert_eq!(*reports.lock().unwrap(), ["one", "two"]);

        let mut call = client.call_tool("greet", json!({})).start().unwrap();
        let mut messages = Vec::new();
        while let Some(progress) = call.progress().await {
            messages.push(progress.message.unwrap());
        }
        assert_eq!((messages, call.missed_progress()), (vec!["one".to_owned(), "two".to_owned()], 0));
        assert_eq!(call.await.unwrap().text_content(), "hello");
    });
    assert_eq!(taken(&log).len(), 2);
}

#[test]
fn layer_adds_meta_changes_parameters_answers_early_and_denies() {
    let handlers = ClientHandlers::new().layer(act(|mut request: LayerRequest, next: Next| {
        match request.item().as_deref() {
            Some("echo") => {
                request
                    .set_params(&CallToolParams::new("echo").with_arguments(json!({"changed": true})))
                    .unwrap();
                request.set_meta("com.example/by", "layer").unwrap();
            }
            Some("early") => return next.answer(Reply::result(CallToolResult::text("early"))),
            Some("denied") => {
                let reply = request.deny("not from here");
                return next.answer(reply);
            }
            _ => {}
        }
        next.run(request)
    }));
    for legacy in [false, true] {
        let mut pair = pair(router()).handlers(handlers_of(&handlers));
        if legacy {
            pair = pair.legacy();
        }
        pair.run(async |client| {
            let echo = client.call_tool("echo", json!({"changed": false})).await.unwrap();
            assert_eq!(echo.text_content(), r#"{"changed":true} for "layer""#);
            assert_eq!(client.call_tool("early", json!({})).await.unwrap().text_content(), "early");
            let error = client.call_tool("denied", json!({})).await.unwrap_err();
            assert!(matches!(&error, Error::Layer(error) if error.code == code::INVALID_REQUEST), "{error}");
            assert_eq!(error.to_string(), "a layer of this client refused the call: not from here (-32600)");
        });
    }
}

fn handlers_of(handlers: &ClientHandlers) -> ClientHandlers {
    ClientHandlers::new().within_layers(handlers.layers())
}

/// What a layer put in place of a list must not be what the next call gets from the cache.
#[test]
fn replaced_result_never_enters_the_cache_of_the_client() {
    let asked = Arc::new(Mutex::new(0));
    let count = asked.clone();
    let router = Router::new("test", "1").handler::<ListTools, _, _>(move |_, _| {
        *count.lock().unwrap() += 1;
        async { CachedPage::new(Duration::from_secs(60), ListToolsResult::new(vec![tool("real")])) }
    });
    let replace = Arc::new(Mutex::new(true));
    let replaces = replace.clone();
    let handlers = ClientHandlers::new().layer(act(move |request: LayerRequest, next: Next| {
        let replaces = *replaces.lock().unwrap();
        next.run_then(request, move |reply| match replaces {
            true => Reply::result(ListToolsResult::new(vec![tool("replaced")])),
            false => reply,
        })
    }));
    pair(router).handlers(handlers).run(async |client| {
        assert_eq!(client.list_tools().await.unwrap()[0].name, "replaced");
        *replace.lock().unwrap() = false;
        assert_eq!(client.list_tools().await.unwrap()[0].name, "real");
    });
    assert_eq!(*asked.lock().unwrap(), 1);
}

/// A layer of untyped values, as a proxy has them.
#[test]
fn answer_of_a_layer_may_have_any_type_with_the_right_json() {
    let handlers = ClientHandlers::new().layer(act(|request: LayerRequest, next: Next| {
        let is_right = request.item().as_deref() == Some("right");
        let text = json!({"content": [{"type": "text", "text": "untyped"}]});
        let result = if is_right { text } else { json!({"content": 7}) };
        next.answer(Reply::result(serde_json::from_value::<CustomResult>(result).unwrap()))
    }));
    pair(router()).handlers(handlers).run(async |client| {
        assert_eq!(client.call_tool("right", json!({})).await.unwrap().text_content(), "untyped");
        let error = client.call_tool("wrong", json!({})).await.unwrap_err();
        assert!(error.to_string().contains("not of the type of the method"), "{error}");
    });
}

/// Reports that are dropped between the connection and a layer that is not polled count like those after it.
#[test]
fn missed_progress_counts_what_layers_did_not_take() {
    for handlers in [ClientHandlers::new(), ClientHandlers::new().layer(recording(&Log::default()))] {
        let mut front = ClientHarness::modern_with(handlers);
        let mut call = front.client.call_tool("slow", json!({})).start().unwrap();
        let id = front.expect("tools/call");
        for value in 0..70 {
            let params = json!({"progressToken": id, "progress": value});
            front.receive(&[notification("notifications/progress", params)]);
        }
        assert_eq!(call.missed_progress(), 6);
        front.receive(&[answer(&id, json!({"resultType": "complete", "content": []}))]);
        let mut seen = Vec::new();
        while let Some(report) = futures_lite::future::block_on(call.progress()) {
            seen.push(report.progress.as_i64().unwrap());
        }
        assert_eq!(seen, (6..70).collect::<Vec<_>>());
        assert_eq!(call.missed_progress(), 6);
    }
}

#[cfg(feature = "schema-validate")]
#[test]
fn result_of_a_task_is_checked_against_the_schema_of_the_tool_that_a_layer_called() {
    let schema = |name: &str| {
        let schema = json!({"type": "object", "required": [name], "properties": {name: {"type": "string"}}});
        tool(name).with_output_schema(Json::encode(&schema).unwrap())
    };
    let work = |name: &'static str| {
        move |NoArguments {}, _: Context| async move {
            Ok::<_, HandlerError>(DetachedWork::new(move |_: Context| async move {
                CallToolResult::from_structured(&json!({name: "done"})).unwrap()
            }))
        }
    };
    let router = Router::new("test", "1")
        .tasks(TaskConfig::default())
        .detaching_tool(schema("named"), TaskChoice::Optional, work("named"))
        .detaching_tool(schema("called"), TaskChoice::Optional, work("called"));
    let handlers = ClientHandlers::new().layer(act(|mut request: LayerRequest, next: Next| {
        if request.item().as_deref() == Some("named") {
            request.set_params(&CallToolParams::new("called").with_arguments(Json::empty_object())).unwrap();
        }
        next.run(request)
    }));
    pair(router).handlers(handlers).run(async |client| {
        client.list_tools().await.unwrap();
        let outcome = client.call_tool("named", json!({})).start_task().await.unwrap();
        let ToolCallOutcome::Task(task) = outcome else { panic!("{outcome:?}") };
        let result = task.wait().await.unwrap();
        assert_eq!(result.structured_content.unwrap().as_str(), r#"{"called":"done"}"#);
    });
}

/// A server's request is answered, whatever kind of reply a layer makes.
#[test]
fn failed_reply_of_a_layer_answers_the_request_of_the_server() {
    let answered = |make: fn() -> Reply| {
        let handlers = ClientHandlers::new().elicitation(async |_, _| ElicitResult::decline()).layer(act(
            move |request: LayerRequest, next: Next| match request.direction() {
                MessageDirection::Received => next.answer(make()),
                MessageDirection::Sent => next.run(request),
            },
        ));
        let router = Router::new("test", "1").tool_with(tool("ask"), async |NoArguments {}, cx: Context| {
            match cx.elicit("name", form()).await {
                Err(Error::Peer(error)) => format!("{} {}", error.code, error.message),
                other => format!("{other:?}"),
            }
        });
        pair(router)
            .legacy()
            .handlers(handlers)
            .run(async |client| client.call_tool("ask", json!({})).await.unwrap().text_content())
    };
    assert!(answered(|| Reply::failed(Error::Finished)).starts_with("-32603 "));
    let of_peer = || Reply::failed(Error::Peer(ErrorObject::new(-7, "not now")));
    assert_eq!(answered(of_peer), "-7 not now");
}

#[test]
fn dropped_call_is_cancelled_within_its_layers() {
    let log = Log::default();
    let mut front = ClientHarness::modern_with(ClientHandlers::new().layer(recording(&log)));
    let call = front.client.call_tool("slow", json!({})).start().unwrap();
    let id = front.expect("tools/call");
    drop(call);
    assert_eq!(front.line()["params"]["requestId"], id);
    let call = front.client.call_tool("slow", json!({})).start().unwrap();
    let id = front.expect("tools/call");
    call.cancel("enough");
    let cancelled = front.line();
    assert_eq!((&cancelled["params"]["requestId"], &cancelled["params"]["reason"]), (&id, &json!("enough")));
    front.expect_silence();
    assert!(taken(&log).is_empty());
}

#[test]
fn started_call_is_sent_at_once_unless_a_layer_waits() {
    let gate = Arc::new(Mutex::new(false));
    let open = gate.clone();
    let handlers = ClientHandlers::new().layer(act(move |request: LayerRequest, next: Next| {
        let open = open.clone();
        Box::pin(async move {
            core::future::poll_fn(|_| match *open.lock().unwrap() {
                true => core::task::Poll::Ready(()),
                false => core::task::Poll::Pending,
            })
            .await;
            next.run(request).await
        })
    }));
    let mut front = ClientHarness::modern_with(handlers);
    let mut call = front.client.call_tool("slow", json!({})).start().unwrap();
    front.expect_silence();
    *gate.lock().unwrap() = true;
    assert!(futures_lite::future::block_on(poll_once(&mut call)).is_none());
    let id = front.expect("tools/call");
    front.receive(&[answer(&id, json!({"resultType": "complete", "content": []}))]);
    assert!(futures_lite::future::block_on(call).unwrap().content.is_empty());
}

#[test]
fn start_reports_a_call_that_cannot_be_sent_through_layers() {
    let log = Log::default();
    pair(router()).handlers(ClientHandlers::new().layer(recording(&log))).run(async |client| {
        client.ready().await.unwrap();
        let error = client.read_resource("file:///none").start().unwrap_err();
        assert!(matches!(error, Error::NotSent(RequestError::Capability { .. })), "{error:?}");
    });
}

#[test]
fn layer_of_a_client_that_panics_ends_its_call_alone() {
    let handlers = ClientHandlers::new().layer(act(|request: LayerRequest, next: Next| {
        match request.item().as_deref() {
            Some("early") => panic!("before its future"),
            Some("late") => Box::pin(async { panic!("in its future") }),
            _ => next.run(request),
        }
    }));
    pair(router()).handlers(handlers).run(async |client| {
        for name in ["early", "late"] {
            let error = client.call_tool(name, json!({})).await.unwrap_err();
            assert!(matches!(&error, Error::Layer(error) if error.code == code::INTERNAL_ERROR), "{error}");
        }
        assert_eq!(client.call_tool("greet", json!({})).await.unwrap().text_content(), "hello");
    });
}

#[test]
fn layer_sees_the_end_of_a_call_that_became_a_task() {
    for legacy in [false, true] {
        let log = Log::default();
        let router = Router::new("test", "1").tasks(TaskConfig::default()).task_tool(
            tool("task"),
            TaskChoice::Optional,
            async |NoArguments {}, _| "done",
        );
        let mut pair = pair(router).handlers(ClientHandlers::new().layer(recording(&log)));
        if legacy {
            pair = pair.legacy();
        }
        pair.run(async |client| {
            client.list_tools().await.unwrap();
            let ToolCallOutcome::Task(task) = client.call_tool("task", json!({})).start_task().await.unwrap()
            else {
                panic!("no task")
            };
            assert_eq!(task.wait().await.unwrap().text_content(), "done");
            assert_eq!(task.status().await.unwrap().id, task.id());
            // It has ended.
            let _ = task.cancel().await;
            assert_eq!(client.call_tool("task", json!({})).await.unwrap().text_content(), "done");
            client.outside_layers().resume_task(task.id()).status().await.unwrap();
        });
        let cancelled = if legacy { "made tasks/cancel: failure" } else { "made tasks/cancel: success" };
        let [get, call] = ["made tasks/get: success", "made tools/call: success"];
        assert_eq!(taken(&log)[1..], ["made tools/call: failure", get, get, cancelled, call]);
    }
}

#[test]
fn layer_can_pass_on_only_the_request_that_it_got() {
    let other = || {
        act(|request: LayerRequest, next: Next| {
            let other = CallToolParams::new("greet");
            next.run(LayerRequest::of_host("tools/call", &other, "other", request.clock()))
        })
    };
    let expected = "a layer passed on another request than it got (-32603)";
    let of_client = pair(router()).handlers(ClientHandlers::new().layer(other()));
    for mut pair in [of_client, pair(router().layer(other()))] {
        pair.run(async |client| {
            let error = client.call_tool("greet", json!({})).await.unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        });
    }
}

#[test]
fn layer_decides_about_the_requests_of_a_task() {
    let layer = act(|mut request: LayerRequest, next: Next| match request.method() {
        "tasks/cancel" => {
            let denied = request.deny("it has to end");
            next.answer(denied)
        }
        "tasks/get" => {
            assert_eq!(request.decode::<TaskIdParams>().unwrap().task_id, "unknown");
            request.set_meta("com.example/by", "a layer").unwrap();
            next.run(request)
        }
        _ => next.run(request),
    });
    let handlers = ClientHandlers::new().layer(layer);
    pair(Router::new("test", "1").tasks(TaskConfig::default())).handlers(handlers).run(async |client| {
        let task = client.resume_task("unknown");
        let denied = task.cancel().await.unwrap_err();
        assert!(matches!(&denied, Error::Layer(error) if error.message == "it has to end"), "{denied}");
        let unknown = task.status().await.unwrap_err();
        assert!(matches!(&unknown, Error::Peer(error) if error.code == code::INVALID_PARAMS), "{unknown}");
        assert!(matches!(task.wait().await.unwrap_err(), Error::Peer(_)));
    });
}

#[test]
fn handlers_of_a_local_client_answer_within_layers() {
    let log = Log::default();
    let local = std::rc::Rc::new("decline");
    let handlers = ClientHandlers::local()
        .elicitation(move |_, _| {
            let local = local.clone();
            async move { if *local == "decline" { ElicitResult::decline() } else { ElicitResult::cancel() } }
        })
        .layer(recording(&log));
    pair(router()).legacy().handlers(handlers).run(async |client| {
        assert_eq!(client.call_tool("ask", json!({})).await.unwrap().text_content(), "decline");
    });
    assert_eq!(taken(&log), ["received elicitation/create: success", "made tools/call: success"]);
}

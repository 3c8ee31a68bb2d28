//! `mcpio connect`: an application on its standard input and output, and a server behind it, in each pair of eras.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_hyper::ServerOptions;
use mcp_proto::front::http::HttpServer;
use mcp_proto::front::tasks::{TaskChoice, TaskConfig};
use mcp_proto::front::{
    Client, ClientHandlers, Context, CustomRequest, ElicitationCompletion, Event, HandlerError, NoArguments,
    Progress, Router, WatchUpdate,
};
use mcp_proto::peer::client::{Change, ClientConfig, EraPolicy};
use mcp_proto::peer::server::ListKind;
use mcp_proto::schema::{
    ClientCapability, CompleteParams, CreateMessageParams, CreateMessageResult, CustomParams, CustomResult,
    ElicitAction, ElicitParams, ElicitResult, ElicitSchema, Era, Implementation, ListRootsResult,
    LoggingLevel, LoggingMessage, Meta, Prompt, PromptArgument, PromptReference, Resource, ResourceContents,
    Root, SamplingMessage, ServerCapability, StringSchema, TextResourceContents, Tool,
};
use mcp_smol::{ClientOptions, Command};
use serde_json::{Value, json};
use smol::channel::{Receiver, Sender, unbounded};
use smol::future::{FutureExt as _, block_on};
use smol::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use smol::net::TcpListener;
use smol::process::Stdio;
use smol::stream::StreamExt as _;
use smol::{Task, Timer};

use crate::common::auth_testbed::{self, AuthTestbed};
use crate::common::cli::program;

/// Runs it for thirty seconds at most.
fn run<T>(test: impl Future<Output = T>) -> T {
    let late = async {
        Timer::after(Duration::from_secs(30)).await;
        panic!("still not done after thirty seconds")
    };
    block_on(test.or(late))
}

/// A server at a URL, with what its handlers report.
struct Upstream {
    url: String,
    handle: HttpServer,
    reports: Receiver<&'static str>,
    _serving: Task<std::io::Result<()>>,
}

/// Reports that the handler was dropped.
struct DropReport(Sender<&'static str>);

impl Drop for DropReport {
    fn drop(&mut self) {
        let _ = self.0.try_send("dropped");
    }
}

impl Upstream {
    async fn start() -> Self {
        let (reporter, reports) = unbounded();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let (handle, driver) = ServerOptions::new(router(reporter)).listen(listener);
        Self { url, handle, reports, _serving: smol::spawn(driver) }
    }
}

fn tool(name: &str) -> Tool {
    Tool::new(name, "A tool", json!({ "type": "object" }))
}

fn router(reports: Sender<&'static str>) -> Router {
    let contents = async |uri: String, _| ResourceContents::from(TextResourceContents::new(uri, "text"));
    let refilled = reports.clone();
    let visits = AtomicU64::new(0);
    let mut greet = Prompt::new("greet");
    greet.arguments = Some(vec![PromptArgument::new("name")]);
    Router::new("upstream", "9.9")
        .instructions("Use it well.")
        .declare(ServerCapability::Logging)
        .declare(ServerCapability::ToolsListChanged)
        .declare(ServerCapability::ResourcesSubscribe)
        .tool_with(tool("who"), async |NoArguments {}, cx: Context| {
            let mark = cx.meta().get("com.example/mark").map(|mark| mark.as_str().to_owned());
            format!("{} {mark:?}", cx.client().map_or("?", |client| &client.name))
        })
        .tool_with(tool("half"), async |NoArguments {}, cx: Context| {
            cx.progress(Progress::new(1).total(2).message("half"));
            "done"
        })
        .tool_with(tool("log"), async |NoArguments {}, cx: Context| {
            cx.log_as(LoggingLevel::Warning, "upstream", "look here");
            cx.notify_custom("com.example/paper", json!({ "sheets": 12 }))?;
            Ok::<_, HandlerError>("logged")
        })
        .tasks(TaskConfig::default())
        .task_tool(tool("bake"), TaskChoice::Optional, async |NoArguments {}, _| "baked")
        .on_notification("com.example/refill", move |_, _| {
            let _ = refilled.try_send("refilled");
            async {}
        })
        .tool_with(tool("slow"), move |NoArguments {}, _: Context| {
            let report = DropReport(reports.clone());
            async move {
                let _ = report.0.try_send("started");
                std::future::pending::<String>().await
            }
        })
        .tool_with(tool("introduce"), async |NoArguments {}, cx: Context| {
            let form = ElicitSchema::new([("name", StringSchema::new().into())]);
            let answer = cx.elicit("name", ElicitParams::form("Who are you?", form)).await?;
            Ok::<_, HandlerError>(format!("{:?}", answer.action))
        })
        .tool_with(tool("visit"), move |NoArguments {}, cx: Context| {
            let is_first = visits.fetch_add(1, Ordering::Relaxed) == 0;
            async move {
                if !is_first {
                    return Ok("visited");
                }
                let (error, completion) = cx.require_url("Please look.", "https://example.com/page");
                smol::spawn(async move {
                    // The client may not have read the error yet.
                    while completion.as_ref().is_some_and(ElicitationCompletion::notify) {
                        Timer::after(Duration::from_millis(20)).await;
                    }
                })
                .detach();
                Err(error)
            }
        })
        .tool_with(tool("confirm"), async |NoArguments {}, cx: Context| {
            let confirmed = cx.request_custom("com.example/confirm", json!({ "pages": 3 })).await?;
            Ok::<_, HandlerError>(format!("{:?}", confirmed.extra.get("pages").map(|pages| pages.as_str())))
        })
        .tool_with(tool("think"), async |NoArguments {}, cx: Context| {
            let asked = CreateMessageParams::new([SamplingMessage::user("Why?")], 10_u64);
            let (answer, roots) = (cx.sample("thought", asked).await?, cx.roots("where").await?);
            Ok::<_, HandlerError>(format!("{} {}", answer.content.text_content(), roots.roots[0].uri))
        })
        .prompt(greet, async |NoArguments {}, _| "Hello")
        .completion(async |params: CompleteParams, _| vec![format!("{}!", params.argument.value)])
        .resource(Resource::new("demo://a", "a"), contents)
        .fallback(async |request: CustomRequest, _| {
            let mut result = CustomResult::new();
            result.extra.insert("method", &*request.method);
            result
        })
}

/// What the application's handlers were asked.
type Asked = Arc<Mutex<Vec<&'static str>>>;

fn handlers(asked: &Asked) -> ClientHandlers {
    let note = |what| {
        let asked = asked.clone();
        move || asked.lock().unwrap().push(what)
    };
    let (form, model, roots) = (note("form"), note("model"), note("roots"));
    ClientHandlers::new()
        .elicitation(move |params: ElicitParams, _| {
            let mut answer = ElicitResult::decline();
            if let ElicitParams::Url(_) = params {
                answer.action = ElicitAction::Accept;
            } else {
                form();
            }
            async { answer }
        })
        .declare(|capabilities| {
            let declared = std::mem::take(capabilities);
            *capabilities = declared.with(ClientCapability::ElicitationUrl);
        })
        .custom("com.example/confirm", async |params: CustomParams, _| {
            let mut result = CustomResult::new();
            result.extra = params.extra;
            result
        })
        .sampling(move |_, _| {
            model();
            async { CreateMessageResult::text("Because.", "model") }
        })
        .roots(move |_, _| {
            roots();
            async { ListRootsResult::new([Root::new("file:///home")]) }
        })
}

/// An application that starts `mcpio connect` with these words.
fn application(era: Era, asked: &Asked, words: &[&str]) -> (Client, Task<()>) {
    let mut config = ClientConfig::new(Implementation::new("desk", "1.0"));
    config.era_policy = match era {
        Era::Modern => EraPolicy::ModernOnly,
        Era::Legacy => EraPolicy::LegacyOnly,
    };
    let command = Command::new(program()).args(["connect"]).args(words);
    let (client, driver) = ClientOptions::from(config).handlers(handlers(asked)).connect(command);
    (client, smol::spawn(async { drop(driver.await) }))
}

/// Runs a test in each pair of eras: that of the application, and that of the server.
fn in_each_pair(test: impl AsyncFn(Client, &Upstream, &Asked, (Era, &str))) {
    for era in [Era::Modern, Era::Legacy] {
        for served in ["modern", "legacy"] {
            run(async {
                let (upstream, asked) = (Upstream::start().await, Asked::default());
                let (client, driver) = application(era, &asked, &["--era", served, &upstream.url]);
                client.ready().await.unwrap_or_else(|error| panic!("{era:?} to {served}: {error}"));
                test(client.clone(), &upstream, &asked, (era, served)).await;
                client.close().await;
                driver.await;
            });
        }
    }
}

#[test]
fn connected_server_is_that_behind_it() {
    in_each_pair(async |client, _, _, pair| {
        let server = client.server().unwrap();
        assert_eq!(server.era, pair.0);
        assert_eq!(server.implementation.as_ref().unwrap().version, "9.9");
        assert_eq!(server.instructions.as_deref(), Some("Use it well."));
        let capabilities = server.capabilities.as_ref().unwrap();
        for capability in
            [ServerCapability::Logging, ServerCapability::Completions, ServerCapability::Prompts]
        {
            assert!(capabilities.has(capability), "{pair:?}: {capability:?}");
        }
        assert_eq!(client.list_tools().await.unwrap().len(), 9);
        let marked: Meta = [("com.example/mark", "x".into())].into_iter().collect();
        let who = client.call_tool("who", json!({})).meta(marked).await.unwrap();
        assert_eq!(who.text_content(), "desk Some(\"\\\"x\\\"\")", "{pair:?}");
        let prompt = client.get_prompt("greet", [("name", "Ada")]).await.unwrap();
        assert_eq!(prompt.messages.len(), 1);
        let completed = client.complete(PromptReference::new("greet"), "name", "A").await.unwrap();
        assert_eq!(completed.completion.values, ["A!"]);
        assert_eq!(client.read_resource("demo://a").await.unwrap().contents.len(), 1);
        let unknown = client.read_resource("demo://b").await.unwrap_err();
        assert!(unknown.is_resource_not_found(), "{pair:?}: {unknown}");
        let unknown = client.call_tool("no-such", json!({})).await.unwrap_err();
        assert_eq!(unknown.code(), Some(-32602), "{pair:?}");
        let custom = client.request_custom("com.example/status", json!({ "a": 1 })).await.unwrap();
        assert_eq!(custom.extra.get("method").unwrap().as_str(), "\"com.example/status\"");
    });
}

#[test]
fn progress_and_notifications_pass() {
    in_each_pair(async |client, upstream, _, pair| {
        let reports = Arc::new(Mutex::new(Vec::new()));
        let seen = reports.clone();
        let half = client.call_tool("half", json!({}));
        let half = half.on_progress(move |report| seen.lock().unwrap().push((report.total, report.message)));
        assert_eq!(half.await.unwrap().text_content(), "done");
        let reports = reports.lock().unwrap().clone();
        assert_eq!(reports, [(Some(2.into()), Some("half".to_owned()))], "{pair:?}");

        let mut events = client.events();
        if pair.0 == Era::Legacy {
            client.set_level(LoggingLevel::Info).await.unwrap();
        }
        client.call_tool("log", json!({})).log_level(LoggingLevel::Info).await.unwrap();
        let mut next = async || loop {
            if let Some(Event::Notification(notification)) = events.next().await {
                return notification;
            }
        };
        let logged = next().await.decode::<LoggingMessage>().unwrap().unwrap();
        assert_eq!((logged.logger.as_deref(), logged.data.as_str()), (Some("upstream"), "\"look here\""));
        let paper = next().await;
        assert_eq!(
            (&*paper.method, paper.params.unwrap().as_str()),
            ("com.example/paper", "{\"sheets\":12}")
        );
        client.notify_custom("com.example/refill", ()).unwrap();
        assert_eq!(upstream.reports.recv().await, Ok("refilled"), "{pair:?}");
    });
}

#[test]
fn task_of_the_server_is_one_for_an_application_of_the_same_era() {
    in_each_pair(async |client, _, _, pair| {
        let mut events = client.events();
        let baked = client.call_tool("bake", json!({})).await.unwrap();
        assert_eq!(baked.text_content(), "baked", "{pair:?}");
        if pair == (Era::Modern, "modern") {
            while !matches!(events.next().await, Some(Event::TaskStatus { .. })) {}
        }
    });
}

#[test]
fn cancellation_reaches_the_server_and_the_connection_stays() {
    in_each_pair(async |client, upstream, _, pair| {
        let slow = client.call_tool("slow", json!({})).start().unwrap();
        assert_eq!(upstream.reports.recv().await, Ok("started"), "{pair:?}");
        slow.cancel("enough");
        assert_eq!(upstream.reports.recv().await, Ok("dropped"), "{pair:?}");
        assert_eq!(client.call_tool("half", json!({})).await.unwrap().text_content(), "done");
    });
}

#[test]
fn servers_requests_reach_the_application() {
    in_each_pair(async |client, _, asked, pair| {
        let introduced = client.call_tool("introduce", json!({})).await.unwrap();
        assert_eq!(introduced.text_content(), "Decline", "{pair:?}");
        let thought = client.call_tool("think", json!({})).await.unwrap();
        assert_eq!(thought.text_content(), "Because. file:///home", "{pair:?}");
        assert_eq!(*asked.lock().unwrap(), ["form", "model", "roots"], "{pair:?}");
        // Newer servers send no requests, and newer clients take none.
        if pair == (Era::Legacy, "legacy") {
            let confirmed = client.call_tool("confirm", json!({})).await.unwrap();
            assert_eq!(confirmed.text_content(), "Some(\"3\")");
        }
    });
}

#[test]
fn end_of_a_visit_reaches_the_application() {
    in_each_pair(async |client, _, _, (era, served)| {
        // Newer servers have no such error.
        if served == "legacy" {
            let visited = client.call_tool("visit", json!({})).await;
            assert_eq!(visited.unwrap().text_content(), "visited", "{era:?}");
        }
    });
}

#[test]
fn changes_reach_the_applications_subscriptions() {
    in_each_pair(async |client, upstream, _, pair| {
        let mut watch = client.watch().tools().resource("demo://a").open().unwrap();
        let changed = async |watch: &mut mcp_proto::front::Watch, wanted: Change| loop {
            // Until the subscription is in effect at both sides.
            match wanted {
                Change::Tools => upstream.handle.list_changed(ListKind::Tools),
                _ => upstream.handle.resource_updated("demo://a"),
            }
            let pause = async {
                Timer::after(Duration::from_millis(50)).await;
                None
            };
            if let Some(WatchUpdate::Changed { change, .. }) = watch.next().or(pause).await
                && format!("{change:?}") == format!("{wanted:?}")
            {
                return;
            }
        };
        changed(&mut watch, Change::Tools).await;
        changed(&mut watch, Change::Resource("demo://a".to_owned())).await;
        drop((watch, pair));
    });
}

#[test]
fn program_of_the_other_era_is_connected() {
    let server = program();
    for (era, served) in [(Era::Legacy, "modern"), (Era::Modern, "legacy")] {
        run(async {
            let asked = Asked::default();
            let words = ["--era", served, "--", server.to_str().unwrap(), "serve"];
            let (client, driver) = application(era, &asked, &words);
            let introduced = client.call_tool("introduce", json!({})).await.unwrap();
            assert_eq!(introduced.text_content(), "A stranger, then.");
            client.close().await;
            driver.await;
        });
    }
}

/// `mcpio connect` as a process whose lines the test writes.
struct Connected {
    child: smol::process::Child,
}

impl Connected {
    fn start(words: &[&str]) -> Self {
        let mut command = smol::process::Command::new(program());
        command.arg("connect").args(words).kill_on_drop(true);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        Self { child: child.unwrap() }
    }

    async fn initialize(&mut self) {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "desk", "version": "1.0" },
        });
        self.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params })).await;
    }

    async fn send(&mut self, message: &Value) {
        let line = format!("{message}\n");
        self.child.stdin.as_mut().unwrap().write_all(line.as_bytes()).await.unwrap();
    }

    /// Waits for the end; returns the messages, standard error, and the exit code.
    async fn end(mut self) -> (Vec<Value>, String, i32) {
        let (mut out, mut err) = (String::new(), String::new());
        let (mut stdout, mut stderr) = (self.child.stdout.take().unwrap(), self.child.stderr.take().unwrap());
        let read = smol::future::zip(stdout.read_to_string(&mut out), stderr.read_to_string(&mut err));
        read.await.0.unwrap();
        let code = self.child.status().await.unwrap().code().unwrap();
        (out.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), err, code)
    }
}

#[test]
fn end_of_the_application_cancels_its_calls_and_ends_the_session() {
    run(async {
        let upstream = Upstream::start().await;
        let mut connected = Connected::start(&["--era", "legacy", &upstream.url]);
        connected.initialize().await;
        connected.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        let call = json!({ "name": "slow", "arguments": {} });
        connected.send(&json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call })).await;
        assert_eq!(upstream.reports.recv().await, Ok("started"));
        let resource = json!({ "uri": "demo://a" });
        let subscribe =
            json!({ "jsonrpc": "2.0", "id": 3, "method": "resources/subscribe", "params": resource });
        connected.send(&subscribe).await;
        while upstream.handle.subscribed_resources().is_empty() {
            Timer::after(Duration::from_millis(2)).await;
        }
        drop(connected.child.stdin.take());
        assert_eq!(upstream.reports.recv().await, Ok("dropped"));
        let (messages, err, code) = connected.end().await;
        assert!(upstream.handle.subscribed_resources().is_empty(), "the session still exists");
        assert_eq!((code, &messages[0]["result"]["serverInfo"]["name"]), (0, &json!("upstream")), "{err}");
        assert!(err.is_empty(), "{err}");
    });
    run(async {
        // This server never answers.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut waiting = Connected::start(&[&format!("http://{}/mcp", listener.local_addr().unwrap())]);
        waiting.initialize().await;
        drop(waiting.child.stdin.take());
        assert_eq!(waiting.end().await, (Vec::new(), String::new(), 0));
    });
    run(async {
        let mut silent = Connected::start(&["http://127.0.0.1:1/mcp"]);
        drop(silent.child.stdin.take());
        assert_eq!(silent.end().await, (Vec::new(), String::new(), 0));
    });
}

#[test]
fn server_that_cannot_be_connected_is_an_error_for_the_application_and_its_user() {
    for words in [&["http://127.0.0.1:1/mcp"][..], &["--", "sh", "-c", "echo 'no database' >&2; exit 9"]] {
        run(async {
            let mut connected = Connected::start(words);
            connected.initialize().await;
            let (messages, err, code) = connected.end().await;
            let error = &messages[0]["error"];
            assert_eq!((code, messages.len(), &messages[0]["id"]), (3, 1, &json!(1)), "{err}");
            assert_eq!(error["code"], -32603);
            let message = error["message"].as_str().unwrap();
            assert!(err.starts_with("mcpio: ") || err.contains("\nmcpio: "), "{err}");
            for cause in [message, &err] {
                assert!(cause.contains("127.0.0.1:1") || cause.contains("no database"), "{cause}");
            }
        });
    }
}

#[test]
fn login_opens_its_page_and_standard_output_has_messages_only() {
    run(async {
        let town = AuthTestbed::new().await;
        let folder = std::env::temp_dir().join(format!("mcp-cli-connect-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let url = town.url();
        let words = ["--no-browser", "--private-networks", "--tokens", folder.to_str().unwrap(), &url];
        let mut connected = Connected::start(&words);
        connected.initialize().await;
        let mut lines = BufReader::new(connected.child.stderr.take().unwrap()).lines();
        while let Some(line) = lines.next().await {
            if let Some(page) = line.unwrap().trim().strip_prefix("http://") {
                assert_eq!(auth_testbed::agree(&format!("http://{page}")).await.status, 200);
                break;
            }
        }
        let mut answers = BufReader::new(connected.child.stdout.take().unwrap()).lines();
        let answer: Value = serde_json::from_str(&answers.next().await.unwrap().unwrap()).unwrap();
        assert!(answer["result"]["serverInfo"].is_object(), "{answer}");
        drop(connected.child.stdin.take());
        assert_eq!(connected.child.status().await.unwrap().code(), Some(0));
        std::fs::remove_dir_all(&folder).unwrap();
    });
}

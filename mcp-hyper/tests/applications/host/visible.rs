//! Frames, diagnostics, records of connections, and contexts of calls.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_hyper::WireEvent;
use mcp_hyper::host::{HostEvent, HostOptions, WireFrame, WireObserver};
use mcp_hyper::http::StatusCode;
use mcp_hyper::http::header::{CONTENT_TYPE, HeaderMap};
use mcp_hyper::mcp_proto::host::config::{Config, ConfigFile, Lookup, Source};
use mcp_hyper::mcp_proto::host::control::Status;
use mcp_hyper::mcp_proto::schema::{Meta, Revision, TraceContext};
use mcp_hyper::mcp_proto::transport::http::ExchangeId;
use mcp_smol::WireDirection;
use serde_json::json;

use super::testbed::*;
use crate::common::runtime::within;
use crate::common::server::*;

/// The frames of each server, as `Display` and `Debug` show them.
type Frames = Arc<Mutex<BTreeMap<String, Vec<String>>>>;

/// Watches all servers but `unwatched`, and `raw` with its secrets.
fn watched(options: HostOptions, frames: &Frames) -> HostOptions {
    let frames = frames.clone();
    options.on_wire(move |entry| {
        let (server, frames) = (entry.name().to_owned(), frames.clone());
        let is_raw = server == "raw";
        let keep = move |frame: WireFrame<'_>| {
            let mut frames = frames.lock().unwrap();
            frames.entry(server.clone()).or_default().push(format!("{frame} {frame:?}"));
        };
        let observer = WireObserver::new(keep);
        (entry.name() != "unwatched").then(|| if is_raw { observer.unredacted() } else { observer })
    })
}

/// F104
#[test]
fn host_shows_frames_in_wire_order_without_their_secrets() {
    bounded(async {
        let folder = Folder::new();
        let (listener, address) = listener();
        let (_server, driver) = serving(router(&HandlerLog::default())).listen(listener);
        let _serving = smol::spawn(within(driver));
        let with_key = |name: &str| {
            let mut program = folder.demo(name);
            program["env"] = json!({ "API_KEY": "hunter2-of-env" });
            program["args"].as_array_mut().unwrap().push("${env:DB_PASSWORD}".into());
            program
        };
        let headers = json!({ "Authorization": "Bearer hunter2-of-header" });
        let url = format!("http://ann:hunter2-of-url@{address}/mcp?key=hunter2-of-query");
        let servers = json!({
            "one": with_key("one"),
            "raw": with_key("raw"),
            "unwatched": folder.demo("unwatched"),
            "web": { "url": url, "headers": headers },
        });
        let frames = Frames::default();
        let look_up = |_, lookup| {
            let is_known = matches!(lookup, Lookup::Variable(name) if name == "DB_PASSWORD");
            std::future::ready(is_known.then(|| mcp_hyper::mcp_proto::Secret::new("hunter2-of-lookup")))
        };
        let (host, _driver) = start(watched(options(config(servers)), &frames).lookups(look_up));
        host.ready().await;
        let secrets = "hunter2-of-env hunter2-of-lookup hunter2-of-header";
        let arguments = json!({ "text": secrets, "message": secrets, "password": "hunter2" });
        for tool in ["mcp__one__echo", "mcp__raw__echo", "mcp__unwatched__echo", "mcp__web__echo"] {
            let _ = host.call_tool(tool, &arguments).await;
        }
        host.close().await;
        let frames = frames.lock().unwrap();
        assert_eq!(frames.keys().collect::<Vec<_>>(), ["one", "raw", "web"]);
        assert!(
            frames["one"][0].starts_with("→ {") && frames["one"][0].contains("server/discover"),
            "{frames:?}"
        );
        for server in ["one", "web"] {
            let shown = frames[server].join("\n");
            let own = if server == "one" { ["-of-env", "-of-lookup"] } else { ["-of-header", "-of-url"] };
            assert!(!own.iter().any(|secret| shown.contains(secret)), "{shown}");
            assert!(!shown.contains("\"hunter2\"") && !shown.contains("of-query"), "{shown}");
            let at = |what: &str| frames[server].iter().position(|frame| frame.contains(what));
            let list = (at("\"tools/list\""), at("\"inputSchema\""));
            assert!(list.0.is_some() && list.0 < list.1 && list.1 < at("\"tools/call\""), "{shown}");
            let call = at("\"tools/call\"").unwrap();
            assert!(frames[server][call].contains(r#""password":"[redacted]""#), "{shown}");
            assert!(frames[server].len() > call + 1, "the answer follows");
        }
        assert!(
            frames["web"].iter().any(|frame| frame.starts_with("→ POST http://[redacted]@")),
            "{frames:?}"
        );
        assert!(frames["web"].iter().any(|frame| frame.starts_with("← 200 OK")), "{frames:?}");
        assert!(frames["raw"].join("\n").contains(r#""password":"hunter2""#), "{frames:?}");
    });
}

/// What an observer shows of these bytes in pieces of this size: lines of a program, or the body of a response.
fn shown(bytes: &[u8], piece: usize, media_type: Option<&str>) -> Vec<String> {
    let frames = Arc::new(Mutex::new(Vec::new()));
    let keep = frames.clone();
    let mut observer = WireObserver::new(move |frame| keep.lock().unwrap().push(frame.to_string()));
    let exchange = ExchangeId::new(7);
    if let Some(media_type) = media_type {
        let headers = &HeaderMap::from_iter([(CONTENT_TYPE, media_type.parse().unwrap())]);
        observer.handle_event(WireEvent::Head { exchange, status: StatusCode::OK, headers });
    }
    for bytes in bytes.chunks(piece) {
        match media_type {
            Some(_) => observer.handle_event(WireEvent::Body { exchange, bytes }),
            None => observer.handle_bytes(WireDirection::Received, bytes),
        }
    }
    observer.handle_event(WireEvent::Aborted { exchange });
    drop(observer);
    Arc::into_inner(frames).unwrap().into_inner().unwrap()
}

/// Contract 4, F104: secrets at the borders of chunks are hidden too.
#[test]
fn frames_do_not_depend_on_chunks() {
    let message = r#"{"jsonrpc":"2.0","id":1,"result":{"password":"hunter2","text":"ü"}}"#;
    let lines = format!("{message}\r\nnot JSON: token=hunter2\n{message}\n");
    let events = format!("event: message\ndata: {message}\n\n: ping\n\ndata: {message}\n\n");
    for (text, media_type) in [
        (&lines, None),
        (&events, Some("text/event-stream")),
        (&message.to_owned(), Some("application/json")),
    ] {
        let whole = shown(text.as_bytes(), usize::MAX, media_type);
        let all = whole.join("\n");
        assert!(all.contains("[redacted]") && !all.contains("hunter2"), "{all}");
        for piece in 1..20 {
            assert_eq!(shown(text.as_bytes(), piece, media_type), whole);
        }
    }
}

/// F105
#[test]
fn host_reports_what_the_client_of_a_server_noticed() {
    bounded(async {
        let folder = Folder::new();
        let demo =
            format!("echo 'this is no message'; exec '{}' serve", crate::common::cli::program().display());
        let servers = json!({ "one": folder.script("one", &demo) });
        let (host, mut events, _driver) = start_watched(options(config(servers)));
        let (server, diagnostic) = loop {
            if let HostEvent::Diagnostic { server, diagnostic } = events.next().await.unwrap() {
                break (server, diagnostic);
            }
        };
        assert_eq!(&*server, "one");
        assert!(diagnostic.to_string().contains("not a message"), "{diagnostic}");
        host.close().await;
    });
}

/// F105
#[test]
fn call_of_a_host_takes_its_meta_along_and_its_end_repeats_it() {
    bounded(async {
        let folder = Folder::new();
        let frames = Frames::default();
        let servers = json!({ "one": folder.demo("one") });
        let (host, mut events, _driver) = start_watched(watched(options(config(servers)), &frames));
        let context = TraceContext::new("00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01").unwrap();
        let mut meta = Meta::new();
        meta.insert("example.com/step", 7);
        let arguments = json!({ "text": "hi" });
        host.call_for_model("mcp__one__echo", &arguments)
            .meta(meta)
            .trace_context(context.clone())
            .await
            .unwrap();
        host.call_tool("mcp__one__echo", &arguments).trace_context(None).await.unwrap();
        let mut ended = Vec::new();
        while ended.len() < 2 {
            if let HostEvent::CallEnded { meta, .. } = events.next().await.unwrap() {
                ended.push(meta);
            }
        }
        let meta = ended[0].as_ref().unwrap();
        assert_eq!(meta.trace_context().as_ref(), Some(&context));
        assert_eq!(meta.get("example.com/step").unwrap().as_str(), "7");
        assert!(ended[1].is_none());
        let frames = frames.lock().unwrap();
        let sent = frames["one"].iter().find(|frame| frame.contains("\"tools/call\"")).unwrap();
        assert!(sent.contains(context.traceparent()) && sent.contains(r#""example.com/step":7"#), "{sent}");
    });
}

/// F105
#[test]
fn host_has_a_record_of_each_connection() {
    bounded(async {
        let folder = Folder::new();
        let (listener, address) = listener();
        let (_server, driver) = serving(router(&HandlerLog::default())).listen(listener);
        let _serving = smol::spawn(within(driver));
        let one = folder.demo("one");
        let text = format!(
            "{{\n\"mcpServers\": {{\n\"one\": {one},\n\n\"web\": {{ \"url\": \"http://{address}/mcp\" }} }} }}"
        );
        let source = Source::user("/home/ann/.cursor/mcp.json");
        let config = Config::merge([ConfigFile::parse(source.clone(), text.as_bytes())]);
        let (host, mut events, _driver) = start_watched(options(config));
        let mut records = BTreeMap::new();
        while records.len() < 2 {
            if let HostEvent::Connected { server, report } = events.next().await.unwrap() {
                records.insert(server.to_string(), report);
            }
        }
        for (server, transport, line, tools) in [("one", "stdio", 3, 6), ("web", "http", 5, 1)] {
            let record = &records[server];
            assert_eq!((&*record.name, record.status), (server, Status::Connected));
            let entry = &record.entry;
            assert_eq!((entry.spec().transport.name(), entry.line()), (transport, Some(line)));
            assert_eq!(entry.source(), &source);
            let info = record.info.as_ref().unwrap();
            assert_eq!(info.revision, Revision::V2026_07_28);
            assert!(!info.implementation.as_ref().unwrap().name.is_empty());
            assert!(record.items.tools >= tools, "{record:?}");
            let steps = record.steps;
            let spent = [steps.look_up, steps.handshake, steps.tools].map(Option::unwrap);
            assert!(spent.iter().sum::<Duration>() <= record.start_time.unwrap() && steps.lists.is_some());
            assert_eq!((record.counters.attempts, record.counters.calls), (1, 0));
        }
        host.call_tool("mcp__one__echo", json!({ "text": "hi" })).await.unwrap();
        let counters = |server: &str| host.server(server).unwrap().counters;
        until("it is counted", || counters("one").answered == 1).await;
        assert_eq!((counters("one").calls, counters("web").calls, host.counters().calls), (1, 0, 1));
    });
}

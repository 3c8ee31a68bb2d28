//! Lists of servers, and their changes.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mcp_hyper::host::{CallError, HostEvent, Storage, StorageFuture};
use mcp_hyper::mcp_proto::front::NoArguments;
use mcp_hyper::mcp_proto::host::control::Status;
use mcp_hyper::mcp_proto::host::tools::{Freshness, ItemKind, LookupError, NameScheme};
use mcp_hyper::mcp_proto::schema::Tool;
use mcp_hyper::{LiveRouter, Router};
use serde_json::json;

use super::testbed::*;
use crate::common::runtime::within;
use crate::common::server::*;

fn tool(name: &str) -> Tool {
    Tool::new(name, "", json!({ "type": "object" }))
}

fn live() -> LiveRouter {
    Router::new("live", "1").tool_with(tool("first"), async |NoArguments {}, _| "first").live()
}

/// F100
#[test]
fn changed_list_of_tools_is_read_again() {
    bounded(async {
        let live = live();
        let (listener, address) = listener();
        let (_server, driver) = serving(live.clone()).listen(listener);
        let _serving = smol::spawn(within(driver));
        let servers = json!({ "web": { "url": format!("http://{address}/mcp") } });
        let (host, _driver) = start(options(config(servers)));
        host.ready().await;
        assert_eq!(tool_names(&host), ["mcp__web__first"]);
        let mut events = host.events();
        live.update(|router| router.tool_with(tool("second"), async |NoArguments {}, _| "second")).unwrap();
        until("the tool is listed", || tool_names(&host) == ["mcp__web__first", "mcp__web__second"]).await;
        let mut seen = Vec::new();
        while seen.len() < 2 {
            match events.next().await.unwrap() {
                HostEvent::CatalogueChanged { kind: ItemKind::Tool, .. } => seen.push("catalogue".to_owned()),
                HostEvent::PinsChanged { changes, .. } => seen.push(changes[0].to_string()),
                _ => {}
            }
        }
        assert_eq!(seen, ["catalogue", "tool `second` added"]);
        let called = host.call_tool("mcp__web__second", json!({})).await.unwrap();
        assert_eq!(called.text_content(), "second");
    });
}

/// F88
#[test]
fn prompts_resources_and_instructions_are_listed() {
    bounded(async {
        let folder = Folder::new();
        let (host, _driver) = start(options(config(json!({ "one": folder.demo("one") }))));
        host.ready().await;
        until("everything is listed", || {
            host.catalogue(|catalogue| {
                catalogue.prompts().count() > 0
                    && catalogue.resources().count() > 1
                    && catalogue.templates().count() > 0
                    && catalogue.instructions_of("one").is_some()
            })
        })
        .await;
        let prompt = host.get_prompt("mcp__one__greet", [("name", "Ada")]).await.unwrap();
        assert!(!prompt.messages.is_empty());
        let names: Vec<_> = host.catalogue(|catalogue| {
            catalogue.resources().map(|entry| (entry.name.to_owned(), entry.item.uri.clone())).collect()
        });
        let (name, uri) = &names[0];
        let read = host.read_resource(name).await.unwrap();
        assert!(!read.contents.is_empty(), "{uri}");
        assert_eq!(host.server("one").unwrap().lists, Freshness::Current);
        host.set_enabled("one", false).unwrap();
        until("the lists are old", || host.server("one").unwrap().lists == Freshness::Stale).await;
        assert_eq!(status(&host, "one"), Status::Disabled);
        assert!(host.catalogue(|catalogue| catalogue.tool("mcp__one__echo").is_ok()));
        // Nothing that is switched off is offered.
        assert_eq!(tool_names(&host), [""; 0]);
    });
}

/// F88
#[test]
fn requests_for_prompts_and_resources_of_a_starting_server_wait_for_its_lists() {
    bounded(async {
        let folder = Folder::new();
        let slow = format!("sleep 0.2; exec '{}' serve", crate::common::cli::program().display());
        let (host, _driver) = start(options(config(json!({ "slow": folder.script("slow", &slow) }))));
        let prompt = host.get_prompt("mcp__slow__greet", [("name", "Ada")]);
        let resource = host.read_resource(&NameScheme::default().name("slow", "demo://greeting"));
        let missing = host.get_prompt("mcp__slow__missing", [("name", "Ada")]);
        assert_eq!(status(&host, "slow"), Status::Starting);
        assert!(!prompt.await.unwrap().messages.is_empty());
        assert!(!resource.await.unwrap().contents.is_empty());
        let unknown = missing.await.unwrap_err();
        assert!(matches!(unknown, CallError::Name(LookupError::Unknown)), "{unknown}");
    });
}

/// A storage that records the times of its writes and has no values.
#[derive(Clone, Default)]
struct TimedStorage(Arc<Mutex<Vec<Instant>>>);

impl Storage for TimedStorage {
    fn get<'a>(&'a self, _: &'a str) -> StorageFuture<'a, Option<Vec<u8>>> {
        Box::pin(async { Ok(None) })
    }

    fn put<'a>(&'a self, _: &'a str, _: Vec<u8>) -> StorageFuture<'a, ()> {
        self.0.lock().unwrap().push(Instant::now());
        Box::pin(async { Ok(()) })
    }

    fn remove<'a>(&'a self, _: &'a str) -> StorageFuture<'a, ()> {
        Box::pin(async { Ok(()) })
    }
}

#[test]
fn server_that_changes_its_list_without_end_is_read_and_stored_less_and_less_often() {
    bounded(async {
        let folder = Folder::new();
        // Each list is another one, and announces the next.
        let script = crate::common::cli::script(&format!(
            r#"n=0; while ask; do case $line in
                *'"initialize"'*) answer '{{"protocolVersion":"2025-11-25","capabilities":{{"tools":{{"listChanged":true}}}},"serverInfo":{{"name":"s","version":"1"}}}}' ;;
                *server/discover*) refuse 'no' ;;
                *tools/list*) n=$((n+1)); echo $n >> '{}'; answer '{{"tools":[{{"name":"t'$n'","inputSchema":{{"type":"object"}}}}]}}'
                    printf '{{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}}\n' ;;
            esac; done"#,
            folder.path().join("lists").display(),
        ));
        let storage = TimedStorage::default();
        let servers = json!({ "flood": folder.script("flood", &script) });
        let begin = Instant::now();
        let (host, _driver) = start(options(config(servers)).storage(storage.clone()));
        host.ready().await;
        let lists = || std::fs::read_to_string(folder.path().join("lists")).unwrap().lines().count();
        until("six lists were read", || lists() >= 6).await;
        assert!(begin.elapsed() >= Duration::from_millis(50 + 100 + 200 + 400), "{:?}", begin.elapsed());
        until("two values were stored", || storage.0.lock().unwrap().len() >= 2).await;
        let stored = storage.0.lock().unwrap().clone();
        // The pause before the second is twice as long as that before the first.
        assert!(stored[1] - stored[0] >= Duration::from_millis(500), "{stored:?}");
        assert_eq!(tool_names(&host).len(), 1);
    });
}

//! What a model reads: results of prompts and resources as those of tools, and errors of calls as text.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use mcp_hyper::host::{CallError, Host, SpillFolder};
use mcp_hyper::mcp_proto::front::{NoArguments, Router};
use mcp_hyper::mcp_proto::host::control::Repeat;
use mcp_hyper::mcp_proto::host::tools::ResultLimits;
use mcp_hyper::mcp_proto::schema::{Prompt, ReadResource, ReadResourceParams, Resource, Role, Tool};
use serde_json::json;

use super::testbed::*;
use crate::common::runtime::within;
use crate::common::server::*;

/// A server at a URL as the server `web` of a configuration.
fn serve(router: Router) -> (serde_json::Value, smol::Task<std::io::Result<()>>) {
    let (listener, address) = listener();
    let (server, driver) = serving(router).listen(listener);
    let serving = smol::spawn(async move {
        let _server = server;
        within(driver).await
    });
    (json!({ "web": { "url": format!("http://{address}/mcp") } }), serving)
}

/// What a model reads of a call that fails.
async fn failure(host: &Host, tool: &str) -> Result<String, CallError> {
    let content = host.call_for_model(tool, json!({})).timeout(Duration::from_millis(100)).await?;
    assert!(content.is_error && content.is_call_error, "{content:?}");
    Ok(content.to_text())
}

/// F96
#[test]
fn errors_of_calls_reach_a_model_as_text_if_the_host_is_asked_to() {
    bounded(async {
        let (servers, _serving) = serve(router(&HandlerLog::default()));
        let (host, _driver) = start(options(config(servers.clone())));
        host.ready().await;
        assert!(matches!(failure(&host, "mcp__web__wait").await, Err(CallError::TimedOut)));
        assert!(matches!(failure(&host, "mcp__web__none").await, Err(CallError::Name(_))));

        let (host, _driver) = start(options(config(servers)).errors_as_content(true));
        host.ready().await;
        let late = failure(&host, "mcp__web__wait").await.unwrap();
        assert_eq!(late, "MCP error: the server did not answer in time");
        let unknown = failure(&host, "mcp__web__none").await.unwrap();
        assert!(unknown.starts_with("MCP error: no server has an item of this name"), "{unknown}");
        // That is for the application.
        host.close().await;
        let closed = failure(&host, "mcp__web__wait").await;
        assert!(matches!(closed, Err(CallError::Closed | CallError::Unavailable { .. })), "{closed:?}");
    });
}

/// F98: the tool's structured content is not what its output schema says.
#[cfg(feature = "schema-validate")]
#[test]
fn result_that_does_not_match_its_schema_reaches_a_model_as_text() {
    bounded(async {
        let folder = Folder::new();
        let script = crate::common::cli::script(
            r#"while ask; do case $line in
                *'"initialize"'*) answer '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
                *server/discover*) refuse 'no' ;;
                *tools/list*) answer '{"tools":[{"name":"age","inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"years":{"type":"integer"}}}}]}' ;;
                *tools/call*) answer '{"content":[],"structuredContent":{"years":"many"}}' ;;
            esac; done"#,
        );
        let servers = json!({ "one": folder.script("one", &script) });
        let (host, _driver) = start(options(config(servers)).errors_as_content(true));
        host.ready().await;
        let content = host.call_for_model("mcp__one__age", json!({})).await.unwrap();
        let text = content.to_text();
        assert!(content.is_call_error && text.contains("years") && !text.contains("{\"years"), "{text}");
    });
}

/// F96
#[test]
fn call_for_a_model_has_the_options_of_a_call() {
    bounded(async {
        let (servers, _serving) = serve(router(&HandlerLog::default()));
        let (host, _driver) = start(options(config(servers)));
        host.ready().await;
        let reports = Arc::new(AtomicUsize::new(0));
        let count = reports.clone();
        let content = host
            .call_for_model("mcp__web__report", json!({ "message": "done" }))
            .repeat(Repeat::IfLost)
            .on_progress(move |_| _ = count.fetch_add(1, SeqCst))
            .await
            .unwrap();
        assert_eq!((content.to_text().as_str(), reports.load(SeqCst)), ("done", 1));
    });
}

/// F99
#[test]
fn prompts_and_resources_reach_a_model_within_the_limits_of_results() {
    bounded(async {
        let folder = Folder::new();
        let long = || "x".repeat(5_000);
        let router = Router::new("notes", "1")
            .tool_with(Tool::new("t", "", json!({ "type": "object" })), async |NoArguments {}, _| "")
            .prompt(Prompt::new("review"), async |NoArguments {}, _| "Review this.")
            .prompt(Prompt::new("long"), move |NoArguments {}, _| async move { long() })
            .resource(Resource::new("note:///long", "long"), move |_, _| async move { long() });
        let (servers, _serving) = serve(router);
        let limits =
            ResultLimits { text_bytes: 1_000, head_bytes: 100, tail_bytes: 50, ..ResultLimits::default() };
        let spills = SpillFolder::new(folder.path().join("results"));
        let (host, _driver) = start(options(config(servers)).spill_folder(spills).result_limits(limits));
        host.ready().await;

        let none: [(&str, &str); 0] = [];
        let review = host.get_prompt_for_model("mcp__web__review", none).await.unwrap();
        let texts: Vec<_> = review.iter().map(|message| (message.role, message.content.to_text())).collect();
        assert_eq!(texts, [(Role::User, "Review this.".to_owned())]);
        let cut = host.get_prompt_for_model("mcp__web__long", none).await.unwrap();
        saved_whole(&cut[0].content.to_text());

        let name = host.catalogue(|catalogue| catalogue.resources().next().unwrap().name.to_owned());
        saved_whole(&host.read_resource_for_model(&name).await.unwrap().to_text());
        // By its URI, as a result may link to it.
        let read = |uri: &str| host.request::<ReadResource>("web", ReadResourceParams::new(uri));
        saved_whole(&host.for_model("long", read("note:///long")).await.unwrap().to_text());
        let missing = host.for_model("none", read("note:///none")).await.unwrap();
        assert!(missing.to_text().starts_with("MCP error: "), "{missing:?}");
        // A prompt is the user's command.
        let unknown = host.get_prompt_for_model("mcp__web__none", none).await;
        assert!(matches!(unknown, Err(CallError::Name(_))), "{unknown:?}");
    });
}

fn saved_whole(text: &str) {
    assert!(text.len() < 500, "{text}");
    let file = text.split(" All: ").nth(1).unwrap().lines().next().unwrap();
    assert!(fs::read_to_string(file).unwrap().ends_with(&"x".repeat(5_000)));
}

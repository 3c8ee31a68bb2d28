//! The dialect of tool frames. Rows K15, F59, F60.

use async_tungstenite::tungstenite::Message;
use futures_lite::StreamExt as _;
use mcp_hyper::mcp_proto::peer::client::EraPolicy;
use serde_json::{Value, json};

use super::client::accept_socket;
use super::frames::open;
use super::pair::{TestServer, speaking};
use crate::common::client::{accept, connect, listen, run};

/// F59, F60, K15
#[test]
fn client_sends_tool_frames_with_rising_ids_and_ignores_other_frames() {
    run(async {
        let (listener, url) = listen().await;
        let server = smol::spawn(async move {
            let (mut socket, _) = accept_socket(accept(&listener).await.stream, None).await;
            let mut calls = Vec::new();
            while let Some(Ok(message)) = socket.next().await {
                let Message::Text(text) = message else { continue };
                let call: Value = serde_json::from_str(&text).unwrap();
                let said = &call["arguments"]["message"];
                for frame in [
                    json!({ "type": "ping" }),
                    json!({ "type": "notification", "id": call["id"] }),
                    json!({ "id": call["id"], "result": { "content": [{ "type": "text", "text": said }] } }),
                ] {
                    socket.send(Message::text(frame.to_string())).await.unwrap();
                }
                calls.push(call);
            }
            calls
        });
        let options = speaking(EraPolicy::Auto).tool_frames();
        let (client, driver) = connect(options, &url.replace("http:", "ws:"));
        for message in ["one", "two"] {
            let called = client.call_tool("echo", json!({ "message": message })).await.unwrap();
            assert_eq!(called.text_content(), message);
        }
        assert!(client.list_prompts().await.is_err());
        client.close().await;
        driver.await.unwrap();
        let calls = server.await;
        assert_eq!(calls.len(), 2);
        assert!(calls[0]["id"].as_i64().unwrap() < calls[1]["id"].as_i64().unwrap());
        for call in calls {
            let names: Vec<_> = call.as_object().unwrap().keys().collect();
            assert_eq!(names, ["id", "name", "arguments"]);
        }
    });
}

/// K15
#[test]
fn server_answers_tool_frames_only_if_it_opts_in() {
    run(async {
        let frame = || {
            Message::text(json!({ "id": 7, "name": "echo", "arguments": { "message": "hi" } }).to_string())
        };
        let answer = async |server: &TestServer| {
            let mut socket = open(&server.url).await;
            socket.send(frame()).await.unwrap();
            let Message::Text(text) = socket.next().await.unwrap().unwrap() else { panic!() };
            serde_json::from_str::<Value>(&text).unwrap()
        };
        let answered = answer(&TestServer::start(|options| options.tool_frames())).await;
        assert_eq!((&answered["id"], &answered["result"]["content"][0]["text"]), (&json!(7), &json!("hi")));
        let refused = answer(&TestServer::start(|options| options)).await;
        assert_eq!(refused["error"]["code"], -32600);

        let server = TestServer::start(|options| options.tool_frames());
        let (client, _driver) = connect(speaking(EraPolicy::Auto), &server.url);
        let called = client.call_tool("echo", json!({ "message": "MCP as well" })).await.unwrap();
        assert_eq!(called.text_content(), "MCP as well");
    });
}

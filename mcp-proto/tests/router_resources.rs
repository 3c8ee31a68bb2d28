//! Resources, prompts, completions and other methods behind a router.

mod front_common;
mod router_common;

use std::collections::BTreeMap;

use mcp_proto::front::{Answered, HandlerError, Router, RouterError, TemplateError};
use mcp_proto::rpc::code;
use mcp_proto::schema::{
    BlobResourceContents, EmptyResult, InputRequiredResult, ListTools, ListToolsResult, Prompt,
    PromptArgument, PromptMessage, ReadResourceResult, Resource, ResourceContents, ResourceTemplate, Tool,
};
use router_common::Served;
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

fn read(s: &mut Served, uri: &str) -> Value {
    s.result("resources/read", json!({"uri": uri}))["contents"].clone()
}

#[test]
fn a_resource_is_read() {
    for mut s in [Served::modern(notes()), Served::legacy(notes())] {
        let contents = read(&mut s, "note:///today");
        assert_eq!(contents, json!([{"uri": "note:///today", "mimeType": "text/plain", "text": "Buy milk"}]));
    }
}

#[test]
fn a_template_answers_for_what_matches_it() {
    let mut s = Served::modern(notes());
    let contents = read(&mut s, "note:///by-id/7%20up");
    let expected = json!([{"uri": "note:///by-id/7%20up", "mimeType": "text/markdown", "text": "A drink"}]);
    assert_eq!(contents, expected);
}

#[test]
fn a_resource_is_preferred_to_a_template() {
    let router = Router::new("x", "1")
        .template(ResourceTemplate::new("n:{id}", "all"), async |_: BTreeMap<String, String>, _| "template")
        .resource(Resource::new("n:1", "one"), async |_, _| "resource");
    let mut s = Served::modern(router);
    assert_eq!(read(&mut s, "n:1")[0]["text"], "resource");
    assert_eq!(read(&mut s, "n:2")[0]["text"], "template");
}

/// S8.11, S8.12
#[test]
fn a_resource_that_does_not_exist_has_the_code_of_the_revision() {
    for uri in ["note:///tomorrow", "note:///by-id/8"] {
        let error = Served::modern(notes()).error("resources/read", json!({"uri": uri}));
        assert_eq!((&error["code"], &error["data"]["uri"]), (&json!(code::INVALID_PARAMS), &json!(uri)));
        let error = Served::legacy(notes()).error("resources/read", json!({"uri": uri}));
        assert_eq!(error["code"], code::RESOURCE_NOT_FOUND);
    }
}

#[test]
fn a_resource_handler_that_fails_is_an_internal_error() {
    let router = Router::new("x", "1").resource(Resource::new("n:1", "one"), async |_, _| {
        Err::<&str, _>(HandlerError::new("the disk is on fire"))
    });
    let error = Served::modern(router).error("resources/read", json!({"uri": "n:1"}));
    assert_eq!(error, json!({"code": code::INTERNAL_ERROR, "message": "the disk is on fire"}));
}

#[test]
fn a_resource_may_have_any_contents() {
    let router = Router::new("x", "1")
        .resource(Resource::new("n:1", "one"), async |uri, _| {
            vec![ResourceContents::text(uri.clone(), "a"), BlobResourceContents::new(uri, "AAAA").into()]
        })
        .resource(Resource::new("n:2", "two"), async |_, _| ReadResourceResult::new(Vec::new()));
    let mut s = Served::modern(router);
    assert_eq!(read(&mut s, "n:1"), json!([{"uri": "n:1", "text": "a"}, {"uri": "n:1", "blob": "AAAA"}]));
    assert_eq!(read(&mut s, "n:2"), json!([]));
}

#[test]
fn resources_and_templates_are_listed() {
    let mut s = Served::modern(notes());
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
fn uris_are_checked_when_they_are_registered() {
    let router = Router::new("x", "1").resource(Resource::new("/etc/passwd", "p"), async |_, _| "");
    assert_eq!(router.check(), Err(RouterError::Uri { uri: "/etc/passwd".into() }));
    let router =
        Router::new("x", "1").template(ResourceTemplate::new("n:{?q}", "q"), async |Note { .. }, _| "");
    let error = TemplateError::Unsupported { variable: "?q".into() };
    assert_eq!(router.check(), Err(RouterError::Template { template: "n:{?q}".into(), error }));
    let router = notes().resource(Resource::new("note:///today", "again"), async |_, _| "");
    assert!(matches!(router.check(), Err(RouterError::Duplicate { what: "resource", .. })));
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

#[test]
fn a_prompt_is_given_its_arguments() {
    let mut s = Served::modern(reviews());
    let result =
        s.result("prompts/get", json!({"name": "review", "arguments": {"code": "x", "language": "Rust"}}));
    let message = json!({"role": "user", "content": {"type": "text", "text": "Review this Rust: x"}});
    assert_eq!(result["messages"], json!([message]));
    assert_eq!(result["description"], "Reviews code");
}

/// S8.14
#[test]
fn a_prompt_without_a_required_argument_is_refused() {
    let mut s = Served::modern(reviews());
    for arguments in [json!({}), json!({"language": "Rust"})] {
        let error = s.error("prompts/get", json!({"name": "review", "arguments": arguments}));
        assert_eq!(error["code"], code::INVALID_PARAMS);
        assert!(error["message"].as_str().unwrap().contains("code"), "{error}");
    }
}

/// S8.14
#[test]
fn a_prompt_that_does_not_exist_is_refused() {
    let error = Served::modern(reviews()).error("prompts/get", json!({"name": "rewrite"}));
    assert_eq!(error["code"], code::INVALID_PARAMS);
}

#[test]
fn a_raw_prompt_gets_the_answers_to_what_it_asked_for() {
    let router = Router::new("x", "1").prompt_raw(Prompt::new("p"), async |get, _| match get.request_state {
        Some(state) => Answered::Result(state),
        None => {
            let mut needed = InputRequiredResult::new();
            needed.request_state = Some("round two".into());
            Answered::InputRequired(needed)
        }
    });
    let mut s = Served::modern(router);
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
    let result = Served::modern(router).result("prompts/get", json!({"name": "p"}));
    assert_eq!(result["messages"][1]["role"], "assistant");
}

// --- Completion ---

fn complete(s: &mut Served, typed: &str) -> Value {
    let params = json!({
        "ref": {"type": "ref/prompt", "name": "review"}, "argument": {"name": "language", "value": typed},
    });
    s.result("completion/complete", params)["completion"].clone()
}

/// S8.17
#[test]
fn at_most_a_hundred_completions_are_sent_and_all_are_counted() {
    let router = reviews().completion(async |params, _| {
        (0..250).map(|number| format!("{}{number}", params.argument.value)).collect::<Vec<_>>()
    });
    let mut s = Served::modern(router);
    let completion = complete(&mut s, "r");
    assert_eq!(completion["values"].as_array().unwrap().len(), 100);
    assert_eq!((&completion["total"], &completion["hasMore"]), (&json!(250), &json!(true)));
    assert_eq!(completion["values"][0], "r0");
}

#[test]
fn a_few_completions_are_all_there_is() {
    let router = reviews().completion(async |_, _| vec!["Rust".to_owned()]);
    let completion = complete(&mut Served::modern(router), "");
    assert_eq!(completion, json!({"values": ["Rust"], "total": 1, "hasMore": false}));
}

// --- Other methods ---

#[test]
fn a_list_may_have_a_handler_of_its_own() {
    let router = Router::new("x", "1").handler::<ListTools, _, _>(async |params, _| {
        let name = params.cursor.unwrap_or("first".into());
        ListToolsResult::new(vec![Tool::new(name, "", json!({"type": "object"}))])
    });
    let mut s = Served::modern(router);
    assert_eq!(s.result("tools/list", json!({"cursor": "x"}))["tools"][0]["name"], "x");
    assert_eq!(s.error("tools/list", json!({"cursor": 7}))["code"], code::INVALID_PARAMS);
    assert_eq!(s.result("server/discover", json!({}))["capabilities"], json!({"tools": {}}));
}

#[test]
fn a_method_that_the_protocol_lacks_may_have_a_handler() {
    let router = Router::new("x", "1")
        .custom("com.example/echo", async |params, _| {
            let mut result = EmptyResult::new();
            result.extra = params.extra;
            result
        })
        .custom("com.example/fail", async |_, _| Err(HandlerError::invalid_params("no")));
    let mut s = Served::modern(router);
    assert_eq!(s.result("com.example/echo", json!({"word": "hi"}))["word"], "hi");
    assert_eq!(s.error("com.example/fail", json!({}))["code"], code::INVALID_PARAMS);
    assert_eq!(s.error("com.example/other", json!({}))["code"], code::METHOD_NOT_FOUND);
}

#[test]
fn what_was_registered_shows_in_the_configuration() {
    let config = notes().instructions("Read them.").extension("com.example/x", json!({})).config();
    assert_eq!((config.info.name.as_str(), config.instructions.as_deref()), ("notes", Some("Read them.")));
    assert!(config.capabilities.has_extension("com.example/x"));
}

//! The protocol's types: decoding, checking and encoding.

use std::hint::black_box;

use mcp_proto::consent::UrlConsent;
use mcp_proto::schema::{
    CallToolResult, CreateMessageParams, ElicitFormParams, ElicitParams, ElicitResult, ElicitSchema,
    InitializeResult, ListResourcesResult, ListToolsResult, Map, Meta, ReadResourceResult, Revision,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Shape, Work, commas, repeat, shape};

pub const SHAPES: [Shape; 22] = [
    shape("schema: tools", |bytes| {
        decode::<ListToolsResult>(format!(
            r#"{{"tools":[{}]}}"#,
            commas(bytes, r#"{"name":"t@","inputSchema":{}}"#)
        ))
    }),
    shape("schema: tools without a string name", |bytes| {
        decode::<ListToolsResult>(format!(r#"{{"tools":[{}]}}"#, commas(bytes, r#"{"name":@}"#)))
    }),
    shape("schema: unknown fields", |bytes| {
        decode::<ListResourcesResult>(format!(r#"{{"resources":[],{}}}"#, commas(bytes, "\"x@\":1")))
    }),
    shape("schema: the same field again", |bytes| {
        decode::<ListResourcesResult>(format!(
            r#"{{{}}}"#,
            commas(bytes, "\"resources\":[],\"nextCursor\":1")
        ))
    }),
    shape("schema: entries of _meta", |bytes| {
        decode::<CallToolResult>(format!(r#"{{"content":[],"_meta":{{{}}}}}"#, commas(bytes, "\"a.b/x@\":1")))
    }),
    shape("schema: content, its type last", |bytes| {
        let block = r#"{"text":"x@","type":"text"}"#;
        decode::<CallToolResult>(format!(r#"{{"content":[{}]}}"#, commas(bytes, block)))
    }),
    shape("schema: one block of content, its type last", |bytes| {
        decode::<CallToolResult>(format!(
            r#"{{"content":[{{{},"type":"text","text":""}}]}}"#,
            commas(bytes, "\"x@\":1")
        ))
    }),
    shape("schema: content of unknown types", |bytes| {
        decode::<CallToolResult>(format!(r#"{{"content":[{}]}}"#, commas(bytes, r#"{"a":[],"type":"x@"}"#)))
    }),
    shape("schema: contents of resources", |bytes| {
        decode::<ReadResourceResult>(format!(
            r#"{{"contents":[{}]}}"#,
            commas(bytes, r#"{"uri":"x:@","text":""}"#)
        ))
    }),
    shape("schema: capabilities", |bytes| {
        let some = commas(bytes, r#""a/x@":{}"#);
        decode::<InitializeResult>(format!(
            r#"{{"protocolVersion":"2025-11-25","capabilities":{{"experimental":{{{some}}}}},"serverInfo":{{"name":"s","version":"1"}}}}"#
        ))
    }),
    shape("form: defaults among choices", |bytes| {
        let values = commas(bytes / 2, "\"v@\"");
        form(format!(
            r#"{{"a":{{"type":"array","items":{{"type":"string","enum":[{values}]}},"default":[{values}]}}}}"#
        ))
    }),
    shape("form: defaults among titled choices", |bytes| {
        let options = commas(bytes / 2, r#"{"const":"v@","title":""}"#);
        let values = commas(bytes / 2, "\"v@\"");
        form(format!(r#"{{"a":{{"type":"array","items":{{"anyOf":[{options}]}},"default":[{values}]}}}}"#))
    }),
    shape("form: fields with defaults", |bytes| {
        form(format!("{{{}}}", commas(bytes, r#""f@":{"type":"string","enum":["a","b"],"default":"b"}"#)))
    }),
    shape("form: required fields", |bytes| {
        let schema =
            format!(r#"{{"type":"object","properties":{{}},"required":[{}]}}"#, commas(bytes, "\"f@\""));
        Box::new(move || {
            let schema: ElicitSchema = serde_json::from_str(&schema).unwrap();
            black_box(schema.check(&Map::new())).unwrap_err();
        })
    }),
    shape("form: answers of many fields", |bytes| {
        let field = r#""f@":{"type":"array","items":{"type":"string","enum":["a"]}}"#;
        let form = format!(
            r#"{{"message":"","requestedSchema":{{"type":"object","properties":{{{}}}}}}}"#,
            commas(bytes / 2, field)
        );
        let answer = format!(r#"{{"action":"accept","content":{{{}}}}}"#, commas(bytes / 2, "\"f@\":\"a\""));
        Box::new(move || {
            let form: ElicitFormParams = serde_json::from_str(&form).unwrap();
            let answer: ElicitResult = serde_json::from_str(&answer).unwrap();
            drop(black_box(ElicitParams::Form(form).validate_answer(answer, Revision::V2025_06_18)));
        })
    }),
    shape("sampling: calls and their results", |bytes| {
        let calls = commas(bytes / 2, r#"{"type":"tool_use","id":"i@","name":"n","input":{}}"#);
        let results = commas(bytes / 2, r#"{"type":"tool_result","toolUseId":"i@","content":[]}"#);
        let params = format!(
            r#"{{"maxTokens":1,"messages":[{{"role":"assistant","content":[{calls}]}},{{"role":"user","content":[{results}]}}]}}"#
        );
        Box::new(move || {
            let params: CreateMessageParams = serde_json::from_str(&params).unwrap();
            black_box((params.check().is_ok(), params.tool_rule()));
        })
    }),
    shape("trace: members of a state", |bytes| meta("tracestate", commas(bytes, "k@=v"))),
    shape("trace: members of baggage", |bytes| meta("baggage", commas(bytes, "k@=v;p"))),
    shape("meta: labels of a key", |bytes| {
        let key = repeat(bytes, ".", "a@") + "/x";
        Box::new(move || _ = black_box((Meta::is_valid_key(&key), Meta::is_reserved_key(&key))))
    }),
    shape("map: collected names", |bytes| {
        let names: Vec<String> = repeat(bytes, " ", "n@").split(' ').map(String::from).collect();
        Box::new(move || drop(black_box(names.into_iter().map(|name| (name, 1)).collect::<Map<i32>>())))
    }),
    shape("consent: a long URL", |bytes| {
        let url = format!("https://{}/{}", repeat(bytes / 2, ".", "xn--a@"), repeat(bytes / 2, "/", "%41@"));
        Box::new(move || drop(black_box(UrlConsent::new(&url))))
    }),
    shape("form: names of a titled enum", |bytes| {
        let options = commas(bytes, r#"{"const":"v@","title":"t"}"#);
        form(format!(r#"{{"a":{{"type":"string","oneOf":[{options}],"default":"v1"}}}}"#))
    }),
];

fn decode<T: DeserializeOwned + Serialize>(text: String) -> Work {
    Box::new(move || {
        let value: Result<T, _> = serde_json::from_str(&text);
        if let Ok(value) = value {
            drop(black_box(serde_json::to_string(&value)));
        }
    })
}

fn form(properties: String) -> Work {
    let schema = format!(r#"{{"type":"object","properties":{properties}}}"#);
    Box::new(move || {
        let schema: ElicitSchema = serde_json::from_str(&schema).unwrap();
        let defaults = schema.defaults();
        black_box(schema.check(&defaults)).unwrap();
    })
}

fn meta(key: &'static str, value: String) -> Work {
    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let meta: Meta = [("traceparent", PARENT.into()), (key, value.as_str().into())].into_iter().collect();
    Box::new(move || drop(black_box((meta.trace_context(), meta.baggage()))))
}

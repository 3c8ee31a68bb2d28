//! Reading: an invalid field, item or kind does not affect the rest, and nothing is lost silently.

use mcp_proto::schema::{
    CallToolParams, CallToolResult, CancelledParams, ContentBlock, CreateMessageParams, CreateMessageResult,
    DiscoverResult, ElicitMode, ElicitParams, ElicitResult, ElicitValue, GetPromptParams, GetPromptResult,
    InitializeResult, InputRequest, InputRequests, InputResponse, Json, ListResourcesResult, ListToolsResult,
    PaginatedParams, PrimitiveSchema, ProgressParams, ReadResourceResult, Reference, Resource,
    ResourceContents, ResultType, Role, SamplingBlock, SamplingContent, SamplingMessage, Tool, result_type,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn read<T: DeserializeOwned>(text: &str) -> T {
    serde_json::from_str(text).unwrap()
}

fn error<T: DeserializeOwned + std::fmt::Debug>(text: &str) -> String {
    serde_json::from_str::<T>(text).unwrap_err().to_string()
}

fn written<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap()
}

/// Reads `text` and checks that it is written back as an equal value.
#[track_caller]
fn round_trip<T: Serialize + DeserializeOwned>(text: &str) -> T {
    let value: T = read(text);
    assert_eq!(serde_json::to_value(&value).unwrap(), read::<Value>(text));
    value
}

#[test]
fn unknown_field_survives_a_round_trip() {
    let tool: Tool = round_trip(r#"{"name":"a","inputSchema":{},"x-new":{"deep":[1,2.50,"é"]}}"#);
    assert_eq!(tool.extra.get("x-new").unwrap().as_str(), r#"{"deep":[1,2.50,"é"]}"#);
}

#[test]
fn optional_field_of_the_wrong_type_is_kept_raw_without_affecting_others() {
    let tool: Tool = round_trip(r#"{"title":{"en":"A"},"name":"a","inputSchema":{},"description":"d"}"#);
    assert_eq!((tool.title.as_deref(), tool.description.as_deref()), (None, Some("d")));
    assert_eq!(tool.extra.get("title").unwrap().as_str(), r#"{"en":"A"}"#);
}

#[test]
fn assigned_field_replaces_its_unreadable_value() {
    let mut tool: Tool = read(r#"{"title":7,"name":"a","inputSchema":{}}"#);
    tool.title = Some("A".into());
    assert_eq!(written(&tool), r#"{"name":"a","inputSchema":{},"title":"A"}"#);
}

#[test]
fn null_in_an_optional_field_counts_as_absent() {
    let tool: Tool = read(r#"{"name":"a","title":null,"inputSchema":{},"annotations":null,"_meta":null}"#);
    assert_eq!(tool, Tool::undescribed("a", json!({})));
}

#[test]
fn structured_content_may_be_null() {
    let result: CallToolResult = round_trip(r#"{"content":[],"structuredContent":null}"#);
    assert_eq!(result.structured_content, Some(Json::null()));
    assert_eq!(read::<CallToolResult>(r#"{"content":[]}"#).structured_content, None);
}

#[test]
fn error_names_the_missing_required_field() {
    assert!(error::<Tool>(r#"{"inputSchema":{}}"#).contains("`name` is missing"));
}

#[test]
fn error_names_the_required_field_of_the_wrong_type() {
    let error = error::<InitializeResult>(
        r#"{"protocolVersion":"x","capabilities":{},"serverInfo":{"name":"n","version":2}}"#,
    );
    assert!(error.contains("`serverInfo`: `version`: expected a string"), "{error}");
}

#[test]
fn last_readable_occurrence_of_a_repeated_field_counts() {
    let tool: Tool = read(r#"{"name":"a","name":"b","inputSchema":{},"title":"x","title":3}"#);
    assert_eq!((tool.name.as_str(), tool.title.as_deref()), ("b", Some("x")));
    assert_eq!(written(&tool), r#"{"name":"b","inputSchema":{},"title":"x"}"#);
}

#[test]
fn field_name_with_escapes_is_recognised() {
    let tool: Tool = read(r#"{"\u006eame":"a","inputSchem\u0061":{},"y\n":1}"#);
    assert_eq!(tool.name, "a");
    assert!(tool.extra.contains("y\n"));
}

#[test]
fn unreadable_list_item_is_reported_and_written_back_in_its_place() {
    let text =
        r#"{"tools":[5,{"name":"a","inputSchema":{}},{"inputSchema":{}},{"name":"c","inputSchema":{}},"x"]}"#;
    let result: ListToolsResult = round_trip(text);
    let names: Vec<_> = result.tools.iter().map(Tool::display_name).collect();
    assert_eq!(names, ["a", "c"]);
    let invalid: Vec<_> = result.tools.invalid().iter().map(|item| (item.index, &*item.reason)).collect();
    assert_eq!(invalid, [(0, "expected an object"), (2, "`name` is missing"), (4, "expected an object"),]);
}

#[test]
fn tool_with_an_input_schema_other_than_an_object_is_invalid() {
    let result: ListToolsResult = round_trip(r#"{"tools":[{"name":"a","inputSchema":"string"}]}"#);
    assert!(result.tools.is_empty());
    assert_eq!(&*result.tools.invalid()[0].reason, "`inputSchema`: expected an object");
}

#[test]
fn invalid_icon_drops_the_icons_but_not_the_resource() {
    let text = r#"{"resources":[{"uri":"a:b","name":"n","icons":[{"src":"x:y"},{"href":"z"}],"size":3}]}"#;
    let result: ListResourcesResult = round_trip(text);
    assert_eq!((result.resources[0].icons.as_ref(), result.resources[0].size), (None, Some(3)));
}

#[test]
fn content_type_is_found_at_any_position() {
    let first: ContentBlock = read(r#"{"type":"image","data":"AA==","mimeType":"image/png"}"#);
    let last: ContentBlock = read(r#"{"data":"AA==","mimeType":"image/png","type":"image"}"#);
    assert_eq!(first, ContentBlock::image("AA==", "image/png"));
    assert_eq!(first, last);
}

/// C9.11
#[test]
fn content_of_unknown_type_is_kept_verbatim() {
    let text = r#"{"a":1.0,"type":"hologram","b":{"c":[null]}}"#;
    let block: ContentBlock = read(text);
    assert_eq!(block, ContentBlock::Unknown(Json::new(text).unwrap()));
    assert_eq!(written(&block), text);
}

/// C9.11
#[test]
fn invalid_content_does_not_affect_other_blocks() {
    let text = r#"{"content":[
        {"type":"text"},{"type":"text","text":"a"},{"type":3},{"text":"b"},7,null,[1],
        {"type":"text","text":{"not":"text"}}
    ]}"#;
    let result: CallToolResult = round_trip(text);
    assert_eq!(result.content.len(), 8);
    assert_eq!(result.text_content(), "a");
}

/// K16
#[test]
fn missing_content_is_read_as_an_empty_list() {
    assert_eq!(read::<CallToolResult>(r#"{"structuredContent":{"a":1}}"#).content, []);
}

#[test]
fn content_other_than_a_list_is_an_error() {
    error::<CallToolResult>(r#"{"content":"text"}"#);
}

#[test]
fn null_is_read_as_an_empty_list_of_content_or_tools() {
    assert_eq!(read::<CallToolResult>(r#"{"content":null}"#).content, []);
    assert!(read::<ListToolsResult>(r#"{"tools":null}"#).tools.is_empty());
    error::<DiscoverResult>(r#"{"supportedVersions":null,"capabilities":{}}"#);
}

#[test]
fn null_is_no_content_of_a_sampled_message() {
    let message = r#"{"role":"assistant","model":"m","content":null}"#;
    assert!(error::<CreateMessageResult>(message).contains("expected an object or a list"));
    let InputResponse::Unknown(kept) = read(message) else { panic!() };
    assert_eq!(kept.as_str(), message);
}

#[test]
fn last_of_repeated_fields_decides_the_kind_of_an_input_request() {
    let text = r#"{"method":"roots/list","params":null,"method":"elicitation/create",
        "params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}}"#;
    assert!(matches!(read(text), InputRequest::Elicit(ElicitParams::Form(_))));
}

#[test]
fn prompt_result_keeps_the_messages_beside_one_of_an_unknown_role() {
    let text = r#"{"messages":[{"role":"user","content":{"type":"text","text":"b"}},
        {"role":"narrator","content":{"type":"text","text":"a"}}]}"#;
    let result: GetPromptResult = round_trip(text);
    let [invalid] = result.messages.invalid() else { panic!("{result:?}") };
    assert_eq!((result.messages.len(), invalid.index), (1, 1));
    assert!(invalid.reason.contains("`role`"), "{invalid:?}");
    let result: GetPromptResult = round_trip(&text.replace("narrator", "assistant"));
    assert_eq!((result.messages.len(), result.messages[1].role), (2, Role::Assistant));
}

#[test]
fn tool_without_input_schema_accepts_any_object() {
    for absent in ["", r#","inputSchema":null"#] {
        let text = format!(r#"{{"tools":[{{"name":"t"{absent}}}]}}"#);
        let result: ListToolsResult = read(&text);
        assert_eq!(result.tools.invalid(), []);
        assert_eq!(result.tools[0].input_schema.as_str(), r#"{"type":"object"}"#);
    }
    let odd: ListToolsResult = read(r#"{"tools":[{"name":"t","inputSchema":7}]}"#);
    assert_eq!(odd.tools.invalid().len(), 1);
}

/// C9.11
#[test]
fn resource_contents_are_text_or_blob_by_their_field() {
    let text =
        r#"{"contents":[{"uri":"a:b","mimeType":"m","text":"t"},{"blob":"AA==","uri":"a:b"},{"uri":"a:b"}]}"#;
    let result: ReadResourceResult = round_trip(text);
    assert!(matches!(&result.contents[0], ResourceContents::Text(contents) if contents.text == "t"));
    assert!(matches!(&result.contents[1], ResourceContents::Blob(contents) if contents.blob == "AA=="));
    assert!(matches!(&result.contents[2], ResourceContents::Unknown(_)));
}

/// C9.11
#[test]
fn sampling_content_is_one_block_or_a_list() {
    let one: SamplingMessage = round_trip(r#"{"role":"user","content":{"type":"text","text":"a"}}"#);
    assert_eq!(one, SamplingMessage::user("a"));
    let many: SamplingMessage = round_trip(
        r#"{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"n","input":{"a":1}},{"type":"new"}]}"#,
    );
    let SamplingContent::Many(blocks) = &many.content else { panic!("a list") };
    assert!(matches!(blocks[0], SamplingBlock::ToolUse(_)) && matches!(blocks[1], SamplingBlock::Unknown(_)));
}

#[test]
fn reference_of_unknown_type_is_kept() {
    let reference: Reference = round_trip(r#"{"type":"ref/tool","name":"a"}"#);
    assert!(matches!(reference, Reference::Unknown(_)));
}

#[test]
fn arguments_other_than_an_object_are_an_error() {
    let error = error::<CallToolParams>(r#"{"name":"a","arguments":[1]}"#);
    assert!(error.contains("`arguments`: expected an object"), "{error}");
    assert_eq!(read::<CallToolParams>(r#"{"name":"a","arguments":null}"#).arguments, None);
}

#[test]
fn invalid_field_that_would_change_the_request_is_an_error() {
    error::<PaginatedParams>(r#"{"cursor":3}"#);
    error::<GetPromptParams>(r#"{"name":"a","arguments":{"b":1}}"#);
    error::<CallToolParams>(r#"{"name":"a","inputResponses":[]}"#);
    error::<CallToolParams>(r#"{"name":"a","requestState":{}}"#);
    error::<CallToolParams>(r#"{"name":"a","_meta":"x"}"#);
    error::<CancelledParams>(r#"{"requestId":1.5}"#);
}

#[test]
fn arguments_keep_their_json_text() {
    let text = r#"{"name":"a","arguments":{"big":123456789012345678901234567890,"f":1.10,"a":1,"a":2}}"#;
    let params: CallToolParams = read(text);
    assert_eq!(written(&params), text);
}

#[test]
fn progress_numbers_keep_their_form() {
    let params: ProgressParams = read(r#"{"progressToken":0,"progress":1,"total":2.5}"#);
    assert_eq!(written(&params), r#"{"progressToken":0,"progress":1,"total":2.5}"#);
}

#[test]
fn integer_may_have_a_fraction_of_zero() {
    let result: ListToolsResult = read(r#"{"tools":[],"ttlMs":60000.0}"#);
    assert_eq!(result.ttl_ms, Some(60_000));
}

#[test]
fn number_out_of_range_is_kept_raw() {
    for number in ["-1", "1.5", "1e40", "1e400"] {
        let text = format!(r#"{{"uri":"a:b","name":"n","size":{number}}}"#);
        match serde_json::from_str::<Resource>(&text) {
            Ok(resource) => {
                assert_eq!((resource.size, resource.extra.contains("size")), (None, true), "{number}")
            }
            // The parser rejects numbers beyond the range of `f64`.
            Err(error) => assert!(number == "1e400" && error.to_string().contains("out of range"), "{error}"),
        }
    }
}

/// C10.2
#[test]
fn elicitation_without_mode_is_in_form_mode() {
    let form = r#"{"message":"m","requestedSchema":{"type":"object","properties":{}}}"#;
    assert_eq!(round_trip::<ElicitParams>(form).mode(), ElicitMode::Form);
    let url = r#"{"message":"m","url":"https://a.b","mode":"url","new":1}"#;
    assert_eq!(round_trip::<ElicitParams>(url).mode(), ElicitMode::Url);
    error::<ElicitParams>(r#"{"mode":"voice","message":"m"}"#);
}

#[test]
fn form_field_kinds_are_recognised_by_their_schema() {
    let kinds = [
        (r#"{"type":"string","format":"uri"}"#, "String"),
        (r#"{"type":"integer","minimum":1}"#, "Number"),
        (r#"{"default":true,"type":"boolean"}"#, "Boolean"),
        (r#"{"type":"string","enum":["a"],"enumNames":["A"]}"#, "Enum"),
        (r#"{"oneOf":[{"const":"a","title":"A"}],"type":"string"}"#, "TitledEnum"),
        (r#"{"type":"array","items":{"type":"string","enum":["a"]}}"#, "MultiSelect"),
        (r#"{"type":"array","items":{"anyOf":[{"const":"a","title":"A"}]}}"#, "MultiSelect"),
        (r#"{"type":"object"}"#, "Unknown"),
        (r#"{"enum":["a"]}"#, "Unknown"),
    ];
    for (text, kind) in kinds {
        let debug = format!("{:?}", round_trip::<PrimitiveSchema>(text));
        assert!(debug.starts_with(&format!("{kind}(")), "{text}: {debug}");
    }
}

#[test]
fn form_values_are_recognised_by_their_json_type() {
    let text = r#"{"action":"accept","content":{"a":"x","b":95.5,"c":true,"d":["y"],"e":{"odd":1}}}"#;
    let result: ElicitResult = round_trip(text);
    let content = result.content.unwrap();
    assert_eq!(content.get("b"), Some(&ElicitValue::from(95.5)));
    assert_eq!(content.get("d"), Some(&ElicitValue::Strings(vec!["y".into()])));
    assert!(matches!(content.get("e"), Some(ElicitValue::Unknown(_))));
}

#[test]
fn input_requests_are_recognised_by_their_method() {
    let text = r#"{"requestState":"s","inputRequests":{
        "a":{"params":{"message":"m","url":"x:y","mode":"url"},"method":"elicitation/create"},
        "b":{"method":"roots/list"},
        "c":{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":9}},
        "d":{"method":"fortune/tell","params":{"cards":3}},
        "e":{"method":"elicitation/create"}
    }}"#;
    let result: mcp_proto::schema::InputRequiredResult = round_trip(text);
    let requests: InputRequests = result.input_requests.unwrap();
    let methods: Vec<_> = requests.iter().map(|(key, request)| (key, request.method())).collect();
    assert_eq!(
        methods,
        [
            ("a", Some("elicitation/create")),
            ("b", Some("roots/list")),
            ("c", Some("sampling/createMessage")),
            ("d", None),
            ("e", None),
        ]
    );
    assert!(matches!(requests.get("a"), Some(InputRequest::Elicit(ElicitParams::Url(_)))));
}

#[test]
fn input_responses_are_recognised_by_their_fields() {
    let answers = [
        (r#"{"action":"decline"}"#, "Elicit"),
        (r#"{"role":"assistant","content":{"type":"text","text":"a"},"model":"m"}"#, "CreateMessage"),
        (r#"{"roots":[{"uri":"file:///a"}]}"#, "ListRoots"),
        (r#"{"fortune":"good"}"#, "Unknown"),
    ];
    for (text, kind) in answers {
        let debug = format!("{:?}", round_trip::<InputResponse>(text));
        assert!(debug.starts_with(&format!("{kind}(")), "{text}: {debug}");
    }
}

/// A0.1: an empty object gives no evidence of the era.
#[test]
fn empty_object_is_not_an_initialize_or_discover_result() {
    error::<InitializeResult>("{}");
    error::<DiscoverResult>("{}");
    error::<DiscoverResult>(r#"{"supportedVersions":"2026-07-28","capabilities":{}}"#);
}

/// C1.7, C1.8
#[test]
fn result_type_is_found_without_reading_further() {
    assert_eq!(result_type(r#"{"content":[],"resultType":"task"}"#).unwrap(), ResultType::Task);
    assert_eq!(result_type(r#"{"resultType":"input_required" BROKEN"#).unwrap(), ResultType::InputRequired);
    assert_eq!(result_type(r#"{"x":{"resultType":"task"}}"#).unwrap(), ResultType::Complete);
    assert_eq!(result_type(r#"{"resultType":"later"}"#).unwrap(), ResultType::Other("later".into()));
    result_type(r#"{"resultType":1}"#).unwrap_err();
    result_type("[]").unwrap_err();
    result_type("{").unwrap_err();
}

#[test]
fn invalid_json_is_an_error() {
    for text in ["", "{", r#"{"content":[{"type":"text","text":"a"}"#, "{\"content\":\u{1}}", "{} {}"] {
        serde_json::from_str::<CallToolResult>(text).unwrap_err();
    }
}

#[test]
fn deeply_nested_values_are_read() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let text =
        format!(r#"{{"content":[{{"type":"text","text":"a","x":{deep}}}],"structuredContent":{deep}}}"#);
    let result: CallToolResult = read(&text);
    assert_eq!(result.structured_content.unwrap().as_str().len(), 200_000);
    let odd = format!(r#"{{"messages":{deep},"maxTokens":1}}"#);
    assert_eq!(read::<CreateMessageParams>(&odd).messages.invalid().len(), 1);
}

#[test]
fn many_unknown_fields_are_read_in_linear_time() {
    let fields: Vec<String> = (0..50_000).map(|n| format!(r#""k{n}":1"#)).collect();
    let text = format!(r#"{{"content":[],{},"isError":1,"isError":2}}"#, fields.join(","));
    let result: CallToolResult = read(&text);
    assert_eq!(result.extra.len(), 50_002);
}

#[test]
fn structured_content_is_read_as_a_type() {
    #[derive(serde::Deserialize)]
    struct Weather<'a> {
        city: &'a str,
        degrees: f64,
    }

    let result: CallToolResult = read(r#"{"content":[],"structuredContent":{"city":"Bern","degrees":21.5}}"#);
    let Weather { city, degrees } = result.structured().unwrap();
    assert_eq!((city, degrees), ("Bern", 21.5));
    let of_another_type = result.structured::<Vec<f64>>().unwrap_err().to_string();
    assert!(of_another_type.contains("invalid type: map, expected a sequence"), "{of_another_type}");
    let absent = CallToolResult::text("warm").structured::<Value>().unwrap_err().to_string();
    assert_eq!(absent, "the result has no structured content");
    let failed = CallToolResult::error("no such city").structured::<Value>().unwrap_err().to_string();
    assert_eq!(failed, "the tool failed, and its result has no structured content");
}

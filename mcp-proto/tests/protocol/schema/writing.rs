//! Writing: all fields, or the fields of one revision.

use mcp_proto::schema::{
    At, CallToolResult, ClientCapabilities, ClientCapability, ContentBlock, CreateMessageResult,
    ElicitParams, ElicitSchema, EnumOption, InputRequiredResult, Json, ListToolsResult, Meta,
    MultiSelectItems, MultiSelectSchema, Params, PromptMessage, Resource, ResourceContents, ResourceLink,
    ResultFields, ResultType, Revision, Role, SamplingBlock, ServerCapabilities, ServerCapability,
    TitledEnumSchema, TitledItems, Tool, ToolAnnotations, ToolUseContent, UnsupportedVersionData, WriteAt,
    meta,
};
use mcp_proto::schema::{AudioContent, CallToolParams, SamplingContent};
use serde_json::{Value, json};

fn at<T: WriteAt>(value: &T, revision: Revision) -> Value {
    serde_json::to_value(At(value, revision)).unwrap()
}

#[test]
fn fields_are_written_only_where_the_revision_has_them() {
    let tool = Tool::new("a", "d", json!({})).with_title("A").with_output_schema(json!({"type": "object"}));
    let old = json!({"name": "a", "inputSchema": {}, "description": "d"});
    assert_eq!(at(&tool, Revision::V2025_03_26), old);
    assert_eq!(at(&tool, Revision::V2025_06_18)["title"], "A");
}

/// serde_json reads an object with the name of its raw values as the JSON in its text.
#[test]
fn output_schema_is_an_object_only_if_it_says_so_itself() {
    let raw = json!({"$serde_json::private::RawValue": r#"{"type":"object"}"#});
    let tool = Tool::undescribed("a", json!({})).with_output_schema(raw);
    assert_eq!(at(&tool, Revision::V2025_06_18).get("outputSchema"), None);
}

#[test]
fn unknown_fields_are_written_at_every_revision() {
    let mut tool = Tool::undescribed("a", json!({}));
    tool.extra.insert("x-new", 1);
    for revision in Revision::ALL {
        assert_eq!(at(&tool, *revision)["x-new"], 1);
    }
}

#[test]
fn nested_values_are_written_at_the_revision_too() {
    let mut tool = Tool::undescribed("a", json!({}));
    tool.title = Some("A".into());
    let result = ListToolsResult::new([tool]);
    assert_eq!(at(&result, Revision::V2024_11_05), json!({"tools": [{"name": "a", "inputSchema": {}}]}));
}

#[test]
fn audio_becomes_a_text_at_revisions_without_audio() {
    let result =
        CallToolResult { content: vec![ContentBlock::audio("AAEC", "audio/wav")], ..CallToolResult::new() };
    let stand_in = json!({"content": [{"type": "text", "text": "[audio audio/wav, 4 bytes of base64]"}]});
    assert_eq!(at(&result, Revision::V2024_11_05), stand_in);
    assert_eq!(at(&result, Revision::V2025_03_26)["content"][0]["type"], "audio");
}

#[test]
fn resource_link_becomes_a_text_at_revisions_without_links() {
    let link = ContentBlock::from(ResourceLink::new("file:///a", "a"));
    let message = PromptMessage::user(link);
    let stand_in = json!({"role": "user", "content": {"type": "text", "text": "[resource file:///a]"}});
    assert_eq!(at(&message, Revision::V2025_03_26), stand_in);
    assert_eq!(at(&message, Revision::V2025_06_18)["content"]["type"], "resource_link");
}

#[test]
fn sampling_texts_are_joined_at_revisions_with_one_block() {
    let tool_use = ToolUseContent::new("1", "add", json!({}));
    let blocks = vec![SamplingBlock::text("a"), tool_use.into(), SamplingBlock::text("b")];
    let result = CreateMessageResult::new(Role::Assistant, blocks, "m");
    assert_eq!(at(&result, Revision::V2025_06_18)["content"], json!({"type": "text", "text": "a\nb"}));
    assert_eq!(at(&result, Revision::V2025_11_25)["content"].as_array().unwrap().len(), 3);
}

#[test]
fn first_supported_sampling_block_is_written_if_there_is_no_text() {
    let tool_use = SamplingBlock::from(ToolUseContent::new("1", "add", json!({})));
    let content =
        SamplingContent::from(vec![tool_use.clone(), AudioContent::new("AA==", "audio/wav").into()]);
    assert_eq!(at(&content, Revision::V2025_03_26)["type"], "audio");
    let alone = SamplingContent::from(vec![tool_use]);
    assert_eq!(at(&alone, Revision::V2025_03_26), json!({"type": "text", "text": "[call of tool add]"}));
    let empty = SamplingContent::from(Vec::new());
    assert_eq!(at(&empty, Revision::V2025_03_26), json!({"type": "text", "text": ""}));
}

#[test]
fn structured_results_are_objects_before_2026() {
    let result = CallToolResult::from_structured(&[1, 2]).unwrap();
    assert_eq!(at(&result, Revision::V2026_07_28)["structuredContent"], json!([1, 2]));
    assert_eq!(at(&result, Revision::V2025_11_25), json!({"content": [{"type": "text", "text": "[1,2]"}]}));
    let result = CallToolResult::from_structured(&json!({"a": 1})).unwrap();
    assert_eq!(at(&result, Revision::V2025_06_18)["structuredContent"], json!({"a": 1}));
}

#[test]
fn form_options_are_written_in_the_form_of_the_revision() {
    let options = vec![EnumOption::new("a", "A"), EnumOption::new("b", "B")];
    let one = TitledEnumSchema::new(options.clone());
    let several = MultiSelectSchema::new(MultiSelectItems::from(TitledItems::new(options)));
    let schema = ElicitSchema::new([("one", one.into()), ("several", several.into())]);
    let written = at(&ElicitParams::form("m", schema), Revision::V2025_06_18);
    let plain = json!({"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]});
    assert_eq!(written["requestedSchema"]["properties"], json!({"one": plain, "several": plain}));
}

#[test]
fn reserved_keys_of_other_revisions_are_not_written() {
    let mut params = CallToolParams::new("a");
    params.meta.insert(meta::RELATED_TASK, json!({"taskId": "t"}));
    params.meta.insert(meta::LOG_LEVEL, "debug");
    params.meta.insert("com.example/own", 1);
    assert_eq!(at(&params, Revision::V2025_06_18)["_meta"], json!({"com.example/own": 1}));
    let keys = |revision| at(&params, revision)["_meta"].as_object().unwrap().len();
    assert_eq!((keys(Revision::V2025_11_25), keys(Revision::V2026_07_28)), (2, 2));
}

/// The peer layer writes `_meta`, `resultType` and the cache hint itself.
#[test]
fn written_fields_omit_the_envelope() {
    let mut written = b"{".to_vec();
    let mut params = CallToolParams::new("a").with_arguments(json!({"b": 1}));
    params.meta_mut().insert("k", 1);
    params.write_fields(Revision::LATEST.into(), &mut written);
    let text =
        r#"{"resources":[],"ttlMs":5,"cacheScope":"odd","resultType":"complete","_meta":{"k":1},"x":1}"#;
    let result: mcp_proto::schema::ListResourcesResult = serde_json::from_str(text).unwrap();
    result.write_fields(Revision::LATEST.into(), &mut written);
    let written = String::from_utf8(written).unwrap();
    assert_eq!(written, r#"{"name":"a","arguments":{"b":1},"resources":[],"x":1"#);
}

#[test]
fn invalid_envelope_field_survives_a_round_trip() {
    let text = r#"{"resources":[],"cacheScope":"odd","_meta":{"k":1}}"#;
    let result: mcp_proto::schema::ListResourcesResult = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_value(&result).unwrap(), serde_json::from_str::<Value>(text).unwrap());
}

/// D10
#[test]
fn display_name_prefers_the_title_then_the_annotations_title() {
    let mut tool = Tool::undescribed("name", json!({}));
    assert_eq!(tool.display_name(), "name");
    tool.annotations = Some(ToolAnnotations { title: Some("annotated".into()), ..ToolAnnotations::new() });
    assert_eq!(tool.display_name(), "annotated");
    tool.title = Some("title".into());
    assert_eq!(tool.display_name(), "title");
    assert_eq!(Resource::new("a:b", "name").display_name(), "name");
}

/// C10.1, D7
#[test]
fn empty_capabilities_mean_form_mode_and_sampling_without_tools() {
    let declared: ClientCapabilities = serde_json::from_str(r#"{"sampling":{},"elicitation":{}}"#).unwrap();
    let has = |capability| declared.has(capability);
    assert!(has(ClientCapability::ElicitationForm) && has(ClientCapability::Sampling));
    assert!(!has(ClientCapability::ElicitationUrl) && !has(ClientCapability::SamplingTools));
    let url: ClientCapabilities = serde_json::from_str(r#"{"elicitation":{"url":{}}}"#).unwrap();
    assert!(!url.has(ClientCapability::ElicitationForm));
}

#[test]
fn declared_capability_is_present() {
    let all = [
        ClientCapability::Roots,
        ClientCapability::RootsListChanged,
        ClientCapability::Sampling,
        ClientCapability::SamplingTools,
        ClientCapability::SamplingContext,
        ClientCapability::Elicitation,
        ClientCapability::ElicitationForm,
        ClientCapability::ElicitationUrl,
        ClientCapability::Tasks,
        ClientCapability::TasksList,
        ClientCapability::TasksCancel,
        ClientCapability::TasksExtension,
    ];
    for capability in all {
        assert!(!ClientCapabilities::new().has(capability), "{}", capability.path());
        assert!(ClientCapabilities::new().with(capability).has(capability), "{}", capability.path());
    }
    let all = [
        ServerCapability::Tools,
        ServerCapability::ToolsListChanged,
        ServerCapability::Resources,
        ServerCapability::ResourcesListChanged,
        ServerCapability::ResourcesSubscribe,
        ServerCapability::Prompts,
        ServerCapability::PromptsListChanged,
        ServerCapability::Completions,
        ServerCapability::Logging,
        ServerCapability::Tasks,
        ServerCapability::TasksList,
        ServerCapability::TasksCancel,
        ServerCapability::TasksExtension,
    ];
    for capability in all {
        assert!(!ServerCapabilities::new().has(capability), "{}", capability.path());
        assert!(ServerCapabilities::new().with(capability).has(capability), "{}", capability.path());
    }
}

#[test]
fn settings_of_a_capability_stay_when_it_is_declared_again() {
    let text = r#"{"sampling":{"tools":{"most":3}}}"#;
    let declared: ClientCapabilities = serde_json::from_str(text).unwrap();
    let again = declared.with(ClientCapability::SamplingTools);
    assert_eq!(serde_json::to_string(&again).unwrap(), text);
}

#[test]
fn completion_is_allowed_at_revisions_without_its_capability() {
    let server = ServerCapabilities::new();
    assert!(server.allows(ServerCapability::Completions, Revision::V2024_11_05));
    assert!(!server.allows(ServerCapability::Completions, Revision::V2025_03_26));
}

#[test]
fn constructors_create_complete_results() {
    let error = CallToolResult::error("broken");
    assert!(error.failed() && error.text_content() == "broken");
    let text = serde_json::to_string(&error).unwrap();
    assert_eq!(text, r#"{"content":[{"type":"text","text":"broken"}],"isError":true}"#);
    let input_required = InputRequiredResult::requests([("k", ElicitParams::url("m", "https://a.b").into())]);
    assert_eq!(input_required.result_type, Some(ResultType::InputRequired));
    let embedded = ContentBlock::resource(ResourceContents::text("a:b", "t"));
    let text = serde_json::to_string(&embedded).unwrap();
    assert_eq!(text, r#"{"type":"resource","resource":{"uri":"a:b","text":"t"}}"#);
    let data = UnsupportedVersionData::from_revisions(Revision::MODERN, "1900-01-01");
    let text = serde_json::to_string(&data).unwrap();
    assert_eq!(text, r#"{"supported":["2026-07-28"],"requested":"1900-01-01"}"#);
}

/// C1.19
#[test]
fn meta_keys_follow_their_grammar() {
    let valid =
        ["a", "", "com.example/a", "a/", "a-b.c9/x_y.z-0", "progressToken", "io.modelcontextprotocol/x"];
    let invalid = ["/a", "1a/b", "a-/b", "a..b/c", "a/b/c", "-a", "a_", "a b", "é", "a/b-", ".a/b"];
    assert_eq!(valid.map(Meta::is_valid_key), [true; 7]);
    assert_eq!(invalid.map(Meta::is_valid_key), [false; 11]);
}

/// C1.19
#[test]
fn protocol_prefixes_are_reserved() {
    let reserved =
        ["io.modelcontextprotocol/a", "dev.mcp/a", "org.modelcontextprotocol.api/a", "com.mcp.tools/a"];
    let free = ["com.example.mcp/a", "mcp/a", "modelcontextprotocol", "a"];
    assert_eq!(reserved.map(Meta::is_reserved_key), [true; 4]);
    assert_eq!(free.map(Meta::is_reserved_key), [false; 4]);
}

/// C1.18
#[test]
fn invalid_value_of_a_reserved_key_is_ignored_and_kept() {
    let text = r#"{"name":"a","_meta":{"progressToken":[],"io.modelcontextprotocol/logLevel":"loud"}}"#;
    let params: CallToolParams = serde_json::from_str(text).unwrap();
    assert_eq!((params.meta.progress_token(), params.meta.log_level()), (None, None));
    assert_eq!(serde_json::to_string(&params).unwrap(), text);
}

#[test]
fn json_values_with_equal_text_are_equal() {
    assert_eq!(Json::new(" [1] ").unwrap(), Json::new("[1]").unwrap());
    assert_ne!(Json::new("1.0").unwrap(), Json::new("1").unwrap());
    Json::new("{").unwrap_err();
    Json::new("1 2").unwrap_err();
}

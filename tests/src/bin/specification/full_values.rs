//! JSON values with every field set.

use serde_json::{Value, json};

fn annotations() -> Value {
    json!({"audience": ["user", "assistant"], "priority": 0.5, "lastModified": "2026-01-02T03:04:05Z"})
}

fn icons() -> Value {
    json!([{"src": "https://example.com/a.png", "mimeType": "image/png", "sizes": ["48x48", "any"], "theme": "dark"}])
}

fn custom_meta() -> Value {
    json!({"com.example/shard": 7})
}

/// `_meta` of a request, with every reserved key.
fn request_meta() -> Value {
    json!({
        "progressToken": "p-1",
        "com.example/shard": 7,
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": implementation(),
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"url": {}}},
        "io.modelcontextprotocol/logLevel": "notice",
        "io.modelcontextprotocol/related-task": {"taskId": "t-1"},
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    })
}

fn result_meta() -> Value {
    json!({
        "com.example/shard": 7,
        "io.modelcontextprotocol/serverInfo": implementation(),
        "io.modelcontextprotocol/related-task": {"taskId": "t-1"},
        "io.modelcontextprotocol/subscriptionId": "listen-7"
    })
}

fn implementation() -> Value {
    json!({
        "name": "rich", "version": "1.2.3", "title": "Rich", "description": "All of it",
        "websiteUrl": "https://example.com", "icons": icons()
    })
}

fn client_capabilities() -> Value {
    json!({
        "roots": {"listChanged": true},
        "sampling": {"context": {}, "tools": {}},
        "elicitation": {"form": {}, "url": {}},
        "tasks": {
            "list": {}, "cancel": {},
            "requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}}
        },
        "extensions": {"io.modelcontextprotocol/tasks": {}},
        "experimental": {"com.example/x": {"depth": 3}}
    })
}

fn server_capabilities() -> Value {
    json!({
        "tools": {"listChanged": true},
        "resources": {"listChanged": true, "subscribe": true},
        "prompts": {"listChanged": false},
        "completions": {}, "logging": {},
        "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}},
        "extensions": {"io.modelcontextprotocol/tasks": {}},
        "experimental": {"com.example/x": {"depth": 3}}
    })
}

fn text() -> Value {
    json!({"type": "text", "text": "one", "annotations": annotations(), "_meta": custom_meta()})
}

fn image() -> Value {
    json!({
        "type": "image", "data": "AAEC", "mimeType": "image/png", "annotations": annotations(), "_meta": custom_meta()
    })
}

fn audio() -> Value {
    json!({
        "type": "audio", "data": "AAEC", "mimeType": "audio/wav", "annotations": annotations(), "_meta": custom_meta()
    })
}

fn text_contents() -> Value {
    json!({"uri": "file:///a.txt", "text": "a", "mimeType": "text/plain", "_meta": custom_meta()})
}

fn blob_contents() -> Value {
    json!({"uri": "file:///b.bin", "blob": "AAEC", "mimeType": "application/octet-stream", "_meta": custom_meta()})
}

fn resource() -> Value {
    json!({
        "uri": "file:///a.txt", "name": "a", "title": "A", "description": "The letter", "icons": icons(),
        "mimeType": "text/plain", "size": 1, "annotations": annotations(), "_meta": custom_meta()
    })
}

fn content() -> Value {
    let mut link = resource();
    link["type"] = "resource_link".into();
    json!([
        text(), image(), audio(), link,
        {"type": "resource", "resource": text_contents(), "annotations": annotations(), "_meta": custom_meta()},
        {"type": "resource", "resource": blob_contents(), "annotations": annotations(), "_meta": custom_meta()}
    ])
}

fn tool(output_schema: Value) -> Value {
    json!({
        "name": "add", "title": "Addition", "description": "Adds", "icons": icons(),
        "inputSchema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
            "properties": {"a": {"type": "number"}}, "required": ["a"]
        },
        "outputSchema": output_schema,
        "annotations": {
            "title": "Add", "readOnlyHint": true, "destructiveHint": false, "idempotentHint": true,
            "openWorldHint": false
        },
        "execution": {"taskSupport": "optional"},
        "_meta": custom_meta()
    })
}

fn form_fields() -> Value {
    json!({
        "line": {
            "type": "string", "title": "Line", "description": "A line", "minLength": 1, "maxLength": 9,
            "format": "email", "default": "a@example.com"
        },
        "number": {
            "type": "number", "title": "Number", "description": "A number", "minimum": 1, "maximum": 9, "default": 2
        },
        "integer": {
            "type": "integer", "title": "Number", "description": "A number", "minimum": 1, "maximum": 9, "default": 2
        },
        "yes": {"type": "boolean", "title": "Yes", "description": "Yes or no", "default": true},
        "one": {
            "type": "string", "title": "One", "description": "One of", "enum": ["a", "b"], "enumNames": ["A", "B"],
            "default": "a"
        },
        "titled": {
            "type": "string", "title": "One", "description": "One of",
            "oneOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}], "default": "a"
        },
        "several": {
            "type": "array", "title": "Some", "description": "Some of", "minItems": 1, "maxItems": 2,
            "items": {"type": "string", "enum": ["a", "b"]}, "default": ["a"]
        },
        "severalTitled": {
            "type": "array", "title": "Some", "description": "Some of", "minItems": 1, "maxItems": 2,
            "items": {"anyOf": [{"const": "a", "title": "A"}]}, "default": ["a"]
        }
    })
}

pub(crate) fn form() -> Value {
    json!({
        "message": "Who are you?", "mode": "form",
        "requestedSchema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
            "properties": form_fields(), "required": ["line"]
        },
        "task": {"ttl": 60000}, "_meta": request_meta()
    })
}

pub(crate) fn url() -> Value {
    json!({
        "message": "Log in", "mode": "url", "url": "https://example.com/login", "elicitationId": "e-1",
        "task": {"ttl": 60000}, "_meta": request_meta()
    })
}

fn elicit_result() -> Value {
    json!({
        "action": "accept",
        "content": {"line": "a@example.com", "number": 95.5, "yes": true, "several": ["a", "b"]},
        "resultType": "complete", "_meta": result_meta()
    })
}

fn create_message() -> Value {
    let tool_use = json!({
        "type": "tool_use", "id": "c-1", "name": "add", "input": {"a": 1}, "_meta": custom_meta()
    });
    let tool_result = json!({
        "type": "tool_result", "toolUseId": "c-1", "content": content(), "structuredContent": {"sum": 3},
        "isError": false, "_meta": custom_meta()
    });
    json!({
        "messages": [
            {"role": "user", "content": text(), "_meta": custom_meta()},
            {"role": "user", "content": image(), "_meta": custom_meta()},
            {"role": "user", "content": audio(), "_meta": custom_meta()},
            {"role": "assistant", "content": [tool_use], "_meta": custom_meta()},
            {"role": "user", "content": [tool_result], "_meta": custom_meta()},
            {"role": "user", "content": [image(), text(), audio()], "_meta": custom_meta()}
        ],
        "maxTokens": 100, "systemPrompt": "Be brief", "includeContext": "thisServer", "temperature": 0.25,
        "stopSequences": ["\n"], "metadata": {"provider": "x"},
        "modelPreferences": {
            "hints": [{"name": "large"}], "costPriority": 0, "speedPriority": 0.5, "intelligencePriority": 1
        },
        "tools": [tool(json!({"type": "object"}))], "toolChoice": {"mode": "auto"},
        "task": {"ttl": 60000}, "_meta": request_meta()
    })
}

fn create_message_result() -> Value {
    json!({
        "role": "assistant", "content": [text(), audio()], "model": "large-1", "stopReason": "endTurn",
        "resultType": "complete", "_meta": result_meta()
    })
}

fn roots() -> Value {
    json!({
        "roots": [{"uri": "file:///home", "name": "Home", "_meta": custom_meta()}],
        "resultType": "complete", "_meta": result_meta()
    })
}

fn input_responses() -> Value {
    json!({"who": elicit_result(), "what": create_message_result(), "where": roots()})
}

pub(crate) fn input_requests() -> Value {
    json!({
        "who": {"method": "elicitation/create", "params": form()},
        "login": {"method": "elicitation/create", "params": url()},
        "what": {"method": "sampling/createMessage", "params": create_message()},
        "where": {"method": "roots/list", "params": {"_meta": custom_meta()}}
    })
}

fn page(items: &str, list: Value) -> Value {
    json!({
        items: list, "nextCursor": "", "resultType": "complete", "ttlMs": 60000, "cacheScope": "private",
        "_meta": result_meta()
    })
}

fn legacy_task() -> Value {
    json!({
        "taskId": "t-1", "status": "working", "createdAt": "2026-01-02T03:04:05Z",
        "lastUpdatedAt": "2026-01-02T03:04:06Z", "ttl": 60000, "statusMessage": "Busy", "pollInterval": 500
    })
}

/// A task of the extension.
pub(crate) fn task(status: &str) -> Value {
    json!({
        "taskId": "t-1", "status": status, "createdAt": "2026-01-02T03:04:05Z",
        "lastUpdatedAt": "2026-01-02T03:04:06Z", "ttlMs": 60000, "statusMessage": "Busy", "pollIntervalMs": 500
    })
}

/// A task of the extension, with its outcome for every status.
pub(crate) fn detailed_task(status: &str) -> Value {
    let mut task = task(status);
    task["inputRequests"] = input_requests();
    task["result"] = json!({"content": []});
    task["error"] = json!({"code": -32603, "message": "Broken", "data": {"why": "x"}});
    task
}

fn with(mut value: Value, more: Value) -> Value {
    if let (Some(value), Value::Object(more)) = (value.as_object_mut(), more) {
        value.extend(more);
    }
    value
}

fn plain_result() -> Value {
    json!({"resultType": "complete", "_meta": result_meta()})
}

fn filter() -> Value {
    json!({
        "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": false,
        "resourceSubscriptions": ["file:///a.txt"], "taskIds": ["t-1"]
    })
}

/// The parameters of the request or notification that the schemas define as `definition`.
pub(crate) fn params(definition: &str) -> Value {
    let meta = |value: Value| with(value, json!({"_meta": request_meta()}));
    let listened = |value: Value| with(value, json!({"_meta": result_meta()}));
    let retried = |value: Value| {
        meta(with(value, json!({"inputResponses": input_responses(), "requestState": "opaque"})))
    };
    match definition {
        "InitializeRequest" => meta(json!({
            "protocolVersion": "2025-11-25", "capabilities": client_capabilities(), "clientInfo": implementation()
        })),
        "ListToolsRequest"
        | "ListResourcesRequest"
        | "ListResourceTemplatesRequest"
        | "ListPromptsRequest"
        | "ListTasksRequest" => meta(json!({"cursor": ""})),
        "CallToolRequest" => retried(json!({"name": "add", "arguments": {"a": 1.5}, "task": {"ttl": 60000}})),
        "GetPromptRequest" => retried(json!({"name": "greet", "arguments": {"who": "you"}})),
        "ReadResourceRequest" => retried(json!({"uri": "file:///a.txt"})),
        "SubscribeRequest" | "UnsubscribeRequest" => meta(json!({"uri": "file:///a.txt"})),
        "CompleteRequest" => meta(json!({
            "ref": {"type": "ref/prompt", "name": "greet", "title": "Greeting"},
            "argument": {"name": "who", "value": "y"}, "context": {"arguments": {"tone": "warm"}}
        })),
        "SetLevelRequest" => meta(json!({"level": "warning"})),
        "SubscriptionsListenRequest" => meta(json!({"notifications": filter()})),
        "CreateMessageRequest" => create_message(),
        "ElicitRequest" => form(),
        "GetTaskRequest" | "GetTaskPayloadRequest" | "CancelTaskRequest" => meta(json!({"taskId": "t-1"})),
        "UpdateTaskRequest" => meta(json!({"taskId": "t-1", "inputResponses": input_responses()})),
        "CancelledNotification" => listened(json!({"requestId": 0, "reason": "Enough"})),
        "ProgressNotification" => {
            listened(json!({"progressToken": "p-1", "progress": 1, "total": 2.5, "message": "Halfway"}))
        }
        "LoggingMessageNotification" => {
            listened(json!({"level": "error", "logger": "core", "data": {"what": "it"}}))
        }
        "ResourceUpdatedNotification" => listened(json!({"uri": "file:///a.txt"})),
        "ElicitationCompleteNotification" => listened(json!({"elicitationId": "e-1"})),
        "SubscriptionsAcknowledgedNotification" => listened(json!({"notifications": filter()})),
        "LegacyTaskStatusNotification" => listened(legacy_task()),
        "TaskStatusNotification" => listened(detailed_task("working")),
        _ => meta(json!({})),
    }
}

/// The result that the schemas define as `definition`.
pub(crate) fn result(definition: &str) -> Value {
    let kept =
        |value: Value| with(with(value, plain_result()), json!({"ttlMs": 60000, "cacheScope": "public"}));
    match definition {
        "InitializeResult" => with(
            plain_result(),
            json!({
                "protocolVersion": "2025-11-25", "capabilities": server_capabilities(), "serverInfo": implementation(),
                "instructions": "Ask away"
            }),
        ),
        "DiscoverResult" => kept(json!({
            "supportedVersions": ["2026-07-28"], "capabilities": server_capabilities(), "instructions": "Ask away",
            "serverInfo": implementation()
        })),
        "ListToolsResult" => page("tools", json!([tool(json!({"type": "object", "properties": {}}))])),
        "ListResourcesResult" => page("resources", json!([resource()])),
        "ListResourceTemplatesResult" => page(
            "resourceTemplates",
            json!([{
                "uriTemplate": "file:///{name}", "name": "a", "title": "A", "description": "A letter", "icons": icons(),
                "mimeType": "text/plain", "annotations": annotations(), "_meta": custom_meta()
            }]),
        ),
        "ListPromptsResult" => page(
            "prompts",
            json!([{
                "name": "greet", "title": "Greeting", "description": "Greets", "icons": icons(), "_meta": custom_meta(),
                "arguments": [{"name": "who", "title": "Who", "description": "Whom", "required": true}]
            }]),
        ),
        "ReadResourceResult" => kept(json!({"contents": [text_contents(), blob_contents()]})),
        "CallToolResult" => with(
            plain_result(),
            json!({
                "content": content(), "structuredContent": {"sum": 3}, "isError": false
            }),
        ),
        "GetPromptResult" => {
            let message = |content: &Value| json!({"role": "user", "content": content});
            let messages: Vec<Value> = content().as_array().into_iter().flatten().map(message).collect();
            with(plain_result(), json!({"messages": messages, "description": "Greets"}))
        }
        "CompleteResult" => with(
            plain_result(),
            json!({
                "completion": {"values": ["you"], "total": 1, "hasMore": false}
            }),
        ),
        "CreateMessageResult" => create_message_result(),
        "ElicitResult" => elicit_result(),
        "ListRootsResult" => roots(),
        "ListTasksResult" => with(plain_result(), json!({"tasks": [legacy_task()], "nextCursor": ""})),
        "LegacyGetTaskResult" => with(plain_result(), legacy_task()),
        "LegacyCreateTaskResult" => with(plain_result(), json!({"task": legacy_task()})),
        "GetTaskResult" => with(plain_result(), detailed_task("working")),
        "CreateTaskResult" => with(with(plain_result(), task("working")), json!({"resultType": "task"})),
        "InputRequiredResult" => with(
            plain_result(),
            json!({
                "resultType": "input_required", "inputRequests": input_requests(), "requestState": "opaque"
            }),
        ),
        _ => plain_result(),
    }
}

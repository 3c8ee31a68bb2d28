//! What a client cannot do is not asked of it.

use super::*;

/// S1.6, S4.3, C1.11, F13
#[test]
fn error_names_the_capability_that_the_client_lacks() {
    let mut web = HttpHarness::new(router());
    let call = |web: &mut HttpHarness, tool: &str, capabilities: Value| {
        let mut caller = web.ask_with("tools/call", json!({"name": tool, "arguments": {}}), capabilities);
        (caller.head().status, caller.json())
    };
    let (status, answer) =
        call(&mut web, "greet", json!({"sampling": {}, "roots": {}, "elicitation": {"url": {}}}));
    assert_eq!((status, &answer["error"]["code"]), (400, &json!(-32021)), "{answer}");
    assert_eq!(answer["error"]["data"]["requiredCapabilities"], json!({"elicitation": {"form": {}}}));
    let (status, answer) = call(&mut web, "three", json!({"elicitation": {}}));
    assert_eq!(status, 400);
    let required = &answer["error"]["data"]["requiredCapabilities"];
    assert_eq!(required, &json!({"sampling": {}, "roots": {}}), "{answer}");
}

/// S1.6: capabilities of one attempt do not count for the next.
#[test]
fn server_uses_the_capabilities_of_each_attempt() {
    let mut web = HttpHarness::new(router());
    let (_, state) = required_input(&attempt(&mut web, "steps", None, None));
    let responses = json!({"first": accepted("first", "1")});
    let params =
        json!({"name": "steps", "arguments": {}, "requestState": state, "inputResponses": responses});
    let answer = web.ask_with("tools/call", params, json!({})).json();
    assert_eq!(answer["error"]["code"], -32021, "{answer}");
}

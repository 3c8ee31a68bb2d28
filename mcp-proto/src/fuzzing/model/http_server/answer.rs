//! The answers to requests, as the model predicts them: their contents, and when they come.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use serde_json::Value;

use super::super::MODERN;
use super::{HttpServerModel, Request, RequestState, negotiate};

/// The content of an answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Content {
    /// A result with a text.
    Text(String),
    /// A result of a tool that reports an error.
    ToolError,
    /// A result with a member, of this value unless it is `null`.
    Member(&'static str, Value),
    EmptyResult,
    Error(i64),
    AnyError,
    Any,
}

/// The answer to a request.
struct Prediction {
    contents: Vec<Content>,
    /// The time that the server takes. `None`: it does not answer by itself.
    delay: Option<Duration>,
    /// Whether it takes no longer.
    is_exact: bool,
    /// The request with which the handler asks the client, and how long it takes after the client's answer.
    asks: Option<(&'static str, Duration)>,
}

impl Prediction {
    fn at_once(contents: impl Into<Vec<Content>>) -> Self {
        Self::after(contents, Duration::ZERO)
    }

    fn after(contents: impl Into<Vec<Content>>, delay: Duration) -> Self {
        Self { contents: contents.into(), delay: Some(delay), is_exact: true, asks: None }
    }

    /// No answer, unless the session ends.
    fn never() -> Self {
        Self { contents: Vec::new(), delay: None, is_exact: false, asks: None }
    }

    /// The answer of a handler that asks the client, unless it cannot.
    fn asking(contents: impl Into<Vec<Content>>, method: &'static str, then: Duration) -> Self {
        Self { is_exact: false, asks: Some((method, then)), ..Self::at_once(contents) }
    }
}

impl HttpServerModel {
    /// Adds a request, whose answer is due on a stream.
    pub(super) fn add_request(&mut self, stream: usize, id: Value, method: &str, params: &Value) {
        let session = self.streams[stream].session;
        let mut predicted = match (method, session) {
            ("initialize", _) => {
                let revision = negotiate(params["protocolVersion"].as_str());
                if let Some(session) = session.map(|session| &mut self.sessions[session]) {
                    (session.revision, session.is_subscribed) = (Some(revision), false);
                }
                Prediction::at_once([Content::Member("protocolVersion", revision.into())])
            }
            (_, None) => self.predict_modern(method, params),
            (_, Some(session)) => self.predict_legacy(session, method, params),
        };
        if let Some(duplicate) = session.and_then(|session| self.find_open(session, &id)) {
            let is_open = self.requests[duplicate].state == RequestState::Open && !self.kind.is_tight;
            let error = Content::Error(-32600);
            predicted = match is_open {
                true => Prediction::at_once([error]),
                false => {
                    predicted.contents.push(error);
                    Prediction { delay: Some(Duration::ZERO), is_exact: false, ..predicted }
                }
            };
        }
        let from = predicted.delay.map(|delay| self.now + delay);
        self.streams[stream].requests.push(self.requests.len());
        self.requests.push(Request {
            id,
            session,
            state: RequestState::Open,
            contents: predicted.contents,
            from,
            by: from.filter(|_| predicted.is_exact && !self.kind.is_tight),
            asks: predicted.asks,
            releases: params["name"] == "release"
                && session.is_some_and(|session| self.sessions[session].revision == Some("2025-11-25")),
            argument: params["arguments"]["n"].as_u64().unwrap_or_default(),
        });
    }

    fn predict_modern(&self, method: &str, params: &Value) -> Prediction {
        match method {
            "server/discover" => {
                let versions = Value::from([MODERN].as_slice());
                Prediction::at_once([Content::Member("supportedVersions", versions)])
            }
            "subscriptions/listen" => Prediction::never(),
            "tools/list" => Prediction::at_once([Content::Member("tools", Value::Null)]),
            "tools/call" => self.predict_modern_call(params),
            // About a task.
            _ => Prediction::at_once([Content::Any]),
        }
    }

    fn predict_modern_call(&self, params: &Value) -> Prediction {
        let n = params["arguments"]["n"].as_u64().unwrap_or_default();
        match params["name"].as_str() {
            Some("form") => {
                let input_required = Content::Member("resultType", "input_required".into());
                let Some(state) = params["requestState"].as_str() else {
                    return Prediction::at_once([input_required]);
                };
                // A state of another call is refused, or the server asks again.
                let mut contents = Vec::from([input_required, Content::AnyError]);
                if self.states.get(state) == Some(&n) {
                    contents.push(Content::Text(alloc::format!("{n}: accept")));
                }
                Prediction::at_once(contents)
            }
            Some("job") => Prediction::at_once([Content::Member("taskId", Value::Null)]),
            Some("ask") => Prediction::at_once([Content::Text("done".into())]),
            name => predict_simple_call(name),
        }
    }

    fn predict_legacy(&mut self, session: usize, method: &str, params: &Value) -> Prediction {
        let Some(revision) = self.sessions[session].revision else {
            return match method {
                "ping" => Prediction::at_once([Content::EmptyResult]),
                _ => Prediction::at_once([Content::AnyError]),
            };
        };
        match method {
            "ping" => Prediction::at_once([Content::EmptyResult]),
            "resources/subscribe" => {
                self.sessions[session].is_subscribed = true;
                Prediction::at_once([Content::EmptyResult])
            }
            "tools/list" => Prediction::at_once([Content::Member("tools", Value::Null)]),
            "tools/call" => predict_legacy_call(params),
            "tasks/get" | "tasks/cancel" | "tasks/list" if revision == "2025-11-25" => {
                Prediction::at_once([Content::Any])
            }
            // It waits for the end of the task.
            "tasks/result" if revision == "2025-11-25" => {
                Prediction { is_exact: false, ..Prediction::at_once([Content::Any]) }
            }
            _ => Prediction::at_once([Content::Error(-32601)]),
        }
    }

    /// Finds a request of a session that has no answer, or may have none.
    pub(super) fn find_open(&self, session: usize, id: &Value) -> Option<usize> {
        let is_open = |request: &Request| {
            matches!(request.state, RequestState::Open | RequestState::Uncertain)
                && request.session == Some(session)
                && request.id == *id
                && !request.id.is_null()
        };
        self.requests.iter().position(is_open)
    }
}

fn predict_legacy_call(params: &Value) -> Prediction {
    let n = params["arguments"]["n"].as_u64().unwrap_or_default();
    let declined = [Content::Text(alloc::format!("{n}: decline")), Content::ToolError];
    match params["name"].as_str() {
        Some("ask") => Prediction::asking([Content::Text("done".into())], "roots/list", Duration::ZERO),
        Some("form") => Prediction::asking(declined, "elicitation/create", Duration::ZERO),
        Some("job") => Prediction::asking(declined, "elicitation/create", Duration::from_secs(2)),
        name => predict_simple_call(name),
    }
}

/// Predicts the answer of a tool that does the same for all clients.
fn predict_simple_call(name: Option<&str>) -> Prediction {
    let delay = match name {
        Some("quick") => Duration::ZERO,
        Some("slow") => Duration::from_millis(2100),
        Some("release") => Duration::from_secs(5),
        Some("stuck") => return Prediction::never(),
        _ => return Prediction::at_once([Content::Error(-32602)]),
    };
    Prediction::after([Content::Text("done".into())], delay)
}

impl Content {
    pub(super) fn fits(&self, answer: Result<&Value, i64>) -> bool {
        match (self, answer) {
            (Self::Any, _) | (Self::AnyError, Err(_)) => true,
            (Self::Error(code), Err(other)) => *code == other,
            (Self::Text(text), Ok(result)) => {
                result["content"][0]["text"] == text.as_str() && result["isError"] != true
            }
            (Self::ToolError, Ok(result)) => result["isError"] == true,
            (Self::Member(name, value), Ok(result)) => {
                result.get(name).is_some_and(|member| value.is_null() || member == value)
            }
            (Self::EmptyResult, Ok(result)) => result.as_object().is_some_and(serde_json::Map::is_empty),
            _ => false,
        }
    }
}

//! Where a live answer says something else than the recorded one.

use core::fmt;

use serde_json::{Map, Value};

use crate::ordered_map::OrderedMap;
use crate::prelude::*;
use crate::redact::stand_in_length;
use crate::rpc::Raw;

/// A place at which an answer says something else than the recorded one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// The JSON pointer to it in an object with `result` or `error`, or with `failure` if there was no answer.
    pub pointer: String,
    /// The recorded value, if there is one.
    pub recorded: Option<Raw>,
    /// The live value, if there is one.
    pub live: Option<Raw>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |value: &Option<Raw>| value.as_ref().map_or_else(|| "nothing".to_owned(), shortened);
        let pointer = if self.pointer.is_empty() { "the answer" } else { &self.pointer };
        write!(f, "{pointer}: recorded {}, now {}", text(&self.recorded), text(&self.live))
    }
}

/// The text of a value, shortened.
fn shortened(value: &Raw) -> String {
    const LONGEST: usize = 300;
    let mut text = value.as_str().to_owned();
    if let Some((end, _)) = text.char_indices().nth(LONGEST) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// The most differences of one answer that are noted.
const MOST: usize = 100;

/// Compares answers by their meaning, and learns which live values stand for recorded ones.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    /// Pointers to places that may differ: their segments, of which `*` stands for any.
    ignored: Vec<Vec<String>>,
    /// The live values of recorded ids, cursors and tokens.
    live: OrderedMap<String, String>,
}

/// One comparison of two documents.
struct Walk<'a> {
    comparison: &'a mut Comparison,
    path: Vec<String>,
    found: Vec<Difference>,
}

impl Comparison {
    pub(crate) fn new(ignored: Vec<Vec<String>>) -> Self {
        Self { ignored, live: OrderedMap::new() }
    }

    /// The places at which a live answer differs, in the order of the recorded one.
    pub(crate) fn compare(&mut self, recorded: &Value, live: &Value) -> Vec<Difference> {
        let mut walk = Walk { comparison: self, path: Vec::new(), found: Vec::new() };
        walk.compare(Some(recorded), Some(live));
        walk.found
    }

    /// Puts live values in the place of recorded ones in a member of this name: long ones anywhere, others as cursors.
    pub(crate) fn follow(&self, name: &str, value: &mut Value) {
        match value {
            Value::String(text) if name == "cursor" || is_generated(text) => {
                if let Some(live) = self.live.get(text.as_str()) {
                    text.clone_from(live);
                }
            }
            Value::Array(values) => values.iter_mut().for_each(|value| self.follow(name, value)),
            Value::Object(members) => members.iter_mut().for_each(|(name, value)| self.follow(name, value)),
            _ => {}
        }
    }
}

/// Whether a value holds a text of which a part was hidden in the trace.
pub(crate) fn is_hidden(value: &Value) -> bool {
    match value {
        Value::String(text) => has_mark(text),
        Value::Array(values) => values.iter().any(is_hidden),
        Value::Object(members) => members.iter().any(|(name, value)| has_mark(name) || is_hidden(value)),
        _ => false,
    }
}

impl Walk<'_> {
    fn compare(&mut self, recorded: Option<&Value>, live: Option<&Value>) {
        if self.is_ignored() || self.found.len() >= MOST {
            return;
        }
        match (recorded.filter(|it| !it.is_null()), live.filter(|it| !it.is_null())) {
            (Some(Value::Object(recorded)), Some(Value::Object(live))) => {
                self.compare_objects(recorded, live)
            }
            (Some(Value::Array(recorded)), Some(Value::Array(live))) => self.compare_arrays(recorded, live),
            (Some(Value::String(recorded)), Some(Value::String(live))) => self.compare_texts(recorded, live),
            (Some(Value::Number(recorded)), Some(Value::Number(live)))
                if recorded == live || recorded.as_f64() == live.as_f64() => {}
            (recorded, live) if recorded == live => {}
            (recorded, live) => self.note(recorded, live),
        }
    }

    fn note(&mut self, recorded: Option<&Value>, live: Option<&Value>) {
        let raw = |value: Option<&Value>| Raw::encode(value?).ok();
        let pointer =
            self.path.iter().flat_map(|it| ["/".to_owned(), it.replace('~', "~0").replace('/', "~1")]);
        self.found.push(Difference { pointer: pointer.collect(), recorded: raw(recorded), live: raw(live) });
    }

    fn member(&mut self, name: impl Into<String>, recorded: Option<&Value>, live: Option<&Value>) {
        self.path.push(name.into());
        self.compare(recorded, live);
        self.path.pop();
    }

    /// Whether this place may differ: in `_meta`, and by a pointer.
    fn is_ignored(&self) -> bool {
        let fits = |(pattern, name): (&String, &String)| pattern == "*" || pattern == name;
        self.path.last().is_some_and(|name| name == "_meta")
            || self
                .comparison
                .ignored
                .iter()
                .any(|pattern| pattern.len() == self.path.len() && pattern.iter().zip(&self.path).all(fits))
    }

    fn compare_objects(&mut self, recorded: &Map<String, Value>, live: &Map<String, Value>) {
        for (name, value) in recorded {
            self.member(name, Some(value), live.get(name));
        }
        for (name, value) in live.iter().filter(|(name, _)| !recorded.contains_key(*name)) {
            self.member(name, None, Some(value));
        }
    }

    /// Items that have names are compared by these, so that a list may have another order.
    fn compare_arrays(&mut self, recorded: &[Value], live: &[Value]) {
        let by_name = |values: &[Value]| -> Option<OrderedMap<String, usize>> {
            let names = values.iter().zip(0..).map(|(value, at)| Some((name_of(value)?.to_owned(), at)));
            names.collect::<Option<OrderedMap<_, _>>>().filter(|names| names.len() == values.len())
        };
        let (Some(_), Some(named)) = (by_name(recorded), by_name(live)) else {
            for at in 0..recorded.len().max(live.len()) {
                self.member(at.to_string(), recorded.get(at), live.get(at));
            }
            return;
        };
        let mut left = named.clone();
        for (at, value) in recorded.iter().enumerate() {
            let same = name_of(value).and_then(|name| left.remove(name));
            self.member(at.to_string(), Some(value), same.and_then(|at| live.get(at)));
        }
        for at in left.into_values() {
            self.member(at.to_string(), None, live.get(at));
        }
    }

    fn compare_texts(&mut self, recorded: &str, live: &str) {
        if recorded == live || fits_hidden(recorded, live) || is_time(recorded) && is_time(live) {
            return;
        }
        let name = self.path.last().map_or("", String::as_str);
        if is_handle(name) || is_id(name) && is_generated(recorded) && is_generated(live) {
            self.comparison.live.insert(recorded.to_owned(), live.to_owned());
            return;
        }
        // Many tools write JSON into a text.
        match (object_or_array(recorded), object_or_array(live)) {
            (Some(recorded), Some(live)) => self.compare(Some(&recorded), Some(&live)),
            _ => self.note(Some(&recorded.into()), Some(&live.into())),
        }
    }
}

fn name_of(value: &Value) -> Option<&str> {
    ["uri", "uriTemplate", "name"].into_iter().find_map(|member| value.get(member)?.as_str())
}

fn object_or_array(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok().filter(|value: &Value| value.is_object() || value.is_array())
}

/// Members whose values the server makes up for each client.
fn is_handle(name: &str) -> bool {
    ["nextCursor", "requestState", "taskId", "sessionId", "progressToken", "elicitationId"].contains(&name)
}

fn is_id(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["id", "ids", "uuid", "cursor", "token"]
        .iter()
        .any(|end| name.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with(['_', '-'])))
        || name.ends_with("id") && name.len() > 2
}

/// Whether a text looks like one that was made by a program: long, and with digits.
fn is_generated(text: &str) -> bool {
    text.len() >= 8 && text.bytes().any(|byte| byte.is_ascii_digit()) && !text.contains(char::is_whitespace)
}

/// Whether a text is a date with a time, as RFC 3339 writes it.
fn is_time(text: &str) -> bool {
    let mut bytes = text.bytes().chain(core::iter::repeat(b' '));
    let shape = b"dddd-dd-ddTdd:dd:dd";
    text.len() <= 40
        && shape.iter().all(|form| {
            bytes.next().is_some_and(|byte| match form {
                b'd' => byte.is_ascii_digit(),
                b'T' => matches!(byte, b'T' | b't' | b' '),
                form => byte == *form,
            })
        })
}

/// Whether a live text fits a recorded one of which parts are hidden.
fn fits_hidden(recorded: &str, live: &str) -> bool {
    let mut parts = around_marks(recorded).into_iter();
    let Some(mut rest) = parts.next().and_then(|start| live.strip_prefix(start)) else { return false };
    let Some(mut last) = parts.next() else { return false };
    for part in parts {
        match rest.split_once(last) {
            Some((_, after)) => rest = after,
            None => return false,
        }
        last = part;
    }
    rest.ends_with(last)
}

fn has_mark(text: &str) -> bool {
    around_marks(text).len() > 1
}

/// The parts of a text around marks of hidden values, and pseudonyms.
fn around_marks(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut from) = (Vec::new(), 0, 0);
    while let Some(at) = text.get(from..).and_then(|rest| rest.find('[')) {
        let place = at.saturating_add(from);
        from = place.saturating_add(1);
        if let Some(length) = text.as_bytes().get(place..).and_then(stand_in_length) {
            parts.push(text.get(start..place).unwrap_or_default());
            (start, from) = (place.saturating_add(length), place.saturating_add(length));
        }
    }
    parts.push(text.get(start..).unwrap_or_default());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn differences(recorded: &Value, live: &Value) -> Vec<String> {
        Comparison::default().compare(recorded, live).into_iter().map(|it| it.pointer).collect()
    }

    #[test]
    fn what_means_the_same_does_not_differ() {
        for (recorded, live) in [
            (json!({ "a": 1, "b": null, "_meta": { "x": 1 } }), json!({ "a": 1.0 })),
            (json!({ "at": "2026-01-01T00:00:00Z" }), json!({ "at": "2026-11-26T20:35:01.5+01:00" })),
            (
                json!({ "id": "a1b2c3d4e5", "nextCursor": "x" }),
                json!({ "id": "99b2c3d4e5", "nextCursor": "y" }),
            ),
            (json!("key [redacted], [id:4f1c25d0a3b1e8f2]."), json!("key 123, abc.")),
            (json!({ "text": "{\"a\": [1, 2]}" }), json!({ "text": "{\"a\":[1,2]}" })),
            (
                json!([{ "name": "a", "x": 1 }, { "name": "b" }]),
                json!([{ "name": "b" }, { "name": "a", "x": 1 }]),
            ),
        ] {
            assert_eq!(differences(&recorded, &live), [""; 0], "{recorded}");
        }
    }

    #[test]
    fn each_difference_has_its_pointer() {
        let named = |names: [&str; 2]| json!(names.map(|name| json!({ "name": name })));
        for (recorded, live, pointers) in [
            (
                json!({ "a": { "b/~": [1, 2] } }),
                json!({ "a": { "b/~": [1, 3, 4] } }),
                vec!["/a/b~1~0/1", "/a/b~1~0/2"],
            ),
            (json!({ "a": 1 }), json!({ "b": 1 }), vec!["/a", "/b"]),
            (named(["a", "b"]), named(["c", "b"]), vec!["/0", "/0"]),
            (json!({ "id": "alice" }), json!({ "id": "bob" }), vec!["/id"]),
            (json!("key [redacted]."), json!("lock 1."), vec![""]),
            (json!("[{\"a\": 1}]"), json!("[{\"a\": 2}]"), vec!["/0/a"]),
            (json!({ "result": {} }), json!({ "error": { "code": 1 } }), vec!["/result", "/error"]),
        ] {
            assert_eq!(differences(&recorded, &live), pointers);
        }
        let shown = Comparison::default().compare(&json!({ "a": 1 }), &json!({}));
        assert_eq!(shown[0].to_string(), "/a: recorded 1, now nothing");
    }

    #[test]
    fn live_values_take_the_place_of_recorded_ones() {
        let mut comparison = Comparison::new(vec![vec!["items".into(), "*".into(), "size".into()]]);
        let answer = |cursor: &str, size| json!({ "nextCursor": cursor, "items": [{ "size": size }] });
        assert_eq!(comparison.compare(&answer("one", 1), &answer("two", 2)), []);
        let id = |id: &str| json!({ "id": id });
        assert_eq!(comparison.compare(&id("a1b2c3d4"), &id("d4c3b2a1")), []);
        let mut params = json!({ "cursor": "one", "name": "one", "list": ["one", "a1b2c3d4"] });
        comparison.follow("", &mut params);
        assert_eq!(params, json!({ "cursor": "two", "name": "one", "list": ["one", "d4c3b2a1"] }));
    }

    #[test]
    fn hidden_values_are_recognised() {
        let pseudonym = json!({ "cursor": "[id:4f1c25d0a3b1e8f2]" });
        for hidden in [json!("a [redacted]"), json!([{ "[redacted]": 1 }]), pseudonym] {
            assert!(is_hidden(&hidden), "{hidden}");
        }
        for shown in [
            json!("[id:]"),
            json!("[id:x] redacted"),
            json!(null),
            json!("[id:00ff]"),
            json!("[id:4f1c25d0a3b1e8f2"),
        ] {
            assert!(!is_hidden(&shown), "{shown}");
        }
    }
}

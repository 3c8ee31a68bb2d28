//! Reads fixtures, compares them, and writes them with `RECORD=1`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

fn path(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "recorded", name].iter().collect()
}

fn records() -> bool {
    std::env::var("RECORD").is_ok_and(|value| value == "1")
}

/// The committed fixture. When recording, `current` is the fixture.
#[track_caller]
pub(crate) fn committed(name: &str, current: &str) -> String {
    if records() {
        return current.to_owned();
    }
    match std::fs::read(path(name)) {
        Ok(bytes) => String::from_utf8(bytes).expect("a fixture is UTF-8"),
        Err(error) => panic!("cannot read the fixture {name}: {error}; RECORD=1 writes it"),
    }
}

/// Compares the current output with the fixture.
#[track_caller]
pub(crate) fn check(name: &str, current: &str) {
    if records() {
        let written = std::fs::write(path(name), current);
        return written.unwrap_or_else(|error| panic!("cannot write the fixture {name}: {error}"));
    }
    let committed = committed(name, current);
    if committed == current {
        return;
    }
    let mut lines = (committed.split('\n'), current.split('\n'));
    for number in 1.. {
        let pair = (lines.0.next(), lines.1.next());
        if pair.0 != pair.1 {
            panic!(
                "{name} differs in line {number}\n fixture: {}\n current: {}",
                pair.0.unwrap_or("(no line)"),
                pair.1.unwrap_or("(no line)")
            );
        }
    }
}

/// Bytes of text as one reversible line: `\`, CR and LF are escaped.
pub(crate) fn one_line(bytes: &[u8]) -> String {
    let text = core::str::from_utf8(bytes).expect("a trace is UTF-8");
    text.replace('\\', "\\\\").replace('\r', "\\r").replace('\n', "\\n")
}

/// JSON with sorted members, whether or not `serde_json` preserves their order.
pub(crate) fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let members: BTreeMap<_, _> = members.iter().map(|(name, value)| (name, sorted(value))).collect();
            members.into_iter().map(|(name, value)| (name.clone(), value)).collect()
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

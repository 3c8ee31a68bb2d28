//! Fuzzing of the redaction of frames.

use memchr::memmem;
use serde_json::Value;

use crate::prelude::*;
use crate::redact::Redactor;

const SECRET: &[u8] = "hunter2 ü\"".as_bytes();

/// Redacts the input as a frame, in which a zero byte stands for a known secret.
///
/// Nothing panics, the secret is not shown, valid JSON stays valid, and UTF-8 stays UTF-8.
pub fn redact(data: &[u8]) {
    let frame = data.split(|byte| *byte == 0).collect::<Vec<_>>().join(SECRET);
    let mut redactor = Redactor::new().known(SECRET).pointer("/params/*/x").name("y");
    let shown = redactor.frame(&frame).into_owned();
    assert!(memmem::find(&shown, SECRET).is_none(), "the secret is shown");
    let is_json =
        |text: &[u8]| matches!(serde_json::from_slice(text), Ok(Value::Object(_) | Value::Array(_)));
    assert!(is_json(&shown) || !is_json(&frame), "JSON is no JSON any more");
    if let Ok(text) = str::from_utf8(&frame) {
        assert!(str::from_utf8(&shown).is_ok(), "UTF-8 is no UTF-8 any more");
        let shown = redactor.cut_text(text);
        assert!(memmem::find(shown.as_bytes(), SECRET).is_none(), "the secret is shown in a text");
    }
}

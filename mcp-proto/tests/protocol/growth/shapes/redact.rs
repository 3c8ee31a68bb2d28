//! Frames whose secrets are hidden.

use std::hint::black_box;

use mcp_proto::redact::{FrameDigest, Pseudonyms, Redactor};

use super::{Shape, Work, commas, repeat, shape};

pub const SHAPES: [Shape; 17] = [
    shape("redact: secrets in JSON", |bytes| frame(format!("{{{}}}", commas(bytes, "\"password\":\"@\"")))),
    shape("redact: nested JSON in strings", |bytes| {
        let inner = repeat(bytes / 8, ",", r#"{"token":"@\\"}"#);
        let once = serde_json::to_string(&inner).unwrap();
        frame(format!("[{}]", serde_json::to_string(&once).unwrap()))
    }),
    shape("redact: escapes of each kind", |bytes| frame(repeat(bytes, "", r"\u0070%70\\\"))),
    shape("redact: names without values", |bytes| frame(repeat(bytes, " ", "password="))),
    shape("redact: open objects behind names", |bytes| frame(repeat(bytes, "", "password:{"))),
    shape("redact: open quotes behind names", |bytes| frame(repeat(bytes, "", "x:\"x:'"))),
    shape("redact: open quotes with escapes", |bytes| frame(repeat(bytes, "", r#"a=\"a=\\\"'"#))),
    shape("redact: parameters", |bytes| frame(repeat(bytes, "", "?a="))),
    shape("redact: schemes", |bytes| frame(repeat(bytes, " ", "bearer"))),
    shape("redact: URLs", |bytes| frame(repeat(bytes, "", "a://@"))),
    shape("redact: beginnings of keys", |bytes| frame(repeat(bytes, "", "-----BEGIN PRIVATE KEY"))),
    shape("redact: lines, some of them JSON", |bytes| frame(repeat(bytes, "\n", "{\"a\":1}\ndata: {\"a\":"))),
    shape("redact: beginnings of known secrets", |bytes| frame("a".repeat(bytes))),
    shape("redact: known secrets with quotes", |bytes| frame(repeat(bytes, "\n", "[\"aaaa\"]\nx \"aaaa"))),
    shape("redact: identifiers", |bytes| {
        let ids = commas(bytes, r#""1868a90c-5e3f-4d21-@""#);
        frame(format!(r#"{{"params":{{"notifications":{{"taskIds":[{ids}]}},"a":[{ids}]}}}}"#))
    }),
    shape("redact: ids of events", |bytes| {
        frame(repeat(bytes, "\n", "id: 1868a90c-5e3f-4d21-@\ndata: ?sessionid=1868a90c-5e3f-4d21-@"))
    }),
    shape("redact: fields of a schema", |bytes| {
        let fields = commas(bytes, r##""f@":{"format":"password"},"g@":{"$ref":"#/$defs/f@"}"##);
        frame(format!(r#"{{"result":{{"tools":[{{"inputSchema":{{"properties":{{{fields}}}}}}}]}}}}"#))
    }),
];

fn frame(text: String) -> Work {
    Box::new(move || {
        let redactor = Redactor::new().known("Bearer aaaaaaaaaaaaaaab").known("a".repeat(30) + "b");
        let mut redactor = redactor.known("\"aaaa").pseudonyms(Pseudonyms::new([0; 16]));
        black_box(redactor.frame(text.as_bytes()));
        black_box(redactor.cut_text(&text));
        black_box(redactor.cut_frame(text.as_bytes(), &FrameDigest::default()));
        black_box(
            redactor.cut_frame(text.strip_suffix('}').unwrap_or(&text).as_bytes(), &FrameDigest::default()),
        );
    })
}

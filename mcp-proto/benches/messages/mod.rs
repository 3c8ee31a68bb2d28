//! Messages of several sizes: the input of the benchmarks of envelopes.

/// A request of 180 bytes.
pub(crate) const CALL: &str = r#"{"jsonrpc":"2.0","id":12345,"method":"tools/call","params":{"name":"echo","arguments":{"message":"The quick brown fox jumps over the lazy dog"},"_meta":{"progressToken":12345}}}"#;

/// A tool's result; `text` is the inside of a JSON string.
pub(crate) fn result(text: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":12345,"result":{{"content":[{{"type":"text","text":"{text}"}}],"isError":false}}}}"#
    )
}

pub(crate) fn text(length: usize) -> String {
    "The quick brown fox jumps over the lazy dog. ".chars().cycle().take(length).collect()
}

/// Source code: a newline and a quote every few words.
pub(crate) fn escaped(length: usize) -> String {
    let line = r#"    let name = \"value\";\n\tprint(\"%s\", name);\n"#;
    line.repeat(length / line.len())
}

pub(crate) fn structured(length: usize) -> String {
    let mut rows = String::new();
    let mut n = 0;
    while rows.len() < length {
        if n > 0 {
            rows.push(',');
        }
        rows += &format!(
            r#"{{"id":{n},"name":"item {n}","price":{}.5,"tags":["red","large"],"stock":{{"here":true,"count":{}}}}}"#,
            n * 3,
            n % 17
        );
        n += 1;
    }
    format!(
        r#"{{"jsonrpc":"2.0","id":12345,"result":{{"content":[],"structuredContent":{{"rows":[{rows}]}}}}}}"#
    )
}

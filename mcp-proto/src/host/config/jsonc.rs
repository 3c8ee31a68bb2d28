//! JSON with comments and trailing commas, as editors accept it.

use alloc::vec::Vec;

use memchr::memmem;

/// Replaces comments and trailing commas by spaces, byte for byte, so that the JSON keeps its lines and columns.
/// A comment that does not end is left as it is, and is an error of the JSON.
pub(super) fn to_json(text: &str) -> Vec<u8> {
    let mut json = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    // Where the last comma stands, if only spaces and comments follow it, and a value stands before it.
    let mut last_comma = None;
    let mut last_token = b'[';
    loop {
        let (is_comment, length) = match rest {
            [] => return json,
            [b'/', b'/', ..] => (true, memchr::memchr(b'\n', rest).unwrap_or(rest.len())),
            [b'/', b'*', comment @ ..] => match memmem::find(comment, b"*/") {
                Some(end) => (true, end.saturating_add("/**/".len())),
                None => (false, rest.len()),
            },
            [b'"', ..] => (false, string_length(rest)),
            _ => (false, 1),
        };
        let Some((piece, after)) = rest.split_at_checked(length) else { return json };
        if is_comment {
            json.extend(piece.iter().map(|byte| if *byte == b'\n' { b'\n' } else { b' ' }));
        } else if piece.iter().all(u8::is_ascii_whitespace) {
            json.extend_from_slice(piece);
        } else {
            if let (b"]" | b"}", Some(comma)) = (piece, last_comma.and_then(|at: usize| json.get_mut(at))) {
                *comma = b' ';
            }
            let ends_value = !matches!(last_token, b'[' | b'{' | b',' | b':');
            last_comma = Some(json.len()).filter(|_| piece == b"," && ends_value);
            last_token = piece.last().copied().unwrap_or(last_token);
            json.extend_from_slice(piece);
        }
        rest = after;
    }
}

/// The bytes of the string that this text begins with, with its quotes; all of the text if the string does not end.
fn string_length(text: &[u8]) -> usize {
    let mut is_escaped = false;
    let end = text.iter().skip(1).position(|byte| {
        let is_end = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        is_end
    });
    end.map_or(text.len(), |end| end.saturating_add(2))
}

#[cfg(test)]
mod tests {
    use alloc::string::{String, ToString as _};

    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn json(text: &str) -> String {
        String::from_utf8(to_json(text)).unwrap()
    }

    #[test]
    fn comments_and_trailing_commas_become_spaces_in_place() {
        let text = "{ // one\n  \"a\": [1, 2, /* two\n */ ], // three\n}";
        let expected = "{       \n  \"a\": [1, 2         \n    ]          \n}";
        let read = json(text);
        assert_eq!(read.replace(' ', ""), expected.replace(' ', ""));
        assert_eq!(read.len(), text.len());
        assert!(serde_json::from_str::<Value>(&read).is_ok());
    }

    #[test]
    fn comments_within_strings_are_kept() {
        let text = r#"{"url": "https://a.example/*x*/", "quote": "\"//", "path": "C:\\",}"#;
        let value: Value = serde_json::from_str(&json(text)).unwrap();
        assert_eq!(value["url"], "https://a.example/*x*/");
        assert_eq!(value["quote"], "\"//");
        assert_eq!(value["path"], "C:\\");
    }

    #[test]
    fn commas_without_a_value_stay_errors() {
        for text in ["[,]", "{,}", "[1,,]", "[1,,2]", r#"{"a":,}"#, "[1] /* open", "[1] / 2"] {
            assert!(serde_json::from_str::<Value>(&json(text)).is_err(), "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn strict_json_is_unchanged(numbers in proptest::collection::vec(any::<i32>(), 0..9), text in ".*") {
            let strict = serde_json::json!({ "numbers": numbers, "nested": { "text": text } }).to_string();
            prop_assert_eq!(json(&strict), strict);
        }

        #[test]
        fn arbitrary_text_keeps_its_lines_and_length(text in "[\\[\\]{},:/*\"\\\\ \n\ta1é]{0,60}") {
            let read = to_json(&text);
            prop_assert_eq!(read.len(), text.len());
            let lines = |text: &[u8]| text.iter().filter(|byte| **byte == b'\n').count();
            prop_assert_eq!(lines(&read), lines(text.as_bytes()));
        }
    }
}

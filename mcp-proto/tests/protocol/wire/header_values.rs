//! Encoding of the values of mirrored headers.

use std::borrow::Cow;

use mcp_proto::codec::header::{HeaderValueError, decode, encode};
use proptest::prelude::*;

/// C4.8: the examples of the specification, and further cases.
#[test]
fn encoder_uses_base64_for_values_that_a_header_cannot_carry() {
    for (value, encoded) in [
        ("us-west1", "us-west1"),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("two words, and \"more\"", "two words, and \"more\""),
        ("", ""),
        (" ", "=?base64?IA==?="),
        ("a\tb", "=?base64?YQli?="),
        ("a\0", "=?base64?YQA=?="),
        ("a\u{7F}", "=?base64?YX8=?="),
        ("=?base64?=", "=?base64?PT9iYXNlNjQ/PQ==?="),
    ] {
        assert_eq!(encode(value), encoded);
        assert_eq!(decode(encoded.as_bytes()).as_deref(), Ok(value));
    }
}

#[test]
fn plain_value_is_not_copied() {
    assert!(matches!(encode("plain"), Cow::Borrowed(_)));
    assert!(matches!(decode(b"plain"), Ok(Cow::Borrowed(_))));
}

/// C4.8
#[test]
fn base64_markers_are_case_sensitive_and_stand_at_both_ends() {
    for value in [
        "=?BASE64?YQ==?=",
        "=?Base64?YQ==?=",
        "=?base64?YQ==",
        "YQ==?=",
        "x=?base64?YQ==?=",
        "=?base64?YQ==?=x",
    ] {
        assert_eq!(encode(value), value);
        assert_eq!(decode(value.as_bytes()).as_deref(), Ok(value));
    }
}

/// S3.9
#[test]
fn decoder_rejects_invalid_characters() {
    for (value, at) in
        [(&b"\xC3\xA9"[..], 0), (b"a\0b", 1), (b"a\r\nb", 1), (b"ab\x7F", 2), (b"=?base64?Y\xFF==?=", 10)]
    {
        assert_eq!(decode(value), Err(HeaderValueError::Character(at)));
    }
    assert_eq!(decode(b"a\tb").as_deref(), Ok("a\tb"));
}

/// S3.9
#[test]
fn decoder_rejects_invalid_base64_between_markers() {
    for inner in ["YQ", "YQ=", "YQ===", "YR==", "Y Q==", "Y-_=", "YQ==YQ==", "=", "====", "literal", "?="] {
        let value = format!("=?base64?{inner}?=");
        assert_eq!(decode(value.as_bytes()), Err(HeaderValueError::Base64), "{value}");
    }
    assert_eq!(decode(b"=?base64?="), Err(HeaderValueError::Base64));
    assert_eq!(decode(b"=?base64??=").as_deref(), Ok(""));
}

/// S3.9
#[test]
fn decoder_rejects_base64_that_is_not_utf8() {
    assert_eq!(decode(b"=?base64?/w==?="), Err(HeaderValueError::NotUtf8));
}

#[test]
fn decoder_ignores_spaces_around_a_value() {
    assert_eq!(decode(b" \tplain\t ").as_deref(), Ok("plain"));
    assert_eq!(decode(b" =?base64?YQ==?= ").as_deref(), Ok("a"));
}

#[test]
fn header_value_errors_describe_themselves() {
    assert_eq!(HeaderValueError::Character(3).to_string(), "forbidden character at byte 3");
    assert_eq!(HeaderValueError::Base64.to_string(), "invalid base64 between the markers");
    assert_eq!(HeaderValueError::NotUtf8.to_string(), "the base64 does not decode to UTF-8");
}

fn awkward() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "=?base64?",
        "?=",
        "=",
        "?",
        " ",
        "\t",
        "\r\n",
        "YQ==",
        "a",
        "é",
        "\0",
        "世",
    ]);
    proptest::collection::vec(word, 0..8).prop_map(|words| words.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// C4.8
    #[test]
    fn every_value_survives_encoding_to_visible_ascii(value in prop_oneof![awkward(), any::<String>()]) {
        let encoded = encode(&value);
        prop_assert!(encoded.bytes().all(|byte| matches!(byte, b' '..=b'~')));
        prop_assert!(!encoded.starts_with(' ') && !encoded.ends_with(' '));
        let decoded = decode(encoded.as_bytes());
        prop_assert_eq!(decoded.as_deref(), Ok(&value[..]));
    }
}

#[cfg(feature = "fuzzing")]
proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn fuzz_body_finds_no_error(value in awkward()) {
        mcp_proto::fuzzing::header(value.as_bytes());
    }
}

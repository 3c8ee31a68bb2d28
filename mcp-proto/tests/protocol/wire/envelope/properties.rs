//! The envelope parser compared with serde_json, on valid and on mutated messages.

use proptest::prelude::*;

use super::*;

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<i32>().prop_map(|eighths| json!(f64::from(eighths) / 8.0)),
        any::<String>().prop_map(Value::from),
        "[\\\\\"{}\\[\\],: a]{0,90}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn structured() -> impl Strategy<Value = Value> {
    value().prop_map(|value| match value {
        Value::Object(_) | Value::Array(_) => value,
        scalar => json!([scalar]),
    })
}

fn id() -> impl Strategy<Value = Value> {
    prop_oneof![any::<i64>().prop_map(Value::from), any::<String>().prop_map(Value::from)]
}

/// The members of a valid message, and the parts that the parser must find.
fn members() -> impl Strategy<Value = (Vec<(&'static str, Value)>, Value)> {
    let params = || proptest::option::of(structured());
    let call = (proptest::option::of(id()), any::<String>(), params()).prop_map(|(id, method, params)| {
        let mut members = vec![("method", json!(method))];
        let mut parts = json!({"method": method, "params": params});
        members.extend(params.map(|params| ("params", params)));
        if let Some(id) = id {
            parts["id"] = id.clone();
            members.push(("id", id));
        }
        (members, parts)
    });
    let result = (id(), value()).prop_map(|(id, result)| {
        let parts = json!({"id": id, "result": result});
        (vec![("result", result), ("id", id)], parts)
    });
    let error = (proptest::option::of(id()), any::<i64>(), any::<String>(), params()).prop_map(
        |(id, code, message, data)| {
            let mut error = json!({"code": code, "message": message});
            let parts = json!({"id": id, "code": code, "message": message, "data": data});
            if let Some(data) = data {
                error["data"] = data;
            }
            let mut members = vec![("error", error)];
            members.extend(id.map(|id| ("id", id)));
            (members, parts)
        },
    );
    prop_oneof![call, result, error]
}

/// A valid message as text, in any order and with any spacing.
fn text() -> impl Strategy<Value = (String, Value)> {
    let space = || prop::sample::select(vec!["", "", "", " ", "\t", "\r\n  "]);
    let style = proptest::collection::vec((any::<bool>(), space(), space()), 6);
    (members(), style, value(), any::<prop::sample::Index>()).prop_map(
        |((mut members, parts), style, other, rotate)| {
            members.push(("jsonrpc", json!("2.0")));
            members.push(("other", other));
            let rotation = rotate.index(members.len());
            members.rotate_left(rotation);
            let members: Vec<String> = members
                .into_iter()
                .zip(style)
                .map(|((name, value), (escaped, before, after))| {
                    let name = match escaped {
                        true => format!("\\u{:04x}{}", name.as_bytes()[0], &name[1..]),
                        false => name.to_owned(),
                    };
                    format!(r#"{before}"{name}"{after}:{before}{value}{after}"#)
                })
                .collect();
            (format!("{{{}}}", members.join(",")), parts)
        },
    )
}

/// Asserts that the parser agrees with serde_json: it refuses valid JSON only if it is not a message, and accepts only
/// UTF-8 but for a response, whose result it repairs.
fn agrees(bytes: &[u8]) {
    let valid = serde_json::from_slice::<Value>(bytes).is_ok();
    match frame(bytes) {
        Err(malformed) => {
            let not_a_message = matches!(malformed.kind, MalformedKind::NotAMessage(_));
            assert!(not_a_message || !valid, "{malformed} for {}", String::from_utf8_lossy(bytes));
        }
        Ok(Frame::Single(Message::Response(response))) => {
            let kind = response.deviation.map(|deviation| deviation.kind);
            assert_eq!(kind == Some(MalformedKind::NotUtf8), std::str::from_utf8(bytes).is_err());
        }
        Ok(_) => assert!(std::str::from_utf8(bytes).is_ok()),
    }
    #[cfg(feature = "fuzzing")]
    mcp_proto::fuzzing::envelope(bytes);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn parser_reads_valid_messages_as_serde_json_does((text, expected) in text()) {
        serde_json::from_str::<Value>(&text).unwrap();
        prop_assert_eq!(parts(&message(&text)), expected);
    }

    #[test]
    fn parser_agrees_with_serde_json_on_mutations(
        (text, _) in text(), edits in proptest::collection::vec((any::<prop::sample::Index>(), 0..4u8, any::<u8>()), 1..4)
    ) {
        let mut bytes = text.into_bytes();
        for (place, edit, byte) in edits {
            let place = place.index(bytes.len());
            match edit {
                0 => bytes[place] = byte,
                1 => bytes.insert(place, b"\"\\{}[],:0\0 "[usize::from(byte) % 11]),
                2 => drop(bytes.remove(place)),
                _ => bytes.truncate(place.max(1)),
            }
            if bytes.is_empty() {
                bytes.push(byte);
            }
        }
        agrees(&bytes);
    }

    #[test]
    fn parser_reads_any_bytes_without_a_panic(
        bytes in proptest::collection::vec(prop::sample::select(b"{}[]\":,\\ \n\0\x801-.eu\"id\"".to_vec()), 0..80)
    ) {
        agrees(&bytes);
    }
}

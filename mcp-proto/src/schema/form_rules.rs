//! Rules for the forms that a server sends.

use alloc::format;
use alloc::string::String;

use super::elicitation::{ElicitFormParams, ElicitSchema};
use super::map::Extra;
use super::primitive::{EnumOption, MultiSelectItems, PrimitiveSchema};

/// The keywords of JSON Schema that fields of forms do not have, or have only with other values.
const KEYWORDS: [&str; 30] = [
    "$dynamicRef",
    "$ref",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "default",
    "dependentRequired",
    "description",
    "else",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "if",
    "items",
    "maxItems",
    "maxLength",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "multipleOf",
    "not",
    "oneOf",
    "pattern",
    "properties",
    "then",
    "title",
    "uniqueItems",
];

impl ElicitSchema {
    /// The first field that is not one of the definitions of forms, with the reason: an object, a list of anything but
    /// options, or a keyword of JSON Schema that clients do not know there.
    ///
    /// ```
    /// use mcp_proto::schema::ElicitSchema;
    ///
    /// let form = r#"{"type":"object","properties":{"code":{"type":"string","pattern":"^[a-z]+$"}}}"#;
    /// let form: ElicitSchema = serde_json::from_str(form)?;
    /// let (field, why) = form.unsupported_field().unwrap();
    /// assert_eq!((field, why.as_str()), ("code", r#"it has "pattern""#));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#requested-schema>
    pub fn unsupported_field(&self) -> Option<(&str, String)> {
        self.properties.iter().find_map(|(name, field)| {
            let keyword = match field {
                PrimitiveSchema::String(field) => {
                    // Other formats than those of forms.
                    field.extra.contains("format").then_some("format").or_else(|| keyword(&field.extra))
                }
                PrimitiveSchema::Number(field) => keyword(&field.extra),
                PrimitiveSchema::Boolean(field) => keyword(&field.extra),
                PrimitiveSchema::Enum(field) => keyword(&field.extra),
                PrimitiveSchema::TitledEnum(field) => keyword(&field.extra),
                PrimitiveSchema::MultiSelect(field) => keyword(&field.extra).or(match &field.items {
                    MultiSelectItems::Untitled(items) => keyword(&items.extra),
                    MultiSelectItems::Titled(items) => keyword(&items.extra),
                }),
                PrimitiveSchema::Unknown(_) => {
                    return Some((name, "it is no text, number, yes or no, or choice of texts".into()));
                }
            };
            Some((name, format!("it has {:?}", keyword?)))
        })
    }
}

/// The first keyword among the further members of a field that clients would not follow.
fn keyword(extra: &Extra) -> Option<&str> {
    extra.iter().map(|(name, _)| name).find(|name| KEYWORDS.binary_search(name).is_ok())
}

impl ElicitFormParams {
    /// The first text of the form that contains an `http` or `https` URL: the message, a title, a description, an option
    /// or a default.
    /// Clients do not make URLs in forms clickable; servers send users to a page by a request in URL mode.
    ///
    /// ```
    /// use mcp_proto::schema::{ElicitFormParams, ElicitSchema};
    ///
    /// let form = ElicitFormParams::new("Your code from https://example.com/code", ElicitSchema::empty());
    /// assert!(form.text_with_url().is_some());
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#safe-url-handling>
    pub fn text_with_url(&self) -> Option<&str> {
        let of_fields = self.requested_schema.properties.iter().flat_map(|(_, field)| texts(field));
        [self.message.as_str()].into_iter().chain(of_fields).find(|text| has_url(text))
    }
}

/// The texts that clients show for a field, its default among them.
fn texts(field: &PrimitiveSchema) -> impl Iterator<Item = &str> {
    let (title, description, default): (_, _, &[String]) = match field {
        PrimitiveSchema::String(field) => (&field.title, &field.description, field.default.as_slice()),
        PrimitiveSchema::Number(field) => (&field.title, &field.description, &[]),
        PrimitiveSchema::Boolean(field) => (&field.title, &field.description, &[]),
        PrimitiveSchema::Enum(field) => (&field.title, &field.description, field.default.as_slice()),
        PrimitiveSchema::TitledEnum(field) => (&field.title, &field.description, field.default.as_slice()),
        PrimitiveSchema::MultiSelect(field) => {
            (&field.title, &field.description, field.default.as_deref().unwrap_or_default())
        }
        PrimitiveSchema::Unknown(_) => (&None, &None, &[]),
    };
    let (values, names, options): (&[String], &[String], &[EnumOption]) = match field {
        PrimitiveSchema::Enum(field) => (&field.values, field.names.as_deref().unwrap_or_default(), &[]),
        PrimitiveSchema::TitledEnum(field) => (&[], &[], &field.options),
        PrimitiveSchema::MultiSelect(field) => match &field.items {
            MultiSelectItems::Titled(items) => (&[], &[], &items.options),
            MultiSelectItems::Untitled(items) => (&items.values, &[], &[]),
        },
        _ => (&[], &[], &[]),
    };
    let titles = options.iter().map(|option| &option.title);
    let texts = title.iter().chain(description).chain(default).chain(values).chain(names).chain(titles);
    texts.map(String::as_str)
}

fn has_url(text: &str) -> bool {
    let schemes = text.match_indices("://").map(|(at, _)| text.as_bytes().get(..at).unwrap_or_default());
    let ends_with = |scheme: &[u8], name: &[u8]| {
        let start = scheme.len().checked_sub(name.len());
        start.and_then(|start| scheme.get(start..)).is_some_and(|end| end.eq_ignore_ascii_case(name))
    };
    schemes.into_iter().any(|scheme| ends_with(scheme, b"http") || ends_with(scheme, b"https"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_is_found_in_every_text_that_clients_show() {
        for field in [
            r#"{"type":"string","title":"http://a"}"#,
            r#"{"type":"number","description":"HTTPS://a"}"#,
            r#"{"type":"string","default":"https://a"}"#,
            r#"{"type":"string","enum":["x","https://a"]}"#,
            r#"{"type":"string","enum":["x"],"enumNames":["https://a"]}"#,
            r#"{"type":"string","enum":["x"],"default":"https://a"}"#,
            r#"{"type":"string","oneOf":[{"const":"x","title":"https://a"}]}"#,
            r#"{"type":"string","oneOf":[{"const":"x","title":"y"}],"default":"https://a"}"#,
            r#"{"type":"array","items":{"type":"string","enum":["https://a"]}}"#,
            r#"{"type":"array","items":{"anyOf":[{"const":"x","title":"https://a"}]}}"#,
            r#"{"type":"array","items":{"type":"string","enum":["x"]},"default":["https://a"]}"#,
        ] {
            let form = format!(r#"{{"type":"object","properties":{{"field":{field}}}}}"#);
            let schema = serde_json::from_str::<ElicitSchema>(&form).unwrap();
            assert!(ElicitFormParams::new("", schema).text_with_url().is_some(), "{field}");
        }
    }
}

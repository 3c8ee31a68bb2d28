//! Form values: defaults of the fields and validation of the user's input.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#requested-schema>

use iri_string::types::UriStr;

use crate::ordered_map::OrderedMap;
use crate::ordered_set::OrderedSet;
use crate::prelude::*;
use crate::redact::is_form_secret;

use super::{
    ElicitAction, ElicitFormParams, ElicitParams, ElicitResult, ElicitSchema, ElicitValue, EnumOption, Extra,
    Map, MultiSelectItems, MultiSelectSchema, Number, NumberKind, NumberSchema, PrimitiveSchema, Revision,
    StringFormat, StringSchema,
};

impl ElicitSchema {
    /// Returns the default values of the fields. A default that is not valid for its own field is left out.
    ///
    /// Show these values and let the user change them: the server chose them, not the user.
    ///
    /// ```
    /// use mcp_proto::schema::{BooleanSchema, ElicitSchema, ElicitValue, Map, PrimitiveSchema, StringSchema};
    ///
    /// let name = StringSchema { max_length: Some(40), ..StringSchema::new() };
    /// let news = BooleanSchema { default: Some(false), ..BooleanSchema::new() };
    /// let fields: [(&str, PrimitiveSchema); 2] = [("name", name.into()), ("news", news.into())];
    /// let form = ElicitSchema::new(Map::from(fields));
    ///
    /// let mut content = form.defaults();
    /// assert_eq!(content.get("news"), Some(&ElicitValue::Bool(false)));
    /// content.insert("name", "Ada");
    /// assert!(form.check(&content).is_ok());
    /// ```
    pub fn defaults(&self) -> Map<ElicitValue> {
        let mut defaults = Map::new();
        self.fill_in(&mut defaults);
        defaults
    }

    /// Inserts the default values of absent fields.
    ///
    /// For programs that fill in forms without a user: a user may have left a field out on purpose.
    pub fn fill_in(&self, content: &mut Map<ElicitValue>) {
        let given: OrderedSet<String> = content.iter().map(|(name, _)| name.into()).collect();
        for (name, field) in self.properties.iter().filter(|(name, _)| !given.contains(*name)) {
            if let Some(value) = field.default_value() {
                content.push(String::from(name), value);
            }
        }
    }

    /// Checks the submitted values. As in JSON Schema, values for fields that the form does not have are allowed.
    ///
    /// # Errors
    /// The first invalid field.
    pub fn check(&self, content: &Map<ElicitValue>) -> Result<(), FormError> {
        let form_error = |field: &str, error| FormError { field: field.into(), error };
        // A map keeps this fast: the server chooses the number of fields.
        let given: OrderedMap<&str, &ElicitValue> = content.iter().collect();
        for (name, field) in self.properties.iter() {
            if let Some(value) = given.get(name) {
                field.check(value).map_err(|error| form_error(name, error))?;
            }
        }
        match self.required.iter().flatten().find(|name| !given.contains_key(name.as_str())) {
            Some(missing) => Err(form_error(missing, FieldError::Missing)),
            None => Ok(()),
        }
    }
}

impl ElicitFormParams {
    /// Checks the answer to this form. A declined or cancelled form is always valid.
    ///
    /// # Errors
    /// The first invalid field.
    pub fn check(&self, answer: &ElicitResult) -> Result<(), FormError> {
        match (answer.action, &answer.content) {
            (ElicitAction::Accept, Some(content)) => self.requested_schema.check(content),
            (ElicitAction::Accept, None) => self.requested_schema.check(&Map::new()),
            (ElicitAction::Decline | ElicitAction::Cancel, _) => Ok(()),
        }
    }
}

impl ElicitParams {
    /// Accepts the answer of a client at `revision`, after checking it.
    ///
    /// Before 2025-11-25, clients submit a single choice as a string; for a multi-select field it becomes a list of
    /// one.
    ///
    /// # Errors
    /// The first invalid field.
    pub fn validate_answer(
        &self,
        mut answer: ElicitResult,
        revision: Revision,
    ) -> Result<ElicitResult, FormError> {
        let Self::Form(form) = self else { return Ok(answer) };
        if revision < Revision::V2025_11_25
            && let Some(content) = &mut answer.content
        {
            let properties = form.requested_schema.properties.iter();
            let several = properties.filter(|(_, field)| matches!(field, PrimitiveSchema::MultiSelect(_)));
            let several: OrderedSet<&str> = several.map(|(name, _)| name).collect();
            for (name, value) in content.iter_mut() {
                if let ElicitValue::String(chosen) = value
                    && several.contains(name)
                {
                    *value = ElicitValue::Strings(vec![core::mem::take(chosen)]);
                }
            }
        }
        form.check(&answer)?;
        Ok(answer)
    }
}

impl PrimitiveSchema {
    /// The default value of the field, if it is valid for the field.
    pub fn default_value(&self) -> Option<ElicitValue> {
        let default = match self {
            Self::String(field) => field.default.clone().map(ElicitValue::String),
            Self::Number(field) => field.default.clone().map(ElicitValue::Number),
            Self::Boolean(field) => field.default.map(ElicitValue::Bool),
            Self::Enum(field) => field.default.clone().map(ElicitValue::String),
            Self::TitledEnum(field) => field.default.clone().map(ElicitValue::String),
            Self::MultiSelect(field) => field.default.clone().map(ElicitValue::Strings),
            Self::Unknown(_) => None,
        };
        default.filter(|value| self.check(value).is_ok())
    }

    /// Checks a submitted value. A field of unknown kind accepts any value.
    ///
    /// # Errors
    /// The rule that the value breaks.
    pub fn check(&self, value: &ElicitValue) -> Result<(), FieldError> {
        match (self, value) {
            (Self::Unknown(_), _) | (Self::Boolean(_), ElicitValue::Bool(_)) => Ok(()),
            (Self::Boolean(_), _) => Err(FieldError::Type("yes or no")),
            (Self::String(field), ElicitValue::String(text)) => check_text(field, text),
            (Self::Number(field), ElicitValue::Number(number)) => check_number(field, number.as_f64()),
            (Self::Number(NumberSchema { kind: NumberKind::Integer, .. }), _) => {
                Err(FieldError::Type("a whole number"))
            }
            (Self::Number(_), _) => Err(FieldError::Type("a number")),
            (Self::Enum(field), ElicitValue::String(chosen)) => chosen_from(field.values.contains(chosen)),
            (Self::TitledEnum(field), ElicitValue::String(chosen)) => {
                chosen_from(field.options.iter().any(|option| option.value == *chosen))
            }
            (Self::String(_) | Self::Enum(_) | Self::TitledEnum(_), _) => Err(FieldError::Type("a text")),
            (Self::MultiSelect(field), ElicitValue::Strings(chosen)) => check_choices(field, chosen),
            (Self::MultiSelect(_), _) => Err(FieldError::Type("a list of texts")),
        }
    }
}

fn check_text(field: &StringSchema, text: &str) -> Result<(), FieldError> {
    let characters = wide(text.chars().count());
    check_range(characters, field.min_length, field.max_length, [FieldError::TooShort, FieldError::TooLong])?;
    match field.format {
        Some(format) if !is_format(format, text) => Err(FieldError::Format(format)),
        _ => Ok(()),
    }
}

/// Only the field's type decides whether a number must be whole.
///
/// The published JSON schemas of `ElicitResult` type numbers as `integer`, but mean any number, such as 95.5.
fn check_number(field: &NumberSchema, number: f64) -> Result<(), FieldError> {
    if field.kind == NumberKind::Integer && number % 1.0 != 0.0 {
        return Err(FieldError::Type("a whole number"));
    }
    let [least, most] = [&field.minimum, &field.maximum].map(|limit| limit.as_ref().map(Number::as_f64));
    check_range(number, least, most, [FieldError::TooSmall, FieldError::TooLarge])
}

fn check_choices(field: &MultiSelectSchema, chosen: &[String]) -> Result<(), FieldError> {
    let count = wide(chosen.len());
    check_range(count, field.min_items, field.max_items, [FieldError::TooFew, FieldError::TooMany])?;
    // A set keeps this fast: the server chooses the options and, through the default, the chosen values.
    let offered: OrderedSet<&str> = match &field.items {
        MultiSelectItems::Untitled(items) => items.values.iter().map(String::as_str).collect(),
        MultiSelectItems::Titled(items) => items.options.iter().map(|option| option.value.as_str()).collect(),
    };
    chosen_from(chosen.iter().all(|chosen| offered.contains(chosen.as_str())))
}

fn check_range<T: PartialOrd>(
    value: T,
    least: Option<T>,
    most: Option<T>,
    [below, above]: [FieldError; 2],
) -> Result<(), FieldError> {
    match (least, most) {
        (Some(least), _) if value < least => Err(below),
        (_, Some(most)) if value > most => Err(above),
        _ => Ok(()),
    }
}

fn chosen_from(among: bool) -> Result<(), FieldError> {
    if among { Ok(()) } else { Err(FieldError::Choice) }
}

fn wide(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// A form field with an invalid value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FormError {
    /// The name of the field.
    pub field: String,
    /// The rule that the value breaks.
    pub error: FieldError,
}

/// Reason why the value of a form field is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldError {
    /// The field is required and has no value.
    Missing,
    /// The value does not have this type.
    Type(&'static str),
    /// The text has too few characters.
    TooShort,
    /// The text has too many characters.
    TooLong,
    /// The text does not have this format.
    Format(StringFormat),
    /// The number is below the minimum.
    TooSmall,
    /// The number is above the maximum.
    TooLarge,
    /// The value is not one of the options.
    Choice,
    /// Fewer options are chosen than the minimum.
    TooFew,
    /// More options are chosen than the maximum.
    TooMany,
}

error_text! { FormError { field, error } => "the field {field:?} {error}" }

display_text! { FieldError:
    Missing => "is missing";
    Type(expected) => "is not {expected}";
    TooShort => "is too short";
    TooLong => "is too long";
    Format(format) => "does not have the format {format}";
    TooSmall => "is too small";
    TooLarge => "is too large";
    Choice => "is not one of the options";
    TooFew => "has too few options chosen";
    TooMany => "has too many options chosen";
}

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

impl ElicitSchema {
    /// The first text field whose name or title ends like that of a secret: a password, an API key, an access token, a
    /// card number. Servers must not request secrets by forms, because the client sees the answers; they send the user
    /// to a page instead.
    ///
    /// Other languages and unusual names are not recognized.
    ///
    /// ```
    /// use mcp_proto::schema::{ElicitSchema, StringSchema};
    ///
    /// let form = |name: &'static str| ElicitSchema::new([(name, StringSchema::new().into())]);
    /// assert_eq!(form("apiKey").secret_field(), Some("apiKey"));
    /// assert_eq!(form("password_hint").secret_field(), None);
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#user-interaction-model>
    pub fn secret_field(&self) -> Option<&str> {
        self.properties.iter().find_map(|(name, field)| {
            let PrimitiveSchema::String(text) = field else { return None };
            let is_secret = is_form_secret(name) || text.title.as_deref().is_some_and(is_form_secret);
            is_secret.then_some(name)
        })
    }
}

// Checks of the string formats that a form field may require.

pub(super) fn is_format(format: StringFormat, text: &str) -> bool {
    match format {
        StringFormat::Email => is_email(text),
        StringFormat::Uri => is_uri(text),
        StringFormat::Date => is_date(text),
        StringFormat::DateTime => is_date_time(text),
    }
}

/// Checks the syntax only, not whether the address exists: a non-empty part before the last `@`, and a domain or
/// address literal after it.
fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else { return false };
    let odd = |c: char| c.is_whitespace() || c.is_control();
    let labels = domain.starts_with('[') && domain.ends_with(']')
        || domain
            .split('.')
            .all(|label| !label.is_empty() && label.chars().all(|c| c == '-' || c.is_alphanumeric()));
    !local.is_empty() && !text.contains(odd) && labels
}

/// RFC 3986: a URI with its scheme.
fn is_uri(text: &str) -> bool {
    UriStr::new(text).is_ok()
}

/// RFC 3339, `full-date`.
fn is_date(text: &str) -> bool {
    let mut parts = text.splitn(3, '-');
    let mut part = |digits| parts.next().and_then(|part| number(part, digits));
    let (Some(year), Some(month), Some(day)) = (part(4), part(2), part(2)) else { return false };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => 0,
    };
    (1..=days).contains(&day)
}

/// RFC 3339, `date-time`. A leap second is accepted at any time.
fn is_date_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't']) else { return false };
    let (clock, zone) = match time.find(['Z', 'z', '+', '-']) {
        Some(at) => time.split_at(at),
        None => return false,
    };
    let zoned = match zone.strip_prefix(['+', '-']) {
        Some(offset) => hours_and_minutes(offset).is_some_and(|rest| rest.is_empty()),
        None => zone.len() == 1,
    };
    let seconds = hours_and_minutes(clock).and_then(|rest| rest.strip_prefix(':'));
    let timed = seconds.is_some_and(|seconds| {
        let (whole, fraction) = match seconds.split_once('.') {
            Some((whole, fraction)) => (whole, Some(fraction)),
            None => (seconds, None),
        };
        number(whole, 2).is_some_and(|second| second <= 60)
            && fraction
                .is_none_or(|digits| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit()))
    });
    is_date(date) && timed && zoned
}

/// Parses `hh:mm` and returns the rest.
fn hours_and_minutes(text: &str) -> Option<&str> {
    let (hours, rest) = text.split_once(':')?;
    let (minutes, rest) = (rest.get(..2)?, rest.get(2..)?);
    (number(hours, 2)? < 24 && number(minutes, 2)? < 60).then_some(rest)
}

/// Parses exactly `digits` decimal digits.
fn number(text: &str, digits: usize) -> Option<u32> {
    let plain = text.len() == digits && text.bytes().all(|digit| digit.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

#[cfg(test)]
mod format_tests {
    use super::*;

    #[track_caller]
    fn check(format: StringFormat, good: &[&str], bad: &[&str]) {
        for text in good {
            assert!(is_format(format, text), "{text}");
        }
        for text in bad {
            assert!(!is_format(format, text), "{text}");
        }
    }

    /// C10.5
    #[test]
    fn email_format_accepts_only_addresses() {
        let good = [
            "a@b",
            "first.last+tag@sub.example.com",
            "ü@exämple.org",
            "\"a@b\"@example.com",
            "a@[127.0.0.1]",
        ];
        check(
            StringFormat::Email,
            &good,
            &["", "a", "@b", "a@", "a b@c", "a@b..c", "a@.b", "a@b\n", "a@b c", "a@b,c"],
        );
    }

    /// C10.5
    #[test]
    fn uri_format_accepts_only_uris() {
        let good = ["https://example.com/a?b=c#d", "urn:isbn:1", "mailto:a@b", "a+b.c-1:", "http://a/%20"];
        check(
            StringFormat::Uri,
            &good,
            &[
                "",
                "example.com",
                "//a",
                ":a",
                "1a:b",
                "http://a b",
                "http://ä",
                "a:%2",
                "a:{b}",
                "http://a/[b]",
            ],
        );
    }

    /// C10.5
    #[test]
    fn date_format_accepts_only_calendar_dates() {
        let good = ["2026-07-28", "2024-02-29", "2000-02-29", "0001-01-31"];
        let bad = [
            "",
            "2026-7-28",
            "2026-02-29",
            "1900-02-29",
            "2026-13-01",
            "2026-00-01",
            "2026-04-31",
            "2026-01-00",
            "26-01-01",
            "2026-01-01-",
            "2026-01-01T",
            "+026-01-01",
            "2026-01-0٣",
        ];
        check(StringFormat::Date, &good, &bad);
    }

    /// C10.5
    #[test]
    fn date_time_format_accepts_only_rfc_3339_times() {
        let good = [
            "2026-07-28T10:00:00Z",
            "2026-07-28t10:00:60.123z",
            "2026-07-28T23:59:59+14:00",
            "2026-07-28T00:00:00-00:00",
        ];
        let bad = [
            "",
            "2026-07-28",
            "2026-07-28T10:00:00",
            "2026-07-28 10:00:00Z",
            "2026-07-28T24:00:00Z",
            "2026-07-28T10:60:00Z",
            "2026-07-28T10:00:61Z",
            "2026-07-28T10:00Z",
            "2026-07-28T10:00:00.Z",
            "2026-07-28T10:00:00+1:00",
            "2026-07-28T10:00:00+01:00:00",
            "2026-07-28T10:00:00ZZ",
            "2026-02-30T10:00:00Z",
            "2026-07-28T10:00:00Ä",
            "2026-07-28T10:Ä:00Z",
        ];
        check(StringFormat::DateTime, &good, &bad);
    }
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

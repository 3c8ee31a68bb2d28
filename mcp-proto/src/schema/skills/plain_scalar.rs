//! Scalars without quotes, which versions of YAML read differently.

use serde_json::{Number, Value};

use crate::prelude::*;
use crate::schema::Json;

/// The JSON of a scalar in the core schema of YAML 1.2.
///
/// <https://yaml.org/spec/1.2.2/#103-core-schema>
pub(super) fn to_json(source: &str) -> Json {
    if is_null(source) {
        return Json::null();
    }
    match source {
        "true" | "True" | "TRUE" => return Json::from(true),
        "false" | "False" | "FALSE" => return Json::from(false),
        _ => {}
    }
    whole(source).or_else(|| fraction(source)).unwrap_or_else(|| Json::from(source))
}

/// Whether a version of YAML reads the scalar as this value.
pub(super) fn may_be(source: &str, value: &Value) -> bool {
    match value {
        Value::Null => is_null(source) || beyond_json(source).is_some(),
        Value::Bool(value) => as_bool(source) == Some(*value),
        Value::Number(value) => may_be_number(source, value),
        Value::String(value) => {
            value == source || is_midnight(source, value) || is_name_of(beyond_json(source), value)
        }
        Value::Array(_) | Value::Object(_) => false,
    }
}

/// The names that a key may have in JSON, other than its source: what a version of YAML reads it as, as JavaScript and Python
/// write that.
pub(super) fn names(source: &str) -> Vec<String> {
    let words: &[&str] = match as_bool(source) {
        Some(true) => &["true", "True"],
        Some(false) => &["false", "False"],
        None if is_null(source) => &["null", "None"],
        None => &[],
    };
    let numbers = readings(source).flat_map(|number| [format!("{number}"), format!("{number:?}")]);
    words.iter().map(|word| (*word).to_owned()).chain(numbers).collect()
}

pub(super) fn is_null(source: &str) -> bool {
    matches!(source, "" | "~" | "null" | "Null" | "NULL")
}

/// The words of YAML 1.1, which has more than YAML 1.2.
fn as_bool(source: &str) -> Option<bool> {
    let word = source.to_ascii_lowercase();
    // Not `tRUE`: all small, all large, or with a large letter first.
    let rest = source.get(1..)?;
    if rest.bytes().any(|byte| byte.is_ascii_uppercase())
        && source.bytes().any(|byte| byte.is_ascii_lowercase())
    {
        return None;
    }
    match &*word {
        "true" | "yes" | "on" | "y" => Some(true),
        "false" | "no" | "off" | "n" => Some(false),
        _ => None,
    }
}

/// An integer of YAML 1.2. Its digits stay, unless they are more than those of the greatest floating-point number, at which
/// readers of JSON fail.
fn whole(source: &str) -> Option<Json> {
    let (digits, radix) = match source.get(..2) {
        Some("0x") => (source.get(2..)?, 16),
        Some("0o") => (source.get(2..)?, 8),
        _ => (source.strip_prefix(['+', '-']).unwrap_or(source), 10),
    };
    if digits.is_empty()
        || digits.len() > f64::MAX_10_EXP as usize
        || !digits.chars().all(|digit| digit.is_digit(radix))
    {
        return None;
    }
    let text = match digits.trim_start_matches('0') {
        "" => "0".to_owned(),
        digits if radix == 10 && source.starts_with('-') => format!("-{digits}"),
        digits if radix == 10 => digits.to_owned(),
        digits => u64::from_str_radix(digits, radix).ok()?.to_string(),
    };
    Json::new(text).ok()
}

/// A number of YAML 1.2 with a point or an exponent. Infinity is none of JSON.
fn fraction(source: &str) -> Option<Json> {
    let number = as_fraction(source)?;
    Json::encode(&Number::from_f64(number)?).ok()
}

fn as_fraction(source: &str) -> Option<f64> {
    // Not the names that Rust reads: `inf`, `nan`.
    let is_number = source.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte))
        && source.bytes().any(|byte| byte.is_ascii_digit());
    source.parse().ok().filter(|_| is_number)
}

/// Whether YAML 1.1 or 1.2 reads the scalar as this number.
fn may_be_number(source: &str, value: &Number) -> bool {
    value.as_f64().is_some_and(|value| readings(source).any(|number| may_round_to(number, value)))
}

/// The numbers as which YAML 1.1 and 1.2 read the scalar.
fn readings(source: &str) -> impl Iterator<Item = f64> + use<> {
    let plain = source.replace('_', "");
    let (negative, digits) = match plain.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, plain.strip_prefix('+').unwrap_or(&plain)),
    };
    let radix = |digits: &str, radix| u64::from_str_radix(digits, radix).ok().map(|number| number as f64);
    let prefixed = |prefix, base| digits.strip_prefix(prefix).and_then(|digits| radix(digits, base));
    let readings = [
        as_fraction(digits),
        prefixed("0x", 16),
        prefixed("0o", 8),
        prefixed("0b", 2),
        prefixed("0", 8),
        sexagesimal(digits),
    ];
    readings.into_iter().flatten().map(move |number| if negative { -number } else { number })
}

/// The number that JSON lacks: an infinity, or what is no number.
fn beyond_json(source: &str) -> Option<f64> {
    match source.strip_prefix('+').unwrap_or(source) {
        ".inf" | ".Inf" | ".INF" => Some(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Some(f64::NEG_INFINITY),
        ".nan" | ".NaN" | ".NAN" => Some(f64::NAN),
        _ => as_fraction(source).filter(|number| number.is_infinite()),
    }
}

/// Whether JavaScript or Python writes such a number as this.
fn is_name_of(number: Option<f64>, text: &str) -> bool {
    number.is_some_and(|number| match text {
        "Infinity" | "inf" => number == f64::INFINITY,
        "-Infinity" | "-inf" => number == f64::NEG_INFINITY,
        "NaN" | "nan" => number.is_nan(),
        _ => false,
    })
}

/// Whether readers can take one text for both numbers: many, serde_json's among them, round the last bits of long numbers
/// wrongly.
fn may_round_to(number: f64, other: f64) -> bool {
    number == other || (number - other).abs() <= (4.0 * f64::EPSILON * number.abs()).max(f64::MIN_POSITIVE)
}

/// A number of YAML 1.1 in base 60, such as `12:30`.
fn sexagesimal(digits: &str) -> Option<f64> {
    let (first, rest) = digits.split_once(':')?;
    rest.split(':').try_fold(first.parse::<u32>().ok().map(f64::from)?, |number, part| {
        let part = part.parse::<u8>().ok().filter(|part| *part < 60)?;
        Some(number * 60.0 + f64::from(part))
    })
}

/// Whether the scalar is a date, and the text that date as a time: YAML 1.1 has a type for times, which JSON lacks.
fn is_midnight(source: &str, text: &str) -> bool {
    let form = |byte: u8| if byte.is_ascii_digit() { b'0' } else { byte };
    source.bytes().map(form).eq(*b"0000-00-00")
        && text.strip_prefix(source).is_some_and(|time| {
            matches!(time, "T00:00:00Z" | "T00:00:00.000Z" | "T00:00:00" | "T00:00:00+00:00")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_bits_of_a_number_are_no_difference() {
        for source in
            ["1.2345678901234567e29", "12345678901234567890123", "0.1", "1e-320", "-8.7e300", "0", "0.0"]
        {
            let number: f64 = source.parse().unwrap();
            let reads = |number: f64| may_be(source, &Value::Number(Number::from_f64(number).unwrap()));
            assert!(
                reads(number) && reads(number.next_up().next_up()) && reads(number.next_down()),
                "{source}"
            );
            assert!(!reads(number * 1.000_000_000_1 + 1e-300), "{source}");
        }
    }
}

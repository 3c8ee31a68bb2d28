//! Media types: matching of `Content-Type` and `Accept` headers.
//!
//! <https://www.rfc-editor.org/rfc/rfc9110.html#section-8.3.1>

use core::iter;

/// Whether a `Content-Type` is the type `full`, given as `type/subtype`; case and parameters are ignored.
///
/// ```
/// use mcp_proto::codec::media;
///
/// assert!(media::is_type(b"Application/JSON; charset=utf-8", "application/json"));
/// assert!(!media::is_type(b"application/json-seq", "application/json"));
/// ```
#[must_use]
pub fn is_type(content_type: &[u8], full: &str) -> bool {
    let essence = content_type.trim_ascii_start().split_at_checked(full.len());
    essence.is_some_and(|(essence, rest)| {
        essence.eq_ignore_ascii_case(full.as_bytes())
            && matches!(rest.trim_ascii_start().first(), None | Some(b';'))
    })
}

/// Whether the `Accept` headers of a request accept the type `full`, given as `type/subtype`.
///
/// The most specific range that matches decides; of several equally specific ones, one that accepts is enough. `q=0`
/// refuses; other parameters are ignored. Without any range every type is accepted.
///
/// <https://www.rfc-editor.org/rfc/rfc9110.html#section-12.5.1>
///
/// ```
/// use mcp_proto::codec::media;
///
/// let accept: [&[u8]; 2] = [b"application/*;q=0.5, application/xml;q=0", b"text/html"];
/// assert!(media::accepts(accept, "application/json"));
/// assert!(!media::accepts(accept, "application/xml"));
/// assert!(!media::accepts(accept, "text/event-stream"));
/// assert!(media::accepts([], "text/event-stream"));
/// ```
#[must_use]
pub fn accepts<'a>(values: impl IntoIterator<Item = &'a [u8]>, full: &str) -> bool {
    let mut closest = None;
    let mut any = false;
    let ranges = values.into_iter().flat_map(|value| segments(value, b','));
    for range in ranges.map(<[u8]>::trim_ascii).filter(|range| !range.is_empty()) {
        any = true;
        let mut segments = segments(range, b';').map(<[u8]>::trim_ascii);
        let specificity = segments.next().and_then(|range| specificity(range, full.as_bytes()));
        let verdict = specificity.map(|specificity| (specificity, !segments.any(refuses)));
        closest = closest.max(verdict);
    }
    closest.map_or(!any, |(_, taken)| taken)
}

/// How specifically a range matches a type.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Specificity {
    Any,
    Type,
    Subtype,
}

fn specificity(range: &[u8], full: &[u8]) -> Option<Specificity> {
    if range.eq_ignore_ascii_case(full) {
        return Some(Specificity::Subtype);
    }
    let kind = range.strip_suffix(b"/*")?;
    let slash = full.iter().position(|byte| *byte == b'/')?;
    if kind == b"*" {
        Some(Specificity::Any)
    } else {
        full.get(..slash)?.eq_ignore_ascii_case(kind).then_some(Specificity::Type)
    }
}

/// Whether a parameter is a weight of zero.
fn refuses(parameter: &[u8]) -> bool {
    let Some(b"q=" | b"Q=") = parameter.get(..2) else { return false };
    match parameter.get(2..) {
        Some([b'0', rest @ ..]) => {
            rest.is_empty()
                || rest.strip_prefix(b".").is_some_and(|rest| rest.iter().all(|digit| *digit == b'0'))
        }
        _ => false,
    }
}

/// Splits at the separators that are outside of quotes.
fn segments(value: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(value);
    iter::from_fn(move || {
        let value = rest?;
        let (mut quoted, mut escaped) = (false, false);
        let end = value.iter().position(|&byte| {
            if escaped {
                escaped = false;
            } else if quoted && byte == b'\\' {
                escaped = true;
            } else if byte == b'"' {
                quoted = !quoted;
            }
            !quoted && byte == separator
        });
        rest = end.and_then(|end| value.get(end.saturating_add(1)..));
        Some(end.and_then(|end| value.get(..end)).unwrap_or(value))
    })
}

//! Checks of the string formats that a form field may require.

use iri_string::types::UriStr;

use super::StringFormat;

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
mod tests {
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

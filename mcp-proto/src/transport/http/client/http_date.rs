//! HTTP dates, for `Retry-After`.
//!
//! <https://www.rfc-editor.org/rfc/rfc9110#section-5.6.7>

use core::time::Duration;

/// Parses `Retry-After`: seconds, or a date, which is relative to the `Date` of the same answer.
///
/// There is no other clock: a date without `Date` is ignored.
pub(super) fn parse_retry_after(value: &str, date: Option<&str>) -> Option<Duration> {
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let (until, now) = (parse_http_date(value)?, parse_http_date(date?)?);
    Some(Duration::from_secs(until.saturating_sub(now)))
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// Parses a date in any of the three HTTP formats to seconds since 1970.
fn parse_http_date(date: &str) -> Option<u64> {
    let (mut day, mut month, mut year, mut time) = (None, None, None, None);
    for word in date.split([' ', ',', '-']).filter(|word| !word.is_empty()) {
        if word.contains(':') {
            time = Some(parse_time_of_day(word)?);
        } else if let Ok(number) = word.parse::<u64>() {
            match day {
                None => day = Some(number).filter(|day| (1..=31).contains(day)),
                Some(_) => year = Some(if word.len() > 2 { number } else { expand_two_digit_year(number) }),
            }
        } else if let Some(at) = MONTHS.iter().position(|name| word.eq_ignore_ascii_case(name)) {
            month = u64::try_from(at).ok().map(|at| at.saturating_add(1));
        }
    }
    let days = days_since_1970(year?, month?, day?)?;
    Some(days.saturating_mul(86_400).saturating_add(time?))
}

/// Expands a two-digit year to the years around 2000.
fn expand_two_digit_year(year: u64) -> u64 {
    year.saturating_add(if year < 70 { 2000 } else { 1900 })
}

fn parse_time_of_day(time: &str) -> Option<u64> {
    let mut parts = time.split(':').map(|part| part.parse::<u64>().ok());
    let (hours, minutes, seconds) = (parts.next()??, parts.next()??, parts.next()??);
    let within = hours < 24 && minutes < 60 && seconds <= 60 && parts.next().is_none();
    within.then(|| {
        hours.saturating_mul(3600).saturating_add(minutes.saturating_mul(60)).saturating_add(seconds)
    })
}

/// Counts days since 1970. Years are counted from March, so that the leap day is the last of its year.
fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    let (year, month) = match month {
        1 | 2 => (year.checked_sub(1)?, month.saturating_add(9)),
        month => (year, month.checked_sub(3)?),
    };
    let leaps = (year / 4).saturating_sub(year / 100).saturating_add(year / 400);
    let days = year.checked_mul(365)?.saturating_add(leaps);
    let days = days.saturating_add(month.saturating_mul(153).saturating_add(2) / 5).saturating_add(day);
    // The count above starts with 1 on March 1 of the year 0.
    days.checked_sub(719_469)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parser_reads_all_three_forms_of_a_date() {
        for date in
            ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
        {
            assert_eq!(parse_http_date(date), Some(784_111_777), "{date}");
        }
        assert_eq!(parse_http_date("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(parse_http_date("Thu, 29 Feb 2024 12:00:00 GMT"), Some(1_709_208_000));
        assert_eq!(parse_http_date("Sun, 22 Nov 2026 11:00:00 GMT"), Some(1_795_345_200));
    }

    #[test]
    fn parser_refuses_other_text() {
        for text in
            ["", "soon", "Sun, 06 Nov 1994", "06 Nov 1994 25:00:00", "1 2 3 4:5:6", "06 Nov 1994 8:49"]
        {
            assert_eq!(parse_http_date(text), None, "{text}");
        }
        let far = u64::MAX;
        assert_eq!(parse_http_date(&alloc::format!("1 Jan {far} 00:00:00")), None);
    }

    #[test]
    fn retry_after_counts_from_the_date_of_the_answer() {
        let date = Some("Sun, 06 Nov 1994 08:49:37 GMT");
        let seconds = |count| Some(Duration::from_secs(count));
        assert_eq!(parse_retry_after("120", None), seconds(120));
        assert_eq!(parse_retry_after("Sun, 06 Nov 1994 08:51:37 GMT", date), seconds(120));
        assert_eq!(parse_retry_after("Sun, 06 Nov 1994 08:00:00 GMT", date), seconds(0), "it is in the past");
        assert_eq!(parse_retry_after("Sun, 06 Nov 1994 08:51:37 GMT", None), None);
        assert_eq!(parse_retry_after("-1", date), None);
    }
}

//! Converts the status of a response to an error.

use crate::peer::{RetryAdvice, TransportError};

/// Returns the error of an exchange that ended with a status, with the beginning of its body.
///
/// The status determines the advice on repeating the request:
///
/// | status | repeating the request |
/// |---|---|
/// | 408, 425, 429, 5xx | may help later |
/// | 400 to 404, 410 | never helps |
/// | any other | may help or not |
pub(super) fn http_error(status: u16, body: &str) -> TransportError {
    let mut error = TransportError::new("HTTP", status, body);
    error.retry = match status {
        408 | 425 | 429 | 500.. => RetryAdvice::Later,
        400..=404 | 410 => RetryAdvice::Never,
        _ => RetryAdvice::Unknown,
    };
    error.needs_authorization = status == 401;
    error.is_unavailable = matches!(status, 429 | 500..=599);
    error
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn error_shows_the_body_on_one_line() {
        let error = http_error(404, "<html>\n  Not here</html>");
        assert_eq!(error.to_string(), "HTTP status 404: <html> Not here</html>");
    }
}

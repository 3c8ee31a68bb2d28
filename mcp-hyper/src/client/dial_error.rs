//! Connection errors: their text, and whether another attempt would fail in the same way.

use std::error::Error;
use std::fmt;
use std::io;

/// The error of a failed connection attempt.
#[derive(Clone, Debug)]
pub(super) struct DialError {
    /// What failed, with host and port.
    pub(super) detail: String,
    /// Whether another attempt would fail in the same way, as long as nothing changes.
    pub(super) is_definite: bool,
}

/// An error whose text tells the user what to do.
#[derive(Debug)]
struct ExplainedError {
    words: String,
    is_definite: bool,
}

impl fmt::Display for ExplainedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl Error for ExplainedError {}

pub(super) fn explained_error(words: impl Into<String>, is_definite: bool) -> io::Error {
    io::Error::other(ExplainedError { words: words.into(), is_definite })
}

/// An error that every further attempt would meet as well.
pub(super) fn definite_error(error: impl fmt::Display) -> io::Error {
    explained_error(error.to_string(), true)
}

impl DialError {
    /// Describes an `error` from a connection attempt to `place`, a host and its port.
    pub(super) fn new(place: &str, error: &io::Error) -> Self {
        let ExplainedError { words, is_definite } = explain(error);
        Self { detail: format!("cannot connect to {place}: {words}"), is_definite }
    }
}

fn explain(error: &io::Error) -> ExplainedError {
    if let Some(ExplainedError { words, is_definite }) =
        error.get_ref().and_then(|inner| inner.downcast_ref())
    {
        return ExplainedError { words: words.clone(), is_definite: *is_definite };
    }
    let (words, is_definite) = match error.kind() {
        io::ErrorKind::ConnectionRefused => ("connection refused", true),
        io::ErrorKind::HostUnreachable => ("the host cannot be reached", false),
        io::ErrorKind::NetworkUnreachable => ("the network cannot be reached", false),
        io::ErrorKind::TimedOut => ("no answer", false),
        _ => return ExplainedError { words: error.to_string(), is_definite: false },
    };
    ExplainedError { words: words.to_owned(), is_definite }
}

/// Describes the error of a connection to a proxy.
pub(super) fn proxy_error(place: &str, error: &io::Error) -> io::Error {
    let ExplainedError { words, is_definite } = explain(error);
    explained_error(format!("the proxy {place}: {words}"), is_definite)
}

/// Describes a failed name lookup. It is definite only if a resolver replied that the name does not exist.
pub(super) fn lookup_error(error: &io::Error) -> io::Error {
    const UNKNOWN: [&str; 6] = [
        "not known",
        "No address associated",
        "does not resolve",
        "no usable address",
        "No such host is known",
        "no address",
    ];
    let text = error.to_string();
    if error.kind() == io::ErrorKind::NotFound || UNKNOWN.iter().any(|words| text.contains(words)) {
        return definite_error("unknown host");
    }
    explained_error(format!("the host's name cannot be looked up: {text}"), false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(error: &io::Error) -> (String, bool) {
        let DialError { detail, is_definite } = DialError::new("server.example:80", error);
        (detail, is_definite)
    }

    #[test]
    fn refused_connection_is_definite() {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        let words = "cannot connect to server.example:80: connection refused";
        assert_eq!(failure(&refused), (words.to_owned(), true));
        let words = "cannot connect to server.example:80: the proxy proxy.example:1: connection refused";
        assert_eq!(failure(&proxy_error("proxy.example:1", &refused)), (words.to_owned(), true));
        assert!(!failure(&io::ErrorKind::ConnectionReset.into()).1);
        assert!(!failure(&io::ErrorKind::NetworkUnreachable.into()).1);
    }

    #[test]
    fn unknown_host_is_definite_only_if_the_resolver_answered() {
        let text = "failed to lookup address information: ";
        for words in
            ["Name or service not known", "No address associated with hostname", "Name does not resolve"]
        {
            let error = lookup_error(&io::Error::other(format!("{text}{words}")));
            assert_eq!(
                failure(&error),
                ("cannot connect to server.example:80: unknown host".to_owned(), true)
            );
        }
        let error = lookup_error(&io::Error::other(format!("{text}Temporary failure in name resolution")));
        let (words, is_definite) = failure(&error);
        assert!(words.ends_with("Temporary failure in name resolution") && !is_definite, "{words}");
    }
}

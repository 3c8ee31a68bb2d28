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

fn explained_error(words: impl Into<String>, is_definite: bool) -> io::Error {
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

/// Describes a failed TLS handshake.
#[cfg(feature = "tls")]
pub(super) fn tls_error(error: &io::Error) -> io::Error {
    use futures_rustls::rustls::Error as TlsError;

    match error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>()) {
        Some(TlsError::InvalidCertificate(fault)) => definite_error(describe_certificate_error(fault)),
        Some(TlsError::InvalidMessage(_)) => {
            definite_error("the server does not speak TLS on this port; its URL may begin with http://")
        }
        Some(TlsError::AlertReceived(alert)) => {
            definite_error(format!("the server refuses the encrypted connection ({alert:?})"))
        }
        Some(other) => definite_error(format!("no encrypted connection: {other}")),
        None => explained_error(format!("no encrypted connection: {error}"), false),
    }
}

#[cfg(feature = "tls")]
fn describe_certificate_error(fault: &futures_rustls::rustls::CertificateError) -> String {
    use futures_rustls::rustls::CertificateError as Fault;

    match fault {
        Fault::Expired | Fault::ExpiredContext { .. } => "the server's certificate has expired".to_owned(),
        Fault::NotValidYet | Fault::NotValidYetContext { .. } => {
            "the server's certificate is not valid yet, by this machine's clock".to_owned()
        }
        // An issuer with the name of a trusted one, but another key, is reported as a bad signature.
        Fault::UnknownIssuer | Fault::BadSignature => {
            "the server's certificate is not signed by an issuer that is trusted here".to_owned()
        }
        Fault::Revoked => "the server's certificate has been revoked".to_owned(),
        Fault::NotValidForName => "the server's certificate is for another name".to_owned(),
        Fault::NotValidForNameContext { expected, presented } => {
            let expected = expected.to_str();
            match &presented[..] {
                [] => format!("the server's certificate is not for {expected}, nor for any other name"),
                names => {
                    let names: Vec<_> = names.iter().map(|name| plain_name(name)).collect();
                    format!("the server's certificate is not for {expected}, but for {}", names.join(", "))
                }
            }
        }
        other => format!("the server's certificate is not valid: {other}"),
    }
}

/// Extracts `server.example` from `DnsName("server.example")`, as the verifier writes names.
#[cfg(feature = "tls")]
fn plain_name(name: &str) -> &str {
    name.split_once('(').map_or(name, |(_, rest)| rest.trim_end_matches(')')).trim_matches('"')
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

    #[cfg(feature = "tls")]
    #[test]
    fn error_describes_invalid_certificates_in_words() {
        use futures_rustls::pki_types::ServerName;
        use futures_rustls::rustls::{CertificateError as Fault, Error as TlsError};

        let words = |fault| {
            let error = io::Error::new(io::ErrorKind::InvalidData, TlsError::InvalidCertificate(fault));
            let (words, is_definite) = failure(&tls_error(&error));
            assert!(is_definite);
            words
                .strip_prefix("cannot connect to server.example:80: the server's certificate ")
                .unwrap()
                .to_owned()
        };
        assert_eq!(words(Fault::Expired), "has expired");
        assert_eq!(words(Fault::UnknownIssuer), "is not signed by an issuer that is trusted here");
        assert_eq!(words(Fault::NotValidYet), "is not valid yet, by this machine's clock");
        let expected = ServerName::try_from("server.example").unwrap();
        let presented = vec![r#"DnsName("one.example")"#.to_owned(), r#"DnsName("two.example")"#.to_owned()];
        let mismatch = Fault::NotValidForNameContext { expected, presented };
        assert_eq!(words(mismatch), "is not for server.example, but for one.example, two.example");
    }
}

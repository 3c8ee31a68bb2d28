//! Proxies: which server to use, and for which origins.

mod exceptions;

use std::fmt;
use std::sync::Arc;

use http::{HeaderValue, Uri};

use self::exceptions::Exceptions;
use super::target::{Origin, Scheme, credentials};

/// Which requests go through a proxy.
///
/// Encrypted connections are tunnelled (`CONNECT`), so that the proxy sees only the name of the server; others are
/// forwarded. The client speaks HTTP/1.1 with the proxy, encrypted if the proxy's URL begins with `https`; it sends a
/// user and a password from that URL as credentials. Requests to servers on this machine (`localhost`, `127.0.0.0/8`,
/// `::1`) bypass the proxy, unless [`for_loopback`](Self::for_loopback) includes them.
///
/// ```
/// use mcp_hyper::Proxy;
///
/// let proxy = Proxy::through("http://proxy.example.com:3128")?.except("example.com, 10.0.0.0/8");
/// # Ok::<(), mcp_hyper::ProxyError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Proxy {
    http: Option<ProxyServer>,
    https: Option<ProxyServer>,
    exceptions: Exceptions,
    loopback: bool,
}

/// An invalid proxy URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyError {
    /// The environment variable with the URL, or empty.
    pub variable: String,
}

impl fmt::Display for ProxyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.variable.as_str() {
            "" => f.write_str("this is not the URL of an HTTP proxy"),
            variable => write!(f, "the value of {variable} is not the URL of an HTTP proxy"),
        }
    }
}

impl std::error::Error for ProxyError {}

/// A proxy server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProxyServer {
    /// The proxy's own origin.
    pub(super) origin: Arc<Origin>,
    /// The value of `proxy-authorization`.
    pub(super) credentials: Option<HeaderValue>,
}

impl Proxy {
    /// Uses no proxy.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Uses the proxies of the environment, as most programs do.
    ///
    /// `https_proxy` or `HTTPS_PROXY` is for encrypted connections, `http_proxy` or `HTTP_PROXY` for others, and
    /// `no_proxy` or `NO_PROXY` lists [exceptions](Self::except). The lower-case name takes precedence; an empty value
    /// means no proxy. Where `REQUEST_METHOD` is set, as for CGI programs, `HTTP_PROXY` is ignored: any client of such
    /// a program can set it by a request header.
    ///
    /// # Errors
    /// If a variable is set to an invalid proxy URL.
    pub fn from_environment() -> Result<Self, ProxyError> {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self, ProxyError> {
        let first = |names: &[&'static str]| -> Option<(&'static str, String)> {
            names.iter().find_map(|name| variable(name).map(|value| (*name, value)))
        };
        let server = |names: &[&'static str]| match first(names) {
            Some((_, value)) if value.trim().is_empty() => Ok(None),
            Some((name, value)) => match ProxyServer::parse(value.trim()) {
                Some(server) => Ok(Some(server)),
                None => Err(ProxyError { variable: name.to_owned() }),
            },
            None => Ok(None),
        };
        let is_cgi = variable("REQUEST_METHOD").is_some();
        let http: &[&'static str] = if is_cgi { &["http_proxy"] } else { &["http_proxy", "HTTP_PROXY"] };
        let exceptions = first(&["no_proxy", "NO_PROXY"]).map(|(_, list)| list).unwrap_or_default();
        let proxy =
            Self { http: server(http)?, https: server(&["https_proxy", "HTTPS_PROXY"])?, ..Self::none() };
        Ok(proxy.except(&exceptions))
    }

    /// Uses this proxy for every origin. A URL without a scheme is taken as `http`.
    ///
    /// # Errors
    /// If it is not an HTTP URL.
    pub fn through(url: &str) -> Result<Self, ProxyError> {
        let server = ProxyServer::parse(url).ok_or(ProxyError { variable: String::new() })?;
        Ok(Self { http: Some(server.clone()), https: Some(server), ..Self::none() })
    }

    /// Excludes servers from the proxy: names (each includes its subdomains), addresses and networks such as
    /// `10.0.0.0/8`, each optionally with a port; `*` excludes every server. Commas or spaces separate the entries.
    #[must_use]
    pub fn except(mut self, list: &str) -> Self {
        self.exceptions.add(list);
        self
    }

    /// Also uses the proxy for servers on this machine.
    #[must_use]
    pub fn for_loopback(mut self) -> Self {
        self.loopback = true;
        self
    }

    /// The proxy server for this origin, if any.
    pub(super) fn server_for(&self, origin: &Origin) -> Option<&ProxyServer> {
        let server = match origin.scheme {
            Scheme::Http => self.http.as_ref()?,
            Scheme::Https => self.https.as_ref()?,
        };
        let direct = self.exceptions.contain(&origin.host, origin.port)
            || (!self.loopback && exceptions::is_loopback(&origin.host));
        (!direct).then_some(server)
    }
}

impl ProxyServer {
    fn parse(url: &str) -> Option<Self> {
        let url = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
        let target = super::target::Target::parse(&url)?;
        let credentials = Uri::try_from(url).ok()?.authority().and_then(credentials);
        Some(Self { origin: target.origin, credentials })
    }
}

#[cfg(test)]
mod tests {
    use super::super::target::Target;
    use super::*;

    fn from(variables: &[(&str, &str)]) -> Result<Proxy, ProxyError> {
        Proxy::from_variables(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    fn asked(proxy: &Proxy, url: &str) -> Option<String> {
        let target = Target::parse(url).unwrap();
        proxy.server_for(&target.origin).map(|server| server.origin.with_port())
    }

    #[test]
    fn each_scheme_has_its_variable_and_the_lower_case_name_takes_precedence() {
        let proxy = from(&[
            ("http_proxy", "http://a:1"),
            ("HTTP_PROXY", "http://b:1"),
            ("HTTPS_PROXY", "https://user:pw@c"),
        ]);
        let proxy = proxy.unwrap();
        assert_eq!(asked(&proxy, "http://x.org/").as_deref(), Some("a:1"));
        assert_eq!(asked(&proxy, "https://x.org/").as_deref(), Some("c:443"));
        let server = proxy.https.unwrap();
        assert_eq!(server.origin.scheme, Scheme::Https);
        assert_eq!(server.credentials.unwrap(), "Basic dXNlcjpwdw==");
    }

    #[test]
    fn empty_variable_disables_the_proxy_despite_the_upper_case_one() {
        let proxy = from(&[("http_proxy", ""), ("HTTP_PROXY", "http://b:1")]).unwrap();
        assert_eq!(asked(&proxy, "http://x.org/"), None);
    }

    #[test]
    fn cgi_program_ignores_the_http_proxy_variable() {
        let proxy = from(&[("REQUEST_METHOD", "GET"), ("HTTP_PROXY", "evil:1"), ("HTTPS_PROXY", "b:1")]);
        let proxy = proxy.unwrap();
        assert_eq!(asked(&proxy, "http://x.org/"), None);
        assert_eq!(asked(&proxy, "https://x.org/").as_deref(), Some("b:1"));
        let proxy = from(&[("REQUEST_METHOD", "GET"), ("http_proxy", "b:1")]).unwrap();
        assert_eq!(asked(&proxy, "http://x.org/").as_deref(), Some("b:1"));
    }

    #[test]
    fn error_of_an_invalid_proxy_names_its_variable() {
        assert_eq!(from(&[("HTTPS_PROXY", "socks5://a:1")]).unwrap_err().variable, "HTTPS_PROXY");
        assert_eq!(Proxy::through("").unwrap_err().variable, "");
    }

    #[test]
    fn proxy_is_bypassed_for_this_machine_by_default() {
        let proxy = Proxy::through("proxy:3128").unwrap();
        for url in ["http://localhost/", "http://app.LOCALHOST:80/", "https://127.1.2.3/", "http://[::1]/"] {
            assert_eq!(asked(&proxy, url), None, "{url}");
            assert_eq!(asked(&proxy.clone().for_loopback(), url).as_deref(), Some("proxy:3128"), "{url}");
        }
        assert!(asked(&proxy, "http://localhost.example.com/").is_some());
    }

    #[test]
    fn proxy_is_bypassed_for_exceptions() {
        let proxy = from(&[("http_proxy", "p:1"), ("NO_PROXY", "internal.example, 10.0.0.0/8")]).unwrap();
        assert_eq!(asked(&proxy, "http://a.internal.example/"), None);
        assert_eq!(asked(&proxy, "http://10.3.4.5/"), None);
        assert!(asked(&proxy, "http://11.3.4.5/").is_some());
    }
}

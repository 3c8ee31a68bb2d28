//! Request targets: parsed URLs and their origins.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::{fmt, io};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures_lite::{AsyncReadExt as _, AsyncWriteExt as _};
use http::uri::{Authority, PathAndQuery};
use http::{HeaderValue, Uri};
use mcp_proto::transport::http::IpNetwork;

use crate::runtime::Stream;

/// Whether a connection is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// An origin: scheme, host and port, which all URLs that a connection can serve have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Origin {
    pub(super) scheme: Scheme,
    /// In lower case; an IPv6 address without its brackets.
    pub(super) host: String,
    pub(super) port: u16,
}

impl Origin {
    /// The value of the `host` header: without the scheme's default port.
    pub(super) fn authority(&self) -> String {
        if self.port == self.scheme.default_port() { self.bracketed() } else { self.with_port() }
    }

    /// The origin as a URL.
    pub(super) fn url(&self) -> String {
        format!("{}://{}/", self.scheme.as_str(), self.authority())
    }

    /// Host and port, as CONNECT requires.
    pub(super) fn with_port(&self) -> String {
        format!("{}:{}", self.bracketed(), self.port)
    }

    fn bracketed(&self) -> String {
        if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() }
    }
}

/// A parsed URL.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) origin: Arc<Origin>,
    /// The value of the `host` header.
    pub(super) host: HeaderValue,
    pub(super) path: PathAndQuery,
    /// User and password of the URL, as a value of `authorization`.
    pub(super) credentials: Option<HeaderValue>,
}

// Leaves out query and credentials, which may be secret.
debug_fields! { Target(self) { origin, path = self.path.path() } }

impl Target {
    /// Parses a URL; `None` if it is not an absolute HTTP URL.
    pub(super) fn parse(url: &str) -> Option<Self> {
        let uri = Uri::try_from(url).ok()?;
        let scheme = match uri.scheme_str()? {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return None,
        };
        let authority = uri.authority()?;
        let host = authority.host();
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() {
            return None;
        }
        // One spelling per address, as `mcp_proto` compares origins.
        let host = match host.parse::<Ipv6Addr>() {
            Ok(address) => address.to_string(),
            Err(_) => host.to_ascii_lowercase(),
        };
        let port = match authority.port() {
            Some(port) => port.as_u16(),
            None => scheme.default_port(),
        };
        let origin = Origin { scheme, host, port };
        Some(Self {
            host: HeaderValue::try_from(origin.authority()).ok()?,
            origin: Arc::new(origin),
            path: uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/")),
            credentials: credentials(authority),
        })
    }

    /// The path and query, as in a request to the server itself.
    pub(super) fn origin_form(&self) -> Uri {
        Uri::from(self.path.clone())
    }

    /// The whole URL, as in a request to a proxy, and with HTTP/2.
    pub(super) fn absolute_form(&self) -> Uri {
        let uri = Uri::builder()
            .scheme(self.origin.scheme.as_str())
            .authority(self.origin.authority())
            .path_and_query(self.path.clone());
        uri.build().unwrap_or_else(|_| self.origin_form())
    }
}

/// Encodes `user:password@` as a value of `authorization` or `proxy-authorization`.
pub(super) fn credentials(authority: &Authority) -> Option<HeaderValue> {
    let (user_info, _) = authority.as_str().rsplit_once('@')?;
    let (user, password) = user_info.split_once(':').unwrap_or((user_info, ""));
    let mut plain = percent_decoded(user);
    plain.push(b':');
    plain.extend(percent_decoded(password));
    let mut value = HeaderValue::try_from(format!("Basic {}", BASE64.encode(plain))).ok()?;
    value.set_sensitive(true);
    Some(value)
}

pub(crate) fn percent_decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let decoded = digits.filter(|_| first == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(decoded.unwrap_or(first));
        rest = if decoded.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    bytes
}

// Proxies: which server to use, for which origins, and tunnels through it.

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
    exceptions: Vec<Exception>,
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
        let entries = list.split(|c: char| c == ',' || c.is_ascii_whitespace());
        self.exceptions.extend(entries.filter(|entry| !entry.is_empty()).map(Exception::parse));
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
        let direct =
            self.excludes(&origin.host, origin.port) || (!self.loopback && is_loopback(&origin.host));
        (!direct).then_some(server)
    }

    fn excludes(&self, host: &str, port: u16) -> bool {
        let address = host.parse().ok();
        self.exceptions.iter().any(|exception| {
            exception.port.is_none_or(|only| only == port) && exception.hosts.contain(host, address)
        })
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

/// Servers that the proxy is not used for.
#[derive(Clone, Debug)]
struct Exception {
    hosts: Hosts,
    port: Option<u16>,
}

#[derive(Clone, Debug)]
enum Hosts {
    All,
    /// A name and its subdomains, in lower case.
    Name(String),
    Network(IpNetwork),
}

impl Exception {
    fn parse(entry: &str) -> Self {
        if let Some(hosts) = Hosts::network(entry) {
            return Self { hosts, port: None };
        }
        if let Some((host, port)) = entry.rsplit_once(':')
            && let Ok(port) = port.parse()
        {
            let hosts = Hosts::network(host).unwrap_or_else(|| Hosts::name(host));
            return Self { hosts, port: Some(port) };
        }
        Self { hosts: Hosts::name(entry), port: None }
    }
}

impl Hosts {
    fn name(text: &str) -> Self {
        let name = text.strip_prefix('*').unwrap_or(text);
        let name = name.strip_prefix('.').unwrap_or(name).trim_end_matches('.');
        if name.is_empty() { Self::All } else { Self::Name(name.to_ascii_lowercase()) }
    }

    fn network(text: &str) -> Option<Self> {
        let text = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        text.parse().ok().map(Self::Network)
    }

    fn contain(&self, host: &str, address: Option<IpAddr>) -> bool {
        match (self, address) {
            (Self::All, _) => true,
            (Self::Name(name), _) => is_below(host.trim_end_matches('.'), name),
            (Self::Network(network), Some(address)) => network.contains(address),
            (Self::Network(..), _) => false,
        }
    }
}

/// Whether `host` is `name` or one of its subdomains.
fn is_below(host: &str, name: &str) -> bool {
    host.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// Whether the host is this machine, by name or by address.
pub(super) fn is_loopback(host: &str) -> bool {
    match host.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => is_below(host.trim_end_matches('.'), "localhost"),
    }
}

/// Maximum bytes of the head of a CONNECT response.
const LONGEST_HEAD: usize = 16 * 1024;

/// Maximum number of headers of a CONNECT response.
const MOST_HEADERS: usize = 64;

/// Opens a tunnel to `origin` through a proxy.
pub(super) async fn open_tunnel(
    proxy: &mut dyn Stream,
    origin: &Origin,
    credentials: Option<&HeaderValue>,
) -> io::Result<()> {
    let authority = origin.with_port();
    let mut request = format!("CONNECT {authority} HTTP/1.1\r\nhost: {authority}\r\n").into_bytes();
    if let Some(credentials) = credentials {
        request.extend_from_slice(b"proxy-authorization: ");
        request.extend_from_slice(credentials.as_bytes());
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    proxy.write_all(&request).await?;
    proxy.flush().await?;

    let mut head = Vec::new();
    let mut byte = [0];
    // The bytes after the head come from the server: the loop must not read one of them.
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == LONGEST_HEAD {
            return Err(io::Error::other("the proxy's answer is too long"));
        }
        if proxy.read(&mut byte).await? == 0 {
            return Err(io::Error::other("the proxy closed the connection without an answer"));
        }
        head.extend_from_slice(&byte);
    }
    match tunnel_status(&head) {
        Some(200..=299) => Ok(()),
        Some(407) => Err(io::Error::other("the proxy requires a user and a password: add them to its URL")),
        Some(status) => Err(io::Error::other(format!("the proxy answered with status {status}"))),
        None => Err(io::Error::other("the proxy's answer is not HTTP")),
    }
}

fn tunnel_status(head: &[u8]) -> Option<u16> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    response.parse(head).ok().filter(httparse::Status::is_complete)?;
    response.code
}

#[cfg(test)]
mod proxy_tests {
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

    fn contains(list: &str, host: &str, port: u16) -> bool {
        Proxy::none().except(list).excludes(host, port)
    }

    #[test]
    fn name_matches_itself_and_its_subdomains() {
        for list in ["Example.com", ".example.com", "*.example.com", "a, example.com.", " b example.com"] {
            assert!(contains(list, "example.com", 80), "{list}");
            assert!(contains(list, "a.b.example.com", 80), "{list}");
            assert!(!contains(list, "notexample.com", 80), "{list}");
            assert!(!contains(list, "example.com.evil.org", 80), "{list}");
        }
    }

    #[test]
    fn port_narrows_an_exception() {
        assert!(contains("example.com:8080", "example.com", 8080));
        assert!(!contains("example.com:8080", "example.com", 80));
        assert!(contains("10.1.2.3:90", "10.1.2.3", 90));
        assert!(contains("[2001:db8::1]:90", "2001:db8::1", 90));
        assert!(!contains("[2001:db8::1]:90", "2001:db8::1", 80));
    }

    #[test]
    fn network_matches_addresses_by_their_first_bits() {
        assert!(contains("192.168.0.0/16", "192.168.9.9", 80));
        assert!(!contains("192.168.0.0/16", "192.169.0.1", 80));
        assert!(contains("0.0.0.0/0", "8.8.8.8", 80));
        assert!(contains("2001:db8::/32", "2001:db8:1::1", 80));
        assert!(!contains("2001:db8::/32", "2001:db9::1", 80));
        assert!(!contains("10.0.0.0/8", "10.example.com", 80));
        assert!(!contains("10.0.0.0/33", "10.0.0.0", 80));
        assert!(contains("::1", "::1", 80));
    }

    #[test]
    fn star_matches_every_host_and_an_empty_list_none() {
        assert!(contains("*", "example.com", 80));
        assert!(contains("*", "::1", 80));
        assert!(!contains("", "example.com", 80));
        assert!(!contains(" , ,", "example.com", 80));
    }

    #[test]
    fn this_machine_has_many_names() {
        for host in
            ["localhost", "a.localhost", "localhost.", "127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"]
        {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["localhost.com", "mylocalhost", "128.0.0.1", "::2"] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> Target {
        Target::parse(url).unwrap()
    }

    #[test]
    fn parser_splits_a_url_into_origin_path_and_credentials() {
        let target = target("HTTPS://User:p%40ss@Example.COM/mcp?key=1");
        assert_eq!(target.origin.with_port(), "example.com:443");
        assert_eq!(target.origin.authority(), "example.com");
        assert_eq!(target.origin_form(), "/mcp?key=1");
        assert_eq!(target.absolute_form(), "https://example.com/mcp?key=1");
        let credentials = target.credentials.unwrap();
        assert_eq!(credentials, format!("Basic {}", BASE64.encode("User:p@ss")));
        assert!(credentials.is_sensitive());
    }

    #[test]
    fn parser_keeps_the_form_of_ports_and_addresses() {
        let v6 = target("http://[::1]:8080");
        assert_eq!((v6.origin.host.as_str(), v6.origin.port), ("::1", 8080));
        assert_eq!(v6.origin.authority(), "[::1]:8080");
        assert_eq!(v6.origin_form(), "/");
        assert_eq!(target("http://a:80/").origin, target("http://A/").origin);
        assert_eq!(target("http://[::1]:80/").origin, target("http://[0:0:0:0:0:0:0:1]/").origin);
        assert_ne!(target("http://a/").origin, target("https://a/").origin);
        assert!(target("http://a/").credentials.is_none());
    }

    #[test]
    fn parser_refuses_other_urls() {
        for url in ["/mcp", "ftp://a/", "a:80", "http:///x", "http://a b/", "http://:80/"] {
            assert!(Target::parse(url).is_none(), "{url}");
        }
    }

    #[test]
    fn debug_output_hides_secrets_of_a_target() {
        let shown = format!("{:?}", target("https://marker:marker@example.com/mcp?key=marker"));
        assert!(!shown.contains("marker") && shown.contains("/mcp"), "{shown}");
    }

    #[test]
    fn malformed_percent_sign_stands_for_itself() {
        assert_eq!(percent_decoded("%41%4"), b"A%4");
        assert_eq!(percent_decoded("%zz%"), b"%zz%");
    }
}

//! HTTP fetches that the driver performs, and the policy for their URLs and addresses.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::Bytes;

use super::{DOCUMENT_BYTES, Secret, URL_BYTES};
use crate::prelude::*;
use crate::redact::url_without_secrets;
use crate::transport::http::Verb;
use crate::url::{Host, HttpUrl, HttpUrlError};

/// The id of a fetch, unique within its state machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FetchId(u64);

impl FetchId {
    /// A fetch id with this number, for state machines.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number, for maps and logs.
    pub const fn number(self) -> u64 {
        self.0
    }
}

debug_fields! { FetchId(inner) => "fetch {inner}" }

/// An HTTP request for the driver to perform: connect only to addresses that
/// [`FetchPolicy::allows`](super::FetchPolicy::allows), follow no redirect, send no cookie, read at most `limit` bytes
/// of the response.
///
/// [`Debug`](core::fmt::Debug) shows neither the values of headers nor the query nor the body.
#[derive(Clone, PartialEq, Eq)]
pub struct Fetch {
    /// The fetch's id.
    pub id: FetchId,
    /// The method.
    pub verb: Verb,
    /// The absolute URL, which has been checked.
    pub url: String,
    /// Headers to add to the usual ones. Names are in lower case.
    pub headers: Vec<(&'static str, Secret)>,
    /// The body, or empty.
    pub body: Bytes,
    /// Maximum bytes of the response body. If it is longer, the fetch fails.
    pub limit: usize,
}

/// The media type of forms.
pub(super) const FORM: &str = "application/x-www-form-urlencoded";

impl Fetch {
    /// A request for a document as JSON, to be given an id.
    pub(super) fn get(url: String) -> Self {
        Self {
            id: FetchId(0),
            verb: Verb::Get,
            url,
            headers: [("accept", Secret::new("application/json"))].into(),
            body: Bytes::new(),
            limit: DOCUMENT_BYTES,
        }
    }

    /// A request with a body whose answer is JSON, to be given an id.
    pub(super) fn post(url: String, content_type: &str, body: String) -> Self {
        let mut fetch = Self { verb: Verb::Post, body: body.into(), ..Self::get(url) };
        fetch.headers.push(("content-type", Secret::new(content_type)));
        fetch
    }
}

debug_fields! { Fetch(self) {
    id = self.id,
    verb = self.verb,
    url = url_without_secrets(&self.url),
    headers = self.headers.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
    body_bytes = self.body.len(),
    limit = self.limit,
} }

/// Whether fetches may connect to private networks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PrivateNetworks {
    /// Refused: a server on the internet must not trigger requests to them.
    #[default]
    Refused,
    /// Allowed: RFC 1918, unique local addresses, and the shared address space that overlay networks use.
    Allowed,
}

/// Decides which URLs and addresses may be fetched on behalf of one server. The server's metadata names URLs, so
/// without a policy its operator could trigger requests to any address that this program can reach.
///
/// [Check](Self::check) a URL before each fetch, as well as each redirect target. Then resolve the host, and connect
/// only to addresses that are [allowed](Self::allows_at), as a name can resolve to any address. Connect to the checked
/// addresses; do not resolve the name again.
///
/// ```
/// use mcp_proto::auth::{PrivateNetworks, FetchPolicy, FetchPolicyError};
///
/// let policy = FetchPolicy::for_server("https://mcp.example.com/mcp", PrivateNetworks::Refused)?;
/// assert_eq!(policy.check("https://auth.example.com/token"), Ok(()));
/// assert_eq!(policy.check("http://auth.example.com/token"), Err(FetchPolicyError::Unencrypted));
/// assert_eq!(policy.check("https://127.0.0.1/token"), Err(FetchPolicyError::Loopback));
/// assert_eq!(policy.check("https://0x7f.1/token"), Err(FetchPolicyError::NumericHost));
/// assert!(!policy.allows([169, 254, 169, 254].into()));
/// # Ok::<(), FetchPolicyError>(())
/// ```
///
/// <https://modelcontextprotocol.io/docs/2026-07-28/tutorials/security/security_best_practices>
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchPolicy {
    loopback: bool,
    private: PrivateNetworks,
}

impl FetchPolicy {
    /// The policy for the server at this URL. Loopback addresses are allowed only if the server itself has one.
    ///
    /// # Errors
    /// If the URL is unsuitable for tokens: plain HTTP to another machine, or a refused address.
    pub fn for_server(server_url: &str, private: PrivateNetworks) -> Result<Self, FetchPolicyError> {
        let loopback = is_loopback(parse_url(server_url)?.host);
        let reach = Self { loopback, private };
        reach.check(server_url)?;
        Ok(reach)
    }

    /// Checks that a URL may be fetched: `https`, or `http` on loopback where loopback is allowed.
    ///
    /// # Errors
    /// The reason to refuse the URL.
    pub fn check(&self, url: &str) -> Result<(), FetchPolicyError> {
        let parts = parse_plain_url(url)?;
        let loopback = is_loopback(parts.host);
        if loopback && !self.loopback {
            return Err(FetchPolicyError::Loopback);
        }
        //= C12.23 "AS endpoints https"
        if !parts.secure && !loopback {
            return Err(FetchPolicyError::Unencrypted);
        }
        match parts.host {
            Host::Name(_) => Ok(()),
            Host::Address(address) => self.check_address(address),
        }
    }

    //= K21 "addresses are checked when they are resolved"
    /// Whether a connection to this address is allowed. Ask for each resolved address, each time.
    pub fn allows(&self, address: IpAddr) -> bool {
        self.check_address(address).is_ok()
    }

    /// Whether a connection to this address is allowed for a [checked](Self::check) URL: unencrypted requests stay on
    /// this machine, whatever their host resolves to.
    pub fn allows_at(&self, url: &str, address: IpAddr) -> bool {
        let secure = parse_url(url).is_ok_and(|parts| parts.secure);
        self.allows(address) && (secure || address_class(address) == AddressClass::Loopback)
    }

    fn check_address(&self, address: IpAddr) -> Result<(), FetchPolicyError> {
        match address_class(address) {
            AddressClass::Loopback if !self.loopback => Err(FetchPolicyError::Loopback),
            //= C12.26 "block private/reserved/link-local"
            AddressClass::Private if self.private == PrivateNetworks::Refused => {
                Err(FetchPolicyError::Private(address))
            }
            AddressClass::Special => Err(FetchPolicyError::Special(address)),
            _ => Ok(()),
        }
    }
}

/// Checks that a page may be opened in a browser: `https`, or `http` on loopback.
///
/// # Errors
/// The reason to refuse the page.
///
/// <https://modelcontextprotocol.io/docs/2026-07-28/tutorials/security/security_best_practices>
pub fn check_page_url(url: &str) -> Result<(), FetchPolicyError> {
    let parts = parse_plain_url(url)?;
    if parts.secure || is_loopback(parts.host) { Ok(()) } else { Err(FetchPolicyError::Unencrypted) }
}

/// Checks that an issuer's authorization page may be opened: `https`, or any page on this machine if the issuer is on
/// it as well. An issuer elsewhere cannot open a page on this machine, as it could address any local service that way.
pub(crate) fn check_authorization_page(page: &str, issuer: &str) -> Result<(), FetchPolicyError> {
    //= C12.25 "Authorization URL: only http/https (https in production), reject javascript:/data:/file:/vbscript:"
    check_page_url(page)?;
    let is_local = |url| parse_url(url).is_ok_and(|parts| is_loopback(parts.host));
    if is_local(page) && !is_local(issuer) { Err(FetchPolicyError::Loopback) } else { Ok(()) }
}

/// Parses a URL without user name and fragment.
fn parse_plain_url(url: &str) -> Result<HttpUrl<'_>, FetchPolicyError> {
    let parts = parse_url(url)?;
    if parts.user.is_some() {
        return Err(FetchPolicyError::UserInfo);
    }
    if parts.has_fragment {
        return Err(FetchPolicyError::Fragment);
    }
    Ok(parts)
}

fn is_loopback(host: Host<'_>) -> bool {
    match host {
        Host::Address(address) => address_class(address) == AddressClass::Loopback,
        Host::Name(name) => {
            let top = name.rsplit('.').next().unwrap_or_default();
            top.eq_ignore_ascii_case("localhost")
        }
    }
}

/// Why a URL is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FetchPolicyError {
    /// The URL is longer than [`URL_BYTES`](super::URL_BYTES).
    TooLong,
    /// The URL is invalid.
    Syntax,
    /// The scheme is neither `https` nor `http`.
    Scheme,
    /// The scheme is `http`, and the host is another machine.
    Unencrypted,
    /// The URL has no host, or an ambiguous one.
    Host,
    /// The host is a number, but not in the standard form of an address.
    NumericHost,
    /// The URL has a user name.
    UserInfo,
    /// The URL has a fragment.
    Fragment,
    /// The URL is on this machine, and the server is not.
    Loopback,
    /// The address is in a private network, and the policy refuses those.
    Private(IpAddr),
    /// The address is a special one, which no internet server has.
    Special(IpAddr),
    /// The host is not among those at which the client [may log in](super::client::AuthConfig::allowed_hosts).
    NotAllowed,
}

error_text! { FetchPolicyError:
    TooLong => "the URL is too long";
    Syntax => "this is not a URL";
    Scheme => "the URL is neither https nor http on this machine";
    Unencrypted => "http to another machine is not encrypted: use https";
    Host => "the host of the URL is missing or ambiguous";
    NumericHost => "the host is a number that is not written as an address";
    UserInfo => "the URL has a user name";
    Fragment => "the URL has a fragment";
    Loopback => "the URL is on this machine, but the server is not";
    Private(address) => "{address} is in a private network: the policy refuses those";
    Special(address) => "{address} is a special address, which no server has";
    NotAllowed => "the host is not one of those at which logins are allowed";
}

/// The class of an IP address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressClass {
    /// A public internet address.
    Public,
    /// A private network: RFC 1918, RFC 4193, and the shared address space of RFC 6598, which overlay networks use.
    Private,
    /// This machine.
    Loopback,
    /// Link-local, multicast, reserved, documentation, or a cloud metadata service.
    Special,
}

/// Cloud metadata services outside of 169.254.0.0/16 and 192.0.0.0/24. They hand credentials to any process of a
/// machine.
const METADATA_SERVICES: [IpAddr; 4] = [
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V6(Ipv6Addr::new(0xFD00, 0xEC2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xFD20, 0xCE, 0, 0, 0, 0, 0, 0x254)),
];

/// Classifies an address.
pub(crate) fn address_class(address: IpAddr) -> AddressClass {
    if METADATA_SERVICES.contains(&address) {
        return AddressClass::Special;
    }
    match address {
        IpAddr::V4(address) => address_class_v4(address),
        IpAddr::V6(address) => address_class_v6(address),
    }
}

fn address_class_v4(address: Ipv4Addr) -> AddressClass {
    let special = address.is_link_local()
        || address.is_documentation()
        || matches!(
            address.octets(),
            // "This" network, IETF protocols, 6to4 relays, benchmarks, multicast, reserved and broadcast.
            [0, ..] | [192, 0, 0, _] | [192, 88, 99, _] | [198, 18 | 19, ..] | [224..=255, ..]
        );
    if special {
        AddressClass::Special
    } else if address.is_loopback() {
        AddressClass::Loopback
    } else if address.is_private() || matches!(address.octets(), [100, 64..=127, ..]) {
        AddressClass::Private
    } else {
        AddressClass::Public
    }
}

fn address_class_v6(address: Ipv6Addr) -> AddressClass {
    if let Some(mapped) = address.to_ipv4_mapped() {
        return address_class(mapped.into());
    }
    if address.is_loopback() {
        return AddressClass::Loopback;
    }
    if address.is_unique_local() {
        return AddressClass::Private;
    }
    match address.segments() {
        // NAT64 and 6to4 addresses are translated to IPv4, so the embedded address determines the class.
        [0x64, 0xFF9B, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => embedded_class(high, low),
        // IETF protocols, such as Teredo, and documentation.
        [0x2001, 0..=0x1FF | 0xDB8, ..] | [0x3FFF, 0..=0xFFF, ..] => AddressClass::Special,
        // ISATAP addresses embed an IPv4 address.
        [0x2000..=0x3FFF, _, _, _, 0 | 0x200, 0x5EFE, high, low] => embedded_class(high, low),
        // Global unicast: no internet server has an address outside of it.
        [0x2000..=0x3FFF, ..] => AddressClass::Public,
        _ => AddressClass::Special,
    }
}

fn embedded_class(high: u16, low: u16) -> AddressClass {
    let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
    match address_class(Ipv4Addr::new(a, b, c, d).into()) {
        AddressClass::Public => AddressClass::Public,
        _ => AddressClass::Special,
    }
}

/// Parses an untrusted URL.
pub(crate) fn parse_url(url: &str) -> Result<HttpUrl<'_>, FetchPolicyError> {
    if url.len() > URL_BYTES {
        return Err(FetchPolicyError::TooLong);
    }
    HttpUrl::parse(url).map_err(|error| match error {
        HttpUrlError::Syntax => FetchPolicyError::Syntax,
        HttpUrlError::Scheme => FetchPolicyError::Scheme,
        HttpUrlError::Host => FetchPolicyError::Host,
        HttpUrlError::NumericHost => FetchPolicyError::NumericHost,
    })
}

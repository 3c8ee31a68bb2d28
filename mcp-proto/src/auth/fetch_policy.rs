//! The policy that decides which URLs and addresses a client may fetch from.

use core::fmt;
use core::net::IpAddr;

use super::address::{AddressClass, address_class};
use super::url::{self, Host, HttpUrl};

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
        let loopback = is_loopback(url::parse(server_url)?.host);
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

    /// Whether a connection to this address is allowed. Ask for each resolved address, each time.
    pub fn allows(&self, address: IpAddr) -> bool {
        self.check_address(address).is_ok()
    }

    /// Whether a connection to this address is allowed for a [checked](Self::check) URL: unencrypted requests stay on
    /// this machine, whatever their host resolves to.
    pub fn allows_at(&self, url: &str, address: IpAddr) -> bool {
        let secure = url::parse(url).is_ok_and(|parts| parts.secure);
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
    let is_local = |url| url::parse(url).is_ok_and(|parts| is_loopback(parts.host));
    if is_local(page) && !is_local(issuer) { Err(FetchPolicyError::Loopback) } else { Ok(()) }
}

/// Parses a URL without user name and fragment.
fn parse_plain_url(url: &str) -> Result<HttpUrl<'_>, FetchPolicyError> {
    let parts = url::parse(url)?;
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
}

impl fmt::Display for FetchPolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => f.write_str("the URL is too long"),
            Self::Syntax => f.write_str("this is not a URL"),
            Self::Scheme => f.write_str("the URL is neither https nor http on this machine"),
            Self::Unencrypted => f.write_str("http to another machine is not encrypted: use https"),
            Self::Host => f.write_str("the host of the URL is missing or ambiguous"),
            Self::NumericHost => f.write_str("the host is a number that is not written as an address"),
            Self::UserInfo => f.write_str("the URL has a user name"),
            Self::Fragment => f.write_str("the URL has a fragment"),
            Self::Loopback => f.write_str("the URL is on this machine, but the server is not"),
            Self::Private(address) => {
                write!(f, "{address} is in a private network: the policy refuses those")
            }
            Self::Special(address) => write!(f, "{address} is a special address, which no server has"),
        }
    }
}

impl core::error::Error for FetchPolicyError {}

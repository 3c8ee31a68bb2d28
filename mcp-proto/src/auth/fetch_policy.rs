//! Where tokens may be fetched from.

use core::fmt;
use core::net::IpAddr;

use super::address::{AddressClass, address_class};
use super::url::{self, Host, HttpUrl};

/// Whether servers in private networks may be visited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PrivateNetworks {
    /// They may not: a server on the internet has no business there.
    #[default]
    Refused,
    /// They may: RFC 1918, unique local addresses, and the shared address space that private overlays use.
    Allowed,
}

/// What may be visited on behalf of one server: its metadata names URLs, and whoever controls it could have anything
/// fetched from where this program runs.
///
/// A URL is [checked](Self::check) before it is visited, and each to which an answer redirects as well. Then the host is
/// resolved, and only addresses are connected to which are [allowed](Self::allows_at): a name can be made to mean any
/// address. The same addresses are connected to that were asked about; the name is not resolved again.
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
    /// On behalf of the server at this URL. Loopback addresses may be visited only if the server itself has one.
    ///
    /// # Errors
    /// If tokens can not be sent there: over plain HTTP to another machine, or to a place that is refused.
    pub fn for_server(server_url: &str, private: PrivateNetworks) -> Result<Self, FetchPolicyError> {
        let loopback = is_loopback(url::parse(server_url)?.host);
        let reach = Self { loopback, private };
        reach.check(server_url)?;
        Ok(reach)
    }

    /// Whether a URL may be visited: `https`, or `http` on loopback where that may be visited.
    ///
    /// # Errors
    /// If not.
    pub fn check(&self, url: &str) -> Result<(), FetchPolicyError> {
        let parts = parse_plain_url(url)?;
        let loopback = is_loopback(parts.host);
        if loopback && !self.loopback {
            return Err(FetchPolicyError::Loopback);
        }
        if !parts.secure && !loopback {
            return Err(FetchPolicyError::Unencrypted);
        }
        match parts.host {
            Host::Name(_) => Ok(()),
            Host::Address(address) => self.check_address(address),
        }
    }

    /// Whether an address may be connected to: to be asked of each that a host is found to have, each time.
    pub fn allows(&self, address: IpAddr) -> bool {
        self.check_address(address).is_ok()
    }

    /// The same for the address of a URL that was [checked](Self::check): what is not encrypted stays on this machine,
    /// whatever its host is found to mean.
    pub fn allows_at(&self, url: &str, address: IpAddr) -> bool {
        let secure = url::parse(url).is_ok_and(|parts| parts.secure);
        self.allows(address) && (secure || address_class(address) == AddressClass::Loopback)
    }

    fn check_address(&self, address: IpAddr) -> Result<(), FetchPolicyError> {
        match address_class(address) {
            AddressClass::Loopback if !self.loopback => Err(FetchPolicyError::Loopback),
            AddressClass::Private if self.private == PrivateNetworks::Refused => {
                Err(FetchPolicyError::Private(address))
            }
            AddressClass::Special => Err(FetchPolicyError::Special(address)),
            _ => Ok(()),
        }
    }
}

/// Whether a page may be opened in a browser: `https`, or `http` on loopback.
///
/// # Errors
/// If not.
///
/// <https://modelcontextprotocol.io/docs/2026-07-28/tutorials/security/security_best_practices>
pub fn check_page_url(url: &str) -> Result<(), FetchPolicyError> {
    let parts = parse_plain_url(url)?;
    if parts.secure || is_loopback(parts.host) { Ok(()) } else { Err(FetchPolicyError::Unencrypted) }
}

/// Whether the authorization page of an issuer may be opened: `https`, or anything on this machine if the issuer is there
/// itself. A page on this machine is not opened for an issuer elsewhere, which could have any local service visited.
pub(crate) fn check_authorization_page(page: &str, issuer: &str) -> Result<(), FetchPolicyError> {
    check_page_url(page)?;
    let is_local = |url| url::parse(url).is_ok_and(|parts| is_loopback(parts.host));
    if is_local(page) && !is_local(issuer) { Err(FetchPolicyError::Loopback) } else { Ok(()) }
}

/// A URL with nothing in it that nobody needs.
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

/// Why a URL is not visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FetchPolicyError {
    /// It is longer than [`URL_BYTES`](super::URL_BYTES).
    TooLong,
    /// It is no URL.
    Syntax,
    /// Its scheme is neither `https` nor `http`.
    Scheme,
    /// It is `http`, and not on this machine.
    Unencrypted,
    /// It names no host, or one that can be read in more than one way.
    Host,
    /// Its host is a number that is not written as an address is.
    NumericHost,
    /// It has a user name.
    UserInfo,
    /// It has a fragment.
    Fragment,
    /// It is on this machine, and the server is not.
    Loopback,
    /// It is in a private network, and those are refused.
    Private(IpAddr),
    /// Its address is of no server on the internet.
    Special(IpAddr),
}

impl fmt::Display for FetchPolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => f.write_str("the URL is too long"),
            Self::Syntax => f.write_str("this is not a URL"),
            Self::Scheme => f.write_str("only https: is visited, or http: on this machine"),
            Self::Unencrypted => {
                f.write_str("http: is not visited on other machines: nothing secret may travel so")
            }
            Self::Host => f.write_str("the URL names no host that can be told for certain"),
            Self::NumericHost => f.write_str("the host is a number that is not written as an address"),
            Self::UserInfo => f.write_str("the URL has a user name"),
            Self::Fragment => f.write_str("the URL has a fragment"),
            Self::Loopback => f.write_str("the URL is on this machine, and the server is not"),
            Self::Private(address) => write!(f, "{address} is in a private network, which is refused"),
            Self::Special(address) => write!(f, "{address} is the address of no server"),
        }
    }
}

impl core::error::Error for FetchPolicyError {}

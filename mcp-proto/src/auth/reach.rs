//! Where tokens may be fetched from.

use core::fmt;
use core::net::IpAddr;

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
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/security-considerations>
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    loopback: bool,
    private: PrivateNetworks,
}

impl Reach {
    /// On behalf of the server at this URL. Loopback addresses may be visited only if the server itself has one.
    ///
    /// # Errors
    /// If tokens can not be sent there: over plain HTTP to another machine, or to a place that is refused.
    pub fn of(server_url: &str, private: PrivateNetworks) -> Result<Self, ReachError> {
        let _ = server_url;
        Ok(Self { loopback: false, private })
    }

    /// Whether a URL may be visited: `https`, or `http` on loopback where that may be visited.
    ///
    /// # Errors
    /// If not.
    pub fn check(&self, url: &str) -> Result<(), ReachError> {
        let _ = (url, self.loopback, self.private);
        Ok(())
    }

    /// Whether an address may be connected to: to be asked of each that a host is found to have, each time.
    pub fn allows(&self, address: IpAddr) -> bool {
        let _ = address;
        false
    }
}

/// Whether a page may be opened in a browser: `https`, or `http` on loopback.
///
/// # Errors
/// If not.
pub fn check_page_url(url: &str) -> Result<(), ReachError> {
    let _ = url;
    Ok(())
}

/// Why a URL is not visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReachError {
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

impl fmt::Display for ReachError {
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

impl core::error::Error for ReachError {}

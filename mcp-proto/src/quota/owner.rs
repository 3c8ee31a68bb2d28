//! The owner of a request's quota.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::peer::Principal;

/// The owner of a request's quota: its principal if it is authenticated, else the address that it came from.
///
/// An IPv4 address counts as a whole. IPv6 addresses count by their first 64 bits, since a single customer has at least
/// that many to choose from; an IPv4-mapped one counts as the IPv4 address. All requests without a known address, such
/// as those over Unix domain sockets, have the same owner.
///
/// ```
/// use mcp_proto::peer::Principal;
/// use mcp_proto::quota::QuotaOwner;
///
/// let address = |text: &str| text.parse().ok();
/// assert_eq!(QuotaOwner::from_client(None, address("2001:db8::1")), QuotaOwner::from_client(None, address("2001:db8::2")));
/// assert_eq!(QuotaOwner::from_client(None, address("::ffff:192.0.2.1")), QuotaOwner::from_client(None, address("192.0.2.1")));
/// assert_ne!(QuotaOwner::from_client(None, address("192.0.2.1")), QuotaOwner::LOCAL);
///
/// let ada = Principal::new("https://login.example#ada");
/// assert_eq!(QuotaOwner::from_client(Some(&ada), address("192.0.2.1")), QuotaOwner::from_client(Some(&ada), None));
/// ```
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QuotaOwner(OwnerKind);

#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum OwnerKind {
    #[default]
    Local,
    Ipv4(Ipv4Addr),
    /// The first 64 bits.
    Ipv6(u64),
    Principal(Principal),
}

impl QuotaOwner {
    /// The owner of all requests that are not authenticated and have no known address.
    pub const LOCAL: Self = Self(OwnerKind::Local);

    /// The owner of a request by its principal, if authenticated, and its address, if known.
    #[must_use]
    pub fn from_client(principal: Option<&Principal>, address: Option<IpAddr>) -> Self {
        match (principal, address) {
            (Some(principal), _) => Self(OwnerKind::Principal(principal.clone())),
            (None, Some(address)) => Self::from(address),
            (None, None) => Self::LOCAL,
        }
    }

    /// Whether the owner is a principal, so that its requests are authenticated.
    #[must_use]
    pub fn is_authenticated(&self) -> bool {
        matches!(self.0, OwnerKind::Principal(_))
    }
}

impl From<IpAddr> for QuotaOwner {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(address) => OwnerKind::Ipv4(address),
            IpAddr::V6(address) => OwnerKind::Ipv6((address.to_bits() >> 64) as u64),
        })
    }
}

impl From<Principal> for QuotaOwner {
    fn from(principal: Principal) -> Self {
        Self(OwnerKind::Principal(principal))
    }
}

impl fmt::Debug for QuotaOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            OwnerKind::Local => f.write_str("QuotaOwner(local)"),
            OwnerKind::Ipv4(address) => write!(f, "QuotaOwner({address})"),
            OwnerKind::Ipv6(network) => {
                write!(f, "QuotaOwner({}/64)", Ipv6Addr::from_bits(u128::from(*network) << 64))
            }
            OwnerKind::Principal(principal) => write!(f, "QuotaOwner({principal:?})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    fn owner(address: &str) -> QuotaOwner {
        QuotaOwner::from_client(None, address.parse().ok())
    }

    #[test]
    fn ipv4_owners_differ_by_the_whole_address() {
        assert_eq!(owner("192.0.2.1"), owner("192.0.2.1"));
        assert_ne!(owner("192.0.2.1"), owner("192.0.2.2"));
    }

    #[test]
    fn ipv6_owners_differ_by_their_network() {
        assert_eq!(owner("2001:db8:1:2::1"), owner("2001:db8:1:2:ffff::"));
        assert_ne!(owner("2001:db8:1:2::1"), owner("2001:db8:1:3::1"));
        assert_eq!(owner("::ffff:192.0.2.1"), owner("192.0.2.1"));
        assert_ne!(owner("::1"), owner("127.0.0.1"));
    }

    #[test]
    fn principal_owns_its_requests_from_any_address() {
        let ada = Principal::new("ada");
        let anywhere = QuotaOwner::from_client(Some(&ada), None);
        assert_eq!(QuotaOwner::from_client(Some(&ada), "192.0.2.1".parse().ok()), anywhere);
        assert_ne!(QuotaOwner::from_client(Some(&Principal::new("eve")), None), anywhere);
        assert!(anywhere.is_authenticated() && !owner("192.0.2.1").is_authenticated());
    }

    #[test]
    fn owners_hide_principals_in_debug_output() {
        assert_eq!(format!("{:?}", QuotaOwner::from(Principal::new("ada"))), "QuotaOwner(Principal(…))");
        assert_eq!(format!("{:?}", owner("2001:db8::1")), "QuotaOwner(2001:db8::/64)");
        assert_eq!(format!("{:?}", QuotaOwner::LOCAL), "QuotaOwner(local)");
    }
}

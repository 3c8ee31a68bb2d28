//! Networks of IP addresses.

use core::net::IpAddr;
use core::str::FromStr;

/// A network of IP addresses, or a single address: `10.0.0.0/8`, `10.0.0.1`, `2001:db8::/32`.
///
/// An IPv4 address equals its IPv4-mapped IPv6 address.
///
/// ```
/// use mcp_proto::transport::http::IpNetwork;
///
/// let network: IpNetwork = "10.0.0.0/8".parse()?;
/// assert!(network.contains("10.1.2.3".parse()?));
/// assert!(!network.contains("11.0.0.1".parse()?));
/// assert!("10.0.0.0/33".parse::<IpNetwork>().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpNetwork {
    /// Its address in IPv6 bits.
    bits: u128,
    /// The number of bits after the prefix.
    host_bits: u32,
}

/// The text is neither an IP address nor a network of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpNetworkError;

impl core::fmt::Display for IpNetworkError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("this is neither an IP address nor a network such as 10.0.0.0/8")
    }
}

impl core::error::Error for IpNetworkError {}

impl IpNetwork {
    /// Returns whether the network contains the address.
    #[must_use]
    pub fn contains(self, address: IpAddr) -> bool {
        ipv6_bits(address).checked_shr(self.host_bits) == self.bits.checked_shr(self.host_bits)
    }
}

/// Converts an address to IPv6 bits; IPv4 addresses are mapped.
fn ipv6_bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

impl From<IpAddr> for IpNetwork {
    fn from(address: IpAddr) -> Self {
        Self { bits: ipv6_bits(address), host_bits: 0 }
    }
}

impl FromStr for IpNetwork {
    type Err = IpNetworkError;

    fn from_str(text: &str) -> Result<Self, IpNetworkError> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length.parse::<u32>().map_err(|_| IpNetworkError)?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| IpNetworkError)?;
        let most: u32 = if address.is_ipv4() { 32 } else { 128 };
        let host_bits = most.checked_sub(length.unwrap_or(most)).ok_or(IpNetworkError)?;
        Ok(Self { bits: ipv6_bits(address), host_bits })
    }
}

//! The HTTP transport: types that client and server share.
//!
//! The state machines see requests and answers as heads, body chunks and ends; the driver brings an HTTP
//! implementation.

#[cfg(feature = "client")]
pub mod client;
pub mod param_headers;
#[cfg(feature = "server")]
pub mod server;

use core::net::IpAddr;
use core::str::FromStr;

use crate::prelude::*;

pub use crate::peer::ExchangeId;

/// The HTTP methods that MCP uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Requests an event stream.
    Get,
    /// Sends a message.
    Post,
    /// Ends a session.
    Delete,
}

impl Verb {
    /// Returns the method as written in a request line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Delete => "DELETE",
        }
    }
}

/// How an exchange ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub enum ExchangeEnd {
    /// The body is complete.
    Complete,
    /// The body was truncated; with the transport's description.
    Truncated(String),
    /// No answer arrived.
    Failed {
        /// Whether the other side may have received the request.
        sent: SentState,
        /// A human-readable description by the transport.
        detail: String,
    },
    /// No connection could be made, and another attempt would fail in the same way.
    ///
    /// The host is unknown, it refuses connections, or its certificate is not accepted. The message names host and
    /// port.
    Unreachable(String),
}

/// Whether the other side may have received a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub enum SentState {
    /// The other side has not received it: it is safe to send it again.
    NotSent,
    /// The other side may have received it.
    MaybeSent,
}

/// The headers of an HTTP message, whatever type the HTTP implementation uses.
///
/// ```
/// use mcp_proto::transport::http::Fields;
///
/// let headers = [("Content-Type", "application/json"), ("Accept", "*/*")];
/// assert_eq!(headers.get("content-type"), Some(&b"application/json"[..]));
/// assert_eq!(headers.get("origin"), None);
///
/// let collected: Vec<(String, Vec<u8>)> = vec![("Origin".into(), b"https://example.com".into())];
/// assert_eq!(collected.get("origin"), Some(&b"https://example.com"[..]));
/// ```
///
/// Pairs of a name and a value implement it, in a slice, an array or a `Vec`. With the trait in scope, `get` of an array
/// or a `Vec` of pairs takes a name; a slice's own `get` takes an index.
pub trait Fields {
    /// Calls `show` with the name and the value of each header, in order. Names may have capitals.
    fn each<'a>(&'a self, show: &mut dyn FnMut(&str, &'a [u8]));

    /// Returns the value of the first header called `name`, which is compared case-insensitively.
    fn get<'a>(&'a self, name: &str) -> Option<&'a [u8]> {
        let mut first = None;
        self.each(&mut |candidate, value| {
            if first.is_none() && candidate.eq_ignore_ascii_case(name) {
                first = Some(value);
            }
        });
        first
    }
}

impl<N: AsRef<str>, V: AsRef<[u8]>> Fields for [(N, V)] {
    fn each<'a>(&'a self, show: &mut dyn FnMut(&str, &'a [u8])) {
        self.iter().for_each(|(name, value)| show(name.as_ref(), value.as_ref()));
    }
}

impl<N: AsRef<str>, V: AsRef<[u8]>, const COUNT: usize> Fields for [(N, V); COUNT] {
    fn each<'a>(&'a self, show: &mut dyn FnMut(&str, &'a [u8])) {
        self.as_slice().each(show);
    }
}

impl<N: AsRef<str>, V: AsRef<[u8]>> Fields for Vec<(N, V)> {
    fn each<'a>(&'a self, show: &mut dyn FnMut(&str, &'a [u8])) {
        self.as_slice().each(show);
    }
}

impl<F: Fields + ?Sized> Fields for &F {
    fn each<'a>(&'a self, show: &mut dyn FnMut(&str, &'a [u8])) {
        (**self).each(show);
    }
}

/// The values of a header, in order. The first needs no allocation.
#[derive(Default)]
pub(crate) struct HeaderValues<'a> {
    pub(crate) first: Option<&'a [u8]>,
    pub(crate) others: Vec<&'a [u8]>,
}

impl<'a> HeaderValues<'a> {
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &'a [u8]> {
        self.first.into_iter().chain(self.others.iter().copied())
    }
}

/// Reads the headers with these names in one pass.
//= C4.14 "Header names case-insensitive, values case-sensitive"
//= S3.10 "Header names compared case-insensitively"
pub(crate) fn read_headers<'a, const COUNT: usize>(
    fields: &'a dyn Fields,
    names: [&str; COUNT],
) -> [HeaderValues<'a>; COUNT] {
    let mut headers = [const { HeaderValues { first: None, others: Vec::new() } }; COUNT];
    fields.each(&mut |name, value| {
        // Most implementations show names in lower case, as they are written here.
        let is_name =
            |known: &str| known.len() == name.len() && (known == name || known.eq_ignore_ascii_case(name));
        let header = names.iter().zip(&mut headers).find(|(known, _)| is_name(known));
        match header {
            Some((_, HeaderValues { first: first @ None, .. })) => *first = Some(value),
            Some((_, HeaderValues { others, .. })) => others.push(value),
            None => {}
        }
    });
    headers
}

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

error_text! { IpNetworkError => "this is neither an IP address nor a network such as 10.0.0.0/8" }

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

/// The names of the protocol's own headers, in lower case.
pub mod header {
    /// The protocol revision.
    pub const PROTOCOL_VERSION: &str = "mcp-protocol-version";
    /// The method of the message (2026-07-28).
    pub const METHOD: &str = "mcp-method";
    /// The name of the tool, prompt, resource or task that the message is about (2026-07-28).
    pub const NAME: &str = "mcp-name";
    /// The prefix of the headers that mirror tool parameters (2026-07-28).
    pub const PARAM_PREFIX: &str = "mcp-param-";
    /// The session id (2025-03-26 to 2025-11-25).
    pub const SESSION_ID: &str = "mcp-session-id";
    /// The id of the last event received on a stream.
    pub const LAST_EVENT_ID: &str = "last-event-id";
}

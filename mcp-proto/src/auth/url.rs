//! URLs of HTTP, taken apart so that nothing in them can be read in two ways.

use alloc::format;
use alloc::string::String;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use iri_string::types::UriStr;

use super::{ReachError, URL_BYTES};

/// The parts of a URL.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts<'a> {
    pub(crate) secure: bool,
    pub(crate) has_user: bool,
    /// The host as it is written.
    written: &'a str,
    pub(crate) host: Host<'a>,
    /// The port, if it is another than the scheme's own.
    port: Option<u16>,
    pub(crate) path: &'a str,
    pub(crate) query: Option<&'a str>,
    pub(crate) has_fragment: bool,
}

/// A host.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Host<'a> {
    /// A name, without the dot that may end it.
    Name(&'a str),
    /// An address.
    Address(IpAddr),
}

impl<'a> Parts<'a> {
    pub(crate) fn of(url: &'a str) -> Result<Self, ReachError> {
        if url.len() > URL_BYTES {
            return Err(ReachError::TooLong);
        }
        let parsed = UriStr::new(url).map_err(|_| ReachError::Syntax)?;
        let secure = parsed.scheme_str().eq_ignore_ascii_case("https");
        if !secure && !parsed.scheme_str().eq_ignore_ascii_case("http") {
            return Err(ReachError::Scheme);
        }
        let authority = parsed.authority_components().ok_or(ReachError::Host)?;
        let port = match authority.port() {
            None | Some("") => None,
            Some(digits) => Some(digits.parse::<u16>().map_err(|_| ReachError::Syntax)?),
        };
        let own = if secure { 443 } else { 80 };
        Ok(Self {
            secure,
            has_user: authority.userinfo().is_some(),
            written: authority.host(),
            host: host(authority.host())?,
            port: port.filter(|port| *port != own),
            path: parsed.path_str(),
            query: parsed.query_str(),
            has_fragment: parsed.fragment().is_some(),
        })
    }

    /// Scheme, host and port, in the one form that they have.
    pub(crate) fn origin(&self) -> String {
        let scheme = if self.secure { "https" } else { "http" };
        let host = match self.host {
            Host::Address(IpAddr::V6(address)) => format!("[{address}]"),
            _ => self.written.to_ascii_lowercase(),
        };
        match self.port {
            None => format!("{scheme}://{host}"),
            Some(port) => format!("{scheme}://{host}:{port}"),
        }
    }
}

fn host(written: &str) -> Result<Host<'_>, ReachError> {
    if let Some(inner) = written.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        // No zones, no forms to come: they name nothing that is reached from everywhere.
        return inner
            .parse::<Ipv6Addr>()
            .map(|address| Host::Address(address.into()))
            .map_err(|_| ReachError::Host);
    }
    if let Ok(address) = written.parse::<Ipv4Addr>() {
        return Ok(Host::Address(address.into()));
    }
    let name = written.strip_suffix('.').unwrap_or(written);
    let mut labels = name.split('.');
    if name.len() > 253 || !labels.all(is_label) {
        return Err(ReachError::Host);
    }
    if is_number(name.rsplit('.').next().unwrap_or_default()) {
        return Err(ReachError::NumericHost);
    }
    Ok(Host::Name(name))
}

/// A label of a host name, or of those that are in use though they are none. Percent-encoding and what else may stand in
/// a URI mean different things to different resolvers.
fn is_label(label: &str) -> bool {
    (1..=63).contains(&label.len())
        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

/// Whether resolvers take a host with this last label for an address: decimal, octal or hexadecimal, of one to four
/// parts, as `inet_aton` has it.
fn is_number(label: &str) -> bool {
    let hexadecimal = label.strip_prefix("0x").or_else(|| label.strip_prefix("0X"));
    match hexadecimal {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => label.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

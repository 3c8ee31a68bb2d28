//! Which URLs are of the same server.

use alloc::string::{String, ToString};

use iri_string::types::{UriAbsoluteStr, UriReferenceStr, UriStr};

/// Scheme, host and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    secure: bool,
    host: String,
    port: u16,
}

impl Origin {
    pub(super) fn of(url: &str) -> Option<Self> {
        let url = UriStr::new(url).ok()?;
        let secure = url.scheme_str().eq_ignore_ascii_case("https");
        if !secure && !url.scheme_str().eq_ignore_ascii_case("http") {
            return None;
        }
        let authority = url.authority_components()?;
        let port = match authority.port() {
            None | Some("") => {
                if secure {
                    443
                } else {
                    80
                }
            }
            Some(port) => port.parse().ok()?,
        };
        Some(Self { secure, host: authority.host().to_ascii_lowercase(), port })
    }
}

/// What a redirect from `base` leads to.
pub(super) fn follow(base: &str, location: &str) -> Option<String> {
    let base = base.split('#').next().unwrap_or_default();
    let base = UriAbsoluteStr::new(base).ok()?;
    Some(UriReferenceStr::new(location).ok()?.resolve_against(base).to_string())
}

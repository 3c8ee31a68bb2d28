//! The resources that an entry may ask tokens for.

use super::spec::websocket_url;
use crate::url::HttpUrl;

/// Whether tokens for `resource` may go to the server at `url`: if it is this URL, or a parent of it by whole path
/// segments. Other tenants of the same origin have other paths.
pub(super) fn is_own_resource(url: &str, resource: &str) -> bool {
    let upgrade = websocket_url(url);
    let url = upgrade.as_deref().unwrap_or(url);
    let (Ok(server), Ok(audience)) = (HttpUrl::parse(url), HttpUrl::parse(resource)) else { return false };
    if server.origin() != audience.origin() || audience.user.is_some() || audience.has_fragment {
        return false;
    }
    // An empty path is the root.
    let of_server = if server.path.is_empty() { "/" } else { server.path };
    let of_audience = if audience.path.is_empty() { "/" } else { audience.path };
    if of_server == of_audience && audience.query == server.query {
        return true;
    }
    // Servers resolve `..`, and some of them `%2e%2e`: the paths of such texts are not those that they show.
    let is_plain = |path: &str| {
        let path = path.to_ascii_lowercase();
        !["%2e", "%2f", "%5c"].iter().any(|code| path.contains(code))
            && !path.split('/').any(|segment| matches!(segment, "." | ".."))
    };
    let below = of_server.strip_prefix(of_audience.trim_end_matches('/'));
    let is_below = below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    audience.query.is_none() && is_below && is_plain(of_server) && is_plain(of_audience)
}

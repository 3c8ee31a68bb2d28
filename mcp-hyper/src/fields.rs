//! Access to hyper's headers for the state machines of `mcp_proto`.

use http::HeaderMap;
use mcp_proto::transport::http::Fields;

/// The headers of a message.
pub(crate) struct Headers<'h>(pub(crate) &'h HeaderMap);

impl Fields for Headers<'_> {
    fn each<'a>(&'a self, show: &mut dyn FnMut(&str, &'a [u8])) {
        self.0.iter().for_each(|(name, value)| show(name.as_str(), value.as_bytes()));
    }
}

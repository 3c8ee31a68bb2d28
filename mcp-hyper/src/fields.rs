//! Access to hyper's headers for the state machines of `mcp_proto`.

use http::HeaderMap;
use mcp_proto::transport::http::Fields;

/// The headers of a message.
pub(crate) struct Headers<'h>(pub(crate) &'h HeaderMap);

impl Fields for Headers<'_> {
    fn each<'a>(&'a self, name: &str, show: &mut dyn FnMut(&'a [u8])) {
        //= S3.10 "Header names compared case-insensitively"
        // Cheaper than to hash the name, for as few headers as messages have.
        for (candidate, value) in self.0 {
            if candidate.as_str().eq_ignore_ascii_case(name) {
                show(value.as_bytes());
            }
        }
    }
}

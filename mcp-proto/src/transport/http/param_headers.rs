//! Parameters of tools that are headers as well (2026-07-28).
//!
//! A tool's input schema may mark parameters with `x-mcp-header`. The client repeats their values as headers, for
//! whoever forwards the request to read, and the server makes sure that both say the same.
//!
//! ```
//! use mcp_proto::transport::http::param_headers::ParamHeaders;
//! use mcp_proto::rpc::Raw;
//!
//! let schema = r#"{"type":"object","properties":{
//!     "region":{"type":"string","x-mcp-header":"Region"},
//!     "limit":{"type":"integer","x-mcp-header":"Limit"},
//!     "query":{"type":"string"}}}"#;
//! let headers = ParamHeaders::from_schema(schema)?.unwrap();
//!
//! let arguments = Raw::new(r#"{"region":"us-west1","query":"SELECT 1"}"#)?;
//! let sent = headers.values(Some(&arguments))?;
//! assert_eq!(sent, [("mcp-param-region".into(), "us-west1".into())]);
//! assert!(headers.check(Some(&arguments), &sent[..]).is_ok());
//! assert!(headers.check(Some(&arguments), &[("Mcp-Param-Region", "eu-north1")]).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#custom-headers-from-tool-parameters>

mod arguments;
mod error;
#[cfg(feature = "client")]
mod list;
mod schema;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use crate::codec::header;
use crate::rpc::Raw;

use super::Fields;

pub use error::{HeaderArgumentError, HeaderMismatchError, ParamHeaderError};
#[cfg(feature = "client")]
pub(crate) use list::{ExcludedTool, ListedTool, ToolList};

/// Which parameters of a tool are headers as well, and what these are called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamHeaders {
    /// The headers, in lower case and with their prefix.
    names: Vec<Box<str>>,
    root: Properties,
}

/// The properties of an object that lead to a header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Properties(BTreeMap<Box<str>, Param>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Param {
    /// The place of its header among the names.
    header_index: Option<usize>,
    properties: Properties,
}

impl ParamHeaders {
    /// The most parameters of one tool that may be headers: HTTP servers commonly take 100 headers in all.
    pub const MAX_HEADERS: usize = 64;

    /// Reads a tool's input schema; `None` if it marks no parameter.
    ///
    /// A mark must be the name of a header without its prefix, differ from the others by more than case, and stand
    /// at a parameter whose `type` is string, integer or boolean (or one of these and null), which is reached from the
    /// root through `properties` alone.
    ///
    /// # Errors
    /// If a mark breaks these rules. The tool can then not be called over HTTP.
    pub fn from_schema(input_schema: &str) -> Result<Option<Self>, ParamHeaderError> {
        schema::read(input_schema)
    }

    /// The names of the headers, in lower case.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }

    /// The headers of a call, by name in lower case, with their values as they are sent. What is absent or null has
    /// none.
    ///
    /// # Errors
    /// If an argument is nothing that a header can repeat: neither text nor boolean nor an integer of at most 53 bits,
    /// or if it is there twice.
    pub fn values(&self, arguments: Option<&Raw>) -> Result<Vec<(String, String)>, HeaderArgumentError> {
        let values = arguments::read(self, arguments)?;
        let sent = self.names.iter().zip(values);
        Ok(sent.filter_map(|(name, value)| Some((name.as_ref().into(), value?.encode()))).collect())
    }

    /// Makes sure that the headers of a call repeat its arguments: each that is there and not null has its header, no
    /// other has. Integers are compared as numbers: `42.0` equals `42`.
    ///
    /// # Errors
    /// If a header and its argument differ; the call is to be refused with
    /// [`HEADER_MISMATCH`](crate::rpc::code::HEADER_MISMATCH).
    pub fn check(
        &self,
        arguments: Option<&Raw>,
        fields: &(impl Fields + ?Sized),
    ) -> Result<(), HeaderMismatchError> {
        let values = arguments::read(self, arguments).map_err(HeaderMismatchError::Argument)?;
        for (name, value) in self.names.iter().zip(&values) {
            let header = || String::from(&**name);
            let mut given = None;
            let mut repeated = false;
            fields.each(name, &mut |value| repeated |= given.replace(value).is_some());
            if repeated {
                return Err(HeaderMismatchError::Repeated { header: header() });
            }
            let (given, value) = match (given, value) {
                (None, None) => continue,
                (None, Some(_)) => return Err(HeaderMismatchError::Missing { header: header() }),
                (Some(_), None) => return Err(HeaderMismatchError::Unexpected { header: header() }),
                (Some(given), Some(value)) => (given, value),
            };
            let text = header::decode(given)
                .map_err(|error| HeaderMismatchError::Undecodable { header: header(), error })?;
            if !value.equals(&text) {
                return Err(HeaderMismatchError::Different { header: header() });
            }
        }
        Ok(())
    }

    /// How many bytes it holds that the author of the schema has chosen.
    #[cfg(feature = "client")]
    pub(crate) fn bytes(&self) -> usize {
        fn below(level: &Properties) -> usize {
            let params = level.0.iter().map(|(name, param)| {
                name.len().saturating_add(size_of::<Param>()).saturating_add(below(&param.properties))
            });
            params.fold(0, usize::saturating_add)
        }
        self.names.iter().map(|name| name.len()).fold(below(&self.root), usize::saturating_add)
    }
}

/// A path, for people: the names on it joined by dots, as far as a line has room for them.
fn display_path<'a>(path: impl IntoIterator<Item = &'a str>) -> String {
    const MAX_PATH_BYTES: usize = 200;
    let mut place = String::new();
    for (number, name) in path.into_iter().enumerate() {
        if number > 0 {
            place.push('.');
        }
        place.extend(name.chars().take(MAX_PATH_BYTES));
        if let Some((end, _)) = place.char_indices().nth(MAX_PATH_BYTES) {
            place.truncate(end);
            place.push('…');
            break;
        }
    }
    place
}

//! Tool parameters mirrored in HTTP headers, `x-mcp-header` (2026-07-28).
//!
//! A tool's input schema may mark parameters with `x-mcp-header`. The client repeats their values in headers, which
//! intermediaries can read, and the server checks that headers and arguments agree.
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
pub(crate) use list::{ExcludedTool, ListedTool, ToolList};

/// The parameters of a tool that are mirrored in headers, and the names of these headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamHeaders {
    /// The header names, in lower case and with the prefix.
    names: Vec<Box<str>>,
    root: Properties,
}

/// The properties of an object that are mirrored, or that contain mirrored properties.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Properties(BTreeMap<Box<str>, Param>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Param {
    /// The index of the parameter's header in `names`.
    header_index: Option<usize>,
    properties: Properties,
}

impl ParamHeaders {
    /// The maximum of mirrored parameters per tool: HTTP servers commonly accept 100 headers in all.
    pub const MAX_HEADERS: usize = 64;

    /// Reads the marks in a tool's input schema; `None` if it marks no parameter.
    ///
    /// A mark must be a header name without the prefix, and differ from the others by more than case. The `type` of its
    /// parameter must be string, integer or boolean (or one of these and null), and only `properties` may lead from the
    /// root to the parameter.
    ///
    /// # Errors
    /// If a mark breaks these rules. The tool then cannot be called over HTTP.
    pub fn from_schema(input_schema: &str) -> Result<Option<Self>, ParamHeaderError> {
        schema::read(input_schema)
    }

    /// Returns the names of the headers, in lower case.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }

    /// Returns the headers of a call: lower-case names with encoded values. Absent and null arguments have no header.
    ///
    /// # Errors
    /// If an argument cannot be encoded in a header, because it is neither a string nor a boolean nor an integer of at
    /// most 53 bits, or if it occurs twice.
    pub fn values(&self, arguments: Option<&Raw>) -> Result<Vec<(String, String)>, HeaderArgumentError> {
        let values = arguments::read(self, arguments)?;
        let sent = self.names.iter().zip(values);
        Ok(sent.filter_map(|(name, value)| Some((name.as_ref().into(), value?.encode()))).collect())
    }

    /// Checks that the headers of a call match its arguments.
    ///
    /// Each argument that is present and not null must have its header, and there must be no other header. Integers are
    /// compared as numbers: `42.0` equals `42`.
    ///
    /// # Errors
    /// If a header and its argument differ; the server must then refuse the call with
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
            fields.each(&mut |candidate, value| {
                repeated |= candidate.eq_ignore_ascii_case(name) && given.replace(value).is_some();
            });
            if repeated {
                return Err(HeaderMismatchError::Repeated { header: header() });
            }
            let (given, value) = match (given, value) {
                (None, None) => continue,
                (None, Some(_)) => return Err(HeaderMismatchError::Missing { header: header() }),
                (Some(_), None) => return Err(HeaderMismatchError::Unexpected { header: header() }),
                (Some(given), Some(value)) => (given, value),
            };
            //= S3.9 "Decode the Base64 sentinel before comparing; reject invalid characters"
            let text = header::decode(given)
                .map_err(|error| HeaderMismatchError::Undecodable { header: header(), error })?;
            //= S3.9 "integers SHOULD compare numerically"
            if !value.equals(&text) {
                return Err(HeaderMismatchError::Different { header: header() });
            }
        }
        Ok(())
    }

    /// Returns the number of stored bytes that come from the author of the schema.
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

/// Joins the names of a path with dots for an error message, shortened to one line.
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

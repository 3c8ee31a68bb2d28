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

use alloc::borrow::Cow;

use memchr::memmem;
use serde_json::value::RawValue;

use crate::codec::header::{self, HeaderValueError};
use crate::ordered_map::OrderedMap;
use crate::prelude::*;
use crate::rpc::json_reader::{NotJson, Reader};
use crate::rpc::{JsonStr, Raw};
use crate::transport::http::header::PARAM_PREFIX;

use super::Fields;

/// The parameters of a tool that are mirrored in headers, and the names of these headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamHeaders {
    /// The header names, in lower case and with the prefix.
    names: Vec<Box<str>>,
    root: Properties,
}

/// The properties of an object that are mirrored, or that contain mirrored properties.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Properties(OrderedMap<Box<str>, Param>);

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
        read(input_schema)
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
        let values = ArgumentReader::read(self, arguments)?;
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
        let values = ArgumentReader::read(self, arguments).map_err(HeaderMismatchError::Argument)?;
        let mut headers = alloc::vec![(None, false); self.names.len()];
        fields.each(&mut |candidate, value| {
            let mut known = self.names.iter().zip(&mut headers);
            if let Some((_, (first, repeated))) = known.find(|(name, _)| candidate.eq_ignore_ascii_case(name))
            {
                *repeated |= first.replace(value).is_some();
            }
        });
        for ((name, value), (given, repeated)) in self.names.iter().zip(&values).zip(headers) {
            let header = || String::from(&**name);
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

/// The greatest integer up to which a double-precision number represents every integer exactly.
const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// The value of a mirrored argument.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value<'a> {
    Text(Cow<'a, str>),
    Integer(i64),
    Boolean(bool),
}

impl<'a> Value<'a> {
    /// Reads an argument, which is at `at`; `None` for null.
    fn read(text: &'a str, at: impl FnOnce() -> String) -> Result<Option<Self>, HeaderArgumentError> {
        Ok(Some(match text.as_bytes().first() {
            Some(b'"') => match serde_json::from_str::<JsonStr<'_>>(text) {
                Ok(JsonStr(text)) => Self::Text(text),
                Err(error) => return Err(HeaderArgumentError::Json(error.to_string())),
            },
            Some(b'-' | b'0'..=b'9') => match integer(text) {
                None => return Err(HeaderArgumentError::Kind { at: at() }),
                //= C4.11 "integers within ±(2^53−1)"
                //= R6 "`x-mcp-header` integers within ±(2^53−1)"
                Some(number) if number.unsigned_abs() > MAX_SAFE_INTEGER => {
                    return Err(HeaderArgumentError::Range { at: at() });
                }
                Some(number) => Self::Integer(number),
            },
            _ => match text {
                //= C4.10 "null or absent argument → header omitted"
                "null" => return Ok(None),
                "true" => Self::Boolean(true),
                "false" => Self::Boolean(false),
                _ => return Err(HeaderArgumentError::Kind { at: at() }),
            },
        }))
    }

    /// Encodes the value for a header.
    fn encode(self) -> String {
        match self {
            Self::Text(text) => header::encode(&text).into_owned(),
            //= C4.10 "bool `true`/`false`, integers decimal"
            Self::Integer(number) => format!("{number}"),
            Self::Boolean(value) => format!("{value}"),
        }
    }

    /// Returns whether a decoded header has the same value.
    fn equals(&self, given: &str) -> bool {
        match self {
            Self::Text(text) => *text == given,
            Self::Integer(_) => {
                let given: Option<&RawValue> = serde_json::from_str(given).ok();
                let given = given.map(|given| Value::read(given.get(), String::new));
                matches!(given, Some(Ok(Some(given))) if given == *self)
            }
            Self::Boolean(value) => given == if *value { "true" } else { "false" },
        }
    }
}

/// Parses a JSON number as an integer; `None` if it is none. serde_json parses numbers with a fraction inexactly.
fn integer(number: &str) -> Option<i64> {
    if let Ok(whole) = number.parse::<i64>() {
        return Some(whole);
    }
    let number: f64 = number.parse().ok()?;
    // A saturating conversion there and back: if the values differ, the number is no integer or out of range.
    let whole = number as i64;
    (whole.unsigned_abs() > MAX_SAFE_INTEGER || whole as f64 == number).then_some(whole)
}

/// A reader's error, which `Reader::error` describes.
impl From<NotJson> for Option<HeaderArgumentError> {
    fn from(NotJson: NotJson) -> Self {
        None
    }
}

/// Reads the values of mirrored arguments in one pass.
struct ArgumentReader<'a, 'p> {
    reader: Reader<'a>,
    /// The values in the order of the header names; `None` for absent or null ones.
    values: Vec<Option<Value<'a>>>,
    path: Vec<&'p str>,
}

impl<'a, 'p> ArgumentReader<'a, 'p> {
    fn read(
        headers: &'p ParamHeaders,
        arguments: Option<&'a Raw>,
    ) -> Result<Vec<Option<Value<'a>>>, HeaderArgumentError> {
        let text = arguments.map_or("null", Raw::as_str);
        let values = alloc::vec![None; headers.names.len()];
        let mut arguments = Self { reader: Reader::new(text), values, path: Vec::new() };
        let read = arguments.object(&headers.root);
        match read.and_then(|()| Ok(arguments.reader.end()?)) {
            Ok(()) => Ok(arguments.values),
            Err(Some(error)) => Err(error),
            Err(None) => Err(HeaderArgumentError::Json(Reader::error(text).to_string())),
        }
    }

    /// Reads the value at the reader, which leads to mirrored arguments.
    ///
    /// # Errors
    /// If an argument cannot be mirrored; `None` if the text is not JSON.
    fn object(&mut self, properties: &'p Properties) -> Result<(), Option<HeaderArgumentError>> {
        if self.reader.first_byte()? != b'{' {
            self.reader.skip()?;
            return Ok(());
        }
        self.reader.enter(b'{')?;
        let (mut is_first, mut seen) = (true, Vec::<&str>::new());
        while let Some(name) = self.reader.name(&mut is_first)? {
            //= C4.9 "walk the exact property path"
            let Some((name, param)) = properties.0.get_key_value(&*name) else {
                self.reader.skip()?;
                continue;
            };
            self.path.push(name);
            if seen.contains(&&**name) {
                return Err(Some(HeaderArgumentError::Duplicate { at: self.path_text() }));
            }
            seen.push(name);
            match param.header_index {
                Some(header) => {
                    let text = self.reader.skip()?;
                    let value = Value::read(text, || self.path_text())?;
                    if let Some(slot) = self.values.get_mut(header) {
                        *slot = value;
                    }
                }
                None => self.object(&param.properties)?,
            }
            self.path.pop();
        }
        Ok(())
    }

    fn path_text(&self) -> String {
        display_path(self.path.iter().copied())
    }
}

/// Why an argument cannot be mirrored in a header.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderArgumentError {
    /// The arguments are not JSON.
    Json(String),
    /// The argument is an object, an array or a number with a fraction.
    Kind {
        /// The argument's path, names joined by dots.
        at: String,
    },
    /// The argument is an integer that a double-precision number cannot represent exactly.
    Range {
        /// The argument's path, names joined by dots.
        at: String,
    },
    /// The argument occurs twice: one reader would use the first value and another the last.
    Duplicate {
        /// The argument's path, names joined by dots.
        at: String,
    },
}

error_text! { HeaderArgumentError:
    Json(error) => "the arguments cannot be read: {error}";
    Kind { at } => "the argument {at} is a header too, and neither text nor an integer nor a boolean";
    Range { at } => "the argument {at} is a header too, and beyond the integers that every side can read";
    Duplicate { at } => "the argument {at} is a header too, and is given twice";
}

/// How the headers of a call differ from its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderMismatchError {
    /// The argument is present, but its header is missing.
    Missing {
        /// The name of the header, in lower case.
        header: String,
    },
    /// The header is present, but its argument is absent or null.
    Unexpected {
        /// The name of the header, in lower case.
        header: String,
    },
    /// The header occurs more than once.
    Repeated {
        /// The name of the header, in lower case.
        header: String,
    },
    /// The value of the header cannot be decoded.
    Undecodable {
        /// The name of the header, in lower case.
        header: String,
        /// The decoding error.
        error: HeaderValueError,
    },
    /// The header and its argument have different values.
    Different {
        /// The name of the header, in lower case.
        header: String,
    },
    /// The argument cannot be mirrored in a header.
    Argument(HeaderArgumentError),
}

error_text! { HeaderMismatchError:
    Missing { header } => "the header {header} is missing";
    Unexpected { header } => "the header {header} has no argument to repeat";
    Repeated { header } => "the header {header} is given more than once";
    Undecodable { header, error } => "the header {header} cannot be read: {error}";
    Different { header } => "the header {header} differs from its argument";
    Argument(error) => "{error}";
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

// Finds the marked parameters of an input schema in one pass.
//
// A mark is a keyword of a schema: an `x-mcp-header` that is the name of a property, or part of an example, is none.

const MARK: &str = "x-mcp-header";
/// The nesting of a schema that is refused, as serde_json refuses it.
const MAX_DEPTH: usize = 128;

/// Why a tool cannot be called over HTTP: a parameter has an invalid `x-mcp-header` mark.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParamHeaderError {
    /// The input schema is not JSON.
    Schema(String),
    /// The mark is not a string.
    NotText {
        /// The mark's path in the schema.
        at: String,
    },
    /// The mark is empty, or contains characters that header names do not allow.
    Name {
        /// The mark's path in the schema.
        at: String,
        /// The mark.
        name: String,
    },
    /// Another parameter has the same mark, ignoring case.
    Duplicate {
        /// The mark's path in the schema.
        at: String,
        /// The mark.
        name: String,
    },
    /// The parameter's declared type is not string, integer or boolean.
    Type {
        /// The mark's path in the schema.
        at: String,
    },
    /// The mark is not on a parameter, or keywords other than `properties` lead to that parameter.
    Unreachable {
        /// The mark's path in the schema.
        at: String,
    },
    /// More parameters are marked than [`ParamHeaders::MAX_HEADERS`].
    TooMany,
}

error_text! { ParamHeaderError:
    Schema(error) => "its input schema cannot be read: {error}";
    NotText { at } => "the x-mcp-header of {at} is not text";
    Name { at, name } => "the x-mcp-header of {at} cannot be the name of a header: {name:?}";
    Duplicate { at, name } => "the x-mcp-header of {at} is that of another parameter: {name:?}";
    Type { at } =>
        "{at} has an x-mcp-header, and is declared neither as a string nor as an integer nor as a boolean";
    Unreachable { at } => "{at} has an x-mcp-header, and is not reached through properties alone";
    TooMany => "more than {} parameters have an x-mcp-header", ParamHeaders::MAX_HEADERS;
}

fn read(schema: &str) -> Result<Option<ParamHeaders>, ParamHeaderError> {
    // With an escape in it, the name is still the same.
    let may_be_marked =
        [MARK, "\\u"].iter().any(|part| memmem::find(schema.as_bytes(), part.as_bytes()).is_some());
    if !may_be_marked {
        return Ok(None);
    }
    let mut marks =
        SchemaReader { reader: Reader::new(schema), names: Vec::new(), path: Vec::new(), depth: 0 };
    let root = marks.value(SchemaPosition::Root).and_then(|root| {
        marks.reader.end()?;
        Ok(root)
    });
    match root {
        Err(Some(error)) => Err(error),
        Err(None) => Err(ParamHeaderError::Schema(Reader::error(schema).to_string())),
        Ok(_) if marks.names.is_empty() => Ok(None),
        Ok(Param { properties, .. }) => Ok(Some(ParamHeaders { names: marks.names, root: properties })),
    }
}

/// A reader's error, which `Reader::error` describes.
impl From<NotJson> for Option<ParamHeaderError> {
    fn from(NotJson: NotJson) -> Self {
        None
    }
}

struct SchemaReader<'a> {
    reader: Reader<'a>,
    names: Vec<Box<str>>,
    /// The path of the current position in the schema.
    path: Vec<Cow<'a, str>>,
    /// The number of objects and lists around it.
    depth: usize,
}

impl<'a> SchemaReader<'a> {
    fn path_text(&self) -> String {
        match display_path(self.path.iter().map(|name| &**name)) {
            root if root.is_empty() => "the root".into(),
            at => at,
        }
    }

    //= S8.9 "x-mcp-header constraints (C4)"
    /// Adds the mark of the current parameter; returns the index of its header.
    fn add_mark(&mut self, mark: &str) -> Result<usize, ParamHeaderError> {
        let at = || self.path_text();
        let Ok(JsonStr(name)) = serde_json::from_str(mark) else {
            return Err(ParamHeaderError::NotText { at: at() });
        };
        //= C4.11 "empty, not a token, has CTL/CR/LF"
        if name.is_empty() || !name.bytes().all(is_token) {
            return Err(ParamHeaderError::Name { at: at(), name: display_path([&*name]) });
        }
        //= C4.11 "not unique case-insensitively"
        let is_taken = |taken: &&str| taken.eq_ignore_ascii_case(&name);
        if self
            .names
            .iter()
            .filter_map(|taken| taken.strip_prefix(PARAM_PREFIX))
            .any(|taken| is_taken(&taken))
        {
            return Err(ParamHeaderError::Duplicate { at: at(), name: display_path([&*name]) });
        }
        let index = self.names.len();
        if index >= ParamHeaders::MAX_HEADERS {
            return Err(ParamHeaderError::TooMany);
        }
        let mut full = String::with_capacity(PARAM_PREFIX.len().saturating_add(name.len()));
        full.push_str(PARAM_PREFIX);
        full.extend(name.chars().map(|char| char.to_ascii_lowercase()));
        self.names.push(full.into());
        Ok(index)
    }

    /// Reads the value at the reader.
    ///
    /// # Errors
    /// If a mark breaks the rules; `None` if the text is not JSON.
    fn value(&mut self, position: SchemaPosition) -> Result<Param, Option<ParamHeaderError>> {
        let first = self.reader.first_byte()?;
        if !matches!(first, b'{' | b'[') {
            self.reader.skip()?;
            return Ok(Param::default());
        }
        self.reader.enter(first)?;
        self.depth = self.depth.saturating_add(1);
        if self.depth >= MAX_DEPTH {
            return Err(Some(ParamHeaderError::Schema("recursion limit exceeded".into())));
        }
        let param = match position {
            _ if first == b'[' => self.list()?,
            SchemaPosition::Root | SchemaPosition::Parameter | SchemaPosition::Elsewhere => {
                self.schema(position)?
            }
            SchemaPosition::Parameters => self.named(SchemaPosition::Parameter)?,
            SchemaPosition::NamedSchemas => self.named(SchemaPosition::Elsewhere)?,
        };
        self.depth = self.depth.saturating_sub(1);
        Ok(param)
    }

    fn child(
        &mut self,
        name: Cow<'a, str>,
        position: SchemaPosition,
    ) -> Result<Param, Option<ParamHeaderError>> {
        self.path.push(name);
        let param = self.value(position)?;
        self.path.pop();
        Ok(param)
    }

    fn list(&mut self) -> Result<Param, Option<ParamHeaderError>> {
        let mut is_first = true;
        while self.reader.item(&mut is_first, b']')? {
            self.value(SchemaPosition::Elsewhere)?;
        }
        Ok(Param::default())
    }

    /// Reads the members of a schema.
    fn schema(&mut self, position: SchemaPosition) -> Result<Param, Option<ParamHeaderError>> {
        let (mut param, mut is_simple, mut is_first) = (Param::default(), false, true);
        while let Some(keyword) = self.reader.name(&mut is_first)? {
            match &*keyword {
                //= C4.11 "or not statically reachable through `properties`"
                MARK if position != SchemaPosition::Parameter => {
                    return Err(Some(ParamHeaderError::Unreachable { at: self.path_text() }));
                }
                MARK => {
                    let mark = self.reader.skip()?;
                    param.header_index = Some(self.add_mark(mark)?);
                }
                "type" => is_simple = is_simple_type(self.reader.skip()?),
                name => match position.for_keyword(name) {
                    Some(SchemaPosition::Parameters) => {
                        param.properties = self.child(keyword, SchemaPosition::Parameters)?.properties
                    }
                    Some(other) => drop(self.child(keyword, other)?),
                    None => _ = self.reader.skip()?,
                },
            }
        }
        //= C4.11 "not on string/integer/boolean"
        if param.header_index.is_some() && !is_simple {
            return Err(Some(ParamHeaderError::Type { at: self.path_text() }));
        }
        Ok(param)
    }

    /// Reads an object of schemas by name.
    fn named(&mut self, position: SchemaPosition) -> Result<Param, Option<ParamHeaderError>> {
        let (mut below, mut is_first) = (Properties::default(), true);
        while let Some(name) = self.reader.name(&mut is_first)? {
            let key = (position == SchemaPosition::Parameter).then(|| Box::from(&*name));
            let param = self.child(name, position)?;
            // Of a repeated name, the last one counts.
            match key {
                Some(key) if param.header_index.is_some() || !param.properties.0.is_empty() => {
                    below.0.insert(key, param);
                }
                Some(key) => drop(below.0.remove(&key)),
                None => {}
            }
        }
        Ok(Param { header_index: None, properties: below })
    }
}

/// The kind of value at a position in a schema.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SchemaPosition {
    /// The whole schema.
    Root,
    /// The schema of a parameter.
    Parameter,
    /// A schema that applies to no single parameter, or only conditionally; or an array of such schemas.
    Elsewhere,
    /// An object of schemas by parameter name.
    Parameters,
    /// An object of schemas by other names.
    NamedSchemas,
}

impl SchemaPosition {
    /// Returns the position that a keyword's value is at; `None` if the value is no schema.
    fn for_keyword(self, keyword: &str) -> Option<Self> {
        match keyword {
            "properties" if self == Self::Elsewhere => Some(Self::NamedSchemas),
            "properties" => Some(Self::Parameters),
            "patternProperties" | "dependentSchemas" | "dependencies" | "$defs" | "definitions" => {
                Some(Self::NamedSchemas)
            }
            "items"
            | "additionalItems"
            | "prefixItems"
            | "unevaluatedItems"
            | "contains"
            | "additionalProperties"
            | "unevaluatedProperties"
            | "propertyNames"
            | "contentSchema"
            | "allOf"
            | "anyOf"
            | "oneOf"
            | "not"
            | "if"
            | "then"
            | "else" => Some(Self::Elsewhere),
            _ => None,
        }
    }
}

/// Returns whether `type` allows only strings, integers, booleans and null, and not null alone.
fn is_simple_type(declared: &str) -> bool {
    let is_simple = |JsonStr(name): &JsonStr<'_>| matches!(&**name, "string" | "integer" | "boolean");
    if let Ok(one) = serde_json::from_str(declared) {
        return is_simple(&one);
    }
    let Ok(several) = serde_json::from_str::<Vec<JsonStr<'_>>>(declared) else { return false };
    several.iter().any(is_simple) && several.iter().all(|name| is_simple(name) || &*name.0 == "null")
}

/// Returns whether a byte may occur in a token:
/// <https://www.rfc-editor.org/rfc/rfc9110.html#section-5.6.2>
pub(in crate::transport::http) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

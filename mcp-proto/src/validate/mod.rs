//! Validation of tool arguments and structured results against JSON Schemas.
//!
//! With the feature `schema-validate`, a [`Router`](crate::front::Router) checks the arguments of a tool before its
//! handler runs, and the handler's result against the tool's output schema; a [`Client`](crate::front::Client) checks
//! structured results against the output schema that the server listed. A program that drives the state machines itself
//! uses [`Schema`] and [`OutputSchemas`].
//!
//! ```
//! use mcp_proto::schema::Json;
//! use mcp_proto::validate::{Bounds, Schema};
//!
//! let schema = Json::new(r#"{"type": "object", "properties": {"degrees": {"type": "number"}}}"#)?;
//! let schema = Schema::compile(&schema, &Bounds::default())?;
//! assert!(schema.check(&Json::new(r#"{"degrees": 21.5}"#)?).is_ok());
//! let error = schema.check(&Json::new(r#"{"degrees": "warm"}"#)?).unwrap_err();
//! assert_eq!(error.to_string(), r#"/degrees: value is not of type "number""#);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Dialects
//!
//! The supported dialects are JSON Schema 2020-12, which is the default of a schema without `$schema`, 2019-09,
//! draft-07, draft-06 and draft-04. A schema in another dialect is refused: [`SchemaError::Dialect`].
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/index#json-schema-usage>
//!
//! - `format` is an annotation, in every dialect: no value is refused for it.
//! - Regular expressions must match in linear time: a schema with look-around or back-references in a pattern is
//!   refused.
//! - Nothing is ever fetched. A reference must lead into the schema itself or to the meta-schema of its dialect; any
//!   other makes the schema unusable: [`SchemaError::Reference`].
//!
//! # Hostile schemas
//!
//! A client compiles schemas that its server wrote, and a few lines of JSON can describe more work than a computer will
//! ever do. [`Bounds`] limits the size of a schema and the work of one check: beyond it, both end with
//! [`SchemaError::Bound`] or [`CheckError::Bound`]. Work is counted in steps, not measured by a clock, so that the same
//! input always has the same outcome.

mod compile;
mod output_schemas;
mod prepare;

pub use compile::{Bound, Bounds, CheckError, Dialect, Schema, SchemaError};
#[cfg(feature = "server")]
pub(crate) use output_schemas::check_structured;
#[cfg(feature = "client")]
pub(crate) use output_schemas::{Lookup, check, compile};
pub use output_schemas::{OutputError, OutputSchemas};

//! Values checked against JSON Schemas: the arguments and the structured results of tools.
//!
//! With the feature `schema-validate`, a [`Router`](crate::front::Router) checks the arguments of a tool before its
//! handler runs, and what the handler returns against the tool's output schema; a [`Client`](crate::front::Client)
//! checks structured results against the output schema that the server listed. Whoever drives the machines by hand has
//! [`Schema`] and [`OutputSchemas`].
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
//! JSON Schema 2020-12, which is assumed where a schema does not name its dialect by `$schema`; 2019-09, draft-07,
//! draft-06 and draft-04. A schema in any other is refused by name: [`SchemaError::Dialect`].
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/index#json-schema-usage>
//!
//! - `format` is an annotation, in every dialect: no value is refused for it.
//! - Regular expressions are those that can be matched in linear time: a pattern with look-around or back-references is
//!   refused with its schema.
//! - Nothing is ever fetched. A reference to what is neither in the schema itself nor the meta-schema of its dialect
//!   makes the schema unusable: [`SchemaError::Reference`].
//!
//! # Hostile schemas
//!
//! A client's schemas are its server's, and a few lines of JSON can describe more work than a computer will ever do.
//! [`Bounds`] says how large a schema may be, and how much work one check: whatever is beyond it ends as
//! [`SchemaError::Bound`] or [`CheckError::Bound`], by counted steps and not by a clock, so that the same input always
//! ends alike.

mod bounds;
mod compile;
mod error;
mod meter;
mod output_schemas;
mod prepare;
mod references;

pub use bounds::{Bound, Bounds};
pub use compile::{Dialect, Schema};
pub use error::{CheckError, SchemaError};
#[cfg(feature = "server")]
pub(crate) use output_schemas::check_structured;
#[cfg(feature = "client")]
pub(crate) use output_schemas::{Lookup, check, compile};
pub use output_schemas::{OutputError, OutputSchemas};

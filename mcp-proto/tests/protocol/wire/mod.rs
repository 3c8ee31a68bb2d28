//! The wire formats: lines, event streams, headers, media types and JSON-RPC envelopes.
#![cfg(feature = "http")]

mod envelope;
mod header_values;
mod lines;
mod media_types;
mod param_headers;
mod sse;

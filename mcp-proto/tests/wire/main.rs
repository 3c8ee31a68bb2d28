//! What goes over the wire: lines, events, headers, JSON-RPC envelopes.
#![cfg(feature = "http")]

mod envelope;
mod header_values;
mod lines;
mod media_types;
mod param_headers;
mod sse;

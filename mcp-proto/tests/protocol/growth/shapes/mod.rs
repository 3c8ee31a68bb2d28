//! Shapes of input, at any size, for which careless code takes quadratic time.
//!
//! The benchmark `growth` measures how the work grows with the size; the test `growth` processes each shape at a size
//! at which quadratic work would not end in time.
#![allow(dead_code, missing_docs, unreachable_pub, reason = "the benchmark and the test use their parts")]
#![allow(clippy::unwrap_used, reason = "a wrong shape panics at its own line")]

#[cfg(feature = "auth")]
pub mod auth;
pub mod client;
#[cfg(feature = "http")]
pub mod front;
#[cfg(feature = "host")]
pub mod host;
#[cfg(feature = "http")]
pub mod http;
pub mod redact;
pub mod schema;
pub mod server;
#[cfg(all(feature = "trace-file", feature = "testing"))]
pub mod trace_file;
#[cfg(feature = "schema-validate")]
pub mod validate;
pub mod wire;

use core::fmt::Write as _;

/// The work on a prepared input: the benchmark measures only this.
pub type Work = Box<dyn FnOnce()>;

/// One kind of input for one entry point.
#[derive(Clone, Copy)]
pub struct Shape {
    pub name: &'static str,
    /// Prepares an input of about this many bytes.
    pub prepare: fn(usize) -> Work,
}

const fn shape(name: &'static str, prepare: fn(usize) -> Work) -> Shape {
    Shape { name, prepare }
}

/// The shapes for all enabled features.
pub fn all() -> Vec<Shape> {
    let mut all = Vec::new();
    all.extend(wire::SHAPES);
    all.extend(redact::SHAPES);
    all.extend(schema::SHAPES);
    all.extend(client::SHAPES);
    all.extend(server::SHAPES);
    #[cfg(feature = "http")]
    all.extend(http::SHAPES);
    #[cfg(feature = "http")]
    all.extend(front::SHAPES);
    #[cfg(feature = "auth")]
    all.extend(auth::SHAPES);
    #[cfg(feature = "host")]
    all.extend(host::SHAPES);
    #[cfg(all(feature = "trace-file", feature = "testing"))]
    all.extend(trace_file::SHAPES);
    #[cfg(feature = "schema-validate")]
    all.extend(validate::SHAPES);
    all
}

/// Repeats `pattern` with a separator up to about `bytes` bytes. `@` in the pattern stands for the item's number.
fn repeat(bytes: usize, separator: &str, pattern: &str) -> String {
    let mut text = String::with_capacity(bytes + 1024);
    let mut number = 100_000;
    while text.len() < bytes {
        if !text.is_empty() {
            text.push_str(separator);
        }
        let mut parts = pattern.split('@');
        text.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let _ = write!(text, "{number}{part}");
        }
        number += 1;
    }
    text
}

/// Repeats `pattern` with commas: see [`repeat`].
fn commas(bytes: usize, pattern: &str) -> String {
    repeat(bytes, ",", pattern)
}

//! The same client and server on each SDK, to compare their sizes as WebAssembly.

#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "server")]
pub mod server;

use wasm_bindgen::prelude::*;

fn error(error: impl std::fmt::Display) -> JsValue {
    js_sys::Error::new(&error.to_string()).into()
}

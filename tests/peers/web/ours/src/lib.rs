//! The same client and server on each SDK, to compare their sizes as WebAssembly.

#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "server")]
pub mod server;

#[cfg(feature = "client")]
fn error(error: impl std::fmt::Display) -> wasm_bindgen::JsValue {
    js_sys::Error::new(&error.to_string()).into()
}

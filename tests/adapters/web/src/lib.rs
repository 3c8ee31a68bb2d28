//! Adapters for WebAssembly in JavaScript, and what both take from it: timers, random numbers and the parts of a stream.

#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "server")]
pub mod server;

use std::time::Duration;

use js_sys::{Function, Promise, Reflect, Uint8Array};
use mcp_proto::Bytes;
use mcp_proto::adapter::Entropy;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;
use web_sys::{AbortSignal, ReadableStream, ReadableStreamDefaultReader};

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_name = setTimeout)]
    fn set_timeout(callback: &Function, milliseconds: i32) -> JsValue;
    #[wasm_bindgen(js_name = clearTimeout)]
    fn clear_timeout(timer: &JsValue);
}

/// A timer, which ends with its future.
struct Timer(JsValue);

impl Drop for Timer {
    fn drop(&mut self) {
        clear_timeout(&self.0);
    }
}

/// Sleeps for this time, or less: a timer of JavaScript is at most 2³¹ ms long, and a longer one fires at once.
pub async fn sleep(time: Duration) {
    let milliseconds = i32::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX);
    let mut timer = None;
    let fired = Promise::new(&mut |fire, _| timer = Some(Timer(set_timeout(&fire, milliseconds))));
    let _ = JsFuture::from(fired).await;
}

/// Waits until a signal is aborted.
pub async fn aborted(signal: &AbortSignal) {
    if signal.aborted() {
        return;
    }
    let abort = Promise::new(&mut |abort, _| {
        let _ = signal.add_event_listener_with_callback("abort", &abort);
    });
    let _ = JsFuture::from(abort).await;
}

/// The random numbers of the platform.
pub struct Random;

impl Entropy for Random {
    fn fill(&self, bytes: &mut [u8]) {
        // Without them there is no secret that the server could rely on.
        getrandom::fill(bytes).expect("the platform has random numbers");
    }
}

/// The parts of a stream of bytes. Dropping it cancels the stream.
pub struct Parts(ReadableStreamDefaultReader);

impl Parts {
    pub fn new(stream: &ReadableStream) -> Self {
        Self(stream.get_reader().unchecked_into())
    }

    /// The next part; `None` is the end.
    pub async fn next(&self) -> Result<Option<Bytes>, JsValue> {
        let read = JsFuture::from(self.0.read()).await?;
        let part = Reflect::get(&read, &"value".into())?;
        Ok(if part.is_undefined() { None } else { Some(Uint8Array::from(part).to_vec().into()) })
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        // Refused only after the end.
        drop(JsFuture::from(self.0.cancel()));
    }
}

/// An error of JavaScript as text.
pub fn text(error: &JsValue) -> String {
    error.dyn_ref::<js_sys::Error>().map_or_else(|| format!("{error:?}"), |error| error.message().into())
}

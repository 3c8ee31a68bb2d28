//! The server role, without a transport.
#![cfg(feature = "server")]

mod answers;
mod backpressure;
mod contracts;
mod eras;
mod lenient;
mod limits;
mod obligations;
mod progress;
mod requests;
mod session;
mod subscriptions;

//! Hosts of real programs and servers at URLs.
#![cfg(all(unix, feature = "cli", feature = "host"))]

mod calls;
mod consent;
mod for_model;
mod layers;
mod lists;
mod login;
mod rotated;
mod secrets;
mod servers;
mod skills;
mod spills;
mod storage;
pub(crate) mod testbed;
mod tls;
#[cfg(feature = "tracing")]
mod traced;
mod visible;
mod watch;
mod websocket;

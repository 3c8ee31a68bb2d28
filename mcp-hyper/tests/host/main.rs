//! Hosts of real programs and servers at URLs.
#![cfg(all(unix, feature = "cli", feature = "host"))]
#![allow(missing_docs)]

#[path = "../common/mod.rs"]
mod common;

mod calls;
mod consent;
mod lists;
mod login;
mod servers;
mod spills;
mod storage;
mod testbed;
mod tls;
#[cfg(feature = "tracing")]
mod traced;
mod websocket;

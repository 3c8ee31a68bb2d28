//! Applications with real programs and servers at URLs: hosts of many servers, and the command-line client.
#![cfg_attr(not(unix), allow(unused_imports, dead_code, reason = "some tests are for Unix"))]

#[path = "../common/mod.rs"]
mod common;

mod cli;
mod host;
#[cfg(unix)]
mod stdio_v2;

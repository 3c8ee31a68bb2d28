//! Applications with real programs and servers at URLs: hosts of many servers, and the command-line client.

#[path = "../common/mod.rs"]
mod common;

#[cfg(unix)]
mod cli;
mod host;
#[cfg(unix)]
mod stdio_v2;

//! The host: configuration of servers, approval of project servers, decisions about many servers, and their tools.
#![cfg(feature = "host")]

mod config;
mod consent;
mod consent_facts;
mod control;
#[path = "../common/exhaustive.rs"]
mod exhaustive;
mod skills;
mod tools;

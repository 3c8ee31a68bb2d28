//! The host: configuration of servers, approval of project servers, decisions about many servers, and their tools.
#![cfg(feature = "host")]

mod config;
mod consent;
mod consent_facts;
mod control;
mod skills;
mod tools;

//! The decisions of a host about many servers: starts, outages and calls.
#![cfg(feature = "host")]

mod calls;
mod driver;
mod outages;
mod simulation;
mod starting;

use core::time::Duration;

use mcp_proto::Instant;
use mcp_proto::host::config::{Fingerprint, ServerId};
use mcp_proto::host::control::{
    Action, CallId, CallOptions, CallOutcome, CallRefusal, ControlConfig, ControlPlane, Delivery, Event,
    Failure, FailureKind, Generation, Location, Repeat, ServerPolicy, Status, UnknownServer,
};

const SECOND: Duration = Duration::from_secs(1);

fn id(name: &str) -> ServerId {
    ServerId::user(name)
}

fn local(connection: &str) -> ServerPolicy {
    ServerPolicy::new(Fingerprint::of_text(connection), Location::Local)
}

fn remote(connection: &str) -> ServerPolicy {
    ServerPolicy::new(Fingerprint::of_text(connection), Location::Remote)
}

fn transient() -> Option<Failure> {
    Some(Failure::new(FailureKind::Transient, "it ended"))
}

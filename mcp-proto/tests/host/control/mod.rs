//! The decisions of a host about many servers: starts, outages and calls.

mod approvals;
mod calls;
mod driver;
mod ending;
mod outages;
mod simulation;
mod starting;

use core::time::Duration;

use mcp_proto::Instant;
use mcp_proto::host::config::{Fingerprint, ServerEntry, ServerId, ServerSpec, TimeoutOverrides};
use mcp_proto::host::control::{
    Action, CallId, CallOptions, CallOutcome, CallRefusal, ControlConfig, ControlPlane, Delivery, Event,
    Failure, FailureKind, Generation, Repeat, ServerPolicy, Status, UnknownServer,
};

const SECOND: Duration = Duration::from_secs(1);

fn id(name: &str) -> ServerId {
    ServerId::user(name)
}

fn local(command: &str) -> ServerPolicy {
    policy(ServerSpec::stdio(command, ["--stdio"]))
}

fn remote(path: &str) -> ServerPolicy {
    policy(ServerSpec::http(format!("https://example.com/{path}")))
}

fn policy(spec: ServerSpec) -> ServerPolicy {
    ServerPolicy::new(&ServerEntry::user("it", spec), &TimeoutOverrides::default())
}

/// Some content to approve.
fn content(command: &str) -> Fingerprint {
    local(command).connection
}

fn transient() -> Option<Failure> {
    Some(Failure::new(FailureKind::Transient, "it ended"))
}

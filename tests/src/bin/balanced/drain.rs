//! An instance drains, and the balancer sends requests to the others.

use std::path::Path;

use mcp_proto::front::Client;
use mcp_proto::peer::client::EraPolicy;
use serde_json::json;
use smol::process::Command;

use crate::Outcome;
use crate::instance_log::{InstanceLog, connect, ensure, expected, shown};
use crate::legacy::open;

/// Ends an instance, which is this process, by SIGTERM. Checks that no call fails meanwhile, in either era, and that
/// afterwards `left` other instances answer.
pub(crate) async fn check_drain(socket: &Path, left: usize, process: &str) -> Outcome {
    let (client, trace) = connect(socket, EraPolicy::ModernOnly)?;
    let sessions = open(socket).await?;
    let before = call_all(&client, &trace, &sessions).await?;
    let ended = Command::new("kill").args(["-TERM", process]).status().await?;
    ensure(ended.success(), || format!("there is no process {process}"))?;
    let process = Path::new("/proc").join(process);
    let mut rounds = 0;
    while process.exists() {
        call_all(&client, &trace, &sessions).await?;
        rounds += 1;
    }
    let after = call_all(&client, &trace, &sessions).await?;
    ensure(before > left && after == left, || format!("{before} instances before, and {after} after"))?;
    println!(
        "an instance drains during {rounds} rounds of calls, of one client and {} sessions: none fails",
        sessions.len()
    );
    Ok(())
}

/// Makes a call in each session, and one that asks twice. Returns the number of instances that answered.
async fn call_all(
    client: &Client,
    trace: &InstanceLog,
    sessions: &[(Client, InstanceLog)],
) -> Outcome<usize> {
    let said = client.call_tool("trip", json!({"n": 1})).await?.text_content();
    ensure(said == expected(1), || format!("a trip: {said}"))?;
    let mut seen = trace.take();
    for (session, trace) in sessions {
        session.call_tool("waiting", json!({})).await?;
        seen.extend(trace.take());
    }
    ensure(!seen.contains_key("none"), || format!("not from an instance: {}", shown(&seen)))?;
    Ok(seen.len())
}

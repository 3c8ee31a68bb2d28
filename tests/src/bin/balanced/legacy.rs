//! Clients of 2025-11-25: each session stays with the instance that opened it.

use std::collections::BTreeMap;
use std::path::Path;

use mcp_proto::front::{Client, ToolCallOutcome};
use mcp_proto::peer::client::EraPolicy;
use serde_json::json;

use crate::Outcome;
use crate::instance_log::{InstanceLog, connect, ensure, expected, shown};

/// How many sessions are open at once.
const SESSIONS: usize = 4;

/// Checks that a server's requests in a session reach the client, and its answers the server.
pub(crate) async fn check_sessions(socket: &Path, calls: u32) -> Outcome {
    let sessions = open(socket).await?;
    for n in 0..calls {
        for (client, _) in &sessions {
            let said = client.call_tool("trip", json!({"n": n})).await?.text_content();
            ensure(said == expected(n), || format!("trip {n} of a session: {said}"))?;
        }
    }
    let mut at = BTreeMap::new();
    for (client, trace) in sessions {
        client.close().await;
        let seen = trace.take();
        ensure(seen.len() == 1, || format!("a session was not kept together: {}", shown(&seen)))?;
        for instance in seen.into_keys() {
            *at.entry(instance).or_default() += 1;
        }
    }
    ensure(at.len() > 1, || format!("all sessions were opened at one instance: {}", shown(&at)))?;
    println!("{SESSIONS} sessions, each with {calls} calls that ask twice and kept together: {}", shown(&at));
    Ok(())
}

/// Checks that a client can fetch a task's result in a new session, at the other instance.
pub(crate) async fn check_results(socket: &Path, calls: u32) -> Outcome {
    let sessions = open(socket).await?;
    let [(one, at_one), (other, at_other), ..] = sessions.as_slice() else {
        return Err("the check needs at least two sessions".into());
    };
    ensure(at_one.instances() != at_other.instances(), || "both sessions are at one instance".to_owned())?;
    let mut tasks = Vec::new();
    for _ in 0..calls {
        let ToolCallOutcome::Task(task) = one.call_tool("nap", json!({})).start_task().await? else {
            return Err("the server has created no task of 2025-11-25".into());
        };
        tasks.push(task.id().to_owned());
    }
    for task in tasks {
        for client in [other, one] {
            let said = client.resume_task(task.as_str()).wait().await?.text_content();
            ensure(said == "rested", || format!("the result of a task elsewhere: {said}"))?;
        }
    }
    println!("{calls} tasks of a session, their results in another, at the other instance");
    Ok(())
}

/// Opens sessions, at different instances.
pub(crate) async fn open(socket: &Path) -> Outcome<Vec<(Client, InstanceLog)>> {
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        let (client, trace) = connect(socket, EraPolicy::LegacyOnly)?;
        client.ready().await?;
        client.list_tools().await?;
        sessions.push((client, trace));
    }
    Ok(sessions)
}

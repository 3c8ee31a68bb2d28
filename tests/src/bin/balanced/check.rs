//! The client of 2026-07-28: the balancer sends every request to the next instance.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use mcp_proto::front::{Client, TaskHandle, ToolCallOutcome};
use mcp_proto::peer::client::EraPolicy;
use mcp_proto::schema::tasks::TaskStatus;
use serde_json::json;
use smol::Timer;

use crate::instance_log::{InstanceLog, connect, ensure, expected, shown};
use crate::{Outcome, drain, legacy, outage};

/// Time limit of one check; none takes nearly as long.
const DEADLINE: Duration = Duration::from_secs(20);

/// Checks one part with this number of calls to this number of instances, and prints its observations. For `drain`, the
/// store is the process of the instance that drains.
pub(crate) async fn check(
    socket: &Path,
    part: &str,
    (calls, instances): (&str, &str),
    store: &str,
) -> Outcome {
    let (calls, instances) = (calls.parse()?, instances.parse()?);
    if calls == 0 {
        return Err("the number of calls is zero".into());
    }
    let deadline = async {
        Timer::after(DEADLINE).await;
        Err(format!("not done within {DEADLINE:?}").into())
    };
    let checks = async {
        match part {
            "sessions" => return legacy::check_sessions(socket, calls).await,
            "results" => return legacy::check_results(socket, calls).await,
            "drain" => return drain::check_drain(socket, instances, store).await,
            _ => {}
        }
        let (client, trace) = connect(socket, EraPolicy::ModernOnly)?;
        client.ready().await?;
        match part {
            "trips" => check_input_rounds(&client, &trace, calls).await,
            "tasks" => check_tasks(&client, &trace, calls).await,
            "outage" => outage::check_outage(&client, &trace, calls, instances, store).await,
            "cancellation" => check_cancellation(&client, calls, instances).await,
            _ => Err(format!("unknown part {part:?}").into()),
        }
    };
    smol::future::or(checks, deadline).await
}

/// One instance asks for input, another continues the call.
async fn check_input_rounds(client: &Client, trace: &InstanceLog, calls: u32) -> Outcome {
    trace.take();
    let (mut all, mut spread) = (BTreeMap::new(), 0);
    for n in 0..calls {
        let said = client.call_tool("trip", json!({"n": n})).await?.text_content();
        ensure(said == expected(n), || format!("trip {n}: {said}"))?;
        let seen = trace.take();
        ensure(seen.values().sum::<usize>() == 3, || format!("trip {n} took {}", shown(&seen)))?;
        spread += u32::from(seen.len() > 1);
        for (instance, count) in seen {
            *all.entry(instance).or_default() += count;
        }
    }
    ensure(spread == calls, || format!("only {spread} of {calls} calls were spread: {}", shown(&all)))?;
    println!("{calls} calls that ask twice, each answered by several instances: {}", shown(&all));
    Ok(())
}

/// The input for a task reaches it through either instance.
async fn check_tasks(client: &Client, trace: &InstanceLog, calls: u32) -> Outcome {
    trace.take();
    let begun = (0..calls).map(|n| {
        let client = client.clone();
        smol::spawn(async move {
            let ToolCallOutcome::Task(task) =
                client.call_tool("parcel", json!({"n": n})).start_task().await?
            else {
                return Err("the server has created no task".into());
            };
            let said = task.wait().await?.text_content();
            ensure(said == expected(n), || format!("parcel {n}: {said}"))?;
            Outcome::Ok(task)
        })
    });
    for ended in begun.collect::<Vec<_>>() {
        let task = ended.await?;
        // Both instances know the result by now.
        for _ in 0..2 {
            let status = task.status().await?.status;
            ensure(status == TaskStatus::Completed, || format!("a task that has ended is {status:?}"))?;
        }
    }
    let seen = trace.take();
    ensure(seen.len() > 1, || format!("only one instance served it: {}", shown(&seen)))?;
    println!("{calls} tasks at once that ask twice: {}", shown(&seen));
    Ok(())
}

/// Either instance can cancel a task, and its handler ends.
async fn check_cancellation(client: &Client, calls: u32, instances: usize) -> Outcome {
    let mut tasks: Vec<TaskHandle> = Vec::new();
    for _ in 0..calls {
        let ToolCallOutcome::Task(task) = client.call_tool("wait", json!({})).start_task().await? else {
            return Err("the server has created no task".into());
        };
        tasks.push(task);
    }
    let before = until_waiting(client, calls, instances).await?;
    ensure(before.values().all(|count| *count > 0), || format!("they wait at {}", shown(&before)))?;
    for task in &tasks {
        task.cancel().await?;
        for _ in 0..2 {
            let status = task.status().await?.status;
            ensure(status == TaskStatus::Cancelled, || format!("a cancelled task is {status:?}"))?;
        }
    }
    until_waiting(client, 0, instances).await?;
    println!("{calls} tasks cancelled, none is left; before: {}", shown(&before));
    Ok(())
}

/// Waits until this number of handlers wait at all instances together.
pub(crate) async fn until_waiting(
    client: &Client,
    wanted: u32,
    instances: usize,
) -> Outcome<BTreeMap<String, usize>> {
    loop {
        let mut each = BTreeMap::new();
        while each.len() < instances {
            let said = client.call_tool("waiting", json!({})).await?.text_content();
            let (instance, count) = said.split_once(' ').ok_or("no count")?;
            each.insert(instance.to_owned(), count.parse()?);
        }
        if each.values().sum::<usize>() == usize::try_from(wanted)? {
            return Ok(each);
        }
        Timer::after(Duration::from_millis(50)).await;
    }
}

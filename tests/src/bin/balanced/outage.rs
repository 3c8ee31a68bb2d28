//! Redis goes down, and comes back.

use std::time::{Duration, Instant};

use mcp_proto::front::{Client, TaskHandle, ToolCallOutcome};
use mcp_proto::schema::tasks::TaskStatus;
use serde_json::json;
use smol::Timer;
use smol::io::{AsyncReadExt as _, AsyncWriteExt as _};
use smol::net::TcpStream;

use crate::Outcome;
use crate::check::until_waiting;
use crate::instance_log::{InstanceLog, ensure};

/// Starts tasks, ends Redis, which its supervisor starts again, and checks what fails meanwhile and that no task is lost.
pub(crate) async fn check_outage(
    client: &Client,
    trace: &InstanceLog,
    calls: u32,
    instances: usize,
    store: &str,
) -> Outcome {
    let mut tasks = Vec::new();
    for _ in 0..calls {
        tasks.push(start_task(client).await?);
    }
    until_waiting(client, calls, instances).await?;
    end_redis(store).await?;
    let begun = Instant::now();
    let refusal = loop {
        match start_task(client).await {
            // It was stored before Redis ended, or after it came back.
            Ok(task) => tasks.push(task),
            Err(error) => break error.to_string(),
        }
        ensure(begun.elapsed() < Duration::from_secs(5), || "no task was refused".to_owned())?;
    };
    ensure(refusal.contains("the task store failed"), || format!("a task was refused otherwise: {refusal}"))?;
    ensure(trace.unavailable() > 0, || "a task was refused without status 503 and `Retry-After`".to_owned())?;
    // What needs no store goes on.
    client.call_tool("waiting", json!({})).await?;
    // The instances take turns, and each has its own pauses between attempts: after some new tasks in a row, each has Redis
    // again.
    let mut row = 0;
    while row < 2 * instances {
        match start_task(client).await {
            Ok(task) => {
                tasks.push(task);
                row += 1;
            }
            Err(_) => {
                row = 0;
                Timer::after(Duration::from_millis(100)).await;
            }
        }
    }
    let outage = begun.elapsed();
    for task in &tasks {
        let status = task.status().await?.status;
        ensure(status == TaskStatus::Working, || format!("a task is {status:?} after the outage"))?;
    }
    for task in &tasks {
        task.cancel().await?;
        let status = task.status().await?.status;
        ensure(status == TaskStatus::Cancelled, || format!("a cancelled task is {status:?}"))?;
    }
    until_waiting(client, 0, instances).await?;
    // Request states are refused that were sealed less than a second after Redis came back.
    Timer::after(Duration::from_secs(1)).await;
    println!(
        "{} tasks survive an outage of {:.1} s; meanwhile, {} requests got 503: {refusal}",
        tasks.len(),
        outage.as_secs_f32(),
        trace.unavailable()
    );
    Ok(())
}

async fn start_task(client: &Client) -> Outcome<TaskHandle> {
    match client.call_tool("wait", json!({})).start_task().await? {
        ToolCallOutcome::Task(task) => Ok(task),
        _ => Err("the server has created no task".into()),
    }
}

async fn end_redis(store: &str) -> Outcome {
    let address = store.strip_prefix("redis://").ok_or("the store is no Redis")?;
    let (mut stream, mut refusal) = (TcpStream::connect(address).await?, Vec::new());
    stream.write_all(b"SHUTDOWN\r\n").await?;
    // It ends the connection, by whatever error, and answers only if it goes on.
    let _ = stream.read_to_end(&mut refusal).await;
    ensure(refusal.is_empty(), || format!("Redis does not end: {}", String::from_utf8_lossy(&refusal)))
}

//! Checks of what every transport must keep, whatever carries its messages.

use alloc::sync::Arc;
use core::fmt;
use core::future::{pending, poll_fn};
use core::pin::pin;
use core::task::{Poll, Waker};
use core::time::Duration;
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;
use serde_json::json;

use crate::front::{Call, Client, Context, Error, NoArguments, Router};
use crate::peer::client::CloseReason;
use crate::prelude::*;
use crate::schema::{CallTool, Json, Tool};

/// The most that a call takes. Timeouts of a call that its transport holds up show as faults, not as tests that hang.
const LIMIT: Duration = Duration::from_secs(20);

/// The most that a check of a duty takes: more than a call, whose timeout says more.
const CHECK_LIMIT: Duration = Duration::from_secs(40);

/// The length of a text that no pipe and no socket takes at once, in bytes, and the number of them in flight.
const LONG: usize = 128 * 1024;
const MANY: usize = 16;

/// What a transport must keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum TransportDuty {
    /// A client that is connected becomes ready, and its first call is answered, also one made before it is ready.
    Start,
    /// Each message arrives whole and unchanged, whatever characters it has and up to 150 kB long; a call arrives once.
    Messages,
    /// What the server sends during a call arrives in order, and before the answer.
    Order,
    /// Calls are in flight side by side: one that takes long holds up no other.
    Concurrency,
    /// A call that is dropped is cancelled at the server, and no other call is.
    Cancellation,
    /// With 2 MB in flight in each direction, more than the transport takes at once, nothing is lost and nothing stands
    /// still. A queue without a bound is not seen.
    Backpressure,
    /// If the other side fails, calls in flight end with an error at once, and not by their timeouts.
    Failure,
    /// A client that closes waits until the driver has released the link, and refuses further calls. Whether the server
    /// learns of the end is not seen.
    End,
}

/// What a transport does not keep: see [`check_transport`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransportFault {
    /// What it does not keep.
    pub duty: TransportDuty,
    /// What was seen.
    pub detail: String,
}

impl fmt::Display for TransportFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the transport does not keep `{:?}`: {}", self.duty, self.detail)
    }
}

impl core::error::Error for TransportFault {}

/// The result of a check.
type Checked = Result<(), TransportFault>;

/// The router to serve over a transport that is checked by [`check_transport`]. Its tool `fail` calls `fail`, for
/// [`check_transport_failure`]: it ends the connection, or the process, as a crash would. Make one for each check: it counts
/// calls.
///
/// To find a client that does not read while it writes, give the server small [`Limits`](crate::Limits): 64 KiB of
/// `queued_bytes` and 256 KiB of `message_bytes`. Then it stops reading until its answers are read.
pub fn transport_router(fail: impl Fn() + Send + Sync + 'static) -> Router {
    let tool = |name| Tool::new(name, "", Json::empty_object());
    let calls = Arc::new(HeldCalls::default());
    let [held, released, cancelled] = [(); 3].map(|()| calls.clone());
    let fail = Arc::new(fail);
    Router::new("transport", "1.0.0")
        .tool_with(tool("echo"), async |Echo { text }, _| text)
        .tool_with(tool("count"), async |Count { to }, cx: Context| {
            (1..=to).for_each(|number| cx.progress(f64::from(number)));
            to.to_string()
        })
        .tool_with(tool("hold"), move |NoArguments {}, _| {
            let calls = held.clone();
            async move {
                let call = HeldCall(&calls);
                calls.until(|state| take_one(&mut state.releases)).await;
                core::mem::forget(call);
                "released"
            }
        })
        .tool_with(tool("release"), move |NoArguments {}, _| {
            let count = released.change(|state| {
                state.releases = state.releases.saturating_add(1);
                state.released = state.released.saturating_add(1);
                state.released
            });
            async move { count.to_string() }
        })
        .tool_with(tool("await_cancellation"), move |NoArguments {}, _| {
            let calls = cancelled.clone();
            async move {
                calls.until(|state| take_one(&mut state.cancellations)).await;
                "cancelled"
            }
        })
        .tool_with(tool("fail"), move |NoArguments {}, _| {
            let fail = fail.clone();
            async move {
                fail();
                pending::<String>().await
            }
        })
}

/// Checks a transport by a client of it, whose server serves [`transport_router`], and closes the client: everything but
/// [`TransportDuty::Failure`]. The driver of the client must run beside it. Check clients of both eras.
///
/// A call may take 20 s. The `sleep` of any runtime bounds each duty to 40 s, because a driver that stands still handles no
/// timeouts either. If the driver blocks the thread of the check, nothing does: let each have its own.
///
/// It is the same for each transport, so that an application cannot tell one from another:
///
/// ```
/// use std::future::pending;
///
/// use mcp_proto::testing::{self, check_transport, transport_router};
///
/// for is_legacy in [false, true] {
///     let pair = testing::pair(transport_router(|| {}));
///     let mut pair = if is_legacy { pair.legacy() } else { pair };
///     // A pair panics by itself if it stands still.
///     pair.run(async |client| check_transport(&client, |_| pending()).await)?;
/// }
/// # Ok::<(), testing::TransportFault>(())
/// ```
///
/// # Errors
/// The first duty that it does not keep.
pub async fn check_transport(client: &Client, sleep: impl AsyncFn(Duration)) -> Checked {
    bounded(client, &sleep, TransportDuty::Start, start).await?;
    bounded(client, &sleep, TransportDuty::Messages, messages).await?;
    bounded(client, &sleep, TransportDuty::Order, order).await?;
    bounded(client, &sleep, TransportDuty::Concurrency, concurrency).await?;
    bounded(client, &sleep, TransportDuty::Cancellation, cancellation).await?;
    bounded(client, &sleep, TransportDuty::Backpressure, backpressure).await?;
    bounded(client, &sleep, TransportDuty::End, end).await
}

/// Checks by a client of a transport what happens when its server fails, within the time of a duty of [`check_transport`].
/// The connection is over then.
///
/// # Errors
/// If a call does not end with an error, or not before its timeout.
pub async fn check_transport_failure(client: &Client, sleep: impl AsyncFn(Duration)) -> Checked {
    bounded(client, &sleep, TransportDuty::Failure, failure).await
}

/// Checks a duty, for as long as it may take.
async fn bounded(
    client: &Client,
    sleep: &impl AsyncFn(Duration),
    duty: TransportDuty,
    check: impl AsyncFnOnce(&Client, TransportDuty) -> Checked,
) -> Checked {
    let (mut checked, mut limit) = (pin!(check(client, duty)), pin!(sleep(CHECK_LIMIT)));
    poll_fn(|cx| match checked.as_mut().poll(cx) {
        Poll::Pending => limit.as_mut().poll(cx).map(|()| {
            Err(fault(
                duty,
                format!(
                    "nothing within {CHECK_LIMIT:?}, not even the timeouts of calls: the driver stands still"
                ),
            ))
        }),
        checked => checked,
    })
    .await
}

async fn failure(client: &Client, duty: TransportDuty) -> Checked {
    echo(client, duty, "before").await?;
    let in_flight = [begin(client, duty, "hold")?, begin(client, duty, "fail")?];
    for call in in_flight {
        match call.await {
            Err(error) if !error.is_timeout() => {}
            Err(error) => return Err(fault(duty, format!("a call in flight ended by its timeout: {error}"))),
            Ok(_) => return Err(fault(duty, "a call in flight was answered")),
        }
    }
    Ok(())
}

async fn start(client: &Client, duty: TransportDuty) -> Checked {
    // Before it is ready.
    echo(client, duty, "first").await?;
    let server = client.ready().await.map_err(|error| fault(duty, error))?;
    let name = server.implementation.as_ref().map(|it| &*it.name);
    expect(duty, name == Some("transport"), || format!("the server is {name:?}"))
}

async fn messages(client: &Client, duty: TransportDuty) -> Checked {
    let long = "ü\u{1f600}\n\"\\".repeat(LONG / 10);
    for text in ["", "a\nb\r\nc\u{2028}d\u{0}e", "data: {}\n\nevent: x\n\n", "ü\u{1f600}", &long] {
        echo(client, duty, text).await?;
    }
    Ok(())
}

async fn order(client: &Client, duty: TransportDuty) -> Checked {
    // A server merges reports that follow each other at once: of each call it sends the first and the last.
    for _ in 0..MANY {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = seen.clone();
        let call = client.call_tool("count", json!({ "to": 20 })).timeout(LIMIT).on_progress(move |report| {
            kept.lock().unwrap_or_else(PoisonError::into_inner).push(report.progress.as_f64());
        });
        text_of(duty, call.await)?;
        let seen = seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let is_ordered = seen.is_sorted_by(|before, after| before < after) && seen.last() == Some(&20.0);
        expect(duty, is_ordered, || {
            format!(
                "progress from 1 to 20, of which a server merges some, arrived before the answer as {seen:?}"
            )
        })?;
    }
    Ok(())
}

async fn concurrency(client: &Client, duty: TransportDuty) -> Checked {
    let held = begin(client, duty, "hold")?;
    echo(client, duty, "meanwhile").await?;
    release(client, duty, "1").await?;
    let text = text_of(duty, held.await)?;
    expect(duty, text == "released", || format!("a call in flight returned {text:?}"))
}

async fn cancellation(client: &Client, duty: TransportDuty) -> Checked {
    let [dropped, other] = [begin(client, duty, "hold")?, begin(client, duty, "hold")?];
    // Both have reached the server.
    echo(client, duty, "before").await?;
    drop(dropped);
    text_of(duty, begin(client, duty, "await_cancellation")?.await)?;
    release(client, duty, "2").await?;
    text_of(duty, other.await).map(drop)
}

async fn backpressure(client: &Client, duty: TransportDuty) -> Checked {
    let texts: Vec<_> = (0..MANY).map(|number| format!("{number} {}", "x".repeat(LONG))).collect();
    let begin = |text| client.call_tool("echo", json!({ "text": text })).timeout(LIMIT).start();
    let calls = texts.iter().map(begin).collect::<Result<Vec<_>, _>>().map_err(|error| fault(duty, error))?;
    for (call, text) in calls.into_iter().zip(&texts) {
        let answer = text_of(duty, call.await)?;
        expect(duty, answer == *text, || format!("{} bytes came back as {}", text.len(), answer.len()))?;
    }
    Ok(())
}

async fn end(client: &Client, duty: TransportDuty) -> Checked {
    let reason = client.close().await;
    expect(duty, reason == CloseReason::Done, || format!("the connection ended so: {reason}"))?;
    match client.call_tool("echo", json!({ "text": "late" })).timeout(LIMIT).await {
        Err(error) if !error.is_timeout() => Ok(()),
        outcome => Err(fault(duty, format!("a call after the end gave {outcome:?}"))),
    }
}

/// Lets a call go on that is held. It is the release of this number, unless a call arrived more than once.
async fn release(client: &Client, duty: TransportDuty, number: &str) -> Checked {
    let count = text_of(duty, begin(client, duty, "release")?.await)?;
    expect(TransportDuty::Messages, count == number, || format!("{number} calls arrived as {count}"))
}

/// Calls `echo`, and compares what comes back.
async fn echo(client: &Client, duty: TransportDuty, text: &str) -> Checked {
    let answer = text_of(duty, client.call_tool("echo", json!({ "text": text })).timeout(LIMIT).await)?;
    let shown = |text: &str| text.chars().take(40).collect::<String>();
    expect(duty, answer == text, || {
        format!(
            "{:?} ({} bytes) came back as {:?} ({})",
            shown(text),
            text.len(),
            shown(&answer),
            answer.len()
        )
    })
}

fn begin(client: &Client, duty: TransportDuty, tool: &str) -> Result<Call<CallTool>, TransportFault> {
    client.call_tool(tool, json!({})).timeout(LIMIT).start().map_err(|error| fault(duty, error))
}

fn text_of(
    duty: TransportDuty,
    result: Result<crate::schema::CallToolResult, Error>,
) -> Result<String, TransportFault> {
    result.map(|result| result.text_content()).map_err(|error| fault(duty, error))
}

fn fault(duty: TransportDuty, detail: impl fmt::Display) -> TransportFault {
    TransportFault { duty, detail: detail.to_string() }
}

fn expect(duty: TransportDuty, holds: bool, detail: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(fault(duty, detail())) }
}

#[derive(Deserialize)]
struct Echo {
    text: String,
}

#[derive(Deserialize)]
struct Count {
    to: u32,
}

/// The calls that wait at the server.
#[derive(Default)]
struct HeldCalls(Mutex<HeldState>);

#[derive(Default)]
struct HeldState {
    /// The releases so far, and those that no call has used.
    released: u32,
    releases: u32,
    /// The calls that were cancelled, and nobody has asked for.
    cancellations: u32,
    wakers: Vec<Waker>,
}

/// A call that waits; if it is dropped, it was cancelled.
struct HeldCall<'a>(&'a HeldCalls);

impl Drop for HeldCall<'_> {
    fn drop(&mut self) {
        self.0.change(|state| state.cancellations = state.cancellations.saturating_add(1));
    }
}

impl HeldCalls {
    fn change<T>(&self, change: impl FnOnce(&mut HeldState) -> T) -> T {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = change(&mut state);
        let wakers = core::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        changed
    }

    async fn until(&self, mut holds: impl FnMut(&mut HeldState) -> bool) {
        poll_fn(|cx| {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if holds(&mut state) {
                return Poll::Ready(());
            }
            state.wakers.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// Takes one off a count; returns whether there was one.
fn take_one(count: &mut u32) -> bool {
    let left = count.checked_sub(1);
    *count = left.unwrap_or_default();
    left.is_some()
}

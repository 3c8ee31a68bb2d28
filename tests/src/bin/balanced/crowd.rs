//! Many clients of both eras at once, while instances are killed, Redis is started again and a connection to it is cut.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{HeaderMap, Request, StatusCode};
use mcp_hyper::WireEvent;
use mcp_proto::front::{Client, Error, ToolCallOutcome, Watch, WatchUpdate};
use mcp_proto::peer::client::EraPolicy;
use mcp_proto::schema::tasks::TaskStatus;
use serde_json::json;
use smol::Timer;
use smol::future::or;
use smol::net::unix::UnixStream;
use smol::stream::StreamExt as _;
use smol_hyper::rt::FuturesIo;

use crate::Outcome;
use crate::instance_log::{connect, ensure, expected, options};
use crate::proofs::{self, BEARER, URL, check_proofs_until_end};
use crate::streams::{check_streams_until_end, cut_streams};

/// The clients that make calls. Every fourth is of 2025-11-25; one of eight, of either era, has a token that is bound to a key.
const CALLERS: u32 = 140;
/// The clients whose streams are cut.
const STREAMS: u32 = 12;
/// The clients that use proofs several times.
const REPLAYERS: u32 = 8;
/// The clients that wait for changes, of either era by turns.
const WATCHERS: u32 = 39;
/// An outcome later than this counts as none. A client's own time limit of a call is a minute.
const LATEST: Duration = Duration::from_secs(75);
/// How long watches go on: one that was interrupted often subscribes again within 30 s of the last fault.
const OVERTIME: Duration = Duration::from_secs(15);
/// The pause between two calls of one client.
pub(crate) const PAUSE: Duration = Duration::from_millis(250);

/// What all clients share.
pub(crate) struct Crowd {
    pub(crate) socket: PathBuf,
    end: Instant,
    next_number: AtomicU32,
    tally: Mutex<Tally>,
}

#[derive(Default)]
pub(crate) struct Tally {
    /// The calls by their outcomes.
    outcomes: BTreeMap<&'static str, u32>,
    /// The calls with a number that were answered.
    pub(crate) answered: Vec<u32>,
    /// The tasks that were created.
    tasks: Vec<String>,
    /// Requests with a state that were sent twice.
    repeated: u32,
    /// The uses of proofs, and the repetitions with another nonce.
    pub(crate) proofs: proofs::Tally,
    /// The calls whose streams are cut, by their outcomes.
    pub(crate) streamed: BTreeMap<&'static str, u32>,
    /// The streams that were resumed.
    pub(crate) resumed: u32,
}

impl Tally {
    /// Checks that proofs were used again, nonces replaced, and streams resumed.
    fn check(&self) -> Outcome {
        ensure(self.proofs.has_all_kinds(), || format!("too little was done: {}", self.proofs))?;
        ensure(self.resumed > 0, || "no stream was resumed".to_owned())
    }
}

impl Crowd {
    pub(crate) fn tally<R>(&self, change: impl FnOnce(&mut Tally) -> R) -> R {
        change(&mut self.tally.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The number of the next call that records its end.
    pub(crate) fn next_number(&self) -> u32 {
        self.next_number.fetch_add(1, Ordering::SeqCst)
    }

    pub(crate) fn is_over(&self) -> bool {
        Instant::now() > self.end
    }
}

/// Lets the clients make calls for so many seconds, and then checks what became of all calls, tasks and changes. The faults
/// must have ended ten seconds before.
pub(crate) async fn check_crowd(socket: &Path, finished: &Path, seconds: &str) -> Outcome {
    let lasting = Duration::from_secs(seconds.parse()?);
    let crowd = Arc::new(Crowd {
        socket: socket.to_owned(),
        end: Instant::now() + lasting,
        next_number: AtomicU32::new(0),
        tally: Mutex::default(),
    });
    let mut callers = (0..CALLERS).map(|n| smol::spawn(call_until_end(crowd.clone(), n))).collect::<Vec<_>>();
    let cut = cut_streams(socket)?;
    callers.extend((0..STREAMS).map(|_| smol::spawn(check_streams_until_end(crowd.clone(), cut.clone()))));
    callers.extend((0..REPLAYERS).map(|_| smol::spawn(check_proofs_until_end(crowd.clone()))));
    let watchers = (0..WATCHERS).map(|n| smol::spawn(watch_until_end(crowd.clone(), n))).collect::<Vec<_>>();
    let changed = change_until_end(&crowd, lasting / 8).await?;
    for caller in callers {
        caller.await?;
    }
    let mut late = Vec::new();
    for (n, watcher) in (0..).zip(watchers) {
        let (noticed, last) = watcher.await?;
        if noticed < changed {
            late.push(format!("{n} by {:?}: {last}", changed.duration_since(noticed)));
        }
    }
    ensure(late.is_empty(), || format!("watches miss a change: {}", late.join("; ")))?;
    let (answered, unfinished) = (check_numbered(&crowd, finished)?, check_tasks(&crowd).await?);
    crowd.tally(|tally| tally.check())?;
    let clients = CALLERS + STREAMS + REPLAYERS + WATCHERS + 1;
    crowd.tally(|Tally { outcomes, tasks, repeated, proofs, streamed, resumed, .. }| {
        println!(
            "{clients} clients: {outcomes:?}; {answered} numbered calls were answered, none was finished twice, although {repeated} \
             requests with a state were sent twice; all {} tasks are known, {unfinished} of which ended with an instance that was \
             killed; {WATCHERS} watches report the last change",
            tasks.len()
        );
        println!("{proofs}");
        println!("{streamed:?} of the calls whose streams were cut; {resumed} streams were resumed, no event was delivered twice");
    });
    Ok(())
}

/// Each call with a number that was answered was finished, and none twice: its state or proof would have been accepted twice.
fn check_numbered(crowd: &Crowd, finished: &Path) -> Outcome<usize> {
    let mut times: BTreeMap<u32, u32> = BTreeMap::new();
    for line in std::fs::read_to_string(finished)?.lines() {
        *times.entry(line.parse()?).or_default() += 1;
    }
    let twice: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
    ensure(twice.is_empty(), || format!("calls were finished more than once: {twice:?}"))?;
    let answered = crowd.tally(|tally| std::mem::take(&mut tally.answered));
    let unknown = answered.iter().find(|n| !times.contains_key(n));
    ensure(unknown.is_none(), || format!("call {unknown:?} was answered without being finished"))?;
    Ok(answered.len())
}

/// Every task that was created is known, and ends, unless its instance was killed. Returns how many of those there are.
async fn check_tasks(crowd: &Crowd) -> Outcome<usize> {
    let (client, _) = connect(&crowd.socket, EraPolicy::ModernOnly)?;
    let mut unfinished = 0;
    for id in crowd.tally(|tally| tally.tasks.clone()) {
        match client.resume_task(id.as_str()).status().await?.status {
            TaskStatus::Completed => {}
            TaskStatus::Working => unfinished += 1,
            other => return Err(format!("the task {id} is {other:?}").into()),
        }
    }
    Ok(unfinished)
}

/// Makes calls of all kinds by turns.
async fn call_until_end(crowd: Arc<Crowd>, n: u32) -> Outcome {
    let is_modern = !n.is_multiple_of(4);
    let is_bound = n % 16 < 2;
    let mut client = connect_repeating(&crowd, is_modern, is_bound).await?;
    let mut turn = n;
    while !crowd.is_over() {
        turn += 1;
        let call = async {
            match turn % 3 {
                0 => client.call_tool("waiting", json!({})).await.map(|_| "answered"),
                1 => make_trip(&crowd, &client).await,
                _ => start_nap(&crowd, &client).await,
            }
        };
        let (outcome, is_gone) = outcome_of(call).await?;
        crowd.tally(|tally| *tally.outcomes.entry(outcome).or_default() += 1);
        Timer::after(PAUSE).await;
        if is_gone {
            client = connect_repeating(&crowd, is_modern, is_bound).await?;
        }
    }
    client.close().await;
    Ok(())
}

/// Waits for the outcome of a call. Returns it, and whether its client is gone.
pub(crate) async fn outcome_of(
    call: impl Future<Output = Result<&'static str, Error>>,
) -> Outcome<(&'static str, bool)> {
    let late = async {
        Timer::after(LATEST).await;
        Ok("without outcome")
    };
    let ended = or(call, late).await;
    let is_gone = ended.as_ref().is_err_and(Error::is_unsent);
    let outcome = ended.or_else(|error| kind_of(&error))?;
    ensure(outcome != "without outcome", || format!("a call has no outcome within {LATEST:?}"))?;
    Ok((outcome, is_gone))
}

async fn make_trip(crowd: &Crowd, client: &Client) -> Result<&'static str, Error> {
    let n = crowd.next_number();
    let result = client.call_tool("trip", json!({"n": n})).await?;
    if result.text_content() != expected(n) {
        return Ok(if result.failed() { "failed by its handler" } else { "answered otherwise" });
    }
    crowd.tally(|tally| tally.answered.push(n));
    Ok("answered")
}

async fn start_nap(crowd: &Crowd, client: &Client) -> Result<&'static str, Error> {
    let ToolCallOutcome::Task(task) = client.call_tool("nap", json!({})).start_task().await? else {
        return Ok("answered");
    };
    crowd.tally(|tally| tally.tasks.push(task.id().to_owned()));
    Ok("answered")
}

/// What an error says of its call; an error that no fault explains ends the run.
fn kind_of(error: &Error) -> Outcome<&'static str> {
    match error {
        _ if error.is_unsent() => Ok("not sent"),
        Error::Lost(_) => Ok("may have run"),
        Error::TimedOut { .. } => Ok("timed out, may have run"),
        // The balancer answers so without an instance, and an instance without Redis.
        Error::Transport(error) if matches!(error.status, 502..=504) => Ok("refused with 502 to 504"),
        Error::Peer(error)
            if error.message.contains("store failed") || error.message.contains("cannot be checked") =>
        {
            Ok("refused without Redis")
        }
        // The instance of its session was killed, and another says so.
        Error::Peer(error) if error.message.contains("no session of this id") => Ok("its session is gone"),
        // Its state was sealed before Redis was started again, or sent twice.
        Error::Peer(error)
            if error.message.contains("has lapsed") || error.message.contains("used before") =>
        {
            Ok("its state is refused")
        }
        _ => Err(format!("unexpected error: {error}: {error:?}").into()),
    }
}

/// Connects a client that sends every fourth request with a state twice: to another instance, since they take turns.
async fn connect_repeating(crowd: &Arc<Crowd>, is_modern: bool, is_bound: bool) -> Outcome<Client> {
    let (shared, mut seen) = (crowd.clone(), 0);
    let mut count_renewals = proofs::count_renewals(crowd.clone());
    let policy = if is_modern { EraPolicy::ModernOnly } else { EraPolicy::LegacyOnly };
    let options = match is_bound {
        true => options(&crowd.socket, policy).authorization(proofs::authorization().await?),
        false => options(&crowd.socket, policy).header("authorization", BEARER),
    };
    let (client, driver) = options
        .on_wire(move |event| {
            count_renewals(&event);
            let WireEvent::Request { headers, body, .. } = event else { return };
            if !body.windows(14).any(|bytes| bytes == b"\"requestState\"") {
                return;
            }
            seen += 1;
            if seen % 4 == 0 {
                shared.tally(|tally| tally.repeated += 1);
                smol::spawn(send(shared.socket.clone(), headers.clone(), body.to_vec())).detach();
            }
        })
        .connect(URL)?;
    smol::spawn(driver).detach();
    Ok(client)
}

/// Sends a request. Returns the head of its answer.
pub(crate) async fn send(
    socket: PathBuf,
    headers: HeaderMap,
    body: Vec<u8>,
) -> Outcome<(StatusCode, HeaderMap)> {
    let stream = FuturesIo::new(UnixStream::connect(socket).await?);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
    let mut request = Request::post("/mcp").body(Full::new(Bytes::from(body)))?;
    *request.headers_mut() = headers;
    let answer = async {
        let (head, _) = sender.send_request(request).await?.into_parts();
        Ok((head.status, head.headers))
    };
    let ended = async {
        connection.await?;
        Err("the connection has ended".into())
    };
    or(answer, ended).await
}

/// Watches the list of tools until some time after the end; returns when it last changed, and the last update. A connection
/// that was not made while an instance was away is made again.
async fn watch_until_end(crowd: Arc<Crowd>, n: u32) -> Outcome<(Instant, String)> {
    let policy = if n.is_multiple_of(2) { EraPolicy::ModernOnly } else { EraPolicy::LegacyOnly };
    let (mut client, _) = connect(&crowd.socket, policy)?;
    let mut watch = client.watch().tools().open()?;
    let (mut noticed, mut last) = (Instant::now(), String::new());
    // A client of 2025-11-25 gives up the stream of notifications after some attempts, until its next request.
    let mut calls = Timer::interval(Duration::from_secs(5));
    let watching = async {
        loop {
            while let Some(update) = next_update(&mut watch, &client, &mut calls).await {
                last = format!("{update:?}, {:?} before the end", crowd.end.duration_since(Instant::now()));
                if matches!(update, WatchUpdate::Changed { .. } | WatchUpdate::Missed { .. }) {
                    noticed = Instant::now();
                }
            }
            match watch.outcome() {
                Some(Err(error)) if error.is_disconnect() => {}
                outcome => return Err(format!("a watch has ended: {outcome:?}").into()),
            }
            Timer::after(PAUSE).await;
            (client, _) = connect(&crowd.socket, policy)?;
            watch = watch.reopen(&client)?;
        }
    };
    let end = async {
        Timer::at(crowd.end + OVERTIME).await;
        Outcome::Ok(())
    };
    or(watching, end).await?;
    Ok((noticed, last))
}

/// Waits for the next update, and makes a call every few seconds.
async fn next_update(watch: &mut Watch, client: &Client, calls: &mut Timer) -> Option<WatchUpdate> {
    let calling = async {
        loop {
            calls.next().await;
            // Other clients check the outcomes of calls.
            let _ = client.call_tool("waiting", json!({})).await;
        }
    };
    or(watch.next(), calling).await
}

/// Announces a change about every two seconds, until as long before the end as `before`; returns the time before the last.
async fn change_until_end(crowd: &Crowd, before: Duration) -> Outcome<Instant> {
    let (client, _) = connect(&crowd.socket, EraPolicy::ModernOnly)?;
    let mut last = Instant::now();
    while Instant::now() + before < crowd.end {
        let begun = Instant::now();
        if client.call_tool("change", json!({})).await.is_ok() {
            last = begun;
        }
        Timer::after(Duration::from_secs(2)).await;
    }
    Ok(last)
}

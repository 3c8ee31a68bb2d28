//! Clients of 2025-11-25 whose event streams are cut: they resume them at the instance of their session.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use mcp_hyper::WireEvent;
use mcp_proto::Bytes;
use mcp_proto::codec::{Sse, SseItem};
use mcp_proto::front::Client;
use mcp_proto::peer::client::EraPolicy;
use mcp_proto::transport::http::ExchangeId;
use serde_json::{Value, json};
use smol::Timer;
use smol::future::or;
use smol::io::{AsyncReadExt as _, AsyncWriteExt as _};
use smol::net::unix::{UnixListener, UnixStream};

use crate::Outcome;
use crate::crowd::{Crowd, PAUSE, outcome_of};
use crate::instance_log::{ensure, options};
use crate::proofs::{BEARER, URL};

/// The steps of a call, each an event of its stream.
const STEPS: u32 = 6;
/// The events after which a connection is cut: the first of a stream is empty.
const EVENTS: usize = 3;

/// Passes connections on to the balancer, from the socket that it returns. Each is cut in the middle of an event stream;
/// the instance goes on.
pub(crate) fn cut_streams(balancer: &Path) -> Outcome<PathBuf> {
    let (balancer, socket) = (balancer.to_owned(), balancer.with_file_name("cut"));
    let listener = UnixListener::bind(&socket)?;
    let accepting = async move {
        while let Ok((client, _)) = listener.accept().await {
            smol::spawn(forward(client, balancer.clone())).detach();
        }
    };
    smol::spawn(accepting).detach();
    Ok(socket)
}

async fn forward(client: UnixStream, balancer: PathBuf) -> io::Result<()> {
    let server = UnixStream::connect(balancer).await?;
    let answering = async {
        let (mut from, mut to) = (server.clone(), client.clone());
        let (mut bytes, mut events) = ([0; 4096], 0);
        while events < EVENTS {
            let length = from.read(&mut bytes).await?;
            let read = &bytes[..length];
            if read.is_empty() {
                break;
            }
            events += read.windows(2).filter(|end| end == b"\n\n").count();
            to.write_all(read).await?;
        }
        Ok(())
    };
    let asking = async { smol::io::copy(client.clone(), server.clone()).await.map(|_| ()) };
    or(answering, asking).await
}

/// The steps that a client received, and those that it received again.
#[derive(Default)]
struct Received {
    steps: BTreeSet<String>,
    repeated: Vec<String>,
}

impl Received {
    /// Checks that no step was delivered twice, and none left out of a call that was answered.
    fn check(&self, n: u32, is_answered: bool) -> Outcome {
        ensure(self.repeated.is_empty(), || format!("events were delivered twice: {:?}", self.repeated))?;
        let missing: Vec<_> =
            (1..=STEPS).filter(|step| !self.steps.contains(&format!("{n}.{step}"))).collect();
        ensure(!is_answered || missing.is_empty(), || {
            format!("call {n} was answered without steps {missing:?}")
        })
    }

    fn insert(&mut self, step: String) {
        if !self.steps.insert(step.clone()) {
            self.repeated.push(step);
        }
    }
}

/// Makes calls that report steps, until the end. Each has one outcome, and the events of a call that is answered arrive
/// once each, however often its stream was cut.
pub(crate) async fn check_streams_until_end(crowd: Arc<Crowd>, socket: PathBuf) -> Outcome {
    let received = Arc::<Mutex<Received>>::default();
    let mut client = connect(&crowd, &socket, received.clone())?;
    while !crowd.is_over() {
        let n = crowd.next_number();
        let call = client.call_tool("count", json!({"n": n, "steps": STEPS})).on_progress(|_| {});
        let (outcome, is_gone) = outcome_of(async {
            let text = call.await?.text_content();
            Ok(if text == format!("{n}: {STEPS} steps") { "answered" } else { "answered otherwise" })
        })
        .await?;
        let is_answered = outcome == "answered";
        received.lock().unwrap_or_else(PoisonError::into_inner).check(n, is_answered)?;
        crowd.tally(|tally| {
            tally.answered.extend(is_answered.then_some(n));
            *tally.streamed.entry(outcome).or_default() += 1;
        });
        Timer::after(PAUSE).await;
        if is_gone {
            client = connect(&crowd, &socket, received.clone())?;
        }
    }
    client.close().await;
    Ok(())
}

fn connect(crowd: &Arc<Crowd>, socket: &Path, received: Arc<Mutex<Received>>) -> Outcome<Client> {
    let crowd = crowd.clone();
    let (mut streams, mut resuming) = (BTreeMap::<ExchangeId, Sse>::new(), BTreeSet::new());
    let (client, driver) = options(socket, EraPolicy::LegacyOnly)
        .header("authorization", BEARER)
        .on_wire(move |event| match event {
            WireEvent::Request { exchange, headers, .. } if headers.contains_key("last-event-id") => {
                resuming.insert(exchange);
            }
            WireEvent::Head { exchange, status, .. } => {
                let is_resumed = resuming.remove(&exchange) && status.is_success();
                crowd.tally(|tally| tally.resumed += u32::from(is_resumed));
                streams.insert(exchange, Sse::new(4096));
            }
            WireEvent::Body { exchange, bytes } => {
                let Some(stream) = streams.get_mut(&exchange) else { return };
                stream.handle_input(Bytes::copy_from_slice(bytes));
                while let Some(item) = stream.poll_item() {
                    let SseItem::Event(event) = item else { continue };
                    if let Some(step) = step_of(&event.data) {
                        received.lock().unwrap_or_else(PoisonError::into_inner).insert(step);
                    }
                }
            }
            WireEvent::Aborted { exchange } | WireEvent::End { exchange, .. } => {
                streams.remove(&exchange);
            }
            _ => {}
        })
        .connect(URL)?;
    smol::spawn(driver).detach();
    Ok(client)
}

/// The step that an event reports, if it does.
fn step_of(data: &[u8]) -> Option<String> {
    let message: Value = serde_json::from_slice(data).ok()?;
    Some(message["params"]["message"].as_str()?.to_owned())
}

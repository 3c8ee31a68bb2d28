//! A server that is killed and restarted under load, and clients that recover by themselves.
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use crate::common::runtime::{server_listener, within};
use crate::common::server::*;
use mcp_hyper::mcp_proto::front::Client;
use mcp_hyper::mcp_proto::peer::client::EraPolicy;
use mcp_hyper::{ClientOptions, Proxy};
use serde_json::json;

/// The number of calls in flight of each client.
const CALLS: usize = 8;

/// A server that can be killed without a message to its clients.
struct RestartableServer(smol::Task<std::io::Result<()>>);

impl RestartableServer {
    /// The port may still be in use for a moment.
    async fn start(address: SocketAddr) -> Self {
        let mut bound = TcpListener::bind(address);
        until("the port is free", || {
            if bound.is_err() {
                bound = TcpListener::bind(address);
            }
            bound.is_ok()
        })
        .await;
        let listener = server_listener(bound.unwrap());
        let (_, driver) = serving(router(&HandlerLog::default())).listen(listener);
        Self(smol::spawn(within(driver)))
    }

    async fn kill(self) {
        self.0.cancel().await;
    }
}

/// The number of answered calls.
type CallCount = Arc<AtomicUsize>;

/// Calls for as long as it is polled. Calls in flight when the server was killed fail, the rest wait for it.
async fn load(client: Client, answered: CallCount) {
    loop {
        let message = format!("call {}", answered.load(SeqCst));
        match client.call_tool("echo", json!({ "message": message })).await {
            Ok(result) => {
                assert_eq!(result.text_content(), message, "each call has its own answer");
                answered.fetch_add(1, SeqCst);
            }
            Err(_) => _ = smol::Timer::after(Duration::from_millis(10)).await,
        }
    }
}

async fn all_are_answered(counts: &[CallCount]) {
    let before: Vec<_> = counts.iter().map(|count| count.load(SeqCst)).collect();
    until("all clients are answered", || {
        counts.iter().zip(&before).all(|(count, before)| count.load(SeqCst) > before + 5 * CALLS)
    })
    .await;
}

fn restarted_under(modes: &[EraPolicy]) {
    bounded(async {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut server = RestartableServer::start(address).await;
        let mut running = Vec::new();
        let mut counts = Vec::new();
        for mode in modes {
            let options = ClientOptions::new("test", "1").era_policy(*mode).proxy(Proxy::none());
            let (client, driver) = options.connect(format!("http://{address}/mcp")).unwrap();
            running.push(smol::spawn(async move { drop(driver.await) }));
            client.ready().await.unwrap();
            let count = CallCount::default();
            for _ in 0..CALLS {
                running.push(smol::spawn(load(client.clone(), count.clone())));
            }
            counts.push(count);
        }
        for _ in 0..3 {
            all_are_answered(&counts).await;
            server.kill().await;
            server = RestartableServer::start(address).await;
        }
        all_are_answered(&counts).await;
    });
}

#[test]
fn modern_clients_continue_when_the_server_is_back() {
    restarted_under(&[EraPolicy::ModernOnly; 3]);
}

#[test]
fn legacy_clients_open_new_sessions_when_the_server_is_back() {
    restarted_under(&[EraPolicy::LegacyOnly; 3]);
}

//! Clients of servers whose metadata names addresses.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use hyper::rt::Timer as HyperTimer;
use mcp_hyper::{Endpoint, Runtime, Smol, Stream};
use serde_json::json;

use super::auth::noninteractive_login;
use crate::common::auth_testbed::{AuthTestbed, ok};
use crate::common::client::{modern, run};
use crate::common::runtime::within;

/// Resolves names to the test's addresses, and records the connections.
struct FakeResolver {
    addresses: Vec<SocketAddr>,
    connected: Arc<Mutex<Vec<SocketAddr>>>,
}

impl Runtime for FakeResolver {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        match host {
            "auth.example.com" => Ok(self.addresses.clone()),
            _ => Smol.resolve(host, port).await,
        }
    }

    async fn connect(&self, endpoint: &Endpoint) -> io::Result<Box<dyn Stream>> {
        if let Endpoint::Tcp(address) = endpoint
            && self.addresses.contains(address)
        {
            self.connected.lock().unwrap().push(*address);
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        Smol.connect(endpoint).await
    }

    fn timer(&self) -> Arc<dyn HyperTimer + Send + Sync> {
        Smol.timer()
    }
}

/// Runs a client whose server names an authorization server with these addresses; returns the client's error, and the
/// addresses to which it connected.
async fn connected_addresses(addresses: &[&str]) -> (String, Vec<SocketAddr>) {
    let town = AuthTestbed::with(|seen| {
        (seen.path == "/.well-known/oauth-protected-resource/mcp").then(|| {
            let resource = format!("http://{}/mcp", seen.header("host").unwrap());
            let servers = ["https://auth.example.com"];
            ok(&json!({ "resource": resource, "authorization_servers": servers }))
        })
    })
    .await;
    let connected = Arc::default();
    let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
    let names = FakeResolver { addresses, connected: Arc::clone(&connected) };
    let (client, driver) =
        modern().authorization(noninteractive_login()).runtime(names).connect(town.url()).unwrap();
    let _driver = smol::spawn(within(driver));
    let error = client.ready().await.unwrap_err().to_string();
    let connected = connected.lock().unwrap().clone();
    (error, connected)
}

/// C12.26, K21
#[test]
fn client_does_not_connect_to_names_of_private_networks() {
    run(async {
        let private = [
            "10.0.0.7:443",
            "192.168.1.1:443",
            "169.254.169.254:443",
            "100.64.0.1:443",
            "[fd00::1]:443",
            "[fe80::1]:443",
            "[::ffff:10.0.0.7]:443",
            "0.0.0.0:443",
        ];
        let (error, connected) = connected_addresses(&private).await;
        assert_eq!(connected, []);
        assert!(error.contains("the configuration allows none of its addresses"), "{error}");
    });
}

/// C12.26: of several addresses the client connects only to permitted ones, and to exactly those that it checked.
#[test]
fn client_connects_only_to_the_permitted_addresses_of_a_name() {
    run(async {
        let (error, connected) =
            connected_addresses(&["10.0.0.7:443", "93.184.216.34:443", "[fd00::1]:443"]).await;
        assert!(!connected.is_empty(), "{error}");
        assert!(
            connected.iter().all(|address| *address == "93.184.216.34:443".parse().unwrap()),
            "{connected:?}"
        );
    });
}

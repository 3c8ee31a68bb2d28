//! The checks of `mcp_proto::testing` on a socket.

use std::future::pending;
use std::net::Shutdown;

use crate::common::{self, run};
use mcp_proto::front::Client;
use mcp_proto::peer::client::EraPolicy;
use mcp_proto::testing::{TransportFault, check_transport, check_transport_failure, transport_router};
use mcp_smol::{ClientOptions, ServerOptions};
use smol::net::unix::UnixStream;

/// Runs a check over a socket, in each era.
fn over_a_socket(check: impl AsyncFn(&Client) -> Result<(), TransportFault>) {
    for eras in [EraPolicy::ModernOnly, EraPolicy::LegacyOnly] {
        run(async {
            let (ours, other) = UnixStream::pair().unwrap();
            let end = other.clone();
            let router = transport_router(move || end.shutdown(Shutdown::Both).unwrap());
            // It stops reading until its answers are read.
            let server = ServerOptions::new(router).configure(|config| {
                (config.limits.queued_bytes, config.limits.message_bytes) = (64 << 10, 256 << 10);
            });
            let (_handle, server) = server.stream(other.clone(), other);
            let server = common::spawn(server);
            let options = ClientOptions::new("test", "1.0.0").era_policy(eras);
            let (client, driver) = options.connect_stream(ours.clone(), ours);
            let driver = common::spawn(driver);
            check(&client).await.unwrap();
            drop((client, server.cancel().await, driver.cancel().await));
        });
    }
}

#[test]
fn socket_keeps_the_duties_of_a_transport() {
    over_a_socket(async |client| check_transport(client, |_| pending()).await);
}

#[test]
fn failure_of_a_socket_ends_calls_at_once() {
    over_a_socket(async |client| check_transport_failure(client, |_| pending()).await);
}

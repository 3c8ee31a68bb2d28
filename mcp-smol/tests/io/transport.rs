//! The checks of `mcp_proto::testing` on streams and on a child process.

use std::net::Shutdown;

use crate::common::{self, run};
use mcp_proto::front::Client;
use mcp_proto::peer::client::EraPolicy;
use mcp_proto::testing::{TransportFault, check_transport, check_transport_failure, transport_router};
use mcp_smol::ClientOptions;
use smol::net::unix::UnixStream;

/// Runs a check over a socket, in each era.
fn over_a_socket(check: impl AsyncFn(&Client) -> Result<(), TransportFault>) {
    for eras in [EraPolicy::ModernOnly, EraPolicy::LegacyOnly] {
        run(async {
            let (ours, other) = UnixStream::pair().unwrap();
            let end = other.clone();
            let router = transport_router(move || end.shutdown(Shutdown::Both).unwrap());
            let server = common::spawn(async { mcp_smol::serve(router, other.clone(), other).await });
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
    over_a_socket(check_transport);
}

#[test]
fn failure_of_a_socket_ends_calls_at_once() {
    over_a_socket(check_transport_failure);
}

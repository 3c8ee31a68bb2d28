//! The checks of `mcp_proto::testing` on each transport of HTTP, with the client and the server of this crate.

use std::io;

use futures_lite::future::{or, pending};
use mcp_hyper::mcp_proto::front::http::HttpServer;
use mcp_hyper::mcp_proto::front::{Client, Error};
use mcp_hyper::mcp_proto::peer::client::EraPolicy;
use mcp_hyper::mcp_proto::testing::{
    TransportFault, check_transport, check_transport_failure, transport_router,
};
use smol::Task;
use smol::channel::{self, Receiver};
#[cfg(unix)]
use smol::net::unix::UnixStream;

use crate::common::client::{connect, run};
use crate::common::runtime::within;
use crate::common::server::{listener, serving};
use crate::websocket::pair::speaking;

/// A client of a server that fails when it is told to.
struct Connected {
    client: Client,
    driver: Task<Result<(), Error>>,
    _server: HttpServer,
    serving: Task<io::Result<()>>,
    failed: Receiver<()>,
}

impl Connected {
    /// Over HTTP on streams of a client and a server.
    #[cfg(unix)]
    fn on_a_stream(eras: EraPolicy) -> Self {
        let (fail, failed) = channel::bounded(1);
        let router = transport_router(move || fail.try_send(()).unwrap());
        let (ours, other) = UnixStream::pair().unwrap();
        let (service, serving) = serving(router).service();
        let server = service.server().clone();
        let connection = async move { service.http2_connection(other).await.map_err(io::Error::other) };
        let serving = smol::spawn(within(or(connection, serving)));
        let (client, driver) = speaking(eras).connect_stream(ours).unwrap();
        Self { client, driver: smol::spawn(within(driver)), _server: server, serving, failed }
    }

    fn new(scheme: &str, eras: EraPolicy) -> Self {
        #[cfg(unix)]
        if scheme == "stdio-v2" {
            return Self::on_a_stream(eras);
        }
        let (fail, failed) = channel::bounded(1);
        let router = transport_router(move || fail.try_send(()).unwrap());
        let (listener, address) = listener();
        let (server, serving) = serving(router).websocket().listen(listener);
        let serving = smol::spawn(within(serving));
        let options = speaking(eras);
        let (options, scheme) = match scheme {
            "http2" => (options.http2_prior_knowledge(), "http"),
            scheme => (options, scheme),
        };
        let (client, driver) = connect(options, &format!("{scheme}://{address}/mcp"));
        Self { client, driver, _server: server, serving, failed }
    }
}

/// Runs a check over each transport, in each era.
fn over_each(check: impl AsyncFn(&Client) -> Result<(), TransportFault>) {
    let schemes = ["http", "http2", "ws", "stdio-v2"];
    for scheme in schemes.into_iter().take(if cfg!(unix) { 4 } else { 3 }) {
        for eras in [EraPolicy::ModernOnly, EraPolicy::LegacyOnly] {
            run(async {
                let Connected { client, driver, _server, serving, failed } = Connected::new(scheme, eras);
                let crash = async {
                    failed.recv().await.unwrap();
                    serving.cancel().await;
                    pending().await
                };
                or(check(&client), crash).await.unwrap_or_else(|fault| panic!("{scheme}, {eras:?}: {fault}"));
                driver.cancel().await;
            });
        }
    }
}

#[test]
fn each_transport_keeps_its_duties() {
    over_each(async |client| check_transport(client, |_| pending()).await);
}

#[test]
fn failure_of_a_server_ends_calls_at_once() {
    over_each(async |client| check_transport_failure(client, |_| pending()).await);
}

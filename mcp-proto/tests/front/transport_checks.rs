//! `testing::check_transport`: each transport keeps its duties, and the checks find one that is not kept.

use core::future::pending;
use core::num::NonZeroUsize;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::Arc;

use mcp_proto::Implementation;
use mcp_proto::adapter::{self, SystemClock};
use mcp_proto::front::layer::{Decision, Layer, LayerMessage};
use mcp_proto::front::{ClientHandlers, HandlerMode};
use mcp_proto::peer::client::ClientConfig;
use mcp_proto::rpc::Raw;
use mcp_proto::testing::{
    self, Network, RouterPair, TransportDuty, check_transport, check_transport_failure, transport_router,
};
use mcp_proto::transport::StreamClient;
use serde_json::{Value, json};

/// The ways to join a pair.
fn pairs() -> [RouterPair; 4] {
    let pair = || testing::pair(transport_router(|| {}));
    [pair(), pair().legacy(), pair().http(), pair().http().legacy()]
}

/// The duty that the transport of a pair does not keep.
fn fault(mut pair: RouterPair) -> Option<TransportDuty> {
    pair.run(async |client| check_transport(&client, |_| pending()).await).err().map(|fault| fault.duty)
}

#[test]
fn each_transport_keeps_its_duties_in_each_era() {
    for pair in pairs() {
        assert_eq!(fault(pair), None);
    }
    let pieces = Network { latency: Duration::from_millis(5), chunk: NonZeroUsize::new(997) };
    for pair in pairs() {
        assert_eq!(fault(pair.network(pieces)), None);
    }
}

/// Stands for a transport that does not keep a duty.
#[derive(Clone)]
struct Unfit(TransportDuty);

impl<M: HandlerMode> Layer<M> for Unfit {
    fn message(&self, message: &mut LayerMessage<'_>) -> Decision {
        match self.0 {
            TransportDuty::Order if message.method() == Some("notifications/progress") => Decision::Drop,
            TransportDuty::Messages if message.result().is_some() => {
                let mut result: Value = message.result().unwrap().decode().unwrap();
                if let Some(text) = result["content"][0]["text"].as_str() {
                    result["content"][0]["text"] = json!(text.replace('\n', " "));
                    message.set_result(Raw::encode(&result).unwrap()).unwrap();
                }
                Decision::Keep
            }
            _ => Decision::Keep,
        }
    }
}

#[test]
fn messages_that_are_changed_or_missing_are_faults() {
    for duty in [TransportDuty::Messages, TransportDuty::Order] {
        for pair in pairs() {
            assert_eq!(fault(pair.handlers(ClientHandlers::new().layer(Unfit(duty)))), Some(duty));
        }
    }
}

#[test]
fn call_that_arrives_twice_is_a_fault() {
    for mut pair in pairs() {
        let found = pair.run(async |client| {
            client.call_tool("release", json!({})).await.unwrap();
            check_transport(&client, |_| pending()).await.unwrap_err()
        });
        assert_eq!((found.duty, &*found.detail), (TransportDuty::Messages, "1 calls arrived as 2"));
    }
}

#[test]
fn driver_that_stands_still_is_a_fault() {
    let (client, _driver) = adapter::client(
        StreamClient::new(ClientConfig::new(Implementation::new("test", "1.0.0"))),
        Arc::new(SystemClock::new()),
        ClientHandlers::new(),
    );
    let sleep = async |limit| assert_eq!(limit, Duration::from_secs(40));
    let checks =
        async { [check_transport(&client, sleep).await, check_transport_failure(&client, sleep).await] };
    let Poll::Ready(found) = pin!(checks).poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("the checks are not bounded");
    };
    let duties = found.map(|found| found.unwrap_err().duty);
    assert_eq!(duties, [TransportDuty::Start, TransportDuty::Failure]);
}

#[test]
fn server_that_fails_unseen_is_a_fault() {
    for mut pair in pairs() {
        let found =
            pair.run(async |client| check_transport_failure(&client, |_| pending()).await).unwrap_err();
        assert_eq!(found.duty, TransportDuty::Failure);
        assert!(found.to_string().contains("by its timeout"), "{found}");
    }
}

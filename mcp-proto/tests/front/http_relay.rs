//! Change notifications between the instances of a server.

use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use futures_lite::Stream;
use mcp_proto::front::http::{Change, ChangeRelay, ChangeStream, HttpServerEvent, PublishFuture};
use mcp_proto::peer::server::ListKind;
use serde_json::{Value, json};

use crate::common::front_http::{HttpHarness, TestExchange, router};

/// A broker in memory, which a test can stop.
#[derive(Clone, Default)]
pub(crate) struct Broker(Arc<Mutex<BrokerState>>);

#[derive(Default)]
struct BrokerState {
    /// The changes that each subscriber has not taken, and its waker.
    queues: Vec<(VecDeque<Change>, Option<Waker>)>,
    published: Vec<Vec<Change>>,
    is_down: bool,
}

impl Broker {
    /// An instance of the server that uses the broker.
    pub(crate) fn instance(&self) -> HttpHarness {
        let mut web = HttpHarness::new(router().0);
        let relay = Arc::new(self.clone());
        web.driver = web.driver.take().map(|driver| driver.relay_changes(relay));
        web.poll_driver();
        web
    }

    pub(crate) fn deliver(&self, changes: &[Change]) {
        for (queue, waker) in &mut self.0.lock().unwrap().queues {
            queue.extend(changes.iter().cloned());
            waker.take().into_iter().for_each(Waker::wake);
        }
    }

    fn set_down(&self, is_down: bool) {
        self.0.lock().unwrap().is_down = is_down;
    }

    fn take_published(&self) -> Vec<Vec<Change>> {
        std::mem::take(&mut self.0.lock().unwrap().published)
    }
}

impl ChangeRelay for Broker {
    fn publish(&self, changes: Vec<Change>) -> PublishFuture {
        let broker = self.clone();
        Box::pin(poll_fn(move |_| {
            if broker.0.lock().unwrap().is_down {
                return Poll::Ready(Err("the broker is down".to_owned()));
            }
            broker.deliver(&changes);
            broker.0.lock().unwrap().published.push(changes.clone());
            Poll::Ready(Ok(()))
        }))
    }

    fn subscribe(&self) -> ChangeStream {
        let mut broker = self.0.lock().unwrap();
        broker.queues.push(Default::default());
        Box::pin(BrokerStream { broker: self.clone(), index: broker.queues.len() - 1 })
    }
}

struct BrokerStream {
    broker: Broker,
    index: usize,
}

impl Stream for BrokerStream {
    type Item = Change;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Change>> {
        let (queue, waker) = &mut self.broker.0.lock().unwrap().queues[self.index];
        match queue.pop_front() {
            Some(change) => Poll::Ready(Some(change)),
            None => {
                *waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// A listening client of 2026-07-28, and the stream of a session that subscribed to `file:///a`.
fn listeners(web: &mut HttpHarness) -> [TestExchange; 2] {
    let filter = json!({"toolsListChanged": true, "resourceSubscriptions": ["file:///a"]});
    let mut listener = web.ask("subscriptions/listen", json!({"notifications": filter}));
    assert_eq!(listener.message()["method"], "notifications/subscriptions/acknowledged");
    let session = web.open();
    let subscribed = web.post_request(&session, "resources/subscribe", json!({"uri": "file:///a"})).message();
    assert_eq!(subscribed["result"], json!({}));
    let mut stream = web.get(&session, None);
    stream.poll_exchange();
    [listener, stream]
}

/// The notifications that came, in order: their methods, and the URIs of resources.
fn notified(web: &mut HttpHarness, stream: &mut TestExchange) -> Vec<String> {
    web.poll_driver();
    let name = |message: Value| {
        let method = message["method"].as_str().unwrap().trim_start_matches("notifications/").to_owned();
        message["params"]["uri"].as_str().map_or(method.clone(), |uri| format!("{method} {uri}"))
    };
    std::iter::from_fn(|| stream.try_message()).map(name).collect()
}

/// S5.1: clients of either era learn of the changes that another instance reports.
#[test]
fn change_reaches_the_clients_of_another_instance() {
    let broker = Broker::default();
    let (mut one, mut other) = (broker.instance(), broker.instance());
    let streams = listeners(&mut other);
    one.server.list_changed(ListKind::Tools);
    one.server.resource_updated("file:///a");
    one.server.resource_updated("file:///b");
    one.poll_driver();
    for mut stream in streams {
        let expected = ["tools/list_changed", "resources/updated file:///a"];
        assert_eq!(notified(&mut other, &mut stream), expected);
    }
    // An instance does not publish the changes that it received.
    one.poll_driver();
    let all = [
        Change::List(ListKind::Tools),
        Change::Resource("file:///a".into()),
        Change::Resource("file:///b".into()),
    ];
    assert_eq!(broker.take_published().concat(), all);
}

#[test]
fn failed_publication_is_repeated_with_the_changes_of_the_meantime() {
    let broker = Broker::default();
    let mut web = broker.instance();
    let mut events = web.server.events();
    let mut streams = listeners(&mut web);
    events.drain();
    broker.set_down(true);
    for _ in 0..3 {
        web.server.resource_updated("file:///a");
        web.advance(Duration::from_millis(999));
    }
    web.server.list_changed(ListKind::Tools);
    assert!(broker.take_published().is_empty());
    // The clients of the instance itself do not wait for the broker.
    assert!(!notified(&mut web, &mut streams[0]).is_empty());
    let failed = HttpServerEvent::RelayFailed { message: "the broker is down".to_owned() };
    assert_eq!(events.drain(), [failed]);
    broker.set_down(false);
    web.advance(Duration::from_secs(1));
    let once = [Change::List(ListKind::Tools), Change::Resource("file:///a".into())];
    assert_eq!(broker.take_published(), [once]);
}

/// A relay that lost changes says so, and clients read everything again that they subscribed to.
#[test]
fn lost_changes_are_repaired_by_notifying_of_everything() {
    let broker = Broker::default();
    let mut web = broker.instance();
    let [mut listener, mut stream] = listeners(&mut web);
    broker.deliver(&[Change::Any]);
    let expected = ["tools/list_changed", "resources/updated file:///a"];
    assert_eq!(notified(&mut web, &mut listener), expected);
    // A session is notified of each list that the server declares.
    let expected = ["tools/list_changed", "resources/list_changed", "resources/updated file:///a"];
    assert_eq!(notified(&mut web, &mut stream), expected);
}

#[test]
fn too_many_changes_become_one() {
    let broker = Broker::default();
    let mut web = broker.instance();
    for number in 0..=1024 {
        web.server.resource_updated(format!("file:///{number}"));
    }
    web.poll_driver();
    assert_eq!(broker.take_published(), [[Change::Any]]);
}

//! Change notifications between instances, in Redis.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use futures_lite::StreamExt as _;
use mcp_hyper::mcp_proto::front::http::{Change, ChangeRelay as _};
use mcp_hyper::mcp_proto::peer::server::ListKind;

use mcp_hyper::redis::{RedisError, RedisEvent};

use super::peer::{Connection, Peer, PeerAction, bulk};
use crate::common::client::run;
use crate::common::server::until;

/// The confirmation of a subscription, and then a message with this text.
fn subscribed(message: &str) -> Vec<u8> {
    let channel = bulk("mcp:changes@0");
    let confirmation = [&b"*3\r\n"[..], &bulk("subscribe"), &channel, b":1\r\n"].concat();
    [&confirmation[..], b"*3\r\n", &bulk("message"), &channel, &bulk(message)].concat()
}

fn changes() -> Vec<Change> {
    vec![Change::List(ListKind::Tools), Change::Resource("file:///a b".into()), Change::Any]
}

/// The message with [`changes`].
const MESSAGE: &str = "tools\0resource file:///a b\0any";

#[test]
fn changes_are_published_in_one_message() {
    run(async {
        let peer =
            Peer::start(|_, command| (command[0] == "PUBLISH").then(|| PeerAction::send(":2\r\n"))).await;
        let connection = Connection::open(&peer.url);
        connection.redis.publish(changes()).await.unwrap();
        let (_, published) = peer.received().pop().unwrap();
        assert_eq!(published, ["PUBLISH", "mcp:changes@0", MESSAGE]);
    });
}

/// A subscription may begin after the first change.
#[test]
fn subscription_that_begins_or_was_lost_reports_any_change() {
    run(async {
        let peer = Peer::start(|_, command| {
            (command[0] == "SUBSCRIBE").then(|| PeerAction::close(subscribed("tools\0resource file:///a b")))
        })
        .await;
        let connection = Connection::open(&peer.url);
        let received: Vec<_> = connection.redis.subscribe().take(6).collect().await;
        let once = [Change::Any, Change::List(ListKind::Tools), Change::Resource("file:///a b".into())];
        assert_eq!(received, [once.clone(), once].concat());
    });
}

/// Otherwise an operator would not know that a permission is missing: commands work.
#[test]
fn subscription_that_is_refused_is_reported_once_for_each_reason() {
    run(async {
        let refusals = AtomicUsize::new(0);
        let peer = Peer::start(move |_, command| {
            (command[0] == "SUBSCRIBE").then(|| match refusals.fetch_add(1, Relaxed) {
                0..3 => PeerAction::send("-NOPERM this user has no permissions to access a channel\r\n"),
                _ => PeerAction::close(subscribed("tools")),
            })
        })
        .await;
        let connection = Connection::open(&peer.url);
        connection.ready().await.unwrap();
        let received: Vec<_> = connection.redis.subscribe().take(4).collect().await;
        let once = [Change::Any, Change::List(ListKind::Tools)];
        assert_eq!(received, [once.clone(), once].concat());
        until("both reasons are reported", || connection.events().len() == 3).await;
        let events = connection.events();
        assert_eq!(events[0], RedisEvent::Connected);
        let RedisEvent::NotSubscribed(RedisError::Unsuitable(why)) = &events[1] else { panic!("{events:?}") };
        assert!(why.contains("NOPERM"), "{why}");
        assert!(matches!(events[2], RedisEvent::NotSubscribed(RedisError::Unavailable(_))), "{events:?}");
    });
}

#[test]
fn message_that_is_unknown_or_too_long_may_be_any_change() {
    for message in ["of a later version".to_owned(), "tools\0".repeat(2000), format!("tools\0{MESSAGE}")] {
        run(async {
            let peer = Peer::start(move |_, command| {
                (command[0] == "SUBSCRIBE").then(|| PeerAction::send(subscribed(&message)))
            })
            .await;
            let connection = Connection::open(&peer.url);
            let received: Vec<_> = connection.redis.subscribe().take(2).collect().await;
            assert_eq!(received, [Change::Any, Change::Any]);
        });
    }
}

//! Redis as a shared store, against a peer whose replies the tests choose.

mod changes;
mod peer;
mod single_use;

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use mcp_hyper::mcp_proto::Secret;
use mcp_hyper::mcp_proto::front::tasks::{StoreError, TaskRecord, TaskStore};
use mcp_hyper::redis::{RedisError, RedisEvent, RedisOptions};

use self::peer::{Command, Connection, INFO, Peer, PeerAction, bulk, is_identification};
use crate::common::client::run;
use crate::common::server::until;

/// The JSON of a task that works.
const TASK: &str = r#"{"id":"a1","owner":null,"version":0,"created_at":1700000000000,"updated_at":1700000000000,"ttl":60000,"poll_interval":1000,"message":null,"status":"working","asked":null,"result":null,"error":null}"#;

fn task() -> TaskRecord {
    TaskRecord::from_json(TASK).unwrap()
}

/// Replies to `HGET`, which looks up a task.
fn on_lookup(command: &Command, act: impl FnOnce() -> PeerAction) -> Option<PeerAction> {
    (command[0] == "HGET").then(act)
}

/// The text of a failure.
fn failed<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
    match result.unwrap_err() {
        StoreError::Failed(why) => why,
        error => panic!("{error}"),
    }
}

#[test]
fn connection_logs_in_and_selects_its_database_first() {
    run(async {
        let peer = Peer::start(|_, _| None).await;
        let url = peer.url.replace("//", "//me:wrong@") + "/3";
        let options = RedisOptions::new(&url).unwrap().password(Secret::new("right"));
        let connection = Connection::with(options);
        connection.ready().await.unwrap();
        let received: Vec<_> = peer.received().into_iter().map(|(_, command)| command.join(" ")).collect();
        assert_eq!(received[..4], ["AUTH me right", "SELECT 3", "INFO", "CONFIG GET appendfsync"]);
        assert!(received[4].starts_with("EVAL") && received[4].ends_with(" 1 mcp:redis r1 p1"));
        assert_eq!(received[5..], ["PING"]);
        assert_eq!(connection.events(), [RedisEvent::Connected]);
        let lost_before = connection.redis.lost_before().unwrap();
        assert_eq!(lost_before.since_epoch(), Duration::from_millis(1_700_000_000_000));
    });
}

/// A connection to a Redis with another output of `INFO`.
async fn connect_with(from: &'static str, to: &'static str) -> (Peer, Connection) {
    let peer = Peer::start(move |_, command| {
        (command[0] == "INFO").then(|| PeerAction::send(bulk(&INFO.replace(from, to))))
    })
    .await;
    let connection = Connection::open(&peer.url);
    (peer, connection)
}

/// Waits until the connection has ended for this reason.
async fn until_lost(connection: &Connection, reason: &str) {
    until(reason, || {
        connection.events().iter().any(
            |event| matches!(event, RedisEvent::Disconnected(error) if error.to_string().contains(reason)),
        )
    })
    .await;
}

#[test]
fn redis_that_evicts_keys_is_refused_with_what_to_set() {
    run(async {
        let (_peer, connection) = connect_with("noeviction", "allkeys-lru").await;
        assert_eq!(
            connection.ready().await.unwrap_err().to_string(),
            "Redis is configured unsuitably: it evicts keys when its memory is full (maxmemory-policy allkeys-lru): \
             set maxmemory-policy noeviction"
        );
        let (_peer, connection) = connect_with("maxmemory_policy", "x").await;
        assert!(matches!(connection.ready().await, Err(RedisError::Unsuitable(_))));
    });
}

/// Otherwise a restart would be taken for the same process.
#[test]
fn redis_without_an_identity_is_refused() {
    run(async {
        for field in ["run_id", "master_replid"] {
            let (_peer, connection) = connect_with(field, "x").await;
            let error = connection.ready().await.unwrap_err().to_string();
            assert!(error.contains("it does not say which process it is"), "{error}");
        }
    });
}

#[test]
fn redis_that_repeats_the_password_does_not_reveal_it() {
    run(async {
        let peer = Peer::start(|_, command| {
            let reply = format!(
                "-ERR unknown command 'AUTH', with args beginning with: '{}'\r\n",
                command[1..].join("' '")
            );
            (command[0] == "AUTH").then(|| PeerAction::send(reply))
        })
        .await;
        let options = RedisOptions::new(&peer.url).unwrap().password(Secret::new("hunter2"));
        let error = Connection::with(options).ready().await.unwrap_err();
        assert_eq!(error, RedisError::Unsuitable("ERR it does not accept AUTH".to_owned()));
    });
}

#[test]
fn replica_and_loading_redis_are_not_used() {
    run(async {
        let (_peer, connection) = connect_with("role:master", "role:slave").await;
        until_lost(&connection, "it is a replica: the URL must name the primary").await;
        let (_peer, connection) = connect_with("loading:0", "loading:1").await;
        until_lost(&connection, "it is loading its data").await;
    });
}

#[test]
fn connection_opens_once_an_unsuitable_redis_is_configured() {
    run(async {
        static IS_FIXED: AtomicBool = AtomicBool::new(false);
        let peer = Peer::start(|_, command| {
            (command[0] == "SELECT" && !IS_FIXED.load(SeqCst))
                .then(|| PeerAction::send("-NOAUTH Authentication required.\r\n"))
        })
        .await;
        let connection = Connection::open(&peer.url);
        assert!(matches!(connection.ready().await, Err(RedisError::Unsuitable(_))));
        // Commands fail at once until it is.
        let begun = Instant::now();
        assert!(failed(connection.redis.get("a1").await).contains("NOAUTH"));
        assert!(begun.elapsed() < Duration::from_secs(1));
        IS_FIXED.store(true, SeqCst);
        until("the connection opens", || connection.events().contains(&RedisEvent::Connected)).await;
        assert_eq!(connection.redis.get("a1").await, Ok(None));
    });
}

#[test]
fn events_report_lost_durability_and_a_restart() {
    run(async {
        let peer = Peer::start(|_, command| match &*command[0] {
            "CONFIG" => {
                Some(PeerAction::send([&b"*2\r\n"[..], &bulk("appendfsync"), &bulk("everysec")].concat()))
            }
            "EVAL" if is_identification(command) => Some(PeerAction::send("*2\r\n:1\r\n$1\r\n7\r\n")),
            _ => None,
        })
        .await;
        let connection = Connection::open(&peer.url);
        connection.ready().await.unwrap();
        let loss = RedisEvent::NotDurable("set appendfsync always (it is everysec)".into());
        assert_eq!(connection.events(), [RedisEvent::Connected, loss, RedisEvent::Restarted]);
        let peer = Peer::start(|_, command| {
            (command[0] == "INFO")
                .then(|| PeerAction::send(bulk(&INFO.replace("aof_enabled:1", "aof_enabled:0"))))
        })
        .await;
        let connection = Connection::open(&peer.url);
        connection.ready().await.unwrap();
        let loss = RedisEvent::NotDurable("set appendonly yes and appendfsync always".into());
        assert_eq!(connection.events()[1], loss);
    });
}

#[test]
fn commands_follow_each_other_without_waiting_for_replies() {
    run(async {
        let peer = Peer::start(|_, command| {
            on_lookup(command, || match &*command[1] {
                "mcp:task:a" => PeerAction::Wait,
                _ => PeerAction::send([&bulk(TASK)[..], b"$-1\r\n"].concat()),
            })
        })
        .await;
        let Connection { redis, .. } = &Connection::open(&peer.url);
        let (first, second) = smol::future::zip(redis.get("a"), redis.get("b")).await;
        assert_eq!((first.unwrap(), second.unwrap()), (Some(task()), None));
    });
}

#[test]
fn commands_are_sent_again_after_the_connection_was_lost() {
    run(async {
        for end in [
            "",
            "$500\r\n{",
            "-READONLY You can't write against a read only replica.\r\n",
            "$x\r\n",
            "%1\r\n",
        ] {
            let peer = Peer::start(move |connection, command| {
                on_lookup(command, || match connection {
                    0 => PeerAction::close(end),
                    _ => PeerAction::send(bulk(TASK)),
                })
            })
            .await;
            let connection = Connection::open(&peer.url);
            assert_eq!(connection.redis.get("a1").await, Ok(Some(task())), "{end}");
            assert_eq!(peer.count("HGET"), 2);
            assert!(matches!(connection.events()[1], RedisEvent::Disconnected(RedisError::Unavailable(_))));
        }
    });
}

#[test]
fn write_that_is_sent_again_has_the_same_token_and_version() {
    run(async {
        let peer = Peer::start(|connection, command| match (&*command[0], connection) {
            ("EVAL", _) if is_identification(command) => None,
            ("EVAL", 0) => Some(PeerAction::close("")),
            ("EVAL", _) => Some(PeerAction::send("+stored\r\n")),
            _ => None,
        })
        .await;
        let Connection { redis, .. } = &Connection::open(&peer.url);
        let version = redis.update(task()).await.unwrap();
        let received = peer.received();
        let writes: Vec<_> = received
            .iter()
            .filter(|(_, command)| command[0] == "EVAL" && !is_identification(command))
            .map(|(_, command)| command)
            .collect();
        assert_eq!(writes.len(), 2);
        assert_eq!(writes[0], writes[1]);
        assert_eq!((&writes[0][7], &writes[0][9]), (&version.to_string(), &"0".to_owned()));
        // One that was forgotten in a failover had another version.
        assert_ne!(redis.update(task()).await, Ok(version));
    });
}

#[test]
fn command_fails_if_redis_is_silent_and_the_next_has_a_new_connection() {
    run(async {
        let peer = Peer::start(|connection, command| {
            on_lookup(
                command,
                || if connection == 0 { PeerAction::Wait } else { PeerAction::send("$-1\r\n") },
            )
        })
        .await;
        let options = RedisOptions::new(&peer.url).unwrap().timeout(Duration::from_millis(200));
        let connection = Connection::with(options);
        let Connection { redis, .. } = &connection;
        assert!(failed(redis.get("a1").await).contains("gave up after 200 ms"));
        // On a slow machine it takes several attempts.
        while redis.get("a1").await != Ok(None) {}
        until_lost(&connection, "the connection was closed after no reply within 200 ms").await;
    });
}

#[test]
fn unusable_replies_are_errors_of_their_commands() {
    run(async {
        let peer = Peer::start(|_, command| {
            on_lookup(command, || {
                PeerAction::send(match &*command[1] {
                    "mcp:task:number" => b":7\r\n".to_vec(),
                    "mcp:task:json" => bulk("{}"),
                    "mcp:task:type" => b"-WRONGTYPE Operation against a key\r\n".to_vec(),
                    _ => b"-OOM command not allowed when used memory > 'maxmemory'.\r\n".to_vec(),
                })
            })
        })
        .await;
        let connection = Connection::open(&peer.url);
        let Connection { redis, .. } = &connection;
        assert_eq!(failed(redis.get("number").await), "Redis sent a reply that is not one to this command");
        assert!(failed(redis.get("json").await).contains("missing field"));
        assert_eq!(
            failed(redis.get("type").await),
            "Redis refused the command: WRONGTYPE Operation against a key"
        );
        assert_eq!(redis.get("full").await, Err(StoreError::Full));
        assert_eq!(connection.events(), [RedisEvent::Connected]);
    });
}

#[test]
fn connection_is_closed_before_an_oversized_reply_arrives() {
    run(async {
        let peer = Peer::start(|_, command| on_lookup(command, || PeerAction::send("$99000000\r\n"))).await;
        let connection = Connection::open(&peer.url);
        let mut lookup = connection.redis.get("a1");
        assert!(smol::future::poll_once(&mut lookup).await.is_none());
        until_lost(&connection, "a reply is too large").await;
    });
}

#[test]
fn commands_beyond_the_limit_are_refused() {
    run(async {
        let peer = Peer::start(|_, command| on_lookup(command, || PeerAction::Wait)).await;
        let Connection { redis, .. } = &Connection::open(&peer.url);
        redis.ready().await.unwrap();
        let mut waiting: Vec<_> = (0..10_000).map(|_| redis.get("a1")).collect();
        for lookup in &mut waiting {
            assert!(smol::future::poll_once(lookup).await.is_none());
        }
        assert_eq!(failed(redis.get("a1").await), "too many commands wait for Redis");
    });
}

#[test]
fn commands_fail_while_redis_is_down() {
    run(async {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        drop(listener);
        let options = RedisOptions::new(&url).unwrap().timeout(Duration::from_millis(200));
        let Connection { redis, .. } = &Connection::with(options);
        while !redis.ready().await.unwrap_err().to_string().contains("connection refused") {}
        // It has been down for as long as a command may wait: the next does not.
        let begun = Instant::now();
        until("commands fail at once", || {
            let lookup = smol::block_on(smol::future::poll_once(redis.get("a1")));
            lookup.is_some_and(|lookup| failed(lookup).contains("connection refused"))
        })
        .await;
        assert!(begun.elapsed() < Duration::from_secs(5));
    });
}

#[test]
fn commands_fail_without_their_driver() {
    run(async {
        let peer = Peer::start(|_, command| on_lookup(command, || PeerAction::Wait)).await;
        let options = RedisOptions::new(&peer.url).unwrap().runtime(crate::common::runtime::TestRuntime);
        let (redis, driver) = options.connect().unwrap();
        let mut lookup = redis.get("a1");
        assert!(smol::future::poll_once(&mut lookup).await.is_none());
        drop(driver);
        assert!(failed(lookup.await).contains("the driver of the connection has ended"));
        assert!(redis.ready().await.is_err());
    });
}

#[test]
fn driver_ends_with_the_last_handle() {
    run(async {
        let peer = Peer::start(|_, _| None).await;
        let options = RedisOptions::new(&peer.url).unwrap().runtime(crate::common::runtime::TestRuntime);
        let (redis, driver) = options.connect().unwrap();
        let (ready, ()) = smol::future::zip(
            async {
                let ready = redis.ready().await;
                drop(redis);
                ready
            },
            driver,
        )
        .await;
        ready.unwrap();
    });
}

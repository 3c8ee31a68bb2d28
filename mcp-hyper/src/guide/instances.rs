//! Several instances of a server behind a balancer, with their shared state in Redis.
//!
//! ```text
//! clients ── balancer ─┬─ instance ─┐
//!                      ├─ instance ─┼─ Redis (one primary; replicas take over by its name or address)
//!                      └─ instance ─┘
//! ```
//!
//! Requests of 2026-07-28 go to any instance, round robin. Sessions of older clients stay with the instance that opened
//! them.
//!
//! # What instances share
//!
//! | Instances share | By |
//! |---|---|
//! | the keys of request states, so that each continues a request that another suspended for input | [`Router::seal`](crate::Router::seal): a file of 32 random bytes that each instance reads |
//! | used request states, if each must count once | the store of [`Router::single_use`](crate::Router::single_use) |
//! | used proofs and the key of nonces, if tokens are bound to keys (DPoP) | `Guard::single_use` and `DpopConfig::nonces` |
//! | tasks: input and cancellation reach the instance that runs a task within its [poll interval](mcp_proto::front::tasks::TaskConfig::poll_interval) | [`TaskConfig::store`](mcp_proto::front::tasks::TaskConfig::store) |
//! | changes of lists and resources that the application reports at one of them | [`ServerOptions::relay_changes`](crate::ServerOptions::relay_changes) |
//!
//! `redis::Redis`, with the feature `redis`, is the store of all of them, and the relay. Several processes on one machine
//! can share a folder instead: `SharedFolder` is the same stores, and no relay; `SharedFolder::on_error` says why it failed,
//! such as a full disk. Notifications about a task reach only clients that listen at the instance that runs it.
//!
//! ```no_run
//! use std::future::{Future, pending};
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use mcp_hyper::mcp_proto::front::tasks::TaskConfig;
//! use mcp_hyper::mcp_proto::peer::server::{SealKey, Sealer};
//! use mcp_hyper::mcp_proto::transport::http::server::{Hosts, SessionPrefix};
//! use mcp_hyper::redis::Redis;
//! use mcp_hyper::{Router, ServerOptions};
//! use smol::future::or;
//! use smol::net::TcpListener;
//!
//! /// Runs the instance of this name until SIGTERM.
//! async fn serve(router: Router, name: &str, sigterm: impl Future) -> Result<(), Box<dyn std::error::Error>> {
//!     let key: [u8; 32] = std::fs::read("/run/secrets/states")?.try_into().map_err(|_| "not 32 bytes")?;
//!     let (redis, driver) = Redis::connect("redis://redis.internal/0")?;
//!     smol::spawn(driver).detach();
//!     redis.ready().await?;
//!
//!     let mut tasks = TaskConfig::default();
//!     tasks.store = Arc::new(redis.clone());
//!     let router = router
//!         .seal(Sealer::new(SealKey::new(key), []))
//!         .single_use(Arc::new(redis.clone()))
//!         .tasks(tasks);
//!     let prefix = SessionPrefix::new(name)?;
//!     let (server, driver) = ServerOptions::new(router)
//!         .configure(|config| {
//!             // The balancer passes on the `Host` that clients use.
//!             config.hosts = Hosts::Only(vec!["mcp.example".into()]);
//!             config.session_prefix = Some(prefix);
//!         })
//!         .relay_changes(Arc::new(redis))
//!         .health("/healthz", || true)
//!         .listen(TcpListener::bind("0.0.0.0:8000").await?);
//!     let draining = async {
//!         sigterm.await;
//!         server.drain(Duration::from_secs(5));
//!         pending().await
//!     };
//!     Ok(or(driver, draining).await?)
//! }
//! ```
//!
//! # The balancer
//!
//! It finds the instance of a session by the [name](mcp_proto::transport::http::server::HttpServerConfig::session_prefix)
//! with which the session's id begins; hashing `Mcp-Session-Id` does not, as the id does not exist yet when the session is
//! opened. With nginx and two instances, `one` and `two`:
//!
//! ```nginx
//! upstream any { server 10.0.0.1:8000; server 10.0.0.2:8000; }
//! upstream one { server 10.0.0.1:8000; server 10.0.0.2:8000 backup; }
//! upstream two { server 10.0.0.2:8000; server 10.0.0.1:8000 backup; }
//!
//! map $http_mcp_session_id $target {
//!     default any;
//!     ~^one\. one;
//!     ~^two\. two;
//! }
//!
//! server {
//!     location /mcp {
//!         proxy_pass http://$target;
//!         proxy_http_version 1.1;
//!         proxy_set_header Connection "";
//!         proxy_set_header Host $http_host;
//!         # Events are forwarded at once, and streams stay open: a server sends at least a comment every 15 seconds.
//!         proxy_buffering off;
//!         proxy_read_timeout 60s;
//!     }
//! }
//! ```
//!
//! nginx checks no health by itself: it notices an instance that refuses connections. To end an instance without losing a
//! call, remove it from the configuration and reload before SIGTERM. HAProxy checks each instance:
//!
//! ```text
//! defaults
//!     mode http
//!     timeout connect 2s
//!     timeout client 60s
//!     # Streams stay open: a server sends at least a comment every 15 seconds.
//!     timeout server 60s
//!     # A request that no instance has read goes to another.
//!     option redispatch 1
//!
//! frontend mcp
//!     bind :443 ssl crt /etc/haproxy/mcp.pem alpn h2,http/1.1
//!     default_backend instances
//!
//! backend instances
//!     balance roundrobin
//!     # The instance of the session.
//!     use-server one if { req.hdr(mcp-session-id) -m beg one. }
//!     use-server two if { req.hdr(mcp-session-id) -m beg two. }
//!     # An instance that drains answers 503, and gets no more requests.
//!     option httpchk GET /healthz
//!     default-server check inter 1s fall 2 rise 1
//!     server one 10.0.0.1:8000
//!     server two 10.0.0.2:8000
//! ```
//!
//! A client whose instance is gone gets 404 from another, and opens a new session. It loses what the old session held in
//! memory:
//!
//! - calls in progress: they may have run. A client of this crate reports so, and repeats none;
//! - events that it had not read: the new session does not resume the streams of the old one. A shared store of events
//!   would not help: the handlers that produce them end with their instance, and so do the requests to the client that
//!   wait in the same streams. Any other loss of a stream leads back to the instance of the session, which has its events;
//! - requests to the client that wait for its answer, such as elicitation, and with them the calls that made them;
//! - subscriptions and the log level: clients of this crate subscribe again (`Client::watch`), but a client that only
//!   listens may give up after [some attempts](mcp_proto::transport::http::client::HttpClientConfig::backoff): its next
//!   request opens a new session.
//!
//! # The end of an instance
//!
//! | Step | Requests | Streams |
//! |---|---|---|
//! | [`drain`](mcp_proto::front::http::HttpHandle::drain), on SIGTERM | all are served, except for new sessions, subscriptions and WebSockets: 503 with `Retry-After`. [Health checks](crate::ServerOptions::health) get 503 | go on |
//! | after the notice: [`close`](mcp_proto::front::http::HttpHandle::close) | those in progress may take [`close_timeout`](mcp_proto::peer::server::ServerConfig::close_timeout), 2 s by default | subscriptions end by their results, and those of sessions end: clients open new ones, at another instance |
//! | the driver is ready | | |
//!
//! The notice must be longer than the balancer takes: with the checks above, 2 s and the time of an answer. Tasks that still
//! run at the instance end with it; the store has those that are done. The tasks of an instance that was killed show as
//! working until they expire.
//!
//! A health check tells that the process serves and does not drain. Its function may also read a flag of the application,
//! such as whether Redis is connected (`redis::RedisOptions::on_event`); but when all instances lose the same Redis, the
//! balancer has none left, not even for calls that need no store. To check whether the process lives, connect to its port.
//!
//! # Redis
//!
//! Redis 7, or Valkey. It must not evict keys, and it should write each change to disk before it confirms it:
//!
//! ```text
//! maxmemory 2gb
//! maxmemory-policy noeviction
//! appendonly yes
//! appendfsync always
//! ```
//!
//! An instance refuses a Redis that evicts keys, and reports one that is less durable (`redis::RedisEvent::NotDurable`). It
//! asks when it connects: change these settings only with a restart. Where replicas exist, `min-replicas-to-write 1` keeps a
//! primary that lost its replicas from confirming changes that a failover would lose. Cluster and Sentinel are not
//! supported: the URL names the primary.
//!
//! A user for it needs these permissions, for keys and channels that begin with the prefix (`mcp:` by default):
//!
//! ```text
//! user mcp on >PASSWORD ~mcp:* &mcp:* +@read +@write +@scripting +publish +subscribe +info +ping +select +time +config|get
//! ```
//!
//! # When Redis is down
//!
//! | | |
//! |---|---|
//! | calls that need no store | go on |
//! | request states and proofs that count once | are refused: 503 with `Retry-After` over HTTP |
//! | `tasks/get`, `tasks/list`, new tasks | are refused in the same way, within two seconds or what `redis::RedisOptions::timeout` says |
//! | tasks that run | go on; their results are stored when Redis is back |
//! | a command whose reply was lost | is sent again, and does no more the second time |
//!
//! After Redis was restarted, or another took over, or its database was emptied, states and proofs are refused that were
//! issued before, or less than a second after it: the clocks of Redis and of the instances must agree to one second.
//! Sentinel and hosted services close the connections of a Redis whose role they change, by which instances notice it. If
//! you change it by hand, close them too: `CLIENT KILL TYPE normal`.
//!
//! What another Redis lacks that took over:
//!
//! | | |
//! |---|---|
//! | changes of a task that runs, or its creation | its instance stores it again within the poll interval; until then, others do not know them |
//! | the result of a task | the task shows as working until it expires |
//! | answers to a task, or its cancellation | are gone: the task waits for them, or runs on, until it expires |
//!
//! # Keys of request states
//!
//! A key is replaced in three steps, each on all instances before the next: add the new key as an older one, so that each
//! instance opens with it (`Sealer::new(old, [new])`); make it the newest (`Sealer::new(new, [old])`); remove the old key
//! once its last state has expired, after ten minutes or what [`Router::state_lifetime`](crate::Router::state_lifetime) says.
//!
//! # Capacity and metrics
//!
//! One instance serves from one thread, or from those of its executor
//! ([`listen_with`](crate::ServerOptions::listen_with)). Its limits, which hold for all clients together and are shared fairly:
//!
//! | What | Default | Set by |
//! |---|--:|---|
//! | connections, 20 KiB each | 8,192 | [`ServerLimits::connections`](crate::ServerLimits::connections) |
//! | sessions, 1 KiB each while idle | 10,000 | [`HttpServerConfig::max_sessions`](mcp_proto::transport::http::server::HttpServerConfig::max_sessions) |
//! | bytes of bodies, stored events and queued answers | 256 MiB | [`HttpServerConfig::byte_limits`](mcp_proto::transport::http::server::HttpServerConfig::byte_limits) |
//! | running tasks | 1,000 | [`TaskConfig::running`](mcp_proto::front::tasks::TaskConfig::running) |
//!
//! With Redis on the same machine and `appendfsync always`, calls that need no store are as many a second as with stores in
//! memory; of calls that ask the user once, an instance answers 0.66 times as many, and of calls that become tasks 0.3 times
//! as many (`tests/balanced --measure`).
//!
//! The feature `tracing` makes a span of each request, with its method, tool, duration and outcome: a subscriber counts them.
//! [`HttpHandle::bytes_used`](mcp_proto::front::http::HttpHandle::bytes_used),
//! [`HttpHandle::events`](mcp_proto::front::http::HttpHandle::events), `redis::RedisOptions::on_event` and
//! [`ServerOptions::on_error`](crate::ServerOptions::on_error) tell the rest.

//! Several instances of a server behind a balancer, with their shared state in Redis.
//!
//! ```text
//! clients ── balancer ─┬─ instance ─┐
//!                      ├─ instance ─┼─ Redis (one primary; replicas take over by its name or address)
//!                      └─ instance ─┘
//! ```
//!
//! Requests of 2026-07-28 go to any instance, round robin. Sessions of older clients stay with the instance that opened
//! them: [`ServerOptions`](crate::ServerOptions), “Behind a load balancer”, has the rules of nginx for both. The same for
//! HAProxy, which gives the requests of an instance that is gone to another:
//!
//! ```text
//! defaults
//!     mode http
//!     timeout connect 2s
//!     timeout client 60s
//!     # Streams stay open: a server sends at least a comment every 15 seconds.
//!     timeout server 60s
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
//!     use-server three if { req.hdr(mcp-session-id) -m beg three. }
//!     server one 10.0.0.1:8000
//!     server two 10.0.0.2:8000
//!     server three 10.0.0.3:8000
//! ```
//!
//! | Instances share | By |
//! |---|---|
//! | the keys of request states | [`Router::seal`](crate::Router::seal): a file of 32 random bytes that each instance reads |
//! | request states and proofs that count once | `redis::Redis` as the store of [`Router::single_use`](crate::Router::single_use) and `Guard::single_use` |
//! | changes of lists and resources | `redis::Redis` as the relay of [`ServerOptions::relay_changes`](crate::ServerOptions::relay_changes) |
//! | tasks | `redis::Redis` as the [store](mcp_proto::front::tasks::TaskConfig::store), with the feature `redis` |
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use mcp_hyper::Router;
//! use mcp_hyper::mcp_proto::front::tasks::TaskConfig;
//! use mcp_hyper::mcp_proto::peer::server::{SealKey, Sealer};
//! use mcp_hyper::redis::Redis;
//!
//! # async fn example(router: Router) -> Result<(), Box<dyn std::error::Error>> {
//! let key: [u8; 32] = std::fs::read("/run/secrets/states")?.try_into().map_err(|_| "not 32 bytes")?;
//! let (redis, driver) = Redis::connect("redis://redis.internal/0")?;
//! smol::spawn(driver).detach();
//! redis.ready().await?;
//!
//! let mut tasks = TaskConfig::default();
//! tasks.store = Arc::new(redis.clone());
//! let router = router.seal(Sealer::new(SealKey::new(key), [])).tasks(tasks);
//! # drop(router);
//! # Ok(())
//! # }
//! ```
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
//! An instance refuses a Redis that evicts keys, and reports one that is less durable
//! (`redis::RedisEvent::NotDurable`). Where replicas exist, `min-replicas-to-write 1` keeps a primary that lost its replicas
//! from confirming changes that a failover would lose. Cluster and Sentinel are not supported: the URL names the primary.
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
//! After Redis was restarted, or another took over, states and proofs are refused that were issued before, or less than a
//! second after it: the clocks of Redis and of the instances must agree to one second.
//!
//! `redis::Redis::ready` tells whether Redis answers: a check for the balancer. Take an instance out of the balancer only if
//! the others are not in the same state.
//!
//! # Keys of request states
//!
//! A key is replaced in three steps, each on all instances before the next: add the new key as an older one, so that each
//! instance opens with it (`Sealer::new(old, [new])`); make it the newest (`Sealer::new(new, [old])`); remove the old key
//! once its last state has expired, after ten minutes or what [`Router::state_lifetime`](crate::Router::state_lifetime) says.
//!
//! # The end of an instance
//!
//! On SIGTERM, call [`HttpServer::drain`](mcp_proto::front::http::HttpHandle::drain) and await the driver: new sessions and
//! subscriptions are refused at once; after the notice, requests in progress finish, new connections are refused, and the
//! balancer uses the other instances. Tasks that run there end with
//! the instance; the store has those that are done. A legacy client whose instance is gone gets 404, and opens a new session:
//! it loses the session's subscriptions and log level, and the requests that were in progress.

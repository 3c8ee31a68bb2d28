//! The options of a connection to Redis, and its URL.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use mcp_proto::Secret;
use mcp_proto::adapter::BackoffTimer;
use mcp_proto::transport::http::client::Backoff;

use super::connection::Shared;
use super::driver::RedisDriver;
use super::{Handle, Redis, RedisError};
use crate::client::{Connector, TlsOptions, percent_decoded};
use crate::runtime::{AnyRuntime, Runtime, Stream};
use crate::time::RuntimeClock;

/// The pauses between attempts to connect: short at first, as a restart takes a second, and never as long as a user waits.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Default time limit of a command: a healthy Redis takes less than a millisecond, and some with `appendfsync always`.
const TIMEOUT: Duration = Duration::from_secs(2);
const MOST_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// What happens to a connection to Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RedisEvent {
    /// The connection is open.
    Connected,
    /// The connection ended, or an attempt to open it failed. It is tried again after a pause.
    Disconnected(RedisError),
    /// Redis may lose changes that it has confirmed, if it crashes: the text says what to set.
    NotDurable(String),
    /// Redis was started, or took over from another, since the instances of this server last saw it: records of before may
    /// be lost.
    Restarted,
    /// The subscription to the changes that other instances report ended, or could not be opened. It is tried again after
    /// a pause, and reported again once it has another reason.
    NotSubscribed(RedisError),
}

/// Options of a connection to Redis.
///
/// ```no_run
/// use std::time::Duration;
///
/// use mcp_hyper::mcp_proto::Secret;
/// use mcp_hyper::redis::RedisOptions;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (redis, driver) = RedisOptions::new("rediss://mcp@redis.internal:6380/2")?
///     .password(Secret::new(std::fs::read_to_string("/run/secrets/redis")?.trim_end()))
///     .prefix("parcels:")
///     .timeout(Duration::from_secs(1))
///     .on_event(|event| eprintln!("{event:?}"))
///     .connect()?;
/// # drop((redis, driver));
/// # Ok(())
/// # }
/// ```
#[must_use = "options do nothing until something is connected with them"]
pub struct RedisOptions {
    settings: Settings,
    on_event: OnEvent,
}

/// The options of each connection.
pub(super) struct Settings {
    address: Address,
    pub(super) database: u32,
    pub(super) user: Option<String>,
    pub(super) password: Option<Secret>,
    pub(super) prefix: String,
    tls: TlsOptions,
    runtime: AnyRuntime,
    pub(super) timeout: Duration,
}

/// Receives the events of a connection.
pub(super) type OnEvent = Box<dyn FnMut(RedisEvent) + Send>;

/// Where Redis listens.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Address {
    host: String,
    port: u16,
    is_encrypted: bool,
}

impl RedisOptions {
    /// Options for the Redis at this URL: `redis://USER:PASSWORD@HOST:PORT/DATABASE`, or `rediss:` for TLS. Only the host
    /// is required: the port is 6379 without one, and the database 0. User and password may have percent-encoded
    /// characters.
    ///
    /// # Errors
    /// If the URL is invalid.
    pub fn new(url: &str) -> Result<Self, RedisError> {
        let uri: Uri = url.parse().map_err(|_| RedisError::Url("it cannot be read"))?;
        let is_encrypted = match uri.scheme_str() {
            Some("redis") => false,
            Some("rediss") => true,
            _ => return Err(RedisError::Url("it does not begin with redis: or rediss:")),
        };
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(RedisError::Url("it has no host"));
        }
        if uri.query().is_some() {
            return Err(RedisError::Url("it has a query"));
        }
        let database = match uri.path().trim_start_matches('/') {
            "" => 0,
            path => path.parse().map_err(|_| RedisError::Url("the database is not a number"))?,
        };
        let authority = uri.authority().map_or("", http::uri::Authority::as_str);
        let (user, password) = match authority.rsplit_once('@') {
            Some((credentials, _)) => parse_credentials(credentials)?,
            None => (None, None),
        };
        let port = uri.port_u16().unwrap_or(6379);
        let settings = Settings {
            address: Address { host: host.to_owned(), port, is_encrypted },
            database,
            user,
            password,
            prefix: "mcp:".to_owned(),
            tls: TlsOptions::default(),
            runtime: AnyRuntime::default(),
            timeout: TIMEOUT,
        };
        Ok(Self { settings, on_event: Box::new(drop) })
    }

    setters! {
        /// Sets the password. Default: that of the URL.
        pub fn password(self, password: Secret) { self.settings.password = Some(password) }

        /// Sets the start of each key, which must be another one for each server that uses the same database. Default
        /// `mcp:`.
        pub fn prefix(self, prefix: impl Into<String>) { self.settings.prefix = prefix.into() }

        /// Sets the time limit of a command, from the call to the reply; that of a connection is three times as long.
        /// Default 2 s; at most an hour.
        pub fn timeout(self, timeout: Duration) { self.settings.timeout = timeout.min(MOST_TIMEOUT) }

        /// Sets the runtime. Default: [`DefaultRuntime`](crate::DefaultRuntime).
        pub fn runtime(self, runtime: impl Runtime) { self.settings.runtime = AnyRuntime::new(runtime) }

        /// Sets the function that receives every event, for logs. The driver calls it; it must return quickly.
        pub fn on_event(self, tell: impl FnMut(RedisEvent) + Send + 'static) { self.on_event = Box::new(tell) }
    }

    /// Sets the TLS configuration: trusted roots, or a certificate for this side. Default: that of clients.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, config: crate::rustls::ClientConfig) -> Self {
        self.settings.tls = TlsOptions(Some(Arc::new(config)));
        self
    }

    /// Starts a connection. Poll the driver: spawn it on any executor.
    ///
    /// # Errors
    /// If there is a user without a password, or the runtime cannot be started.
    pub fn connect(self) -> Result<(Redis, RedisDriver), RedisError> {
        let settings = Arc::new(self.settings);
        if settings.user.is_some() && settings.password.is_none() {
            return Err(RedisError::Url("it has a user, and there is no password"));
        }
        settings.runtime.start().map_err(|error| RedisError::Runtime(error.to_string()))?;
        let clock = RuntimeClock::new(&Arc::new(settings.runtime.clone()));
        let shared = Arc::new(Shared::new(clock, settings.timeout));
        let redis = Redis(Arc::new(Handle { shared: shared.clone(), settings: settings.clone() }));
        Ok((redis, RedisDriver::new(shared, settings, self.on_event)))
    }
}

impl Settings {
    /// Opens a stream to Redis.
    pub(super) async fn open_stream(&self) -> Result<Box<dyn Stream>, RedisError> {
        let Address { host, port, is_encrypted } = &self.address;
        let connector =
            Connector::direct(Arc::new(self.runtime.clone()), self.tls.clone(), self.connect_timeout());
        let opened = connector.open_plain(host, *port, *is_encrypted).await;
        opened.map_err(|error| RedisError::Unavailable(error.to_string()))
    }

    /// The time limit of a connection and its first commands.
    pub(super) fn connect_timeout(&self) -> Duration {
        self.timeout.saturating_mul(3)
    }

    /// A timer for attempts to connect. Instances that lose the same Redis must not all reconnect at the same moment.
    pub(super) fn backoff() -> BackoffTimer {
        let backoff = Backoff { first: FIRST_PAUSE, longest: LONGEST_PAUSE, ..Backoff::default() };
        BackoffTimer::new(backoff, RandomState::new().build_hasher().finish())
    }
}

/// The user and the password before the host of a URL.
fn parse_credentials(text: &str) -> Result<(Option<String>, Option<Secret>), RedisError> {
    let decoded = |text: &str| {
        String::from_utf8(percent_decoded(text)).map_err(|_| RedisError::Url("user or password is not UTF-8"))
    };
    let (user, password) =
        text.split_once(':').map_or((text, None), |(user, password)| (user, Some(password)));
    let user = (!user.is_empty()).then(|| decoded(user)).transpose()?;
    Ok((user, password.map(decoded).transpose()?.map(Secret::new)))
}

debug_fields! { Settings { address, database, user, prefix, timeout } }

debug_fields! { RedisOptions { settings } }

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(url: &str) -> Settings {
        RedisOptions::new(url).unwrap().settings
    }

    #[test]
    fn url_names_address_credentials_and_database() {
        let all = settings("rediss://me:p%40ss%3A@Redis.internal:6380/3");
        let address = Address { host: "Redis.internal".into(), port: 6380, is_encrypted: true };
        assert_eq!((all.address, all.database), (address, 3));
        assert_eq!(all.user.as_deref(), Some("me"));
        assert_eq!(all.password.unwrap().expose(), "p@ss:");
        let least = settings("redis://[::1]");
        let address = Address { host: "::1".into(), port: 6379, is_encrypted: false };
        assert_eq!((least.address, least.database, least.user), (address, 0, None));
        assert!(least.password.is_none());
        let password = settings("redis://:pw@localhost/");
        assert_eq!((password.user, password.password), (None, Some(Secret::new("pw"))));
    }

    #[test]
    fn other_urls_are_refused() {
        for (url, why) in [
            ("http://localhost", "it does not begin with redis: or rediss:"),
            ("localhost:6379", "it does not begin with redis: or rediss:"),
            ("redis://localhost/zero", "the database is not a number"),
            ("redis://localhost/0?db=1", "it has a query"),
            ("redis://:pw@/0", "it has no host"),
            ("redis://a b", "it cannot be read"),
        ] {
            let refused = RedisOptions::new(url).map(drop);
            assert!(matches!(refused, Err(RedisError::Url(_))), "{url}");
            if !why.contains("host") {
                assert_eq!(refused, Err(RedisError::Url(why)), "{url}");
            }
        }
    }

    #[test]
    fn user_needs_a_password() {
        let connected = RedisOptions::new("redis://me@localhost").unwrap().connect();
        assert!(matches!(connected, Err(RedisError::Url(_))));
    }

    #[test]
    fn debug_output_hides_the_password() {
        let shown = format!("{:?}", RedisOptions::new("redis://me:marker@localhost").unwrap());
        assert!(shown.contains("me") && !shown.contains("marker"), "{shown}");
    }
}

//! Clients, against servers whose responses the test chooses.

#[cfg(feature = "auth")]
mod addresses;
#[cfg(feature = "auth")]
mod auth;
#[cfg(feature = "tokio")]
mod blocked_task;
mod connections;
#[cfg(feature = "auth")]
mod contexts;
mod exchanges;
#[cfg(feature = "auth")]
mod header_source;
mod http2;
mod proxy;
#[cfg(feature = "auth")]
mod redirects;
#[cfg(feature = "auth")]
mod secrets;
#[cfg(all(feature = "auth", feature = "seal"))]
mod stored_logins;
#[cfg(feature = "tls")]
mod tls;
#[cfg(feature = "auth")]
mod tokens;

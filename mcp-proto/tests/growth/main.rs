//! No shape of input takes quadratic time: each is worked on at a size at which it would.
#![cfg(all(feature = "std", feature = "client", feature = "server"))]

#[path = "../common/mod.rs"]
mod common;
#[path = "../growth_common/mod.rs"]
mod growth_common;
#[path = "../server_common/mod.rs"]
mod server_common;

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use growth_common::Shape;

/// At this size there are tens of thousands of entries: without optimisation linear work takes about a second, and
/// quadratic work from half a minute to an hour.
const BYTES: usize = 2 << 20;

/// A limit to waiting, no measurement: the benchmark `growth` measures.
const PATIENCE: Duration = Duration::from_secs(30);

/// Contract 7.
#[track_caller]
fn check(shapes: &[Shape]) {
    for shape in shapes.iter().copied() {
        let (done, ended) = channel();
        // What does not end is left behind.
        thread::spawn(move || {
            (shape.prepare)(BYTES)();
            done.send(())
        });
        ended.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("{}: {error}", shape.name));
    }
}

#[test]
fn framing_takes_no_quadratic_time() {
    check(&growth_common::wire::SHAPES);
}

#[test]
fn vocabulary_takes_no_quadratic_time() {
    check(&growth_common::schema::SHAPES);
}

#[test]
fn client_takes_no_quadratic_time() {
    check(&growth_common::client::SHAPES);
}

#[test]
fn server_takes_no_quadratic_time() {
    check(&growth_common::server::SHAPES);
}

#[cfg(feature = "http")]
#[test]
fn http_takes_no_quadratic_time() {
    check(&growth_common::http::SHAPES);
}

#[cfg(feature = "auth")]
#[test]
fn authorization_takes_no_quadratic_time() {
    check(&growth_common::auth::SHAPES);
}

#[cfg(feature = "schema-validate")]
#[test]
fn validation_takes_no_quadratic_time() {
    check(&growth_common::validate::SHAPES);
}

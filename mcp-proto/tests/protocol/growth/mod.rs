//! No shape of input takes quadratic time: each test processes a size at which quadratic work would not end in time.
#![cfg(all(feature = "std", feature = "client", feature = "server"))]

mod shapes;

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use shapes::Shape;

/// Linear work takes a tenth of a second without optimisation.
const BYTES: usize = 512 << 10;

/// A limit of waiting, not a measurement: the benchmark `growth` measures.
const PATIENCE: Duration = Duration::from_secs(30);

/// Contract 7.
#[expect(clippy::disallowed_methods, reason = "the test waits for a thread with a timeout")]
#[track_caller]
fn check(shapes: &[Shape], bytes: usize) {
    for shape in shapes.iter().copied() {
        let (done, ended) = channel();
        // A thread that does not end is abandoned.
        thread::spawn(move || {
            (shape.prepare)(bytes)();
            done.send(())
        });
        ended.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("{}: {error}", shape.name));
    }
}

#[test]
fn framing_takes_no_quadratic_time() {
    check(&shapes::wire::SHAPES, BYTES);
}

#[test]
fn redaction_takes_no_quadratic_time() {
    check(&shapes::redact::SHAPES, BYTES / 4);
}

#[cfg(all(feature = "trace-file", feature = "testing"))]
#[test]
fn traces_take_no_quadratic_time() {
    check(&shapes::trace_file::SHAPES, BYTES);
}

#[test]
fn vocabulary_takes_no_quadratic_time() {
    check(&shapes::schema::SHAPES, BYTES);
}

#[test]
fn client_takes_no_quadratic_time() {
    check(&shapes::client::SHAPES, BYTES);
}

/// Comparing two entries is so fast that only tens of thousands of entries make quadratic work visible: it then takes a
/// minute or more.
#[test]
fn client_does_not_compare_each_entry_with_all_others() {
    const MANY: usize = 4 * BYTES;
    let compared = |shape: &Shape| {
        ["input requests", "page", "form:", "trace:"].iter().any(|part| shape.name.contains(part))
    };
    let all = shapes::client::SHAPES.into_iter().chain(shapes::schema::SHAPES);
    let shapes: Vec<Shape> = all.filter(compared).collect();
    assert!(shapes.len() > 10);
    check(&shapes, MANY);
}

#[test]
fn server_takes_no_quadratic_time() {
    check(&shapes::server::SHAPES, BYTES);
}

#[cfg(feature = "http")]
#[test]
fn http_takes_no_quadratic_time() {
    check(&shapes::http::SHAPES, BYTES);
}

#[cfg(feature = "http")]
#[test]
fn router_takes_no_quadratic_time() {
    check(&shapes::front::SHAPES, BYTES);
}

#[cfg(feature = "auth")]
#[test]
fn authorization_takes_no_quadratic_time() {
    check(&shapes::auth::SHAPES, BYTES);
}

#[cfg(feature = "host")]
#[test]
fn host_takes_no_quadratic_time() {
    check(&shapes::host::SHAPES, BYTES);
}

#[cfg(feature = "schema-validate")]
#[test]
fn validation_takes_no_quadratic_time() {
    check(&shapes::validate::SHAPES, BYTES);
}

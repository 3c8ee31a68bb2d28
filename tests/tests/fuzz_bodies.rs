//! The fuzz targets on random input: a short, deterministic run of each in the ordinary tests.

use mcp_proto::fuzzing;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

fn run(body: fn(&[u8])) {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config { cases: 2000, failure_persistence: None, ..Config::default() }, rng);
    runner.run(&proptest::collection::vec(any::<u8>(), 0..600), |data| Ok(body(&data))).unwrap();
}

/// Contracts 1, 2, 4, 5, 8
#[test]
fn a_client_holds_its_contracts_under_any_operations() {
    run(fuzzing::client);
}

/// Contracts 1, 2, 4, 5, 8
#[test]
fn a_server_holds_its_contracts_under_any_operations() {
    run(fuzzing::server);
}

//! The fuzz targets on random input: a short, deterministic run of each in the ordinary tests.

use mcp_proto::fuzzing;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

type Body = fn(&[u8]);

fn run(body: Body) {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner =
        TestRunner::new_with_rng(Config { cases: 2000, failure_persistence: None, ..Config::default() }, rng);
    let inputs = proptest::collection::vec(any::<u8>(), 0..600);
    let outcome = runner.run(&inputs, |data| {
        body(&data);
        Ok(())
    });
    outcome.unwrap();
}

#[test]
fn lines_are_the_same_however_they_are_cut() {
    run(fuzzing::lines);
}

#[test]
fn events_are_the_same_however_they_are_cut() {
    run(fuzzing::sse);
}

/// C4.8, S3.9
#[test]
fn header_values_come_back_as_they_were_and_never_panic() {
    run(fuzzing::header);
}

#[test]
fn envelopes_are_read_or_refused_and_never_panic() {
    run(fuzzing::envelope);
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

/// Contracts 1, 2, 4, 5, 8; K25
#[test]
fn a_client_over_http_holds_its_contracts_under_any_operations() {
    run(fuzzing::http_client);
}

/// Contracts 1, 2, 4, 5, 8
#[test]
fn a_server_over_http_holds_its_contracts_under_any_operations() {
    run(fuzzing::http_server);
}

/// C12.2
#[test]
fn challenges_are_read_and_written_and_never_panic() {
    run(fuzzing::challenge);
}

/// C12.3, C12.5
#[test]
fn metadata_is_read_or_refused_and_never_panics() {
    run(fuzzing::metadata);
}

/// C12.26
#[test]
fn no_address_gets_past_the_guard_of_urls() {
    run(fuzzing::reach);
}

#[test]
fn answers_of_token_endpoints_are_read_or_refused_and_never_panic() {
    run(fuzzing::token_answer);
}

/// The committed corpora, and every input that once broke something.
#[test]
fn the_corpora_run_clean() {
    let targets: [(&str, Body); 13] = [
        ("challenge", fuzzing::challenge),
        ("client", fuzzing::client),
        ("envelope", fuzzing::envelope),
        ("header", fuzzing::header),
        ("http_client", fuzzing::http_client),
        ("http_server", fuzzing::http_server),
        ("lines", fuzzing::lines),
        ("metadata", fuzzing::metadata),
        ("reach", fuzzing::reach),
        ("schema", fuzzing::schema),
        ("server", fuzzing::server),
        ("sse", fuzzing::sse),
        ("token_answer", fuzzing::token_answer),
    ];
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
    for (target, body) in targets {
        let inputs: Vec<_> = std::fs::read_dir(corpus.join(target)).unwrap().collect();
        assert!(!inputs.is_empty(), "the corpus of {target} is empty");
        for input in inputs {
            body(&std::fs::read(input.unwrap().path()).unwrap());
        }
    }
}

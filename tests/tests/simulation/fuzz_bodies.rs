//! The fuzz targets on random input: a short, deterministic run of each in the ordinary tests.

use std::cell::Cell;

use mcp_proto::fuzzing;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::json;

fn run(body: impl Fn(&[u8])) {
    run_cases(2000, body);
}

fn run_cases(cases: u32, body: impl Fn(&[u8])) {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, rng);
    let inputs = proptest::collection::vec(any::<u8>(), 0..600);
    let outcome = runner.run(&inputs, |data| {
        body(&data);
        Ok(())
    });
    outcome.unwrap();
}

/// Compares the machine with its reference model, on runs of many operations that up to `bytes` bytes encode.
/// `MCP_MODEL_RUNS` sets another number of runs. The model must cover more than `share` percent of the operations.
fn compare_with_model(machine: &str, runs: u32, bytes: usize, share: usize) {
    let (_, compare) = fuzzing::MODELS.into_iter().find(|(name, _)| *name == machine).unwrap();
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let cases = std::env::var("MCP_MODEL_RUNS").map_or(runs, |runs| runs.parse().unwrap());
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, rng);
    // The lowest bit of a byte says whether another operation follows. The first bytes are the configuration.
    let config = proptest::collection::vec(any::<u8>(), 4);
    let byte = prop_oneof![15 => any::<u8>().prop_map(|byte| byte | 1), 1 => any::<u8>()];
    let operations = proptest::collection::vec(byte, 50..bytes);
    let (covered, all) = (Cell::new(0), Cell::new(0));
    let outcome = runner.run(&(config, operations), |(config, operations)| {
        let (of_model, of_run) = compare(&[config, operations].concat());
        covered.set(covered.get() + of_model);
        all.set(all.get() + of_run);
        Ok(())
    });
    outcome.unwrap();
    let (covered, all) = (covered.get(), all.get());
    println!("the model of {machine} covers {covered} of {all} operations");
    assert!(all > 5_000 && covered * 100 > all * share, "the model covers {covered} of {all} operations");
}

/// Contract 1; C1.2, C1.6, C2.11, C2.12, C3.2, C3.4
#[test]
fn client_does_what_its_reference_model_predicts() {
    compare_with_model("client", 1000, 600, 25);
}

/// Contract 1; S1.1, S1.17, S2.3, S5.3
#[test]
fn server_does_what_its_reference_model_predicts() {
    compare_with_model("server", 1000, 600, 25);
}

/// Contract 1; S3.6, S3.8, S3.11, S3.12, S3.22, S3.24
#[test]
fn http_server_does_what_its_reference_model_predicts() {
    compare_with_model("http_server", 400, 4000, 60);
}

#[test]
fn lines_do_not_depend_on_chunks() {
    run(fuzzing::lines);
}

#[test]
fn events_do_not_depend_on_chunks() {
    run(fuzzing::sse);
}

#[test]
fn host_configurations_are_read_or_rejected_and_never_panic() {
    run(fuzzing::host_config);
}

/// Contracts 1, 2, 5, 13
#[test]
fn control_plane_keeps_its_contracts_under_any_operations() {
    run(fuzzing::host_control);
}

/// C4.8, S3.9
#[test]
fn header_values_round_trip_and_never_panic() {
    run(fuzzing::header);
}

#[test]
fn envelopes_are_decoded_or_rejected_and_never_panic() {
    run(fuzzing::envelope);
}

/// Contracts 1, 2, 4, 5, 8
#[test]
fn client_keeps_its_contracts_under_any_operations() {
    run(fuzzing::client);
}

/// Contracts 1, 2, 4, 5, 8
#[test]
fn server_keeps_its_contracts_under_any_operations() {
    run(fuzzing::server);
}

/// Contracts 1, 2, 4, 5, 8; K25
#[test]
fn http_client_keeps_its_contracts_under_any_operations() {
    run(fuzzing::http_client);
}

/// Contracts 1, 2, 4, 5, 8
#[test]
fn http_server_keeps_its_contracts_under_any_operations() {
    run(fuzzing::http_server);
}

/// C12.2
#[test]
fn challenges_round_trip_and_never_panic() {
    run(fuzzing::challenge);
}

/// C12.3, C12.5
#[test]
fn metadata_is_decoded_or_rejected_and_never_panics() {
    run(fuzzing::metadata);
}

/// C12.26
#[test]
fn url_guard_rejects_every_unsafe_address() {
    run(fuzzing::fetch_policy);
}

#[test]
fn token_responses_are_decoded_or_rejected_and_never_panic() {
    run(fuzzing::token_answer);
}

/// S10.2, S10.3, S10.7; RFC 9449, section 11.1
#[test]
fn resource_server_serves_only_the_holders_of_tokens_of_its_issuer() {
    let granted = Cell::new(0);
    run_cases(500, |data| granted.set(granted.get() + fuzzing::resource_server(data)));
    assert!(granted.get() > 20, "only {} requests are granted", granted.get());
}

/// C9.5
#[test]
fn names_of_different_tools_differ() {
    run(fuzzing::host_names);
}

#[test]
fn results_for_models_stay_within_their_limits() {
    run(fuzzing::host_results);
}

/// F104
#[test]
fn frames_are_shown_without_a_known_secret() {
    run(fuzzing::redact);
}

/// "Frontmatter Verification" of the skills extension: what a listing repeats equals what it repeats.
#[test]
fn frontmatter_equals_its_json() {
    run(fuzzing::frontmatter);
}

#[test]
fn traces_are_read_as_they_were_written() {
    run(fuzzing::trace_file);
}

/// The skills extension: whatever an entry has, its files lie in its folder.
#[test]
fn files_of_skills_lie_in_their_folders() {
    let parts =
        ["/", "..", ".", "%2e", "%2F", "%5c", "\\", "a", "b", "SKILL.md", "#", "?", " ", "é", "\u{202e}"];
    let path = || proptest::collection::vec(proptest::sample::select(parts.to_vec()), 1..6);
    let paths = proptest::collection::vec(path().prop_map(|parts| parts.concat()), 1..6);
    let runner = &mut TestRunner::deterministic();
    let outcome = runner.run(&(paths, any::<bool>()), |(paths, is_listed)| {
        let folder = "skill://acme/refunds/";
        let file = |path: &str| json!({ "uri": format!("{folder}{path}"), "digest": format!("sha256:{}", "0".repeat(64)), "size": 1 });
        let mut files = vec![file("SKILL.md")];
        files.extend(paths.iter().filter(|_| is_listed).map(|path| file(path)));
        let frontmatter = json!({ "name": "refunds", "description": "Refunds" });
        let entry = json!({ "uri": format!("{folder}SKILL.md"), "frontmatter": frontmatter, "resources": files });
        fuzzing::skill_manifest(format!("{entry}\n{}", paths.join("\n")).as_bytes());
        Ok(())
    });
    outcome.unwrap();
}

fn run_corpus<T>(target: &str, body: fn(&[u8]) -> T) {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
    let inputs: Vec<_> = std::fs::read_dir(corpus.join(target)).unwrap().collect();
    assert!(!inputs.is_empty(), "the corpus of {target} is empty");
    for input in inputs {
        let path = input.unwrap().path();
        // Shown if the body panics.
        println!("{}", path.display());
        body(&std::fs::read(path).unwrap());
    }
}

/// The committed corpora, with every input that once failed.
mod corpora {
    macro_rules! tests {
        ($($target:ident)*) => {
            $(
                #[test]
                fn $target() {
                    super::run_corpus(stringify!($target), mcp_proto::fuzzing::$target);
                }
            )*
        };
    }

    tests! {
        challenge client envelope fetch_policy frontmatter header host_config host_control host_names host_results http_client
        http_server lines metadata redact resource_server schema server skill_manifest sse token_answer trace_file
    }
}

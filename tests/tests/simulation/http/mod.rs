//! The whole transport over HTTP without a socket: a client, a server, and a network that injects every kind of fault.
//!
//! Each run is determined by its seed. `MCP_SIM_SEEDS=100000` runs more of them, from `MCP_SIM_FIRST` on; a seed that fails
//! prints the command that runs it alone. `tests/long` runs more and more of them.

mod cluster;
mod directed;
mod engine;
mod ledger;
mod model;
mod outcomes;
mod router;
mod world;

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use engine::EngineCounts;
use mcp_proto::Instant;
use mcp_proto::fuzzing::Recording;
use mcp_proto::peer::server::Eras;
use mcp_proto::schema::Era;
use mcp_proto::testing::http::{HttpPeer, SimulationRng};
use mcp_proto::trace_file::MachineRecorder;
use model::{ModelServer, Style};
use router::ServerSetting;
use world::{ServerFactory, Tally, World};

use crate::transcripts;
pub use ledger::Ledger;

/// Number of seeds per test, unless the environment sets another.
const SEEDS: u64 = 50;
/// Number of actions in a run.
const STEPS: u32 = 40;

fn seeds() -> std::ops::Range<u64> {
    let number = |name| env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    match number("MCP_SIM_SEED") {
        Some(seed) => seed..seed.saturating_add(1),
        None => {
            let first = number("MCP_SIM_FIRST").unwrap_or(0);
            first..first.saturating_add(number("MCP_SIM_SEEDS").unwrap_or(SEEDS))
        }
    }
}

/// Runs every seed. Runs the first that fails once more, with its log, and prints the command that repeats it.
fn run(test: &str, era: Era, site: ServerFactory<'_>) -> Tally {
    let mut tally = Tally::default();
    let world =
        |seed: u64| World::new(site, World::config(&mut SimulationRng::new(seed ^ 0x5eed), era), seed);
    for seed in seeds() {
        let mut first = world(seed);
        let transcripts = transcripts::folder();
        first.pair.log = transcripts.as_ref().map(|_| Vec::new());
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| first.run(STEPS))) {
            let mut again = world(seed);
            again.pair.log = Some(Vec::new());
            let _ = catch_unwind(AssertUnwindSafe(|| again.run(STEPS)));
            let lines = again.pair.log.unwrap_or_default();
            for line in &lines[lines.len().saturating_sub(500)..] {
                eprintln!("{line}");
            }
            let command = "cargo test -p mcp-tests --test simulation http::";
            eprintln!("to repeat it: MCP_SIM_SEED={seed} {command}{test} -- --exact");
            resume_unwind(panic);
        }
        if let (Some(folder), Some(lines)) = (transcripts, &first.pair.log) {
            transcripts::write(&folder, test, &seed.to_string(), &(lines.join("\n") + "\n"));
        }
        tally.add(&first.tally);
    }
    eprintln!("{test}: {tally:?}");
    tally
}

fn model(style: Style) -> impl Fn(&Ledger, Instant, u64) -> Box<dyn HttpPeer> {
    move |ledger, _, seed| Box::new(ModelServer::new(style, ledger.clone(), seed))
}

#[test]
fn client_survives_a_storm_with_a_modern_server() {
    run("client_survives_a_storm_with_a_modern_server", Era::Modern, &model(Style::Modern));
}

#[test]
fn client_survives_a_storm_with_a_session_server() {
    run("client_survives_a_storm_with_a_session_server", Era::Legacy, &model(Style::Session("2025-11-25")));
}

#[test]
fn client_survives_a_storm_with_a_stateless_server() {
    run(
        "client_survives_a_storm_with_a_stateless_server",
        Era::Legacy,
        &model(Style::Stateless("2025-06-18")),
    );
}

#[test]
fn client_survives_a_storm_with_an_http_sse_server() {
    run("client_survives_a_storm_with_an_http_sse_server", Era::Legacy, &model(Style::Events));
}

fn front(eras: Eras, legacy_sse: bool) -> impl Fn(&Ledger, Instant, u64) -> Box<dyn HttpPeer> {
    recorded_front(eras, legacy_sse, None)
}

/// Three instances that share an engine.
fn instances(eras: Eras) -> impl Fn(&Ledger, Instant, u64) -> Box<dyn HttpPeer> {
    let setting = ServerSetting { eras, legacy_sse: false, recorder: None, shares_engine: true };
    move |ledger, _, seed| router::server(&setting, ledger, seed)
}

fn recorded_front(
    eras: Eras,
    legacy_sse: bool,
    recorder: Option<MachineRecorder>,
) -> impl Fn(&Ledger, Instant, u64) -> Box<dyn HttpPeer> {
    let setting = ServerSetting { eras, legacy_sse, recorder, shares_engine: false };
    move |ledger, _, seed| router::server(&setting, ledger, seed)
}

#[test]
fn modern_client_and_server_survive_a_storm() {
    let tally = run("modern_client_and_server_survive_a_storm", Era::Modern, &front(Eras::Both, false));
    // A single run may have none.
    if seeds().count() > 100 {
        assert!(tally.cached > 0, "no list was served from the cache: {tally:?}");
        assert!(tally.forms > 0 && tally.tasks > 0 && tally.refused > 0, "{tally:?}");
    }
}

#[test]
fn client_and_server_with_sessions_survive_a_storm() {
    let tally =
        run("client_and_server_with_sessions_survive_a_storm", Era::Legacy, &front(Eras::LegacyOnly, false));
    if seeds().count() > 100 {
        assert!(tally.forms > 0 && tally.tasks > 0, "{tally:?}");
    }
}

#[test]
fn client_and_server_over_http_sse_survive_a_storm() {
    run("client_and_server_over_http_sse_survive_a_storm", Era::Legacy, &front(Eras::LegacyOnly, true));
}

/// S4.6, S5.1, S11.2: instances whose engine answers late or not at all, and fails over to one that lacks the last writes.
/// Each call has one outcome, no state is used twice, the host misses no change, and everything ends within three minutes
/// after the faults: twice as long as a task is stored.
#[test]
fn modern_client_survives_a_storm_in_the_engine_of_instances() {
    let test = "modern_client_survives_a_storm_in_the_engine_of_instances";
    let tally = run(test, Era::Modern, &instances(Eras::Both));
    let EngineCounts { repeated, forgotten, .. } = tally.engine;
    check_engine(&tally, repeated > 0 && forgotten > 0);
}

/// The same for sessions, which stay with their instance.
#[test]
fn client_with_sessions_survives_a_storm_in_the_engine_of_instances() {
    let test = "client_with_sessions_survives_a_storm_in_the_engine_of_instances";
    let tally = run(test, Era::Legacy, &instances(Eras::LegacyOnly));
    check_engine(&tally, true);
}

/// Asserts that each fault occurred, in so many runs that each should have.
fn check_engine(tally: &Tally, have_states_failed: bool) {
    let EngineCounts { failovers, unanswered, missed, .. } = tally.engine;
    let all = [failovers, unanswered, missed, tally.forms, tally.tasks, tally.resource_changes];
    let is_enough = have_states_failed && all.iter().all(|count| *count > 0);
    assert!(is_enough || seeds().count() < 50, "{tally:?}");
}

/// Contract 13: clients and servers over HTTP do the same when their trace runs again: calls, tasks, input, subscriptions and
/// streams that are resumed, with every kind of fault. `MCP_REPLAYS` is the number of hosts, in each kind of server.
#[test]
fn recorded_sessions_over_http_do_the_same_again() {
    let count = env::var("MCP_REPLAYS").map_or(3, |count| count.parse().unwrap());
    for (eras, legacy_sse, era) in [
        (Eras::Both, false, Era::Modern),
        (Eras::LegacyOnly, false, Era::Legacy),
        (Eras::LegacyOnly, true, Era::Legacy),
    ] {
        let (mut steps, mut bytes) = (0, 0);
        for seed in 0..count {
            let recording = Recording::default();
            let site = recorded_front(eras, legacy_sse, recording.recorder());
            let mut config = World::config(&mut SimulationRng::new(seed), era);
            config.client.recorder = recording.recorder();
            World::new(&site, config, seed).run(STEPS);
            let (more_steps, more_bytes) = recording.check();
            (steps, bytes) = (steps + more_steps, bytes + more_bytes);
        }
        println!("{eras:?}, HTTP+SSE {legacy_sse}: {count} hosts, {steps} steps, {bytes} bytes");
        assert!(steps > 100 * usize::try_from(count).unwrap(), "{steps}");
    }
}

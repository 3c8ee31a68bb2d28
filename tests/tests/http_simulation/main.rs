//! The whole transport over HTTP without a socket: a client, a server, and a network on which everything goes wrong.
//!
//! Each run follows from its seed. `MCP_SIM_SEEDS=100000` runs more of them; a seed that fails prints how to run it
//! alone.
#![allow(unreachable_pub, reason = "the modules of a test")]

mod model;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use mcp_proto::schema::Era;
use mcp_proto::testing::http::Dice;
use model::{Model, Style};
use world::{Site, Tally, World};

pub use world::Ledger;

/// How many seeds each test runs, unless the environment says otherwise.
const SEEDS: u64 = 300;

fn seeds() -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    match number("MCP_SIM_SEED") {
        Some(seed) => seed..seed.saturating_add(1),
        None => 0..number("MCP_SIM_SEEDS").unwrap_or(SEEDS),
    }
}

/// Runs every seed; the first that fails ends it, after its log and the command that repeats it.
fn run(test: &str, era: Era, site: Site<'_>) -> Tally {
    let mut tally = Tally::default();
    for seed in seeds() {
        let mut dice = Dice::new(seed ^ 0x5eed);
        let config = World::config(&mut dice, era);
        let mut world = World::new(site, config, seed);
        match catch_unwind(AssertUnwindSafe(|| world.run(40))) {
            Ok(()) => tally.add(&world.tally),
            Err(panic) => {
                let lines = &world.pair.log;
                for line in &lines[lines.len().saturating_sub(200)..] {
                    eprintln!("{line}");
                }
                eprintln!(
                    "\nto repeat it: MCP_SIM_SEED={seed} cargo test -p mcp-tests --test http_simulation {test} -- --exact"
                );
                resume_unwind(panic);
            }
        }
    }
    eprintln!("{test}: {tally:?}");
    tally
}

fn model(style: Style) -> impl Fn(&Ledger, mcp_proto::Instant, u64) -> Box<dyn mcp_proto::testing::http::HttpPeer> {
    move |ledger, _, seed| Box::new(Model::new(style, ledger.clone(), seed))
}

#[test]
fn a_modern_server_in_a_storm() {
    run("a_modern_server_in_a_storm", Era::Modern, &model(Style::Modern));
}

#[test]
fn a_server_with_sessions_in_a_storm() {
    run("a_server_with_sessions_in_a_storm", Era::Legacy, &model(Style::Session("2025-11-25")));
}

#[test]
fn a_server_without_sessions_in_a_storm() {
    run("a_server_without_sessions_in_a_storm", Era::Legacy, &model(Style::Stateless("2025-06-18")));
}

#[test]
fn a_server_of_the_first_transport_in_a_storm() {
    run("a_server_of_the_first_transport_in_a_storm", Era::Legacy, &model(Style::Events));
}

//! Runs a model in many orders.

use std::env;

use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler};
use shuttle::{Config, MaxSteps, Runner};

/// The depth of PCT: it preempts the thread with the highest priority one time less.
const DEPTH: usize = 3;

/// Far more than any model takes: a livelock.
const MAX_STEPS: usize = 50_000;

const STACK: usize = 512 * 1024;

/// How many schedules run each model without `MCP_SCHEDULES`.
const SCHEDULES: u64 = 4000;

/// Runs a model by `MCP_SCHEDULES` schedules, half of them at random and half by PCT (probabilistic concurrency testing),
/// starting from the seed `MCP_SCHEDULES_SEED`; or by the one in `MCP_SCHEDULE`.
pub fn explore(model: fn()) {
    let mut config = Config::new();
    config.stack_size = STACK;
    config.max_steps = MaxSteps::FailAfter(MAX_STEPS);
    config.silence_warnings = true;
    if let Ok(schedule) = env::var("MCP_SCHEDULE") {
        Runner::new(ReplayScheduler::new_from_encoded(&schedule), config).run(model);
        return;
    }
    let schedules = number("MCP_SCHEDULES", SCHEDULES).div_ceil(2);
    let seed = number("MCP_SCHEDULES_SEED", 0);
    let count = usize::try_from(schedules).unwrap();
    Runner::new(RandomScheduler::new_from_seed(seed, count), config.clone()).run(model);
    Runner::new(PctScheduler::new_from_seed(seed, DEPTH, count), config).run(model);
}

fn number(variable: &str, default: u64) -> u64 {
    env::var(variable).map_or(default, |value| value.parse().expect("a number"))
}

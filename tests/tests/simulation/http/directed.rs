//! Single faults, at every place where they can occur.

use std::iter::StepBy;
use std::ops::Range;
use std::time::Duration;

use mcp_proto::peer::client::TaskCommand;
use mcp_proto::peer::{RequestOptions, TaskMode};
use mcp_proto::schema::Era;
use mcp_proto::testing::http::{ExchangePlan, Fault, SimulationRng, TruncationReport};

use super::model::Style;
use super::world::{ServerFactory, Tally, World};
use super::{Eras, front, model};

/// A host that is connected and has the list of tools.
fn connected(site: ServerFactory<'_>, era: Era, seed: u64) -> World<'_> {
    let mut world = World::new(site, World::config(&mut SimulationRng::new(seed), era), seed);
    world.list();
    world.advance(Duration::from_secs(10));
    world
}

/// A call, the places where its answer is cut, and the options of the call.
struct CallCuts<'a> {
    tool: &'a str,
    task: TaskMode,
    /// How many exchanges the call takes.
    exchanges: u64,
    /// How many bytes of an answer's body arrive.
    bytes: StepBy<Range<usize>>,
}

impl CallCuts<'_> {
    fn new(tool: &str) -> CallCuts<'_> {
        CallCuts { tool, task: TaskMode::Await, exchanges: 1, bytes: (0..260).step_by(1) }
    }

    /// Cuts the body of the answer to a call, or to a follow-up request, noticed and unnoticed: one outcome, at most
    /// one execution, and the next request succeeds.
    fn strike(self, site: ServerFactory<'_>, era: Era) -> Tally {
        let CallCuts { tool, task, exchanges, bytes } = self;
        let mut tally = Tally::default();
        for bytes in bytes {
            for cut in [TruncationReport::Noticed, TruncationReport::Hidden] {
                for which in 1..=exchanges {
                    let mut world = connected(site, era, 0);
                    let next = world.pair.opened_count() + which;
                    let fate = ExchangePlan {
                        fault: Some(Fault::Cut { bytes }),
                        truncation: cut,
                        ..ExchangePlan::default()
                    };
                    world.pair.plans.insert(next, fate);
                    let mut options = RequestOptions::default();
                    options.task = Some(task);
                    world.call(tool, options);
                    world.advance_and_answer(6);
                    for task in 0..world.tasks.len() {
                        world.ask_of_task(task, TaskCommand::Follow);
                    }
                    world.advance_and_answer(6);
                    // A call with fewer exchanges has left the plan unused.
                    world.pair.plans.clear();
                    world.recovers();
                    world.close();
                    tally.add(&world.tally);
                }
            }
        }
        tally
    }
}

/// Contracts 1 and 4, K25
#[test]
fn client_survives_a_modern_answer_cut_at_each_byte() {
    CallCuts::new("pay").strike(&model(Style::Modern), Era::Modern);
    CallCuts::new("pay").strike(&front(Eras::Both, false), Era::Modern);
}

/// Contracts 1 and 4, K25
#[test]
fn client_survives_an_input_required_result_cut_anywhere() {
    let cuts = CallCuts { exchanges: 3, bytes: (0..900).step_by(20), ..CallCuts::new("form") };
    let tally = cuts.strike(&front(Eras::Both, false), Era::Modern);
    assert!(tally.forms > 0 && tally.refused > 0, "{tally:?}");
}

/// Contracts 1 and 4, K25
#[test]
fn client_survives_task_messages_cut_anywhere() {
    for task in [TaskMode::Await, TaskMode::Handle] {
        for (site, era) in
            [(front(Eras::Both, false), Era::Modern), (front(Eras::LegacyOnly, false), Era::Legacy)]
        {
            let cuts = CallCuts { task, exchanges: 3, bytes: (0..600).step_by(20), ..CallCuts::new("job") };
            let tally = cuts.strike(&site, era);
            assert!(tally.forms > 0, "{era:?}, {task:?}: {tally:?}");
            assert!(task == TaskMode::Await || tally.tasks > 0, "{era:?}, {task:?}: {tally:?}");
        }
    }
}

/// Contracts 1 and 4, K25
#[test]
fn client_survives_a_session_answer_cut_at_each_byte() {
    CallCuts::new("pay").strike(&model(Style::Session("2025-11-25")), Era::Legacy);
    CallCuts::new("pay").strike(&front(Eras::LegacyOnly, false), Era::Legacy);
}

/// A new server without the session replaces the old one, at each moment of a call: the client recovers by itself.
#[test]
fn client_recovers_from_a_session_lost_at_each_moment_of_a_call() {
    let sites: [(ServerFactory<'_>, Era); 5] = [
        (&model(Style::Session("2025-11-25")), Era::Legacy),
        (&model(Style::Events), Era::Legacy),
        (&front(Eras::Both, false), Era::Modern),
        (&front(Eras::LegacyOnly, false), Era::Legacy),
        (&front(Eras::LegacyOnly, true), Era::Legacy),
    ];
    for (site, era) in sites {
        for step in 0..25 {
            for cut in [TruncationReport::Noticed, TruncationReport::Hidden] {
                let mut world = connected(site, era, step);
                world.random_call(Some("ask"));
                world.random_call(Some("form"));
                world.random_call(Some("job"));
                world.random_call(Some("pay"));
                world.advance(Duration::from_millis(step * step * 8));
                let server = site(&world.ledger, world.pair.now(), step + 1000);
                world.pair.restart(server, cut);
                world.advance(Duration::from_secs(120));
                world.recovers();
                assert_eq!(world.tally.reconnects, 0, "the client recovers without a reconnect");
                world.close();
            }
        }
    }
}

/// The client is idle for an hour while a proxy ends every idle stream: the client stays connected.
#[test]
fn idle_client_survives_a_proxy_that_ends_idle_streams() {
    let sites: [(ServerFactory<'_>, Era); 2] =
        [(&model(Style::Session("2025-11-25")), Era::Legacy), (&model(Style::Events), Era::Legacy)];
    for (site, era) in sites {
        for cut in [TruncationReport::Noticed, TruncationReport::Hidden] {
            let mut world = World::new(site, World::config(&mut SimulationRng::new(1), era), 1);
            let fate = ExchangePlan {
                idle_timeout: Some(Duration::from_secs(60)),
                truncation: cut,
                ..ExchangePlan::default()
            };
            world.pair.plans.extend((1..10_000).map(|exchange| (exchange, fate.clone())));
            world.advance(Duration::from_secs(3600));
            world.recovers();
            assert_eq!(world.tally.reconnects, 0, "the connection was never closed");
            world.close();
        }
    }
}

/// Contract 13
#[test]
fn simulated_run_is_reproducible() {
    for seed in 0..10 {
        let log = || {
            let site = front(Eras::Both, false);
            let mut world =
                World::new(&site, World::config(&mut SimulationRng::new(seed), Era::Modern), seed);
            world.pair.log = Some(Vec::new());
            world.run(30);
            world.pair.log.take()
        };
        assert_eq!(log(), log());
    }
}

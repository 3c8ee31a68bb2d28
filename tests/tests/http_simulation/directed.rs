//! Single faults, at every place where they can strike.

use std::time::Duration;

use mcp_proto::schema::Era;
use mcp_proto::testing::http::{Cut, Dice, Fate, Fault};

use super::model::Style;
use super::world::{Site, World};
use super::{Eras, front, model};

/// A host that is connected and knows the tools.
fn connected(site: Site<'_>, era: Era, seed: u64) -> World<'_> {
    let mut world = World::new(site, World::config(&mut Dice::new(seed), era), seed);
    world.pass(Duration::from_secs(10));
    world
}

/// The body of the answer to a call is cut at each byte, noticed and unnoticed: one outcome, at most one execution, and
/// the next request succeeds.
fn cut_at_each_byte(site: Site<'_>, era: Era) {
    for bytes in 0..260 {
        for cut in [Cut::Noticed, Cut::Hidden] {
            let mut world = connected(site, era, 0);
            let next = world.pair.opened() + 1;
            let fate = Fate { fault: Some(Fault::Cut { bytes }), cut, ..Fate::default() };
            world.pair.fates.insert(next, fate);
            world.call(Some("pay"));
            world.pass(Duration::from_secs(60));
            world.recovers();
            world.close();
        }
    }
}

/// Contracts 1 and 4, K25
#[test]
fn an_answer_of_a_modern_server_is_cut_at_each_byte() {
    cut_at_each_byte(&model(Style::Modern), Era::Modern);
    cut_at_each_byte(&front(Eras::Both, false), Era::Modern);
}

/// Contracts 1 and 4, K25
#[test]
fn an_answer_in_a_session_is_cut_at_each_byte() {
    cut_at_each_byte(&model(Style::Session("2025-11-25")), Era::Legacy);
    cut_at_each_byte(&front(Eras::LegacyOnly, false), Era::Legacy);
}

/// The server is replaced by one that knows nothing, at each moment of a call: the client needs no help.
#[test]
fn a_session_is_lost_at_each_moment_of_a_call() {
    let sites: [(Site<'_>, Era); 5] = [
        (&model(Style::Session("2025-11-25")), Era::Legacy),
        (&model(Style::Events), Era::Legacy),
        (&front(Eras::Both, false), Era::Modern),
        (&front(Eras::LegacyOnly, false), Era::Legacy),
        (&front(Eras::LegacyOnly, true), Era::Legacy),
    ];
    for (site, era) in sites {
        for step in 0..25 {
            for cut in [Cut::Noticed, Cut::Hidden] {
                let mut world = connected(site, era, step);
                world.call(Some("ask"));
                world.call(Some("pay"));
                world.pass(Duration::from_millis(step * step * 8));
                let server = site(&world.ledger, world.pair.now(), step + 1000);
                world.pair.restart(server, cut);
                world.pass(Duration::from_secs(120));
                world.recovers();
                assert_eq!(world.tally.reconnects, 0, "it recovers by itself");
                world.close();
            }
        }
    }
}

/// Nothing is asked for an hour, and somebody on the way ends every stream that is idle: the client is still there.
#[test]
fn an_idle_client_outlives_a_proxy_that_ends_idle_streams() {
    let sites: [(Site<'_>, Era); 2] =
        [(&model(Style::Session("2025-11-25")), Era::Legacy), (&model(Style::Events), Era::Legacy)];
    for (site, era) in sites {
        for cut in [Cut::Noticed, Cut::Hidden] {
            let mut world = World::new(site, World::config(&mut Dice::new(1), era), 1);
            let fate = Fate { idle: Some(Duration::from_secs(60)), cut, ..Fate::default() };
            world.pair.fates.extend((1..10_000).map(|exchange| (exchange, fate.clone())));
            world.pass(Duration::from_secs(3600));
            world.recovers();
            assert_eq!(world.tally.reconnects, 0, "it was never closed");
            world.close();
        }
    }
}

/// Contract 13
#[test]
fn a_run_repeats_itself() {
    for seed in 0..10 {
        let log = || {
            let site = front(Eras::Both, false);
            let mut world = World::new(&site, World::config(&mut Dice::new(seed), Era::Modern), seed);
            world.pair.log = Some(Vec::new());
            world.run(30);
            world.pair.log.take()
        };
        assert_eq!(log(), log());
    }
}

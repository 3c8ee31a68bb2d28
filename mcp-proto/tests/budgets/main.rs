//! Every limit of memory under attack (contract 8): the bytes on the heap stay below the bound of the limit, they do not
//! grow with the attack, and they are given back when the attacker leaves.
//!
//! `cargo test -p mcp-proto --all-features --test budgets -- --nocapture` prints the figures. A program of its own, because
//! it counts allocations.
#![cfg(all(feature = "std", feature = "client", feature = "server", feature = "http", feature = "testing"))]
#![allow(missing_docs)]

#[path = "../common/mod.rs"]
mod common;

mod http_client;
mod http_server;
mod stores;
mod stream;

use allocation_counter::{measure, opt_out};

const KIB: usize = 1024;

/// The usual value of a limit in bytes, and in entries.
const BYTES: usize = 32 * KIB;
const ENTRIES: usize = 32;

/// What one attack tries to exceed.
pub(crate) struct Attack {
    /// The configuration and its field, or the constant.
    pub(crate) limit: &'static str,
    pub(crate) name: &'static str,
    /// The value of the limit, in bytes or entries.
    pub(crate) value: usize,
    /// The most bytes that the victim may hold at that value.
    pub(crate) bound: usize,
    /// Runs the attack: the value of the limit, and the number of bytes or entries that the attacker sends.
    pub(crate) run: fn(usize, usize) -> HeapUse,
}

/// Bytes on the heap that the victim has allocated.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HeapUse {
    /// The highest number during the attack.
    pub(crate) peak: usize,
    /// The number after the attack.
    pub(crate) held: usize,
    /// The number after the attacker has left.
    pub(crate) left: usize,
}

/// The bytes that may stay when the attacker has left: capacities of tables.
const LEFT: usize = 8 * KIB;

/// Measures a victim. `end` lets the attacker leave; it returns the victim if that outlives the attacker.
pub(crate) fn measure_attack<V>(
    make: impl FnOnce() -> V,
    attack: impl FnOnce(&mut V),
    end: impl FnOnce(V) -> Option<V>,
) -> HeapUse {
    let (mut victim, mut kept) = (None, None);
    let made = measure(|| victim = Some(make())).bytes_current;
    let mut victim = victim.expect("a victim");
    let during = measure(|| attack(&mut victim));
    let after = measure(|| kept = end(victim)).bytes_current;
    let base = if kept.is_some() { 0 } else { made };
    let bytes = |count: i64| usize::try_from(count).unwrap_or(0);
    HeapUse {
        peak: bytes(during.bytes_max as i64),
        held: bytes(during.bytes_current),
        left: bytes(base + during.bytes_current + after),
    }
}

/// As [`measure_attack`], of a victim that ends with its connection.
pub(crate) fn measure_connection<V>(make: impl FnOnce() -> V, attack: impl FnOnce(&mut V)) -> HeapUse {
    measure_attack(make, attack, |victim| {
        drop(victim);
        None
    })
}

/// Runs without counting: for the memory of the attacker.
pub(crate) fn uncounted<T>(make: impl FnOnce() -> T) -> T {
    let mut made = None;
    opt_out(|| made = Some(make()));
    made.expect("it was made")
}

/// Attacks of ten and forty times their limit. With a limit of ten times the value, the larger one must exceed the bound:
/// otherwise the attack would prove nothing.
fn check(attacks: &[Attack]) {
    report(attacks.iter().flat_map(|attack| {
        let mut failures = attack.failures([10, 40]);
        let raised = (attack.run)(10 * attack.value, 40 * attack.value);
        if raised.peak <= attack.bound {
            failures.push(format!("{attack}: the limit does not bind: {raised:?}"));
        }
        failures
    }));
}

/// Attacks of two and four times a limit that is a constant.
fn check_constants(attacks: &[Attack]) {
    report(attacks.iter().flat_map(|attack| attack.failures([2, 4])));
}

fn report(failures: impl Iterator<Item = String>) {
    let failures: Vec<String> = failures.collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

impl Attack {
    fn failures(&self, times: [usize; 2]) -> Vec<String> {
        let [small, large] = times.map(|times| (self.run)(self.value, times * self.value));
        let HeapUse { peak, held, left } = large;
        println!("{self}: peak {peak}, held {held}, left {left}, bound {}", self.bound);
        let slack = self.bound / 8;
        let rules = [
            (small.peak.max(peak) <= self.bound, "more than the bound"),
            (peak.max(held) <= small.peak + slack, "it grows with the attack"),
            (small.left.max(left) <= LEFT, "it is not given back"),
        ];
        let broken = rules.into_iter().filter(|(holds, _)| !holds);
        broken
            .map(|(_, what)| format!("{self}: {what}: {small:?}, {large:?}, bound {}", self.bound))
            .collect()
    }
}

impl core::fmt::Display for Attack {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} = {}, {}", self.limit, self.value, self.name)
    }
}

#[test]
fn stream_server_stays_within_its_limits() {
    check(stream::SERVER);
}

#[test]
fn stream_client_stays_within_its_limits() {
    check(stream::CLIENT);
}

#[test]
fn http_client_stays_within_its_limits() {
    check(http_client::ATTACKS);
    check_constants(http_client::CONSTANTS);
}

#[test]
fn http_server_stays_within_its_limits() {
    check(http_server::ATTACKS);
}

#[test]
fn stores_and_queues_stay_within_their_limits() {
    check(stores::ATTACKS);
    check_constants(stores::CONSTANTS);
}

/// Limits of numbers that take no memory, or that only the application itself can reach.
const WITHOUT_BYTES: &[&str] = &[
    // Nesting: the parser keeps a bit for each level, and a message is no longer than its own limit.
    "depth",
    "input_rounds",
    "progress_in",
    "progress_out",
    // No limits.
    "seed",
    "ttl_ms",
    // What one task may ask in its lifetime: a key of each. `tests/protocol/client/tasks` reaches it.
    "task_inputs",
];

/// A new limit needs an attack.
#[test]
fn every_limit_has_an_attack() {
    let configurations = [
        format!("{:?}", common::client::config()),
        format!("{:?}", common::http_server::config()),
        format!("{:?}", mcp_proto::front::tasks::MemoryLimits::default()),
    ];
    let numbers = configurations.iter().flat_map(|text| {
        let fields = text.split([',', '{', '}']).filter_map(|field| field.split_once(": "));
        let numbers = fields.filter(|(_, value)| value.trim().parse::<u64>().is_ok());
        numbers.map(|(name, _)| name.trim())
    });
    let attacks =
        [stream::SERVER, stream::CLIENT, http_client::ATTACKS, http_server::ATTACKS, stores::ATTACKS];
    let listed: Vec<_> =
        attacks.into_iter().flatten().filter_map(|attack| attack.limit.split("::").last()).collect();
    let missing: Vec<_> =
        numbers.filter(|name| !listed.contains(name) && !WITHOUT_BYTES.contains(name)).collect();
    assert!(listed.contains(&"message_bytes") && missing.is_empty(), "{missing:?}");
}

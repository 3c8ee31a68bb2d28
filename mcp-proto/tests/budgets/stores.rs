//! Attacks on what outlives a request: tasks, quotas, ids that count once, and the queues of a client's front.

use core::net::IpAddr;
use core::time::Duration;

use futures_lite::future::block_on;
use mcp_proto::front::Call;
use mcp_proto::front::tasks::{MemoryLimits, MemoryStore, TaskRecord, TaskStore};
use mcp_proto::front::{Claim, SingleUse, UseId, UsedIds};
use mcp_proto::quota::{ByteBudget, ByteLimits, FairTable, QuotaOwner, RateLimit, RateLimiter};
use mcp_proto::schema::CallTool;
use mcp_proto::{Bytes, Instant, UnixTime};
use serde_json::json;

use crate::common::front::ClientHarness;
use crate::common::messages::progress;
use crate::{Attack, BYTES, ENTRIES, HeapUse, KIB, measure_attack, measure_connection};

const MIB: usize = 1024 * KIB;

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        limit: "MemoryLimits::bytes",
        name: "tasks with large results",
        value: BYTES,
        bound: 2 * BYTES,
        run: |limit, sent| tasks(MemoryLimits { bytes: limit, ..MemoryLimits::default() }, sent / KIB, KIB),
    },
    Attack {
        limit: "MemoryLimits::tasks",
        name: "small tasks",
        value: ENTRIES,
        bound: ENTRIES * 2 * KIB,
        run: |limit, sent| tasks(MemoryLimits { tasks: limit, ..MemoryLimits::default() }, sent, 1),
    },
    Attack {
        limit: "RateLimiter::capacity",
        name: "requests from many addresses",
        value: ENTRIES,
        bound: ENTRIES * 512,
        run: |limit, sent| {
            measure_connection(
                || RateLimiter::new(RateLimit::per_second(1)).capacity(limit),
                |limiter| {
                    (0..sent).for_each(|number| {
                        let _ = limiter.try_take(&owner(number), Instant::ORIGIN);
                    })
                },
            )
        },
    },
    Attack {
        limit: "FairTable::new",
        name: "entries of many addresses",
        value: ENTRIES,
        bound: ENTRIES * KIB,
        run: |limit, sent| {
            measure_connection(
                || FairTable::new(limit),
                |table| {
                    (0..sent).for_each(|number| {
                        let _ = table.insert(number, &owner(number), number);
                    })
                },
            )
        },
    },
    Attack {
        limit: "UsedIds::new",
        name: "states and proofs that count once",
        value: ENTRIES,
        bound: ENTRIES * KIB,
        run: |limit, sent| {
            measure_connection(
                || UsedIds::new(limit),
                |used| {
                    for number in 0..sent {
                        let mut id = [0; 32];
                        id[..8].copy_from_slice(&number.to_be_bytes());
                        let [now, expires] =
                            [1, 60].map(|seconds| UnixTime::from_epoch(Duration::from_secs(seconds)));
                        let claim =
                            Claim { id: UseId::Proof(id), owner: owner(number), now, since: now, expires };
                        let _ = block_on(used.claim(claim));
                    }
                },
            )
        },
    },
];

/// Of these the limit is a constant.
pub(crate) const CONSTANTS: &[Attack] = &[
    Attack {
        limit: "MAX_BYTES of a call's progress",
        name: "progress reports that the application does not take",
        value: 16 * MIB,
        bound: 22 * MIB,
        run: |_, sent| {
            front(|s, kept| {
                let call = s.client.call_tool("slow", json!({})).start().unwrap();
                let id = s.expect("tools/call");
                let mut report = progress(&id, 0);
                report["params"]["message"] = "x".repeat(MIB).into();
                let report = Bytes::from(format!("{report}\n"));
                for _ in 0..sent / MIB {
                    let report = Bytes::copy_from_slice(&report);
                    s.driver.lock(|machine, now| machine.handle_input(now, report));
                    s.turn();
                }
                *kept = Some(call);
            })
        },
    },
    Attack {
        limit: "LEAST_SWEEP",
        name: "byte accounts of many addresses",
        value: ENTRIES,
        bound: ENTRIES * KIB,
        run: |_, sent| {
            measure_connection(
                || ByteBudget::new(ByteLimits::default()),
                |budget| (0..sent).for_each(|number| drop(budget.account(&owner(number)).permit())),
            )
        },
    },
];

fn owner(number: usize) -> QuotaOwner {
    QuotaOwner::from(IpAddr::from((number as u32).to_be_bytes()))
}

fn tasks(limits: MemoryLimits, count: usize, bytes: usize) -> HeapUse {
    let attack = |store: &mut MemoryStore| {
        for number in 0..count {
            let text = json!({
                "id": number.to_string(), "owner": null, "version": 0, "created_at": 1000, "updated_at": 1000,
                "ttl": 60_000, "poll_interval": 5, "message": "x".repeat(bytes), "status": "working",
            });
            let _ = block_on(store.create(TaskRecord::from_json(&text.to_string()).unwrap()));
        }
    };
    let expire = |store: MemoryStore| {
        block_on(store.expire(UnixTime::from_epoch(Duration::from_secs(3600)))).unwrap();
        Some(store)
    };
    measure_attack(|| MemoryStore::new(limits), attack, expire)
}

fn front(attack: impl FnOnce(&mut ClientHarness, &mut Option<Call<CallTool>>)) -> HeapUse {
    measure_connection(|| (ClientHarness::modern(), None), |(s, call)| attack(s, call))
}

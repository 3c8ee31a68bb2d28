//! The tables of the journals: tasks, and used ids.

use std::collections::BTreeSet;
use std::future::Future;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use mcp_proto::UnixTime;
use mcp_proto::front::tasks::{MemoryStore, StoreError, TaskRecord, TaskStore as _};
use mcp_proto::front::{Claim, ClaimError, ClaimOutcome, SingleUse as _, UseId, UsedIds};
use mcp_proto::peer::Principal;
use mcp_proto::quota::QuotaOwner;

use super::journal::{Journal, Table, damaged};

/// The output of a future of a store in memory, which is always ready.
fn ready_output<T>(future: impl Future<Output = T>) -> io::Result<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Ok(output),
        Poll::Pending => Err(io::Error::other("a store in memory is not ready")),
    }
}

/// The tasks. Its entries are records as they are stored. Each process deletes expired tasks by itself.
#[derive(Default)]
pub(super) struct Tasks(MemoryStore);

impl Journal<Tasks> {
    /// Creates a task.
    pub(super) fn create(&mut self, record: &TaskRecord) -> io::Result<Result<(), StoreError>> {
        let entry = record_entry(record)?;
        self.write(&entry, |tasks| {
            // Without what the other processes do not know.
            let created = ready_output(tasks.0.create(parse_record(&entry)?))?;
            Ok((created.is_ok(), created))
        })
    }

    /// Updates a task.
    pub(super) fn update(&mut self, record: TaskRecord) -> io::Result<Result<u64, StoreError>> {
        let mut stored = record.clone();
        stored.version = record.version.saturating_add(1);
        self.write(&record_entry(&stored)?, |tasks| {
            let updated = ready_output(tasks.0.update(record))?;
            Ok((updated.is_ok(), updated))
        })
    }

    /// Calls the store in memory without a change that the other processes must know.
    pub(super) fn call<R>(
        &mut self,
        call: impl AsyncFnOnce(&MemoryStore) -> Result<R, StoreError>,
    ) -> io::Result<Result<R, StoreError>> {
        self.read(|tasks| ready_output(call(&tasks.0)))
    }
}

fn record_entry(record: &TaskRecord) -> io::Result<String> {
    // A line break in JSON stands between two values, and a space means the same.
    Ok(record.to_json()?.as_str().replace(['\n', '\r'], " "))
}

fn parse_record(json: &str) -> io::Result<TaskRecord> {
    TaskRecord::from_json(json).map_err(|_| damaged())
}

impl Table for Tasks {
    const HEADING: &'static str = "mcp tasks 1";

    fn restore(&mut self, entry: &str) -> io::Result<()> {
        self.0.restore(parse_record(entry)?);
        Ok(())
    }

    /// The first entry of a task stands for the last one, so that the tasks stay in the order of their creation.
    fn renew(&self, entry: &str, seen: &mut BTreeSet<String>) -> io::Result<Option<String>> {
        let id = parse_record(entry)?.id;
        let stored = ready_output(self.0.get(&id))?.map_err(io::Error::other)?;
        stored.filter(|_| seen.insert(id)).map(|record| record_entry(&record)).transpose()
    }
}

/// The used ids. Its entries have three words: the time of the expiry, a hash of the owner, and the id.
#[derive(Default)]
pub(super) struct Used {
    ids: UsedIds,
    /// The time of the last claim.
    now: UnixTime,
}

impl Journal<Used> {
    /// Claims an id.
    pub(super) fn claim(&mut self, claim: &Claim) -> io::Result<Result<ClaimOutcome, ClaimError>> {
        // Owners only divide the room, so a hash is enough.
        let mut owner = DefaultHasher::new();
        claim.owner.hash(&mut owner);
        let entry = format!("{} {:016x} {}", millis(claim.expires), owner.finish(), claim.id);
        self.write(&entry, |used| {
            used.now = used.now.max(claim.now);
            let claim = Claim { now: claim.now, ..parse_claim(&entry)? };
            let claimed = ready_output(used.ids.claim(claim))?;
            Ok((claimed == Ok(ClaimOutcome::First), claimed))
        })
    }
}

impl Table for Used {
    const HEADING: &'static str = "mcp used 1";

    fn restore(&mut self, entry: &str) -> io::Result<()> {
        self.ids.restore(&parse_claim(entry)?);
        Ok(())
    }

    fn renew(&self, entry: &str, _: &mut BTreeSet<String>) -> io::Result<Option<String>> {
        let is_live = parse_claim(entry)?.expires > self.now;
        Ok(is_live.then(|| entry.to_owned()))
    }
}

fn parse_claim(entry: &str) -> io::Result<Claim> {
    let mut words = entry.split(' ');
    let mut word = || words.next().ok_or_else(damaged);
    let (expires, owner, id) = (parse_time(word()?)?, word()?, word()?);
    Ok(Claim {
        id: parse_id(id).ok_or_else(damaged)?,
        owner: QuotaOwner::from(Principal::new(owner)),
        now: UnixTime::EPOCH,
        since: UnixTime::EPOCH,
        expires,
    })
}

/// Rounded up: nothing expires early.
fn millis(time: UnixTime) -> u128 {
    time.since_epoch().as_nanos().div_ceil(1_000_000)
}

fn parse_time(millis: &str) -> io::Result<UnixTime> {
    let millis = millis.parse().map_err(|_| damaged())?;
    Ok(UnixTime::from_epoch(Duration::from_millis(millis)))
}

/// Reads what the `Display` of an id has written.
fn parse_id(text: &str) -> Option<UseId> {
    let (kind, digits) = text.split_once(':')?;
    match kind {
        "state" => parse_bytes(digits).map(UseId::State),
        "proof" => parse_bytes(digits).map(UseId::Proof),
        _ => None,
    }
}

fn parse_bytes<const N: usize>(digits: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(pairs) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

//! Resource subscriptions of a legacy session: one for each resource that is of interest to anybody.
//!
//! Requests may overtake each other over HTTP, so that of one resource only one is on its way at a time.
//!
//! | a resource is | and is wanted | and is not wanted |
//! |---|---|---|
//! | off | it is subscribed to | it is forgotten |
//! | being asked for, or given up | the answer is waited for | the answer is waited for |
//! | on | nothing is done | it is given up |
//! | refused | nothing is done | it is forgotten |
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/resources#subscriptions>

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use core::time::Duration;

use crate::Instant;

use super::WatchConfig;
use super::pace::{Fate, Mind, Pace};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Off,
    Asking,
    On,
    GivingUp,
    Refused,
}

#[derive(Debug)]
struct Kept {
    wanted: bool,
    state: State,
    /// Whether what is on its way is of a session that is over.
    outdated: bool,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Subscribe(Arc<str>),
    Unsubscribe(Arc<str>),
}

#[derive(Debug)]
pub(super) struct Keeping {
    kept: BTreeMap<Arc<str>, Kept>,
    /// The resources of the requests that are on their way.
    asked: BTreeMap<i64, Arc<str>>,
    /// Those of which something may be to do.
    due: BTreeSet<Arc<str>>,
    /// Those that failed, for another time.
    failed: BTreeSet<Arc<str>>,
    pace: Pace,
}

impl Keeping {
    pub(super) fn new(config: &WatchConfig) -> Self {
        Self {
            kept: BTreeMap::new(),
            asked: BTreeMap::new(),
            due: BTreeSet::new(),
            failed: BTreeSet::new(),
            pace: Pace::new(config),
        }
    }

    /// Somebody is interested in this one.
    pub(super) fn want(&mut self, uri: &Arc<str>) {
        let off = || Kept { wanted: true, state: State::Off, outdated: false };
        self.kept.entry(uri.clone()).or_insert_with(off).wanted = true;
        self.due.insert(uri.clone());
    }

    /// Nobody is any more.
    pub(super) fn leave(&mut self, uri: &Arc<str>) {
        if let Some(kept) = self.kept.get_mut(uri) {
            kept.wanted = false;
            self.due.insert(uri.clone());
        }
    }

    /// The server has forgotten what it was asked.
    pub(super) fn renew(&mut self) {
        for (uri, kept) in &mut self.kept {
            match kept.state {
                State::Asking | State::GivingUp => kept.outdated = true,
                State::On | State::Refused => kept.state = State::Off,
                State::Off => {}
            }
            self.due.insert(uri.clone());
        }
        self.pace.reset();
    }

    /// What is to be done now; to be asked until there is nothing.
    pub(super) fn next(&mut self, now: Instant) -> Option<Act> {
        if self.pace.due().is_some() && !self.pace.holds(now) {
            self.pace.go();
            self.due.append(&mut self.failed);
        }
        while let Some(uri) = self.due.pop_first() {
            let Some(kept) = self.kept.get_mut(&uri) else { continue };
            match (kept.wanted, kept.state) {
                (true, State::Off) if !self.failed.contains(&uri) => {
                    kept.state = State::Asking;
                    return Some(Act::Subscribe(uri));
                }
                (false, State::On) => {
                    kept.state = State::GivingUp;
                    return Some(Act::Unsubscribe(uri));
                }
                (false, State::Off | State::Refused) => {
                    self.failed.remove(&uri);
                    self.kept.remove(&uri);
                }
                _ => {}
            }
        }
        if self.failed.is_empty() {
            self.pace.go();
        }
        None
    }

    /// A request about this resource was sent.
    pub(super) fn sent(&mut self, number: i64, uri: Arc<str>) {
        self.asked.insert(number, uri);
    }

    /// The request could not be sent, or has ended so. Returns the resource of which more is known now.
    pub(super) fn ended(&mut self, now: Instant, number: i64, fate: Fate) -> Option<Arc<str>> {
        let uri = self.asked.remove(&number)?;
        self.conclude(now, uri, fate)
    }

    /// A request about this resource has ended so.
    pub(super) fn conclude(&mut self, now: Instant, uri: Arc<str>, fate: Fate) -> Option<Arc<str>> {
        let kept = self.kept.get_mut(&uri)?;
        let (outdated, before) = (core::mem::take(&mut kept.outdated), kept.state);
        let state = match (before, fate) {
            _ if outdated => State::Off,
            // Whatever came of it, it is not to be relied upon.
            (State::GivingUp, _) => State::Off,
            (_, Fate::Done) => {
                self.pace.reset();
                State::On
            }
            (_, Fate::Refused(_, mind)) if mind == Mind::Made || self.pace.is_spent() => State::Refused,
            (_, Fate::Lost(least)) => {
                self.fail(now, &uri, least);
                State::Off
            }
            (_, Fate::Refused(..)) => {
                self.fail(now, &uri, Duration::ZERO);
                State::Off
            }
        };
        if let Some(kept) = self.kept.get_mut(&uri) {
            kept.state = state;
        }
        self.due.insert(uri.clone());
        Some(uri)
    }

    /// Those that fail together count as one failure.
    fn fail(&mut self, now: Instant, uri: &Arc<str>, least: Duration) {
        if self.pace.due().is_none() {
            self.pace.fail(now, least);
        }
        self.failed.insert(uri.clone());
    }

    /// The requests that are on their way, which nobody cares about any more.
    pub(super) fn abandon(&mut self) -> impl Iterator<Item = i64> {
        core::mem::take(&mut self.asked).into_keys()
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.pace.due()
    }

    // --- Getters ---

    /// Whether this request is of these.
    pub(super) fn owns(&self, number: i64) -> bool {
        self.asked.contains_key(&number)
    }

    /// Whether the server tells of this resource, once that is known.
    pub(super) fn is_told(&self, uri: &str) -> Option<bool> {
        match self.kept.get(uri)?.state {
            State::On => Some(true),
            State::Refused => Some(false),
            State::Off | State::Asking | State::GivingUp => None,
        }
    }
}

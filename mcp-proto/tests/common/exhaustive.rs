//! Exhaustive search of small models: a machine, its peers and one fault, in every order of a few steps.
//!
//! The machines are deterministic but cannot be copied, so each path of choices is replayed from the start. Paths are
//! tried in the order of their length: the first that fails is a shortest one.
#![allow(unreachable_pub, reason = "several test programs include this file")]

use core::fmt::Debug;
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeSet, VecDeque};
use std::hash::{Hash, Hasher};

/// How the driver of a path treats its machine, which must make no difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drive {
    /// Input is whole, and events are polled before output.
    Whole,
    /// The same, and the machine is recorded and replayed, which takes long.
    Recorded,
    /// Input arrives in chunks, and output is polled before events.
    Chunked,
}

/// A machine in its environment, and the choices that change both.
pub trait Model: Sized {
    type Choice: Copy + Debug;
    /// Whether two paths of the same choices that are observed to do the same have led to the same state. Else all paths are
    /// continued.
    const IS_OBSERVED_WHOLE: bool;

    /// The state before the first choice, of one of several cases.
    fn start(case: usize, drive: Drive) -> Self;
    /// The choices that are possible now.
    fn choices(&self) -> Vec<Self::Choice>;
    /// Makes a choice happen, and checks the state afterwards.
    fn apply(&mut self, choice: Self::Choice);
    /// Everything that the environment has observed.
    fn observations(&self) -> String;
    /// Lets time pass without another choice until everything has ended, and checks that. The peer `recovers` from its
    /// faults, or is silent from now on.
    fn finish(self, recovers: bool);
}

/// The size of a search, and the least that it must find.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    pub name: &'static str,
    pub cases: usize,
    /// The number of choices of the longest paths. The environment variable `MCP_EXHAUSTIVE` adds to it.
    pub depth: usize,
    pub least_paths: usize,
    /// The least number of paths that differ in their choices or in what is observed.
    pub least_states: usize,
}

/// Prints the path that fails.
struct FailedPath<'a>(&'static str, &'a dyn Debug);

impl Drop for FailedPath<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}: this path fails: {:?}", self.0, self.1);
        }
    }
}

/// One of this number of states is recorded.
const RECORDED: usize = 50;

/// Tries all paths, and prints how many there are.
///
/// A path is not continued if the same choices in another order have been observed to do the same, in models that
/// [`IS_OBSERVED_WHOLE`](Model::IS_OBSERVED_WHOLE).
pub fn explore<M: Model>(search: Search) {
    let Search { name, cases, depth, least_paths, least_states } = search;
    let more: usize =
        std::env::var("MCP_EXHAUSTIVE").map_or(0, |more| more.parse().expect("a number of steps"));
    let mut queue: VecDeque<(usize, Vec<M::Choice>)> = (0..cases).map(|case| (case, Vec::new())).collect();
    let (mut paths, mut states) = (0, BTreeSet::new());
    while let Some(path) = queue.pop_front() {
        let _printed = FailedPath(name, &path);
        let (case, choices) = &path;
        let replay = |drive| {
            let mut model = M::start(*case, drive);
            choices.iter().for_each(|choice| model.apply(*choice));
            model
        };
        let is_recorded = states.len().is_multiple_of(RECORDED);
        let whole = replay(if is_recorded { Drive::Recorded } else { Drive::Whole });
        paths += 1;
        let observations = whole.observations();
        let made = if M::IS_OBSERVED_WHOLE {
            choices.iter().map(|choice| hash(&format!("{choice:?}"))).fold(0, u64::wrapping_add)
        } else {
            hash(&format!("{choices:?}"))
        };
        if !states.insert((*case, made, hash(&observations))) {
            continue;
        }
        let chunked = replay(Drive::Chunked);
        assert_eq!(observations, chunked.observations(), "contracts 3 and 4: the driver makes a difference");
        if choices.len() < depth + more {
            let longer = |choice| (*case, choices.iter().copied().chain([choice]).collect());
            queue.extend(whole.choices().into_iter().map(longer));
        }
        whole.finish(true);
        chunked.finish(false);
    }
    println!("{name}: {paths} paths, {} states", states.len());
    assert!(paths >= least_paths && states.len() >= least_states, "{name} explores too little");
}

/// Repeats an action until it finds nothing to do.
pub fn exhaust(mut act: impl FnMut() -> bool) {
    for step in 0.. {
        assert!(step < 1000, "an action never ends");
        if !act() {
            break;
        }
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

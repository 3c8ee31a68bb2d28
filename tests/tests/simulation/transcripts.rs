//! Transcripts of the machines on fixed inputs: the committed corpora, variants of each of their files, and random bytes.
//!
//! `MCP_TRANSCRIPTS=FOLDER` writes them, and those of the simulation's seeds, as files. `tests/oracle` compares the files
//! of two commits.

use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::{env, fs};

use mcp_proto::fuzzing::TRANSCRIPTS;
use mcp_proto::testing::http::SimulationRng;

use crate::contracts;

/// Number of variants of each file of a corpus.
const VARIANTS: u64 = 2;
/// Number of random inputs for each machine.
const RANDOM: u64 = 300;
/// Number of sessions of a client and a server on a byte stream.
const SESSIONS: usize = 600;

/// The folder for transcripts, if they are to be written.
pub(crate) fn folder() -> Option<PathBuf> {
    env::var_os("MCP_TRANSCRIPTS").map(PathBuf::from)
}

pub(crate) fn write(folder: &Path, group: &str, name: &str, text: &str) {
    let folder = folder.join(group);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(name), text).unwrap();
}

/// The inputs of a machine by their names. An input does not depend on other files of the corpus.
fn inputs(machine: &str) -> Vec<(String, Vec<u8>)> {
    let corpus =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(machine.trim_end_matches("_ready"));
    let mut files: Vec<_> = fs::read_dir(corpus).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let mut inputs = Vec::new();
    for file in files {
        let (name, bytes) = (file.file_name().unwrap().to_str().unwrap(), fs::read(&file).unwrap());
        for seed in 0..VARIANTS {
            inputs.push((format!("{name}.{seed}"), variant(&bytes, seed)));
        }
        inputs.push((name.to_owned(), bytes));
    }
    inputs.extend((0..RANDOM).map(|seed| {
        let mut rng = SimulationRng::new(seed);
        let length = rng.below(800);
        (format!("random.{seed}"), (0..length).map(|_| byte(&mut rng)).collect())
    }));
    // The operations go on while the byte before each is odd.
    inputs.extend((0..RANDOM).map(|seed| {
        let mut rng = SimulationRng::new(seed);
        let length = rng.below(1500);
        let bytes = (0..length).map(|_| byte(&mut rng) | u8::from(rng.chance(900)));
        (format!("long.{seed}"), bytes.collect())
    }));
    inputs
}

/// The input with a few bytes replaced and a part moved to its end.
fn variant(bytes: &[u8], seed: u64) -> Vec<u8> {
    let mut rng = SimulationRng::new(seed);
    let mut bytes = bytes.to_vec();
    for _ in 0..=rng.below(8) {
        let at = index(&mut rng, bytes.len());
        if let Some(place) = bytes.get_mut(at) {
            *place = byte(&mut rng);
        }
    }
    let (start, end) = (index(&mut rng, bytes.len()), index(&mut rng, bytes.len()));
    let moved: Vec<_> = bytes.drain(start.min(end)..start.max(end)).collect();
    bytes.extend(moved);
    bytes
}

fn index(rng: &mut SimulationRng, length: usize) -> usize {
    usize::try_from(rng.below(length as u64)).unwrap()
}

fn byte(rng: &mut SimulationRng) -> u8 {
    u8::try_from(rng.below(256)).unwrap()
}

/// Contract 13. With `MCP_TRANSCRIPTS`, writes the transcript of every input.
#[test]
fn machines_repeat_their_transcripts() {
    let folder = folder();
    if let Some(folder) = &folder {
        for (seed, text) in contracts::transcripts(SESSIONS).enumerate() {
            write(folder, "sessions", &seed.to_string(), &text);
        }
    }
    for (machine, transcript) in TRANSCRIPTS {
        for (name, input) in inputs(machine).iter().step_by(if folder.is_some() { 1 } else { 50 }) {
            let text = catch_unwind(|| transcript(input))
                .unwrap_or_else(|panic| format!("panicked: {:?}\n", panic.downcast_ref::<String>()));
            match &folder {
                Some(folder) => write(folder, machine, name, &text),
                None => assert_eq!(text, transcript(input), "the transcripts of {machine}/{name} differ"),
            }
        }
    }
}

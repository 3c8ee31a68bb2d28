//! Checks `mcp_proto::schema` against the published specification.
//!
//! ```text
//! cargo run -p mcp-tests --bin specification -- FOLDER
//! ```
//!
//! `FOLDER` holds one folder for each revision with its `schema.json`, the examples of 2026-07-28, and
//! `extensions/tasks/schema.json`. Three things are checked:
//!
//! - every example decodes by its type without unknown fields, and encodes to an equal value;
//! - values with all fields, encoded for each revision, validate against that revision's schema, and each
//!   method and notification exists exactly at the revisions whose schemas have it;
//! - values encoded for a revision lack the fields that the revision lacks (`revision_fields`).
//!
//! One error of the published schemas is excepted: they declare the numbers of elicitation answers as integers.

mod examples;
mod full_values;
mod revision_fields;
mod schemas;

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::Value;

/// Counts of checks, and the failures.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) examples: usize,
    pub(crate) validated: usize,
    pub(crate) cells: usize,
    pub(crate) failures: Vec<String>,
}

impl Report {
    pub(crate) fn fail(&mut self, failure: impl Into<String>) {
        self.failures.push(failure.into());
    }
}

/// Reads a file of JSON.
pub(crate) fn read(path: &std::path::Path) -> Result<Value, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// The unknown or invalid parts of a decoded value, found in its `Debug` output.
pub(crate) fn misunderstood(debug: &str) -> Option<String> {
    let around = |at: usize| debug[at..].chars().take(120).collect::<String>();
    let left_over = debug.match_indices("extra: {").find(|(at, _)| !debug[*at..].starts_with("extra: {}"));
    let invalid = debug.match_indices("invalid: [").find(|(at, _)| !debug[*at..].starts_with("invalid: []"));
    let unknown = debug.find("Unknown(");
    left_over.or(invalid).map(|(at, _)| at).or(unknown).map(around)
}

fn run(folder: &std::path::Path) -> Result<Report, String> {
    let schemas = schemas::Schemas::load(folder)?;
    let mut report = Report::default();
    examples::check(&folder.join("2026-07-28/examples"), &mut report)?;
    schemas::check(&schemas, &mut report);
    revision_fields::check(&mut report);
    Ok(report)
}

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: specification FOLDER (the specification, one folder for each revision)");
        return ExitCode::from(2);
    };
    match run(&folder) {
        Err(error) => {
            eprintln!("specification: {error}");
            ExitCode::from(2)
        }
        Ok(report) => {
            for failure in &report.failures {
                eprintln!("{failure}");
            }
            println!(
                "specification: {} examples, {} messages validated, {} cells, {} failures",
                report.examples,
                report.validated,
                report.cells,
                report.failures.len()
            );
            if report.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
    }
}

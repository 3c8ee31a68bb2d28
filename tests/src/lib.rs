//! Tests across the crates, and doctests of the README's code.

use mcp_hyper::host::TraceFile;

/// The README, whose examples compile as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;

/// The trace with the steps of a program's machines, if the variable `TRACE` names a folder for it: `tests/replay` runs them
/// again. `conformance` and `interop` set it for their programs.
///
/// # Panics
/// If the file cannot be created.
pub fn trace(program: &str) -> Option<TraceFile> {
    let folder = std::env::var_os("TRACE")?;
    let path = std::path::Path::new(&folder).join(format!("{program}-{}.trace", std::process::id()));
    Some(TraceFile::with_secrets(path, program).expect("the folder of traces is writable"))
}

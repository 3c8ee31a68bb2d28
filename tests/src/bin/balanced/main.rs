//! A server with several instances behind a balancer, and the client that checks it.
//!
//! ```text
//! balanced serve NAME KEY STORE [ADDRESS]
//! balanced check SOCKET PART CALLS INSTANCES STORE
//! balanced compare STORE [CERTIFICATE]
//! balanced measure STORE
//! balanced crowd SOCKET FINISHED SECONDS
//! ```
//!
//! `tests/balanced` runs it: instances that share `KEY`, a file of 32 bytes, and `STORE`, a folder or the URL of a Redis;
//! nginx or HAProxy before them, at a Unix socket; and the client, which makes `CALLS` calls for one part of the checks.
//! `compare` calls an empty Redis and a store in memory alike, and compares what they do; over TLS, it trusts `CERTIFICATE`;
//! `measure` times calls with both.
//! `crowd` makes calls of many clients for `SECONDS` while the script makes faults; the instances append to the file `FINISHED`
//! which calls they have finished.

mod check;
mod compare;
mod crowd;
mod drain;
mod instance_log;
mod legacy;
mod measure;
mod outage;
mod proofs;
mod serve;
mod streams;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

/// Result of a check, with a message for its error.
type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments.as_slice() {
        ["serve", name, key, store] => {
            smol::block_on(serve::serve(name, Path::new(key), store, "127.0.0.1:0"))
        }
        ["serve", name, key, store, address] => {
            smol::block_on(serve::serve(name, Path::new(key), store, address))
        }
        ["crowd", socket, finished, seconds] => {
            smol::block_on(crowd::check_crowd(Path::new(socket), Path::new(finished), seconds))
        }
        ["check", socket, part, calls, instances, store] => {
            smol::block_on(check::check(Path::new(socket), part, (calls, instances), store))
        }
        ["compare", store] => smol::block_on(compare::compare(store, None)),
        ["compare", store, certificate] => smol::block_on(compare::compare(store, Some(certificate))),
        ["measure", store] => smol::block_on(measure::measure(store)),
        _ => {
            eprintln!(
                "balanced serve NAME KEY STORE [ADDRESS] | balanced check SOCKET PART CALLS INSTANCES STORE | \
                 balanced compare STORE [CERTIFICATE] | balanced measure STORE | balanced crowd SOCKET FINISHED SECONDS"
            );
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("balanced: {error}");
            ExitCode::FAILURE
        }
    }
}

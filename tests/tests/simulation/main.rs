//! Both sides of a connection on a simulated clock and network, and the bodies of the fuzz targets.

mod contracts;
mod fuzz_bodies;
#[allow(unreachable_pub, reason = "the modules of a test")]
mod http;
mod transcripts;

#![no_main]
#[path = "../../mcp-hyper/src/redis/fuzzing.rs"]
mod fuzzing;
#[path = "../../mcp-hyper/src/redis/resp.rs"]
mod resp;

libfuzzer_sys::fuzz_target!(|data: &[u8]| drop(fuzzing::replies(data)));

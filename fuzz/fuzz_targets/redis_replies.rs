#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| mcp_hyper::redis::fuzz_replies(data));

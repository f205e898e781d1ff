//! See `testkit::fuzz::guard_server`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| testkit::fuzz::guard_server(data));

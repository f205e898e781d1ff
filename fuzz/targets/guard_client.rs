//! See `testkit::fuzz::guard_client`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| testkit::fuzz::guard_client(data));

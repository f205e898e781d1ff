//! See `testkit::fuzz::net_readers`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| testkit::fuzz::net_readers(data));

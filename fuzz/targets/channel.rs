//! See `testkit::fuzz::channel`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| testkit::fuzz::channel(data));

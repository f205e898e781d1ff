//! See `testkit::fuzz::config`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| testkit::fuzz::config(data));

//! See `testkit::fuzz::figures`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| testkit::fuzz::figures(data));

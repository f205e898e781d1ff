//! See `testkit::fuzz::transport`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| testkit::fuzz::transport(data));

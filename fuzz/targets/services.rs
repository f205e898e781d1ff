//! See `testkit::fuzz::services`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| testkit::fuzz::services(data));

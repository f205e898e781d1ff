//! See `testkit::fuzz::policy`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| testkit::fuzz::policy(data));

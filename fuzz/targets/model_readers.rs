//! See `testkit::fuzz::model_readers`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| testkit::fuzz::model_readers(data));

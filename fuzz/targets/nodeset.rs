//! See `testkit::fuzz::nodeset`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| testkit::fuzz::nodeset(data));

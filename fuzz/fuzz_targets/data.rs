#![no_main]

#[path = "../src/readers.rs"]
mod readers;

libfuzzer_sys::fuzz_target!(
    init: readers::keep_quiet_about_caught_panics(),
    |bytes: &[u8]| { (readers::reader("data").read)(bytes); }
);

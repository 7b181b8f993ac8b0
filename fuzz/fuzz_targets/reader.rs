//! libFuzzer on one of the readers, which `ESPER_READER` names: one program, because every one takes long to build.
//! What it should be able to read is written to the folder `ESPER_CORPUS` first, if that is named.
#![no_main]

#[path = "../src/readers.rs"]
mod readers;

use std::path::PathBuf;
use std::sync::OnceLock;

static READER: OnceLock<&readers::Reader> = OnceLock::new();

fn begin() {
    readers::keep_quiet_about_caught_panics();
    let name = std::env::var("ESPER_READER").expect("ESPER_READER names a reader");
    let reader = READER.get_or_init(|| readers::reader(&name));
    let corpus = std::env::var_os("ESPER_CORPUS").map(PathBuf::from);
    for (at, seed) in (reader.seeds)().iter().enumerate() {
        assert!((reader.read)(seed), "{name}: seed {at} makes sense");
        if let Some(folder) = &corpus {
            std::fs::write(folder.join(format!("seed-{at}")), seed).expect("a file");
        }
    }
}

libfuzzer_sys::fuzz_target!(
    init: begin(),
    |bytes: &[u8]| { (READER.get().expect("it has begun").read)(bytes); }
);

//! Damaged files of other tools are errors: no panic, no hang, no memory for what a file only claims.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use esper_data::{Dataset, Seed, read_known};
use rand::RngExt;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Far more than any of these files needs, and far less than a claim that is believed would take.
const MOST_BYTES: usize = 200 << 20;

/// How long one file may take; all of them are tiny.
const MOST_TIME: Duration = Duration::from_secs(60);

/// How often the files of a data set are cut, and how often bytes of them are changed. `ESPER_DAMAGE=100` does both as many
/// times more often.
const CUTS: usize = 20;
const FLIPS: usize = 100;

fn originals() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/formats")
}

/// All data sets, and for each the files in it that are to be damaged.
fn data_sets() -> Vec<(PathBuf, Vec<PathBuf>)> {
    fn collect(path: &Path, files: &mut Vec<PathBuf>) {
        if path.is_file() {
            return files.push(path.to_owned());
        }
        let mut entries: Vec<PathBuf> =
            fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        entries.iter().for_each(|path| collect(path, files));
    }
    let mut sets: Vec<PathBuf> =
        fs::read_dir(originals()).unwrap().map(|entry| entry.unwrap().path()).collect();
    sets.sort();
    let files = |set: PathBuf| {
        let mut files = Vec::new();
        collect(&set, &mut files);
        (set, files)
    };
    sets.into_iter().map(files).collect()
}

fn copy(from: &Path, to: &Path) {
    if from.is_file() {
        fs::copy(from, to).unwrap();
        return;
    }
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        copy(&entry.path(), &to.join(entry.file_name()));
    }
}

/// Reads what was damaged. `None` is an error, or nothing that is recognised.
fn read(path: &Path, what: &str) -> Option<Dataset> {
    let region = Region::new(ALLOCATOR);
    let started = Instant::now();
    let result = std::panic::catch_unwind(|| read_known(path));
    let allocated = region.change().bytes_allocated;
    assert!(allocated < MOST_BYTES, "{what}: {allocated} bytes allocated");
    assert!(started.elapsed() < MOST_TIME, "{what}: took {:?}", started.elapsed());
    match result.unwrap_or_else(|_| panic!("{what}: a panic")) {
        Ok(known) => known.map(|known| known.data),
        Err(error) => {
            let text = error.to_string();
            let name = path.file_name().unwrap().to_string_lossy();
            assert!(text.contains(&*name), "{what}: the error does not name the file: {text}");
            None
        }
    }
}

/// One test, because the counter of bytes is the whole process's.
#[test]
fn damaged_files_are_errors() {
    sizes_that_are_only_claimed_take_no_memory();
    cut_and_changed_files_are_errors();
}

fn sizes_that_are_only_claimed_take_no_memory() {
    for name in ["chunked", "contiguous"] {
        let path = originals().with_file_name("claims").join(format!("{name}.hdf5"));
        assert!(fs::metadata(&path).unwrap().len() < 10_000);
        assert!(read(&path, name).is_none());
        let error = read_known(&path).unwrap_err().to_string();
        assert!(error.contains("claims 1099511627776 bytes"), "{error}");
    }
}

fn cut_and_changed_files_are_errors() {
    // Panics of libraries are caught and are errors; their messages are not for a test's output.
    std::panic::set_hook(Box::new(|panic| {
        if !esper_data::panics_are_caught() {
            eprintln!("{panic}");
        }
    }));
    let folder = tempfile::tempdir().unwrap();
    let mut rng = Seed::new(17).rng();
    let often = std::env::var("ESPER_DAMAGE").map_or(1, |times| times.parse().unwrap());
    let (mut cuts, mut flips, mut survived) = (0, 0, 0);
    for (at, (set, files)) in data_sets().into_iter().enumerate() {
        let original = read_known(&set).unwrap().unwrap().data;
        // A file of a folder is damaged within a copy of all of it.
        let copied = folder.path().join(format!("{at}-{}", set.file_name().unwrap().display()));
        copy(&set, &copied);
        for file in &files {
            let target = match file.strip_prefix(&set) {
                Ok(inner) if !inner.as_os_str().is_empty() => copied.join(inner),
                _ => copied.clone(),
            };
            let is_data = !file.ends_with("metadata.json");
            let whole = fs::read(file).unwrap();
            for cut in 0..CUTS * often {
                let length = if cut == 0 { 0 } else { rng.random_range(0..whole.len()) };
                fs::write(&target, &whole[..length]).unwrap();
                let what = format!("{} cut to {length} bytes", file.display());
                // Whatever is left has to be refused, or to be nothing that is known; of the metadata, some is not needed.
                let found = read(&copied, &what);
                assert!(found.is_none() || !is_data, "{what}: it was read");
                cuts += 1;
            }
            for _ in 0..FLIPS * often / files.len() + 1 {
                let mut bytes = whole.clone();
                let changes = rng.random_range(1..4);
                for _ in 0..changes {
                    let at = rng.random_range(0..bytes.len());
                    // Extreme values are what sizes and offsets break at.
                    bytes[at] = match rng.random_range(0..4) {
                        0 => 0xff,
                        1 => 0,
                        2 => 0x7f,
                        _ => bytes[at] ^ (1 << rng.random_range(0..8)),
                    };
                }
                fs::write(&target, &bytes).unwrap();
                let what = format!("{} changed in {changes} bytes", file.display());
                // Numbers may have changed to others; whatever is read is a sound data set.
                if let Some(data) = read(&copied, &what) {
                    assert!(data.steps() <= 10 * original.steps(), "{what}");
                    survived += 1;
                }
                flips += 1;
            }
            fs::write(&target, &whole).unwrap();
        }
        assert_eq!(read_known(&copied).unwrap().unwrap().data, original);
    }
    eprintln!("{cuts} cut files, {flips} changed ones, of which {survived} could be read");
    assert!(survived < flips, "no change was ever noticed");
}

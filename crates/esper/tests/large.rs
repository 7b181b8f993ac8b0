//! Episodes that are long, and spaces that are wide.

mod common;

use common::{ENDED, TINY, plan, with_a_long_one};
use esper::run::{DataId, Plan, RunOptions};
use esper::settings::Preset;
use esper::{Registry, Unwatched};
use esper_data::{Dataset, DatasetBuilder, End, Metadata, Scratch, Space};

/// A row of 512 hidden numbers takes 92,160 bytes: a fourth of 560 MB holds 1,519 rows, and 400 episodes of 4 steps have 1,600.
const LIMITED: [&str; 3] = ["cluster.hidden=512", "cluster.batch=400", "cluster.steps=1"];

/// The same seed gives the same labels, whatever is cut.
#[test]
fn windows_follow_from_the_seed() {
    let data = with_a_long_one(700);
    let labels = |seed: u64| {
        let trained = plan(&TINY).with_seed(seed).train(&data, &Unwatched).unwrap();
        trained.learned.labels.unwrap().values
    };
    assert_eq!(labels(1), labels(1));
    assert_ne!(labels(1), labels(2));
}

/// Data that stays on disk is learned from as if it were in memory, to the same bytes; clusters are then on disk, too.
#[test]
fn data_on_disk_gives_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.parquet");
    let mut builder = DatasetBuilder::new(Metadata::new(
        Space::Box { shape: vec![2], bounds: None },
        Space::Discrete { n: 2 },
    ));
    for episode in 0..60usize {
        for step in 0..1 + episode % 7 {
            let seen = [(step as f32).sin() + episode as f32 / 60.0, (episode % 5) as f32];
            let taken = ((episode + step) % 2) as u8;
            builder.push(&seen, &[taken], seen[0] * f32::from(taken)).unwrap();
        }
        builder
            .end(&[0.0f32, 1.0], End { terminated: episode % 2 == 0, truncated: episode % 2 == 1 })
            .unwrap();
    }
    builder.build().unwrap().write(&path, false).unwrap();
    let whole = esper_data::read(&path).unwrap();
    let scratch = Scratch::in_folder(folder.path());
    let on_disk = esper_data::read_on_disk(&path, &scratch).unwrap();
    let registry = Registry::default();
    let settings: Vec<String> = TINY
        .iter()
        .chain(&["cql.steps=5", "promise.steps=12", "transformer.steps=4", "transformer.width=8"])
        .map(|&setting| setting.to_owned())
        .collect();
    let config = registry.config(Preset::Quick).changed(None, &settings).unwrap();
    for (method, policy) in
        [("esper", "mlp"), ("rvs", "transformer"), ("bc", "mlp"), ("cql", "mlp")]
    {
        let plan = Plan::new(&registry, method, policy, config.clone()).unwrap();
        let train = |data: &Dataset, name: &str| {
            let path = folder.path().join(format!("{method}-{name}"));
            let id = DataId::of(data);
            plan.train_in(&path, data, &id, RunOptions::default(), &Unwatched).unwrap();
            let files = [
                "policy.safetensors",
                "data.json",
                "differences.json",
                "labels.parquet",
                "labelled.json",
                "manifest.json",
            ];
            files.map(|file| std::fs::read(path.join(file)).unwrap_or_default())
        };
        let (expected, found) = (train(&whole, "memory"), train(&on_disk, "disk"));
        assert!(expected[..3].iter().all(|file| !file.is_empty()) && expected == found, "{method}");
        assert_eq!(on_disk.bytes_in_memory(), 0, "{method} loads what is on disk");
    }
}

/// A file that fits is read as a whole, one that does not stays on disk, and steps that are too many are refused.
#[test]
fn a_limit_decides_where_data_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.parquet");
    let data = with_a_long_one(3_000);
    data.write(&path, false).unwrap();
    let nowhere = folder.path().join("not/there");
    for (limit, on_disk) in [(2 << 30, false), (600 << 20, true)] {
        let read = esper::memory::read_within(&path, limit, &nowhere).unwrap();
        assert_eq!(read.scratch().is_some(), on_disk);
        assert_eq!(read, data);
        plan(&TINY).with_memory(Some(limit)).check(&read).unwrap();
    }
    let refused = plan(&TINY).with_memory(Some(100 << 20)).check(&data).unwrap_err().to_string();
    assert!(refused.contains("3,096 steps") && refused.contains("more memory"), "{refused}");
}

/// A limit that makes batches smaller is part of what a run is; one that does not, is none of it.
#[test]
fn a_run_is_gone_on_with_under_the_limit_that_shaped_it() {
    let folder = tempfile::tempdir().unwrap();
    let data = with_a_long_one(4);
    let train = |name: &str, limited: bool, memory: Option<u64>, resume: bool| {
        let settings = [&TINY[..], if limited { &LIMITED[..] } else { &[] }].concat();
        let plan = plan(&settings).with_memory(memory);
        let options = RunOptions { resume, ..RunOptions::default() };
        plan.train_in(&folder.path().join(name), &data, &DataId::of(&data), options, &Unwatched)
            .map(|(folder, _)| folder.manifest().unwrap().memory)
            .map_err(|error| error.to_string())
    };
    let limit = Some(560_000_000);
    assert_eq!(train("small", true, limit, false), Ok(limit));
    assert_eq!(train("small", true, limit, true), Ok(limit));
    for other in [None, Some(570_000_000)] {
        let refused = train("small", true, other, true).unwrap_err();
        assert!(refused.contains("another limit of memory"), "{refused}");
    }
    assert_eq!(train("ample", false, limit, false), Ok(None));
    assert_eq!(train("ample", false, None, true), Ok(None));
}

/// 65,536 categories in each of 1,000 cells are 65 million features: refused with that number, before there is a folder.
#[test]
fn more_features_than_memory_holds_are_refused() {
    let seen = Space::MultiDiscrete { nvec: vec![65_536; 1_000] };
    let mut builder = DatasetBuilder::new(Metadata::new(seen, Space::Discrete { n: 2 }));
    for episode in 0..20u16 {
        let cells: Vec<u16> = (0..1_000).map(|cell| cell * episode).collect();
        builder.push(&cells, &[(episode % 2) as u8], f32::from(episode % 2)).unwrap();
        builder.end(&cells, ENDED).unwrap();
    }
    let data = builder.build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    for method in ["esper", "rvs", "cql", "bc"] {
        let registry = Registry::default();
        let plan = Plan::new(&registry, method, "mlp", registry.config(Preset::Quick)).unwrap();
        let plan = plan.with_memory(Some(32 << 30));
        let options = RunOptions::default();
        let refused = plan.train_in(&path, &data, &DataId::of(&data), options, &Unwatched);
        let words = refused.expect_err("it does not fit").to_string();
        assert!(words.contains("observations have 65,536,000 features"), "{method}: {words}");
        assert!(!path.exists(), "{method} left something behind");
    }
    let small = with_a_long_one(4);
    assert!(plan(&TINY).with_memory(Some(1 << 20)).check(&small).is_err());
    plan(&TINY).with_memory(Some(1 << 30)).check(&small).unwrap();
}

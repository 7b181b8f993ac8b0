//! The same bytes with any number of threads, after stops, and from views; folders of other versions; labels from a file.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use esper::condition::Condition;
use esper::methods::cql::CqlConfig;
use esper::methods::esper::ClusterConfig;
use esper::methods::labels::FromFile;
use esper::run::{DataId, Plan, RunFolder, RunOptions};
use esper::settings::General;
use esper::{Checkpoint, Error, Monitor, Unwatched};
use esper_data::{Dataset, DatasetBuilder};

use super::{METHODS, actions, load, tiny, tiny_with, walks};

fn in_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(work)
}

/// Every file of a run but the one that says how long it took.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&path).unwrap())
        })
        .filter(|(name, _)| name != "training.json")
        .collect();
    files.sort();
    files
}

fn assert_same_files(one: &Path, other: &Path) {
    let (one, other) = (files(one), files(other));
    let names = |files: &[(String, Vec<u8>)]| -> Vec<String> {
        files.iter().map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(names(&one), names(&other));
    for ((name, one), (_, other)) in one.iter().zip(&other) {
        assert!(one == other, "{name} differs");
    }
}

/// Stops after so many steps, and keeps everything in a folder.
struct Stopping<'a> {
    folder: &'a RunFolder,
    after: usize,
    steps: AtomicUsize,
}

impl Monitor for Stopping<'_> {
    fn progress(&self, _: &str, _: usize, _: usize) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }
    fn stop(&self) -> bool {
        self.steps.load(Ordering::Relaxed) >= self.after
    }
    fn record(
        &self,
        phase: &str,
        step: usize,
        metrics: &[(&'static str, f64)],
    ) -> Result<(), Error> {
        self.folder.record(phase, step, metrics)
    }
    fn save_checkpoint(&self, phase: &str, checkpoint: &Checkpoint) -> Result<(), Error> {
        self.folder.save_checkpoint(phase, checkpoint)
    }
    fn load_checkpoint(&self, phase: &str) -> Result<Option<Checkpoint>, Error> {
        self.folder.load_checkpoint(phase)
    }
}

#[test]
fn threads_and_stops_do_not_change_a_byte() {
    // In every phase: luck, clustering, leakage, returns, policy, promise; within a record and at one.
    let stops = [0.01, 0.2, 0.45, 0.65, 0.8, 0.95];
    assert_reproducible(&tiny("esper"), &stops);
    let told = |condition| {
        let mut plan = tiny("esper");
        plan.config =
            plan.config.with(|general: &mut General| general.condition = condition).unwrap();
        plan
    };
    assert_reproducible(&told(Condition::StepLevel), &[0.95]);
    assert_reproducible(&told(Condition::Level), &[0.95]);
    assert_reproducible(&tiny("cql"), &[0.5]);
    assert_reproducible(&tiny_with("bc", "transformer"), &[0.9]);
}

/// The same bytes with one and two threads, and when stopped after such shares of all steps.
fn assert_reproducible(plan: &Plan, stops: &[f64]) {
    let data = walks(300, 12, |state, _| f32::from(state));
    let id = DataId::of(&data);
    let home = tempfile::tempdir().unwrap();
    let whole = |name: &str, threads: usize| {
        let folder = RunFolder::create(&home.path().join(name), plan, &id).unwrap();
        let outcome = in_threads(threads, || plan.train(&data, &folder)).unwrap();
        folder.complete(&data, &outcome).unwrap();
        folder.path().to_owned()
    };
    let one = whole("one", 1);
    let two = whole("two", 2);
    assert_same_files(&one, &two);

    let folder = RunFolder::create(&home.path().join("counted"), plan, &id).unwrap();
    let counting = Stopping { folder: &folder, after: usize::MAX, steps: AtomicUsize::new(0) };
    plan.train(&data, &counting).unwrap();
    let steps = counting.steps.into_inner();
    for after in stops.iter().map(|share| (share * steps as f64) as usize) {
        let path = home.path().join(format!("stopped-{after}"));
        let folder = RunFolder::create(&path, plan, &id).unwrap();
        let stopping = Stopping { folder: &folder, after, steps: AtomicUsize::new(0) };
        assert!(matches!(plan.train(&data, &stopping), Err(Error::Stopped)), "{after}");
        assert!(load(&folder).is_err(), "not complete");
        let busy = RunFolder::resume(&path, plan, &id).unwrap_err().to_string();
        assert!(busy.contains("is being written by process"), "{busy}");
        drop(folder);
        let folder = RunFolder::resume(&path, plan, &id).unwrap();
        let outcome = plan.train(&data, &folder).unwrap();
        let took = folder.complete(&data, &outcome).unwrap().train_seconds;
        assert!(
            after < 100 || took > outcome.seconds,
            "{after} of {steps}: what came before counts"
        );
        drop(folder);
        assert_same_files(&one, &path);
    }

    // Going on with something else is refused.
    let other = Plan { seed: 4, ..plan.clone() };
    let error = RunFolder::resume(&one, &other, &id).unwrap_err().to_string();
    assert!(error.contains("another seed"), "{error}");
    let mut other = plan.clone();
    other.config = other.config.with(|general: &mut General| general.discount = 0.5).unwrap();
    let error = RunFolder::resume(&one, &other, &id).unwrap_err().to_string();
    assert!(error.contains("another configuration"), "{error}");
    // Settings that the method makes no use of may change.
    let mut same = plan.clone();
    same.config = match plan.about().name.as_str() {
        "cql" => same.config.with(|cluster: &mut ClusterConfig| cluster.steps += 1).unwrap(),
        _ => same.config.with(|cql: &mut CqlConfig| cql.steps += 1).unwrap(),
    };
    RunFolder::resume(&one, &same, &id).unwrap();
    let error = RunFolder::create(&one, plan, &id).unwrap_err();
    assert!(matches!(error, Error::RunExists(_)), "{error}");
}

/// A view of a data set is learned from as a copy of the same episodes is, to the last byte.
#[test]
fn views_are_learned_from_like_copies() {
    let data = walks(120, 6, |state, _| f32::from(state));
    let turned: Vec<usize> = (20..120).rev().collect();
    let view = data.select(&turned);
    let mut builder = DatasetBuilder::new(data.metadata().clone());
    builder.extend(&view).unwrap();
    let copy = builder.build().unwrap();
    assert_eq!(DataId::of(&view), DataId::of(&copy));
    for method in METHODS {
        let plan = tiny(method);
        let home = tempfile::tempdir().unwrap();
        let trained = |data: &Dataset, name: &str| {
            let (path, options) = (home.path().join(name), RunOptions::default());
            plan.train_in(&path, data, &DataId::of(data), options, &Unwatched).unwrap().0
        };
        assert_same_files(trained(&view, "view").path(), trained(&copy, "copy").path());
    }
}

/// A folder of the first layout had no number, and no policy that says everything about itself.
#[test]
fn folders_of_other_versions_are_refused() {
    let data = walks(100, 5, |_, action| f32::from(action));
    let (home, plan) = (tempfile::tempdir().unwrap(), tiny("rvs"));
    let folder = RunFolder::create(&home.path().join("run"), &plan, &DataId::of(&data)).unwrap();
    let manifest = folder.path().join("manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("\"format\": 2,", "")).unwrap();
    let error = RunFolder::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("layout 1") && error.contains("train again"), "{error}");
    fs::write(&manifest, text.replace("\"format\": 2,", "\"format\": 3,")).unwrap();
    let error = RunFolder::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("layout 3"), "{error}");
}

/// Labels that another program made: those of a run, read again, give the same policy.
#[test]
fn labels_can_come_from_a_file() {
    let data = walks(100, 5, |_, action| f32::from(action));
    let home = tempfile::tempdir().unwrap();
    let (id, options) = (DataId::of(&data), RunOptions::default());
    let rvs = tiny("rvs");
    let path = home.path().join("rvs");
    let (folder, _) = rvs.train_in(&path, &data, &id, options, &Unwatched).unwrap();
    let labels = folder.labels(&data).unwrap().expect("it has labels").labels;
    assert_eq!(labels, data.returns_to_go(1.0));

    let method = std::sync::Arc::new(FromFile { path: path.join("labels.parquet") });
    let given = Plan { method, ..rvs };
    let there = home.path().join("given");
    let (again, summary) = given.train_in(&there, &data, &id, options, &Unwatched).unwrap();
    assert!(summary.findings.calibration.is_some());
    let (one, other) = (load(&folder).unwrap(), load(&again).unwrap());
    assert_eq!(actions(&one, 1.0), actions(&other, 1.0));

    // Labels of other data do not fit, and a run is not gone on with when its labels changed.
    let short = walks(50, 5, |_, action| f32::from(action));
    assert!(given.check(&short).is_err());
    fs::copy(there.join("policy.safetensors"), path.join("labels.parquet")).unwrap();
    let resume = RunOptions { resume: true, ..options };
    assert!(given.train_in(&there, &data, &id, resume, &Unwatched).is_err());
}

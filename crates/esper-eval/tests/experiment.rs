//! Experiments as a library call: with a world and a method that nobody inside knows of, stopped and gone on with.

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use esper::methods::{About, Context, Findings, Labels, Relabel};
use esper::{Error, Registry};
use esper_data::{Rng, Seed, Space};
use esper_eval::{
    EvalError, Experiment, Experiments, Observer, PlannedRun, Results, RunResults, Unobserved,
};
use esper_tasks::{DatasetSpec, Env, Step, Task};
use rand::RngExt;

/// A number is drawn and shown; naming it pays, and a lucky number pays twice.
#[derive(Clone)]
struct Naming {
    shown: u8,
    rng: Rng,
}

impl Env for Naming {
    type Cell = u8;
    type Action = u8;
    fn observation_space(&self) -> Space {
        Space::Discrete { n: 3 }
    }
    fn action_space(&self) -> Space {
        Space::Discrete { n: 3 }
    }
    fn reset(&mut self, seed: u64, observation: &mut [u8]) {
        self.rng = Seed::new(seed).rng();
        self.shown = self.rng.random_range(0..3);
        observation[0] = self.shown;
    }
    fn step(&mut self, action: u8, observation: &mut [u8]) -> Step {
        observation[0] = self.shown;
        let lucky = f32::from(u8::from(self.rng.random_bool(0.5)));
        Step::end(if action == self.shown { 1.0 + lucky } else { 0.0 })
    }
}

fn task() -> Task {
    let naming = Naming { shown: 0, rng: Seed::new(0).rng() };
    Task::new("naming", move || Ok(Box::new(naming.clone())))
        .with_dataset(DatasetSpec::new("random", 2_000, ["random"]))
        .with_episodes(200)
}

/// What [`Paid`] warns of.
const WARNING: &str = "how much was paid is not known";

/// Labels a step with 1 where it paid anything.
struct Paid;

impl Relabel for Paid {
    fn about(&self) -> About {
        About::new("paid").titled("paid or not")
    }
    fn relabel(&self, context: &Context<'_>) -> Result<Labels, Error> {
        let paid = |value: f32| f32::from(u8::from(value > 0.0));
        let labels = Labels::new(context.returns_to_go().into_iter().map(paid).collect());
        let findings = Findings { warnings: vec![WARNING.to_owned()], ..Findings::default() };
        Ok(Labels { findings, ..labels })
    }
}

fn experiment() -> Experiment {
    Experiment::in_registry(&task(), Registry::default().with(Paid))
        .with_methods(["paid", "rvs", "paid"])
        .unwrap()
        .with_settings(None, ["mlp.steps=800", "mlp.hidden=16", "mlp.batch=64"])
        .with_seeds(2)
}

/// Results without how long things took.
fn timeless(mut results: Results) -> Results {
    for method in &mut results.methods {
        method.train_seconds = None;
        method.runs.iter_mut().for_each(|run| run.train_seconds = 0.0);
    }
    results
}

/// Counts what it is told, and stops after so many reports of progress.
#[derive(Default)]
struct Stopping {
    after: Option<usize>,
    reports: AtomicUsize,
    planned: Mutex<Vec<PlannedRun>>,
    finished: Mutex<Vec<(usize, bool)>>,
    collected: AtomicUsize,
}

impl Observer for Stopping {
    fn collecting(&self, _: &str, done: u64, total: u64) {
        assert!(done > 0 && total == 2_000);
        self.collected.fetch_add(1, Ordering::Relaxed);
    }
    fn planned(&self, runs: &[PlannedRun]) {
        *self.planned.lock().unwrap() = runs.to_vec();
    }
    fn progress(&self, run: usize, phase: &str, done: usize, total: usize) {
        assert!(done <= total);
        assert!(self.planned.lock().unwrap()[run].phases.contains(&phase), "{phase}");
        self.reports.fetch_add(1, Ordering::Relaxed);
    }
    fn finished(&self, run: usize, _: &RunResults, before: bool) {
        self.finished.lock().unwrap().push((run, before));
    }
    fn stop(&self) -> bool {
        self.after.is_some_and(|after| self.reports.load(Ordering::Relaxed) >= after)
    }
}

#[test]
fn a_world_and_a_method_of_ones_own_are_compared() {
    let home = tempfile::tempdir().unwrap();
    let results = experiment().run(&home.path().join("run"), &Unobserved).unwrap();
    let titles: Vec<&str> = results.methods.iter().map(|method| method.title.as_str()).collect();
    assert_eq!(titles, ["paid or not", "return conditioning"], "each once");
    assert_eq!((results.task.as_deref(), results.dataset.steps), (Some("naming"), 2_000));
    let paid = &results.methods[0];
    assert!(paid.paper_best_return.is_none() && paid.has_targets());
    // Asked for the highest level, it names the number, which pays 1.5 on average: that is what is promised.
    let achieved = paid.offline_return.unwrap().mean;
    assert!((achieved - 1.5).abs() < 0.15, "{achieved}");
    let promised = paid.runs[0].evaluation.offline_target.unwrap();
    assert!((promised - 1.5).abs() < 0.15, "{promised}");
    assert_eq!(paid.runs[0].findings.warnings[0], WARNING);
    assert!(results.methods[1].runs[0].findings.warnings.is_empty());
}

#[test]
fn what_was_stopped_ends_with_the_same_results() {
    let home = tempfile::tempdir().unwrap();
    let folder = |name: &str| home.path().join(name);
    let whole = experiment().run(&folder("whole"), &Unobserved).unwrap();
    for after in [1, 900, 2_500] {
        let path = folder(&format!("stopped-{after}"));
        let stopping = Stopping { after: Some(after), ..Stopping::default() };
        let stopped = experiment().run(&path, &stopping);
        assert!(matches!(stopped, Err(EvalError::Stopped)), "{after}");
        let observer = Stopping::default();
        let resumed = experiment().with_resume(true).run(&path, &observer).unwrap();
        assert_eq!(timeless(resumed), timeless(whole.clone()));
        assert_eq!(observer.finished.lock().unwrap().len(), 4);
        assert_eq!(observer.collected.load(Ordering::Relaxed), 0, "the data was there");
        assert_same_policies(&folder("whole"), &path);
    }
    // What is done is not done again; and not without being asked for.
    let observer = Stopping::default();
    let again = experiment().with_resume(true).run(&folder("whole"), &observer).unwrap();
    assert_eq!(again, whole);
    assert!(observer.finished.lock().unwrap().iter().all(|(_, before)| *before));
    let exists = experiment().run(&folder("whole"), &Unobserved);
    assert!(matches!(exists, Err(EvalError::Exists(_))));
    let other = experiment().with_seeds(3).with_resume(true).run(&folder("whole"), &Unobserved);
    assert!(matches!(other, Err(EvalError::OtherComparison { .. })));
}

fn assert_same_policies(one: &Path, other: &Path) {
    for run in ["paid-mlp-0", "paid-mlp-1", "rvs-mlp-0", "rvs-mlp-1"] {
        let read = |home: &Path| fs::read(home.join(run).join("policy.safetensors")).unwrap();
        assert!(read(one) == read(other), "{run}");
    }
}

/// Rules that changed are another world.
#[test]
fn a_policy_is_not_tried_in_a_world_of_another_version() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("run");
    experiment().run(&path, &Unobserved).unwrap();
    let device = esper_nn::DeviceName::Cpu.open().unwrap();
    let folder = esper::run::RunFolder::open(&path.join("rvs-mlp-0")).unwrap();
    let policy = folder.policy(&Registry::default(), &device).unwrap();
    let ask = esper_eval::Ask {
        targets: Some(vec![esper::condition::Target::Return(1.0)]),
        episodes: 10,
        seed: 0,
    };
    let watch = &mut |_, _| std::ops::ControlFlow::Continue(());
    esper_eval::evaluate(&policy, &task(), &ask, watch).unwrap();
    let newer = task().with_version(2);
    let refused = esper_eval::evaluate(&policy, &newer, &ask, watch).unwrap_err().to_string();
    assert!(refused.contains("version 1") && refused.contains("version 2"), "{refused}");
    let other = esper_tasks::task("gambling").unwrap();
    assert!(esper_eval::evaluate(&policy, other, &ask, watch).is_err());
}

/// Labels nothing.
struct Broken;

impl Relabel for Broken {
    fn about(&self) -> About {
        About::new("broken")
    }
    fn relabel(&self, _: &Context<'_>) -> Result<Labels, Error> {
        Err(Error::Unsuitable("there are no labels".to_owned()))
    }
}

/// Results without how long it took, which is never the same.
fn without_seconds(results: &Results) -> serde_json::Value {
    fn strip(value: &mut serde_json::Value) {
        match value {
            serde_json::Value::Object(fields) => {
                fields.remove("train_seconds");
                fields.values_mut().for_each(strip);
            }
            serde_json::Value::Array(values) => values.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let mut value = serde_json::to_value(results).unwrap();
    strip(&mut value);
    value
}

fn several() -> Experiment {
    let registry = Registry::default().with(Paid).with(Broken);
    let experiment =
        Experiment::in_registry(&task(), registry).with_settings(None, ["mlp.steps=60"]);
    experiment.with_methods(["paid", "broken"]).unwrap().with_seeds(2)
}

/// Done here, or one by one by whoever shares the folder: the same results, in which a run that failed is named.
#[test]
fn experiments_are_done_together_or_one_by_one() {
    let home = tempfile::tempdir().unwrap();
    let folders = ["one", "other"].map(|name| home.path().join(name));
    let one_by_one = home.path().join("one-by-one");
    let cells = || folders.clone().map(|folder| (several(), folder)).into();
    let together = Experiments::begin(cells(), &Unobserved).unwrap();
    assert!(matches!(Experiments::begin(cells(), &Unobserved), Err(EvalError::Data(_))), "locked");
    let failures = together.run(&Unobserved).unwrap();
    let gathered = together.gather(&failures).unwrap();
    let results = gathered[0].as_ref().unwrap();
    let failed: Vec<(&str, u64)> =
        results.failed.iter().map(|run| (run.method.as_str(), run.seed)).collect();
    assert_eq!(failed, [("broken", 0), ("broken", 1)]);
    assert!(results.failed[0].error.contains("there are no labels"), "{}", results.failed[0].error);
    assert_eq!(results.methods.len(), 1);
    assert_eq!(without_seconds(results), without_seconds(gathered[1].as_ref().unwrap()));
    assert_eq!(&Results::read(&folders[0]).unwrap(), results);

    let experiment = several();
    let error = experiment.run_one(&one_by_one, "paid", 0, &Unobserved).unwrap_err();
    assert!(matches!(error, EvalError::NotBegun(_)), "{error}");
    let begun = Experiments::begin(vec![(several(), one_by_one.clone())], &Unobserved).unwrap();
    let failures: Vec<Option<String>> = begun
        .runs()
        .unwrap()
        .iter()
        .map(|run| experiment.run_one(&one_by_one, &run.method, run.seed, &Unobserved).err())
        .map(|error| error.map(|error| error.of_one().to_string()))
        .collect();
    let alone = begun.gather(&failures).unwrap().remove(0).unwrap();
    assert_eq!(without_seconds(&alone), without_seconds(results));
    let error = experiment.run_one(&one_by_one, "paid", 2, &Unobserved).unwrap_err();
    assert!(error.to_string().contains("no run of this experiment"), "{error}");
    // What is not in the folder is not made up.
    fs::remove_dir_all(one_by_one.join("paid-mlp-1")).unwrap();
    let missed = begun.gather(&[const { None }; 4]).unwrap().remove(0).unwrap();
    assert_eq!(missed.failed.len(), 3);
    assert!(missed.failed[0].error.contains("the same folder"), "{}", missed.failed[0].error);
}

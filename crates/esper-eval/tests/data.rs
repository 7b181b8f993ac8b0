//! Experiments on data that is given: without a world, with the one it names, gone on with, and refused on other data.

use std::fs;
use std::path::Path;

use esper_data::{Dataset, DatasetBuilder, End, Metadata, Space};
use esper_eval::{Comparison, EvalError, Experiment, Results, Unobserved};

/// Two kinds of customers, an offer or none: an offer pays 1 to the first kind and costs 1 with the second. One seller always
/// offers, one never does, one knows; who is lucky gets 0.5 more.
fn log(episodes: u16) -> Dataset {
    let [seen, done] = [2, 2].map(|n| Space::Discrete { n });
    let mut builder = DatasetBuilder::new(Metadata::new(seen, done));
    for episode in 0..episodes {
        let kind = (episode % 2) as u8;
        let (seller, offer) = match episode / 2 % 3 {
            0 => ("always", 1),
            1 => ("never", 0),
            _ => ("knows", 1 - kind),
        };
        let luck = f32::from(episode * 7919 % 11 % 2) * 0.5;
        let paid = f32::from(offer) * if kind == 0 { 1.0 } else { -1.0 };
        builder.made_by(seller);
        builder.push(&[kind], &[offer], paid + luck).unwrap();
        builder.end(&[kind], End { terminated: true, truncated: false }).unwrap();
    }
    builder.build().unwrap()
}

const SMALL: [&str; 11] = [
    "cluster.steps=60",
    "cluster.hidden=16",
    "cluster.batch=20",
    "leakage.steps=30",
    "leakage.luck_steps=60",
    "returns.steps=60",
    "returns.hidden=16",
    "mlp.steps=300",
    "mlp.hidden=16",
    "mlp.batch=64",
    "promise.steps=100",
];

fn on(data: Dataset) -> Experiment {
    Experiment::on(data, "shop/offers.parquet".as_ref())
        .with_methods(["esper", "rvs", "bc"])
        .unwrap()
        .with_settings(None, SMALL)
        .with_seeds(1)
}

#[test]
fn without_a_world_results_say_what_the_data_promises() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("run");
    let results = on(log(600)).run(&folder, &Unobserved).unwrap();
    assert_eq!((results.task.as_deref(), results.name().as_str()), (None, "offers"));
    assert!(!results.in_world() && !folder.join("data.parquet").exists(), "data is not copied");
    let overview = results.dataset.overview.as_ref().unwrap();
    assert_eq!(overview.best_behaviour().unwrap().name, "knows");
    let [esper, rvs, bc] = &results.methods[..] else { panic!("three methods") };
    let chosen = esper.offline_promise.unwrap();
    let (low, high) = (chosen.low.unwrap(), chosen.high.unwrap());
    assert!(chosen.level.is_some() && low <= chosen.promise && chosen.promise <= high);
    // One of twenty episodes returns 1.5, which is luck in part; it is taken at its word.
    let told = rvs.offline_promise.unwrap();
    assert_eq!((told.promise, told.low), (1.5, None));
    assert!(bc.offline_promise.is_none());
    for method in &results.methods {
        let run = &method.runs[0];
        assert!(run.evaluation.sweep.is_empty() && run.evaluation.calibration_error.is_none());
        assert!(method.best_return.is_none() && method.offline_return.is_none());
        assert_eq!(run.promises.is_empty(), method.method == "bc");
    }
    // The fields that others rely on are there, and null.
    let json: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.join(Results::FILE)).unwrap()).unwrap();
    assert!(json["task"].is_null() && json["methods"][0]["best_return"].is_null());
    let run = json["methods"][0]["runs"][0].as_object().unwrap();
    for field in ["best_target", "best_return", "offline_return", "calibration_error"] {
        assert!(run[field].is_null(), "{field}");
    }
    assert!(run["offline_target"].is_f64() && run["sweep"] == serde_json::json!([]));
    assert_eq!(Results::read(&folder).unwrap(), results);
    let again = Comparison::read(&folder).unwrap().again().to_string();
    assert!(again.starts_with("esper run shop/offers.parquet --methods esper,rvs,bc"), "{again}");
}

#[test]
fn only_the_same_data_is_gone_on_with() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("run");
    let quick = |data: Dataset, path: &str| {
        Experiment::on(data, Path::new(path))
            .with_methods(["rvs"])
            .unwrap()
            .with_settings(None, SMALL)
            .with_seeds(1)
            .with_resume(true)
    };
    let results = quick(log(600), "a.parquet").run(&folder, &Unobserved).unwrap();
    // The same data, elsewhere by now.
    let again = quick(log(600), "moved/b.parquet").run(&folder, &Unobserved).unwrap();
    assert_eq!(again.methods, results.methods);
    let other = quick(log(598), "a.parquet").run(&folder, &Unobserved).unwrap_err();
    assert!(matches!(other, EvalError::OtherGivenData { steps: 600, .. }), "{other}");
    assert!(other.to_string().contains("other data than a.parquet"), "{other}");
    let settings = quick(log(600), "a.parquet").with_seeds(2).run(&folder, &Unobserved);
    assert!(matches!(settings, Err(EvalError::OtherComparison { .. })));
    // What is of a task makes no sense here.
    for refused in [
        quick(log(600), "a.parquet").with_steps(10),
        quick(log(600), "a.parquet").with_dataset("random"),
    ] {
        assert!(matches!(refused.comparison(), Err(EvalError::Asked(_))));
    }
}

/// Gambling's data in a file: tried in its world, unless that is not wanted or its rules have changed since.
#[test]
fn data_of_a_task_is_tried_in_its_world() {
    let home = tempfile::tempdir().unwrap();
    let task = esper_tasks::task("gambling").unwrap();
    let collect = |experiment: Experiment| {
        experiment
            .with_methods(["rvs"])
            .unwrap()
            .with_settings(None, ["mlp.steps=100", "mlp.hidden=16"])
            .with_seeds(1)
            .with_episodes(50)
    };
    let own = home.path().join("own");
    let of_task = collect(Experiment::new(task)).with_steps(2_000).run(&own, &Unobserved).unwrap();
    let path = own.join("data.parquet");
    let data = esper_data::read(&path).unwrap();
    let given = home.path().join("given");
    let of_data = collect(Experiment::on(data.clone(), &path)).run(&given, &Unobserved).unwrap();
    assert_eq!(of_data.methods[0].runs[0].evaluation, of_task.methods[0].runs[0].evaluation);
    assert_eq!((of_data.task.as_deref(), of_data.in_world()), (Some("gambling"), true));
    // Who collected it is not known: it is not held against the paper.
    assert!(of_task.methods[0].paper_best_return.is_some());
    assert!(of_data.methods[0].paper_best_return.is_none());
    let offline =
        |experiment: Experiment| collect(experiment).with_offline(true).comparison().unwrap();
    let comparison = offline(Experiment::on(data.clone(), &path));
    assert!(!comparison.world && comparison.episodes == 0);
    assert!(comparison.again().to_string().contains(" --offline"));
    assert!(!offline(Experiment::new(task)).world, "a task's own data, too");
    let mut builder = DatasetBuilder::new(Metadata {
        task_version: Some(task.version() + 1),
        ..data.metadata().clone()
    });
    builder.extend(&data).unwrap();
    let changed = Experiment::on(builder.build().unwrap(), &path);
    assert!(!collect(changed).comparison().unwrap().world);
}

/// Shares of data that is given are its beginnings.
#[test]
fn shares_of_given_data_are_compared() {
    let home = tempfile::tempdir().unwrap();
    let scaling = on(log(600))
        .with_methods(["bc"])
        .unwrap()
        .with_fractions(vec![0.5, 1.0])
        .run_shares(&home.path().join("run"), &Unobserved)
        .unwrap();
    let steps: Vec<usize> = scaling.fractions.iter().map(|of| of.results.dataset.steps).collect();
    assert_eq!((steps, scaling.task), (vec![300, 600], None));
}

/// With a limit of memory runs go on one by one where two would not fit, data stays on disk, and results are the same.
#[test]
fn a_limit_of_memory_changes_no_result() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("offers.parquet");
    log(600).write(&path, false).unwrap();
    let run = |name: &str, limit: Option<u64>| {
        let data = match limit {
            Some(limit) => esper::memory::read_within(&path, limit, home.path()).unwrap(),
            None => esper_data::read(&path).unwrap(),
        };
        let folder = home.path().join(name);
        on(data.clone()).with_memory(limit).run(&folder, &Unobserved).unwrap();
        let policy = |method: &str| {
            fs::read(folder.join(format!("{method}-mlp-0/policy.safetensors"))).unwrap()
        };
        (["esper", "rvs", "bc"].map(policy), data)
    };
    let (expected, _) = run("free", None);
    // Room for one run, and not for two.
    let (found, data) = run("limited", Some(600_000_000));
    assert!(expected == found && data.scratch().is_some() && data.bytes_in_memory() == 0);
    let data = esper_data::read(&path).unwrap();
    let refused = on(data).with_memory(Some(1 << 20)).run(&home.path().join("none"), &Unobserved);
    assert!(refused.is_err_and(|error| error.to_string().contains("allow more memory")));
    assert!(!home.path().join("none").exists(), "nothing is left of what is refused");
}

/// A dose and a place, both in words: cql cannot choose both. It is left out where nobody asked for it, and refused with what to ask
/// for where somebody did.
#[test]
fn usual_methods_that_cannot_take_the_actions_are_left_out() {
    let both = Space::MultiDiscrete { nvec: vec![2, 3] };
    let mut builder = DatasetBuilder::new(Metadata::new(Space::Discrete { n: 2 }, both));
    for episode in 0..60u8 {
        builder.push(&[episode % 2], &[episode % 2, episode % 3], 1.0).unwrap();
        builder.end(&[0u8], End { terminated: true, truncated: false }).unwrap();
    }
    let data = builder.build().unwrap();
    let usual = Experiment::on(data.clone(), "both.parquet".as_ref());
    assert_eq!(usual.comparison().unwrap().methods, ["esper", "rvs"]);
    let left_out = usual.left_out().unwrap();
    assert_eq!((left_out.len(), left_out[0].method.as_str()), (1, "cql"));
    for asked in [&["cql"][..], &["esper", "cql", "rvs"]] {
        let error = usual.clone().with_methods(asked).unwrap().comparison().unwrap_err();
        assert!(error.to_string().contains("--methods esper,rvs"), "{error}");
    }
    let home = tempfile::tempdir().unwrap();
    let small = usual.with_settings(None, SMALL).with_seeds(1);
    let results = small.run(&home.path().join("run"), &Unobserved).unwrap();
    assert_eq!((results.left_out, results.methods.len()), (left_out, 2));
    // One choice among some is for all of them.
    let one = Experiment::on(log(60), "one.parquet".as_ref());
    assert!(one.left_out().unwrap().is_empty());
    assert_eq!(one.comparison().unwrap().methods.len(), 3);
}

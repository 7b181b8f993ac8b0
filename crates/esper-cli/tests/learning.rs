//! `train`, `eval` and `run` as their users meet them, with networks too small to learn much.

mod common;

use std::fs;

use serde_json::Value;

use common::{esper, json, narrow, refused, small, stderr};

/// Takes out how long things took.
fn timeless(mut results: Value) -> Value {
    for method in results["methods"].as_array_mut().unwrap() {
        method["train_seconds"] = Value::Null;
        for run in method["runs"].as_array_mut().unwrap() {
            run["train_seconds"] = Value::Null;
        }
    }
    results
}

const RUN: [&str; 9] =
    ["run", "gambling", "--seeds", "2", "--steps", "4000", "--episodes", "50", "--json"];

#[test]
fn a_comparison_keeps_its_contract() {
    let folder = tempfile::tempdir().unwrap();
    let run = |more: &[&str]| small(folder.path(), &[&RUN, more].concat());
    let output = run(&["--out", "one", "--threads", "1"]);
    let results = json(&output);
    assert_eq!(results["task"], "gambling");
    assert_eq!(results["preset"], "quick");
    assert_eq!(results["seeds"], 2);
    assert_eq!(results["dataset"]["steps"], 4000);
    let methods = results["methods"].as_array().unwrap();
    let names: Vec<&str> =
        methods.iter().map(|method| method["method"].as_str().unwrap()).collect();
    assert_eq!(names, ["esper", "rvs", "cql"]);
    // What cannot be asked for a target has one entry, without one.
    let values = &methods[2];
    assert!(values["policy"].is_null() && values["calibration_error"].is_null());
    assert_eq!(values["offline_return"], values["best_return"]);
    let sweep = values["runs"][0]["sweep"].as_array().unwrap();
    assert!(sweep.len() == 1 && sweep[0]["target"].is_null());
    for method in &methods[..2] {
        assert_eq!(method["policy"], "mlp");
        for key in ["best_return", "offline_return", "calibration_error", "train_seconds"] {
            assert!(method[key]["mean"].is_f64() && method[key]["std"].is_f64(), "{key}: {method}");
        }
        assert!(method["paper_best_return"]["mean"].is_f64());
        let runs = method["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 2);
        for run in runs {
            let best = run["best_return"].as_f64().unwrap();
            let sweep = run["sweep"].as_array().unwrap();
            let achieved = |entry: &Value| entry["achieved"].as_f64().unwrap();
            assert_eq!(sweep.iter().map(achieved).fold(f64::MIN, f64::max), best);
            assert!(sweep.iter().all(|entry| entry["episodes"] == 50));
            assert!(sweep.iter().any(|entry| entry["target"] == run["offline_target"]));
            // Levels are of the data; returns that nobody had can be asked for.
            let is_esper = method["method"] == "esper";
            assert!(sweep.iter().all(|entry| entry["level"].is_f64() == is_esper));
            assert_eq!(sweep.iter().all(|entry| entry["supported"] == true), is_esper);
            assert_eq!(run["leakage"].is_f64(), is_esper);
        }
    }
    let kept: Value =
        serde_json::from_slice(&fs::read(folder.path().join("one/results.json")).unwrap()).unwrap();
    assert_eq!(kept, results);
    for file in
        ["config.toml", "manifest.json", "metrics.jsonl", "labels.parquet", "policy.safetensors"]
    {
        assert!(folder.path().join("one/esper-mlp-1").join(file).exists(), "{file}");
    }

    // Any number of threads: the same results, labels and weights.
    let again = json(&run(&["--out", "two", "--threads", "3"]));
    assert_eq!(timeless(again), timeless(results.clone()));
    for file in ["labels.parquet", "policy.safetensors", "clusters.safetensors", "metrics.jsonl"] {
        let read =
            |run: &str| fs::read(folder.path().join(run).join("esper-mlp-0").join(file)).unwrap();
        assert!(read("one") == read("two"), "{file} differs");
    }

    // What is there is not overwritten; going on with what is complete gives it again.
    refused(&run(&["--out", "one"]), 1, "--resume");
    assert_eq!(json(&run(&["--out", "one", "--resume"])), results);
}

/// Labels of one's own beside the methods, in the table and on the page.
#[test]
fn labels_of_ones_own_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let data = ["collect", "gambling", "--steps", "4000", "--json"];
    json(&esper(here, &data));
    let train = ["train", "gambling.parquet", "--method", "rvs", "--out", "mine", "--json"];
    json(&small(here, &train));
    let mine = ["--methods", "rvs", "--labels", "mine/labels.parquet", "--out", "one"];
    let mine = [&mine[..], &["--condition", "return"]].concat();
    let run = |more: &[&str]| small(here, &[&RUN[..], &mine, more].concat());
    let results = json(&run(&[]));
    let [rvs, labels] = &results["methods"].as_array().unwrap()[..] else { panic!("{results}") };
    assert_eq!(labels["method"], "labels");
    assert_eq!(labels["best_return"], rvs["best_return"], "the same labels, the same policies");
    let page = fs::read_to_string(here.join("one/report.html")).unwrap();
    assert!(page.contains("What labels know: labels from labels.parquet"));
    assert!(page.contains("--labels mine/labels.parquet"));
    assert_eq!(json(&run(&["--resume"])), results);
}

/// The same comparison with less data and with all of it; each can be gone on with.
#[test]
fn shares_of_the_data_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let command = ["run", "gambling", "--seeds", "1", "--steps", "4000", "--episodes", "50"];
    let more = ["--fractions", "100%,25%", "--out", "shares", "--json"];
    let run = |resume: &[&str]| small(folder.path(), &[&command[..], &more, resume].concat());
    let scaling = json(&run(&[]));
    let shares = scaling["fractions"].as_array().unwrap();
    for (share, (fraction, steps)) in shares.iter().zip([(0.25, 1000), (1.0, 4000)]) {
        assert_eq!(
            (&share["fraction"], &share["dataset"]["steps"]),
            (&fraction.into(), &steps.into())
        );
        let methods = share["methods"].as_array().unwrap();
        assert_eq!(methods.len(), 2);
        assert!(methods.iter().all(|method| method["best_return"]["mean"].is_f64()));
    }
    json(&esper(folder.path(), &["report", "shares/25%", "--json"]));
    let read = |file: &str| fs::read(folder.path().join("shares").join(file)).unwrap();
    let kept: Value = serde_json::from_slice(&read("scaling.json")).unwrap();
    assert_eq!(kept, scaling);
    let whole: Value = serde_json::from_slice(&read("100%/results.json")).unwrap();
    assert_eq!(whole["methods"], shares[1]["methods"]);
    assert_eq!(json(&run(&["--resume"])), scaling);
}

#[test]
fn training_and_asking() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    json(&esper(here, &["collect", "gambling", "--steps", "4000", "--json"]));
    let trained = json(&small(here, &["train", "gambling.parquet", "--out", "run", "--json"]));
    assert_eq!(trained["method"], "esper");
    assert!(trained["findings"]["clustering"]["leakage"]["stderr"].is_f64());
    for promise in trained["promises"].as_array().unwrap() {
        let [target, promised, low, high] =
            ["target", "promise", "low", "high"].map(|name| promise[name].as_f64().unwrap());
        assert!(promise["level"].is_f64() && low <= promised && promised <= high, "{promise}");
        assert_eq!(target, promised, "asking for it asks for the level");
    }
    let evaluated =
        json(&esper(here, &["eval", "run", "--targets=-5,1,1000", "--episodes", "20", "--json"]));
    let targets: Vec<f64> = evaluated["sweep"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["target"].as_f64().unwrap())
        .collect();
    assert_eq!(targets, [-5.0, 1.0, 1000.0]);
    let far = esper(here, &["eval", "run", "--targets", "1000", "--episodes", "20"]);
    narrow(&far);
    assert!(stderr(&far).contains("does not speak about 1000"), "{}", stderr(&far));

    // The other policy, and methods that cannot be asked.
    let transformer =
        &["train", "gambling.parquet", "--policy", "transformer", "--out", "dt", "--json"];
    assert_eq!(json(&small(here, transformer))["policy"], "transformer");
    json(&esper(here, &["eval", "dt", "--targets", "1", "--episodes", "20", "--json"]));
    let best = &["train", "gambling.parquet", "--method", "bc", "--out", "bc", "--json"];
    json(&small(here, &[&best[..], &["--set", "bc.percentile=10"]].concat()));
    assert!(json(&esper(here, &["eval", "bc", "--json"]))["sweep"][0]["target"].is_null());
    refused(&esper(here, &["eval", "bc", "--targets", "1"]), 2, "cannot be asked");

    // Labels that come from a file: a run's own, as another program would write them.
    let given = ["train", "gambling.parquet", "--labels", "run/labels.parquet", "--out", "given"];
    let given = json(&small(here, &[&given[..], &["--json"]].concat()));
    assert_eq!((&given["method"], &given["policy"]), (&"labels".into(), &"mlp".into()));
    assert!(given["findings"]["calibration"]["error"].is_f64());
    json(&esper(here, &["eval", "given", "--targets", "1", "--episodes", "20", "--json"]));
    let both = ["train", "gambling.parquet", "--labels", "x", "--method", "rvs"];
    refused(&small(here, &both), 2, "cannot be used with");
    let other = ["train", "gambling.parquet", "--labels", "gambling.parquet"];
    refused(&small(here, &other), 1, "label");
    assert!(!here.join("gambling-labels-0").exists());

    refused(&small(here, &["train", "gambling.parquet", "--out", "run"]), 1, "--resume");
    refused(&esper(here, &["eval", "nowhere"]), 1, "there is no folder nowhere");
    refused(&esper(here, &["eval", "."]), 1, "not a run's folder");
    fs::remove_file(here.join("run/training.json")).unwrap();
    refused(&esper(here, &["eval", "run"]), 1, "not complete");
}

/// Clusters that gain by leaking are told of.
#[test]
fn leaks_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    json(&esper(here, &["collect", "gambling", "--steps", "4000", "--json"]));
    let leaky = ["--set", "cluster.beta_adv=-10", "--set", "cluster.attempts=1"];
    let leaky = [&leaky[..], &["--set", "cluster.steps=300"]].concat();
    let train = [&["train", "gambling.parquet", "--out", "run"], &leaky[..]].concat();
    let told = small(here, &train);
    let told = narrow(&told);
    assert!(told.contains("  warning              clusters leak more than is tolerated"), "{told}");
    assert!(told.replace(&format!("\n{:23}", ""), " ").contains("what only luck brings"), "{told}");
    let json_again = small(here, &[&train[..], &["--resume", "--json"]].concat());
    let warning = &json(&json_again)["warnings"][0];
    assert!(warning.as_str().unwrap().contains("only luck brings; do not take"), "{warning}");

    let run = ["run", "gambling", "--methods", "esper", "--steps", "4000", "--seeds", "1"];
    let run = [&run[..], &["--episodes", "20", "--out", "all", "--json"], &leaky].concat();
    let output = small(here, &run);
    assert!(stderr(&output).contains("\n  warning: clusters leak"), "{}", stderr(&output));
    let findings = &json(&output)["methods"][0]["runs"][0]["findings"];
    assert_eq!(&findings["warnings"][0], warning);
    let page = fs::read_to_string(here.join("all/report.html")).unwrap();
    assert!(page.contains("<p class=\"bad warning\">ESPER, seed 0: clusters leak"));
}

/// Records of an event file: a length, its checksum, so many bytes, theirs.
fn events(mut bytes: &[u8]) -> usize {
    let mut records = 0;
    while let Some((length, rest)) = bytes.split_first_chunk() {
        bytes = &rest[4 + u64::from_le_bytes(*length) as usize + 4..];
        records += 1;
    }
    records
}

/// Event files hold all that was measured, also when they are first asked for while going on.
#[test]
fn tensorboard_sees_everything() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    json(&esper(here, &["collect", "gambling", "--steps", "4000", "--json"]));
    let train = |more: &[&str]| {
        let command = ["train", "gambling.parquet", "--out", "run", "--json"];
        json(&small(here, &[&command[..], more].concat()));
        let read = |file: &str| fs::read(here.join("run").join(file));
        let lines = read("metrics.jsonl").unwrap().iter().filter(|&&b| b == b'\n').count();
        (lines, read("events.out.tfevents.esper").ok().map(|bytes| events(&bytes)))
    };
    let (lines, none) = train(&[]);
    assert!(lines > 3 && none.is_none());
    // One that says what the file is, and one a line.
    assert_eq!(train(&["--resume", "--tensorboard"]), (lines, Some(1 + lines)));
    fs::remove_dir_all(here.join("run")).unwrap();
    assert_eq!(train(&["--tensorboard"]), (lines, Some(1 + lines)));
}

#[test]
fn misuse_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    json(&esper(here, &["collect", "gambling", "--steps", "100", "--json"]));
    let train = |more: &[&str]| esper(here, &[&["train", "gambling.parquet"], more].concat());
    refused(&train(&["--set", "cluster.beta=1"]), 2, "there is no setting cluster.beta");
    let uneven = ["--set", "cluster.rep_size=8", "--set", "cluster.rep_groups=3"];
    refused(&train(&uneven), 2, "multiple");
    refused(&train(&["--config", "nothing.toml"]), 2, "nothing.toml");
    refused(&train(&["--method", "magic"]), 2, "esper, rvs, cql, bc");
    refused(&esper(here, &["run", "chess"]), 2, "gambling, connect-four, twenty48");
    refused(&esper(here, &["run", "gambling", "--seeds", "0"]), 2, "--seeds");
    refused(&esper(here, &["run", "gambling", "--fractions", "5,none"]), 2, "not a share");
    refused(&esper(here, &["eval", "run", "--targets", "high"]), 2, "not a number");
    refused(&esper(here, &["train", "nothing.parquet"]), 1, "nothing.parquet");
    json(&esper(here, &["collect", "gambling", "--steps", "20", "--out", "few.parquet", "--json"]));
    refused(&esper(here, &["train", "few.parquet"]), 1, "10 episodes; at least 20");
    assert!(!here.join("few-esper-0").exists());
    // A folder that was there before is not taken away, whatever goes wrong in it.
    fs::create_dir(here.join("mine")).unwrap();
    fs::write(here.join("mine/precious"), "").unwrap();
    let few = ["run", "gambling", "--steps", "20", "--out"];
    refused(&esper(here, &[&few[..], &["mine"]].concat()), 1, "at least 20");
    assert!(here.join("mine/precious").exists());
    refused(&esper(here, &[&few[..], &["new"]].concat()), 1, "at least 20");
    assert!(!here.join("new").exists());
}

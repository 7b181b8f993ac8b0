//! Policies act the same after a file, and refuse what makes no sense.

use std::fs;
use std::path::Path;

use esper::condition::Target;
use esper::policy::Policy;
use esper::run::{DataId, Plan, RunFolder};
use esper::{Registry, Unwatched};
use esper_data::{Cells, CellsRef, Seed, Space};

use super::{METHODS, actions, cpu, dataset, load, tiny_with, walks};

#[test]
fn a_policy_acts_the_same_after_a_file() {
    for policy in ["mlp", "transformer"] {
        for method in METHODS {
            acts_the_same(&tiny_with(method, policy));
        }
    }
}

fn acts_the_same(plan: &Plan) {
    let data = walks(100, 5, |_, action| f32::from(action));
    let home = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(&home.path().join("run"), plan, &DataId::of(&data)).unwrap();
    let outcome = plan.train(&data, &folder).unwrap();
    folder.complete(&data, &outcome).unwrap();
    let policy = load(&RunFolder::open(folder.path()).unwrap()).unwrap();
    assert_eq!(policy.card(), outcome.learned.policy.card());
    assert_eq!(policy.to_safetensors(), outcome.learned.policy.to_safetensors());
    assert_eq!(actions(&policy, 1.0), actions(&outcome.learned.policy, 1.0));
    // Far beyond what it knows it does the best it knows.
    let highest = policy.card().labels.map_or(0.0, |labels| labels.range()[1]);
    assert_eq!(actions(&policy, 1e30), actions(&policy, highest));
}

/// A policy that was trained a little, and the file it is in.
fn kept_policy(method: &str, policy: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let data = walks(100, 5, |_, action| f32::from(action));
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("policy.safetensors");
    let outcome = tiny_with(method, policy).train(&data, &Unwatched).unwrap();
    outcome.learned.policy.write(&path).unwrap();
    (home, path)
}

/// The bytes of a file with its card changed.
fn with_card(path: &Path, change: impl Fn(&mut serde_json::Value)) -> Vec<u8> {
    let bytes = fs::read(path).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let card = header["__metadata__"]["esper"].as_str().unwrap();
    let mut card: serde_json::Value = serde_json::from_str(card).unwrap();
    change(&mut card);
    header["__metadata__"]["esper"] = card.to_string().into();
    let header = header.to_string();
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &bytes[8 + length..]].concat()
}

/// What makes no sense is an error that names the file, and never a panic or a heap of memory.
#[test]
fn a_policy_is_checked_when_it_is_loaded() {
    let (_home, path) = kept_policy("rvs", "mlp");
    let registry = Registry::default();
    let problem = |bytes: Vec<u8>| {
        let error = Policy::from_bytes(&path, bytes, &registry, &cpu()).unwrap_err();
        let (source, words) = (std::error::Error::source(&error).is_some(), error.to_string());
        let problem = words.strip_prefix(&path.display().to_string()).expect("it names the file");
        // What a library or another check said is kept.
        let caused = ["safetensors", "finite", "not described", "mlp.hidden"];
        assert!(source || caused.iter().all(|cause| !problem.contains(cause)), "{words}");
        problem.to_owned()
    };
    let good = fs::read(&path).unwrap();
    Policy::from_bytes(&path, good.clone(), &registry, &cpu()).unwrap();

    let mut infinite = good.clone();
    let end = infinite.len();
    infinite[end - 4..].copy_from_slice(&f32::INFINITY.to_le_bytes());
    assert!(problem(infinite).contains("finite"));
    assert!(problem(good[..good.len() / 2].to_vec()).contains("safetensors"));
    assert!(problem(b"nonsense".to_vec()).contains("safetensors"));
    type Change = fn(&mut serde_json::Value);
    let changes: [(Change, &str); 12] = [
        (|card| card["format"] = 99.into(), "format 99"),
        (|card| card["kind"] = "oracle".into(), "`oracle`, which is not known"),
        (|card| card["network"]["hidden"] = 8192.into(), "network of"),
        (|card| card["network"]["hidden"] = 0.into(), "mlp.hidden is 0"),
        (|card| card["network"]["layers"] = 1_000_000.into(), "mlp.layers is 1000000"),
        (|card| card["network"] = serde_json::Value::Null, "not described"),
        (|card| card["discount"] = 7.into(), "discount factor is 7"),
        (|card| card["labels"]["range"] = serde_json::json!([1.0, 0.0]), "range from 1 to 0"),
        (|card| card["labels"]["scale"]["deviation"] = 0.0.into(), "deviation 0"),
        (|card| card["labels"] = serde_json::Value::Null, "nothing of labels"),
        (|card| card["support"]["quantiles"] = serde_json::json!([1.0, 0.0]), "not in order"),
        (|card| card["interface"]["observation"]["space"]["n"] = 0.into(), "no categories"),
    ];
    for (change, words) in changes {
        let words_found = problem(with_card(&path, change));
        assert!(words_found.contains(words), "{words}: {words_found}");
    }
    let (_home, cql) = kept_policy("cql", "mlp");
    let wider = with_card(&cql, |card| card["network"]["hidden"] = 17.into());
    assert!(problem(wider).contains("network of"));
    let several = serde_json::json!({ "type": "MultiDiscrete", "nvec": [1, 1] });
    let several =
        with_card(&cql, |card| card["interface"]["action"]["encoding"]["space"] = several.clone());
    assert!(problem(several).contains("but they are MultiDiscrete"));
}

/// An observation outside its space, or a place without an episode, is an error; then nothing was chosen.
#[test]
fn acting_refuses_what_makes_no_sense() {
    for (method, policy) in [("rvs", "mlp"), ("rvs", "transformer"), ("cql", "mlp")] {
        let (_home, path) = kept_policy(method, policy);
        let policy = Policy::load(&path, &Registry::default(), &cpu()).unwrap();
        let mut agent = policy.agent();
        // A place that nobody can have an observation for takes no memory.
        agent.begin(usize::MAX, Target::Return(1.0), Seed::new(0));
        let mut actions = Cells::Byte(Vec::new());
        let mut problem = |seen: CellsRef<'_>, places: &[usize], actions: &mut Cells| {
            agent.act(seen, places, actions).unwrap_err().to_string()
        };
        let outside = problem((&[0u8, 9]).into(), &[1], &mut actions);
        assert!(outside.contains("place 1 is outside Discrete(4)"), "{outside}");
        assert!(problem((&[0.5f32]).into(), &[0], &mut actions).contains("Float"));
        for place in [3, usize::MAX] {
            let missing = problem((&[0u8]).into(), &[place], &mut actions);
            assert!(missing.contains(&format!("no observation for place {place}")), "{missing}");
        }
        let mut floats = Cells::Float(Vec::new());
        assert!(problem((&[0u8]).into(), &[0], &mut floats).contains("Float"));
        assert!(problem((&[0u8]).into(), &[0], &mut actions).contains("no episode has begun"));
        assert!(problem((&[0u8, 0]).into(), &[1, 0, 1], &mut actions).contains("twice"));
        agent.act((&[0u8]).into(), &[], &mut actions).unwrap();
        assert!(actions.is_empty(), "nothing was chosen");
        agent.begin(0, Target::Return(1.0), Seed::new(0));
        agent.act((&[0u8]).into(), &[0], &mut actions).unwrap();
        assert_eq!(actions.len(), 1);
        assert!(agent.reward(0, f32::NAN).is_err());
        agent.end(0);
        assert!(agent.act((&[0u8]).into(), &[0], &mut actions).is_err());
        assert!(agent.reward(0, 1.0).is_err());
        if method != "cql" {
            agent.begin(0, Target::Return(f64::NAN), Seed::new(0));
            let target = agent.act((&[0u8]).into(), &[0], &mut actions).unwrap_err().to_string();
            assert!(target.contains("target in place 0 is NaN"), "{target}");
        }
    }
}

/// A finite number may still be too large: then there is an error, not an action, and nothing is remembered of it.
#[test]
fn observations_far_outside_are_errors() {
    let numbers = |at: usize| at as f32 / 60.0;
    let states: Vec<f32> = (0..60).flat_map(|at| [numbers(at); 7]).collect();
    let data = dataset(
        Space::Box { shape: vec![1], bounds: None },
        Space::Discrete { n: 2 },
        vec![6; 60],
        Cells::Float(states),
        Cells::Byte([0, 1].repeat(180)),
        (0..360).map(numbers).collect(),
    );
    for (method, policy) in [("rvs", "mlp"), ("rvs", "transformer"), ("cql", "mlp")] {
        let policy = tiny_with(method, policy).train(&data, &Unwatched).unwrap().learned.policy;
        let (mut agent, mut unharmed) = (policy.agent(), policy.agent());
        let places: Vec<usize> = (0..20).collect();
        for &place in &places {
            let seed = Seed::new(0).indexed(place as u64);
            agent.begin(place, Target::Return(1.0), seed);
            unharmed.begin(place, Target::Return(1.0), seed);
        }
        // Beyond the context of the transformer, so that its window is full, too.
        for time in 0..12 {
            let seen: Vec<f32> = places.iter().map(|&place| numbers(place + time)).collect();
            let mut far = seen.clone();
            far[7] = f32::MAX;
            let mut actions = Cells::Byte(Vec::new());
            let error = agent.act((&far).into(), &places, &mut actions).unwrap_err().to_string();
            assert!(error.contains("far outside") && actions.is_empty(), "{error}");
            agent.act((&seen).into(), &places, &mut actions).unwrap();
            let mut expected = Cells::Byte(Vec::new());
            unharmed.act((&seen).into(), &places, &mut expected).unwrap();
            assert_eq!(actions, expected, "{method} {policy:?} at step {time}");
            for &place in &places {
                agent.reward(place, 0.1).unwrap();
                unharmed.reward(place, 0.1).unwrap();
            }
        }
    }
}

/// An agent can act in another thread.
#[test]
fn agents_can_be_sent() {
    let (_home, path) = kept_policy("rvs", "transformer");
    let policy = Policy::load(&path, &Registry::default(), &cpu()).unwrap();
    let here = actions(&policy, 1.0);
    let there = std::thread::spawn(move || actions(&policy, 1.0)).join().unwrap();
    assert_eq!(here, there);
}

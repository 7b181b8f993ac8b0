//! Conversations with a desk.

use esper_data::{
    Cells, CellsRef, Dataset, DatasetBuilder, End, Field, FieldKind, Fields, Metadata, Space, Word,
};
use serde_json::json;

use super::*;
use crate::condition::Target;
use crate::fixtures::{discrete, trained};

/// Patients of two wards, by age where it is known: in ward A waiting pays, in ward B treating does.
fn wards() -> Dataset {
    let words = |words: &[&str]| FieldKind::Category {
        values: words.iter().map(|word| Word::Text((*word).to_owned())).collect(),
    };
    let space = Space::Tuple {
        spaces: vec![Space::Box { shape: vec![2], bounds: None }, Space::Discrete { n: 2 }],
    };
    let mut metadata = Metadata::new(space, Space::Discrete { n: 2 });
    metadata.fields = Fields {
        observation: vec![
            Field::new("age", FieldKind::Number { fill: Some(40.0) }),
            Field::new("age", FieldKind::Missing),
            Field::new("ward", words(&["A", "B"])),
        ],
        action: vec![Field::new("do", words(&["wait", "treat"]))],
    };
    let mut builder = DatasetBuilder::new(metadata);
    for patient in 0..400u16 {
        let (ward, action) = (patient % 2, patient / 2 % 2);
        let missing = patient % 10 == 9;
        let age = if missing { 40.0 } else { f32::from(20 + patient % 60) };
        let seen = [age, f32::from(u8::from(missing)), f32::from(ward)];
        let reward = if ward == action { 1.0 } else { 0.0 };
        builder.push(&seen, &[action as u8], reward).unwrap();
        builder.end(&seen, End { terminated: true, truncated: false }).unwrap();
    }
    builder.build().unwrap()
}

/// Walks of chance over five states.
fn walks() -> Dataset {
    let steps = 60 * 6;
    let seen: Vec<u8> = (0..steps + 60).map(|at| (at * 7 % 11 % 5) as u8).collect();
    let taken: Vec<u8> = (0..steps).map(|at| (at * 5 % 7 % 3) as u8).collect();
    let rewards: Vec<f32> = (0..steps).map(|at| (at % 4) as f32 - 1.0).collect();
    discrete([5, 3], &[6; 60], &seen, &taken, &rewards, &[])
}

fn greedy() -> DeskOptions {
    DeskOptions { choice: Choice::Greedy, ..DeskOptions::default() }
}

/// Learns in a moment which action pays where.
fn ward_policy() -> Policy {
    trained(&wards(), "rvs", "mlp", &["mlp.steps=400", "mlp.warmup=10", "mlp.learning_rate=0.01"])
}

/// Probabilities as whole numbers: this policy is sure.
fn rounded(mut answer: Value) -> Value {
    if let Some(Value::Object(probabilities)) = answer.get_mut("probabilities") {
        for value in probabilities.values_mut() {
            *value = json!(value.as_f64().unwrap().round());
        }
    }
    answer
}

/// A whole conversation, word by word.
#[test]
fn a_conversation() {
    let mut desk = Desk::new(&ward_policy(), greedy());
    let waits = json!({"wait": 1.0, "treat": 0.0});
    let treats = json!({"wait": 0.0, "treat": 1.0});
    for (request, expected) in [
        (
            json!({"episode": "p1", "observation": {"age": 30, "ward": "A"}, "target": 1}),
            json!({"episode": "p1", "action": "wait", "probabilities": waits, "promise": 1.0}),
        ),
        // The target is kept, less what was paid: nothing is left, as for whoever does the wrong thing.
        (
            json!({"episode": "p1", "observation": {"age": 30, "ward": "A"}, "reward": 1}),
            json!({"episode": "p1", "action": "treat", "probabilities": treats, "promise": 1.0}),
        ),
        // In the log's own words, one a column; or cells. Numbers and texts are different names.
        (
            json!({"episode": 1, "observation": [null, "B"], "target": 1}),
            json!({"episode": 1, "action": "treat", "probabilities": treats, "promise": 1.0}),
        ),
        (
            json!({"episode": "1", "observation": [40, 1, 0], "target": 1, "end": true}),
            json!({"episode": "1", "action": "wait", "probabilities": waits, "promise": 1.0}),
        ),
        (
            json!({"episode": 2, "observation": [25, 1], "level": 0.9, "end": true}),
            json!({"episode": 2, "action": "treat", "probabilities": treats, "promise": 1.0}),
        ),
        (json!({"episode": 1, "end": true}), json!({"episode": 1, "promise": 1.0})),
        (
            json!({"episode": 1, "end": true}),
            json!({"episode": 1, "promise": null, "warning": "no such episode is open"}),
        ),
        // What nobody said is chosen from the data.
        (
            json!({"episode": 3, "observation": {"ward": "B"}, "end": true}),
            json!({
                "episode": 3, "action": "treat", "probabilities": treats, "promise": 1.0,
                "warning": "`age` is not given: it counts as missing",
            }),
        ),
        (json!([]), json!([])),
    ] {
        assert_eq!(rounded(desk.answer(&request)), expected, "{request}");
    }
    assert_eq!(desk.open_episodes(), 1);
}

#[test]
fn what_is_wrong_is_said_and_changes_nothing() {
    let mut desk = Desk::new(&ward_policy(), greedy());
    let ward = json!({"age": 30, "ward": "A"});
    for (request, words) in [
        (json!(7), "a request is an object; this is a number"),
        (json!({"observation": ward}), "there is no `episode`"),
        (json!({"episode": null, "observation": ward}), "`episode` is null"),
        (json!({"episode": {}, "observation": ward}), "`episode` is an object"),
        (json!({"episode": "x".repeat(2000), "observation": ward}), "more than 1000 characters"),
        (json!({"episode": 1}), "there is no `observation`"),
        (json!({"episode": 1, "observation": null, "reward": 1}), "there is no `observation`"),
        (json!({"episode": 1, "observation": ward, "level": "high"}), "`level` is a text"),
        (json!({"episode": 1, "observation": ward, "level": 0.5, "target": 1}), "both given"),
        (json!({"episode": 1, "observation": ward, "reward": 1e300}), "too large"),
        (json!({"episode": 1, "observation": ward, "end": "yes"}), "`end` is a text"),
        (json!({"episode": 1, "observation": {"age": 30, "ward": "C"}}), "`ward` is \"C\""),
        (json!({"episode": 1, "observation": {"age": 30}}), "`ward` is missing"),
        (json!({"episode": 1, "observation": {"age": "old", "ward": "A"}}), "not a finite number"),
        (json!({"episode": 1, "observation": {"agee": 3, "ward": "A"}}), "no column `agee`"),
        (json!({"episode": 1, "observation": [30]}), "1 values; there are 2 columns"),
        (json!({"episode": 1, "observation": [30, "C"]}), "`ward` is \"C\""),
        (json!({"episode": 1, "observation": [30, 7]}), "`ward` is 7"),
        (json!({"episode": 1, "observation": [30, 0, 2]}), "a category from 0 to 1"),
        (json!({"episode": 1, "observation": [30, 0, 0.5]}), "a category from 0 to 1"),
        (json!({"episode": 1, "observation": "A"}), "the observation is a text"),
        (json!({"episode": 1, "observation": [1e300, 0, 0]}), "a finite number"),
    ] {
        let answer = desk.answer(&request);
        let error = answer["error"].as_str().unwrap_or_else(|| panic!("{request}: {answer}"));
        assert!(error.contains(words), "{request}: {error}");
        assert!(answer.get("action").is_none() && desk.open_episodes() == 0);
        let episode = request.get("episode").filter(|name| name.is_string() || name.is_number());
        assert_eq!(Some(&answer["episode"]), episode.or(Some(&Value::Null)));
    }
    for (line, words) in [
        (&b"{\"episode\": 1, "[..], "the line is no JSON"),
        (b"\xff\xfe", "the line is no JSON"),
        (b"{\"episode\": 1, \"observation\": [1e999, 0, 0]}", "the line is no JSON"),
    ] {
        let mut answer = Vec::new();
        desk.answer_line(line, &mut answer);
        assert_eq!(answer.pop(), Some(b'\n'));
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert!(answer["error"].as_str().unwrap().contains(words), "{answer}");
    }
    let mut nothing = Vec::new();
    desk.answer_line(b" \r\n", &mut nothing);
    assert!(nothing.is_empty());
}

#[test]
fn warnings_are_in_plain_words() {
    let mut desk = Desk::new(&ward_policy(), greedy());
    for (request, words) in [
        (
            json!({"episode": 1, "observation": [30, "A"], "level": 1.5}),
            "1 is taken in place of 1.5",
        ),
        (
            json!({"episode": 2, "observation": [30, "A"], "target": 9}),
            "from 0.0000 to 1.0000, and is told 1.0000",
        ),
        (json!({"episode": 3, "observation": [30, "A"], "target": 0.5}), "few episodes"),
        (json!({"episode": 4, "observation": [400, "A"]}), "`age` is 400, and was 20 to 78"),
        (json!({"episode": 5, "observation": [30, "A"], "levl": 1}), "`levl` is no field"),
        (json!({"episode": 6, "observation": [30, "A"], "reward": 1}), "no action yet"),
        (json!({"episode": 1, "observation": [30, "A"], "level": 0.1}), "settled by its first"),
    ] {
        let answer = desk.answer(&request);
        let warning = answer["warning"].as_str().unwrap_or_else(|| panic!("{request}: {answer}"));
        assert!(warning.contains(words) && answer["action"].is_string(), "{warning}");
    }
    // The same again is no news.
    let again = desk.answer(&json!({"episode": 2, "observation": [30, "A"], "target": 9}));
    assert!(again.get("warning").is_none(), "{again}");
    let mut cloned = Desk::new(&trained(&wards(), "bc", "mlp", &[]), greedy());
    let answer = cloned.answer(&json!({"episode": 1, "observation": [30, "A"], "level": 1}));
    assert!(answer["promise"].is_null());
    assert!(answer["warning"].as_str().unwrap().contains("cannot be asked"), "{answer}");
}

/// Two starts: from one all is worth 0 or 1, from the other 10 or 11. A third was never seen.
#[test]
fn promises_are_those_of_the_start() {
    let lengths = [1; 400];
    let seen: Vec<u8> = (0..800).map(|at| (at / 2 % 2) as u8).collect();
    let taken: Vec<u8> = (0..400).map(|at| (at / 2 % 2) as u8).collect();
    let reward = |at: usize| (at % 2 * 10 + at / 2 % 2) as f32;
    let rewards: Vec<f32> = (0..400).map(reward).collect();
    let data = discrete([3, 2], &lengths, &seen, &taken, &rewards, &[]);
    let policy = trained(&data, "rvs", "mlp", &["condition=level", "promise.estimator=labels"]);
    let mut desk = Desk::new(&policy, greedy());
    let mut promise = |episode: usize, start: usize, level: f64| {
        let request = json!({"episode": episode, "observation": start, "level": level});
        let answer = desk.answer(&request);
        let unlike = answer.get("warning").is_some_and(|warning| {
            warning.as_str().unwrap().contains("this start is unlike any in the data")
        });
        (answer["promise"].as_f64().unwrap(), unlike)
    };
    for (at, (start, level, right)) in
        [(0, 0.1, 0.0), (0, 0.9, 1.0), (1, 0.1, 10.0), (1, 0.9, 11.0)].into_iter().enumerate()
    {
        let (promise, unlike) = promise(at, start, level);
        assert!((promise - right).abs() < 0.2 && !unlike, "{start} at {level}: {promise}");
    }
    assert!(promise(9, 2, 0.5).1);
}

/// Requests of several episodes that end at different times.
fn requests() -> Vec<Value> {
    let mut requests = Vec::new();
    for time in 0..12 {
        for episode in 0..7 {
            if time >= 4 + episode {
                continue;
            }
            let mut request = json!({"episode": episode, "observation": (time + 2 * episode) % 5});
            if time == 0 {
                request["target"] = json!(episode as f64 / 3.0);
            } else {
                request["reward"] = json!(f64::from((time * episode) % 3) - 0.5);
            }
            request["end"] = json!(time == 3 + episode);
            requests.push(request);
        }
    }
    requests
}

fn assert_same(one: &Answer, other: &Answer) {
    assert_eq!((&one.episode, &one.action), (&other.episode, &other.action));
    assert_eq!(one.promise, other.promise);
    let probabilities = |answer: &Answer| answer.probabilities.clone().unwrap().values;
    for (a, b) in probabilities(one).iter().zip(&probabilities(other)) {
        assert!((a - b).abs() < 1e-5, "{one:?} {other:?}");
    }
}

#[test]
fn a_batch_is_what_one_by_one_is() {
    for kind in ["mlp", "transformer"] {
        let policy = trained(&walks(), "rvs", kind, &[]);
        let options = DeskOptions { seed: 5, ..DeskOptions::default() };
        let (mut one, mut other) = (Desk::new(&policy, options), Desk::new(&policy, options));
        let requests = requests();
        let single: Vec<Answer> = requests.iter().map(|request| one.answer_one(request)).collect();
        let mut batched = other.answer_all(&requests[..10]);
        batched.extend(other.answer_all(&requests[10..]));
        single.iter().zip(&batched).for_each(|(one, other)| assert_same(one, other));
        assert_eq!(
            (single.len(), one.open_episodes(), other.open_episodes()),
            (batched.len(), 0, 0)
        );
    }
}

#[test]
fn the_same_requests_get_the_same_answers() {
    let policy = trained(&walks(), "rvs", "mlp", &[]);
    let talk = |seed: u64, choice: Choice| {
        let mut desk = Desk::new(&policy, DeskOptions { seed, choice, ..DeskOptions::default() });
        let mut answers = Vec::new();
        for request in requests() {
            desk.answer_line(request.to_string().as_bytes(), &mut answers);
        }
        answers
    };
    assert_eq!(talk(1, Choice::Drawn), talk(1, Choice::Drawn));
    assert_ne!(talk(1, Choice::Drawn), talk(2, Choice::Drawn));
    assert_eq!(talk(1, Choice::Greedy), talk(2, Choice::Greedy));
}

/// What a desk remembers of an episode is what an agent does that plays nothing else.
#[test]
fn history_is_kept_for_every_episode() {
    let policy = trained(&walks(), "rvs", "transformer", &[]);
    let mut desk = Desk::new(&policy, DeskOptions { seed: 3, ..DeskOptions::default() });
    let answers = desk.answer_all(&requests());
    for episode in 0..7u64 {
        let mut agent = policy.agent();
        let target = episode as f64 / 3.0;
        let seed = Seed::new(3).named("act").named(&episode.to_string()).indexed(episode);
        agent.begin(0, Target::Return(target), seed);
        let of = |request: &Value| request["episode"] == episode;
        let own = requests().into_iter().zip(&answers).filter(|(request, _)| of(request));
        for (request, answer) in own {
            if let Some(reward) = request["reward"].as_f64() {
                agent.reward(0, reward as f32).unwrap();
            }
            let seen = [request["observation"].as_u64().unwrap() as u8];
            let (mut action, mut chances) = (Cells::Byte(Vec::new()), Vec::new());
            let seen: CellsRef<'_> = (&seen).into();
            agent.decide(seen, &[0], Choice::Drawn, &mut action, &mut chances).unwrap();
            assert_eq!(answer.action, Some(json!(action.category(0))));
            let found = &answer.probabilities.as_ref().unwrap().values;
            assert!(found.iter().zip(&chances).all(|(a, b)| (a - b).abs() < 1e-5));
        }
    }
}

#[test]
fn who_is_not_heard_of_is_forgotten_and_told_so() {
    let policy = trained(&walks(), "rvs", "transformer", &[]);
    let mut desk = Desk::new(&policy, DeskOptions { most_open: 2, ..DeskOptions::default() });
    let mut ask = |episode: &str| desk.answer(&json!({"episode": episode, "observation": 0}));
    for episode in ["a", "b", "a", "c"] {
        assert!(ask(episode).get("warning").is_none());
    }
    let answer = ask("b");
    assert!(answer["warning"].as_str().unwrap().contains("more than 2 episodes were open"));
    assert!(ask("b").get("warning").is_none(), "it is said once");
    // More in one batch than may be open: all are answered.
    let batch: Vec<Value> = (0..5).map(|at| json!({"episode": at, "observation": 1})).collect();
    let answers = desk.answer_all(&batch);
    assert!(answers.iter().all(|answer| answer.action.is_some()));
    assert_eq!((desk.open_episodes(), desk.observations.len()), (2, 2), "memory is that of two");
}

/// An action of several cells: one object of probabilities a column, or one array a cell.
#[test]
fn actions_of_several_cells_are_objects_or_arrays() {
    let truth = || FieldKind::Boolean { fill: None };
    for named in [true, false] {
        let mut metadata = Metadata::new(
            Space::MultiBinary { shape: vec![2, 2] },
            Space::MultiDiscrete { nvec: vec![2, 3] },
        );
        if named {
            let dose = FieldKind::Category { values: [0, 5, 10].map(Word::Whole).to_vec() };
            metadata.fields.action = vec![Field::new("call", truth()), Field::new("dose", dose)];
            assert!(
                metadata.fields.check(&metadata.observation_space, &metadata.action_space).is_ok()
            );
        }
        let mut builder = DatasetBuilder::new(metadata);
        for at in 0..40u8 {
            builder.push(&[at % 2, 1, 0, 1], &[1u8, 2], f32::from(at % 2)).unwrap();
            builder.end(&[0u8, 0, 0, 0], End { terminated: true, truncated: false }).unwrap();
        }
        let data = builder.build().unwrap();
        let policy = trained(&data, "rvs", "mlp", &["mlp.steps=300", "mlp.warmup=10"]);
        let mut desk = Desk::new(&policy, greedy());
        let answer = desk.answer(&json!({"episode": 0, "observation": [[1, true], [0, 1]]}));
        let chances = &answer["probabilities"];
        if named {
            assert_eq!(answer["action"], json!({"call": true, "dose": 10}));
            assert!(chances["call"]["true"].as_f64() > Some(0.9), "{answer}");
            assert!(chances["dose"]["10"].as_f64() > Some(0.9), "{answer}");
        } else {
            assert_eq!(answer["action"], json!([1, 2]));
            assert!(chances[1][2].as_f64() > Some(0.9), "{answer}");
        }
    }
}

/// Numbers that are drawn by numbers.
fn real_policy() -> Policy {
    let space = |cells: usize| Space::Box { shape: vec![cells], bounds: None };
    let mut builder = DatasetBuilder::new(Metadata::new(space(1), space(2)));
    for at in 0..40u8 {
        let x = f32::from(at) / 40.0;
        builder.push(&[x], &[0.1, -x], x).unwrap();
        builder.end(&[x], End { terminated: true, truncated: false }).unwrap();
    }
    trained(&builder.build().unwrap(), "rvs", "mlp", &[])
}

/// Real-valued actions: numbers with no more digits than they have, and no probabilities.
#[test]
fn real_valued_actions_are_arrays() {
    let mut desk = Desk::new(&real_policy(), greedy());
    let mut line = Vec::new();
    desk.answer_line(br#"{"episode":0,"observation":0.5}"#, &mut line);
    let text = String::from_utf8(line).unwrap();
    let answer: Value = serde_json::from_str(&text).unwrap();
    let action = answer["action"].as_array().unwrap();
    assert_eq!((action.len(), answer.get("probabilities")), (2, None));
    assert!(action.iter().all(|number| number.to_string().len() <= 14), "{text}");
}

/// A number that no network can make sense of; those beside it are answered, and its reward is not counted twice.
#[test]
fn one_bad_request_does_not_spoil_a_batch() {
    let mut desk = Desk::new(&real_policy(), greedy());
    let batch = json!([
        {"episode": 1, "observation": 0.5},
        {"episode": 2, "observation": 3.3e38},
        "what",
        {"episode": 3, "observation": [0.5]},
    ]);
    let answers = desk.answer(&batch);
    assert!(answers[0]["action"].is_array() && answers[0]["action"] == answers[3]["action"]);
    assert!(answers[1]["error"].as_str().unwrap().contains("what is no number"), "{answers}");
    assert!(answers[2]["error"].is_string() && desk.open_episodes() == 2);
    let mut calm = Desk::new(&real_policy(), greedy());
    calm.answer(&json!({"episode": 1, "observation": 0.5}));
    let bad = desk.answer(&json!({"episode": 1, "observation": -3.3e38, "reward": 0.25}));
    assert!(bad["error"].is_string(), "{bad}");
    let right = json!({"episode": 1, "observation": 0.25, "reward": 0.25});
    assert_eq!(desk.answer(&right), calm.answer(&right));
}

/// The log is of May 2024: what is far from it is said as a date. Some programs begin files with a byte order mark.
#[test]
fn dates_far_outside_are_said_as_dates() {
    let since = 1_714_521_600.0; // 2024-05-01
    let mut metadata = Metadata::new(
        Space::Box { shape: vec![1], bounds: None },
        Space::Box { shape: vec![1], bounds: None },
    );
    metadata.fields = Fields {
        observation: vec![Field::new("since", FieldKind::Date { origin: since, fill: None })],
        action: vec![Field::new("dose", FieldKind::Number { fill: None })],
    };
    let mut builder = DatasetBuilder::new(metadata);
    for patient in 0..124u8 {
        let (seen, dose) = ([f32::from(patient % 31)], f32::from(patient % 2) + 0.5);
        builder.push(&seen, &[dose], dose).unwrap();
        builder.end(&seen, End { terminated: true, truncated: false }).unwrap();
    }
    let policy = trained(&builder.build().unwrap(), "rvs", "mlp", &["mlp.steps=20"]);
    let mut desk = Desk::new(&policy, DeskOptions::default());
    let mut line = b"\xEF\xBB\xBF".to_vec();
    line.extend(br#"{"episode": 1, "observation": {"since": "2034-07-09"}}"#);
    let mut answer = Vec::new();
    desk.answer_line(&line, &mut answer);
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    let words = "`since` is 2034-07-09, and was 2024-05-01 to 2024-05-31 in the data";
    assert!(answer["warning"].as_str().unwrap().contains(words), "{answer}");
    // However far that is: nobody was given anything but 0.5 or 1.5.
    for episode in 0..50 {
        let seen = json!({ "since": format!("{}-07-09", 1000 + 150 * episode) });
        let answer = desk.answer(&json!({ "episode": episode + 2, "observation": seen }));
        let dose = answer["action"].as_f64().unwrap();
        assert!((0.5..=1.5).contains(&dose), "{answer}");
    }
}

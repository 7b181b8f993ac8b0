//! Changes that are known in closed form.

use esper_data::{DatasetBuilder, End, Field, Fields, Metadata, Word};

use super::*;
use crate::fixtures::discrete;
use crate::trajectories::StepRows;

const END: End = End { terminated: true, truncated: false };

fn intended(data: &Dataset, of_step: impl Fn(usize) -> Vec<f32>) -> Intended {
    let everything: Vec<usize> = (0..data.episodes()).collect();
    let rows = StepRows::of_episodes(data, &everything);
    let actions = rows.steps.iter().flat_map(|&step| of_step(step)).collect();
    Intended { rows, actions, drawn: false }
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6
}

/// Three states a hundred times each. In state 0 half took action 1, and the policy always would; in state 1 nobody did, and
/// a tenth of the policy would; in state 2 nothing changes.
#[test]
fn states_without_names_are_ranked_by_what_changes() {
    let seen: Vec<u8> = (0..300u16).flat_map(|at| [(at % 3) as u8; 2]).collect();
    let taken: Vec<u8> = (0..300u16).map(|at| u8::from(at % 3 == 0 && at % 2 == 0)).collect();
    let data = discrete([3, 2], &[1; 300], &seen, &taken, &[0.0; 300], &[]);
    let policy = |step: usize| match step % 3 {
        0 => vec![0.0, 1.0],
        1 => vec![0.9, 0.1],
        _ => vec![1.0, 0.0],
    };
    let differences = Differences::between(&data, &intended(&data, policy));
    assert_eq!((differences.measure, differences.steps), (Measure::Share, 300));
    assert_eq!(differences.by, ["the state"]);
    // What was done would be done again in half of state 0, nine tenths of state 1, all of state 2.
    assert!(close(differences.agreement.unwrap(), (0.5 + 0.9 + 1.0) / 3.0));
    let [first, second] = &differences.groups[..] else { panic!("{differences:?}") };
    assert_eq!((first.states.as_str(), first.steps), ("the state is 0", 100));
    assert!(close(first.change, 0.5) && close(first.share, 1.0 / 3.0));
    assert_eq!(second.states, "the state is 1");
    assert!(close(second.change, 0.1), "{second:?}");
    let one = first.actions.iter().find(|of| of.action == "action 1").unwrap();
    assert!(close(one.data, 0.5) && close(one.policy, 1.0));
    // State 0 by itself, less the half of two shares' mean distance √(2/π · p(1-p)/n) that chance would show; state 1 in full.
    let chance = (2.0 / std::f64::consts::PI / 100.0).sqrt() * 0.5;
    assert!(close(differences.changed, (0.5 - chance + 0.1) / 3.0), "{}", differences.changed);
}

/// A ward, an age that was not always known, a dose in words.
fn ward_metadata() -> Metadata {
    let text = |text: &str| Word::Text(text.to_owned());
    let real = |cells: usize| Space::Box { shape: vec![cells], bounds: None };
    let spaces = vec![Space::Discrete { n: 2 }, real(2)];
    let category = |values: Vec<Word>| FieldKind::Category { values };
    let fields = Fields {
        observation: vec![
            Field::new("ward", category(vec![text("A"), text("B")])),
            Field::new("age", FieldKind::Number { fill: Some(50.0) }),
            Field::new("age", FieldKind::Missing),
        ],
        action: vec![Field::new("dose", category(vec![text("none"), text("full")]))],
    };
    let observation = Space::Tuple { spaces };
    Metadata { fields, ..Metadata::new(observation, Space::Discrete { n: 2 }) }
}

/// Nobody ever gave the full dose; the policy gives it in ward B to those up to 40 of age, and to nobody else.
#[test]
fn two_columns_are_taken_where_one_is_not_enough() {
    let mut builder = DatasetBuilder::new(ward_metadata());
    for at in 0..400u16 {
        let (ward, age) = (f32::from(at % 2), if at / 2 % 2 == 0 { 40.0 } else { 60.0 });
        let missing = f32::from(u8::from(at >= 380));
        builder.push(&[ward, age, missing], &[0u8], 1.0).unwrap();
        builder.end(&[ward, age, missing], END).unwrap();
    }
    let data = builder.build().unwrap();
    let changes = |step: usize| step % 4 == 1 && step < 380;
    let policy = |step: usize| if changes(step) { vec![0.0, 1.0] } else { vec![1.0, 0.0] };
    let differences = Differences::between(&data, &intended(&data, policy));
    let [group] = &differences.groups[..] else { panic!("{differences:?}") };
    assert_eq!(group.states, "ward is B, age is 40");
    assert_eq!((group.steps, group.change), (95, 1.0));
    let names: Vec<&str> = group.actions.iter().map(|of| of.action.as_str()).collect();
    assert!(names == ["none", "full"] || names == ["full", "none"], "{names:?}");
    // One column alone shows the same sum, as nobody did what the policy does; but two show where.
    assert!(close(differences.changed, 95.0 / 400.0));
    let all = columns::columns(&data, &StepRows::of_episodes(&data, &[0, 1, 2, 399]));
    assert_eq!(all.iter().map(|of| of.name.as_str()).collect::<Vec<_>>(), ["ward", "age"]);
    assert_eq!(all[1].groups, ["age is 40", "age is 60", "age missing"]);
}

/// Speeds of 0 and 2 alike; the policy wants 3 where the number seen is above its middle, and the mean elsewhere.
#[test]
fn numbers_are_told_by_their_means() {
    let real = || Space::Box { shape: vec![1], bounds: None };
    let mut metadata = Metadata::new(real(), real());
    metadata.fields.action = vec![Field::new("speed", FieldKind::Number { fill: None })];
    let mut builder = DatasetBuilder::new(metadata);
    for at in 0..400u16 {
        let speed = if at / 4 % 2 == 0 { 0.0f32 } else { 2.0 };
        builder.push(&[f32::from(at % 4)], &[speed], 1.0).unwrap();
        builder.end(&[0.0f32], END).unwrap();
    }
    let data = builder.build().unwrap();
    let policy = |step: usize| vec![if step % 4 == 3 { 3.0 } else { 1.0 }];
    let differences = Differences::between(&data, &intended(&data, policy));
    assert_eq!((differences.measure, differences.agreement), (Measure::Mean, None));
    let [group] = &differences.groups[..] else { panic!("{differences:?}") };
    assert_eq!((group.states.as_str(), group.steps), ("the state is 3", 100));
    let [speed] = &group.actions[..] else { panic!("{group:?}") };
    assert_eq!((speed.action.as_str(), speed.data, speed.policy), ("speed", 1.0, 3.0));
    // Two away, and speeds deviate by 1.
    assert!(close(group.change, 2.0));
}

/// Several choices at once: each by itself, and the one that changes most says how much changes.
#[test]
fn several_choices_are_told_apart() {
    let spaces = (Space::Discrete { n: 2 }, Space::MultiDiscrete { nvec: vec![2, 3] });
    let mut builder = DatasetBuilder::new(Metadata::new(spaces.0, spaces.1));
    for at in 0..100u8 {
        builder.push(&[at % 2], &[0u8, 2], 1.0).unwrap();
        builder.end(&[0u8], END).unwrap();
    }
    let data = builder.build().unwrap();
    let policy = |step: usize| match step % 2 {
        0 => vec![1.0, 0.0, 0.0, 0.0, 1.0],
        _ => vec![1.0, 0.0, 0.0, 0.75, 0.25],
    };
    let differences = Differences::between(&data, &intended(&data, policy));
    let [group] = &differences.groups[..] else { panic!("{differences:?}") };
    assert!(close(group.change, 0.75) && group.states == "the state is 1");
    assert_eq!(group.actions[0].action, "action cell 1 1");
    assert!(close(differences.agreement.unwrap(), (1.0 + 0.25) / 2.0));
}

/// A policy that does what was done changes nothing, by whatever columns; nor is anything found where chance differs.
#[test]
fn what_is_the_same_is_not_told() {
    let seen: Vec<u8> = (0..500u16).flat_map(|at| [(at % 5) as u8; 2]).collect();
    let taken: Vec<u8> = (0..500u16).map(|at| (at * 7919 % 13 % 2) as u8).collect();
    let data = discrete([5, 2], &[1; 500], &seen, &taken, &[0.0; 500], &[]);
    let same = Differences::between(
        &data,
        &intended(&data, |step| match taken[step] {
            0 => vec![1.0, 0.0],
            _ => vec![0.0, 1.0],
        }),
    );
    assert_eq!((same.changed, same.agreement), (0.0, Some(1.0)));
    assert!(same.groups.is_empty() && same.columns.is_empty());
}

use super::*;
use crate::Space;
use crate::dataset::tests::{TERMINATED, small, small_metadata};

fn problem(result: Result<impl Sized, DataError>) -> String {
    result.err().expect("a problem").to_string()
}

/// A builder with one step under way.
fn started(builder: DatasetBuilder) -> DatasetBuilder {
    let mut builder = builder;
    builder.push(&[0u8], &[0u8], 0.0).unwrap();
    builder
}

#[test]
fn steps_one_by_one_and_all_at_once_are_the_same() {
    let mut one_by_one = DatasetBuilder::new(small_metadata());
    let mut at_once = DatasetBuilder::new(small_metadata());
    for builder in [&mut one_by_one, &mut at_once] {
        assert!(builder.is_empty());
        builder.made_by("a");
    }
    one_by_one.push(&[0u8], &[2u8], 1.0).unwrap();
    one_by_one.push(&[1u8], &[0u8], -0.5).unwrap();
    at_once.push_steps(&[0u8, 1], &[2u8, 0], &[1.0, -0.5]).unwrap();
    at_once.push_steps(&[0u8; 0], &[0u8; 0], &[]).unwrap();
    for builder in [&mut one_by_one, &mut at_once] {
        assert_eq!((builder.steps(), builder.episodes()), (2, 0));
        builder.end(&[2u8], TERMINATED).unwrap();
        assert_eq!((builder.steps(), builder.episodes(), builder.length(0)), (2, 1, 2));
    }
    assert_eq!(one_by_one.build().unwrap(), at_once.build().unwrap());
}

#[test]
fn spaces_are_what_the_cells_need() {
    let mut builder = DatasetBuilder::inferring();
    builder.push(&[3u16, 256], &[0.5f32, -1.0], 0.0).unwrap();
    builder.end(&[9u16, 0], TERMINATED).unwrap();
    let data = builder.build().unwrap();
    let spaces = data.metadata();
    assert_eq!(spaces.observation_space, Space::MultiDiscrete { nvec: vec![10, 257] });
    assert_eq!(spaces.action_space, Space::Box { shape: vec![2], bounds: None });
    assert_eq!(data.observations(), &Cells::Short(vec![3, 256, 9, 0]));

    let mut builder = DatasetBuilder::inferring();
    builder.push(&[255u16], &[0u8], 0.0).unwrap();
    builder.end(&[0u16], TERMINATED).unwrap();
    let data = builder.build().unwrap();
    assert_eq!(data.metadata().observation_space, Space::Discrete { n: 256 });
    assert_eq!(data.metadata().action_space, Space::Discrete { n: 1 });
    assert_eq!(data.observations(), &Cells::Byte(vec![255, 0]));
}

#[test]
fn what_does_not_fit_the_space_is_refused_at_once() {
    let mut given = started(DatasetBuilder::new(small_metadata()));
    assert_eq!(
        problem(given.push(&[0u8, 1], &[0u8], 0.0)),
        "episode 0, step 1: an observation of 2 cells where Discrete(4) has 1"
    );
    assert_eq!(
        problem(given.push(&[0u8], &[0.5f32], 0.0)),
        "episode 0, step 1: action cells are Float, which does not fit Discrete(3)"
    );
    assert_eq!(
        problem(given.push_steps(&[0u8, 1], &[0u8, 0, 0], &[0.0; 2])),
        "episode 0, step 1: 3 action cells for 2 steps where Discrete(3) has 1"
    );
    assert_eq!(
        problem(given.end(&[0u16], TERMINATED)),
        "episode 0, step 1: observation cells are Short, which does not fit Discrete(4)"
    );
    // What was refused has left nothing behind.
    given.end(&[0u8], TERMINATED).unwrap();
    assert_eq!(given.build().unwrap().steps(), 1);

    let metadata =
        Metadata::new(Space::MultiBinary { shape: vec![usize::MAX, 2] }, Space::Discrete { n: 3 });
    let mut senseless = DatasetBuilder::new(metadata);
    assert!(problem(senseless.push(&[0u8], &[0u8], 0.0)).contains("more than 16777216 cells"));
}

#[test]
fn what_does_not_fit_what_came_before_is_refused_at_once() {
    let mut builder = started(DatasetBuilder::inferring());
    assert_eq!(
        problem(builder.push(&[0u8, 1], &[0u8], 0.0)),
        "episode 0, step 1: an observation of 2 cells where those before have 1"
    );
    assert_eq!(
        problem(builder.push(&[0u8], &[0u16], 0.0)),
        "episode 0, step 1: action cells are Short, those before are Byte"
    );
    let mut builder = DatasetBuilder::inferring();
    assert_eq!(
        problem(builder.push(&[0u8; 0], &[0u8], 0.0)),
        "episode 0, step 0: an observation without cells"
    );
    assert_eq!(
        problem(builder.push_steps(&[0u8; 3], &[0u8; 2], &[0.0; 2])),
        "episode 0, step 0: 3 observation cells for 2 steps where every step has as many"
    );
    assert!(builder.push(&[0.5f32, 1.0], &[0u8], 0.0).is_ok(), "nothing was kept of those");
}

#[test]
fn episodes_are_whole() {
    let mut builder = DatasetBuilder::new(small_metadata());
    assert_eq!(problem(builder.end(&[0u8], TERMINATED)), "episode 0 has no steps");
    assert_eq!(problem(builder.clone().build()), "there are no episodes");
    assert_eq!(problem(DatasetBuilder::inferring().build()), "there are no episodes");
    builder.push(&[0u8], &[0u8], 0.0).unwrap();
    assert_eq!(problem(builder.build()), "the last episode was not ended");
}

#[test]
fn values_outside_the_space_are_refused_with_their_place() {
    let with = |observation: u8, action: u8, reward: f32| {
        let mut builder = DatasetBuilder::new(small_metadata());
        builder.extend(&small()).unwrap();
        builder.made_by("one");
        builder.push_steps(&[0u8, observation], &[0u8, action], &[0.0, reward]).unwrap();
        builder.end(&[0u8], TERMINATED).unwrap();
        problem(builder.build())
    };
    assert_eq!(
        with(4, 0, 0.0),
        "observation outside Discrete(4): episode 2, step 1, cell 0: 4 is not below 4"
    );
    assert_eq!(
        with(0, 3, 0.0),
        "action outside Discrete(3): episode 2, step 1, cell 0: 3 is not below 3"
    );
    assert_eq!(with(0, 0, f32::NAN), "the reward of episode 2, step 1 is NaN");
}

#[test]
fn behaviours_are_listed_as_declared_or_as_they_come() {
    let mut builder = DatasetBuilder::inferring().with_behaviours(["idle", "b"]);
    for name in ["c", "b", "c"] {
        builder.push(&[0u8], &[0u8], 0.0).unwrap();
        builder.made_by(name);
        builder.end(&[0u8], TERMINATED).unwrap();
    }
    let data = builder.clone().build().unwrap();
    assert_eq!(data.behaviours(), ["idle", "b", "c"]);
    let found: Vec<_> = (0..3).map(|episode| data.behaviour(episode)).collect();
    assert_eq!(found, [Some(2), Some(1), Some(2)]);

    builder.push(&[0u8], &[0u8], 0.0).unwrap();
    builder.end(&[0u8], TERMINATED).unwrap();
    assert_eq!(
        problem(builder.build()),
        "episode 3 has no behaviour; name one for every episode, or for none"
    );

    let mut twice = started(DatasetBuilder::inferring().with_behaviours(["a", "a"]));
    twice.made_by("a");
    twice.end(&[0u8], TERMINATED).unwrap();
    assert_eq!(problem(twice.build()), "two behaviours are called `a`");
}

#[test]
fn data_sets_follow_each_other() {
    let part = small();
    let mut builder = DatasetBuilder::new(small_metadata());
    for _ in 0..2 {
        builder.extend(&part).unwrap();
    }
    builder.extend(&part.select(&[1, 0])).unwrap();
    let whole = builder.build().unwrap();
    assert_eq!(whole.behaviours(), part.behaviours());
    assert_eq!(whole.episode_steps(3), 5..6);
    assert_eq!(whole.episode_observations(3), 8..10);
    assert_eq!(whole.returns_to_go(1.0)[..6], [0.5, -0.5, 4.0, 0.5, -0.5, 4.0]);
    assert_eq!(whole.select(&[2, 3]), part);
    assert_eq!(whole.select(&[5, 4]), part);

    let mut inferring = DatasetBuilder::inferring();
    inferring.extend(&part).unwrap();
    assert_eq!(inferring.build().unwrap().observations(), part.observations());
}

#[test]
fn complete_episodes_of_another_builder_can_be_taken() {
    let empty = || DatasetBuilder::new(small_metadata());
    let mut other = empty();
    other.extend(&small()).unwrap();
    let other = started(other);
    let mut builder = empty();
    builder.append(&other, 0).unwrap();
    builder.append(&other, 1).unwrap();
    builder.append(&other, 2).unwrap();
    assert_eq!(
        problem(builder.append(&other, 3)),
        "3 episodes of a builder that has 2 complete ones"
    );
    let data = builder.build().unwrap();
    assert_eq!(data.select(&[1, 2]), small());
    assert_eq!(data.select(&[0]), small().select(&[0]));

    let mut inferring = DatasetBuilder::inferring();
    inferring.append(&other, 0).unwrap();
    inferring.append(&other, 2).unwrap();
    assert_eq!(inferring.build().unwrap().actions(), small().actions());
}

#[test]
fn others_of_another_space_or_in_between_are_refused() {
    let spaces = Metadata::new(Space::Discrete { n: 5 }, Space::Discrete { n: 3 });
    let mut builder = DatasetBuilder::new(spaces);
    let mut other = DatasetBuilder::new(small_metadata());
    other.extend(&small()).unwrap();
    let expected = "observations of Discrete(4) cannot follow those of Discrete(5)";
    assert_eq!(problem(builder.extend(&small())), expected);
    assert_eq!(problem(builder.append(&other, 1)), expected);

    builder.push(&[0u8], &[0u8], 0.0).unwrap();
    assert_eq!(
        problem(builder.extend(&small())),
        "episode 0, step 1: others cannot follow before the episode is ended"
    );
    let mut inferring = DatasetBuilder::inferring();
    inferring.push(&[0u16], &[0u8], 0.0).unwrap();
    inferring.end(&[0u16], TERMINATED).unwrap();
    assert_eq!(
        problem(inferring.extend(&small())),
        "observation cells are Byte, those before are Short"
    );
}

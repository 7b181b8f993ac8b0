//! A view is in every respect the data set that has its episodes and no others.

mod common;

use std::fs;

use common::{folder, random, spaces};
use esper_data::{
    Checksums, Dataset, DatasetBuilder, Distribution, LabelColumns, PackedBatch, Seed, Space,
    StepLabels, Tally, read, return_histogram, suspicions,
};
use rand::RngExt;
use rand::seq::SliceRandom;

/// The same episodes in columns of their own, step by step through the builder.
fn rebuilt(view: &Dataset) -> Dataset {
    let metadata = view.metadata().clone();
    let (seen, done) = (metadata.observation_space.cells(), metadata.action_space.cells());
    let observation = |row: usize| view.observations().view().slice(row * seen..(row + 1) * seen);
    let action = |row: usize| view.actions().view().slice(row * done..(row + 1) * done);
    let mut builder = DatasetBuilder::new(metadata).with_behaviours(view.behaviours());
    for episode in 0..view.episodes() {
        builder.made_by(&view.behaviours()[view.behaviour(episode).unwrap()]);
        let steps = view.episode_steps(episode).zip(view.episode_observations(episode));
        for (step, seen) in steps {
            builder.push(observation(seen), action(step), view.rewards()[step]).unwrap();
        }
        let last = view.episode_observations(episode).end - 1;
        builder.end(observation(last), view.end(episode)).unwrap();
    }
    builder.build().unwrap()
}

/// Random views of random data sets, views of views and single episodes among them.
fn views() -> impl Iterator<Item = Dataset> {
    let mut rng = Seed::new(5).rng();
    spaces().into_iter().flat_map(move |(observations, actions)| {
        let data = random(observations, actions, 60, rng.random());
        let mut choose = |from: &Dataset, count: usize| {
            let mut episodes: Vec<usize> = (0..from.episodes()).collect();
            episodes.shuffle(&mut rng);
            from.select(&episodes[..count])
        };
        let some = choose(&data, 40);
        let fewer = choose(&some, 10);
        let one = choose(&data, 1);
        let turned = data.select(&(0..60).rev().collect::<Vec<_>>());
        let middle = data.select(&(20..40).collect::<Vec<_>>());
        let firsts = [data.share(0.3), some.share(0.5), turned.first_steps(20)];
        [data, some, fewer, one, turned, middle].into_iter().chain(firsts)
    })
}

#[test]
fn views_are_the_data_sets_of_their_episodes() {
    for view in views() {
        let own = rebuilt(&view);
        assert_eq!(view, own);
        assert_eq!(own, view);
        assert_eq!((view.episodes(), view.steps()), (own.episodes(), own.rows()));
        assert_eq!(Checksums::of(&view), Checksums::of(&own));
        assert_eq!(suspicions(&view), suspicions(&own));
        assert_eq!(Tally::of(&view).behaviours(), Tally::of(&own).behaviours());
        assert_eq!(Tally::of(&view).total(), Tally::of(&own).total());
        assert_eq!(Distribution::of_returns(&view), Distribution::of_returns(&own));
        assert_eq!(Distribution::of_lengths(&view), Distribution::of_lengths(&own));
        assert_eq!(return_histogram(&view, 5), return_histogram(&own, 5));

        let returns = view.returns_to_go(0.9);
        assert_eq!(returns.len(), view.rows());
        let returns: Vec<f32> = view.step_rows().map(|row| returns[row]).collect();
        assert_eq!(returns, own.returns_to_go(0.9));

        let mut builder = DatasetBuilder::new(view.metadata().clone());
        builder.extend(&view).unwrap();
        assert_eq!(builder.build().unwrap(), own);
    }
}

#[test]
fn rows_outside_a_view_are_not_looked_at() {
    let data = random(Space::Discrete { n: 2 }, Space::Discrete { n: 2 }, 30, 0);
    for episode in 0..30 {
        let view = data.select(&[episode]);
        assert_eq!(view.rows(), data.episode_steps(episode).end);
        let inside = |row| data.episode_steps(episode).contains(&row);
        let returns = view.returns_to_go(1.0);
        assert!((0..view.rows()).all(|row| inside(row) || returns[row] == 0.0));
    }
}

#[test]
fn views_are_written_as_the_data_sets_of_their_episodes() {
    let (_folder, path) = folder();
    for view in views() {
        view.write(&path, true).unwrap();
        let bytes = fs::read(&path).unwrap();
        assert_eq!(read(&path).unwrap(), view);
        let own = rebuilt(&view);
        own.write(&path, true).unwrap();
        assert!(fs::read(&path).unwrap() == bytes);

        // Labels, too: by the numbers that episodes have in the view.
        let labels = view.returns_to_go(1.0);
        let clusters: Vec<u8> = (0..view.rows() * 3).map(|at| at as u8).collect();
        let column = clusters.clone().into();
        let of_view = LabelColumns { labels: &labels, clusters: Some((3, &column)) };
        of_view.write(&view, &path, true).unwrap();
        let bytes = fs::read(&path).unwrap();
        let read = StepLabels::read(&path, &view).unwrap();
        let (_, read_clusters) = read.clusters.as_ref().unwrap();
        for row in view.step_rows() {
            assert_eq!(read.labels[row], labels[row]);
            let mut found = Vec::new();
            read_clusters.gather(&[row], 3, &mut found);
            assert_eq!(found, clusters[row * 3..row * 3 + 3]);
        }
        let of_own = StepLabels::read(&path, &own).unwrap();
        assert_eq!(of_own.labels, own.returns_to_go(1.0));
        of_own.columns().write(&own, &path, true).unwrap();
        assert!(fs::read(&path).unwrap() == bytes);
    }
}

#[test]
fn views_are_packed_as_the_data_sets_of_their_episodes() {
    let packed = |data: &Dataset, episodes: &[usize]| {
        let mut batch = PackedBatch::new();
        batch.fill(data, episodes);
        batch
    };
    for view in views() {
        let own = rebuilt(&view);
        let episodes: Vec<usize> = (0..view.episodes()).rev().step_by(2).collect();
        let (of_view, of_own) = (packed(&view, &episodes), packed(&own, &episodes));
        assert_eq!(of_view.windows(), of_own.windows());
        assert_eq!(of_view.batch_sizes(), of_own.batch_sizes());
        for row in 0..of_view.rows() {
            let rewards =
                (view.rewards()[of_view.step_rows()[row]], own.rewards()[of_own.step_rows()[row]]);
            assert_eq!(rewards.0, rewards.1);
            let seen = |data: &Dataset, row: usize| {
                let width = data.metadata().observation_space.cells();
                let cells = data.observations().view();
                (row * width..(row + 2) * width).map(|at| cells.number(at)).collect::<Vec<_>>()
            };
            assert_eq!(
                seen(&view, of_view.observation_rows()[row]),
                seen(&own, of_own.observation_rows()[row])
            );
        }
    }
}

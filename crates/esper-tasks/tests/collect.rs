//! Collected data: the same from any number of threads, and with the numbers the tasks are known to have.

use esper_data::{Dataset, Statistics};
use esper_tasks::{CollectOptions, DEFAULT_EPSILON, Task};

fn options(steps: u64, seed: u64) -> CollectOptions {
    CollectOptions {
        steps,
        seed,
        behaviours: vec![],
        epsilon: DEFAULT_EPSILON,
    }
}

fn collect(task: Task, options: &CollectOptions) -> Dataset {
    let mut whole: Option<Dataset> = None;
    task.collect(options, |part| match &mut whole {
        Some(whole) => whole.append(&part),
        None => {
            whole = Some(part);
            Ok(())
        }
    })
    .unwrap()
    .unwrap();
    whole.unwrap()
}

#[test]
fn threads_do_not_change_the_data() {
    for task in Task::ALL {
        let with = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            pool.install(|| collect(task, &options(20_000, 5)))
        };
        assert_eq!(with(1), with(3), "{task:?}");
    }
}

#[test]
fn a_shorter_collection_is_the_start_of_a_longer_one() {
    let short = collect(Task::Twenty48, &options(1_000, 0));
    let long = collect(Task::Twenty48, &options(2_000, 0));
    assert_eq!(short.rewards(), &long.rewards()[..short.steps()]);
    assert_ne!(
        collect(Task::Twenty48, &options(1_000, 1)).actions(),
        short.actions()
    );
}

/// At least the steps asked for, and not one episode more than that takes.
#[test]
fn collection_stops_with_the_episode_that_is_enough() {
    for steps in [1, 2, 999, 30_000] {
        let data = collect(Task::ConnectFour, &options(steps, 0));
        let last = data.length(data.episodes() - 1);
        assert!(data.steps() as u64 >= steps);
        assert!(((data.steps() - last) as u64) < steps);
    }
}

#[test]
fn an_error_of_the_sink_ends_the_collection() {
    let mut parts = 0;
    let result = Task::Twenty48
        .collect(&options(10_000_000, 0), |_| {
            parts += 1;
            Err("no room")
        })
        .unwrap();
    assert_eq!((result, parts), (Err("no room"), 1));
}

#[test]
fn unknown_behaviours_are_refused() {
    let options = CollectOptions {
        behaviours: vec!["expert".to_owned()],
        ..options(1, 0)
    };
    let error = Task::Gambling
        .collect(&options, |_| Ok::<(), ()>(()))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "gambling has no behaviour `expert`; it has random"
    );
}

fn mean_and_error(data: &Dataset) -> (f64, f64) {
    let returns = Statistics::of(data).returns();
    (returns.mean, returns.std / (data.episodes() as f64).sqrt())
}

/// Uniform over means of -5, -2.5 and 1: -13/6.
#[test]
fn gambling_has_its_closed_form_mean() {
    let data = collect(Task::Gambling, &options(100_000, 0));
    assert_eq!((data.steps(), data.episodes()), (100_000, 50_000));
    let (mean, error) = mean_and_error(&data);
    assert!((mean + 13.0 / 6.0).abs() < 4.0 * error, "{mean} ± {error}");
}

/// Half the episodes each; +0.90 for ε-optimal, -0.60 for the exploiter.
#[test]
fn connect_four_has_its_known_returns() {
    let data = collect(Task::ConnectFour, &options(500_000, 0));
    let behaviours = Statistics::of(&data).behaviours();
    let [optimal, exploiter] = behaviours.as_slice() else {
        panic!("{behaviours:?}")
    };
    assert_eq!(
        (optimal.name.as_str(), exploiter.name.as_str()),
        ("epsilon-optimal", "exploiter")
    );
    let share = optimal.episodes as f64 / data.episodes() as f64;
    assert!((share - 0.5).abs() < 0.01, "{share}");
    assert!((optimal.mean_return - 0.903).abs() < 0.01, "{optimal:?}");
    assert!((optimal.mean_length - 19.97).abs() < 0.05, "{optimal:?}");
    assert!((exploiter.mean_return + 0.6).abs() < 0.02, "{exploiter:?}");
    assert!((exploiter.mean_length - 4.8).abs() < 0.03, "{exploiter:?}");
}

/// Random play reaches 128 in 45.5% of games of 91 moves.
#[test]
fn twenty48_has_its_known_success() {
    let data = collect(Task::Twenty48, &options(4_600_000, 1));
    assert!(data.episodes() > 50_000);
    let statistics = Statistics::of(&data);
    assert!(
        (statistics.returns().mean - 0.455).abs() < 0.005,
        "{:?}",
        statistics.returns()
    );
    assert!(
        (statistics.lengths().mean - 91.0).abs() < 0.5,
        "{:?}",
        statistics.lengths()
    );
}

/// The recorded action is the one asked for, also when its column is full and another was played.
#[test]
fn recorded_actions_are_those_asked_for() {
    let options = CollectOptions {
        behaviours: vec!["random".to_owned()],
        ..options(100_000, 0)
    };
    let data = collect(Task::ConnectFour, &options);
    let mut into_full_columns = 0;
    for episode in 0..data.episodes() {
        let observations = data.episode_observations(episode);
        for (step, observation) in data.episode_steps(episode).zip(observations) {
            let column = data.actions().category(step);
            let disc = |plane: usize, row: usize| {
                data.observations()
                    .category(observation * 84 + plane * 42 + column * 6 + row)
            };
            into_full_columns += disc(0, 5) + disc(1, 5);
        }
    }
    assert!(into_full_columns > 100, "{into_full_columns}");
}

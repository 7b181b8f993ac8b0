//! Collected data: the same from any number of threads, and with the numbers the tasks are known to have.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use esper_data::{
    CellsMut, CellsRef, DataError, Dataset, DatasetBuilder, Distribution, Space, Tally,
};
use esper_tasks::{
    CollectError, CollectOptions, Collection, DatasetSpec, Expert, OptionsError, Spaces, Step,
    Task, World, WorldError, task,
};

fn gambling() -> &'static Task {
    task("gambling").unwrap()
}

fn connect_four() -> &'static Task {
    task("connect-four").unwrap()
}

fn twenty48() -> &'static Task {
    task("twenty48").unwrap()
}

fn options(steps: u64, seed: u64) -> CollectOptions {
    CollectOptions { steps: Some(steps), seed, ..CollectOptions::default() }
}

fn behaviour(name: &str) -> Vec<String> {
    vec![name.to_owned()]
}

fn collect_parts(task: &Task, options: &CollectOptions) -> Vec<Dataset> {
    let mut parts = Vec::new();
    let keep = |part| {
        parts.push(part);
        Ok(())
    };
    Collection::new(task, options).unwrap().run(keep, |_| ControlFlow::Continue(())).unwrap();
    parts
}

fn collect(task: &Task, options: &CollectOptions) -> Dataset {
    let parts = collect_parts(task, options);
    let first = &parts[0];
    let mut whole = DatasetBuilder::new(first.metadata().clone())
        .with_behaviours(first.behaviours().iter().cloned());
    parts.iter().for_each(|part| whole.extend(part).unwrap());
    whole.build().unwrap()
}

/// Not only the data: also where it is cut into parts.
#[test]
fn threads_do_not_change_the_data() {
    for (task, steps) in [(gambling(), 400_000), (connect_four(), 20_000), (twenty48(), 300_000)] {
        let with = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| collect_parts(task, &options(steps, 5)))
        };
        let one = with(1);
        assert_eq!(one.len() > 1, steps > 200_000, "{task:?}");
        assert!(one == with(3), "{task:?}");
    }
}

#[test]
fn a_shorter_collection_is_the_start_of_a_longer_one() {
    let short = collect(twenty48(), &options(1_000, 0));
    let long = collect(twenty48(), &options(2_000, 0));
    assert!(short.rewards() == &long.rewards()[..short.steps()]);
    assert!(collect(twenty48(), &options(1_000, 1)).actions() != short.actions());
}

/// At least the steps asked for, and not one episode more than that takes.
#[test]
fn collection_stops_with_the_episode_that_is_enough() {
    for steps in [1, 2, 999, 30_000] {
        let data = collect(connect_four(), &options(steps, 0));
        let last = data.length(data.episodes() - 1);
        assert!(data.steps() as u64 >= steps);
        assert!(((data.steps() - last) as u64) < steps);
    }
}

#[test]
fn an_error_of_the_sink_ends_the_collection() {
    let collection = Collection::new(twenty48(), &options(10_000_000, 0)).unwrap();
    let mut parts = 0;
    let refuse = |_| {
        parts += 1;
        Err(DataError::Invalid("no room".to_owned()))
    };
    let result = collection.run(refuse, |_| ControlFlow::Continue(())).unwrap_err();
    assert!(matches!(result, CollectError::Data(_)) && parts == 1, "{result}");
}

/// Whoever watches is told of every step, and can break off at once.
#[test]
fn a_collection_can_be_watched_and_stopped() {
    let played = AtomicU64::new(0);
    let watch = |steps| match played.fetch_add(steps, Ordering::Relaxed) + steps {
        0..100_000 => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    };
    let collection = Collection::new(twenty48(), &options(1_000_000_000, 0)).unwrap();
    let result = collection.run(|_| Ok(()), watch);
    assert!(matches!(result, Err(CollectError::Stopped)));
    assert!(played.into_inner() < 150_000);
}

#[test]
fn little_more_is_played_than_asked_for() {
    for steps in [1, 100_000, 1_000_000] {
        let played = AtomicU64::new(0);
        let watch = |steps| {
            played.fetch_add(steps, Ordering::Relaxed);
            ControlFlow::Continue(())
        };
        let collection = Collection::new(twenty48(), &options(steps, 0)).unwrap();
        collection.run(|_| Ok(()), watch).unwrap();
        let played = played.into_inner();
        assert!((steps..steps + steps / 10 + 20_000).contains(&played), "{played} for {steps}");
    }
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let problem = |task: &Task, options| Collection::new(task, &options).unwrap_err().to_string();
    let unknown = CollectOptions { behaviours: behaviour("expert"), ..options(1, 0) };
    assert_eq!(problem(gambling(), unknown), "gambling has no behaviour `expert`; it has random");
    let dataset = CollectOptions { dataset: Some("large".to_owned()), ..options(1, 0) };
    assert_eq!(problem(gambling(), dataset), "gambling has no data set `large`; it has paper");
    let twice = CollectOptions {
        behaviours: vec!["random".to_owned(), "random".to_owned()],
        ..options(1, 0)
    };
    assert_eq!(problem(gambling(), twice), "behaviour `random` is named twice");
    let epsilon = |epsilon| CollectOptions { epsilon: Some(epsilon), ..options(1, 0) };
    assert!(problem(gambling(), epsilon(0.5)).contains("none of random does"));
    assert_eq!(problem(connect_four(), epsilon(1.5)), "epsilon has to be from 0 to 1");
    assert_eq!(problem(gambling(), options(0, 0)), OptionsError::NoSteps.to_string());
    let nobody = DatasetSpec::new("empty", 100, [""; 0]);
    let deserted = Task::new("deserted", || gambling().world()).with_dataset(nobody);
    assert!(problem(&deserted, options(1, 0)).contains("the data set `empty` of deserted"));
}

/// A world of other machinery: counts its steps, has these spaces, and breaks down when it has counted to `breaks_at`.
#[derive(Clone)]
struct Machine {
    spaces: Spaces,
    breaks_at: u8,
    steps: u8,
}

impl Machine {
    fn with_choices(n: u32) -> Self {
        let spaces =
            Spaces { observation: Space::Discrete { n: 256 }, action: Space::Discrete { n } };
        Machine { spaces, breaks_at: 9, steps: 0 }
    }

    fn task(self) -> Task {
        Task::new("machine", move || Ok(Box::new(self.clone())))
    }
}

impl World for Machine {
    fn spaces(&self) -> Spaces {
        self.spaces.clone()
    }
    fn reset(&mut self, _: u64, observation: CellsMut<'_>) -> Result<(), WorldError> {
        self.steps = 0;
        let CellsMut::Byte([seen]) = observation else { return Err(WorldError::failed("cells")) };
        *seen = 0;
        Ok(())
    }
    fn step(&mut self, _: CellsRef<'_>, observation: CellsMut<'_>) -> Result<Step, WorldError> {
        self.steps += 1;
        if self.steps == self.breaks_at {
            return Err(WorldError::failed("the machine broke down; start it again"));
        }
        let CellsMut::Byte([seen]) = observation else { return Err(WorldError::failed("cells")) };
        *seen = self.steps;
        Ok(if self.steps < 20 { Step::paying(1.0) } else { Step::end(1.0) })
    }
}

/// A world that fails ends the collection with what it says.
#[test]
fn an_error_of_the_world_ends_the_collection() {
    let collection = Collection::new(&Machine::with_choices(2).task(), &options(1_000, 0)).unwrap();
    let error = collection.run(|_| Ok(()), |_| ControlFlow::Continue(())).unwrap_err();
    assert!(matches!(error, CollectError::World(WorldError::Failed { .. })), "{error}");
    assert_eq!(error.to_string(), "the machine broke down; start it again");
    let lasting = Machine { breaks_at: 200, ..Machine::with_choices(2) };
    assert_eq!(collect(&lasting.task(), &options(1_000, 0)).length(0), 20);
}

/// Before there is a file: a space that nothing can be a value of is the world's mistake, wherever it is met.
#[test]
fn spaces_that_make_no_sense_are_refused() {
    let task = Machine::with_choices(0).task();
    let words = "the world breaks its word: action space Discrete(0): a cell has no categories";
    assert_eq!(Collection::new(&task, &options(1, 0)).unwrap_err().to_string(), words);
    assert_eq!(task.worlds(1).err().unwrap().to_string(), words);
}

/// A file that says who made it says with which epsilon.
#[test]
fn another_epsilon_is_part_of_the_name() {
    let with = |epsilon| CollectOptions { epsilon: Some(epsilon), ..options(1, 0) };
    let names = |epsilon| Collection::new(connect_four(), &with(epsilon)).unwrap().behaviours();
    assert_eq!(names(0.01), ["epsilon-optimal", "exploiter"]);
    assert_eq!(names(0.5), ["epsilon-optimal(0.5)", "exploiter"]);
}

fn mean_and_error(data: &Dataset) -> (f64, f64) {
    let returns = Distribution::of_returns(data);
    (returns.mean, returns.std / (data.episodes() as f64).sqrt())
}

/// Uniform over means of -5, -2.5 and 1: -13/6.
#[test]
fn gambling_has_its_closed_form_mean() {
    let data = collect(gambling(), &options(100_000, 0));
    assert_eq!((data.steps(), data.episodes()), (100_000, 50_000));
    let (mean, error) = mean_and_error(&data);
    assert!((mean + 13.0 / 6.0).abs() < 4.0 * error, "{mean} ± {error}");
}

/// Half the episodes each; +0.90 for ε-optimal, -0.60 for the exploiter.
#[test]
fn connect_four_has_its_known_returns() {
    let data = collect(connect_four(), &options(500_000, 0));
    let behaviours = Tally::of(&data).behaviours();
    let [optimal, exploiter] = behaviours.as_slice() else { panic!("{behaviours:?}") };
    assert_eq!((optimal.name.as_str(), exploiter.name.as_str()), ("epsilon-optimal", "exploiter"));
    let share = optimal.episodes as f64 / data.episodes() as f64;
    assert!((share - 0.5).abs() < 0.01, "{share}");
    assert!((optimal.mean_return - 0.903).abs() < 0.01, "{optimal:?}");
    assert!((optimal.mean_length - 19.97).abs() < 0.05, "{optimal:?}");
    assert!((exploiter.mean_return + 0.6).abs() < 0.02, "{exploiter:?}");
    assert!((exploiter.mean_length - 4.8).abs() < 0.03, "{exploiter:?}");
}

/// Random play reaches 128 in 45.5% of games of 91 moves; the expert that is included in about 80%.
#[test]
fn twenty48_has_its_known_success() {
    let data = collect(twenty48(), &options(5_000_000, 1));
    let behaviours = Tally::of(&data).behaviours();
    let [expert, random] = behaviours.as_slice() else { panic!("{behaviours:?}") };
    assert_eq!((expert.name.as_str(), random.name.as_str()), ("expert", "random"));
    let share = expert.episodes as f64 / data.episodes() as f64;
    assert!((share - 0.5).abs() < 0.01, "{share}");
    // Standard errors are 0.003.
    assert!((random.mean_return - 0.455).abs() < 0.01, "{random:?}");
    assert!((random.mean_length - 91.0).abs() < 0.7, "{random:?}");
    assert!((expert.mean_return - 0.80).abs() < 0.015, "{expert:?}");
}

/// A file of another task, or none at all, is refused with what is wrong with it.
#[test]
fn an_expert_fits_its_task() {
    let bytes = include_bytes!("../src/twenty48/expert.safetensors");
    let expert =
        |task: &Task, bytes: &[u8]| Expert::from_safetensors(bytes, &task.spaces().unwrap());
    let problem = |task: &Task, bytes: &[u8]| expert(task, bytes).unwrap_err().to_string();
    assert!(problem(gambling(), bytes).contains("hidden.0.linear.weight"));
    assert!(problem(twenty48(), b"nonsense").contains("no expert"));
    let given = expert(twenty48(), bytes).unwrap();
    let with = CollectOptions { expert: Some(given), ..options(10_000, 3) };
    // The expert that is included is a file like any other.
    assert!(collect(twenty48(), &with) == collect(twenty48(), &options(10_000, 3)));
    let silent = CollectOptions { behaviours: behaviour("random"), ..with };
    let problem = Collection::new(twenty48(), &silent).unwrap_err();
    assert!(matches!(problem, OptionsError::NoExpert));
}

/// A task of one's own is collected like any other: with its name, its version and its first data set.
#[test]
fn a_task_of_ones_own_is_collected() {
    let task = Task::new("mine", || gambling().world())
        .with_version(7)
        .with_dataset(DatasetSpec::new("small", 500, ["random"]));
    let data = collect(&task, &CollectOptions::default());
    assert_eq!((data.steps(), data.behaviours()), (500, &["random".to_owned()][..]));
    let metadata = data.metadata();
    assert_eq!((metadata.task.as_deref(), metadata.task_version), (Some("mine"), Some(7)));
}

#[test]
#[should_panic(expected = "nothing can be called `My Task`")]
fn a_task_is_called_what_a_folder_can_be() {
    Task::new("My Task", || gambling().world());
}

#[test]
fn tasks_have_aliases() {
    assert_eq!(task("2048").unwrap().name(), "twenty48");
    assert_eq!(task("c4").unwrap().name(), "connect-four");
    assert!(task("chess").is_none());
}

/// The recorded action is the one asked for, also when its column is full and another was played.
#[test]
fn recorded_actions_are_those_asked_for() {
    let options = CollectOptions { behaviours: behaviour("random"), ..options(100_000, 0) };
    let data = collect(connect_four(), &options);
    let mut into_full_columns = 0;
    for episode in 0..data.episodes() {
        let observations = data.episode_observations(episode);
        for (step, observation) in data.episode_steps(episode).zip(observations) {
            let column = data.actions().category(step);
            let disc = |plane: usize, row: usize| {
                data.observations().category(observation * 84 + plane * 42 + column * 6 + row)
            };
            into_full_columns += disc(0, 5) + disc(1, 5);
        }
    }
    assert!(into_full_columns > 100, "{into_full_columns}");
}

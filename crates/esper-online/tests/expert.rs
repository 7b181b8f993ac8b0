//! An expert that learned online plays the same for whoever collects data with it; and what it saw can be collected, too.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use esper::condition::Target;
use esper::{Checkpoint, Error, Monitor};
use esper_data::{Dataset, Seed, Space, Tally};
use esper_eval::{Sweep, rollouts};
use esper_nn::DeviceName;
use esper_online::{
    ExpertPlan, LearnedReplays, OnlineError, OnlineLearner, Ppo, PpoConfig, TrainedExpert,
    train_expert,
};
use esper_tasks::{
    CollectError, CollectOptions, Collection, DatasetSpec, Env, Expert, LEARNER, Step, Task, task,
};

/// A player that has learned a little about the safe bet takes it as often when it is read from a file.
#[test]
fn a_file_plays_as_the_network_did() {
    let task = task("gambling").unwrap();
    let device = DeviceName::Cpu.open().unwrap();
    let config = PpoConfig { hidden: 16, horizon: 8, batch: 128, ..PpoConfig::default() };
    let mut ppo = Ppo::new(task.worlds(64).unwrap(), &config, Seed::new(0), &device).unwrap();
    for _ in 0..12 {
        ppo.update().unwrap();
    }
    let sweep = Sweep {
        targets: vec![Target::Return(0.0)],
        episodes: 20_000,
        discount: 1.0,
        seed: Seed::new(1),
    };
    let go_on = |_| ControlFlow::Continue(());
    let mut worlds = task.worlds(sweep.places()).unwrap();
    let mut agent = ppo.actor().agent();
    let played = rollouts(&mut worlds, &mut agent, &sweep, go_on).unwrap().remove(0).moments();

    let bytes = ppo.actor().to_safetensors();
    let options = CollectOptions {
        steps: Some(40_000),
        seed: 2,
        behaviours: vec!["expert".to_owned()],
        expert: Some(Expert::from_safetensors(&bytes, &task.spaces().unwrap()).unwrap()),
        ..CollectOptions::default()
    };
    let mut tally = Tally::default();
    let collection = Collection::new(task, &options).unwrap();
    collection.run(|part| tally.add(&part), |_| ControlFlow::Continue(())).unwrap();
    let (network, file) = (played.mean, tally.total().mean_return);
    assert!(network > -2.0 && network < 0.9, "neither random nor perfect: {network}");
    assert!((network - file).abs() < 5.0 * played.standard_error(), "{network} {file}");
}

/// A number is guessed four times: a guess pays minus its distance from 0.5. Random guesses return -2.5 on average.
#[derive(Clone, Default)]
struct Guess(u32);

impl Env for Guess {
    type Cell = f32;
    type Action = [f32; 1];
    fn observation_space(&self) -> Space {
        Space::Box { shape: vec![1], bounds: None }
    }
    fn action_space(&self) -> Space {
        Space::Box { shape: vec![1], bounds: Some(vec![[-1.0, 1.0]]) }
    }
    fn reset(&mut self, _: u64, observation: &mut [f32]) {
        self.0 = 0;
        observation[0] = 1.0;
    }
    fn step(&mut self, [guess]: [f32; 1], observation: &mut [f32]) -> Step {
        self.0 += 1;
        observation[0] = 1.0;
        Step { reward: -(guess - 0.5).abs(), terminated: self.0 == 4, truncated: false }
    }
}

fn guessing(until: [f64; 2], steps: u64) -> Task {
    Task::new("guessing", || Ok(Box::new(Guess::default())))
        .with_dataset(DatasetSpec::replay("replay", steps, until))
}

fn replayed(task: &Task, with_learner: bool) -> Result<Vec<Dataset>, CollectError> {
    let device = DeviceName::Cpu.open().unwrap();
    let learner = with_learner.then(|| Arc::new(LearnedReplays { device }) as Arc<_>);
    let collection = Collection::new(task, &CollectOptions::default()).unwrap();
    let mut parts = Vec::new();
    collection.with_replays(learner).run(
        |part| {
            parts.push(part);
            Ok(())
        },
        |_| ControlFlow::Continue(()),
    )?;
    Ok(parts)
}

/// It stops where it was asked to; everything that was seen until then is there, random guesses first.
#[test]
fn a_replay_is_what_was_seen_until_it_was_good_enough() {
    let parts = replayed(&guessing([-1.6, -0.2], 60_000), true).unwrap();
    let [data] = &parts[..] else { panic!("one part") };
    assert_eq!(data.behaviours(), [LEARNER]);
    let returned = |episodes: std::ops::Range<usize>| {
        let count = episodes.len() as f64;
        episodes.map(|episode| data.episode_return(episode)).sum::<f64>() / count
    };
    // 10,000 steps at random, then it learns.
    assert!((returned(0..2_000) + 2.5).abs() < 0.1, "{}", returned(0..2_000));
    let last = returned(data.episodes() - 200..data.episodes());
    assert!(last > -2.0, "{last}");
    assert!(data.steps() > 10_000 && data.steps() < 60_000);
}

#[test]
fn a_replay_needs_somebody_who_learns_and_gets_there() {
    let nobody = replayed(&guessing([-1.6, 0.0], 60_000), false);
    assert!(matches!(nobody, Err(CollectError::NobodyLearns)));
    // Nothing returns more than zero.
    let never = replayed(&guessing([1.0, 2.0], 11_000), true).unwrap_err();
    assert!(never.to_string().contains("not 1 to 2"), "{never}");
}

/// Stops when it is asked for the `stops`th time whether to, and keeps the last checkpoint.
struct Stopping {
    stops: usize,
    asked: AtomicUsize,
    kept: Mutex<Option<Checkpoint>>,
}

impl Stopping {
    fn new(stops: usize, kept: Option<Checkpoint>) -> Self {
        Stopping { stops, asked: AtomicUsize::new(0), kept: Mutex::new(kept) }
    }
}

impl Monitor for Stopping {
    fn stop(&self) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed) >= self.stops
    }
    fn save_checkpoint(&self, _: &str, checkpoint: &Checkpoint) -> Result<(), Error> {
        *self.kept.lock().unwrap() = Some(checkpoint.clone());
        Ok(())
    }
    fn load_checkpoint(&self, _: &str) -> Result<Option<Checkpoint>, Error> {
        Ok(self.kept.lock().unwrap().clone())
    }
}

/// The player, how long it played, and what it returns.
fn outcome(expert: &TrainedExpert) -> (Vec<u8>, usize, f64) {
    (expert.actor.to_safetensors(), expert.steps, expert.mean_return)
}

/// Whether it is stopped after an update, before or while it is measured, or when everything is done but not yet written.
#[test]
fn wherever_it_is_stopped_it_goes_on_to_the_same_player() {
    let task = task("gambling").unwrap();
    let device = DeviceName::Cpu.open().unwrap();
    let usual = ExpertPlan::new(task);
    let settings = ["ppo.hidden=8", "ppo.horizon=4", "ppo.batch=512"].map(str::to_owned);
    let plan = ExpertPlan {
        // Random bets return -2.2 or so: it is measured many times before the steps are over.
        until: Some(-1.5),
        at_most: Some(-1.45),
        steps: Some(25_000),
        episodes: Some(40),
        config: usual.config.changed(None, &settings).unwrap(),
        ..usual
    };
    let train = |monitor: &Stopping| train_expert(task, &plan, &device, monitor);
    let never = Stopping::new(usize::MAX, None);
    let whole = outcome(&train(&never).unwrap());
    let asked = never.asked.into_inner();
    // Twice for each of 25 updates, 11 times in the last measurement, and in those before it.
    assert!(asked > 2 * 25 + 11, "{asked}");
    for stops in 0..asked {
        let stopped = Stopping::new(stops, None);
        assert!(matches!(train(&stopped), Err(OnlineError::Stopped)), "{stops} of {asked}");
        let kept = stopped.kept.into_inner().unwrap();
        let again = train(&Stopping::new(usize::MAX, kept)).unwrap();
        assert!(outcome(&again) == whole, "stopped at {stops} of {asked}");
    }
    // Complete, but killed before anybody could read it.
    let again = train(&Stopping::new(usize::MAX, never.kept.into_inner().unwrap())).unwrap();
    assert!(outcome(&again) == whole);
}

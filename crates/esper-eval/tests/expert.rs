//! An expert that learned online plays the same for whoever collects data with it.

use std::ops::ControlFlow;

use esper::online::{Ppo, PpoConfig};
use esper_data::{Seed, Tally};
use esper_eval::{LiveWorlds, Sweep, rollouts};
use esper_tasks::gambling::Gambling;
use esper_tasks::{CollectOptions, Collection, Expert, Task};

/// A player that has learned a little about the safe bet takes it as often when it is read from a file.
#[test]
fn a_file_plays_as_the_network_did() {
    let env = Gambling::default();
    let config = PpoConfig { hidden: 16, horizon: 8, batch: 128, ..PpoConfig::default() };
    let mut ppo = Ppo::new(LiveWorlds::new(&env, 64), &config, Seed::new(0)).unwrap();
    for _ in 0..12 {
        ppo.update().unwrap();
    }
    let sweep = Sweep { targets: vec![0.0], episodes: 20_000, discount: 1.0, seed: Seed::new(1) };
    let go_on = |_| ControlFlow::Continue(());
    let played = rollouts(&env, &mut ppo.actor().agent(), &sweep, go_on).unwrap().remove(0);

    let (observation, action) = Task::Gambling.spaces();
    let bytes = ppo.actor().to_safetensors();
    let options = CollectOptions {
        steps: 40_000,
        seed: 2,
        behaviours: vec!["expert".to_owned()],
        epsilon: None,
        expert: Some(Expert::from_safetensors(&bytes, &observation, &action).unwrap()),
    };
    let mut tally = Tally::default();
    let collection = Collection::new(Task::Gambling, &options).unwrap();
    collection.run(|part| tally.add(&part), |_| ControlFlow::Continue(())).unwrap();
    let (network, file) = (played.mean(), tally.total().mean_return);
    assert!(network > -2.0 && network < 0.9, "neither random nor perfect: {network}");
    assert!((network - file).abs() < 5.0 * played.stderr(), "{network} {file}");
}

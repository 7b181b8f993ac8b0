//! An expert that learned online plays the same for whoever collects data with it.

use std::ops::ControlFlow;

use esper_data::{Seed, Tally};
use esper_eval::{Sweep, rollouts};
use esper_nn::DeviceName;
use esper_online::{Ppo, PpoConfig};
use esper_tasks::{CollectOptions, Collection, Expert, task};

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
    let sweep = Sweep { targets: vec![0.0], episodes: 20_000, discount: 1.0, seed: Seed::new(1) };
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

//! Soft actor-critic: real-valued actions, learned off-policy from everything that was seen.
//!
//! Two critics learn what actions are worth, entropy included,
//!
//! > y = r + γ (min Q'(s', a') - α log π(a' | s')),  a' drawn from the actor
//!
//! and the actor maximises `min Q(s, a) - α log π(a | s)`. The temperature α keeps the actor's entropy at -1 nat a cell. Targets
//! Q' follow the critics slowly. Several copies of the world are played side by side, with fewer updates than steps: steps
//! are cheap here, updates are not.

use burn::module::Module;
use esper::actions::ActionHead;
use esper::actor_critic::{LearningCritics, Logarithm, Squash, SquashedGaussian};
use esper::features::{Column, Encoding, encode};
use esper::policy::{column, floats};
use esper::settings::Settings;
use esper::training::{Checkpointed, Trained};
use esper::{Checkpoint, Error, Interface};
use esper_data::{Cells, Fields, Rng, Seed, draw_squashed};
use esper_nn::{AdamWConfig, Device, Mlp, MlpConfig, Noise, RowsIn, squared_error};
use esper_tasks::{Spaces, Step, Worlds};
use rand::RngExt;

use crate::OnlineError;
use crate::actor::Actor;
use crate::learner::{OnlineLearner, Update, count, next_part};
use crate::playing::Playing;
use crate::replay::Replay;

esper::settings! {
    /// Soft actor-critic.
    pub struct SacConfig in "sac" {
        /// Copies of the world that are played side by side.
        copies: usize = 16, within: 1..=10_000;
        /// Update ratio: steps in all worlds together to one update of the networks.
        steps_per_update: usize = 4, within: 1..=1_000_000;
        /// Steps that are taken at random before anything is learned.
        random_steps: usize = 10_000, within: 1..=1_000_000_000;
        /// Batch size: transitions in an update.
        batch: usize = 256, within: 1..=100_000;
        /// Hidden width of the critics.
        hidden: usize = 256, within: 1..=8192;
        /// Hidden width of the actor.
        actor_hidden: usize = 128, within: 1..=8192;
        /// Hidden layers.
        layers: usize = 2, within: 1..=64;
        /// Learning rate of actor, critics and temperature.
        learning_rate: f64 = 1e-3, within: 0.0..=1.0;
        /// Discount factor γ.
        discount: f64 = 0.99, within: 0.0..=1.0;
        /// τ: how far the targets move towards the critics in an update.
        tau: f64 = 0.005, within: 0.0..=1.0;
        /// Delay of the actor: updates of the critics to one of actor and temperature.
        delay: usize = 2, within: 1..=1000;
    }
}

/// Steps in all worlds between two reports.
const REPORTED: usize = 512;

/// A training under way.
pub struct Sac {
    config: SacConfig,
    playing: Playing,
    interface: Interface,
    squash: Squash,
    /// Where tensors are, without gradients.
    plain: Device,
    device: Device,
    seed: Seed,
    actor: Trained<Mlp>,
    critics: LearningCritics,
    temperature: Trained<Logarithm>,
    replay: Replay,
    /// Rounds of steps in all worlds, and updates so far.
    rounds: u64,
    updates: u64,
}

impl Sac {
    /// Begins; the worlds are reset.
    pub fn new(
        worlds: Worlds,
        config: &SacConfig,
        seed: Seed,
        device: &Device,
    ) -> Result<Self, OnlineError> {
        let Spaces { observation, action } = worlds.spaces().clone();
        let squash = Squash::of(&action).ok_or_else(|| {
            OnlineError::Learning(Error::Unsuitable(format!(
                "an expert can be trained where there is one choice among actions, or real numbers within bounds; here an \
                 action is {action}"
            )))
        })?;
        config.check()?;
        let interface = Interface {
            observation: Encoding::unscaled(&observation),
            action: ActionHead::new(Encoding::unscaled(&action)),
            fields: Fields::default(),
        };
        let (plain, device) = (device.clone(), device.clone().autodiff());
        let seed = seed.named("sac");
        let mut rng = seed.named("initialisation").rng();
        let (states, cells) = (interface.observation.width(), action.cells());
        let network = |inputs, outputs, hidden| {
            MlpConfig::new(inputs, outputs).with_hidden(hidden).with_layers(config.layers)
        };
        let actor = network(states, 2 * cells, config.actor_hidden).init(&device, &mut rng);
        let critics = network(states + cells, 1, config.hidden);
        // Adam: weights do not decay.
        let optimizer = AdamWConfig::new().with_weight_decay(0.0);
        let rate = config.learning_rate;
        let critics = LearningCritics::new(&critics, &optimizer, rate, &device, &mut rng);
        Ok(Sac {
            config: config.clone(),
            replay: Replay::new(&observation, &action, worlds.copies()),
            playing: Playing::new(worlds, seed.named("episodes"))?,
            interface,
            squash,
            seed,
            actor: Trained::new(actor, &optimizer, rate),
            critics,
            temperature: Trained::new(Logarithm::new(&device), &optimizer, rate),
            plain,
            device,
            rounds: 0,
            updates: 0,
        })
    }

    /// Everything that was seen.
    pub fn replay(&self) -> &Replay {
        &self.replay
    }

    pub(crate) fn into_replay(self) -> Replay {
        self.replay
    }

    /// Takes one step in every world.
    fn play(&mut self, actor: &Mlp, update: &mut Update) -> Result<(), OnlineError> {
        let mut rng = self.seed.named("actions").indexed(self.rounds).rng();
        self.rounds += 1;
        let worlds = self.playing.worlds();
        let everywhere: Vec<usize> = (0..worlds.copies()).collect();
        let mut actions = Vec::with_capacity(everywhere.len() * self.squash.0.len());
        if self.replay.steps() < self.config.random_steps {
            for _ in &everywhere {
                actions
                    .extend(self.squash.0.iter().map(|&[low, high]| rng.random_range(low..=high)));
            }
        } else {
            let encoding = &self.interface.observation;
            let seen = Column { encoding, cells: worlds.observations(), rows: &everywhere };
            let outputs = actor.forward(encode(&[seen], &self.plain), &mut Noise::new(0));
            for outputs in floats(outputs).chunks_exact(2 * self.squash.0.len()) {
                draw_squashed(outputs, &self.squash.0, &mut rng, &mut actions);
            }
        }
        let mut seen = Cells::empty(worlds.observations().cell_type());
        seen.extend_from(worlds.observations(), 0..worlds.observations().len());
        let steps: Vec<Step> = self.playing.step((&actions).into())?;
        let next = self.playing.worlds().observations();
        self.replay.push(&seen, &actions, &steps, next);
        update.finish(&self.playing.begin_again()?);
        Ok(())
    }

    /// One update of the critics, and now and then of the actor; gives what it measured.
    fn learn(&mut self) -> Measured {
        let seed = self.seed.named("updates").indexed(self.updates);
        self.updates += 1;
        let mut rng = seed.rng();
        let rows: Vec<usize> =
            (0..self.config.batch).map(|_| rng.random_range(0..self.replay.steps())).collect();
        let next = self.states(self.replay.next(), &rows, &self.plain);
        let states = self.states(self.replay.seen(), &rows, &self.device);
        let cells = self.squash.0.len();
        let taken =
            rows.iter().flat_map(|row| &self.replay.actions()[row * cells..(row + 1) * cells]);
        let actions = self.squash.matrix(taken.copied(), &self.device);

        let returns = self.returns(&rows, &next, &mut rng);
        let taken = states.clone().with(actions);
        let losses = self.critics.learn(1.0, self.config.tau, |critic| {
            let values = critic.forward(taken.clone(), &mut Noise::new(0));
            let loss = squared_error(values, returns.clone(), None);
            let measured = f64::from(loss.clone().into_scalar::<f32>());
            (loss, measured)
        });
        let mut measured = Measured { critic_loss: losses.iter().sum(), actor: None };
        if self.updates.is_multiple_of(self.config.delay as u64) {
            measured.actor = Some(self.learn_actor(&states, &mut rng));
        }
        measured
    }

    /// One step of actor and temperature; gives the actor's loss and its entropy.
    fn learn_actor(&mut self, states: &RowsIn, rng: &mut Rng) -> [f64; 2] {
        let temperature = self.temperature.module().number();
        let drawn = SquashedGaussian::of(self.actor.module(), states).draw(rng);
        let worth = self.critics.fixed().lower(states, drawn.actions);
        let surprise = f64::from(drawn.log_probability.clone().mean().into_scalar::<f32>());
        let loss = (drawn.log_probability * temperature - worth).mean();
        let measured = f64::from(loss.clone().into_scalar::<f32>());
        self.actor.step(1.0, &mut loss.backward());
        let excess = surprise - self.squash.0.len() as f64;
        self.temperature.step(1.0, &mut self.temperature.module().loss(excess).backward());
        [measured, -surprise]
    }

    /// `r + γ (min Q'(s', a') - α log π(a' | s'))`, nothing more after an end: `[rows, 1]`.
    fn returns(&self, rows: &[usize], next: &RowsIn, rng: &mut Rng) -> burn::tensor::Tensor<2> {
        let temperature = self.temperature.module().number();
        let drawn = SquashedGaussian::of(&self.actor.module().valid(), next).draw(rng);
        let worth =
            self.critics.target().lower(next, drawn.actions) - drawn.log_probability * temperature;
        let discount = self.config.discount as f32;
        let returns = rows.iter().zip(floats(worth)).map(|(&row, worth)| {
            let step = self.replay.step(row);
            step.reward + if step.terminated { 0.0 } else { discount * worth }
        });
        column(returns.collect(), &self.device)
    }

    fn states(&self, cells: &Cells, rows: &[usize], device: &Device) -> RowsIn {
        encode(
            &[Column { encoding: &self.interface.observation, cells: cells.view(), rows }],
            device,
        )
    }
}

/// What an update of the networks measured.
struct Measured {
    critic_loss: f64,
    /// Loss and entropy.
    actor: Option<[f64; 2]>,
}

impl OnlineLearner for Sac {
    fn actor(&self) -> Actor {
        Actor::new(self.actor.module().clone(), self.interface.clone(), self.plain.clone())
    }

    fn update(&mut self) -> Result<Update, OnlineError> {
        let mut update = Update::default();
        let reported = self.replay.steps() + REPORTED;
        let (mut critic_losses, mut actor_losses) = (Vec::new(), Vec::new());
        while self.replay.steps() < reported {
            let actor = self.actor.module().valid();
            self.play(&actor, &mut update)?;
            let due = self.replay.steps().saturating_sub(self.config.random_steps)
                / self.config.steps_per_update;
            while self.updates < due as u64 {
                let measured = self.learn();
                critic_losses.push(measured.critic_loss);
                actor_losses.extend(measured.actor);
            }
        }
        update.steps = self.replay.steps();
        let mean = |values: &mut dyn ExactSizeIterator<Item = f64>| {
            let count = values.len().max(1) as f64;
            values.sum::<f64>() / count
        };
        update.measured = vec![
            ("critic_loss", mean(&mut critic_losses.iter().copied())),
            ("actor_loss", mean(&mut actor_losses.iter().map(|[loss, _]| *loss))),
            ("entropy", mean(&mut actor_losses.iter().map(|[_, entropy]| *entropy))),
            ("temperature", self.temperature.module().number()),
        ];
        Ok(update)
    }

    fn recent_episodes(&self) -> usize {
        20
    }

    fn to_checkpoint(&self) -> Checkpoint {
        let learned: [&dyn Checkpointed; 3] = [&self.actor, &self.critics, &self.temperature];
        let mut parts: Vec<Vec<u8>> = learned.iter().flat_map(|kept| kept.parts()).collect();
        parts.push(self.playing.to_bytes());
        parts.push(self.updates.to_le_bytes().to_vec());
        parts.push(self.rounds.to_le_bytes().to_vec());
        parts.extend(self.replay.to_parts());
        Checkpoint { step: self.replay.steps(), parts }
    }

    fn restore(&mut self, checkpoint: &Checkpoint) -> Result<(), OnlineError> {
        let mut parts = checkpoint.parts.iter().map(Vec::as_slice);
        self.actor.restore(&mut parts)?;
        self.critics.restore(&mut parts)?;
        self.temperature.restore(&mut parts)?;
        self.playing.restore(next_part(&mut parts)?)?;
        self.updates = count(next_part(&mut parts)?)?;
        self.rounds = count(next_part(&mut parts)?)?;
        self.replay.restore(&mut parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esper_data::{Metadata, Space};
    use esper_tasks::Env;

    /// A point on a line: it is pushed by up to 1, and a step pays minus the square of how far from zero it ends. Cut after
    /// eight steps.
    #[derive(Clone, Default)]
    struct Point {
        at: f32,
        time: u32,
    }

    impl Env for Point {
        type Cell = f32;
        type Action = [f32; 1];
        fn observation_space(&self) -> Space {
            Space::Box { shape: vec![1], bounds: None }
        }
        fn action_space(&self) -> Space {
            Space::Box { shape: vec![1], bounds: Some(vec![[-1.0, 1.0]]) }
        }
        fn reset(&mut self, seed: u64, observation: &mut [f32]) {
            *self = Point { at: (seed % 401) as f32 / 100.0 - 2.0, time: 0 };
            observation[0] = self.at;
        }
        fn step(&mut self, [push]: [f32; 1], observation: &mut [f32]) -> Step {
            self.at += push;
            self.time += 1;
            observation[0] = self.at;
            Step { reward: -self.at * self.at, terminated: false, truncated: self.time == 8 }
        }
    }

    fn sac(seed: u64) -> Sac {
        let config = SacConfig {
            copies: 4,
            steps_per_update: 2,
            random_steps: 500,
            batch: 64,
            hidden: 32,
            actor_hidden: 16,
            learning_rate: 3e-3,
            discount: 0.9,
            ..SacConfig::default()
        };
        let device = esper_nn::DeviceName::Cpu.open().unwrap();
        let worlds = Worlds::of(&Point::default(), 4).unwrap();
        Sac::new(worlds, &config, Seed::new(seed), &device).unwrap()
    }

    /// Pushed at random the point ends up anywhere; pushed back at once it costs 1 from as far as 2 away, and 0.38 on average
    /// from a start between -2 and 2.
    #[test]
    fn it_learns_to_push_a_point_home() {
        let mut sac = sac(0);
        let first = sac.update().unwrap();
        let mut last = first.clone();
        for _ in 0..11 {
            last = sac.update().unwrap();
        }
        let mean = |update: &Update| update.returns / update.episodes as f64;
        assert!(mean(&first) < -10.0, "{}", mean(&first));
        assert!(mean(&last) > -2.5, "{}", mean(&last));
        assert_eq!(last.steps, 12 * REPORTED);
    }

    /// Stopped in mid-episode and taken up again by another, which then does the same to the last bit.
    #[test]
    fn going_on_is_the_same_as_never_stopping() {
        let mut stayed = sac(1);
        (0..2).for_each(|_| drop(stayed.update().unwrap()));
        let checkpoint = stayed.to_checkpoint();
        let mut returned = sac(1);
        returned.restore(&checkpoint).unwrap();
        for _ in 0..2 {
            assert_eq!(returned.update().unwrap(), stayed.update().unwrap());
        }
        assert_eq!(returned.to_checkpoint(), stayed.to_checkpoint());
        let other = Checkpoint { step: 0, parts: checkpoint.parts[..3].to_vec() };
        assert!(returned.restore(&other).is_err());
    }

    /// Every episode that is over, with what was really seen: the next state is where the push led.
    #[test]
    fn what_was_seen_is_a_data_set() {
        let mut sac = sac(2);
        sac.update().unwrap();
        let spaces = sac.playing.worlds().spaces().clone();
        let metadata = Metadata::new(spaces.observation, spaces.action);
        let data = sac.replay().to_dataset(metadata, "learner").unwrap();
        assert_eq!((data.episodes(), data.steps()), (REPORTED / 8, REPORTED));
        for episode in 0..data.episodes() {
            assert!(data.end(episode).truncated && data.length(episode) == 8);
            let (steps, seen) = (data.episode_steps(episode), data.episode_observations(episode));
            for (step, at) in steps.zip(seen) {
                let numbers = data.observations().view();
                let (before, after) = (numbers.number(at), numbers.number(at + 1));
                assert_eq!(before + data.actions().view().number(step), after);
                assert_eq!(data.rewards()[step], -after * after);
            }
        }
    }

    #[test]
    fn actions_without_bounds_are_refused() {
        #[derive(Clone)]
        struct Unbounded;
        impl Env for Unbounded {
            type Cell = f32;
            type Action = [f32; 1];
            fn observation_space(&self) -> Space {
                Space::Box { shape: vec![1], bounds: None }
            }
            fn action_space(&self) -> Space {
                Space::Box { shape: vec![1], bounds: None }
            }
            fn reset(&mut self, _: u64, _: &mut [f32]) {}
            fn step(&mut self, _: [f32; 1], _: &mut [f32]) -> Step {
                Step::end(0.0)
            }
        }
        let worlds = Worlds::of(&Unbounded, 1).unwrap();
        let device = esper_nn::DeviceName::Cpu.open().unwrap();
        let refused = Sac::new(worlds, &SacConfig::default(), Seed::new(0), &device).err();
        assert!(matches!(refused, Some(OnlineError::Learning(Error::Unsuitable(_)))));
    }
}

//! Proximal policy optimisation: many worlds side by side, and steps that stay near the policy that acted.
//!
//! > L = -mean min(ρ A, clip(ρ, 1 ± ε) A) - c H,  ρ = π(a | s) / π_acted(a | s)
//!
//! Advantages A are generalised advantage estimates, standardised in every minibatch. Actor and critic are networks of
//! their own. An episode that was cut counts on with what the critic thinks of its last state.

use burn::module::Module;
use burn::tensor::{Int, Tensor, TensorData, activation};
use esper::actions::ActionHead;
use esper::features::{Column, Encoding, Scale, encode};
use esper::policy::{column, floats};
use esper::settings::Settings;
use esper::training::{Checkpointed, Trained};
use esper::{Checkpoint, Error, Interface};
use esper_data::{Cells, CellsRef, Fields, Rng, Seed, Space};
use esper_nn::{AdamWConfig, Device, Mlp, MlpConfig, Noise, squared_error};
use esper_tasks::{Spaces, Worlds};
use rand::seq::SliceRandom;

use crate::OnlineError;
use crate::actor::Actor;
use crate::learner::{OnlineLearner, Update, count, next_part};
use crate::playing::Playing;

esper::settings! {
    /// Proximal policy optimisation.
    pub struct PpoConfig in "ppo" {
        /// Horizon: steps that every world takes between two updates.
        horizon: usize = 64, within: 1..=1_000_000;
        /// Epochs: how often an update goes through what was gathered.
        epochs: usize = 4, within: 1..=1000;
        /// Batch size: steps of a minibatch.
        batch: usize = 2_048, within: 1..=10_000_000;
        /// Hidden width, of actor and critic.
        hidden: usize = 128, within: 1..=8192;
        /// Hidden layers.
        layers: usize = 2, within: 1..=64;
        /// Learning rate of both.
        learning_rate: f64 = 1e-3, within: 0.0..=1.0;
        /// Discount factor γ.
        discount: f64 = 0.999, within: 0.0..=1.0;
        /// λ of generalised advantage estimation: how far advantages look ahead before they trust the critic.
        lambda: f64 = 0.95, within: 0.0..=1.0;
        /// Clip range ε: how far the policy may move in an update.
        clip: f32 = 0.2, within: 0.0..=1e9;
        /// Entropy coefficient c: what a nat of entropy is worth.
        entropy: f64 = 0.01, within: 0.0..=1e9;
        /// Gradient clipping: the most that the norm of gradients may be.
        max_norm: f64 = 0.5, within: 1e-9..=1e9;
    }
}

/// A training under way.
pub struct Ppo {
    config: PpoConfig,
    playing: Playing,
    interface: Interface,
    /// Where tensors are, without gradients.
    plain: Device,
    device: Device,
    seed: Seed,
    actor: Trained<Mlp>,
    critic: Trained<Mlp>,
    updates: u64,
    steps: usize,
}

impl Ppo {
    /// Begins; the worlds are reset.
    pub fn new(
        worlds: Worlds,
        config: &PpoConfig,
        seed: Seed,
        device: &Device,
    ) -> Result<Self, OnlineError> {
        let Spaces { observation, action } = worlds.spaces().clone();
        if !matches!(action, Space::Discrete { .. }) {
            return Err(OnlineError::Learning(Error::Unsuitable(format!(
                "an expert can be trained where there is one choice among actions; here an action is {action}"
            ))));
        }
        config.check()?;
        let interface = Interface {
            observation: Encoding::unscaled(&observation),
            action: ActionHead::new(Encoding::unscaled(&action)),
            fields: Fields::default(),
        };
        let plain = device.clone();
        let device = device.clone().autodiff();
        let seed = seed.named("ppo");
        let mut rng = seed.named("initialisation").rng();
        let mut network = |outputs: usize| {
            let config = MlpConfig::new(interface.observation.width(), outputs)
                .with_hidden(config.hidden)
                .with_layers(config.layers);
            config.init(&device, &mut rng)
        };
        let (actor, critic) = (network(interface.action.outputs()), network(1));
        let optimizer = AdamWConfig::new()
            .with_epsilon(1e-5)
            .with_weight_decay(0.0)
            .with_max_norm(Some(config.max_norm));
        Ok(Ppo {
            config: config.clone(),
            playing: Playing::new(worlds, seed.named("episodes"))?,
            interface,
            plain,
            device,
            seed,
            actor: Trained::new(actor, &optimizer, config.learning_rate),
            critic: Trained::new(critic, &optimizer, config.learning_rate),
            updates: 0,
            steps: 0,
        })
    }

    /// Takes `horizon` steps in every world.
    fn gather(&mut self, rng: &mut Rng, update: &mut Update) -> Result<Gathered, OnlineError> {
        let copies = self.playing.worlds().copies();
        let everywhere: Vec<usize> = (0..copies).collect();
        let (actor, critic) = (self.actor.module().valid(), self.critic.module().valid());
        let Interface { observation: encoding, action: head, .. } = &self.interface;
        let cells = self.playing.worlds().spaces().action.cell_type();
        let evaluate = |mlp: &Mlp, seen: CellsRef<'_>, rows: &[usize]| {
            evaluate(mlp, encoding, seen, rows, &self.plain)
        };
        let mut gathered = Gathered::new(copies, self.playing.worlds().observations().cell_type());
        for _ in 0..self.config.horizon {
            let seen = self.playing.worlds().observations();
            let logits = evaluate(&actor, seen, &everywhere);
            gathered.values.extend(evaluate(&critic, seen, &everywhere));
            gathered.observations.extend_from(seen, 0..seen.len());
            let mut chosen = Cells::empty(cells);
            for logits in logits.chunks_exact(head.outputs()) {
                head.draw(logits, rng, &mut chosen);
            }
            let actions: Vec<usize> = (0..copies).map(|copy| chosen.category(copy)).collect();
            let chances = logits.chunks_exact(head.outputs()).zip(&actions);
            gathered
                .log_chances
                .extend(chances.map(|(logits, &action)| log_chance(logits, action)));
            gathered.actions.extend_from_slice(&actions);

            let outcomes = self.playing.step(chosen.view())?;
            self.steps += copies;
            // What an episode that was cut would still have been worth.
            let cut: Vec<usize> =
                everywhere.iter().copied().filter(|&copy| outcomes[copy].is_cut()).collect();
            let mut worth = vec![0.0; copies];
            if !cut.is_empty() {
                let values = evaluate(&critic, self.playing.worlds().observations(), &cut);
                cut.iter().zip(values).for_each(|(&copy, value)| worth[copy] = value);
            }
            for (copy, step) in outcomes.iter().enumerate() {
                gathered.rewards.push(step.reward + self.config.discount as f32 * worth[copy]);
                gathered.over.push(step.is_over());
            }
            update.finish(&self.playing.begin_again()?);
        }
        gathered.last_values = evaluate(&critic, self.playing.worlds().observations(), &everywhere);
        Ok(gathered)
    }

    /// Goes through what was gathered several times, in minibatches; gives the critic's loss and the policy's entropy.
    fn learn(&mut self, gathered: &Gathered, rng: &mut Rng) -> [f64; 2] {
        let PpoConfig { epochs, batch, discount, lambda, .. } = self.config;
        let advantages = gathered.advantages(discount as f32, lambda as f32);
        let rows = gathered.rewards.len();
        let mut order: Vec<usize> = (0..rows).collect();
        let (mut sums, mut minibatches) = ([0.0; 2], 0);
        for _ in 0..epochs {
            order.shuffle(rng);
            for chosen in order.chunks(batch) {
                let measured = self.step(gathered, &advantages, chosen);
                sums.iter_mut().zip(measured).for_each(|(sum, value)| *sum += value);
                minibatches += 1;
            }
        }
        sums.map(|sum| sum / f64::from(minibatches))
    }

    /// One step of actor and critic; gives the critic's loss and the policy's entropy.
    fn step(&mut self, gathered: &Gathered, advantages: &[f32], chosen: &[usize]) -> [f64; 2] {
        let PpoConfig { clip, entropy: entropy_worth, .. } = self.config;
        let device = &self.device;
        let pick = |values: &[f32]| chosen.iter().map(|&row| values[row]).collect::<Vec<f32>>();
        let returns: Vec<f32> =
            chosen.iter().map(|&row| advantages[row] + gathered.values[row]).collect();
        let chosen_advantages = pick(advantages);
        let scale = Scale::of(chosen_advantages.iter().map(|&x| f64::from(x)));
        let standardised: Vec<f32> =
            chosen_advantages.iter().map(|&x| scale.apply(f64::from(x))).collect();
        let seen = Column {
            encoding: &self.interface.observation,
            cells: gathered.observations.view(),
            rows: chosen,
        };
        let states = encode(&[seen], device);

        let logits = self.actor.module().forward(states.clone(), &mut Noise::new(0));
        let log_chances = activation::log_softmax(logits, 1);
        let actions: Vec<i32> = chosen.iter().map(|&row| gathered.actions[row] as i32).collect();
        let taken =
            Tensor::<2, Int>::from_data(TensorData::new(actions, [chosen.len(), 1]), device);
        let ratio = (log_chances.clone().gather(1, taken)
            - column(pick(&gathered.log_chances), device))
        .exp();
        let advantage = column(standardised, device);
        let clipped = ratio.clone().clamp(1.0 - clip, 1.0 + clip) * advantage.clone();
        let gain = (ratio * advantage).min_pair(clipped).mean();
        let entropy = (log_chances.clone().exp() * log_chances).sum_dim(1).mean().neg();
        let values = self.critic.module().forward(states, &mut Noise::new(0));
        let value_loss = squared_error(values, column(returns, device), None);

        let measured =
            [&value_loss, &entropy].map(|value| f64::from(value.clone().into_scalar::<f32>()));
        let loss = value_loss - gain - entropy * entropy_worth;
        let mut gradients = loss.backward();
        self.actor.step(1.0, &mut gradients);
        self.critic.step(1.0, &mut gradients);
        measured
    }
}

impl OnlineLearner for Ppo {
    fn actor(&self) -> Actor {
        Actor::new(self.actor.module().clone(), self.interface.clone(), self.plain.clone())
    }

    /// Acts for a while and learns from it.
    fn update(&mut self) -> Result<Update, OnlineError> {
        let seed = self.seed.named("updates").indexed(self.updates);
        self.updates += 1;
        let mut update = Update::default();
        let gathered = self.gather(&mut seed.named("actions").rng(), &mut update)?;
        let [value_loss, entropy] = self.learn(&gathered, &mut seed.named("order").rng());
        update.measured = vec![("value_loss", value_loss), ("entropy", entropy)];
        update.steps = self.steps;
        Ok(update)
    }

    fn recent_episodes(&self) -> usize {
        2_000
    }

    fn to_checkpoint(&self) -> Checkpoint {
        let mut parts = self.actor.parts();
        parts.extend(self.critic.parts());
        parts.push(self.playing.to_bytes());
        parts.push(self.updates.to_le_bytes().to_vec());
        Checkpoint { step: self.steps, parts }
    }

    fn restore(&mut self, checkpoint: &Checkpoint) -> Result<(), OnlineError> {
        let mut parts = checkpoint.parts.iter().map(Vec::as_slice);
        self.actor.restore(&mut parts)?;
        self.critic.restore(&mut parts)?;
        self.playing.restore(next_part(&mut parts)?)?;
        self.updates = count(next_part(&mut parts)?)?;
        self.steps = checkpoint.step;
        Ok(())
    }
}

/// Steps of all worlds, time after time: `[horizon, copies]`.
struct Gathered {
    copies: usize,
    observations: Cells,
    actions: Vec<usize>,
    /// log π_acted(a | s).
    log_chances: Vec<f32>,
    rewards: Vec<f32>,
    over: Vec<bool>,
    /// What the critic thought of every state, and of the states after the last step.
    values: Vec<f32>,
    last_values: Vec<f32>,
}

impl Gathered {
    fn new(copies: usize, cells: esper_data::CellType) -> Self {
        Gathered {
            copies,
            observations: Cells::empty(cells),
            actions: Vec::new(),
            log_chances: Vec::new(),
            rewards: Vec::new(),
            over: Vec::new(),
            values: Vec::new(),
            last_values: Vec::new(),
        }
    }

    /// Generalised advantage estimates: `A_t = δ_t + γ λ A_{t+1}`, `δ_t = r_t + γ V(s_{t+1}) - V(s_t)`, where nothing
    /// follows the end of an episode.
    fn advantages(&self, discount: f32, lambda: f32) -> Vec<f32> {
        let mut advantages = vec![0.0; self.rewards.len()];
        for copy in 0..self.copies {
            let (mut following, mut advantage) = (self.last_values[copy], 0.0);
            for row in (copy..self.rewards.len()).step_by(self.copies).rev() {
                if self.over[row] {
                    (following, advantage) = (0.0, 0.0);
                }
                let surprise = self.rewards[row] + discount * following - self.values[row];
                advantage = surprise + discount * lambda * advantage;
                advantages[row] = advantage;
                following = self.values[row];
            }
        }
        advantages
    }
}

/// What a network puts out for some observations.
fn evaluate(
    mlp: &Mlp,
    encoding: &Encoding,
    seen: CellsRef<'_>,
    rows: &[usize],
    device: &Device,
) -> Vec<f32> {
    let states = encode(&[Column { encoding, cells: seen, rows }], device);
    floats(mlp.forward(states, &mut Noise::new(0)))
}

/// The logarithm of an action's probability.
fn log_chance(logits: &[f32], action: usize) -> f32 {
    let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let total: f32 = logits.iter().map(|logit| (logit - highest).exp()).sum();
    logits[action] - highest - total.ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use esper_data::CellsMut;
    use esper_tasks::{Env, Step, World, WorldError};

    /// Two copies, three steps; the first copy's episode ends after its second.
    #[test]
    fn advantages_are_what_the_formula_says() {
        let gathered = Gathered {
            copies: 2,
            rewards: vec![1.0, 0.0, 2.0, 0.0, 4.0, 8.0],
            over: vec![false, false, true, false, false, false],
            values: vec![0.5, 1.0, 1.5, 2.0, 2.5, 3.0],
            last_values: vec![10.0, 20.0],
            ..Gathered::new(2, esper_data::CellType::Byte)
        };
        // λ = 0: only the next value counts.
        assert_eq!(gathered.advantages(0.5, 0.0), [1.25, 0.0, 0.5, -0.5, 6.5, 15.0]);
        // λ = 1: what was received, and the last value; less what was expected.
        assert_eq!(
            gathered.advantages(0.5, 1.0),
            [1.0 + 1.0 - 0.5, 2.0 + 2.5 - 1.0, 2.0 - 1.5, 4.0 + 5.0 - 2.0, 6.5, 15.0]
        );
    }

    #[test]
    fn chances_are_those_of_a_softmax() {
        let logits = [0.2f32, 0.5, 0.3].map(|chance| chance.ln() + 3.0);
        assert!((log_chance(&logits, 1) - 0.5f32.ln()).abs() < 1e-6);
    }

    /// A walk over `length` states. Action 1 goes on and pays `step`; action 0 ends with nothing. At the last state the
    /// world ends, or is cut, and pays `goal`.
    #[derive(Clone)]
    struct Walk {
        at: u8,
        length: u8,
        step: f32,
        goal: f32,
        cut: bool,
    }

    impl Env for Walk {
        type Cell = u8;
        type Action = u8;
        fn observation_space(&self) -> Space {
            Space::Discrete { n: u32::from(self.length) + 1 }
        }
        fn action_space(&self) -> Space {
            Space::Discrete { n: 2 }
        }
        fn reset(&mut self, _: u64, observation: &mut [u8]) {
            self.at = 0;
            observation[0] = 0;
        }
        fn step(&mut self, action: u8, observation: &mut [u8]) -> Step {
            self.at += action;
            observation[0] = self.at;
            let arrived = self.at == self.length;
            let reward = match action {
                1 if arrived => self.goal,
                1 => self.step,
                _ => 0.0,
            };
            let terminated = action == 0 || (arrived && !self.cut);
            Step { reward, terminated, truncated: arrived && self.cut }
        }
    }

    fn ppo(walk: &Walk, config: &PpoConfig, seed: u64) -> Ppo {
        let worlds = Worlds::of(walk, 16).unwrap();
        Ppo::new(worlds, config, Seed::new(seed), &cpu()).unwrap()
    }

    fn cpu() -> Device {
        esper_nn::DeviceName::Cpu.open().unwrap()
    }

    fn small() -> PpoConfig {
        PpoConfig { horizon: 16, batch: 64, hidden: 32, ..PpoConfig::default() }
    }

    /// Going on costs a little at every step and pays in the end: giving up at once is the near optimum.
    #[test]
    fn it_learns_to_walk_to_the_goal() {
        let walk = Walk { at: 0, length: 5, step: -0.1, goal: 2.0, cut: false };
        let mut ppo = ppo(&walk, &small(), 0);
        let mut last = Update::default();
        for _ in 0..60 {
            last = ppo.update().unwrap();
        }
        let mean = last.returns / last.episodes as f64;
        assert!(mean > 1.4, "{mean}, of at most 1.6");
        assert_eq!(last.steps, 60 * 16 * 16);
    }

    /// Rewards of 1 for ever are worth 1 / (1 - γ) = 5, although every episode is cut after four of them.
    #[test]
    fn what_is_cut_counts_on() {
        let config = PpoConfig { discount: 0.8, learning_rate: 3e-3, ..small() };
        // The last state looks as good as any: it is one that could go on.
        let walk = Walk { at: 0, length: 4, step: 1.0, goal: 1.0, cut: true };
        let mut ppo = ppo(&walk, &config, 1);
        for _ in 0..150 {
            ppo.update().unwrap();
        }
        let cells = [0u8];
        let encoding = &ppo.interface.observation;
        let critic = ppo.critic.module().valid();
        let value = evaluate(&critic, encoding, CellsRef::Byte(&cells), &[0], &cpu())[0];
        // An agent that ended after four steps would be worth 1 + 0.8 + 0.64 + 0.512 = 2.95.
        assert!(value > 3.5, "{value}");
    }

    /// A walk that fails when it arrives.
    struct Washed(Walk);

    impl World for Washed {
        fn spaces(&self) -> Spaces {
            World::spaces(&self.0)
        }
        fn reset(&mut self, seed: u64, observation: CellsMut<'_>) -> Result<(), WorldError> {
            World::reset(&mut self.0, seed, observation)
        }
        fn step(
            &mut self,
            action: CellsRef<'_>,
            observation: CellsMut<'_>,
        ) -> Result<Step, WorldError> {
            let step = World::step(&mut self.0, action, observation)?;
            match self.0.at == self.0.length {
                true => Err(WorldError::failed("the bridge is out")),
                false => Ok(step),
            }
        }
    }

    #[test]
    fn an_error_of_the_world_is_handed_on() {
        let walk = Walk { at: 0, length: 3, step: 1.0, goal: 1.0, cut: false };
        let make = || -> Result<Box<dyn World>, WorldError> { Ok(Box::new(Washed(walk.clone()))) };
        let worlds = Worlds::new(16, make).unwrap();
        let mut ppo = Ppo::new(worlds, &small(), Seed::new(0), &cpu()).unwrap();
        let error = ppo.update().unwrap_err();
        assert!(matches!(error, OnlineError::World(WorldError::Failed { .. })), "{error}");
    }

    #[test]
    fn real_actions_are_refused() {
        #[derive(Clone)]
        struct Real;
        impl Env for Real {
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
        let worlds = Worlds::of(&Real, 1).unwrap();
        let refused = Ppo::new(worlds, &small(), Seed::new(0), &cpu()).err().expect("no choice");
        assert!(matches!(refused, OnlineError::Learning(Error::Unsuitable(_))));
    }
}

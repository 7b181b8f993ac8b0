//! Proximal policy optimisation: many worlds side by side, and steps that stay near the policy that acted.
//!
//! > L = -mean min(ρ A, clip(ρ, 1 ± ε) A) - c H,  ρ = π(a | s) / π_acted(a | s)
//!
//! Advantages A are generalised advantage estimates, standardised in every minibatch. Actor and critic are networks of
//! their own. An episode that was cut counts on with what the critic thinks of its last state.

use burn::module::Module;
use burn::tensor::{Int, Tensor, TensorData, activation};
use esper::actions::ActionHead;
use esper::agent::{Agent, Episodes, Remaining};
use esper::features::{Column, Encoding, Scale, encode};
use esper::policy::{column, floats};
use esper::settings::Settings;
use esper::training::Trained;
use esper::{Error, Interface};
use esper_data::{Cells, CellsRef, Rng, Seed, Space};
use esper_nn::{AdamWConfig, Device, Mlp, MlpConfig, Noise, squared_error, to_safetensors};
use esper_tasks::{Spaces, Step, Worlds};
use rand::seq::SliceRandom;

use crate::OnlineError;

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

/// A policy that chooses among actions by what it sees: `π(a | s)`.
#[derive(Clone, Debug)]
pub struct Actor {
    mlp: Mlp,
    interface: Interface,
    device: Device,
}

impl Actor {
    /// The weights.
    pub fn to_safetensors(&self) -> Vec<u8> {
        to_safetensors(&self.mlp)
    }

    /// The policy as something that acts; it has no targets.
    pub fn agent(&self) -> ActorAgent {
        let actor = Actor { mlp: self.mlp.valid(), ..self.clone() };
        ActorAgent { actor, episodes: Episodes::default() }
    }
}

/// Acts as an [`Actor`] says.
pub struct ActorAgent {
    actor: Actor,
    episodes: Episodes,
}

impl Agent for ActorAgent {
    fn begin(&mut self, place: usize, target: f64, seed: Seed) {
        self.episodes.begin(place, Remaining::new(target, 1.0), seed);
    }

    fn act(
        &mut self,
        observations: CellsRef<'_>,
        places: &[usize],
        actions: &mut Cells,
    ) -> Result<(), Error> {
        let Actor { mlp, interface, device } = &self.actor;
        interface.check_places(observations, places, actions)?;
        let outputs = evaluate(mlp, &interface.observation, observations, places, device);
        self.episodes.draw(&interface.action, &outputs, places, actions)
    }

    fn reward(&mut self, _: usize, _: f32) -> Result<(), Error> {
        Ok(())
    }

    fn end(&mut self, place: usize) {
        self.episodes.end(place);
    }
}

/// What an update gave.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Update {
    /// Steps taken in the worlds so far.
    pub steps: usize,
    /// Episodes that ended since the last update.
    pub episodes: usize,
    /// The sum of the returns of those episodes.
    pub returns: f64,
    /// The mean of the critic's squared errors.
    pub value_loss: f64,
    /// The mean entropy of the policy in nats.
    pub entropy: f64,
}

/// A training under way.
pub struct Ppo {
    config: PpoConfig,
    worlds: Worlds,
    interface: Interface,
    /// Where tensors are, without gradients.
    plain: Device,
    device: Device,
    seed: Seed,
    actor: Trained<Mlp>,
    critic: Trained<Mlp>,
    /// How many episodes have begun, and the return so far of each under way.
    begun: u64,
    running: Vec<f64>,
    updates: u64,
    steps: usize,
}

impl Ppo {
    /// Begins; the worlds are reset.
    pub fn new(
        mut worlds: Worlds,
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
        let copies = worlds.copies();
        let episodes = seed.named("episodes");
        for copy in 0..copies {
            worlds.reset(copy, episodes.indexed(copy as u64).value())?;
        }
        Ok(Ppo {
            config: config.clone(),
            worlds,
            interface,
            plain,
            device,
            seed,
            actor: Trained::new(actor, &optimizer, config.learning_rate),
            critic: Trained::new(critic, &optimizer, config.learning_rate),
            begun: copies as u64,
            running: vec![0.0; copies],
            updates: 0,
            steps: 0,
        })
    }

    /// The policy as it is now.
    pub fn actor(&self) -> Actor {
        Actor {
            mlp: self.actor.module().clone(),
            interface: self.interface.clone(),
            device: self.plain.clone(),
        }
    }

    /// Acts for a while and learns from it.
    pub fn update(&mut self) -> Result<Update, OnlineError> {
        let seed = self.seed.named("updates").indexed(self.updates);
        self.updates += 1;
        let mut update = Update::default();
        let gathered = self.gather(&mut seed.named("actions").rng(), &mut update)?;
        self.learn(&gathered, &mut seed.named("order").rng(), &mut update);
        if !(update.value_loss.is_finite() && update.entropy.is_finite()) {
            let what = if update.entropy.is_finite() { "value loss" } else { "entropy" };
            let (phase, step) = ("the expert".to_owned(), self.steps);
            return Err(OnlineError::Learning(Error::Diverged { phase, step, what }));
        }
        update.steps = self.steps;
        Ok(update)
    }

    /// Takes `horizon` steps in every world.
    fn gather(&mut self, rng: &mut Rng, update: &mut Update) -> Result<Gathered, OnlineError> {
        let copies = self.worlds.copies();
        let everywhere: Vec<usize> = (0..copies).collect();
        let (actor, critic) = (self.actor.module().valid(), self.critic.module().valid());
        let Interface { observation: encoding, action: head } = &self.interface;
        let cells = self.worlds.spaces().action.cell_type();
        let evaluate = |mlp: &Mlp, seen: CellsRef<'_>, rows: &[usize]| {
            evaluate(mlp, encoding, seen, rows, &self.plain)
        };
        let mut gathered = Gathered::new(copies, self.worlds.observations().cell_type());
        for _ in 0..self.config.horizon {
            let seen = self.worlds.observations();
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

            self.worlds.step(chosen.view())?;
            self.steps += copies;
            let outcomes: Vec<Step> = self.worlds.steps().to_vec();
            // What an episode that was cut would still have been worth.
            let cut: Vec<usize> =
                everywhere.iter().copied().filter(|&copy| outcomes[copy].is_cut()).collect();
            let mut worth = vec![0.0; copies];
            if !cut.is_empty() {
                let values = evaluate(&critic, self.worlds.observations(), &cut);
                cut.iter().zip(values).for_each(|(&copy, value)| worth[copy] = value);
            }
            for (copy, step) in outcomes.iter().enumerate() {
                gathered.rewards.push(step.reward + self.config.discount as f32 * worth[copy]);
                gathered.over.push(step.is_over());
                self.running[copy] += f64::from(step.reward);
                if step.is_over() {
                    update.episodes += 1;
                    update.returns += std::mem::take(&mut self.running[copy]);
                    let seed = self.seed.named("episodes").indexed(self.begun);
                    self.worlds.reset(copy, seed.value())?;
                    self.begun += 1;
                }
            }
        }
        gathered.last_values = evaluate(&critic, self.worlds.observations(), &everywhere);
        Ok(gathered)
    }

    /// Goes through what was gathered several times, in minibatches.
    fn learn(&mut self, gathered: &Gathered, rng: &mut Rng, update: &mut Update) {
        let PpoConfig { epochs, batch, discount, lambda, .. } = self.config;
        let advantages = gathered.advantages(discount as f32, lambda as f32);
        let rows = gathered.rewards.len();
        let mut order: Vec<usize> = (0..rows).collect();
        let mut minibatches = 0;
        for _ in 0..epochs {
            order.shuffle(rng);
            for chosen in order.chunks(batch) {
                let [value_loss, entropy] = self.step(gathered, &advantages, chosen);
                update.value_loss += value_loss;
                update.entropy += entropy;
                minibatches += 1;
            }
        }
        update.value_loss /= f64::from(minibatches);
        update.entropy /= f64::from(minibatches);
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
    use esper_tasks::{Env, World, WorldError};

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

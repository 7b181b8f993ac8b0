//! Random finite worlds, each from a seed, in families.

use esper_data::{Rng, Seed};
use rand::RngExt;
use rand::seq::SliceRandom;
use rand_distr::StandardNormal;

use super::finite::{FiniteWorld, Outcome, Policy, STEPS, Seen};
use super::points::Points;

/// A family of random worlds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// States are seen as numbers, and come again: `mdp-17`.
    Mdp,
    /// The same worlds, but states are seen as points of real numbers, and never come again: `points-17`.
    Points,
    /// Worlds of more than a hundred steps, seen as points: `long-17`.
    Long,
    /// The worlds of `mdp-17`, but several states look the same, to behaviours as well (a partially observed world): `hidden-17`.
    Hidden,
    /// The same, seen as points: `hidden-points-17`.
    HiddenPoints,
}

impl Family {
    /// All of them.
    pub const ALL: [Family; 5] =
        [Family::Mdp, Family::Points, Family::Hidden, Family::HiddenPoints, Family::Long];

    /// What stands before the seed in the names of its worlds.
    pub fn name(self) -> &'static str {
        match self {
            Family::Mdp => "mdp",
            Family::Points => "points",
            Family::Long => "long",
            Family::Hidden => "hidden",
            Family::HiddenPoints => "hidden-points",
        }
    }
}

/// Steps of a log of a long world: some hundreds of episodes.
const LONG_STEPS: u64 = 150_000;

/// What a world is like, before its numbers are drawn.
struct Plan {
    /// Whether states come one layer after the other, or can come again.
    layered: bool,
    /// Whether the first state is drawn.
    drawn_starts: bool,
    /// Whether rewards come on the way, or only at the end.
    on_the_way: bool,
    /// Whether something follows by chance.
    chance: bool,
    /// Whether rewards have noise that no state shows.
    noise: bool,
}

impl Plan {
    fn draw(rng: &mut Rng) -> Self {
        Plan {
            layered: rng.random(),
            drawn_starts: rng.random(),
            on_the_way: rng.random(),
            chance: rng.random::<f64>() < 0.9,
            noise: rng.random::<f64>() < 0.3,
        }
    }

    fn kind(&self) -> String {
        let word = |is: bool, one: &'static str, other: &'static str| if is { one } else { other };
        let mut words = vec![
            word(self.layered, "layered", "loops"),
            word(self.drawn_starts, "drawn", "fixed"),
            word(self.on_the_way, "way", "end"),
        ];
        words.extend((!self.chance).then_some("sure"));
        words.extend(self.noise.then_some("noise"));
        words.join("-")
    }
}

/// The world of a seed.
pub fn random_world(family: Family, seed: u64) -> FiniteWorld {
    let seed = Seed::new(seed);
    let mut rng = match family {
        Family::Long => seed.named("long").rng(),
        _ => seed.named("proving").rng(),
    };
    let plan = Plan::draw(&mut rng);
    let actions = rng.random_range(2..=4);
    let mut world = match (family, plan.layered) {
        (Family::Long, _) => long(&plan, actions, &mut rng),
        (_, true) => layers(&plan, actions, &mut rng),
        (_, false) => loops(&plan, actions, &mut rng),
    };
    let mut looks = seed.named("points").rng();
    if matches!(family, Family::Hidden | Family::HiddenPoints) {
        world.seen.numbers = shared(world.states, &mut looks);
    }
    if matches!(family, Family::Points | Family::HiddenPoints | Family::Long) {
        world.seen.points = Some(Points::draw(world.states, &mut looks));
    }
    if family != Family::Mdp {
        world.kind = format!("{}-{}", family.name(), world.kind);
    }
    // Behaviours that are hardly worth different things tell nothing about promises.
    for _ in 0..100 {
        world.behaviours = behaviours(&world, &mut rng);
        let truth = world.truth();
        let scale = truth.behaviours.iter().map(|b| b.value.abs()).fold(1e-9, f64::max);
        if truth.range() > 0.1 * scale {
            break;
        }
    }
    world
}

/// States one layer after the other; those of the last are where it ends.
fn layers(plan: &Plan, actions: usize, rng: &mut Rng) -> FiniteWorld {
    let (depth, width) = (rng.random_range(2..=6), rng.random_range(3..=6));
    let states = (depth + 1) * width;
    let mut outcomes = Vec::new();
    for state in 0..states {
        let layer = state / width;
        for _ in 0..actions {
            let ends = layer + 1 >= depth;
            let next = (layer + 1).min(depth) * width..((layer + 1).min(depth) + 1) * width;
            let targets: Vec<usize> = next.collect();
            outcomes.push(follow(plan, &targets, |_| ends, rng));
        }
    }
    world(plan, states, actions, depth, starts(plan, width, states, rng), outcomes)
}

/// States that can come again, some of which end it; cut after a while.
fn loops(plan: &Plan, actions: usize, rng: &mut Rng) -> FiniteWorld {
    let states = rng.random_range(6..=14);
    let horizon = rng.random_range(6..=16);
    let ends = |state: usize| state >= states - 2;
    let all: Vec<usize> = (0..states).collect();
    let mut outcomes = Vec::new();
    for _ in 0..states * actions {
        outcomes.push(follow(plan, &all, ends, rng));
    }
    world(plan, states, actions, horizon, starts(plan, states - 2, states, rng), outcomes)
}

/// What states are seen as: two of three share a number with another.
fn shared(states: usize, rng: &mut Rng) -> Vec<u8> {
    let mut order: Vec<usize> = (0..states).collect();
    order.shuffle(rng);
    let mut shown = vec![0; states];
    let pairs = states / 3;
    for (at, state) in order.into_iter().enumerate() {
        let number = if at < 2 * pairs { at / 2 } else { at - pairs };
        shown[state] = number as u8;
    }
    shown
}

/// The same, cut after more than a hundred steps, or ended by a state that hardly ever comes.
fn long(plan: &Plan, actions: usize, rng: &mut Rng) -> FiniteWorld {
    let states = rng.random_range(8..=20);
    let horizon = rng.random_range(120..=300);
    let end = states - 1;
    let all: Vec<usize> = (0..end).collect();
    let mut outcomes = Vec::new();
    for _ in 0..states * actions {
        let mut follow = follow(plan, &all, |_| false, rng);
        // Paid at the end only, and chance decides when that is.
        if !plan.on_the_way || rng.random::<f64>() < 0.1 {
            let probability = rng.random_range(0.2..2.0) / horizon as f64;
            follow.iter_mut().for_each(|it| it.probability *= 1.0 - probability);
            let reward = 2.0 * rng.sample::<f64, _>(StandardNormal);
            follow.push(Outcome { probability, next: end, reward, ends: true });
        }
        outcomes.push(follow);
    }
    let starts = starts(plan, end, states, rng);
    let world = world(plan, states, actions, horizon, starts, outcomes);
    FiniteWorld {
        kind: world.kind.replace("layered-", "").replace("loops-", ""),
        steps: LONG_STEPS,
        ..world
    }
}

fn world(
    plan: &Plan,
    states: usize,
    actions: usize,
    horizon: usize,
    starts: Vec<f64>,
    outcomes: Vec<Vec<Outcome>>,
) -> FiniteWorld {
    FiniteWorld {
        kind: plan.kind(),
        states,
        actions,
        horizon,
        starts,
        outcomes,
        noise: if plan.noise { 0.5 } else { 0.0 },
        behaviours: Vec::new(),
        seen: Seen::default(),
        steps: STEPS,
    }
}

/// The first of some states, or several of them with chances of their own.
fn starts(plan: &Plan, among: usize, states: usize, rng: &mut Rng) -> Vec<f64> {
    let mut starts = vec![0.0; states];
    let count = if plan.drawn_starts { rng.random_range(2..=among.min(5)) } else { 1 };
    starts[..count].iter_mut().for_each(|chance| *chance = rng.random_range(0.5..1.5));
    let total: f64 = starts.iter().sum();
    starts.iter_mut().for_each(|chance| *chance /= total);
    starts
}

/// What can follow an action: one to three of the given states, the unlikely ones now and then with a jackpot or a disaster.
fn follow(
    plan: &Plan,
    states: &[usize],
    ends: impl Fn(usize) -> bool,
    rng: &mut Rng,
) -> Vec<Outcome> {
    let count = if plan.chance { rng.random_range(1..=3usize) } else { 1 }.min(states.len());
    let mut targets = states.to_vec();
    targets.shuffle(rng);
    let weights: Vec<f64> = (0..count).map(|_| rng.random_range(0.2..1.0)).collect();
    let total: f64 = weights.iter().sum();
    let outcome = |(&next, weight): (&usize, f64)| {
        let probability = weight / total;
        let ends = ends(next);
        let mut reward: f64 = rng.sample(StandardNormal);
        if count > 1 && rng.random::<f64>() < 0.2 {
            reward += if rng.random() { 3.0 } else { -3.0 };
        }
        // At the end only: then it is worth more.
        let pays = plan.on_the_way || ends;
        let reward = if pays { reward * if plan.on_the_way { 1.0 } else { 2.0 } } else { 0.0 };
        Outcome { probability, next, reward, ends }
    };
    targets.iter().zip(weights).map(outcome).collect()
}

/// Three to five behaviours of several qualities.
fn behaviours(world: &FiniteWorld, rng: &mut Rng) -> Vec<(String, Policy)> {
    let best = world.as_seen(&world.optimum().1);
    // As good as it gets, if everything that chance decides went well.
    let lucky = world.as_seen(&lucky_values(world));
    let stubborn: Vec<f64> =
        (0..world.states * world.actions).map(|_| rng.sample::<f64, _>(StandardNormal)).collect();
    let stubborn = world.as_seen(&stubborn);
    let spread = deviation(&best, world.actions);
    let mut all: Vec<(String, Policy)> = vec![
        ("good".to_owned(), softmax(&best, world.actions, 0.1 * spread)),
        ("fair".to_owned(), softmax(&best, world.actions, 0.5 * spread)),
        ("poor".to_owned(), softmax(&best, world.actions, 2.0 * spread)),
        (
            "careless".to_owned(),
            careless(&softmax(&best, world.actions, 0.1 * spread), world.actions, 0.5),
        ),
        ("stubborn".to_owned(), softmax(&stubborn, world.actions, 0.2)),
        ("gambler".to_owned(), softmax(&lucky, world.actions, 0.1 * spread)),
    ];
    all.shuffle(rng);
    all.truncate(rng.random_range(3..=5));
    all
}

/// Values of actions to somebody who takes the best that may happen for what will.
fn lucky_values(world: &FiniteWorld) -> Vec<f64> {
    let mut values = vec![0.0; world.states];
    let mut action_values: Vec<f64> = Vec::new();
    for _ in 0..world.horizon {
        let worth = |outcome: &Outcome| {
            outcome.reward + if outcome.ends { 0.0 } else { values[outcome.next] }
        };
        let best = |outcomes: &Vec<Outcome>| outcomes.iter().map(worth).fold(f64::MIN, f64::max);
        action_values = world.outcomes.iter().map(best).collect();
        let of_states = action_values.chunks_exact(world.actions);
        values = of_states.map(|of| of.iter().copied().fold(f64::MIN, f64::max)).collect();
    }
    action_values
}

/// The mean over states of how much actions differ.
fn deviation(action_values: &[f64], actions: usize) -> f64 {
    let spread = |of: &[f64]| {
        let mean = of.iter().sum::<f64>() / actions as f64;
        (of.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / actions as f64).sqrt()
    };
    let states = action_values.len() / actions;
    let mean = action_values.chunks_exact(actions).map(spread).sum::<f64>() / states as f64;
    mean.max(1e-6)
}

/// Softmax of action values at a temperature.
pub(super) fn softmax(action_values: &[f64], actions: usize, temperature: f64) -> Policy {
    let of_state = |of: &[f64]| {
        let best = of.iter().copied().fold(f64::MIN, f64::max);
        let weights: Vec<f64> = of.iter().map(|v| ((v - best) / temperature).exp()).collect();
        let total: f64 = weights.iter().sum();
        weights.into_iter().map(move |weight| weight / total).collect::<Vec<f64>>()
    };
    action_values.chunks_exact(actions).flat_map(of_state).collect()
}

/// A share of the actions at random.
pub(super) fn careless(policy: &Policy, actions: usize, share: f64) -> Policy {
    policy.iter().map(|chance| (1.0 - share) * chance + share / actions as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_seed_has_a_world_that_makes_sense() {
        let mut kinds = BTreeSet::new();
        for (seed, family) in (0..300).flat_map(|seed| Family::ALL.map(|family| (seed, family))) {
            let world = random_world(family, seed);
            assert_eq!(world, random_world(family, seed));
            assert!(world.states <= 256);
            let is_one = |sum: f64| (sum - 1.0).abs() < 1e-9;
            assert!(is_one(world.starts.iter().sum()), "seed {seed}");
            for outcomes in &world.outcomes {
                assert!(is_one(outcomes.iter().map(|outcome| outcome.probability).sum()));
                assert!(outcomes.iter().all(|outcome| outcome.next < world.states));
            }
            for (name, policy) in &world.behaviours {
                assert!(policy.chunks(world.actions).all(|of| is_one(of.iter().sum())), "{name}");
            }
            let truth = world.truth();
            assert!((3..=5).contains(&truth.behaviours.len()));
            assert!(truth.best_behaviour <= truth.best_by_start + 1e-9, "seed {seed}: {truth:?}");
            assert!(truth.best_by_start <= truth.optimum + 1e-9, "seed {seed}: {truth:?}");
            assert!(truth.range() > 0.0, "seed {seed}");
            kinds.insert(world.kind.clone());
        }
        assert!(kinds.len() > 20, "{kinds:?}");
    }
}

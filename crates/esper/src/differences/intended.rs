//! What a policy would do at logged steps.

use esper_data::{Cells, Dataset, Seed, Space};
use rand::seq::SliceRandom;

use crate::condition::Target;
use crate::error::Error;
use crate::policy::Policy;
use crate::trajectories::StepRows;

/// What is intended at some steps of a data set.
pub(super) struct Intended {
    /// The steps, whole episodes of them.
    pub(super) rows: StepRows,
    /// Probabilities of all categories of every cell of an action, or its numbers: `[steps, width]`.
    pub(super) actions: Vec<f32>,
    /// Whether actions were drawn one by one, so that probabilities are 0 or 1.
    pub(super) drawn: bool,
}

/// The most steps that are looked at, and the most numbers.
const MOST_STEPS: usize = 20_000;
const MOST_NUMBERS: usize = 20_000_000;

impl Intended {
    /// What a policy would do, asked for what is chosen from the data alone.
    pub(super) fn of(policy: &Policy, data: &Dataset) -> Result<Self, Error> {
        let card = policy.card();
        let width = match data.metadata().action_space.categories() {
            cells if cells.iter().all(Option::is_some) => {
                cells.iter().flatten().map(|&n| n as usize).sum()
            }
            cells => cells.len(),
        };
        let episodes = some_episodes(data, MOST_STEPS.min(MOST_NUMBERS / width.max(1)));
        let rows = StepRows::of_episodes(data, &episodes);
        let target = card.offline_target();
        // What is told stays the same for a whole episode where it is a level, or nothing; what is chosen is a known level, so that
        // nothing is drawn.
        let told = match (&card.levels, target) {
            (Some(_), Some(target)) => Some(card.told(target, Seed::new(0)).number()),
            (None, None) => Some(0.0),
            _ => None,
        };
        let outputs = told.and_then(|told| policy.distributions(data, &episodes, told));
        let (actions, drawn) = match outputs {
            Some(outputs) => {
                let head = &card.interface.action;
                let mut actions = Vec::with_capacity(rows.steps.len() * width);
                let outputs = outputs.chunks_exact(head.outputs().max(1));
                outputs.for_each(|row| head.expected(row, &mut actions));
                (actions, false)
            }
            None => (drawn(policy, data, &episodes, target)?, true),
        };
        Ok(Intended { rows, actions, drawn })
    }
}

/// Episodes to look at: all of them, or some where they are many; at least one.
fn some_episodes(data: &Dataset, most: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..data.episodes()).collect();
    order.shuffle(&mut Seed::new(0).named("differences").rng());
    let mut steps = 0;
    order.retain(|&episode| {
        let within = steps == 0 || steps + data.length(episode) <= most;
        steps += if within { data.length(episode) } else { 0 };
        within
    });
    order
}

/// One action for every step, drawn by the policy's agent: all episodes side by side, each shown what was seen in it and told what
/// it paid.
fn drawn(
    policy: &Policy,
    data: &Dataset,
    episodes: &[usize],
    target: Option<Target>,
) -> Result<Vec<f32>, Error> {
    let metadata = data.metadata();
    let (seen, done) = (&metadata.observation_space, &metadata.action_space);
    let (width, cells) = (seen.cells(), done.cells());
    let mut agent = policy.agent();
    for (place, _) in episodes.iter().enumerate() {
        let seed = Seed::new(place as u64).named("differences");
        agent.begin(place, target.unwrap_or(Target::Return(0.0)), seed);
    }
    let longest = episodes.iter().map(|&episode| data.length(episode)).max().unwrap_or(0);
    let mut taken = vec![Cells::empty(done.cell_type()); episodes.len()];
    let mut drawn = Cells::empty(done.cell_type());
    let mut observations = Cells::empty(seen.cell_type());
    for time in 0..longest {
        let places: Vec<usize> =
            (0..episodes.len()).filter(|&place| data.length(episodes[place]) > time).collect();
        observations.clear();
        // Those whose episode is over are shown its end, and not asked.
        let shown = episodes.iter().map(|&episode| {
            let rows = data.episode_observations(episode);
            (rows.start + time).min(rows.end - 1)
        });
        data.scan_observations(shown, |cells, rows| {
            rows.iter()
                .for_each(|row| observations.extend_from(cells, row * width..(row + 1) * width));
        });
        drawn.clear();
        agent.act(observations.view(), &places, &mut drawn)?;
        for (at, &place) in places.iter().enumerate() {
            taken[place].extend_from(drawn.view(), at * cells..(at + 1) * cells);
            agent
                .reward(place, data.rewards()[data.episode_steps(episodes[place]).start + time])?;
        }
    }
    let mut actions = Vec::new();
    for of_episode in &taken {
        let of_episode = of_episode.view();
        if matches!(done, Space::Box { .. }) {
            actions.extend((0..of_episode.len()).map(|at| of_episode.number(at)));
            continue;
        }
        let limits = done.categories();
        for at in 0..of_episode.len() {
            let first = actions.len();
            actions.resize(first + limits[at % cells].unwrap_or(1) as usize, 0.0);
            actions[first + of_episode.category(at)] = 1.0;
        }
    }
    Ok(actions)
}

//! Batches of whole trajectories as tensors, and which of them are held out.

use burn::tensor::{Tensor, TensorData};
use esper_data::{Cells, CellsRef, Dataset, Fields, PackedBatch, Rng, Seed, Space, Window};
use esper_nn::{Device, RowsIn};
use rand::RngExt;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

use crate::actions::{ActionHead, Taken};
use crate::agent::check_places;
use crate::error::Error;
use crate::features::{Column, Encoding, Scale, encode};

/// How observations and actions of a data set enter networks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interface {
    /// Of observations.
    pub observation: Encoding,
    /// Of actions, which networks also put out.
    pub action: ActionHead,
    /// What cells are called and hold in the log that the data came from, where that is known.
    #[serde(default, skip_serializing_if = "Fields::is_empty")]
    pub fields: Fields,
}

impl Interface {
    /// Real numbers are scaled by what is in the data.
    pub fn of(data: &Dataset) -> Self {
        let metadata = data.metadata();
        let (seen, done) = (&metadata.observation_space, &metadata.action_space);
        let observation = Encoding::fit_parts(seen, data.observation_rows(), |rows, see| {
            data.with_observations(rows, see);
        });
        let action = Encoding::fit_parts(done, data.step_rows(), |rows, see| {
            data.with_actions(rows, see);
        });
        let fields = metadata.fields.clone();
        Interface { observation, action: ActionHead::new(action), fields }
    }

    /// Whether it makes sense; one that was read from a file may not.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.observation.check().map_err(|problem| format!("observations: {problem}"))?;
        let action = self.action.encoding();
        action.check().map_err(|problem| format!("actions: {problem}"))?;
        self.fields.check(self.observation.space(), action.space())?;
        match action.space() {
            space @ Space::Tuple { .. } => {
                Err(format!("actions: {space} is none that can be acted in"))
            }
            space @ Space::Box { .. } if action.scaling().is_empty() => {
                Err(format!("actions: no scales for {space}"))
            }
            _ => Ok(()),
        }
    }

    /// Whether the observations of some places are values of their space, and actions can be appended.
    pub fn check_places(
        &self,
        observations: CellsRef<'_>,
        places: &[usize],
        actions: &Cells,
    ) -> Result<(), Error> {
        let (seen, done) = (self.observation.space(), self.action.encoding().space());
        check_places(seen, done, observations, places, actions)
    }

    /// The number of features of an observation and an action together.
    pub fn width(&self) -> usize {
        self.observation.width() + self.action.encoding().width()
    }

    /// The observations that steps act on.
    pub fn states(&self, data: &Dataset, observation_rows: &[usize], device: &Device) -> RowsIn {
        let encoding = &self.observation;
        data.with_observations(observation_rows, |cells, rows| {
            encode(&[Column { encoding, cells, rows }], device)
        })
    }

    /// The actions taken, as an input.
    pub fn actions(&self, data: &Dataset, step_rows: &[usize], device: &Device) -> RowsIn {
        let encoding = self.action.encoding();
        data.with_actions(step_rows, |cells, rows| {
            encode(&[Column { encoding, cells, rows }], device)
        })
    }

    /// Observations with the actions taken.
    pub fn states_and_actions(&self, data: &Dataset, rows: &StepRows, device: &Device) -> RowsIn {
        data.with_actions(&rows.steps, |actions, steps| {
            self.states_with(data, &rows.observations, (actions, steps), device)
        })
    }

    /// What came before steps: the observation, the action, whether there was any, and the reward, scaled.
    pub(crate) fn past(
        &self,
        data: &Dataset,
        rows: &StepRows,
        rewards: Scale,
        device: &Device,
    ) -> RowsIn {
        // Where nothing did, anything will do, if it is always the same.
        let (any_step, any_observation) =
            (data.episode_steps(0).start, data.episode_observations(0).start);
        let before = |all: &[usize], any: usize| -> Vec<usize> {
            let each = all.iter().zip(&rows.times);
            each.map(|(&row, &time)| if time > 0 { row - 1 } else { any }).collect()
        };
        let before = StepRows {
            steps: before(&rows.steps, any_step),
            observations: before(&rows.observations, any_observation),
            times: Vec::new(),
        };
        let mut numbers = Vec::with_capacity(2 * rows.times.len());
        for (&step, &time) in before.steps.iter().zip(&rows.times) {
            let was = if time > 0 { 1.0 } else { 0.0 };
            numbers.extend([was, was * rewards.apply(f64::from(data.rewards()[step]))]);
        }
        let numbers = TensorData::new(numbers, [rows.times.len(), 2]);
        let numbers = Tensor::from_data(numbers, device);
        self.states_and_actions(data, &before, device).with(numbers)
    }

    /// The number of features of what came before.
    pub(crate) fn past_width(&self) -> usize {
        self.width() + 2
    }

    /// Observations with any actions.
    pub(crate) fn states_with(
        &self,
        data: &Dataset,
        observation_rows: &[usize],
        (actions, steps): (CellsRef<'_>, &[usize]),
        device: &Device,
    ) -> RowsIn {
        let done = Column { encoding: self.action.encoding(), cells: actions, rows: steps };
        data.with_observations(observation_rows, |cells, rows| {
            encode(&[Column { encoding: &self.observation, cells, rows }, done], device)
        })
    }

    /// The actions taken, as a loss wants them.
    pub fn taken(&self, data: &Dataset, step_rows: &[usize], device: &Device) -> Taken {
        data.with_actions(step_rows, |cells, rows| self.action.taken(cells, rows, device))
    }
}

/// Steps of a data set: their rows among the actions, and among the observations.
#[derive(Clone, Debug, Default)]
pub struct StepRows {
    /// Rows of actions and rewards.
    pub steps: Vec<usize>,
    /// Rows of the observations acted on.
    pub observations: Vec<usize>,
    /// Steps since the start of the episode.
    pub times: Vec<u32>,
}

impl StepRows {
    /// All steps of some episodes, one episode after the other.
    pub fn of_episodes(data: &Dataset, episodes: &[usize]) -> Self {
        let whole = |&episode: &usize| Window::whole(data, episode);
        Self::of_windows(data, episodes.iter().map(whole))
    }

    /// The steps of some parts of episodes, one after the other.
    pub(crate) fn of_windows(data: &Dataset, windows: impl Iterator<Item = Window>) -> Self {
        let mut rows = StepRows::default();
        for window in windows {
            let Window { episode, start, length } = window;
            let step = data.episode_steps(episode).start + start;
            let observation = data.episode_observations(episode).start + start;
            rows.steps.extend(step..step + length);
            rows.observations.extend(observation..observation + length);
            rows.times.extend(start as u32..window.end() as u32);
        }
        rows
    }

    /// Some of them.
    pub(crate) fn only(&self, some: &[usize]) -> Self {
        StepRows {
            steps: some.iter().map(|&at| self.steps[at]).collect(),
            observations: some.iter().map(|&at| self.observations[at]).collect(),
            times: some.iter().map(|&at| self.times[at]).collect(),
        }
    }
}

/// All steps of some episodes, one episode after the other, without a list of them.
#[derive(Clone, Debug)]
pub(crate) struct AllSteps<'a> {
    data: &'a Dataset,
    episodes: Vec<usize>,
    /// Steps of every episode and of those before it.
    ends: Vec<usize>,
}

impl<'a> AllSteps<'a> {
    pub(crate) fn of(data: &'a Dataset, episodes: &[usize]) -> Self {
        let mut ends = Vec::with_capacity(episodes.len());
        let mut end = 0;
        for &episode in episodes {
            end += data.length(episode);
            ends.push(end);
        }
        AllSteps { data, episodes: episodes.to_vec(), ends }
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// All of them as rows of actions and rewards.
    pub(crate) fn rows(&self) -> impl Iterator<Item = usize> + Clone {
        self.episodes.iter().flat_map(|&episode| self.data.episode_steps(episode))
    }

    /// Episode and time of one.
    pub(crate) fn place(&self, at: usize) -> (usize, usize) {
        let index = self.ends.partition_point(|&end| end <= at);
        let episode = self.episodes[index];
        (episode, at - (self.ends[index] - self.data.length(episode)))
    }

    /// Some of them.
    pub(crate) fn only(&self, some: &[usize]) -> StepRows {
        let windows = some.iter().map(|&at| {
            let (episode, start) = self.place(at);
            Window { episode, start, length: 1 }
        });
        StepRows::of_windows(self.data, windows)
    }

    /// Draws some of them, with replacement.
    pub(crate) fn draw(&self, count: usize, rng: &mut Rng) -> StepRows {
        let drawn: Vec<usize> = (0..count).map(|_| rng.random_range(0..self.len())).collect();
        self.only(&drawn)
    }
}

/// Time as an input of networks: steps since the start of an episode, as a share of those of the longest one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Clock {
    longest: f32,
}

/// The share of episodes that have to be cut for time to matter.
const CUT_SHARE: f64 = 0.01;

impl Clock {
    /// Whether it makes sense; one that was read from a file may not.
    pub(crate) fn is_sound(self) -> bool {
        self.longest.is_finite() && self.longest >= 1.0
    }

    /// The clock of a data set.
    pub(crate) fn of(data: &Dataset) -> Self {
        Clock { longest: data.longest().max(1) as f32 }
    }

    /// Whether time matters in a data set: episodes are cut while the world would have gone on, so that what is left to be
    /// received from a state depends on when it is reached.
    pub(crate) fn matters(data: &Dataset) -> bool {
        let cut = |episode: &usize| data.end(*episode).truncated && !data.end(*episode).terminated;
        let cuts = (0..data.episodes()).filter(cut).count();
        cuts as f64 > CUT_SHARE * data.episodes() as f64
    }

    /// The steps that count as one.
    pub(crate) fn longest(self) -> f32 {
        self.longest
    }

    /// The column of some times: `[rows, 1]`.
    pub(crate) fn column(self, times: &[u32], device: &Device) -> Tensor<2> {
        let shares: Vec<f32> = times.iter().map(|&time| time as f32 / self.longest).collect();
        Tensor::from_data(TensorData::new(shares, [times.len(), 1]), device)
    }
}

/// Whole trajectories, or windows of them, packed by time, longest first.
pub(crate) struct Trajectories {
    pub(crate) packed: PackedBatch,
    pub(crate) states: RowsIn,
    pub(crate) states_and_actions: RowsIn,
    pub(crate) taken: Taken,
    /// The observations that follow: `[rows, features]`.
    pub(crate) following: Tensor<2>,
}

impl Trajectories {
    pub(crate) fn new(
        data: &Dataset,
        interface: &Interface,
        windows: &[Window],
        device: &Device,
    ) -> Self {
        let mut packed = PackedBatch::new();
        packed.fill_windows(data, windows);
        let rows = StepRows {
            steps: packed.step_rows().to_vec(),
            observations: packed.observation_rows().to_vec(),
            times: Vec::new(),
        };
        let next: Vec<usize> = rows.observations.iter().map(|row| row + 1).collect();
        let following = data.with_observations(&next, |cells, rows| {
            interface.observation.dense(cells, rows, device)
        });
        Trajectories {
            states: interface.states(data, &rows.observations, device),
            states_and_actions: interface.states_and_actions(data, &rows, device),
            taken: interface.taken(data, &rows.steps, device),
            following,
            packed,
        }
    }

    pub(crate) fn offsets(&self) -> &[usize] {
        self.packed.offsets()
    }

    /// For every row the row of a step drawn uniformly from 0..=t of the same trajectory; of a window, from those in it.
    pub(crate) fn past(&self, rng: &mut Rng) -> Vec<u32> {
        let offsets = self.offsets();
        let mut rows = Vec::with_capacity(self.packed.rows());
        for (time, &size) in self.packed.batch_sizes().iter().enumerate() {
            rows.extend((0..size).map(|at| (offsets[rng.random_range(0..=time)] + at) as u32));
        }
        rows
    }

    /// For every row a step row drawn uniformly from 0..=t of the same trajectory, whether it is in the batch or not.
    pub(crate) fn past_steps(&self, rng: &mut Rng) -> Vec<usize> {
        let (windows, mut steps) = (self.packed.windows(), self.packed.step_rows().to_vec());
        let offsets = self.offsets().windows(2).enumerate();
        for (time, bounds) in offsets {
            for (step, window) in steps[bounds[0]..bounds[1]].iter_mut().zip(windows) {
                let time = window.start + time;
                *step = *step - time + rng.random_range(0..=time);
            }
        }
        steps
    }
}

/// Episodes that are learned from, and episodes that what was learned is held against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// To learn from.
    pub train: Vec<usize>,
    /// To test on.
    pub held_out: Vec<usize>,
}

/// The most episodes that are held out: more would not make the measures much sharper.
const MOST_HELD_OUT: usize = 5_000;

/// With fewer episodes than this there is nothing to hold out.
pub const FEWEST_EPISODES: usize = 20;

impl Split {
    /// Holds out a share of the episodes, at least two of them.
    pub fn new(data: &Dataset, share: f64, seed: Seed) -> Result<Self, Error> {
        let episodes = data.episodes();
        if episodes < FEWEST_EPISODES {
            return Err(Error::Unsuitable(format!(
                "the data has {episodes} episodes; at least {FEWEST_EPISODES} are needed to learn from some and test on others"
            )));
        }
        let held_out = ((episodes as f64 * share).round() as usize).clamp(2, MOST_HELD_OUT);
        let mut order: Vec<usize> = (0..episodes).collect();
        order.shuffle(&mut seed.rng());
        let train = order.split_off(held_out.min(episodes / 2));
        Ok(Split { train, held_out: order })
    }

    /// Draws episodes to learn from, with replacement.
    pub(crate) fn draw(&self, count: usize, rng: &mut Rng) -> Vec<usize> {
        (0..count).map(|_| self.train[rng.random_range(0..self.train.len())]).collect()
    }
}

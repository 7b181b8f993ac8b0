//! The Decision Transformer as something that acts: a window for every episode, and what was computed for its tokens.

use burn::tensor::{Tensor, TensorData};
use esper_data::{Cells, CellsRef, Seed};
use esper_nn::{Device, KeyValueCache, RowsIn, gather_rows};

use super::DecisionTransformer;
use crate::agent::{Agent, Choice, Episodes};
use crate::condition::Target;
use crate::error::Error;
use crate::features::{Column, encode};
use crate::policy::{LabelInput, PolicyCard, column, floats};
use crate::trajectories::Interface;

/// Acts as the policy says.
pub(super) struct TransformerAgent {
    pub(super) model: DecisionTransformer,
    pub(super) context: usize,
    pub(super) device: Device,
    pub(super) interface: Interface,
    pub(super) labels: LabelInput,
    pub(super) card: PolicyCard,
    pub(super) cache: KeyValueCache,
    pub(super) windows: Vec<Tokens>,
    pub(super) episodes: Episodes,
}

/// What an episode looks back on.
#[derive(Clone, Default)]
pub(super) struct Tokens {
    /// The time of the next step.
    time: usize,
    /// The steps of the window before it, each three tokens side by side.
    pub(super) steps: Vec<Vec<f32>>,
}

impl TransformerAgent {
    /// The parameters of the distributions over the next actions of some places.
    pub(super) fn outputs(&mut self, states: RowsIn, places: &[usize]) -> Result<Vec<f32>, Error> {
        let asked = self.episodes.targets(places)?;
        if let Some(&highest) = places.iter().max()
            && highest >= self.windows.len()
        {
            self.windows.resize_with(highest + 1, Tokens::default);
            self.cache.grow(highest + 1);
        }
        let TransformerAgent { model, labels, context, device, .. } = self;
        let asked = asked.into_iter().map(|target| labels.apply(target)).collect();
        let label = floats(model.label.forward(column(asked, device)));
        let state = floats(model.state.forward(states));
        let width = label.len() / places.len().max(1);
        // Places that extend their window by as many tokens go through the network together.
        let mut groups: Vec<Group> = Vec::new();
        for (at, &place) in places.iter().enumerate() {
            let window = &mut self.windows[place];
            let mut tokens = Vec::new();
            if window.steps.len() >= *context {
                // Full: start again with the newer half.
                window.steps.drain(..window.steps.len() - *context / 2);
                self.cache.clear(place);
            }
            let cached = self.cache.length(place);
            let first = window.time - window.steps.len();
            let mut times = Vec::new();
            for (step, three) in window.steps.iter().enumerate() {
                for (kind, token) in three.chunks_exact(width).enumerate() {
                    if 3 * step + kind >= cached {
                        tokens.extend_from_slice(token);
                        times.push((first + step) as u32);
                    }
                }
            }
            let range = at * width..(at + 1) * width;
            tokens.extend_from_slice(&label[range.clone()]);
            tokens.extend_from_slice(&state[range.clone()]);
            times.extend([window.time as u32; 2]);
            window.steps.push([&label[range.clone()], &state[range]].concat());
            let count = times.len();
            let known = groups.iter().position(|group| group.count == count);
            let group = known.unwrap_or_else(|| {
                groups.push(Group { count, ..Group::default() });
                groups.len() - 1
            });
            groups[group].tokens.extend(tokens);
            groups[group].times.extend(times);
            groups[group].members.push((at, place));
        }
        let actions = self.interface.action.outputs();
        let mut outputs = vec![0.0; places.len() * actions];
        for Group { count, tokens, times, members } in groups {
            let rows = times.len();
            let tokens = Tensor::from_data(TensorData::new(tokens, [rows, width]), &*device);
            let sequences: Vec<usize> = members.iter().map(|(_, place)| *place).collect();
            let extended = model.transformer.extend(tokens, &times, &sequences, &mut self.cache);
            let states: Vec<u32> =
                (1..=members.len()).map(|member| (member * count - 1) as u32).collect();
            let read = floats(model.head.forward(gather_rows(extended, &states)));
            for ((at, _), read) in members.into_iter().zip(read.chunks_exact(actions)) {
                outputs[at * actions..(at + 1) * actions].copy_from_slice(read);
            }
        }
        Ok(outputs)
    }

    /// What an episode looked back on is of no more use.
    fn forget(&mut self, place: usize) {
        // Places get their memory when they first act.
        if let Some(window) = self.windows.get_mut(place) {
            *window = Tokens::default();
            self.cache.clear(place);
        }
    }

    /// No actions were then taken in those places. What was computed for the states is computed without them next time.
    fn take_back(&mut self, places: &[usize]) {
        for &place in places {
            self.windows[place].steps.pop();
            self.cache.clear(place);
        }
    }

    /// The actions that were then taken in those places.
    pub(super) fn took(&mut self, actions: CellsRef<'_>, places: &[usize]) {
        let TransformerAgent { model, interface, .. } = self;
        let rows: Vec<usize> = (0..places.len()).collect();
        let taken = Column { encoding: interface.action.encoding(), cells: actions, rows: &rows };
        let tokens = floats(model.action.forward(encode(&[taken], &self.device)));
        let width = tokens.len() / places.len().max(1);
        for (&place, token) in places.iter().zip(tokens.chunks_exact(width)) {
            let window = &mut self.windows[place];
            window.steps.last_mut().expect("an action follows a state").extend_from_slice(token);
            window.time += 1;
        }
    }
}

/// Places that extend their window by as many tokens.
#[derive(Default)]
struct Group {
    count: usize,
    tokens: Vec<f32>,
    times: Vec<u32>,
    /// Which of the places asked for, and the place.
    members: Vec<(usize, usize)>,
}

impl TransformerAgent {
    fn choose(
        &mut self,
        observations: CellsRef<'_>,
        places: &[usize],
        choice: Choice,
        actions: &mut Cells,
        probabilities: Option<&mut Vec<f32>>,
    ) -> Result<(), Error> {
        self.interface.check_places(observations, places, actions)?;
        if places.is_empty() {
            return Ok(());
        }
        let encoding = &self.interface.observation;
        let seen = Column { encoding, cells: observations, rows: places };
        let states = encode(&[seen], &self.device);
        let outputs = self.outputs(states, places)?;
        let before = actions.len();
        let head = &self.interface.action;
        let drawn = self.episodes.take(head, &outputs, places, choice, actions, probabilities);
        if let Err(error) = drawn {
            self.take_back(places);
            return Err(error);
        }
        let mut chosen = Cells::empty(actions.cell_type());
        chosen.extend_from(actions.view(), before..actions.len());
        self.took(chosen.view(), places);
        Ok(())
    }
}

impl Agent for TransformerAgent {
    fn begin(&mut self, place: usize, target: Target, seed: Seed) {
        self.episodes.begin(place, self.card.told(target, seed), seed);
        self.forget(place);
    }

    fn act(
        &mut self,
        observations: CellsRef<'_>,
        places: &[usize],
        actions: &mut Cells,
    ) -> Result<(), Error> {
        self.choose(observations, places, Choice::Drawn, actions, None)
    }

    fn decide(
        &mut self,
        observations: CellsRef<'_>,
        places: &[usize],
        choice: Choice,
        actions: &mut Cells,
        probabilities: &mut Vec<f32>,
    ) -> Result<(), Error> {
        self.choose(observations, places, choice, actions, Some(probabilities))
    }

    fn reward(&mut self, place: usize, reward: f32) -> Result<(), Error> {
        self.episodes.reward(place, reward)
    }

    fn end(&mut self, place: usize) {
        self.episodes.end(place);
        self.forget(place);
    }
}

//! What acts: many episodes at once, each with a target of its own.

use std::collections::HashMap;

use esper_data::{CellError, Cells, CellsRef, Rng, Seed, Space};

use crate::actions::ActionHead;
use crate::condition::{Target, Told};
use crate::error::Error;

/// An agent: acts in several episodes side by side, each in a place of its own.
///
/// Whoever runs the episodes says when one begins, asks for actions, tells the rewards, and says when it ends. What an
/// agent draws at random in an episode follows from the seed that the episode began with, not from the other episodes.
pub trait Agent: Send {
    /// An episode begins in a place; what was there before is over. Agents without targets ignore theirs. A target that is
    /// no number is an error when it comes to acting. What lies between known levels is drawn from the seed, so that averages are
    /// kept where every episode has a seed of its own.
    fn begin(&mut self, place: usize, target: Target, seed: Seed);

    /// Chooses an action for some places. `observations` are those of all places, `[places, cells]`; the actions of the
    /// chosen ones are appended in their order.
    ///
    /// An observation outside its space, a place without an episode or one that is named twice is an error; then no action is
    /// chosen, and nothing is remembered of the attempt. Real numbers of observations only have to be finite: bounds of a space are
    /// not enforced. Actions are within their limits ([`ActionHead::limits`]).
    fn act(
        &mut self,
        observations: CellsRef<'_>,
        places: &[usize],
        actions: &mut Cells,
    ) -> Result<(), Error>;

    /// As [`act`](Self::act), with a choice of how actions are taken, and with how likely all of them were: where an agent knows
    /// probabilities of categories they are appended, `[chosen places, outputs]`, as [`ActionHead::probabilities`] has them.
    /// Agents that know none append none, and choose as they always do.
    fn decide(
        &mut self,
        observations: CellsRef<'_>,
        places: &[usize],
        _choice: Choice,
        actions: &mut Cells,
        _probabilities: &mut Vec<f32>,
    ) -> Result<(), Error> {
        self.act(observations, places, actions)
    }

    /// What the last action in a place paid.
    fn reward(&mut self, place: usize, reward: f32) -> Result<(), Error>;

    /// The episode in a place is over; what was remembered of it is forgotten.
    fn end(&mut self, place: usize);
}

/// How actions are taken from a policy's distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// Drawn, as they were in the data.
    #[default]
    Drawn,
    /// Greedy: the most probable one; of real numbers the mean.
    Greedy,
}

/// Whether the observations of some places are values of their space, and actions can be appended.
pub fn check_places(
    observation: &Space,
    action: &Space,
    observations: CellsRef<'_>,
    places: &[usize],
    actions: &Cells,
) -> Result<(), Error> {
    let width = observation.cells();
    let refused = |words: String| Err(Error::Acting(words));
    if observations.cell_type() != observation.cell_type() {
        let found = observations.cell_type();
        return refused(format!(
            "observations are stored as {found:?}, which does not fit {observation}"
        ));
    }
    if actions.cell_type() != action.cell_type() {
        let found = actions.cell_type();
        return refused(format!("there is memory for {found:?}, which does not fit {action}"));
    }
    let rows = observations.len().checked_div(width).unwrap_or(0);
    let mut highest = None;
    for (at, &place) in places.iter().enumerate() {
        // In order, as they mostly come, none of them has to be looked for.
        if highest >= Some(place) && places[..at].contains(&place) {
            return refused(format!("place {place} is asked for twice"));
        }
        highest = highest.max(Some(place));
        if place >= rows {
            return refused(format!("there is no observation for place {place}"));
        }
        let row = observations.slice(place * width..(place + 1) * width);
        if let Err(CellError { cell, problem, .. }) = observation.check(row) {
            return refused(format!(
                "the observation in place {place} is outside {observation}: cell {cell}: {problem}"
            ));
        }
    }
    Ok(())
}

/// What is left to be reached in an episode: rewards that were received are taken off the target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Remaining {
    target: f64,
    discount: f64,
}

impl Remaining {
    /// A target, of which nothing was received yet.
    pub fn new(target: f64, discount: f64) -> Self {
        Remaining { target, discount }
    }

    /// What is left.
    pub fn target(self) -> f64 {
        self.target
    }

    /// `R_{t+1} = (R_t - r_t) / γ`, or the largest number there is: in a long episode what is left grows without limit.
    pub fn receive(&mut self, reward: f32) {
        let left = self.target - f64::from(reward);
        // Without a future there is nothing left to be reached.
        let next = if self.discount > 0.0 { left / self.discount } else { 0.0 };
        self.target = next.clamp(f64::MIN, f64::MAX);
    }
}

/// What agents remember of the episodes they are in, by place. Memory follows the episodes, whatever their places.
#[derive(Default)]
pub struct Episodes(HashMap<usize, Episode>);

/// What agents remember of an episode.
struct Episode {
    told: Told,
    rng: Rng,
    /// Actions that were drawn so far.
    time: u32,
}

impl Episodes {
    /// An episode begins in a place.
    pub fn begin(&mut self, place: usize, told: Told, seed: Seed) {
        self.0.insert(place, Episode { told, rng: seed.rng(), time: 0 });
    }

    /// The episode in a place is over.
    pub fn end(&mut self, place: usize) {
        self.0.remove(&place);
    }

    fn episode(&mut self, place: usize) -> Result<&mut Episode, Error> {
        self.0
            .get_mut(&place)
            .ok_or_else(|| Error::Acting(format!("no episode has begun in place {place}")))
    }

    /// Whether an episode is under way in each of some places.
    pub fn check(&mut self, places: &[usize]) -> Result<(), Error> {
        places.iter().try_for_each(|&place| self.episode(place).map(|_| ()))
    }

    /// Steps since the start of the episodes in some places.
    pub fn times(&mut self, places: &[usize]) -> Result<Vec<u32>, Error> {
        places.iter().map(|&place| Ok(self.episode(place)?.time)).collect()
    }

    /// What a policy is told in some places: what is left to be reached there, or a level.
    pub fn targets(&mut self, places: &[usize]) -> Result<Vec<f64>, Error> {
        let target = |&place: &usize| match self.episode(place)?.told.number() {
            target if target.is_finite() => Ok(target),
            target => Err(Error::Acting(format!("the target in place {place} is {target}"))),
        };
        places.iter().map(target).collect()
    }

    /// What the last action in a place paid.
    pub fn reward(&mut self, place: usize, reward: f32) -> Result<(), Error> {
        if !reward.is_finite() {
            return Err(Error::Acting(format!("the reward in place {place} is {reward}")));
        }
        self.episode(place)?.told.receive(reward);
        Ok(())
    }

    /// Draws the actions of some places, given the outputs of a network.
    pub fn draw(
        &mut self,
        head: &ActionHead,
        outputs: &[f32],
        places: &[usize],
        actions: &mut Cells,
    ) -> Result<(), Error> {
        self.take(head, outputs, places, Choice::Drawn, actions, None)
    }

    /// Takes the actions of some places, given the outputs of a network; appends how likely all of them were, if asked to.
    pub fn take(
        &mut self,
        head: &ActionHead,
        outputs: &[f32],
        places: &[usize],
        choice: Choice,
        actions: &mut Cells,
        probabilities: Option<&mut Vec<f32>>,
    ) -> Result<(), Error> {
        self.draw_with(outputs, places, |outputs, rng| match choice {
            Choice::Drawn => head.draw(outputs, rng, actions),
            Choice::Greedy => head.most_probable(outputs, actions),
        })?;
        if let Some(probabilities) = probabilities {
            head.probabilities(outputs, probabilities);
        }
        Ok(())
    }

    /// The same by a way of drawing of your own, which is given the outputs of every place in turn.
    pub fn draw_with(
        &mut self,
        outputs: &[f32],
        places: &[usize],
        mut draw: impl FnMut(&[f32], &mut Rng),
    ) -> Result<(), Error> {
        check_outputs(outputs)?;
        let width = outputs.len() / places.len().max(1);
        for (&place, outputs) in places.iter().zip(outputs.chunks_exact(width.max(1))) {
            let episode = self.episode(place)?;
            draw(outputs, &mut episode.rng);
            episode.time += 1;
        }
        Ok(())
    }
}

/// Whether a network put out numbers: observations that are finite may still be too large for it.
pub(crate) fn check_outputs(outputs: &[f32]) -> Result<(), Error> {
    match outputs.iter().all(|output| output.is_finite()) {
        true => Ok(()),
        false => Err(Error::Acting(
            "the network puts out what is no number; an observation is far outside of what it was trained on"
                .to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rewards_are_taken_off_the_target() {
        let mut remaining = Remaining::new(5.0, 1.0);
        remaining.receive(2.0);
        remaining.receive(-1.0);
        assert_eq!(remaining.target(), 4.0);
        // 1 + 0.5 · 4 = 3
        let mut discounted = Remaining::new(3.0, 0.5);
        discounted.receive(1.0);
        assert_eq!(discounted.target(), 4.0);
    }

    /// Nothing came in for 2,000 steps, and half of everything was forgotten in each: 2^2000 is no number any more.
    #[test]
    fn a_target_that_grows_without_limit_stays_a_number() {
        for (target, most) in [(1.0, f64::MAX), (-1.0, f64::MIN)] {
            let mut episodes = Episodes::default();
            episodes.begin(0, Told::Remaining(Remaining::new(target, 0.5)), Seed::new(0));
            (0..2_000).for_each(|_| episodes.reward(0, 0.0).unwrap());
            assert_eq!(episodes.targets(&[0]).unwrap(), [most]);
        }
    }

    #[test]
    fn places_may_be_any_numbers() {
        let mut episodes = Episodes::default();
        episodes.begin(usize::MAX, Told::Remaining(Remaining::new(1.0, 1.0)), Seed::new(0));
        assert_eq!(episodes.targets(&[usize::MAX]).unwrap(), [1.0]);
        let space = Space::Box { shape: vec![3], bounds: None };
        let (seen, actions) = (Cells::Float(vec![0.0; 6]), Cells::Float(Vec::new()));
        let check = |place: usize| check_places(&space, &space, seen.view(), &[place], &actions);
        check(1).unwrap();
        for place in [2, usize::MAX] {
            let words = check(place).unwrap_err().to_string();
            assert_eq!(words, format!("there is no observation for place {place}"));
        }
    }

    #[test]
    fn places_without_an_episode_are_errors() {
        let mut episodes = Episodes::default();
        episodes.begin(1, Told::Remaining(Remaining::new(0.0, 1.0)), Seed::new(0));
        assert!(episodes.reward(0, 1.0).is_err() && episodes.reward(7, 1.0).is_err());
        episodes.reward(1, 1.0).unwrap();
        episodes.end(1);
        episodes.end(99);
        let words = episodes.targets(&[1]).unwrap_err().to_string();
        assert_eq!(words, "no episode has begun in place 1");
    }
}

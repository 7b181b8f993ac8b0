//! What about a data set looks wrong before anything is learned from it, in plain sentences that end in what to do.

mod choices;

use std::collections::BTreeMap;

use crate::cells::CellsRef;
use crate::dataset::{Dataset, Metadata};
use crate::fields::{Field, FieldKind};
use crate::space::Space;

use self::choices::Choices;

/// The fewest episodes that are not remarked upon.
const FEW_EPISODES: usize = 100;

/// An episode is far longer than all others if it is so many times as long as the next.
const FAR_LONGER: usize = 5;

/// Shorter episodes are never far too long.
const LONG: usize = 50;

/// Few episodes pay anything if this share of them or less does.
const FEW_PAY: f64 = 0.01;

/// The most that a sentence lists.
const LISTED: usize = 5;

/// What a person would want to look at before training on this data, in plain sentences.
///
/// ```
/// use esper_data::{DatasetBuilder, End, suspicions};
///
/// let mut builder = DatasetBuilder::inferring();
/// for _ in 0..200 {
///     builder.push(&[0u8], &[1u8], 1.0)?;
///     builder.end(&[1u8], End { terminated: true, truncated: false })?;
/// }
/// let found = suspicions(&builder.build()?);
/// assert!(found[0].starts_with("every episode has the same return (1)"));
/// # Ok::<(), esper_data::DataError>(())
/// ```
pub fn suspicions(data: &Dataset) -> Vec<String> {
    let mut suspicions = Suspicions::default();
    suspicions.add(data);
    suspicions.found()
}

/// What looks suspicious, gathered data set by data set, so that a stream of them need not be kept.
#[derive(Clone, Debug, Default)]
pub struct Suspicions {
    episodes: usize,
    /// Episodes with any reward that is not zero.
    paying: usize,
    /// The lowest and the highest return.
    returns: Option<[f64; 2]>,
    /// The longest episode and the next.
    longest: [usize; 2],
    /// Episodes that end neither terminated nor truncated.
    open: usize,
    /// Episodes that were cut, by their length.
    cut: BTreeMap<usize, usize>,
    /// Which actions are taken, where there is one choice among some.
    taken: Vec<bool>,
    /// The first value of every observation cell that has had no other.
    constant: Vec<Option<f32>>,
    choices: Choices,
    observations: Outside,
    actions: Outside,
    metadata: Option<Metadata>,
}

/// Cells outside the bounds of their space.
#[derive(Clone, Debug, Default)]
struct Outside {
    space: Option<Space>,
    cells: usize,
}

impl Suspicions {
    /// Adds a data set with the same spaces as those before it.
    pub fn add(&mut self, data: &Dataset) {
        let metadata = data.metadata();
        if self.metadata.is_none() {
            self.choices = Choices::of(metadata);
            self.metadata = Some(metadata.clone());
        }
        self.episodes += data.episodes();
        for episode in 0..data.episodes() {
            let (sum, end) = (data.episode_return(episode), data.end(episode));
            let [low, high] = self.returns.unwrap_or([sum; 2]);
            self.returns = Some([low.min(sum), high.max(sum)]);
            self.open += usize::from(!end.terminated && !end.truncated);
            let rewards = &data.rewards()[data.episode_steps(episode)];
            self.paying += usize::from(rewards.iter().any(|&reward| reward != 0.0));
            self.add_length(data.length(episode), end.truncated && !end.terminated);
        }
        if let Space::Discrete { n } = metadata.action_space {
            self.taken.resize(n as usize, false);
            data.scan_actions(data.step_rows(), |cells, rows| {
                rows.iter().for_each(|&row| self.taken[cells.category(row)] = true);
            });
        }
        self.choices.add(data);
        self.add_constant(data);
        if let Some(seen) = self.observations.begin(&metadata.observation_space) {
            data.scan_observations(data.observation_rows(), |cells, rows| seen.add(cells, rows));
        }
        if let Some(done) = self.actions.begin(&metadata.action_space) {
            data.scan_actions(data.step_rows(), |cells, rows| done.add(cells, rows));
        }
    }

    fn add_length(&mut self, length: usize, cut: bool) {
        let [first, second] = &mut self.longest;
        match length {
            length if length >= *first => (*first, *second) = (length, *first),
            length => *second = (*second).max(length),
        }
        if cut {
            *self.cut.entry(length).or_default() += 1;
        }
    }

    fn add_constant(&mut self, data: &Dataset) {
        let width = data.metadata().observation_space.cells();
        data.scan_observations(data.observation_rows(), |cells, rows| {
            if self.constant.is_empty() {
                let first = rows[0] * width;
                self.constant = (first..first + width).map(|at| Some(cells.number(at))).collect();
            }
            for (cell, constant) in self.constant.iter_mut().enumerate() {
                let Some(first) = *constant else { continue };
                let is_same = |row: &usize| cells.number(row * width + cell) == first;
                if !rows.iter().all(is_same) {
                    *constant = None;
                }
            }
        });
    }

    /// What was found, in plain sentences.
    pub fn found(&self) -> Vec<String> {
        let mut found = Vec::new();
        let (episodes, open) = (self.episodes, self.open);
        if episodes < FEW_EPISODES {
            found.push(format!(
                "only {episodes} episodes: averages over clusters of them will be rough; collect more before you act on what \
                 is promised"
            ));
        }
        match self.returns {
            Some([same, highest]) if episodes > 1 && same == highest => found.push(format!(
                "every episode has the same return ({same}): there is nothing to tell good from bad; check that the rewards \
                 are those that count"
            )),
            _ => found.extend(self.few_pay()),
        }
        let [longest, next] = self.longest;
        if episodes > 1 && longest >= LONG && longest >= FAR_LONGER * next.max(1) {
            found.push(format!(
                "one episode has {longest} steps, and no other more than {next}: check that it is one episode and not several \
                 under one name, and leave it out if it is not like the others"
            ));
        }
        if open > 0 {
            found.push(format!(
                "{open} of {episodes} episodes end neither terminated nor truncated: their returns may be incomplete; leave \
                 out what was still under way, or say how episodes ended"
            ));
        }
        let early: usize = self.cut.range(..longest).map(|(_, episodes)| episodes).sum();
        if early > 0 {
            found.push(format!(
                "{early} of {episodes} episodes were cut before the longest ones were over: what would have come after counts \
                 as nothing; leave them out if they would have paid more"
            ));
        }
        found.extend(self.unused_actions());
        found.extend(self.metadata.as_ref().and_then(|metadata| self.choices.found(metadata)));
        found.extend(self.constant_cells());
        found.extend(self.observations.found("observation"));
        found.extend(self.actions.found("action"));
        found
    }

    fn few_pay(&self) -> Option<String> {
        let Suspicions { paying, episodes, .. } = *self;
        let few = paying > 0 && paying as f64 <= FEW_PAY * episodes as f64;
        few.then(|| {
            format!(
                "only {paying} of {episodes} episodes have any reward: averages of something so rare need many more of them; \
                 check that no rewards are missing"
            )
        })
    }

    fn constant_cells(&self) -> Option<String> {
        let constant: Vec<usize> =
            (0..self.constant.len()).filter(|&cell| self.constant[cell].is_some()).collect();
        let name = |&cell: &usize| match &self.metadata {
            Some(metadata) => cell_name(&metadata.fields.observation, cell),
            None => format!("cell {cell}"),
        };
        (!constant.is_empty()).then(|| {
            format!(
                "{} of {} observation cells never change ({}): they tell nothing, and can be left out",
                constant.len(),
                self.constant.len(),
                listed(constant.iter().map(name), ", ")
            )
        })
    }

    /// What to say of actions, given which are taken.
    fn unused_actions(&self) -> Option<String> {
        let fields = self.metadata.as_ref().map_or(&[][..], |metadata| &metadata.fields.action);
        let unused: Vec<usize> =
            (0..self.taken.len()).filter(|&action| !self.taken[action]).collect();
        match unused.len() {
            0 => None,
            count if count + 1 == self.taken.len() => Some(
                "only one action is ever taken: there is no choice to learn; data in which something else was tried is needed"
                    .to_owned(),
            ),
            1..=10 => {
                let names: Vec<String> =
                    unused.iter().map(|&action| value_name(fields, 0, action)).collect();
                Some(format!(
                    "never taken: action {}; nothing can be learned about it, and no policy will take it",
                    names.join(", ")
                ))
            }
            count => Some(format!(
                "{count} of {} actions are never taken: nothing can be learned about them, and no policy will take them",
                self.taken.len()
            )),
        }
    }
}

/// What a category is called, by its field where there is one.
fn value_name(fields: &[Field], cell: usize, value: usize) -> String {
    let word = match fields.get(cell).map(|field| &field.kind) {
        Some(FieldKind::Category { values }) => values.get(value).map(ToString::to_string),
        Some(FieldKind::Boolean { .. }) => Some((value == 1).to_string()),
        _ => None,
    };
    word.unwrap_or_else(|| value.to_string())
}

/// What a cell is called.
fn cell_name(fields: &[Field], cell: usize) -> String {
    match fields.get(cell) {
        Some(Field { name, kind: FieldKind::Missing }) => format!("whether {name} is missing"),
        Some(Field { name, .. }) => name.clone(),
        None => format!("cell {cell}"),
    }
}

/// The first of some words, and how many more there are.
fn listed(words: impl ExactSizeIterator<Item = String>, between: &str) -> String {
    let more = words.len().saturating_sub(LISTED);
    let mut shown: Vec<String> = words.take(LISTED).collect();
    if more > 0 {
        shown.push(format!("{more} more"));
    }
    shown.join(between)
}

impl Outside {
    /// Remembers the space; `None` where nothing can be outside of it.
    fn begin(&mut self, space: &Space) -> Option<&mut Self> {
        matches!(space, Space::Box { bounds: Some(_), .. }).then(|| {
            self.space = Some(space.clone());
            self
        })
    }

    fn add(&mut self, cells: CellsRef<'_>, rows: &[usize]) {
        let Some(Space::Box { bounds: Some(bounds), .. }) = &self.space else { return };
        let width = bounds.len();
        let outside_in = |row: &usize| {
            let is_outside = |&(cell, &[low, high]): &(usize, &[f32; 2])| {
                !(low..=high).contains(&cells.number(row * width + cell))
            };
            bounds.iter().enumerate().filter(is_outside).count()
        };
        self.cells += rows.iter().map(outside_in).sum::<usize>();
    }

    fn found(&self, name: &str) -> Option<String> {
        let Outside { space: Some(space), cells: 1.. } = self else { return None };
        Some(format!(
            "{} {name} cells are outside the bounds of {space}: check units, or the space that is said",
            self.cells
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::tests::{TERMINATED, small_metadata};
    use crate::{DatasetBuilder, End, Fields, Word};

    #[test]
    fn what_looks_wrong_is_said() {
        let mut builder = DatasetBuilder::new(small_metadata());
        builder.push_steps(&[2u8; 2], &[1u8; 2], &[1.0, 1.0]).unwrap();
        builder.end(&[2u8], TERMINATED).unwrap();
        builder.push(&[2u8], &[1u8], 2.0).unwrap();
        builder.end(&[2u8], End::default()).unwrap();
        let found = suspicions(&builder.build().unwrap());
        let expected = [
            "only 2 episodes",
            "same return (2)",
            "1 of 2 episodes end neither",
            "only one action",
            "1 of 1 observation cells never change",
        ];
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.contains(expected), "{expected}: {found}");
        }
        assert_eq!(found.len(), expected.len(), "{found:?}");
    }

    /// Part by part the same is found as in the whole.
    #[test]
    fn suspicions_add_up() {
        let part = |seen: u8, action: u8, paid: f32| {
            let mut builder = DatasetBuilder::new(small_metadata());
            builder.push(&[seen], &[action], paid).unwrap();
            builder.end(&[seen], TERMINATED).unwrap();
            builder.build().unwrap()
        };
        let found = |parts: &[Dataset]| {
            let mut suspicions = Suspicions::default();
            let mut whole = DatasetBuilder::new(small_metadata());
            for part in parts {
                suspicions.add(part);
                whole.extend(part).unwrap();
            }
            let found = suspicions.found();
            assert_eq!(found, super::suspicions(&whole.build().unwrap()));
            found.join("; ")
        };
        let same = found(&[part(1, 0, 2.0), part(1, 0, 2.0)]);
        assert!(
            ["same return (2)", "only one action", "never change"].iter().all(|w| same.contains(w))
        );
        // Each part is constant, and all of them together are not.
        let different = found(&[part(1, 0, 2.0), part(2, 1, 3.0)]);
        assert!(
            ["return", "only one", "change"].iter().all(|w| !different.contains(w)),
            "{different}"
        );
    }

    #[test]
    fn values_outside_bounds_are_mentioned() {
        let action_space = Space::Box { shape: vec![1], bounds: Some(vec![[-1.0, 1.0]]) };
        let metadata = Metadata { action_space, ..small_metadata() };
        let mut builder = DatasetBuilder::new(metadata);
        builder.push_steps(&[0u8, 1, 2], &[0.5f32, 1.5, -1.0], &[0.0; 3]).unwrap();
        builder.end(&[0u8], TERMINATED).unwrap();
        let found = suspicions(&builder.build().unwrap());
        assert!(found.iter().any(|s| s.contains("1 action cells are outside")), "{found:?}");
    }

    /// A ward and a number, a dose: what a user's log may look like.
    fn ward() -> Metadata {
        let text = |text: &str| Word::Text(text.to_owned());
        let real = Space::Box { shape: vec![1], bounds: None };
        let observation_space = Space::Tuple { spaces: vec![Space::Discrete { n: 2 }, real] };
        let category = |values: Vec<Word>| FieldKind::Category { values };
        let fields = Fields {
            observation: vec![
                Field::new("ward", category(vec![text("A"), text("B")])),
                Field::new("age", FieldKind::Number { fill: None }),
            ],
            action: vec![Field::new("dose", category(vec![Word::Whole(0), Word::Whole(10)]))],
        };
        Metadata { fields, ..Metadata::new(observation_space, Space::Discrete { n: 2 }) }
    }

    /// An episode of these steps: ward, age, dose, reward.
    type Episode = (Vec<(f32, f32, u8, f32)>, End);

    fn found(episodes: &[Episode]) -> Vec<String> {
        let mut builder = DatasetBuilder::new(ward());
        for (steps, end) in episodes {
            for &(ward, age, dose, reward) in steps {
                builder.push(&[ward, age], &[dose], reward).unwrap();
            }
            builder.end(&[steps[0].0, steps[0].1], *end).unwrap();
        }
        suspicions(&builder.build().unwrap())
    }

    /// Two hundred episodes with nothing wrong: every ward, age and dose.
    fn sound() -> Vec<Episode> {
        let step = |at: usize| ((at % 2) as f32, at as f32, (at / 2 % 2) as u8, (at % 5) as f32);
        (0..200).map(|at| (vec![step(at), step(at + 1)], TERMINATED)).collect()
    }

    #[test]
    fn every_warning_names_what_and_says_what_to_do() {
        assert_eq!(found(&sound()), Vec::<String>::new());
        type Change = fn(&mut Vec<Episode>);
        let table: [(&str, Change, &str); 9] = [
            ("few", |all| all.truncate(99), "only 99 episodes: averages"),
            (
                "equal",
                |all| all.iter_mut().flat_map(|e| &mut e.0).for_each(|s| s.3 = 1.5),
                "every episode has the same return (3)",
            ),
            (
                "rare",
                |all| {
                    all.iter_mut().flat_map(|e| &mut e.0).for_each(|s| s.3 = 0.0);
                    all[7].0[0].3 = 1.0;
                },
                "only 1 of 200 episodes have any reward",
            ),
            (
                "long",
                |all| all[3].0 = all[3].0.repeat(30),
                "one episode has 60 steps, and no other more than 2: check that it is one",
            ),
            (
                "one action",
                |all| all.iter_mut().flat_map(|e| &mut e.0).for_each(|s| s.2 = 1),
                "only one action is ever taken: there is no choice to learn; data in which",
            ),
            (
                "never there",
                |all| {
                    let steps = all.iter_mut().flat_map(|e| &mut e.0);
                    steps.filter(|s| s.0 == 1.0).for_each(|s| s.2 = 0);
                },
                "never taken in some states: action 10 where ward is B (200 steps); nothing is known",
            ),
            (
                "constant",
                |all| all.iter_mut().flat_map(|e| &mut e.0).for_each(|s| s.1 = 40.0),
                "1 of 2 observation cells never change (age): they tell nothing, and can be left out",
            ),
            (
                "cut",
                |all| {
                    all[5].0.truncate(1);
                    all[5].1 = End { terminated: false, truncated: true };
                },
                "1 of 200 episodes were cut before the longest ones were over",
            ),
            (
                "open",
                |all| all[5].1 = End::default(),
                "1 of 200 episodes end neither terminated nor truncated",
            ),
        ];
        for (name, change, words) in table {
            let mut episodes = sound();
            change(&mut episodes);
            let found = found(&episodes);
            assert_eq!(found.len(), 1, "{name}: {found:?}");
            assert!(found[0].starts_with(words), "{name}: {}", found[0]);
        }
    }

    /// A time limit that all who reach it are cut at is nothing to wonder about.
    #[test]
    fn a_time_limit_is_no_suspicion() {
        let mut episodes = sound();
        episodes[5].1 = End { terminated: false, truncated: true };
        assert_eq!(found(&episodes), Vec::<String>::new());
    }

    /// Without names states go by their numbers; what is seldom anyway is not missed.
    #[test]
    fn states_without_names_go_by_their_numbers() {
        let mut builder =
            DatasetBuilder::new(Metadata::new(Space::Discrete { n: 3 }, Space::Discrete { n: 2 }));
        for at in 0..300u16 {
            let state = if at < 8 { 2 } else { (at % 2) as u8 };
            let action = if state == 1 { 0 } else { (at / 2 % 2) as u8 * u8::from(state == 0) };
            builder.push(&[state], &[action], f32::from(at)).unwrap();
            builder.end(&[state], TERMINATED).unwrap();
        }
        let found = suspicions(&builder.build().unwrap());
        let expected = "never taken in some states: action 1 where the state is 1 (146 steps);";
        assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?}");
    }
}

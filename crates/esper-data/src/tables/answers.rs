//! Whether what a row says its action led to is what the next row has.

use super::value::Value;

/// Rows of a chunk that are compared at most: enough to tell, and no time.
const COMPARED: u64 = 1_000;

/// Fewer than this say nothing.
const FEW: u64 = 10;

/// How often it was looked at, and how often it was something else.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Answers {
    pub(super) compared: u64,
    pub(super) other: u64,
}

impl Answers {
    pub(super) fn join(&mut self, more: Answers) {
        self.compared += more.compared;
        self.other += more.other;
    }

    /// Whether most are something else.
    pub(super) fn contradict(self) -> bool {
        self.compared >= FEW && 2 * self.other > self.compared
    }
}

/// Goes through rows that follow each other.
#[derive(Default)]
pub(super) struct Comparison<'a> {
    pub(super) answers: Answers,
    episode: String,
    time: f64,
    /// What the row before said, if it did.
    said: Option<Vec<Value<'a>>>,
}

impl<'a> Comparison<'a> {
    /// Compares a row with the one before, if that is of the same episode and not later.
    pub(super) fn add(
        &mut self,
        episode: &str,
        time: f64,
        values: &[Value<'a>],
        observation: &[usize],
        finals: &[usize],
    ) {
        if finals.is_empty() || self.answers.compared >= COMPARED {
            return;
        }
        if let Some(said) = &self.said
            && self.episode == episode
            && self.time <= time
        {
            let is_same =
                observation.iter().zip(said).all(|(&slot, said)| same(&values[slot], said));
            self.answers.join(Answers { compared: 1, other: u64::from(!is_same) });
        }
        let is_said = finals.iter().any(|&slot| values[slot] != Value::Missing);
        self.said = is_said.then(|| finals.iter().map(|&slot| values[slot].clone()).collect());
        self.time = time;
        self.episode.clear();
        self.episode.push_str(episode);
    }
}

/// Whether two values are the same but for how they are written or rounded.
fn same(one: &Value<'_>, other: &Value<'_>) -> bool {
    one == other
        || match (one.number(), other.number()) {
            (Some(one), Some(other)) => (one - other).abs() <= 1e-3 * one.abs().max(1.0),
            _ => false,
        }
}

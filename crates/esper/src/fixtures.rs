//! Small data sets for tests.

use esper_data::{Cells, Columns, Dataset, End, Metadata, Provenance, Space};

/// Episodes of these lengths, over so many states and actions; every one ends on its own.
pub(crate) fn discrete(
    [states, actions]: [u32; 2],
    lengths: Vec<usize>,
    seen: Vec<u8>,
    taken: Vec<u8>,
    rewards: Vec<f32>,
    provenance: Provenance,
) -> Dataset {
    let metadata = Metadata {
        task: None,
        seed: None,
        observation_space: Space::Discrete { n: states },
        action_space: Space::Discrete { n: actions },
    };
    let columns = Columns {
        ends: vec![End { terminated: true, truncated: false }; lengths.len()],
        observations: Cells::Byte(seen),
        actions: Cells::Byte(taken),
        rewards,
        provenance,
        lengths,
    };
    Dataset::new(metadata, columns).expect("the fixture is valid")
}

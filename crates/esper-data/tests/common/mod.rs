//! What several tests need.
#![allow(dead_code, reason = "not every test needs everything")]

use std::fs::File;
use std::path::{Path, PathBuf};

use arrow_array::{ArrayRef, RecordBatch};
use esper_data::{CellType, Cells, Dataset, DatasetBuilder, End, Metadata, Rng, Seed, Space};
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::KeyValue;
use rand::RngExt;
use tempfile::TempDir;

/// Episodes of random lengths with random values of the given spaces.
pub(crate) fn random(
    observation_space: Space,
    action_space: Space,
    episodes: usize,
    seed: u64,
) -> Dataset {
    let mut rng = Seed::new(seed).rng();
    let spaces = Metadata::new(observation_space, action_space);
    let metadata = Metadata { seed: Some(seed), ..spaces.clone() };
    let mut builder = DatasetBuilder::new(metadata).with_behaviours(["one", "two"]);
    for episode in 0..episodes {
        builder.made_by(["one", "two"][episode % 2]);
        let length = rng.random_range(1..9);
        let observations = random_cells(&spaces.observation_space, length, &mut rng);
        let actions = random_cells(&spaces.action_space, length, &mut rng);
        let rewards: Vec<f32> = (0..length).map(|_| rng.random_range(-9..9) as f32 / 4.0).collect();
        builder.push_steps(&observations, &actions, &rewards).unwrap();
        let end = End { terminated: episode % 3 > 0, truncated: episode % 3 == 0 };
        let last = random_cells(&spaces.observation_space, 1, &mut rng);
        builder.end(&last, end).unwrap();
    }
    builder.build().unwrap()
}

fn random_cells(space: &Space, rows: usize, rng: &mut Rng) -> Cells {
    let limits = space.categories();
    let mut cell = |at: usize| match limits[at % limits.len()] {
        Some(limit) => rng.random_range(0..limit) as f32,
        None => rng.random_range(-3.0..3.0),
    };
    let range = 0..rows * space.cells();
    match space.cell_type() {
        CellType::Byte => Cells::Byte(range.map(|at| cell(at) as u8).collect()),
        CellType::Short => Cells::Short(range.map(|at| cell(at) as u16).collect()),
        CellType::Float => Cells::Float(range.map(cell).collect()),
    }
}

/// Pairs of spaces that cover every type of cell.
pub(crate) fn spaces() -> [(Space, Space); 6] {
    [
        (Space::Discrete { n: 7 }, Space::Discrete { n: 3 }),
        (Space::Discrete { n: 500 }, Space::Discrete { n: 300 }),
        (Space::MultiDiscrete { nvec: vec![8; 16] }, Space::Discrete { n: 4 }),
        (Space::MultiBinary { shape: vec![2, 7, 6] }, Space::MultiDiscrete { nvec: vec![3, 4] }),
        (
            Space::Box { shape: vec![3], bounds: None },
            Space::Box { shape: vec![2], bounds: Some(vec![[-2.0, 3.0]; 2]) },
        ),
        (
            Space::Tuple {
                spaces: vec![
                    Space::Box { shape: vec![2], bounds: None },
                    Space::Discrete { n: 3 },
                    Space::MultiBinary { shape: vec![2] },
                ],
            },
            Space::Discrete { n: 2 },
        ),
    ]
}

/// A temporary folder, and the path of a file that is not there yet.
pub(crate) fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.parquet");
    (folder, path)
}

/// A column with its name.
pub(crate) type Named = (&'static str, ArrayRef);

/// Writes columns as another program would.
pub(crate) fn write_foreign(path: &Path, metadata: Option<&str>, columns: Vec<Named>) {
    write_groups(path, metadata, columns, usize::MAX);
}

/// The same in row groups of so many rows.
pub(crate) fn write_groups(
    path: &Path,
    metadata: Option<&str>,
    columns: Vec<Named>,
    group_rows: usize,
) {
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )
    .unwrap();
    let mut writer =
        ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), None).unwrap();
    for first in (0..batch.num_rows()).step_by(group_rows) {
        let rows = group_rows.min(batch.num_rows() - first);
        writer.write(&batch.slice(first, rows)).unwrap();
        writer.flush().unwrap();
    }
    if let Some(json) = metadata {
        writer.append_key_value_metadata(KeyValue::new("esper".to_owned(), json.to_owned()));
    }
    writer.close().unwrap();
}

//! Makes a log of any size, for measuring how memory and time grow with it.
//!
//! ```sh
//! cargo run --release -p esper-data --example large_log -- long.parquet 50x20 1x200000
//! cargo run --release -p esper-data --example large_log -- wide.parquet --numbers 16 100000x50
//! ```
//!
//! `50x20` is fifty episodes of twenty steps each. A walker drifts by chance and by what it does (left, stay, right) and is
//! paid for being far to the right; half of the episodes are made by somebody who walks right, half by somebody who does
//! anything. Of the numbers that are seen the first says where it is, and the others are noise.

use std::error::Error;
use std::path::Path;

use esper_data::{Dataset, DatasetBuilder, DatasetWriter, End, Metadata, Rng, Seed, Space};
use rand::RngExt;

/// Steps that are written as one row group, about.
const GROUP: usize = 131_072;

const BEHAVIOURS: [&str; 2] = ["right", "random"];

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("which file is to be written?")?;
    let (mut numbers, mut lengths) = (2, Vec::new());
    while let Some(argument) = arguments.next() {
        if argument == "--numbers" {
            numbers = arguments.next().ok_or("--numbers takes a number")?.parse()?;
            continue;
        }
        let (episodes, length) = argument.split_once('x').ok_or("say EPISODESxSTEPS")?;
        let (episodes, length): (usize, usize) = (episodes.parse()?, length.parse()?);
        lengths.extend(std::iter::repeat_n(length, episodes));
    }
    write(Path::new(&path), numbers, &lengths)
}

fn write(path: &Path, numbers: usize, lengths: &[usize]) -> Result<(), Box<dyn Error>> {
    let seen = Space::Box { shape: vec![numbers], bounds: None };
    let metadata = Metadata::new(seen, Space::Discrete { n: 3 });
    let behaviours = BEHAVIOURS.map(str::to_owned);
    let mut writer = DatasetWriter::create(path, &metadata, &behaviours, true)?;
    let empty = || DatasetBuilder::new(metadata.clone()).with_behaviours(BEHAVIOURS);
    let (mut group, mut steps) = (empty(), 0);
    for (episode, &length) in lengths.iter().enumerate() {
        let mut rng = Seed::new(0).indexed(episode as u64).rng();
        play(&mut group, numbers, length, episode % 2, &mut rng)?;
        steps += length;
        if steps >= GROUP || episode + 1 == lengths.len() {
            let part: Dataset = std::mem::replace(&mut group, empty()).build()?;
            writer.write(&part)?;
            steps = 0;
        }
    }
    Ok(writer.finish()?)
}

fn play(
    log: &mut DatasetBuilder,
    numbers: usize,
    length: usize,
    behaviour: usize,
    rng: &mut Rng,
) -> Result<(), Box<dyn Error>> {
    let mut place = 0.0f32;
    let look = |place: f32, rng: &mut Rng| -> Vec<f32> {
        (0..numbers).map(|at| if at == 0 { place } else { rng.random() }).collect()
    };
    log.made_by(BEHAVIOURS[behaviour]);
    for _ in 0..length {
        let action: u8 = if behaviour == 0 { 2 } else { rng.random_range(0..3) };
        let observation = look(place, rng);
        let push = f32::from(action) - 1.0 + rng.random_range(-1.0..1.0);
        place = 0.9 * place + 0.1 * push;
        log.push(&observation, &[action], place / length as f32)?;
    }
    log.end(&look(place, rng), End { terminated: true, truncated: false })?;
    Ok(())
}

//! Writes what readers should be able to read into `corpus/READER`, for libFuzzer to begin with.

mod readers;

use std::path::Path;

fn main() -> std::io::Result<()> {
    let home = std::env::args_os().nth(1).unwrap_or_else(|| "corpus".into());
    for reader in &readers::READERS {
        let folder = Path::new(&home).join(reader.name);
        std::fs::create_dir_all(&folder)?;
        for (at, seed) in (reader.seeds)().iter().enumerate() {
            assert!((reader.read)(seed), "{}: seed {at} makes sense", reader.name);
            std::fs::write(folder.join(format!("seed-{at}")), seed)?;
        }
    }
    Ok(())
}

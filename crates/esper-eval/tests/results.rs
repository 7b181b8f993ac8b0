//! The results that the repository keeps can be read, whatever version wrote them.

use std::path::PathBuf;

use esper_eval::{Results, Scaling, read_json};

#[test]
fn results_of_the_repository_can_be_read() {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../results"));
    let mut read = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        // Tables are called by task and policy.
        let is_table = name.ends_with("-mlp") || name.ends_with("-transformer");
        if !is_table || path.extension().is_none_or(|ending| ending != "json") {
            continue;
        }
        let results: Results = read_json(path).unwrap();
        assert!(name.starts_with(&results.name()), "{name}");
        for method in &results.methods {
            assert!(!method.title().is_empty() && method.runs.len() == results.seeds, "{name}");
        }
        read += 1;
    }
    assert_eq!(read, 6, "three tasks, two policies");
    let scaling: Scaling = read_json(folder.join(Scaling::FILE)).unwrap();
    assert_eq!(scaling.fractions.len(), 5);
}

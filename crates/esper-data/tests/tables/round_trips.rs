//! What was written comes back.

use super::*;

#[test]
fn exported_data_comes_back() {
    for (seed, (observation, action)) in spaces().into_iter().enumerate() {
        let data = random(observation, action, 30, seed as u64);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.csv");
        let mapping = write_csv(&data, &path, false).unwrap();
        assert!(matches!(write_csv(&data, &path, false), Err(DataError::Exists(_))));
        let again = Mapping::from_toml(&mapping.to_toml()).unwrap();
        assert_eq!(import(&[path], &again).unwrap(), data);
    }
}

/// What was imported comes back without being told anything but who decided.
#[test]
fn imported_data_comes_back_by_its_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("visits.csv");
    let mapping = write_csv(&visits(), &path, false).unwrap();
    assert_eq!(open(&path).unwrap(), visits());
    assert_eq!(import(&[path], &mapping).unwrap(), visits());
}

#[test]
fn names_of_a_log_may_be_those_of_an_export() {
    let log = "episode,t,step,final_step,reward,did,paid\n0,0,1,2,3,a,5\n0,1,2,4,3,b,5\n";
    let toml = "observation = [\"step\", \"final_step\", \"reward\"]\naction = [\"did\"]\nreward = \"paid\"\ntime = \"t\"";
    let data = imported(log, toml).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.csv");
    let mapping = write_csv(&data, &path, false).unwrap();
    assert_eq!(import(&[path], &mapping).unwrap(), data);
}

#[test]
fn native_files_are_opened_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("visits.parquet");
    visits().write(&path, false).unwrap();
    assert!(is_native_file(&path).unwrap());
    let (data, notes) = open_with_notes(&path).unwrap();
    assert_eq!((data, notes.len()), (visits(), 0));
    assert!(!is_native_file(&golden("pandas.parquet")).unwrap());
    assert!(!is_native_file(&golden("parts")).unwrap());
}

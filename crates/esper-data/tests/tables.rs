//! Tables: what other programs write is understood, rows may come in any order, and whatever is wrong is said with its place.

mod common;

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, Decimal128Array, Float64Array, RecordBatch, StringArray,
    TimestampNanosecondArray, UInt64Array,
};
use common::{random, spaces};
use esper_data::tables::{Mapping, Survey, Table, is_native_file, open_with_notes, write_csv};
use esper_data::{
    Cells, DataError, Dataset, DatasetBuilder, End, Field, FieldKind, Fields, Metadata, Seed,
    Space, Word, open, read,
};
use rand::RngExt;
use rand::seq::SliceRandom;
use tempfile::TempDir;

fn go_on(_: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tables").join(name)
}

fn mapping(toml: &str) -> Mapping {
    Mapping::from_toml(toml).unwrap()
}

fn survey(paths: &[PathBuf], mapping: &Mapping) -> Result<Survey, DataError> {
    Table::open(paths)?.survey(mapping, go_on)
}

fn import(paths: &[PathBuf], mapping: &Mapping) -> Result<Dataset, DataError> {
    survey(paths, mapping)?.dataset(go_on)
}

/// Files of given texts.
fn files(texts: &[(&str, &[u8])]) -> (TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().unwrap();
    let paths = texts.iter().map(|(name, text)| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    });
    let paths = paths.collect();
    (folder, paths)
}

/// Imports one text, with a mapping.
fn imported(text: &str, toml: &str) -> Result<Dataset, String> {
    let (_folder, paths) = files(&[("log.csv", text.as_bytes())]);
    import(&paths, &mapping(toml)).map_err(|error| error.to_string())
}

fn notes(text: &str, toml: &str) -> Vec<String> {
    let (_folder, paths) = files(&[("log.csv", text.as_bytes())]);
    survey(&paths, &mapping(toml)).unwrap().notes().to_vec()
}

fn text(text: &str) -> Word {
    Word::Text(text.to_owned())
}

/// What `visits.csv` holds, by hand.
fn visits() -> Dataset {
    let category = |values: Vec<Word>| FieldKind::Category { values };
    let mean = (40.5 + 70.0 + 70.25 + 33.0) / 4.0;
    let origin = esper_data::parse_date("2023-12-31").unwrap();
    let fields = Fields {
        observation: vec![
            Field::new("age", FieldKind::Number { fill: Some(mean) }),
            Field::new("age", FieldKind::Missing),
            Field::new("ward", category(vec![Word::Missing, text("north"), text("south")])),
            Field::new("seen", FieldKind::Date { origin, fill: None }),
            Field::new("urgent", FieldKind::Boolean { fill: None }),
        ],
        action: vec![Field::new(
            "treatment",
            category(vec![text("drug"), text("none, yet"), text("rest")]),
        )],
    };
    let real = |cells: usize| Space::Box { shape: vec![cells], bounds: None };
    let seen = Space::Tuple { spaces: vec![real(2), Space::Discrete { n: 3 }, real(2)] };
    let metadata = Metadata { fields, ..Metadata::new(seen, Space::Discrete { n: 3 }) };
    let mut log = DatasetBuilder::new(metadata);
    let ended = End { terminated: true, truncated: false };
    let cut = End { terminated: false, truncated: true };
    log.made_by("Ada");
    log.push(&[40.5, 0.0, 1.0, 4.0, 1.0], &[0u8], 0.5).unwrap();
    log.push(&[mean, 1.0, 1.0, 5.0, 0.0], &[1u8], 0.25).unwrap();
    log.end(&[mean, 1.0, 1.0, 5.0, 0.0], ended).unwrap();
    log.made_by("Bo");
    log.push(&[70.0, 0.0, 2.0, 0.0, 0.0], &[0u8], -1.0).unwrap();
    log.push(&[70.25, 0.0, 0.0, 60.0, 1.0], &[2u8], 0.0).unwrap();
    log.end(&[70.25, 0.0, 0.0, 60.0, 1.0], cut).unwrap();
    log.made_by("Ada");
    log.push(&[33.0, 0.0, 2.0, 1.0, 0.0], &[2u8], 2.0).unwrap();
    log.end(&[33.0, 0.0, 2.0, 1.0, 0.0], ended).unwrap();
    log.build().unwrap()
}

#[test]
fn what_other_programs_write_is_the_same_data() {
    let by_doctor = mapping("behaviour = \"doctor\"");
    for name in [
        "visits.csv",
        "pandas.csv",
        "pandas.jsonl",
        "pandas.parquet",
        "polars.tsv",
        "polars.ndjson",
        "polars.parquet",
        "duckdb.csv",
        "duckdb.parquet",
        "parts",
    ] {
        let data = import(&[golden(name)], &by_doctor);
        assert_eq!(data.unwrap_or_else(|error| panic!("{name}: {error}")), visits(), "{name}");
    }
}

#[test]
fn lists_are_several_cells() {
    let real = |cells: usize| Space::Box { shape: vec![cells], bounds: None };
    for name in [
        "arrays.pandas.parquet",
        "arrays.pandas.jsonl",
        "arrays.polars.parquet",
        "arrays.duckdb.parquet",
    ] {
        let data = open(&golden(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let metadata = data.metadata();
        assert_eq!(metadata.observation_space, real(2), "{name}");
        assert_eq!(metadata.action_space, real(1), "{name}");
        assert_eq!(metadata.fields.observation[1].name, "observations_1");
        // The answer to the last action is the last `next_observations`.
        let seen = Cells::Float(vec![0.5, 1.0, 1.5, 2.0, 9.5, 9.0, 2.5, 3.0, 8.5, 8.0]);
        assert_eq!(*data.observations(), seen, "{name}");
        assert_eq!(*data.actions(), Cells::Float(vec![0.25, -0.5, 1.0]));
        let ends = [data.end(0), data.end(1)].map(|end| (end.terminated, end.truncated));
        assert_eq!(ends, [(true, false), (false, true)], "{name}");
    }
}

#[test]
fn formats_can_be_mixed_and_columns_come_in_any_order() {
    let (_folder, paths) = files(&[
        ("a.csv", b"episode,step,x,action,reward\n0,1,2,b,1\n"),
        ("b.csv", b"action;reward;x;step;episode\r\na;0;1;0;0\r\n"),
        (
            "c.jsonl",
            b"{\"episode\": 7, \"step\": 0, \"x\": 3.5, \"action\": \"b\", \"reward\": 2}\n",
        ),
    ]);
    let data = import(&paths, &Mapping::default()).unwrap();
    assert_eq!((data.episodes(), data.steps()), (2, 3));
    assert_eq!(*data.observations(), Cells::Float(vec![1.0, 2.0, 2.0, 3.5, 3.5]));
    assert_eq!(*data.actions(), Cells::Byte(vec![0, 1, 1]));
    assert_eq!(data.rewards(), [0.0, 1.0, 2.0]);
    let notes = survey(&paths, &Mapping::default()).unwrap().notes().join("\n");
    assert!(notes.contains("1 episodes have rows in more than one"), "{notes}");
}

#[test]
fn kinds_of_actions() {
    let log = |actions: [&str; 3]| {
        let [a, b, c] = actions;
        format!("episode,x,action\n0,1,{a}\n0,2,{b}\n1,3,{c}\n")
            .replace('\n', ",0\n")
            .replacen(",0", ",reward", 1)
    };
    let space = |actions, toml: &str| {
        let data = imported(&log(actions), toml)?;
        Ok::<_, String>((
            data.metadata().action_space.clone(),
            data.metadata().fields.action_value(&[1.0]),
        ))
    };
    let real = Space::Box { shape: vec![1], bounds: None };
    assert_eq!(space(["b", "a", "c"], "").unwrap(), (Space::Discrete { n: 3 }, Some("b".into())));
    assert_eq!(space(["7", "-3", "7"], "").unwrap(), (Space::Discrete { n: 2 }, Some(7.into())));
    let spelt = (Space::Discrete { n: 3 }, Some("1".into()));
    assert_eq!(space(["1.0", "0.0", "1"], "").unwrap(), spelt);
    assert_eq!(space(["True", "false", "true"], "").unwrap().1, Some(true.into()));
    assert_eq!(space(["yes", "no", "no"], "").unwrap().1, Some("yes".into()));
    assert_eq!(space(["None", "drug", "NA"], "").unwrap().0, Space::Discrete { n: 3 });
    assert_eq!(space(["0.5", "1", "2"], "").unwrap().0, real);
    assert_eq!(space(["1", "0", "2"], "[kinds]\naction = \"number\"").unwrap().0, real);
    assert!(
        space(["a", "", "b"], "").unwrap_err().contains("line 3: the action (`action`) is missing")
    );
    assert!(space(["1", "NA", "2"], "").unwrap_err().contains("is missing"));
    // Many whole numbers are numbers.
    let many: String = (0..400).map(|row| format!("{row},0,{},1\n", row * 7 % 300)).collect();
    let data = imported(&format!("episode,x,dose,reward\n{many}"), "action = [\"dose\"]").unwrap();
    assert_eq!(data.metadata().action_space, real);
}

#[test]
fn several_columns_of_actions() {
    let log = "episode,x,action_a,action_b,reward\n0,1,L,2,0\n0,2,R,1,1\n";
    let space = Space::MultiDiscrete { nvec: vec![2, 2] };
    assert_eq!(imported(log, "").unwrap().metadata().action_space, space);
    let data = imported(&log.replace('L', "0.5").replace('R', "1"), "").unwrap();
    assert_eq!(data.metadata().action_space, Space::Box { shape: vec![2], bounds: None });
    let error = imported(&log.replace(",2,0", ",2.5,0"), "").unwrap_err();
    assert!(error.contains("all numbers or all categories"), "{error}");
}

#[test]
fn kinds_of_observations() {
    let space = |columns: &str, rows: [&str; 2], toml: &str| {
        let [a, b] = rows;
        let log = format!("episode,action,reward,{columns}\n0,a,0,{a}\n1,b,1,{b}\n");
        imported(&log, toml).map(|data| data.metadata().observation_space.clone())
    };
    let real = |cells: usize| Space::Box { shape: vec![cells], bounds: None };
    assert_eq!(space("a,b", ["1,2", "3,4.5"], "").unwrap(), real(2));
    assert_eq!(space("a,b", ["x,2", "y,4"], "").unwrap().to_string(), "Tuple(Discrete(2), Box(1))");
    assert_eq!(space("a", ["x", "y"], "").unwrap(), Space::Discrete { n: 2 });
    assert_eq!(
        space("a,b", ["x,u", "y,u"], "").unwrap(),
        Space::MultiDiscrete { nvec: vec![2, 1] }
    );
    assert_eq!(space("a", ["yes", "no"], "").unwrap(), real(1));
    assert_eq!(
        space("a", ["1", "2"], "[kinds]\na = \"category\"").unwrap(),
        Space::Discrete { n: 2 }
    );
    assert_eq!(space("a,b", ["1,", "2,"], "").unwrap(), real(1));
    assert!(space("a", ["1", "x"], "[kinds]\na = \"number\"").unwrap_err().contains("line 3"));
    assert!(space("a", ["inf", "1"], "").unwrap_err().contains("line 2"));
    assert!(space("a", ["1e300", "1"], "").unwrap_err().contains("32 bits"));
    assert!(space("a", ["", ""], "").unwrap_err().contains("empty"));
}

#[test]
fn what_is_missing_constant_or_rounded_is_said() {
    let log = "episode,t,x,y,id,action,reward\n0,0,NA,k,123456789,a,0\n0,1,3,,123456790,b,1\n1,0,5,k,123456791,a,1\n";
    let data = imported(log, "").unwrap();
    assert_eq!(data.metadata().fields.observation[0].kind, FieldKind::Number { fill: Some(4.0) });
    let said = notes(log, "").join("\n");
    for words in [
        "`x`: 1 of 3 values are missing; 4 stands",
        "`y`: 1 of 3 values are missing, which is a category",
        "`id`: whole numbers beyond 16,777,216 are rounded",
        "the last observation is repeated",
        "no column says how episodes end",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let said = notes("episode,x,action,reward\n0,3,a,0\n1,3,b,1\n", "").join("\n");
    assert!(said.contains("`x` is always 3") && said.contains("order of the file"), "{said}");
}

#[test]
fn one_outcome_an_episode() {
    for log in [
        "episode,t,x,action,reward\n0,0,1,a,\n0,1,2,b,5\n1,0,3,a,-1\n",
        "episode,t,x,action,reward\n0,0,1,a,5\n0,1,2,b,\n1,0,3,a,-1\n",
        "episode,t,x,action,outcome\n0,0,1,a,5\n0,1,2,b,5\n1,0,3,a,-1\n",
    ] {
        let data = imported(log, "").unwrap();
        assert_eq!(data.rewards(), [0.0, 5.0, -1.0], "{log}");
        assert!(notes(log, "").join("\n").contains("last step"), "{log}");
    }
    // The same in every row is a reward of steps where nothing is called an outcome.
    let log = "episode,t,x,action,reward\n0,0,1,a,5\n0,1,2,b,5\n1,0,3,a,-1\n";
    assert_eq!(imported(log, "").unwrap().rewards(), [5.0, 5.0, -1.0]);
    assert_eq!(imported(log, "reward_per = \"episode\"").unwrap().rewards(), [0.0, 5.0, -1.0]);
    let outcome = log.replace("reward", "outcome");
    assert_eq!(imported(&outcome, "reward_per = \"step\"").unwrap().rewards(), [5.0, 5.0, -1.0]);
    let differ = log.replace("1,2,b,5", "1,2,b,4");
    assert!(
        imported(&differ, "reward_per = \"episode\"").unwrap_err().contains("different outcomes")
    );
}

#[test]
fn ends_of_episodes() {
    let ends = |column: &str, last: [&str; 3], toml: &str| {
        let rows = last
            .iter()
            .enumerate()
            .map(|(at, last)| format!("{at},0,1,a,0,0\n{at},1,2,b,1,{last}\n"));
        let log = format!("episode,t,x,action,reward,{column}\n{}", rows.collect::<String>());
        let data = imported(&log, toml).unwrap();
        [0, 1, 2].map(|episode| (data.end(episode).terminated, data.end(episode).truncated))
    };
    let (ended, cut) = ((true, false), (false, true));
    assert_eq!(ends("done", ["1", "0", "1"], ""), [ended, cut, ended]);
    assert_eq!(ends("flag", ["yes", "True", "whatever"], "end = \"flag\""), [ended, ended, cut]);
    assert_eq!(ends("z", ["1", "0", "1"], ""), [ended; 3]);
    assert_eq!(ends("truncated", ["1", "0", "1"], ""), [cut, ended, cut]);
}

#[test]
fn usual_names_are_found() {
    for (header, toml) in [
        ("episode_id,timestamp,obs_a,obs_b,actions,rewards,terminated,behavior", ""),
        ("Trajectory,Step,State_1,State_2,Decision,R,Done,Policy", ""),
        ("patient_id,date,age,dose,treatment,reward,end,agent", ""),
        ("user id,time,a1,a2,action,payoff,terminal,behaviour", ""),
        (
            "k,w,a1,a2,u,v,e,z",
            "episode = \"k\"\ntime = \"w\"\naction = [\"u\"]\nreward = \"v\"\nend = \"e\"\nbehaviour = \"z\"",
        ),
    ] {
        let log = format!("{header}\ni,2024-01-02,1,2,up,1,0,me\ni,2024-01-01,3,4,down,0,1,me\n");
        let (_folder, paths) = files(&[("log.csv", log.as_bytes())]);
        let survey =
            survey(&paths, &mapping(toml)).unwrap_or_else(|error| panic!("{header}: {error}"));
        let data = survey.dataset(go_on).unwrap();
        assert_eq!(
            *data.observations(),
            Cells::Float(vec![3.0, 4.0, 1.0, 2.0, 1.0, 2.0]),
            "{header}"
        );
        assert_eq!(data.rewards(), [0.0, 1.0]);
        assert_eq!(data.behaviours(), ["me"]);
        assert_eq!(data.end(0), End { terminated: false, truncated: true }, "{header}");
        // What was found, said, gives the same.
        let again = import(&paths, &mapping(&survey.mapping().to_toml())).unwrap();
        assert_eq!(again, data, "{header}");
    }
}

#[test]
fn what_is_in_doubt_is_asked() {
    let log = |header: &str| {
        let row = header.split(',').map(|_| "1").collect::<Vec<_>>().join(",");
        format!("{header}\n{row}\n")
    };
    for (header, toml, words) in [
        (
            "session_id,user_id,x,action,reward",
            "",
            "`session_id`, `user_id`? Say so with --episode",
        ),
        ("episode,step,timestamp,x,action,reward", "", "`step`, `timestamp`? Say so with --time"),
        ("episode,x,action,treatment,reward", "", "`action`, `treatment`? Say so with --action"),
        ("episode,x,action,reward,outcome", "", "--reward"),
        ("episode,x,action,reward,done,terminal", "", "--end"),
        ("episode,x,action,reward,policy,agent", "", "--behaviour"),
        ("episode,state,age,action,reward", "", "is `state` the whole observation"),
        ("episode,state_a,obs_b,action,reward", "", "--observation"),
        (
            "x,action,reward",
            "",
            "no column says which episode a row belongs to; name it with --episode",
        ),
        ("episode,x,reward", "", "no column is the action; name it with --action"),
        ("episode,x,action", "", "no column is the reward; name it with --reward"),
        ("episode,action,reward", "", "no column is left to be the observation"),
        (
            "episode,x,action,reward",
            "observation = [\"y\"]",
            "there is no column `y` (--observation)",
        ),
        (
            "episode,x,action,reward",
            "observation = [\"action\"]\naction = [\"action\"]",
            "two things at once",
        ),
    ] {
        let (_folder, paths) = files(&[("log.csv", log(header).as_bytes())]);
        let error = import(&paths, &mapping(toml)).unwrap_err();
        assert!(matches!(error, DataError::Mapping { .. }), "{header}: {error}");
        assert!(error.to_string().contains(words), "{header}: {error}");
        // Opening it directly says where such options belong.
        if toml.is_empty() {
            let error = open(&paths[0]).unwrap_err().to_string();
            assert!(error.contains("esper import"), "{error}");
        }
    }
}

#[test]
fn what_is_left_out_is_nothing_to_decide_by() {
    let log = "Unnamed: 0,episode,obs_1,weather,return_to_go,action_prob,action,reward\n9,0,1,2,3,4,a,1\n8,1,2,3,4,5,b,2\n";
    let data = imported(log, "").unwrap();
    assert_eq!(data.metadata().observation_space, Space::Box { shape: vec![1], bounds: None });
    let said = notes(log, "").join("\n");
    assert!(said.contains("left out") && said.contains("`weather`"), "{said}");
}

/// Bad files: what they hold, and what is said of them.
#[test]
fn whatever_is_wrong_is_said_with_its_place() {
    let head = "episode,t,x,action,reward\n";
    let text = |rows: &str| format!("{head}{rows}").into_bytes();
    let long: String = (0..2_000).map(|row| format!("{row},0,word{row},a,1\n")).collect();
    let names: String = (0..50).map(|row| format!("{row},0,name{row},a,1\n")).collect();
    let commas = b"episode;t;x;action;reward\n0;0;1,5;a;1\n0;1;2;b;1\n0;2;3;b;1\n".to_vec();
    for (name, bytes, words) in [
        ("log.csv", b"".to_vec(), "is empty"),
        ("log.csv", b" \n\n ".to_vec(), "is empty but for blanks"),
        ("log.csv", head.into(), "has no rows"),
        (
            "log.csv",
            b"episode,x,x,action,reward\n0,1,2,a,1\n".to_vec(),
            "columns 2 and 3 are both called `x`",
        ),
        ("log.csv", b"episode,,action,reward\n0,1,a,1\n".to_vec(), "column 2 has no name"),
        ("log.csv", text("0,0,1,a,1\n0,1,2,a\n"), "line 3: has 4 fields where the header has 5"),
        ("log.csv", text("0,0,1,a,1\n\n0,1,2,a,1,9\n"), "line 4: has 6 fields"),
        (
            "log.csv",
            text("0,0,\"1\n\",a,1\n0,1,\"2,a,1\n"),
            "line 4: a quote (\") is opened and never closed",
        ),
        ("log.csv", text("0,0,\"1\" x,a,1\n"), "line 2: there is text behind a closing quote"),
        ("log.csv", text("0,0,1,a,1\n,1,2,a,1\n"), "line 3: the episode id (`episode`) is missing"),
        (
            "log.csv",
            text("0,0,1,a,1\n0,1,2,a,\n0,2,2,a,\n1,0,1,a,2\n1,1,1,a,2\n"),
            "line 3: the reward (`reward`) is missing",
        ),
        (
            "log.csv",
            text("0,0,1,a,much\n"),
            "line 2: the reward (`reward`) is `much`, which is not a number",
        ),
        (
            "log.csv",
            text("0,0,1,a,inf\n"),
            "line 2: the reward (`reward`) is inf, which is not a finite number",
        ),
        (
            "log.csv",
            text("0,0,1,a,1\n1,3,1,a,1\n0,0,2,a,1\n"),
            "line 4: episode `0` has the same time (`t`) as in line 2",
        ),
        (
            "log.csv",
            text("0,soon,1,a,1\n"),
            "line 2: the time (`t`) is neither a number nor a date",
        ),
        ("log.csv", text("0,,1,a,1\n"), "line 2: the time (`t`) is missing"),
        (
            "log.csv",
            text("0,0,1,a,1\n0,1,2,b,1\n0,2,oops,b,1\n"),
            "line 4: column `x` has numbers, and something else here",
        ),
        (
            "log.csv",
            text(&long),
            "`x` has 2000 different texts in 2000 rows, too many to be categories; leave it out: --ignore x",
        ),
        ("log.csv", text(&names), "50 different texts in 50 rows"),
        ("log.csv", commas, "decimal point"),
        (
            "log.csv",
            [&text("0,0,1,a,1\n")[..], b"0,1,2,\xff,1\n"].concat(),
            "line 3: is not text in UTF-8",
        ),
        ("log.csv", b"a,b\n1,\0\n".to_vec(), "is neither a text nor Parquet"),
        ("log.csv", vec![0xff, 0xfe, b'e', 0], "UTF-16"),
        ("log.csv.gz", vec![0x1f, 0x8b, 8, 0], "gzip"),
        ("log.xlsx", b"PK\x03\x04 and more".to_vec(), "spreadsheets"),
        ("log.feather", b"ARROW1 and more".to_vec(), "Arrow"),
        ("log.json", b"[{\"episode\": 1}]".to_vec(), "lines=True"),
        ("log.jsonl", b"{\"episode\": 1, \"x\": NaN}\n".to_vec(), "line 1: is not JSON"),
        ("log.jsonl", b"{\"episode\": 1}\n\n[1]\n".to_vec(), "line 3: is not an object"),
        (
            "log.jsonl",
            b"{\"x\": [1, 2]}\n{\"x\": [1]}\n".to_vec(),
            "line 2: `x` has 1 elements where those before have 2",
        ),
        ("log.jsonl", b"{\"x\": 1, \"x\": 1}\n".to_vec(), "twice"),
        (
            "log.jsonl",
            b"{\"episode\": 1, \"t\": 0, \"obs\": [[1]], \"action\": 1, \"reward\": 1}\n".to_vec(),
            "nested",
        ),
        ("log.parquet", b"nonsense".to_vec(), "cannot be read as a Parquet file"),
        ("log.parquet", b"PAR1 nonsense PAR1".to_vec(), "cannot be read as a Parquet file"),
    ] {
        let (_folder, paths) = files(&[(name, &bytes)]);
        let error = import(&paths, &Mapping::default()).err();
        let error = error.unwrap_or_else(|| panic!("{words}: was imported")).to_string();
        assert!(error.contains(words), "{words}: {error}");
        assert!(error.contains(name), "{error}");
    }
}

#[test]
fn folders_that_are_no_tables_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |words: &str| {
        let error = open(folder.path()).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    refused("without any part files");
    fs::write(folder.path().join("_SUCCESS"), "").unwrap();
    refused("without any part files");
    fs::write(folder.path().join("notes.md"), "x").unwrap();
    refused("`notes.md`");
    fs::remove_file(folder.path().join("notes.md")).unwrap();
    fs::create_dir(folder.path().join("ward=north")).unwrap();
    refused("partitioned by folders");
    fs::create_dir(folder.path().join("_delta_log")).unwrap();
    refused("Delta");
    assert!(matches!(open(&folder.path().join("nowhere")), Err(DataError::Io { .. })));
}

#[test]
fn sources_have_the_same_columns() {
    let (_folder, paths) = files(&[
        ("a.csv", b"episode,x,action,reward\n0,1,a,1\n"),
        ("b.csv", b"episode,y,action,reward\n0,1,a,1\n"),
    ]);
    let error = import(&paths, &Mapping::default()).unwrap_err().to_string();
    assert!(
        error.contains("b.csv: has no column `x`, which") && error.contains("a.csv has"),
        "{error}"
    );
}

#[test]
fn byte_order_marks_line_ends_and_quotes() {
    let plain = "episode,t,x,action,reward\n0,0,1,\"a\nb\",1\n0,1,2,\"c \"\"d\"\"\",0\n";
    let expected = imported(plain, "").unwrap();
    for text in [
        format!("\u{feff}{plain}"),
        plain.replace("1\n", "1\r\n").replace("0\n", "0\r\n").replace("reward\n", "reward\r\n"),
        plain.trim_end().to_owned(),
        format!("\n\n{plain}\n\n"),
        plain.replace(',', ";"),
        plain.replace(',', "\t"),
        plain.replace(',', "|"),
        plain.replace("episode,t", " episode , t"),
    ] {
        assert_eq!(imported(&text, "").unwrap(), expected, "{text:?}");
    }
    assert_eq!(
        expected.metadata().fields.action[0].kind,
        FieldKind::Category { values: vec![text("a\nb"), text("c \"d\"")] }
    );
}

/// Rows of a data set as a table of random looks.
fn disguised(rng: &mut esper_data::Rng) -> (String, String) {
    let separator = [",", ";", "\t", "|"][rng.random_range(0..4)];
    let line_end = ["\n", "\r\n"][rng.random_range(0..2)];
    let names = ["i d", "when", "f\"1", "f2", "did", "paid", "fin"];
    let quote = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let mut rows: Vec<Vec<String>> = Vec::new();
    for episode in 0..rng.random_range(1..9) {
        for step in 0..rng.random_range(1..7) {
            rows.push(vec![
                format!("ep {episode}"),
                format!("{}", step * 3 - 5),
                format!("{}", f64::from(rng.random_range(-40..40)) / 8.0),
                ["red", "green \"x\"", "blue\nor, not"][rng.random_range(0..3)].to_owned(),
                ["go", "stop"][rng.random_range(0..2)].to_owned(),
                format!("{}", f64::from(rng.random_range(-40..40)) / 8.0),
                "no".to_owned(),
            ]);
        }
    }
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.shuffle(rng);
    rows.shuffle(rng);
    let line = |cells: &[String]| {
        let cells = order.iter().map(|&at| cells[at].clone());
        cells.collect::<Vec<_>>().join(separator) + line_end
    };
    let header: Vec<String> = names.iter().map(|name| quote(name)).collect();
    let body: String = rows
        .iter()
        .map(|row| line(&row.iter().map(|cell| quote(cell)).collect::<Vec<_>>()))
        .collect();
    // The same rows, in order, plain: sorted by the episode's first row in the disguised table, then by time.
    let first = |id: &str| rows.iter().position(|row| row[0] == id).unwrap();
    let mut sorted = rows.clone();
    sorted.sort_by_key(|row| (first(&row[0]), row[1].parse::<i64>().unwrap()));
    let swap = |rows: &[Vec<String>]| -> String {
        rows.iter()
            .map(|row| row.iter().map(|cell| quote(cell)).collect::<Vec<_>>().join(",") + "\n")
            .collect()
    };
    let plain = format!("{}\n{}", header.join(","), swap(&sorted));
    (line(&header) + &body, plain)
}

/// Rows in any order, columns in any order and any separator give the same data.
#[test]
fn looks_do_not_matter() {
    let toml = "episode = \"i d\"\ntime = \"when\"\nobservation = [\"f\\\"1\", \"f2\"]\naction = [\"did\"]\nreward = \"paid\"\nend = \"fin\"";
    for seed in 0..200 {
        let mut rng = Seed::new(seed).rng();
        let (disguised, plain) = disguised(&mut rng);
        let expected = imported(&plain, toml).unwrap();
        assert_eq!(imported(&disguised, toml).unwrap(), expected, "seed {seed}: {disguised}");
        // Already in order, no times are needed.
        let without = toml.replace("time = \"when\"", "time = \"\"\nignore = [\"when\"]");
        assert_eq!(imported(&plain, &without).unwrap(), expected, "seed {seed}");
    }
}

#[test]
fn little_memory_gives_the_same_file() {
    let mut rng = Seed::new(3).rng();
    let mut rows: Vec<String> = Vec::new();
    for episode in 0..4_000 {
        for step in 0..rng.random_range(1..60) {
            let x: f32 = rng.random_range(-1.0..1.0);
            let word = ["a", "b", "c"][rng.random_range(0..3)];
            let last = if rng.random_range(0..2) == 0 { String::new() } else { format!("{x}") };
            let player = episode % 7;
            rows.push(format!(
                "e{episode},{step},{x},{},{word},{},{last},p{player}\n",
                x * 2.0,
                rng.random_range(0..5)
            ));
        }
    }
    rows.shuffle(&mut rng);
    let log = format!("episode,t,x,y,action,reward,final_x,behaviour\n{}", rows.concat())
        .replace("final_x", "final_x,final_y")
        .replace(",p", ",,p");
    let (folder, paths) = files(&[("log.csv", log.as_bytes())]);
    let survey = survey(&paths, &Mapping::default()).unwrap();
    let (much, little) = (folder.path().join("much"), folder.path().join("little"));
    survey.write(&much, false, 1 << 40, |_| Ok(()), go_on).unwrap();
    survey.write(&little, false, 1_000_000, |_| Ok(()), go_on).unwrap();
    assert!(fs::read(&much).unwrap() == fs::read(&little).unwrap());
    assert_eq!(read(&much).unwrap(), survey.dataset(go_on).unwrap());
    let mut names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["little", "log.csv", "much"]);
}

#[test]
fn stopping_leaves_nothing() {
    let (folder, paths) = files(&[("log.csv", b"episode,x,action,reward\n0,1,a,1\n")]);
    let stop = |_| ControlFlow::Break(());
    let stopped = Table::open(&paths).unwrap().survey(&Mapping::default(), stop);
    assert!(matches!(stopped.err(), Some(DataError::Stopped)));
    let survey = survey(&paths, &Mapping::default()).unwrap();
    let out = folder.path().join("data.parquet");
    let stopped = survey.write(&out, false, 1 << 30, |_| Ok(()), stop);
    assert!(matches!(stopped, Err(DataError::Stopped)));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// A file that is written to while it is read is an error, whatever was added.
#[test]
fn a_file_that_changes_is_noticed() {
    let start = "episode,x,action,reward\n0,1,a,1\n1,2,b,1\n";
    for more in ["2,1,a,1\n", "0,1,a,1\n", "0,k,a,1\n", "1,3,c,1\n"] {
        let (_folder, paths) = files(&[("log.csv", start.as_bytes())]);
        let survey = survey(&paths, &Mapping::default()).unwrap();
        fs::write(&paths[0], format!("{start}{more}")).unwrap();
        assert!(survey.dataset(go_on).is_err(), "{more}");
        fs::write(&paths[0], start.replace("1,2,b,1\n", "")).unwrap();
        assert!(survey.dataset(go_on).is_err());
    }
}

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

/// Damage of any kind is an error or other data, never a panic.
#[test]
fn damaged_files_do_not_panic() {
    for name in [
        "visits.csv",
        "pandas.jsonl",
        "pandas.parquet",
        "polars.parquet",
        "arrays.pandas.parquet",
        "duckdb.parquet",
    ] {
        let bytes = fs::read(golden(name)).unwrap();
        let mut rng = Seed::new(9).rng();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        for _ in 0..150 {
            let mut damaged = bytes.clone();
            for _ in 0..rng.random_range(1..4) {
                let at = rng.random_range(0..damaged.len());
                damaged[at] = rng.random();
            }
            if rng.random_range(0..4) == 0 {
                damaged.truncate(rng.random_range(0..bytes.len()));
            }
            fs::write(&path, damaged).unwrap();
            let _ = open(&path);
        }
    }
}

/// What counts the rows of an episode under a usual name orders them, wherever it stands and whatever is beside it.
#[test]
fn visits_days_and_rounds_are_times() {
    for name in ["visit", "day", "round", "turn", "Timestamp", "time step"] {
        let log = format!(
            "patient,doctor,{name},age,treatment,outcome\np,A,2,50,rest,1\np,A,1,49,drug,\nq,B,1,9,rest,0\n"
        );
        let (_folder, paths) = files(&[("log.csv", log.as_bytes())]);
        let survey = survey(&paths, &Mapping::default()).unwrap();
        assert_eq!(survey.mapping().time.as_deref(), Some(name));
        assert_eq!(survey.mapping().observation, ["doctor", "age"]);
        let data = survey.dataset(go_on).unwrap();
        assert_eq!(data.observations().view().number(1), 49.0, "{name}: the first visit first");
    }
}

/// Texts that differ are never one category, whatever numbers they look like; they come back as they were.
#[test]
fn codes_are_told_apart_by_their_spelling() {
    let codes = ["007", "042", "42", "1e2", "100"];
    let words = ["007", "042", "100", "1e2", "42"].map(text).to_vec();
    let csv: String =
        codes.iter().enumerate().map(|(at, code)| format!("{at},{at},\"{code}\",1\n")).collect();
    let csv = format!("episode,x,action,reward\n{csv}");
    let lines = codes.iter().enumerate().map(|(at, code)| {
        format!("{{\"episode\": {at}, \"x\": {at}, \"action\": \"{code}\", \"reward\": 1}}\n")
    });
    let (_folder, paths) = files(&[
        ("codes.csv", csv.as_bytes()),
        ("codes.jsonl", lines.collect::<String>().as_bytes()),
    ]);
    for path in paths {
        for toml in ["", "[kinds]\naction = \"category\""] {
            let data = import(std::slice::from_ref(&path), &mapping(toml)).unwrap();
            let kind = &data.metadata().fields.action[0].kind;
            assert_eq!(*kind, FieldKind::Category { values: words.clone() });
            assert_eq!(*data.actions(), Cells::Byte(vec![0, 1, 4, 3, 2]));
            let folder = tempfile::tempdir().unwrap();
            let out = folder.path().join("out.csv");
            let back = write_csv(&data, &out, false).unwrap();
            let written = fs::read_to_string(&out).unwrap();
            assert!(codes.iter().all(|code| written.contains(&format!(",{code},"))), "{written}");
            assert_eq!(import(&[out], &back).unwrap(), data);
        }
    }
    let said = notes(&csv, "").join("\n");
    assert!(said.contains("`100` and `1e2` are two categories"), "{said}");
}

/// Codes with zeros in front are names, and so are those beside them that have none; times and rewards may have zeros in front.
#[test]
fn zip_codes_are_no_numbers() {
    let log = "episode,t,zip,action,reward\n0,01,10001,a,01\n0,00,10001,b,02\n1,02,00501,a,1\n";
    let data = imported(log, "").unwrap();
    let FieldKind::Category { values } = &data.metadata().fields.observation[0].kind else {
        panic!("zip codes are a category")
    };
    assert_eq!(*values, [text("00501"), text("10001")]);
    assert_eq!(data.rewards(), [2.0, 1.0, 1.0]);
    let real = Space::Box { shape: vec![1], bounds: None };
    let as_number = imported(log, "[kinds]\nzip = \"number\"").unwrap();
    assert_eq!(as_number.metadata().observation_space, real);
}

/// A table with types says that `1` is a text where it is one, and that an action comes back as one.
#[test]
fn texts_of_tables_with_types_stay_texts() {
    let log = |action: &str| {
        let line = |at, action: &str| {
            format!("{{\"episode\": {at}, \"x\": \"{at}\", \"action\": {action}, \"reward\": 1}}\n")
        };
        let lines = line(0, action) + &line(1, action);
        let (_folder, paths) = files(&[("log.jsonl", lines.as_bytes())]);
        import(&paths, &Mapping::default()).unwrap()
    };
    let value = |data: &Dataset| data.metadata().fields.action_value(&[0.0]).unwrap();
    assert_eq!(value(&log("\"1\"")), "1");
    assert_eq!(value(&log("\"true\"")), "true");
    assert_eq!(value(&log("1")), 1);
    assert_eq!(value(&log("true")), true);
    // Observations that are numbers in quotes are still numbers.
    let real = Space::Box { shape: vec![1], bounds: None };
    assert_eq!(log("1").metadata().observation_space, real);
}

/// An in-memory table of one row an id: `t` is 0, 1, ... or as given.
fn in_memory(id: ArrayRef, time: Option<ArrayRef>) -> Result<Dataset, DataError> {
    let rows = id.len();
    let numbers = |of: fn(usize) -> f64| -> ArrayRef {
        Arc::new(Float64Array::from((0..rows).map(of).collect::<Vec<_>>()))
    };
    let columns: [(&str, ArrayRef); 5] = [
        ("episode", id),
        ("t", time.unwrap_or_else(|| numbers(|_| 0.0))),
        ("x", numbers(|row| row as f64)),
        ("action", Arc::new(StringArray::from(vec!["a"; rows]))),
        ("reward", numbers(|_| 1.0)),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let table = Table::in_memory(batch.schema().as_ref(), vec![batch], "memory")?;
    table.survey(&Mapping::default(), go_on)?.dataset(go_on)
}

/// Ids that no float tells apart are different episodes, and times that none does have their order.
#[test]
fn ids_and_times_are_exact() {
    let many = 20;
    let decimals = |scale: i8| -> ArrayRef {
        let base = 10i128.pow(30);
        let values: Vec<i128> = (0..many).map(|row| base - row).collect();
        Arc::new(Decimal128Array::from(values).with_precision_and_scale(38, scale).unwrap())
    };
    let wide: ArrayRef =
        Arc::new(UInt64Array::from((0..many as u64).map(|row| u64::MAX - row).collect::<Vec<_>>()));
    let times: ArrayRef = Arc::new(TimestampNanosecondArray::from(
        (0..many as i64).map(|row| 1_700_000_000_000_000_300 - row).collect::<Vec<_>>(),
    ));
    for column in [decimals(0), decimals(18), wide, times] {
        let kind = column.data_type().to_string();
        let data = in_memory(column.clone(), None).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(data.episodes(), many as usize, "{kind}");
        let one: ArrayRef = Arc::new(UInt64Array::from(vec![0; many as usize]));
        let data = in_memory(one, Some(column)).unwrap_or_else(|error| panic!("{kind}: {error}"));
        let seen: Vec<f32> =
            (0..many as usize).map(|step| data.observations().view().number(step)).collect();
        let backwards: Vec<f32> = (0..many as u16).rev().map(f32::from).collect();
        assert_eq!(seen, backwards, "{kind}: the last row has the least time");
    }
    for (first, second) in [
        ("1700000000000000301", "1700000000000000300"),
        ("99999999999999999999999.5", "99999999999999999999998.5"),
        ("1700000000.000000301", "1700000000.0000003"),
        ("2024-01-01T00:00:00.000000003Z", "2024-01-01T00:00:00.000000002Z"),
        ("9999-12-31T00:00:00.000003", "9999-12-31T00:00:00.000002"),
        ("-9223372036854775809", "-9223372036854775810"),
    ] {
        let log = format!("episode,t,x,action,reward\n0,{first},1,a,1\n0,{second},2,a,1\n");
        let data = imported(&log, "").unwrap_or_else(|error| panic!("{first}: {error}"));
        assert_eq!(*data.observations(), Cells::Float(vec![2.0, 1.0, 1.0]), "{first}");
        let log = format!("episode,t,x,action,reward\n{first},0,1,a,1\n{second},0,2,a,1\n");
        assert_eq!(imported(&log, "").unwrap().episodes(), 2);
        let same = format!("episode,t,x,action,reward\n0,{first},1,a,1\n0,{first},2,a,1\n");
        assert!(imported(&same, "").unwrap_err().contains("same time"));
    }
    for first in ["18446744073709551615", "-9223372036854776308", "10000000000000000000000001"] {
        let second = format!("{}0", &first[..first.len() - 1]);
        let line = |id: &str, x: u8| {
            format!("{{\"episode\": {id}, \"x\": {x}, \"action\": \"a\", \"reward\": 1}}\n")
        };
        let lines = line(first, 1) + &line(&second, 2) + &line(first, 3);
        let (_folder, paths) = files(&[("log.jsonl", lines.as_bytes())]);
        let data = import(&paths, &Mapping::default()).unwrap();
        assert_eq!((data.episodes(), data.steps()), (2, 3), "{first}");
    }
}

#[test]
fn ids_that_files_of_a_folder_share_are_said() {
    let folder = tempfile::tempdir().unwrap();
    let rows = "episode,t,x,action,reward\n0,0,1,a,1\n1,0,2,b,1\n";
    fs::write(folder.path().join("a.csv"), rows).unwrap();
    let source = [folder.path().to_owned()];
    let said = || survey(&source, &Mapping::default()).unwrap().notes().join("\n");
    assert!(!said().contains("more than one"));
    fs::write(folder.path().join("b.csv"), rows.replace(",0,", ",1,")).unwrap();
    assert!(said().contains("2 episodes have rows in more than one of the files"), "{}", said());
    fs::write(folder.path().join("b.csv"), rows).unwrap();
    let error = import(&source, &Mapping::default()).unwrap_err().to_string();
    assert!(error.contains("same time") && error.contains("begin anew in every file"), "{error}");
}

/// What says in the middle of an episode that it ended is counted by the times, not by the places of rows.
#[test]
fn ends_in_the_middle_are_said() {
    let log = |rows: &str| format!("episode,t,x,action,reward,done\n{rows}");
    let said = |rows: &str, toml: &str| notes(&log(rows), toml).join("\n");
    let once = "0,0,1,a,1,0\n0,1,1,a,1,1\n1,0,1,b,1,1\n";
    let backwards = "0,1,1,a,1,1\n0,0,1,a,1,0\n1,0,1,b,1,1\n";
    let early = "0,0,1,a,1,1\n0,1,1,a,1,0\n1,0,1,b,1,1\n";
    let twice = "0,0,1,a,1,yes\n0,1,1,a,1,true\n1,0,1,b,1,1\n";
    let words = "1 rows in the middle of episodes say that the episode ended (`done`)";
    for (rows, toml, is_said) in [
        (once, "", false),
        (backwards, "", false),
        (backwards, "time = \"\"", true),
        (early, "", true),
        (twice, "", true),
        (early, "end = \"\"", false),
    ] {
        let said = said(rows, toml);
        assert_eq!(said.contains(words), is_said, "{rows}{toml}: {said}");
    }
}

#[test]
fn numbers_with_commas_are_said() {
    let log = |cells: [&str; 3]| {
        let [a, b, c] = cells;
        format!("episode;x;action;reward\n0;{a};a;1\n0;{b};b;1\n1;{c};a;1\n")
    };
    for cells in [["1,5", "2,5", "3"], ["25,000", "900", "1,250,000"], ["1,5", "NA", "2,5"]] {
        let (text, words) = (log(cells), format!("numbers with commas such as `{}`", cells[0]));
        let said = notes(&text, "").join("\n");
        assert!(said.contains(&words), "{said}");
        assert!(!notes(&text, "[kinds]\nx = \"category\"").join("\n").contains(&words));
    }
    assert!(!notes(&log(["a,b", "1,5", "2,5"]), "").join("\n").contains("commas"));
}

#[test]
fn too_many_actions_are_not_to_be_ignored() {
    let rows: String = (0..50).map(|row| format!("{row},1,a{row},1\n")).collect();
    let error = imported(&format!("episode,x,action,reward\n{rows}"), "").unwrap_err();
    assert!(error.contains("--action") && !error.contains("--ignore"), "{error}");
}

#[test]
fn spreadsheets_say_their_separator() {
    let plain = "episode;t;x;action;reward\n0;0;1;a;1\n0;1;2;b;0\n";
    let expected = imported(plain, "").unwrap();
    for start in ["sep=;\n", "\u{feff}sep=;\r\n", "\"SEP=;\"\n"] {
        assert_eq!(imported(&format!("{start}{plain}"), "").unwrap(), expected, "{start:?}");
    }
    let error = imported(&format!("sep=;\n{}", plain.replace("b;0", "b")), "").unwrap_err();
    assert!(error.contains("line 4: has 4 fields"), "{error}");
    let error = imported(&plain.replace('\n', "\r"), "").unwrap_err();
    assert!(error.contains("carriage returns alone"), "{error}");
}

/// Without importing anything, it is known whether the rows have an order.
#[test]
fn the_order_of_rows_is_checked_before_importing() {
    let rows = "episode,t,x,action,reward\n0,0,1,a,1\n1,3,1,a,1\n0,1,2,a,1\n";
    let check = |text: &str| {
        let (_folder, paths) = files(&[("log.csv", text.as_bytes())]);
        let survey = survey(&paths, &Mapping::default()).unwrap();
        let imported = survey.dataset(go_on).map(|_| ()).map_err(|error| error.to_string());
        let checked = survey.check_order(go_on).map_err(|error| error.to_string());
        assert_eq!(checked, imported);
        checked
    };
    check(rows).unwrap();
    let error = check(&rows.replace("0,1,2", "0,0,2")).unwrap_err();
    assert!(error.contains("line 4: episode `0` has the same time (`t`) as in line 2"), "{error}");
}

/// What an action led to is what the next row has; where most rows say something else, so do we.
#[test]
fn next_observations_that_contradict_the_next_rows_are_said() {
    let log = |next: fn(usize) -> String| {
        let row = |row: usize| {
            let (episode, step) = (row / 5, row % 5);
            format!("{episode},{step},{step}.0,a,1,{}\n", next(step))
        };
        let rows: String = (0..50).map(row).collect();
        format!("episode,t,x,action,reward,next_x\n{rows}")
    };
    let said = |next| notes(&log(next), "").join("\n").contains("in 40 of 40 rows");
    assert!(said(|_| "777".to_owned()));
    assert!(!said(|step| (step + 1).to_string()));
    assert!(!said(|step| if step == 4 { "9".to_owned() } else { String::new() }));
}

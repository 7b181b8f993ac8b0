//! Whatever is wrong with a table is said with its place; nothing is half-written, and nothing panics.

use super::*;

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

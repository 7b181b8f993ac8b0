//! What differs stays different: codes, texts, ids and times as they are spelled.

use super::*;

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

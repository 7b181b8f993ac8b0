//! From a log of one's own, without a world, to a page: `esper run DATA`, and `esper report` of single runs and of several.

mod common;

use std::fs;
use std::path::Path;

use esper_data::{
    DatasetBuilder, DatasetWriter, End, Field, FieldKind, Fields, Metadata, Space, Word,
};
use serde_json::Value;

use common::{attributes, esper, json, narrow, refused, shown_in_browser, small, stderr};

/// A ward and an age, a dose in words. Patients up to 50 do well with a full dose in ward B, others without one. Ann knows, Ben
/// gives it to everybody in turn; a quarter is luck. All `<b>` are to be seen as they are written.
fn write_log(path: &Path, episodes: u16) {
    let text = |text: &str| Word::Text(text.to_owned());
    let real = Space::Box { shape: vec![1], bounds: None };
    let observation = Space::Tuple { spaces: vec![Space::Discrete { n: 2 }, real] };
    let category = |values: Vec<Word>| FieldKind::Category { values };
    let fields = Fields {
        observation: vec![
            Field::new("ward", category(vec![text("A"), text("B <b>")])),
            Field::new("age", FieldKind::Number { fill: None }),
        ],
        action: vec![Field::new("dose", category(vec![text("none"), text("full")]))],
    };
    let metadata = Metadata { fields, ..Metadata::new(observation, Space::Discrete { n: 2 }) };
    let mut builder = DatasetBuilder::new(metadata.clone());
    for episode in 0..episodes {
        let (ward, age) = (f32::from(episode % 2), f32::from(20 + episode * 7 % 60));
        let right = u8::from(ward == 1.0 && age <= 50.0);
        let (who, dose) = match episode / 2 % 2 {
            0 => ("Ann", right),
            _ => ("Ben", (episode / 4 % 2) as u8),
        };
        let lucky = episode * 7919 % 13 < 3;
        builder.made_by(who);
        builder.push(&[ward, age], &[dose], f32::from(u8::from((dose == right) != lucky))).unwrap();
        builder.end(&[ward, age], End { terminated: true, truncated: false }).unwrap();
    }
    let data = builder.build().unwrap();
    let mut writer = DatasetWriter::create(path, &metadata, data.behaviours(), false).unwrap();
    writer.write(&data).unwrap();
    writer.finish().unwrap();
}

/// Promises that take as little time as networks do.
const QUICK: [&str; 4] = ["--set", "promise.steps=100", "--set", "leakage.luck_steps=60"];

fn run(folder: &Path, more: &[&str]) -> std::process::Output {
    small(
        folder,
        &[&["run", "ward.parquet", "--seeds", "2", "--out", "run"], &QUICK[..], more].concat(),
    )
}

/// Nothing is fetched, and names of the log are text.
fn is_whole(page: &str) {
    for address in attributes(page, "href").iter().chain(&attributes(page, "src")) {
        assert!(address.starts_with("data:") || address.starts_with('#'), "{address}");
    }
    assert!(!page.contains("B <b>"), "names are escaped");
}

#[test]
fn a_log_ends_in_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    write_log(&home.join("ward.parquet"), 800);
    let results = json(&run(home, &["--json"]));
    assert!(results["task"].is_null() && results["dataset"]["path"] == "ward.parquet");
    let behaviours = results["dataset"]["overview"]["behaviours"].as_array().unwrap();
    assert_eq!(behaviours.len(), 2);
    let page = fs::read_to_string(home.join("run/report.html")).unwrap();
    is_whole(&page);
    assert!(page.contains("B &lt;b&gt;"), "what changes is told in the words of the log");
    // Every promise on the page is the one in the results.
    let promised = attributes(&page, "data-of").into_iter().zip(attributes(&page, "data-promise"));
    let mut seen = 0;
    for (method, promise) in promised {
        let methods = results["methods"].as_array().unwrap();
        let of = methods.iter().find(|of| of["method"] == method).unwrap();
        let promise: f64 = promise.parse().unwrap();
        assert_eq!(of["offline_promise"]["promise"].as_f64().unwrap(), promise, "{method}");
        seen += 1;
    }
    assert_eq!(seen, 2, "conservative Q-learning promises nothing");
    let figures = [
        "ward-returns",
        "ward-mlp-promises",
        "ward-mlp-labels",
        "ward-mlp-esper-training",
        "ward-mlp-rvs-training",
        "ward-mlp-cql-training",
    ];
    assert_eq!(attributes(&page, "data-figure"), figures);
    for words in ["Who acted how well", "Ann", "What levels promise", "would be done differently"] {
        assert!(page.contains(words), "{words}");
    }
    assert!(!page.contains("best return</th>") && !page.contains("episodes with each target"));
    assert!(page.contains("esper run ward.parquet --methods esper,rvs,cql"), "how to run it again");
    shown_in_browser(home, &page, figures.len());
    let made = json(&esper(home, &["report", "run", "--figures", "figures", "--json"]));
    assert_eq!(made["figures"].as_array().unwrap().len(), 3 * figures.len());
    // Gone on with it says the same, in words that fit a terminal.
    let text = narrow(&run(home, &["--resume"]));
    for words in ["best behaviour: Ann", "esper", "promise", "800 steps in 800 episodes"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    write_log(&home.join("other.parquet"), 798);
    fs::rename(home.join("other.parquet"), home.join("ward.parquet")).unwrap();
    refused(&run(home, &["--resume"]), 1, "other data than ward.parquet");
    refused(&esper(home, &["run", "nowhere.parquet"]), 2, "there is no such file");
}

#[test]
fn runs_of_the_same_data_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    write_log(&home.join("ward.parquet"), 600);
    write_log(&home.join("few.parquet"), 60);
    let train = |data: &str, method: &str, out: &str, more: &[&str]| -> Value {
        let command = ["train", data, "--method", method, "--out", out, "--json"];
        json(&small(home, &[&command[..], &QUICK, more].concat()))
    };
    train("ward.parquet", "esper", "one", &[]);
    train("ward.parquet", "rvs", "two", &["--seed", "0"]);
    train("ward.parquet", "rvs", "three", &["--seed", "1"]);
    train("ward.parquet", "rvs", "wide", &["--set", "mlp.hidden=32"]);
    let few = train("few.parquet", "rvs", "few", &[]);
    assert!(few["warnings"][0].as_str().unwrap().starts_with("only 60 episodes"), "{few}");
    let page = |arguments: &[&str], path: &str| {
        narrow(&esper(home, &[&["report"], arguments].concat()));
        let page = fs::read_to_string(home.join(path)).unwrap();
        is_whole(&page);
        page
    };
    let alone = page(&["one"], "one/report.html");
    let figures = ["one-returns", "one-mlp-promises", "one-mlp-labels", "one-mlp-esper-training"];
    assert_eq!(attributes(&alone, "data-figure"), figures);
    assert_eq!(attributes(&alone, "data-of"), ["esper"]);
    let several = page(&["one", "two", "three", "wide", "--out", "all.html"], "all.html");
    // The same with another seed is the same method; with other settings it goes by its folder.
    assert_eq!(attributes(&several, "data-of"), ["esper", "two", "wide"]);
    assert!(several.contains("return conditioning (wide)"), "told apart");
    refused(&esper(home, &["report", "one", "few"]), 1, "were trained on different data");
    refused(&esper(home, &["report", "one", "nowhere"]), 1, "there is no folder nowhere");
    let warned = page(&["few"], "few/report.html");
    assert!(warned.contains("To look at first") && warned.contains("only 60 episodes"));
    // As a version left it that did not keep what the data says.
    for name in ["data.json", "differences.json"] {
        fs::remove_file(home.join("few").join(name)).unwrap();
    }
    let older = page(&["few"], "few/report.html");
    assert!(older.contains("that return – on average") && older.contains("an older version"));
    assert!(!older.contains("NaN"), "what is not known is no number");
}

/// Without a world, shares of the data are compared by what they promise: in the terminal, and on the page.
#[test]
fn shares_of_a_log_have_promises() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    write_log(&home.join("ward.parquet"), 400);
    let shares = ["--fractions", "50%,100%", "--seeds", "1"];
    let arguments = [&["run", "ward.parquet", "--out", "run"], &QUICK[..], &shares].concat();
    let text = narrow(&small(home, &arguments));
    let rows: Vec<&str> = text.lines().filter(|line| line.contains(" esper ")).collect();
    let scaling: Value =
        serde_json::from_slice(&fs::read(home.join("run/scaling.json")).unwrap()).unwrap();
    let page = fs::read_to_string(home.join("run/report.html")).unwrap();
    is_whole(&page);
    assert!(!page.contains("episodes with each target"), "nothing was tried");
    for (at, row) in rows.iter().enumerate() {
        let promise = &scaling["fractions"][at]["methods"][0]["offline_promise"]["promise"];
        let promise = format!("{:.3}", promise.as_f64().unwrap());
        assert!(row.contains(&promise), "{row}");
        assert!(page.contains(promise.trim_end_matches('0')), "{promise}");
    }
    assert_eq!(rows.len(), 2, "{text}");
    assert!(page.contains("what is promised with more data"));
}

/// Two columns of actions in words: what nobody asked for is left out, and said. Which column is what is said, too.
#[test]
fn a_table_is_learned_from_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let mut rows = "visit,obs_age,action_dose,action_place,reward\n".to_owned();
    for visit in 0..80 {
        let (dose, place) = (["none", "full"][visit % 2], ["home", "ward", "desk"][visit % 3]);
        rows += &format!("v{visit},{},{dose},{place},{}\n", 20 + visit % 50, visit % 4);
    }
    rows = rows.replace("visit,", "episode,");
    fs::write(folder.path().join("visits.csv"), rows).unwrap();
    let arguments = [&["run", "visits.csv", "--seeds", "1", "--out", "run", "--json"], &QUICK[..]];
    let output = small(folder.path(), &arguments.concat());
    let results = json(&output);
    assert_eq!(results["methods"].as_array().unwrap().len(), 2);
    assert_eq!(results["left_out"][0]["method"], "cql");
    let said = stderr(&output);
    assert!(said.contains("cql is left out"), "{said}");
    let columns = "columns: episode `episode`; observation `obs_age`; action `action_dose`, `action_place`; reward `reward`";
    assert!(said.contains(columns), "{said}");
    assert!(
        fs::read_to_string(folder.path().join("run/report.html")).unwrap().contains("left out")
    );
    // A comparison has several policies, and is no data set.
    let onnx = ["export", "run", "--onnx", "policy.onnx"];
    refused(&esper(folder.path(), &onnx), 2, "name one of them, such as run/esper-mlp-0");
    let csv = ["export", "run", "--csv", "run.csv"];
    refused(&esper(folder.path(), &csv), 2, "run is a run: --csv");
    let asked = ["run", "visits.csv", "--methods", "esper,cql", "--out", "other", "--quiet"];
    let output = esper(folder.path(), &asked);
    refused(&output, 2, "--methods esper");
    assert!(!stderr(&output).contains("columns:"), "--quiet says no notes");
}

//! The page: whole, true to the results, and at home in a browser.

mod common;

use std::fs;
use std::path::Path;

use serde_json::Value;

use common::{attributes, esper, json, refused, shown_in_browser, small, stderr};

/// A small comparison, its results and its page.
fn compared(folder: &Path) -> (Value, String) {
    let run = ["run", "gambling", "--seeds", "2", "--steps", "4000", "--episodes", "50"];
    let results = json(&small(folder, &[&run[..], &["--out", "run", "--json"]].concat()));
    (results, fs::read_to_string(folder.join("run/report.html")).unwrap())
}

const FIGURES: [&str; 5] = [
    "gambling-mlp-targets",
    "gambling-mlp-labels",
    "gambling-mlp-esper-training",
    "gambling-mlp-rvs-training",
    "gambling-mlp-cql-training",
];

/// Every number of the table on the page is the one in results.json, to the last digit.
fn page_agrees(page: &str, results: &Value) {
    let cells = attributes(page, "data-method")
        .into_iter()
        .zip(attributes(page, "data-value"))
        .zip(attributes(page, "data-mean").into_iter().zip(attributes(page, "data-std")));
    let mut seen = 0;
    for ((method, value), (mean, std)) in cells {
        let methods = results["methods"].as_array().unwrap();
        let of = methods.iter().find(|of| of["method"] == method).unwrap();
        let number = |text: &str| text.parse::<f64>().unwrap();
        assert_eq!(of[value]["mean"].as_f64().unwrap(), number(mean), "{method} {value}");
        assert_eq!(of[value]["std"].as_f64().unwrap(), number(std), "{method} {value}");
        seen += 1;
    }
    // Four numbers of each method with targets, three of CQL; and the paper's of all three.
    assert_eq!(seen, 4 + 4 + 3 + 3);
}

#[test]
fn a_page_is_whole_and_true() {
    let folder = tempfile::tempdir().unwrap();
    let (results, page) = compared(folder.path());
    page_agrees(&page, &results);
    assert_eq!(attributes(&page, "data-figure"), FIGURES);
    // Nothing is fetched: the only addresses are names of formats and what is in the page itself.
    for address in attributes(&page, "href").iter().chain(&attributes(&page, "src")) {
        assert!(address.starts_with("data:") || address.starts_with('#'), "{address}");
    }
    assert!(!page.contains("@import") && !page.contains("url("));
    let embedded = page.split("class=\"results-json\">").nth(1).unwrap();
    let embedded: Value =
        serde_json::from_str(embedded.split("</script>").next().unwrap()).unwrap();
    assert_eq!(embedded, results);
    assert!(page.contains("esper run gambling --methods esper,rvs,cql --policy mlp --seeds 2"));
    assert!(page.contains(" --set cluster.hidden=16 "), "with the settings it was run with");
}

#[test]
fn figures_are_files_too() {
    let folder = tempfile::tempdir().unwrap();
    compared(folder.path());
    let made = ["report", "run", "--figures", "figures", "--out", "page.html", "--json"];
    let written = json(&esper(folder.path(), &made));
    assert_eq!(written["report"], "page.html");
    assert_eq!(written["figures"].as_array().unwrap().len(), 3 * FIGURES.len());
    for figure in FIGURES {
        let read = |ending: &str| {
            fs::read(folder.path().join("figures").join(format!("{figure}.{ending}"))).unwrap()
        };
        assert!(read("svg").starts_with(b"<svg xmlns"), "{figure}");
        assert!(read("png").starts_with(b"\x89PNG"), "{figure}");
        assert!(read("csv").iter().filter(|&&byte| byte == b'\n').count() > 2, "{figure}");
    }
    let report = |place: &str| esper(folder.path(), &["report", place]);
    refused(&report("nowhere"), 1, "there is no such folder");
    refused(&report("page.html"), 1, "it is no folder");
    refused(&report("figures"), 1, "`esper run` and `esper reproduce` make them");
    fs::remove_file(folder.path().join("run/results.json")).unwrap();
    refused(&report("run"), 1, "not complete");
}

/// What the terminal gets fits eighty columns, and has no colours where there is no terminal.
#[test]
fn tables_fit_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let run = ["run", "gambling", "--steps", "4000", "--episodes", "50"];
    let transformer = ["--policy", "transformer", "--methods", "all", "--seeds", "2"];
    let shares = ["--fractions", "50%,100%", "--methods", "all", "--seeds", "1"];
    for more in [&transformer[..], &shares] {
        let out = ["--out", more[0].trim_start_matches('-')];
        let output = small(folder.path(), &[&run[..], more, &out].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("best") && text.lines().count() > 4, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(!text.contains('\x1b'), "{text:?}");
    }
}

/// Opened from disk at the width of a desk and of a phone: every figure has a size, pointing at a mark says what it is,
/// nothing is wider than the window, and the numbers are those of the results.
#[test]
fn a_browser_shows_it() {
    let folder = tempfile::tempdir().unwrap();
    let (results, page) = compared(folder.path());
    for dom in shown_in_browser(folder.path(), &page, FIGURES.len()) {
        page_agrees(&dom, &results);
    }
}

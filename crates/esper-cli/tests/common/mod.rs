//! What tests of the program share.
#![allow(dead_code, reason = "no test uses all of it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// Settings that make networks too small to learn much.
const SMALL: [&str; 16] = [
    "cluster.steps=60",
    "cluster.hidden=16",
    "cluster.batch=20",
    "leakage.steps=30",
    "leakage.luck_steps=0",
    "returns.steps=60",
    "returns.batch=50",
    "returns.hidden=16",
    "mlp.steps=150",
    "mlp.hidden=16",
    "mlp.batch=100",
    "cql.steps=60",
    "cql.hidden=16",
    "transformer.steps=30",
    "transformer.width=16",
    "transformer.batch=8",
];

/// Runs the program in a folder.
pub(crate) fn esper(folder: &Path, arguments: &[&str]) -> Output {
    let program =
        Command::new(env!("CARGO_BIN_EXE_esper")).args(arguments).current_dir(folder).output();
    program.expect("the program starts")
}

/// Options that make networks small.
pub(crate) fn small_settings() -> Vec<&'static str> {
    SMALL.iter().flat_map(|setting| ["--set", setting]).collect()
}

/// The same with small networks, unless the arguments set something else.
pub(crate) fn small(folder: &Path, arguments: &[&str]) -> Output {
    let (command, arguments) = arguments.split_first().expect("there is a command");
    esper(folder, &[&[*command], &small_settings()[..], arguments].concat())
}

pub(crate) fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).expect("standard output is one JSON document")
}

/// What the program printed, which is to fit a terminal of 80 columns.
pub(crate) fn narrow(output: &Output) -> String {
    assert!(output.status.success(), "{}", stderr(output));
    let text = String::from_utf8(output.stdout.clone()).expect("text");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    text
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Fails with a status, and says this.
pub(crate) fn refused(output: &Output, status: i32, words: &str) {
    assert_eq!(output.status.code(), Some(status), "{}", stderr(output));
    assert!(stderr(output).contains(words), "{}", stderr(output));
    assert!(output.stdout.is_empty());
}

/// The value of an attribute in every element that has it, in order.
pub(crate) fn attributes<'a>(page: &'a str, name: &str) -> Vec<&'a str> {
    let start = format!(" {name}=\"");
    page.split(&start).skip(1).map(|rest| rest.split('"').next().unwrap()).collect()
}

/// Chromium, if the machine has it.
fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let mut places =
        std::env::split_paths(&path).flat_map(|folder| names.map(|name| folder.join(name)));
    places.find(|place| place.is_file())
}

/// What a browser makes of a page at the width of a desk and of a phone: no word of complaint on the console, the script has
/// run, so many figures have a size, pointing at a mark says what it is, nothing is wider than the window. Nothing where
/// there is no browser.
pub(crate) fn shown_in_browser(folder: &Path, page: &str, figures: usize) -> Vec<String> {
    let Some(browser) = browser() else {
        eprintln!("there is no Chromium on the path: the page is not tested in a browser");
        return Vec::new();
    };
    // Asked from within: how large things are.
    let probe = "<script>addEventListener('load', () => { \
        const figures = [...document.querySelectorAll('svg[data-figure]')]; \
        document.body.dataset.shown = figures.filter((f) => f.getBoundingClientRect().height > 60).length; \
        document.body.dataset.overflow = document.documentElement.scrollWidth - window.innerWidth; \
        document.body.dataset.titles = document.querySelectorAll('[data-says] > title').length; \
        const dot = document.querySelector('circle[data-says]'); \
        const box = dot.getBoundingClientRect(); \
        dot.dispatchEvent(new PointerEvent('pointermove', { bubbles: true, clientX: box.x, clientY: box.y })); \
        document.body.dataset.hover = document.getElementById('says').textContent === dot.dataset.says; \
    });</script></body>";
    let probed = folder.join("probed.html");
    fs::write(&probed, page.replace("</body>", probe)).unwrap();
    let show = |width: u32| {
        let output = Command::new(&browser)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"])
            .arg(format!("--user-data-dir={}", folder.join("profile").display()))
            .arg(format!("--window-size={width},900"))
            .arg("--dump-dom")
            .arg(format!("file://{}", probed.display()))
            .output()
            .expect("the browser starts");
        let dom = String::from_utf8_lossy(&output.stdout).into_owned();
        let complaints = stderr(&output);
        assert!(!complaints.contains("CONSOLE"), "{complaints}");
        let shown = |name: &str| attributes(&dom, name).first().map(|text| (*text).to_owned());
        assert_eq!(shown("data-shown"), Some(figures.to_string()), "{width}: {complaints}");
        assert_eq!(shown("data-titles").as_deref(), Some("0"), "the script has run");
        assert_eq!(shown("data-hover").as_deref(), Some("true"), "a mark says what it is");
        let overflow: f64 = shown("data-overflow").unwrap().parse().unwrap();
        assert!(overflow <= 0.0, "{overflow} pixels too wide at {width}");
        dom
    };
    vec![show(1280), show(500)]
}

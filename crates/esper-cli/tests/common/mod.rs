//! What tests of the program share.
#![allow(dead_code, reason = "no test uses all of it")]

use std::fs::{self, File};
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

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

/// How long something may take that a test waits for: far longer than on any machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The program, in a folder. Whoever runs the tests may have asked all programs for colours.
pub(crate) fn program(folder: &Path) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_esper"));
    program.current_dir(folder).env_remove("CLICOLOR_FORCE");
    program
}

/// Runs the program in a folder.
pub(crate) fn esper(folder: &Path, arguments: &[&str]) -> Output {
    program(folder).args(arguments).output().expect("the program starts")
}

/// A process that is killed when its test is over, also by an assertion that fails.
pub(crate) struct Running(Child);

impl Running {
    /// Starts a process of which nothing is read.
    pub(crate) fn start(command: &mut Command) -> Self {
        let silent = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Running(silent.spawn().expect("the program starts"))
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Waits until something is so; it has to run until then.
    pub(crate) fn wait_until(&mut self, what: &str, so: impl Fn() -> bool) {
        let since = Instant::now();
        while !so() {
            assert_eq!(self.0.try_wait().unwrap(), None, "{what}: it should still be running");
            assert!(since.elapsed() < PATIENCE, "{what}: waited for in vain");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until it has ended; nothing if it does not.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        let since = Instant::now();
        loop {
            let status = self.0.try_wait().unwrap();
            if status.is_some() || since.elapsed() > PATIENCE {
                return status;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended by itself cannot be killed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
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

/// Runs Chromium on a page, without a screen; nothing if it does not start or never ends.
fn chromium(browser: &Path, folder: &Path, width: u32, page: &str) -> Option<Output> {
    // Files, not pipes: what it has started itself may keep a pipe open when it is gone.
    let mut said = [tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap()];
    let [stdout, stderr] = said.each_ref().map(|file| file.try_clone().unwrap());
    let child = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"])
        // In a container /dev/shm is often too small for it.
        .arg("--disable-dev-shm-usage")
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(format!("--window-size={width},900"))
        .args(["--dump-dom", page])
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(stderr)
        .spawn();
    let status = Running(child.ok()?).ended()?;
    let [stdout, stderr] = said.each_mut().map(|file: &mut File| {
        let mut bytes = Vec::new();
        file.rewind().and_then(|()| file.read_to_end(&mut bytes)).unwrap();
        bytes
    });
    Some(Output { status, stdout, stderr })
}

/// Chromium, if the machine has one that shows pages: a file of that name may only say how to install it.
fn browser(folder: &Path) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let mut places =
        std::env::split_paths(&path).flat_map(|folder| names.map(|name| folder.join(name)));
    places.find(|place| {
        let shown = || chromium(place, folder, 500, "data:text/html,shown");
        place.is_file()
            && shown().is_some_and(|output| {
                output.status.success() && String::from_utf8_lossy(&output.stdout).contains("shown")
            })
    })
}

/// What a browser makes of a page at the width of a desk and of a phone: no word of complaint on the console, the script has
/// run, so many figures have a size, pointing at a mark says what it is, nothing is wider than the window. Nothing where
/// there is no browser that works.
pub(crate) fn shown_in_browser(folder: &Path, page: &str, figures: usize) -> Vec<String> {
    let Some(browser) = browser(folder) else {
        eprintln!(
            "there is no Chromium on the path that works: the page is not tested in a browser"
        );
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
        let output = chromium(&browser, folder, width, &format!("file://{}", probed.display()))
            .expect("the browser shows the page");
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

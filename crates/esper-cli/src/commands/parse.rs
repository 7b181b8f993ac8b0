//! What users write on the command line, checked.

use std::num::IntErrorKind;
use std::path::PathBuf;

use esper::Registry;
use esper_eval::Experiment;
use esper_eval::text::count;
use esper_tasks::{Task, find_task};

/// The most steps that can be asked for: some tens of gigabytes of file.
const MOST_STEPS: u64 = 1_000_000_000;

/// A built-in task, by name or alias, with options of its world.
pub(super) fn parse_task(name: &str) -> Result<&'static Task, String> {
    find_task(name).map_err(|error| error.to_string())
}

/// What to learn from.
#[derive(Clone)]
pub(super) enum Source {
    /// A task, whose data is collected.
    Task(&'static Task),
    /// A file of data.
    Data(PathBuf),
}

/// A built-in task, or else a file of data. A file that is called like a task goes by a path: `./gambling`.
pub(super) fn parse_source(text: &str) -> Result<Source, String> {
    let path = PathBuf::from(text);
    match find_task(text) {
        Ok(task) => Ok(Source::Task(task)),
        Err(_) if path.exists() => Ok(Source::Data(path)),
        // What looks like a file is meant to be one.
        Err(_) if path.extension().is_some() || text.contains(['/', '\\']) => {
            Err("there is no such file, and no such task".to_owned())
        }
        Err(error) => Err(format!("{error}; and there is no such file")),
    }
}

/// The name of a built-in method.
pub(super) fn parse_method(name: &str) -> Result<String, String> {
    let known = Registry::default().method(name);
    known.map(|method| method.about().name).map_err(|error| error.to_string())
}

/// The name of a built-in policy.
pub(super) fn parse_policy(name: &str) -> Result<String, String> {
    let known = Registry::default().policy(name);
    known.map(|policy| policy.name().to_owned()).map_err(|error| error.to_string())
}

/// What `--method` is, with all that are built in.
pub(super) fn method_help() -> String {
    let methods = Registry::default();
    let about = methods.methods().iter().map(|method| method.about());
    let each: Vec<String> = about.map(|of| format!("`{}` {}", of.name, of.summary)).collect();
    format!("How to learn: {}", each.join("; "))
}

/// What `--methods` is.
pub(super) fn methods_help() -> String {
    let registry = Registry::default();
    let usual = |shares: bool| -> String {
        let usual = Experiment::usual_methods(&registry, shares).iter();
        usual.map(|method| method.about().name).collect::<Vec<_>>().join(",")
    };
    format!(
        "The methods to compare ({}), or `all` [default: {}; {} with --fractions]",
        registry.method_names().join(", "),
        usual(false),
        usual(true)
    )
}

/// What `--policy` is.
pub(super) fn policy_help() -> String {
    let policies = Registry::default();
    let each = policies.policies().iter();
    let each: Vec<String> = each.map(|of| format!("`{}`, {}", of.name(), of.summary())).collect();
    format!("What is trained on the labels: {}", each.join("; "))
}

/// Methods, each once.
#[derive(Clone)]
pub(super) struct Methods(pub(super) Vec<String>);

/// Names of methods with commas between them, or `all`.
pub(super) fn parse_methods(text: &str) -> Result<Methods, String> {
    if text == "all" {
        return Ok(Methods(Registry::default().method_names()));
    }
    text.split(',').map(|name| parse_method(name.trim())).collect::<Result<_, _>>().map(Methods)
}

pub(super) fn parse_steps(text: &str) -> Result<u64, String> {
    let too_many = || format!("at most {} steps can be collected", count(MOST_STEPS as usize));
    match text.parse::<u64>() {
        Ok(0) => Err("at least one step is needed".to_owned()),
        Ok(steps @ 1..=MOST_STEPS) => Ok(steps),
        Ok(_) => Err(too_many()),
        Err(error) if *error.kind() == IntErrorKind::PosOverflow => Err(too_many()),
        Err(_) => Err("not a whole number above 0".to_owned()),
    }
}

/// The episodes that a user may ask for.
pub(super) fn parse_episodes(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(episodes @ 1..=1_000_000) => Ok(episodes),
        _ => Err("not a whole number from 1 to 1,000,000".to_owned()),
    }
}

/// A share: 0.05 or 5%. Nothing but percent can be meant by a bare number above one.
pub(super) fn parse_fraction(text: &str) -> Result<f64, String> {
    let (digits, percent) = match text.trim().strip_suffix('%') {
        Some(digits) => (digits.trim_end(), true),
        None => (text.trim(), false),
    };
    let share = digits.parse::<f64>().map(|number| match percent || number > 1.0 {
        true => number / 100.0,
        false => number,
    });
    match share {
        Ok(share) if share > 0.0 && share <= 1.0 => Ok(share),
        _ => Err("not a share above 0% and up to 100%, as in 0.05 or 5%".to_owned()),
    }
}

pub(super) fn parse_level(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(level) if (0.0..=1.0).contains(&level) => Ok(level),
        _ => Err("not a level from 0 to 1".to_owned()),
    }
}

pub(super) fn parse_target(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(target) if target.is_finite() => Ok(target),
        _ => Err("not a number".to_owned()),
    }
}

//! The tasks that are built in, and finding one by its name.

use std::sync::{LazyLock, Mutex, PoisonError};

use crate::task::Task;
use crate::{connect_four, gambling, mujoco, proving, twenty48};

/// The tasks that are built in.
pub fn tasks() -> &'static [Task] {
    static TASKS: LazyLock<Vec<Task>> = LazyLock::new(|| {
        let mut tasks = vec![gambling::task(), connect_four::task(), twenty48::task()];
        tasks.extend(mujoco::tasks());
        tasks.extend(proving::tasks());
        tasks
    });
    &TASKS
}

/// The built-in task of a name: [`find_task`] without a reason why there is none.
pub fn task(name: &str) -> Option<&'static Task> {
    find_task(name).ok()
}

/// The built-in task of a name, or of one of its aliases. Options of its world follow the name: `hopper+noise=0.5`.
///
/// ```
/// assert_eq!(esper_tasks::find_task("2048")?.name(), "twenty48");
/// assert_eq!(esper_tasks::find_task("hopper+noise=.50")?.name(), "hopper+noise=0.5");
/// assert_eq!(esper_tasks::find_task("hopper+noise=1e-300")?.name(), "hopper+noise=1e-300");
/// assert!(esper_tasks::find_task("hopper+wind=3").is_err());
/// # Ok::<(), esper_tasks::TaskError>(())
/// ```
pub fn find_task(name: &str) -> Result<&'static Task, TaskError> {
    let mut parts = name.split('+');
    let stem = parts.next().unwrap_or_default();
    let named =
        |task: &&Task| task.name() == stem || task.aliases().iter().any(|alias| alias == stem);
    let unknown = || TaskError::Unknown {
        asked: stem.to_owned(),
        known: listed(tasks().iter().map(Task::name))
            + ", mdp-SEED, points-SEED, hidden-SEED, hidden-points-SEED, long-SEED",
    };
    let listed = tasks().iter().find(named);
    let mut task = match listed {
        Some(task) => task.clone(),
        None => proving::random_task(stem).ok_or_else(unknown)?,
    };
    for setting in parts {
        let (option, text) = setting.split_once('=').unwrap_or((setting, ""));
        let value = text.parse().map_err(|_| task.wrong_value(option, text));
        task = task.with_value(option, value?)?;
    }
    if let Some(plain) = listed.filter(|plain| plain.name() == task.name()) {
        return Ok(plain);
    }
    // A process asks for few different ones, so each is kept for good.
    static MADE: Mutex<Vec<&'static Task>> = Mutex::new(Vec::new());
    let mut kept = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let known = kept.iter().find(|other| other.name() == task.name()).copied();
    Ok(known.unwrap_or_else(|| {
        let task = &*Box::leak(Box::new(task));
        kept.push(task);
        task
    }))
}

/// Names with commas between them.
pub(crate) fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

/// Why there is no task of a name.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// No task has the name.
    #[error("there is no task `{asked}`; there are {known}")]
    Unknown {
        /// What was asked for.
        asked: String,
        /// What there is.
        known: String,
    },
    /// The task's world does not have the option.
    #[error("{task} has no option `{asked}`; it has {known}")]
    UnknownOption {
        /// The task.
        task: String,
        /// What was asked for.
        asked: String,
        /// What there is.
        known: String,
    },
    /// The option does not take the value.
    #[error(
        "`{option}` of {task} is a number from {low} to {high}, as in {task}+{option}={high}; not `{asked}`"
    )]
    Value {
        /// The task.
        task: String,
        /// The option.
        option: String,
        /// What was asked for.
        asked: String,
        /// The lowest value.
        low: f64,
        /// The highest value.
        high: f64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::specs::OptionSpec;
    use crate::world::World;

    #[test]
    fn a_value_is_part_of_the_name() {
        let name = |asked: &str| find_task(asked).map(|task| task.name().to_owned());
        assert_eq!(name("hopper+noise=0.50").unwrap(), "hopper+noise=0.5");
        assert_eq!(name("Hopper-v5+noise=1").unwrap(), "hopper+noise=1");
        // The usual value is no other world.
        assert_eq!(name("hopper+noise=0").unwrap(), "hopper");
        let noisy = find_task("hopper+noise=0.25").unwrap();
        assert!(std::ptr::eq(noisy, find_task("hopper+noise=0.250").unwrap()));
        assert_eq!(noisy.options().map(|(_, value)| value).collect::<Vec<_>>(), [0.25]);
        assert_eq!(noisy.reference_returns(), find_task("hopper").unwrap().reference_returns());
        assert!(noisy.aliases().is_empty());
    }

    #[test]
    fn what_no_task_has_is_refused_in_words() {
        let problem = |asked: &str| find_task(asked).unwrap_err().to_string();
        assert!(problem("chess").starts_with("there is no task `chess`; there are gambling, "));
        assert_eq!(problem("hopper+wind=3"), "hopper has no option `wind`; it has noise");
        assert_eq!(problem("gambling+noise=1"), "gambling has no option `noise`; it has none");
        for value in ["hopper+noise=-1", "hopper+noise=NaN", "hopper+noise=loud", "hopper+noise"] {
            assert!(problem(value).starts_with("`noise` of hopper is a number from 0 to 10, "));
        }
        assert!(task("hopper+").is_none());
    }

    /// What is published for a world is not said of the same world with more chance.
    #[test]
    fn published_results_are_of_the_usual_world() {
        let wind = OptionSpec::new("wind", 1.0, [0.0, 2.0]);
        let make = |_: &[f64]| Ok(Box::new(gambling::Gambling::default()) as Box<dyn World>);
        let mine = Task::with_options("mine", [wind], make).with_published("esper", None, 1.0, 0.0);
        assert!(mine.published("esper", None, None).is_some());
        let calm = mine.with_value("wind", 0.0).unwrap();
        assert_eq!((calm.name(), calm.published("esper", None, None)), ("mine+wind=0", None));
        assert_eq!(calm.with_value("wind", 1.0).unwrap().name(), "mine");
    }

    #[test]
    fn scores_are_normalised_as_in_d4rl() {
        let returns = task("halfcheetah").unwrap().reference_returns().unwrap();
        assert_eq!(returns.normalised_score(-280.18), 0.0);
        assert_eq!(returns.normalised_score(12_135.0), 100.0);
    }
}

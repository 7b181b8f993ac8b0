//! `esper tasks`: what is built in.

use esper_data::Space;
use esper_tasks::Task;
use serde::Serialize;

use crate::output::{Failure, Output, count};

#[derive(Serialize)]
struct TaskDescription {
    name: &'static str,
    summary: &'static str,
    observation_space: Space,
    action_space: Space,
    steps: u64,
    behaviours: Vec<BehaviourDescription>,
}

#[derive(Serialize)]
struct BehaviourDescription {
    name: &'static str,
    summary: &'static str,
    by_default: bool,
}

pub(crate) fn run(output: &Output) -> Result<(), Failure> {
    let tasks: Vec<TaskDescription> = Task::ALL.into_iter().map(describe).collect();
    output.result(&tasks, || tasks.iter().map(text).collect::<Vec<_>>().join("\n"))
}

fn describe(task: Task) -> TaskDescription {
    let behaviours = task.behaviours().iter().map(|behaviour| BehaviourDescription {
        name: behaviour.name,
        summary: behaviour.summary,
        by_default: behaviour.by_default,
    });
    let (observation_space, action_space) = task.spaces();
    TaskDescription {
        name: task.name(),
        summary: task.summary(),
        observation_space,
        action_space,
        steps: task.default_steps(),
        behaviours: behaviours.collect(),
    }
}

fn text(task: &TaskDescription) -> String {
    let mut text = format!("{}\n", task.name);
    for line in wrapped(task.summary, 90) {
        text += &format!("  {line}\n");
    }
    text += &format!("  observation  {}\n", task.observation_space);
    text += &format!("  action       {}\n", task.action_space);
    text += &format!("  data         {} steps\n", count(task.steps as usize));
    for (index, behaviour) in task.behaviours.iter().enumerate() {
        let heading = if index == 0 { "behaviours" } else { "" };
        let extra = if behaviour.by_default { "" } else { " (only when asked for)" };
        text += &format!("  {heading:<12} {}: {}{extra}\n", behaviour.name, behaviour.summary);
    }
    text
}

/// Breaks a text into lines of at most `width` characters.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is always a line");
        if !line.is_empty() && line.len() + 1 + word.len() > width {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

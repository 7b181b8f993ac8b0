//! What `esper run` says of logged data: what can be known without a world.

use esper_data::BehaviourReturns;
use esper_eval::text::{count, number, percent};
use esper_eval::{MethodResults, Results, Scaling, ScalingEntry};

use super::run::over;
use super::summary::warnings_text;
use crate::output::{Output, Paint, table, wrapped};

/// What levels promise beside the past, and what to look at.
pub(super) fn promises_text(results: &Results, output: &Output) -> String {
    let Results { preset, seeds, dataset, .. } = results;
    let policy = results.methods.iter().find_map(|method| method.policy.as_deref());
    let policy = policy.map_or(String::new(), |policy| format!(", {policy} policy"));
    let heading = format!("{}, {preset}{policy}; {}", results.name(), over(*seeds));
    let overview = dataset.overview.as_ref();
    let best = overview.and_then(|overview| overview.best_behaviour());
    let mut text = output.paint(Paint::Heading, &heading) + "\n\n";
    let mut line = |words: String| text += &format!("  {}\n", wrapped(&words, 80, 2));
    if let Some(overview) = overview {
        line(format!(
            "{} steps in {} episodes, which return {} on average",
            count(dataset.steps),
            count(dataset.episodes),
            mean(&overview.all)
        ));
    }
    if let Some(best) = best {
        line(format!(
            "best behaviour: {}, {} in {} episodes",
            best.name,
            mean(best),
            count(best.episodes)
        ));
    }
    let runs = || results.methods.iter().flat_map(|method| &method.runs);
    let shares = runs().filter_map(|run| Some(run.findings.clustering.as_ref()?.luck?.share));
    if let Some(share) = esper_eval::MeanStd::of(shares) {
        let share = percent((share.mean * 100.0).round() / 100.0);
        line(format!("luck: {share} of the variance of returns"));
    }
    let heading =
        ["method", "level", "promise", "from", "to", "data", "best", "warnings", "seconds"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    let past = [overview.map(|of| of.all.mean_return), best.map(|of| of.mean_return)];
    rows.extend(results.methods.iter().map(|method| row(method, past)));
    text += &format!("\n{}", table(&rows));
    text += &warnings_text(overview.map_or(&[], |overview| &overview.warnings));
    text
}

/// What every share of the data promises, where there is no world to try policies in.
pub(super) fn shares_text(scaling: &Scaling, output: &Output) -> String {
    let heading = ["data", "steps", "mean", "method", "level", "promise", "from", "to"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for ScalingEntry { fraction, results } in &scaling.fractions {
        let mean = format!("{:.3}", results.dataset.mean_return);
        for method in &results.methods {
            let mut cells = vec![percent(*fraction), count(results.dataset.steps), mean.clone()];
            cells.extend(row(method, [None; 2]).into_iter().take(5));
            rows.push(cells);
        }
    }
    let first = scaling.fractions.first().map(|entry| &entry.results);
    let (name, seeds) = first.map_or((String::new(), 0), |of| (of.name(), of.seeds));
    let heading = format!("{name}, {}: promises, {}", scaling.preset, over(seeds));
    format!("{}\n\n{}", output.paint(Paint::Heading, &heading), table(&rows))
}

/// A method's chosen level and what it promises; nothing of methods that cannot be asked.
fn row(method: &MethodResults, past: [Option<f64>; 2]) -> Vec<String> {
    let cell = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.3}"));
    let chosen = method.offline_promise;
    let warned: usize = method.runs.iter().map(|run| run.findings.warnings.len()).sum();
    let level = chosen.and_then(|chosen| chosen.level);
    let mut row =
        vec![method.method.clone(), level.map_or("-".to_owned(), |level| format!("{level:.2}"))];
    let [promise, low, high] = [
        chosen.map(|chosen| chosen.promise),
        chosen.and_then(|chosen| chosen.low),
        chosen.and_then(|chosen| chosen.high),
    ];
    row.extend([promise, low, high, past[0], past[1]].map(cell));
    row.push(warned.to_string());
    row.push(method.train_seconds.map_or("-".to_owned(), |seconds| format!("{:.0}", seconds.mean)));
    row
}

/// A mean with its interval.
fn mean(of: &BehaviourReturns) -> String {
    let interval = match (of.low, of.high) {
        (Some(low), Some(high)) => format!(" ({} to {})", number(low), number(high)),
        _ => String::new(),
    };
    format!("{}{interval}", number(of.mean_return))
}

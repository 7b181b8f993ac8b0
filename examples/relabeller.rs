//! A relabeller of your own, in one file: settings, labels, registration; then compared with ESPER, with a report.
//!
//! ```sh
//! cargo run --release -p esper-examples --bin relabeller
//! ```

use std::collections::HashMap;

use esper::methods::{About, Context, Findings, Labels, Measure, Relabel};
use esper::settings::Section;
use esper::{Error, Registry};
use esper_eval::{Experiment, Unobserved};
use esper_report::Report;

esper::settings! {
    /// How to count.
    pub struct CountingConfig in "counting" {
        /// Prior weight: how many steps the overall mean counts as.
        prior: f64 = 5.0, within: 0.0..=1e6;
    }
}

/// Labels a step with the mean return of all steps with the same observation and action. Where observations are few and
/// say everything, that is what a behaviour is worth; elsewhere it mixes up who acts.
struct Counting;

impl Relabel for Counting {
    fn about(&self) -> About {
        About::new("counting")
            .titled("counting")
            .summed_up("takes the mean return of equal states and actions")
    }

    fn sections(&self) -> Vec<Section> {
        vec![Section::of::<CountingConfig>()]
    }

    fn relabel(&self, context: &Context<'_>) -> Result<Labels, Error> {
        let CountingConfig { prior } = context.config.get()?;
        let (data, returns) = (context.data, context.returns_to_go());
        let kind = |episode: usize, step: usize| {
            let row =
                data.episode_observations(episode).start + step - data.episode_steps(episode).start;
            (data.observations().category(row), data.actions().category(step))
        };
        let mean =
            data.step_rows().map(|row| f64::from(returns[row])).sum::<f64>() / data.steps() as f64;
        let mut sums: HashMap<(usize, usize), [f64; 2]> = HashMap::new();
        for episode in 0..data.episodes() {
            for step in data.episode_steps(episode) {
                let [sum, count] = sums.entry(kind(episode, step)).or_insert([prior * mean, prior]);
                *sum += f64::from(returns[step]);
                *count += 1.0;
            }
        }
        let mut values = vec![0.0; data.rows()];
        for episode in 0..data.episodes() {
            for step in data.episode_steps(episode) {
                let [sum, count] = sums[&kind(episode, step)];
                values[step] = (sum / count) as f32;
            }
        }
        let kinds = Measure { name: "kinds of steps".to_owned(), value: sums.len() as f64 };
        let findings = Findings {
            calibration: Some(context.calibration(&values)),
            measures: vec![kinds],
            ..Findings::default()
        };
        Ok(Labels { findings, ..Labels::new(values) })
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let task = esper_tasks::task("gambling").expect("it is built in");
    let folder = std::path::Path::new("runs/counting");
    let results = Experiment::in_registry(task, Registry::default().with(Counting))
        .with_methods(["esper", "counting"])?
        .with_settings(None, ["counting.prior=1"])
        .with_seeds(1)
        .with_resume(true)
        .run(folder, &Unobserved)?;
    for method in &results.methods {
        let returns = method.offline_return.expect("both can be asked");
        println!("{}: {:.2}", method.title, returns.mean);
    }
    let page = folder.join("report.html");
    Report::read(folder)?.write(&page)?;
    println!("{}", page.display());
    Ok(())
}

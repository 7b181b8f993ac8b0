//! Doing what the paper did, part by part.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use esper::Registry;
use esper::run::RunFolder;
use esper::settings::Preset;
use esper_data::write_json;
use esper_eval::text::percent;
use esper_eval::{Ask, EvalError, Experiment, Observer, evaluate, run_name};
use esper_nn::Device;
use esper_tasks::Task;

use super::{Asked, Betas, FIGURE_1_TRUTH, Reproduction, WORTHS};
use crate::report::{Report, ReportError, make_folder};

/// A part of the reproduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its name, as `esper reproduce --only` takes it.
    pub name: &'static str,
    /// What it is.
    pub summary: &'static str,
    pub(super) does: Does,
}

/// What a part does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Does {
    Table { task: &'static str, policy: &'static str, methods: &'static [&'static str] },
    Figure1,
    Beta,
    Scaling,
}

const WITH_CQL: &[&str] = &["esper", "rvs", "cql"];
const CONDITIONED: &[&str] = &["esper", "rvs"];

const fn table(
    name: &'static str,
    summary: &'static str,
    task: &'static str,
    policy: &'static str,
    methods: &'static [&'static str],
) -> Part {
    Part { name, summary, does: Does::Table { task, policy, methods } }
}

/// All parts, in the order they are done in.
pub const PARTS: [Part; 9] = [
    table("gambling", "Table: gambling with the MLP policy", "gambling", "mlp", WITH_CQL),
    table(
        "gambling-transformer",
        "Table: gambling with the transformer",
        "gambling",
        "transformer",
        CONDITIONED,
    ),
    Part {
        name: "figure1",
        summary: "Figure 1's table, by return conditioning on gambling",
        does: Does::Figure1,
    },
    Part {
        name: "beta",
        summary: "Gambling with several β: dynamics loss against performance",
        does: Does::Beta,
    },
    table(
        "connect-four",
        "Table: Connect Four with the MLP policy",
        "connect-four",
        "mlp",
        WITH_CQL,
    ),
    table(
        "connect-four-transformer",
        "Table: Connect Four with the transformer",
        "connect-four",
        "transformer",
        CONDITIONED,
    ),
    table("twenty48", "Table: 2048 with the MLP policy", "twenty48", "mlp", WITH_CQL),
    table(
        "twenty48-transformer",
        "Table: 2048 with the transformer",
        "twenty48",
        "transformer",
        CONDITIONED,
    ),
    Part { name: "scaling", summary: "2048 with shares of the data", does: Does::Scaling },
];

/// The tables: task and policy.
pub(super) fn tables() -> impl Iterator<Item = (&'static str, &'static str)> {
    PARTS.iter().filter_map(|part| match part.does {
        Does::Table { task, policy, .. } => Some((task, policy)),
        _ => None,
    })
}

/// The shares of the data.
const FRACTIONS: [f64; 5] = [0.05, 0.1, 0.25, 0.5, 1.0];

/// Does the parts in a folder; what is done is not done again.
pub struct Reproducer<'a> {
    /// Where everything is kept.
    pub folder: PathBuf,
    /// Where settings come from.
    pub preset: Preset,
    /// Seeds of every comparison; shares of the data take one.
    pub seeds: u64,
    /// Where tensors are.
    pub device: Device,
    /// Who follows it.
    pub observer: &'a dyn Observer,
}

impl Reproducer<'_> {
    /// Does some parts, one after the other, and gives the report on everything in the folder; `None` if there is no part.
    /// `begins` is told of every part before it is done, and of its number, from 1.
    pub fn run(
        &self,
        parts: &[&Part],
        mut begins: impl FnMut(&Part, usize),
    ) -> Result<Option<Report>, ReportError> {
        let mut concluded = None;
        for (at, part) in parts.iter().enumerate() {
            begins(part, at + 1);
            self.check_folder()?;
            self.part(part)?;
            // After every part: a later one may be stopped.
            concluded = Some(Reproduction::conclude(&self.folder)?);
        }
        Ok(concluded)
    }

    /// Makes the folder; one report is not to mix presets.
    fn check_folder(&self) -> Result<(), ReportError> {
        make_folder(&self.folder)?;
        let ours = self.preset.name();
        match Reproduction::presets(&self.folder).into_iter().find(|preset| *preset != ours) {
            None => Ok(()),
            Some(preset) => Err(ReportError::OtherPreset { path: self.folder.clone(), preset }),
        }
    }

    /// Does a part.
    fn part(&self, part: &Part) -> Result<(), ReportError> {
        match part.does {
            Does::Table { task, policy, methods } => self.table(task, policy, methods),
            Does::Figure1 => self.figure_1(),
            Does::Beta => WORTHS.iter().try_for_each(|&betas| self.beta(betas)),
            Does::Scaling => self.scaling(),
        }
    }

    fn experiment(
        &self,
        task: &str,
        policy: &str,
        methods: &[&str],
    ) -> Result<Experiment, ReportError> {
        let experiment = Experiment::new(built_in(task)?)
            .with_preset(self.preset)
            .with_methods(methods)?
            .with_policy(policy)?
            .with_seeds(self.seeds)
            .with_device(self.device.clone())
            .with_resume(true);
        Ok(experiment)
    }

    fn table(&self, task: &str, policy: &str, methods: &[&str]) -> Result<(), ReportError> {
        let folder = self.folder.join(Reproduction::table(task, policy));
        self.experiment(task, policy, methods)?.run(&folder, self.observer)?;
        Ok(())
    }

    fn scaling(&self) -> Result<(), ReportError> {
        let (task, policy) = ("twenty48", "mlp");
        let folder = self.folder.join(Reproduction::SCALING);
        // With all of the data, shares of it are the table's own runs: what is done is not done again.
        let table = self.folder.join(Reproduction::table(task, policy));
        for method in CONDITIONED {
            let name = run_name(method, Some(policy), 0);
            let (from, to) = (table.join(&name), folder.join(percent(1.0)).join(&name));
            if RunFolder::open(&from).is_ok_and(|run| run.is_complete()) && !to.exists() {
                // Under another name until it is whole.
                let partial = to.with_extension("partial");
                let _ = fs::remove_dir_all(&partial);
                make_folder(&partial)?;
                link_files(&from, &partial)
                    .and_then(|()| fs::rename(&partial, &to))
                    .map_err(|source| ReportError::Unwritable { path: to.clone(), source })?;
            }
        }
        self.experiment(task, policy, CONDITIONED)?
            .with_seeds(1)
            .with_fractions(FRACTIONS.to_vec())
            .run_shares(&folder, self.observer)?;
        Ok(())
    }

    /// Return conditioning on gambling, asked for what the paper's table asks for.
    fn figure_1(&self) -> Result<(), ReportError> {
        let (task, policy) = ("gambling", "mlp");
        // First of all the runs: a folder with those of another preset is refused.
        self.table(task, policy, WITH_CQL)?;
        let path = self.folder.join(Reproduction::FIGURE_1);
        if path.exists() {
            return Ok(());
        }
        let folder = self.folder.join(Reproduction::table(task, policy));
        let episodes = self.experiment(task, policy, WITH_CQL)?.comparison()?.episodes;
        let mut asked = Vec::new();
        for seed in 0..self.seeds {
            let run = RunFolder::open(&folder.join(run_name("rvs", Some(policy), seed)))?;
            let policy = run.policy(&Registry::default(), &self.device)?;
            let targets = FIGURE_1_TRUTH.iter().map(|(target, _)| *target).collect();
            let ask = Ask { targets: Some(targets), episodes, seed };
            let watch = &mut |_, _| match self.observer.stop() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            };
            let evaluation = evaluate(&policy, built_in(task)?, &ask, watch)?;
            asked.extend(evaluation.sweep.iter().filter_map(|entry| {
                Some(Asked {
                    seed,
                    target: entry.target?,
                    achieved: entry.achieved,
                    stderr: entry.stderr,
                })
            }));
        }
        Ok(write_json(&path, &asked)?)
    }

    /// ESPER on gambling with other worths. Whatever clustering comes out is taken.
    fn beta(&self, betas: Betas) -> Result<(), ReportError> {
        let settings = [
            format!("cluster.beta_act={}", betas.act),
            format!("cluster.beta_adv={}", betas.adv),
            "cluster.attempts=1".to_owned(),
        ];
        self.experiment("gambling", "mlp", &["esper"])?
            .with_settings(None, settings)
            .with_prefix(format!("β_act {}, β_adv {}: ", betas.act, betas.adv))
            .run(&self.folder.join(betas.folder()), self.observer)?;
        Ok(())
    }
}

fn built_in(name: &str) -> Result<&'static Task, ReportError> {
    let missing = || EvalError::Mismatch(format!("there is no task {name}"));
    Ok(esper_tasks::task(name).ok_or_else(missing)?)
}

/// Every file of a folder in another, without taking more space where that is possible.
fn link_files(from: &Path, to: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        if let (true, Some(name)) = (path.is_file(), path.file_name()) {
            let target = to.join(name);
            if fs::hard_link(&path, &target).is_err() {
                fs::copy(&path, &target)?;
            }
        }
    }
    Ok(())
}

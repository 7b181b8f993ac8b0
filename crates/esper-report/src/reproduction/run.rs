//! Doing what the paper did, part by part.

use std::ffi::OsStr;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use esper::Registry;
use esper::condition::Target;
use esper::run::RunFolder;
use esper::settings::Preset;
use esper_data::{Lock, write_json};
use esper_eval::text::percent;
use esper_eval::{Ask, Comparison, DATA, EvalError, Experiment, Observer, evaluate, run_name};
use esper_nn::Device;
use esper_tasks::{Replays, Task};

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
    Tables(&'static [Table]),
    Figure1,
    Beta,
    Scaling,
}

/// One comparison of the paper's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) task: &'static str,
    /// The data set; `None` for the task's first.
    pub(super) dataset: Option<&'static str>,
    pub(super) policy: &'static str,
    pub(super) methods: &'static [&'static str],
}

const WITH_CQL: &[&str] = &["esper", "rvs", "cql"];
const CONDITIONED: &[&str] = &["esper", "rvs"];

/// A comparison on a task's first data set: the transformer's leave out CQL, which has no policy to choose.
const fn table(
    task: &'static str,
    policy: &'static str,
    methods: &'static [&'static str],
) -> Table {
    Table { task, dataset: None, policy, methods }
}

const GAMBLING: Table = table("gambling", "mlp", WITH_CQL);
const TWENTY48: Table = table("twenty48", "mlp", WITH_CQL);

const fn mlp(task: &'static str, dataset: &'static str) -> Table {
    Table { task, dataset: Some(dataset), policy: "mlp", methods: WITH_CQL }
}

const fn transformer(task: &'static str, dataset: &'static str) -> Table {
    Table { task, dataset: Some(dataset), policy: "transformer", methods: CONDITIONED }
}

/// The paper's nine data sets, by its order.
const MUJOCO: &[Table] = &[
    mlp("hopper", "medium-expert"),
    mlp("walker2d", "medium-expert"),
    mlp("halfcheetah", "medium-expert"),
    mlp("hopper", "medium"),
    mlp("walker2d", "medium"),
    mlp("halfcheetah", "medium"),
    mlp("hopper", "medium-replay"),
    mlp("walker2d", "medium-replay"),
    mlp("halfcheetah", "medium-replay"),
];

const MUJOCO_TRANSFORMER: &[Table] = &[
    transformer("hopper", "medium-expert"),
    transformer("walker2d", "medium-expert"),
    transformer("halfcheetah", "medium-expert"),
];

const fn part(name: &'static str, summary: &'static str, does: Does) -> Part {
    Part { name, summary, does }
}

/// All parts, in the order they are done in.
pub const PARTS: [Part; 11] = [
    part("gambling", "Table: gambling with the MLP policy", Does::Tables(&[GAMBLING])),
    part(
        "gambling-transformer",
        "Table: gambling with the transformer",
        Does::Tables(&[table("gambling", "transformer", CONDITIONED)]),
    ),
    part("figure1", "Figure 1's table, by return conditioning on gambling", Does::Figure1),
    part("beta", "Gambling with several β: dynamics loss against performance", Does::Beta),
    part(
        "connect-four",
        "Table: Connect Four with the MLP policy",
        Does::Tables(&[table("connect-four", "mlp", WITH_CQL)]),
    ),
    part(
        "connect-four-transformer",
        "Table: Connect Four with the transformer",
        Does::Tables(&[table("connect-four", "transformer", CONDITIONED)]),
    ),
    part("twenty48", "Table: 2048 with the MLP policy", Does::Tables(&[TWENTY48])),
    part(
        "twenty48-transformer",
        "Table: 2048 with the transformer",
        Does::Tables(&[table("twenty48", "transformer", CONDITIONED)]),
    ),
    part("scaling", "2048 with shares of the data", Does::Scaling),
    part("mujoco", "Table: nine data sets of MuJoCo with the MLP policy", Does::Tables(MUJOCO)),
    part(
        "mujoco-transformer",
        "Table: three data sets of MuJoCo with the transformer",
        Does::Tables(MUJOCO_TRANSFORMER),
    ),
];

/// All comparisons of the tables.
pub(super) fn tables() -> impl Iterator<Item = &'static Table> {
    PARTS.iter().flat_map(|part| match part.does {
        Does::Tables(tables) => tables,
        _ => &[],
    })
}

impl Part {
    /// Whether its worlds can be made here; else why not.
    pub fn check(&self) -> Result<(), ReportError> {
        let Does::Tables(tables) = self.does else { return Ok(()) };
        for table in tables {
            built_in(table.task)?.world().map_err(EvalError::from)?;
        }
        Ok(())
    }
}

impl Table {
    /// Its folder.
    pub(super) fn folder(&self) -> String {
        let Table { task, policy, .. } = self;
        match self.dataset {
            Some(dataset) => format!("{task}-{dataset}-{policy}"),
            None => format!("{task}-{policy}"),
        }
    }

    /// Whether a comparison is this one.
    pub(super) fn is(&self, of: &Comparison) -> bool {
        of.task.as_deref() == Some(self.task)
            && of.policy == self.policy
            && of.dataset.as_deref() == self.dataset
    }
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
    /// Who learns by acting, for data sets that are replays.
    pub replays: Arc<dyn Replays>,
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
        make_folder(&self.folder)?;
        let _lock = Lock::folder(&self.folder)?;
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
            Does::Tables(tables) => tables.iter().try_for_each(|table| self.table(table)),
            Does::Figure1 => self.figure_1(),
            Does::Beta => WORTHS.iter().try_for_each(|&betas| self.beta(betas)),
            Does::Scaling => self.scaling(),
        }
    }

    fn experiment(&self, table: &Table) -> Result<Experiment, ReportError> {
        let mut experiment = Experiment::new(built_in(table.task)?);
        if let Some(dataset) = table.dataset {
            experiment =
                experiment.with_dataset(dataset).with_prefix(format!("{} {dataset}: ", table.task));
        }
        let experiment = experiment
            .with_preset(self.preset)
            .with_methods(table.methods)?
            .with_policy(table.policy)?
            .with_seeds(self.seeds)
            .with_device(self.device.clone())
            .with_replays(self.replays.clone())
            .with_resume(true);
        Ok(experiment)
    }

    fn table(&self, table: &Table) -> Result<(), ReportError> {
        let folder = self.folder.join(table.folder());
        self.share_data(table, &folder)?;
        self.experiment(table)?.run(&folder, self.observer)?;
        Ok(())
    }

    /// Takes over the data of another table on the same data set: collecting it takes longer than for other tasks.
    fn share_data(&self, table: &Table, folder: &Path) -> Result<(), ReportError> {
        let data = folder.join(DATA);
        let same = |other: &&Table| (other.task, other.dataset) == (table.task, table.dataset);
        let others = tables().filter(same).map(|other| self.folder.join(other.folder()).join(DATA));
        let Some(other) = others.into_iter().find(|other| *other != data && other.exists()) else {
            return Ok(());
        };
        if table.dataset.is_some() && !data.exists() {
            make_folder(folder)?;
            link_file(&other, &data)
                .map_err(|source| ReportError::Unwritable { path: data, source })?;
        }
        Ok(())
    }

    fn scaling(&self) -> Result<(), ReportError> {
        let policy = TWENTY48.policy;
        let folder = self.folder.join(Reproduction::SCALING);
        // With all of the data, shares of it are the table's own runs: what is done is not done again.
        let table = self.folder.join(TWENTY48.folder());
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
        self.experiment(&Table { methods: CONDITIONED, ..TWENTY48 })?
            .with_seeds(1)
            .with_fractions(FRACTIONS.to_vec())
            .run_shares(&folder, self.observer)?;
        Ok(())
    }

    /// Return conditioning on gambling, asked for what the paper's table asks for.
    fn figure_1(&self) -> Result<(), ReportError> {
        // First of all the runs: a folder with those of another preset is refused.
        self.table(&GAMBLING)?;
        let path = self.folder.join(Reproduction::FIGURE_1);
        if path.exists() {
            return Ok(());
        }
        let folder = self.folder.join(GAMBLING.folder());
        let episodes = self.experiment(&GAMBLING)?.comparison()?.episodes;
        let mut asked = Vec::new();
        for seed in 0..self.seeds {
            let run = RunFolder::open(&folder.join(run_name("rvs", Some(GAMBLING.policy), seed)))?;
            let policy = run.policy(&Registry::default(), &self.device)?;
            let targets =
                FIGURE_1_TRUTH.iter().map(|(target, _)| Target::Return(*target)).collect();
            let ask = Ask { targets: Some(targets), episodes, seed };
            let watch = &mut |_, _| match self.observer.stop() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            };
            let evaluation = evaluate(&policy, built_in(GAMBLING.task)?, &ask, watch)?;
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
            // As the paper has it: one clustering of eight categories, whatever it tells, and a policy that is told returns.
            "cluster.attempts=1".to_owned(),
            "cluster.rep_size=8".to_owned(),
            "cluster.rep_groups=1".to_owned(),
            "leakage.luck_steps=0".to_owned(),
            "condition=return".to_owned(),
        ];
        self.experiment(&Table { methods: &["esper"], ..GAMBLING })?
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
        // A lock, or what somebody left half-written, is of that folder alone.
        let is_hidden = |name: &OsStr| name.as_encoded_bytes().starts_with(b".");
        if let (true, Some(name)) = (path.is_file(), path.file_name().filter(|n| !is_hidden(n))) {
            link_file(&path, &to.join(name))?;
        }
    }
    Ok(())
}

/// A file in another place, without taking more space where that is possible.
fn link_file(from: &Path, to: &Path) -> std::io::Result<()> {
    if fs::hard_link(from, to).is_err() {
        fs::copy(from, to)?;
    }
    Ok(())
}

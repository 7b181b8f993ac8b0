//! `esper reproduce`: everything in the paper that can run here, and what became of its claims.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::ValueEnum;
use esper::run::{Method, PolicyKind, RunFolder};
use esper_eval::report::Report;
use esper_eval::reproduction::{Asked, Betas, FIGURE_1_TRUTH, Reproduction, WORTHS};
use esper_eval::{Evaluation, run_name};
use esper_tasks::Task;

use super::compare::{Compare, make_folder, write_json};
use super::learning::{Ask, PresetName, default_episodes, evaluate, failure, user_stop};
use super::report::{self, Form};
use crate::output::{Failure, Output, Paint, percent, wrapped};
use crate::progress::{Board, catch_interrupts, duration};

#[derive(clap::Args)]
#[command(after_help = "Example:  esper reproduce --only gambling,figure1,beta\n\n\
    Expect two hours for all of it on two cores. It can be stopped at any time: the same command goes on \
    where it was, and what is done is not done again.")]
pub(crate) struct Arguments {
    /// Do only these parts
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_enum)]
    only: Vec<PartName>,

    /// Settings sized for two CPU cores (the default)
    #[arg(long, conflicts_with = "paper")]
    quick: bool,

    /// The paper's settings: many hours
    #[arg(long)]
    paper: bool,

    /// Seeds of every comparison; shares of the data take one
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,

    /// The folder to keep everything in
    #[arg(long, value_name = "DIR", default_value = "reproduction")]
    out: PathBuf,

    /// Also write results and figures, without models and data, to this folder
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
}

/// A part of the reproduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PartName {
    /// Table: gambling with the MLP policy
    Gambling,
    /// Table: gambling with the transformer
    GamblingTransformer,
    /// Figure 1's table, by return conditioning on gambling
    Figure1,
    /// Gambling with several β: dynamics loss against performance
    Beta,
    /// Table: Connect Four with the MLP policy
    ConnectFour,
    /// Table: Connect Four with the transformer
    ConnectFourTransformer,
    /// Table: 2048 with the MLP policy
    Twenty48,
    /// Table: 2048 with the transformer
    Twenty48Transformer,
    /// 2048 with shares of the data
    Scaling,
}

/// How to go on after a stop.
const GO_ON: &str = "go on with the same command";

/// The shares of the data.
const FRACTIONS: [f64; 5] = [0.05, 0.1, 0.25, 0.5, 1.0];

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let started = Instant::now();
    catch_interrupts();
    make_folder(&arguments.out)?;
    let work = Work { arguments, output };
    work.refuse_another_preset()?;
    let parts = match arguments.only.is_empty() {
        true => PartName::value_variants().to_vec(),
        false => arguments.only.clone(),
    };
    let mut concluded = None;
    for (at, &part) in parts.iter().enumerate() {
        let name = part.to_possible_value().map_or(String::new(), |v| v.get_name().to_owned());
        if output.talks() {
            eprintln!("{name}: part {} of {}", at + 1, parts.len());
        }
        work.part(part)?;
        // After every part: a later one may be stopped.
        concluded = Some(conclude(&arguments.out)?);
    }
    let Some(report) = concluded else { return Ok(()) };
    let page = arguments.out.join(report::PAGE);
    if let Some(folder) = &arguments.results {
        keep_results(&arguments.out, &report, folder)?;
    }
    let claims = report.verdicts.map_or(Vec::new(), |verdicts| verdicts.claims);
    output.result(&claims, || {
        let mut text = String::new();
        for claim in &claims {
            let (paint, verdict) = match claim.holds {
                true => (Paint::Good, "holds        "),
                false => (Paint::Bad, "does not hold"),
            };
            let verdict = output.paint(paint, verdict);
            let [says, numbers] =
                [&claim.says, &claim.numbers].map(|text| wrapped(text, 100, INDENT));
            text += &format!("{verdict}  {says}\n{:INDENT$}{numbers}\n", "");
        }
        let took = duration(started.elapsed().as_secs_f64());
        format!("{text}\n{} in {took}", page.display())
    })
}

/// Where a claim begins, behind its verdict.
const INDENT: usize = 15;

/// Writes down what came of everything so far.
fn conclude(folder: &Path) -> Result<Report, Failure> {
    let reproduction = Reproduction::read(folder).map_err(report::failed)?;
    if !reproduction.agents.is_empty() {
        write_json(&folder.join(Reproduction::BETAS), &reproduction.agents)?;
    }
    let report = reproduction.report();
    report::write_report(&report, folder, &folder.join(report::PAGE))?;
    Ok(report)
}

struct Work<'a> {
    arguments: &'a Arguments,
    output: &'a Output,
}

impl Work<'_> {
    fn preset(&self) -> PresetName {
        if self.arguments.paper { PresetName::Paper } else { PresetName::Quick }
    }

    /// One report is not to mix presets.
    fn refuse_another_preset(&self) -> Result<(), Failure> {
        let (folder, ours) = (&self.arguments.out, self.preset().name());
        match Reproduction::presets(folder).iter().find(|preset| *preset != ours) {
            None => Ok(()),
            Some(theirs) => Err(Failure::error(format!(
                "{} holds results with the preset {theirs}; name another folder with --out",
                folder.display()
            ))),
        }
    }

    fn part(&self, part: PartName) -> Result<(), Failure> {
        use PolicyKind::{Mlp, Transformer};
        let with_cql = [Method::Esper, Method::Rvs, Method::Cql];
        let without = [Method::Esper, Method::Rvs];
        let seeds = self.arguments.seeds;
        match part {
            PartName::Gambling => self.table(Task::Gambling, Mlp, &with_cql, seeds),
            PartName::GamblingTransformer => {
                self.table(Task::Gambling, Transformer, &without, seeds)
            }
            PartName::Figure1 => self.figure_1(),
            PartName::Beta => WORTHS.iter().try_for_each(|&betas| self.beta(betas)),
            PartName::ConnectFour => self.table(Task::ConnectFour, Mlp, &with_cql, seeds),
            PartName::ConnectFourTransformer => {
                self.table(Task::ConnectFour, Transformer, &without, seeds)
            }
            PartName::Twenty48 => self.table(Task::Twenty48, Mlp, &with_cql, seeds),
            PartName::Twenty48Transformer => {
                self.table(Task::Twenty48, Transformer, &without, seeds)
            }
            PartName::Scaling => {
                let folder = self.arguments.out.join(Reproduction::SCALING);
                self.reuse(&folder.join(percent(1.0)))?;
                let compare = Compare {
                    fractions: Some(FRACTIONS.to_vec()),
                    ..self.compare(Task::Twenty48, Mlp, &without, 1, &folder)
                };
                compare.run(self.output).map(|_| ())
            }
        }
    }

    fn compare<'a>(
        &self,
        task: Task,
        policy: PolicyKind,
        methods: &[Method],
        seeds: u64,
        folder: &'a Path,
    ) -> Compare<'a> {
        let preset = self.preset();
        Compare {
            task,
            methods: methods.to_vec(),
            policy,
            preset,
            config: preset.config(Some(task.name())),
            seeds,
            steps: task.default_steps(),
            fractions: None,
            episodes: default_episodes(task, preset),
            folder,
            resume: true,
            tensorboard: false,
            go_on: GO_ON.to_owned(),
            called: String::new(),
        }
    }

    fn table(
        &self,
        task: Task,
        policy: PolicyKind,
        methods: &[Method],
        seeds: u64,
    ) -> Result<(), Failure> {
        let folder = self.arguments.out.join(Reproduction::table(task.name(), policy.name()));
        self.compare(task, policy, methods, seeds, &folder).run(self.output).map(|_| ())
    }

    /// With all of the data, shares of it are the table's own runs: what is done is not done again.
    fn reuse(&self, whole: &Path) -> Result<(), Failure> {
        let policy = PolicyKind::Mlp.name();
        let table = self.arguments.out.join(Reproduction::table(Task::Twenty48.name(), policy));
        for method in [Method::Esper, Method::Rvs] {
            let name = run_name(method.name(), Some(policy), 0);
            let (from, to) = (table.join(&name), whole.join(&name));
            let complete = RunFolder::open(&from).is_ok_and(|run| run.is_complete());
            if complete && !to.exists() {
                make_folder(&to)?;
                link_files(&from, &to)
                    .map_err(|error| Failure::error(format!("{}: {error}", to.display())))?;
            }
        }
        Ok(())
    }

    /// Return conditioning on gambling, asked for what the paper's table asks for.
    fn figure_1(&self) -> Result<(), Failure> {
        // First of all the runs: a folder with those of another preset is refused.
        self.part(PartName::Gambling)?;
        let path = self.arguments.out.join(Reproduction::FIGURE_1);
        if path.exists() {
            return Ok(());
        }
        let (task, policy) = (Task::Gambling, PolicyKind::Mlp);
        let folder = self.arguments.out.join(Reproduction::table(task.name(), policy.name()));
        let mut asked = Vec::new();
        for seed in 0..self.arguments.seeds {
            let name = run_name(Method::Rvs.name(), Some(policy.name()), seed);
            let evaluation = self.ask(&folder.join(name), task, seed)?;
            asked.extend(evaluation.sweep.iter().filter_map(|entry| {
                Some(Asked {
                    seed,
                    target: entry.target?,
                    achieved: entry.achieved,
                    stderr: entry.stderr,
                })
            }));
        }
        write_json(&path, &asked)
    }

    fn ask(&self, folder: &Path, task: Task, seed: u64) -> Result<Evaluation, Failure> {
        let failed = |error| failure(error, GO_ON);
        let run = RunFolder::open(folder).map_err(failed)?;
        let episodes = default_episodes(task, self.preset());
        let targets = FIGURE_1_TRUTH.iter().map(|(target, _)| *target).collect();
        let ask = Ask { targets: Some(targets), episodes, seed };
        let board = Board::new(self.output);
        let evaluation = evaluate(&run, task, &ask, &board, "figure 1", &user_stop);
        board.finish("figure 1");
        evaluation.and_then(|done| done.ok_or(esper::Error::Stopped)).map_err(failed)
    }

    /// ESPER on gambling with other worths. Whatever clustering comes out is taken.
    fn beta(&self, betas: Betas) -> Result<(), Failure> {
        let folder = self.arguments.out.join(betas.folder());
        let methods = [Method::Esper];
        let seeds = self.arguments.seeds;
        let mut compare = self.compare(Task::Gambling, PolicyKind::Mlp, &methods, seeds, &folder);
        compare.config.cluster.beta_act = betas.act;
        compare.config.cluster.beta_adv = betas.adv;
        compare.config.cluster.attempts = 1;
        compare.called = format!("β_act {}, β_adv {}: ", betas.act, betas.adv);
        compare.run(self.output).map(|_| ())
    }
}

/// Every file of a folder in another, without taking more space where that is possible.
fn link_files(from: &Path, to: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(from)? {
        let path = entry?.path();
        if let (true, Some(name)) = (path.is_file(), path.file_name()) {
            let target = to.join(name);
            if std::fs::hard_link(&path, &target).is_err() {
                std::fs::copy(&path, &target)?;
            }
        }
    }
    Ok(())
}

/// Results and figures without models and data: what a repository keeps.
fn keep_results(from: &Path, report: &Report, to: &Path) -> Result<(), Failure> {
    make_folder(to)?;
    for (name, bytes) in Reproduction::documents(from).map_err(report::failed)? {
        report::write(&to.join(name), &bytes)?;
    }
    report::write_figures(report, to, &[Form::Svg])?;
    Ok(())
}

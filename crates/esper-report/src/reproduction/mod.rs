//! The paper's tables and figures from the folders that `esper reproduce` leaves, and what became of its claims.

mod claims;
mod run;

use run::Table;
pub use run::{PARTS, Part, Reproducer};

use std::fs;
use std::path::{Path, PathBuf};

use esper::methods::Curve;
use esper_eval::text::number;
use esper_eval::{Comparison, MeanStd, Results, RunResults, Scaling, read_json};
use serde::{Deserialize, Serialize};

use crate::report::{
    Axis, Colour, Compared, Dot, Figure, Form, Mark, PAGE, Panel, Report, ReportError, Run, Scaled,
    Section, Series, Verdicts, make_folder, write,
};

/// What one seed achieved for a target of Figure 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// The seed.
    pub seed: u64,
    /// What was asked for.
    pub target: f64,
    /// What was achieved.
    pub achieved: f64,
    /// Its standard error.
    pub stderr: f64,
}

/// One ESPER agent, trained with certain worths of reconstructing actions and of hiding the world's randomness.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BetaAgent {
    /// What they are worth.
    #[serde(flatten)]
    pub betas: Betas,
    /// The seed.
    pub seed: u64,
    /// The loss of the dynamics model that saw clusters drawn for it (Equation 3), at the end of training.
    pub dynamics_loss: f64,
    /// Its loss without any.
    pub dynamics_loss_without_clusters: f64,
    /// The share of the world's randomness that the probabilities of clusters tell a fresh predictor.
    pub leakage: f64,
    /// What the target gets that is chosen offline.
    pub offline_return: f64,
    /// What its best target gets.
    pub best_return: f64,
}

/// What reconstructing actions and hiding the world's randomness are worth.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Betas {
    /// Reconstructing actions.
    #[serde(rename = "beta_act")]
    pub act: f64,
    /// Hiding the world's randomness; below zero, telling it.
    #[serde(rename = "beta_adv")]
    pub adv: f64,
}

impl Betas {
    /// The folder of a run with these.
    pub fn folder(self) -> PathBuf {
        Path::new(BETA).join(self.name())
    }

    fn name(self) -> String {
        format!("act-{}-adv-{}", self.act, self.adv)
    }

    fn named(name: &str) -> Option<Self> {
        let (act, adv) = name.strip_prefix("act-")?.split_once("-adv-")?;
        Some(Betas { act: act.parse().ok()?, adv: adv.parse().ok()? })
    }
}

impl BetaAgent {
    /// The agent of a seed, if it was trained to its end.
    fn of(betas: Betas, results: &RunResults, run: &Run) -> Option<Self> {
        let last_fifth = |metric: &str| {
            let curve = run.curve(&Curve::new(metric, "cluster", metric));
            let last = &curve[curve.len() - curve.len().div_ceil(5)..];
            MeanStd::of(last.iter().map(|point| point[1])).map(|losses| losses.mean)
        };
        Some(BetaAgent {
            betas,
            seed: results.seed,
            dynamics_loss: last_fifth("transition_loss")?,
            dynamics_loss_without_clusters: last_fifth("baseline_loss")?,
            leakage: results.findings.clustering.as_ref()?.leakage.share()[0],
            offline_return: results.evaluation.offline_return?,
            best_return: results.evaluation.best_return?,
        })
    }

    /// Whether its clusters let the dynamics model cheat.
    fn cheats(&self) -> bool {
        self.dynamics_loss < (1.0 - CHEATING) * self.dynamics_loss_without_clusters
    }
}

/// The share that clusters may take off the dynamics loss before it is said to cheat.
const CHEATING: f64 = 0.1;

/// What reconstructing actions and hiding randomness are worth: the paper's and around it, and below nothing. An agent that
/// only has to tell actions does not leak here, so some gain by leaking.
pub const WORTHS: [Betas; 9] = [
    Betas { act: 0.01, adv: -1.0 },
    Betas { act: 0.01, adv: -0.3 },
    Betas { act: 0.01, adv: -0.1 },
    Betas { act: 0.01, adv: -0.03 },
    Betas { act: 0.01, adv: 0.0 },
    Betas { act: 0.01, adv: 0.1 },
    Betas { act: 0.01, adv: 1.0 },
    Betas { act: 1.0, adv: 1.0 },
    Betas { act: 0.001, adv: 1.0 },
];

/// Where the worths are.
const BETA: &str = "beta";

/// What there is of a reproduction.
pub struct Reproduction {
    /// Comparisons of methods.
    pub tables: Vec<Compared>,
    /// Figure 1's table.
    pub figure_1: Vec<Asked>,
    /// Gambling with several worths of reconstructing actions and hiding randomness.
    pub agents: Vec<BetaAgent>,
    /// 2048 with shares of the data.
    pub scaled: Option<Scaled>,
}

impl Reproduction {
    /// The file of Figure 1's table.
    pub const FIGURE_1: &str = "figure1.json";
    /// The file of the agents with several worths.
    pub const BETAS: &str = "beta.json";
    /// The file of what became of the claims.
    pub const CLAIMS: &str = "claims.json";
    /// The folder of shares of the data.
    pub const SCALING: &str = "scaling";

    /// Reads whatever parts a folder has.
    pub fn read(folder: &Path) -> Result<Self, ReportError> {
        let mut tables = Vec::new();
        for table in run::tables() {
            let path = folder.join(table.folder());
            if path.join(Results::FILE).exists() {
                tables.push(Compared::read(&path)?);
            }
        }
        let figure_1 = folder.join(Self::FIGURE_1);
        let figure_1 = if figure_1.exists() { read_json(figure_1)? } else { Vec::new() };
        let mut agents = Vec::new();
        for betas in beta_folders(folder) {
            let compared = Compared::read(&folder.join(betas.folder()))?;
            let results = compared.results.methods.iter().flat_map(|method| &method.runs);
            for results in results {
                // What was measured while training is in the run's folder, which may be gone.
                let run = compared.runs.iter().find(|run| run.seed == results.seed);
                agents.extend(run.and_then(|run| BetaAgent::of(betas, results, run)));
            }
        }
        let kept = folder.join(Self::BETAS);
        if agents.is_empty() && kept.exists() {
            agents = read_json(kept)?;
        }
        let scaling = folder.join(Self::SCALING);
        let scaled = match scaling.join(Scaling::FILE).exists() {
            true => Some(Scaled::read(&scaling)?),
            false => None,
        };
        Ok(Reproduction { tables, figure_1, agents, scaled })
    }

    /// The presets that parts of a folder have, complete or not.
    pub fn presets(folder: &Path) -> Vec<String> {
        let below = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten();
        let parts = below(folder.to_owned()).chain(below(folder.join(BETA)));
        parts
            .filter_map(|part| Comparison::read(&part.path()).ok())
            .map(|comparison| comparison.preset)
            .collect()
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        let Reproduction { tables, figure_1, agents, scaled } = self;
        tables.is_empty() && figure_1.is_empty() && agents.is_empty() && scaled.is_none()
    }

    /// The command that made the first part, and goes on with the others.
    fn command(&self) -> String {
        let mut command = "esper reproduce".to_owned();
        if let Some(comparison) = self.tables.first().and_then(|table| table.comparison.as_ref()) {
            if comparison.preset == "paper" {
                command += " --paper";
            }
            if comparison.seeds != 3 {
                command += &format!(" --seeds {}", comparison.seeds);
            }
        }
        command
    }

    /// The parts that there are no results of, by the names that `esper reproduce --only` has for them.
    fn missing(&self) -> Vec<String> {
        let done = |part: &Part| match part.does {
            run::Does::Tables(tables) => {
                let is_done = |table: &Table| {
                    self.tables.iter().filter_map(|t| t.comparison.as_ref()).any(|of| table.is(of))
                };
                tables.iter().all(is_done)
            }
            run::Does::Figure1 => !self.figure_1.is_empty(),
            run::Does::Beta => {
                WORTHS.iter().all(|of| self.agents.iter().any(|agent| agent.betas == *of))
            }
            run::Does::Scaling => self.scaled.is_some(),
        };
        let missing = PARTS.iter().filter(|part| !done(part));
        missing.map(|part| part.name.to_owned()).collect()
    }

    /// The one report on all of it.
    pub fn report(self) -> Report {
        let command = self.command();
        let verdicts = Verdicts {
            claims: claims::claims(&self),
            criteria: claims::CRITERIA,
            missing: self.missing(),
            command: command.clone(),
        };
        let mut others = Vec::new();
        if !self.figure_1.is_empty() {
            others.push(Section {
                title: "Figure 1: return conditioning on gambling".to_owned(),
                words: "Conditioned on -15, -6, 1 and 5, a policy that imitates every episode with that return gets -5, -2.5, \
                        -1/6 and -5: it takes the gambles that happened to go that way. Asked are the runs of the table of \
                        gambling with the MLP policy."
                    .to_owned(),
                figure: figure_1(&self.figure_1),
                command: format!("{command} --only figure1"),
            });
        }
        if !self.agents.is_empty() {
            others.push(Section {
                title: "Dynamics loss against performance".to_owned(),
                words: "ESPER agents on gambling, for which reconstructing actions (β_act) and hiding the world's randomness \
                        (β_adv) were worth more or less; the first clustering is taken, whatever it leaks. Below zero clusters \
                        gain by telling what the world will do. The dashed line is a tenth below the loss of a dynamics model \
                        that sees no clusters; left of it, clusters let it cheat: what they promise, only luck brings."
                    .to_owned(),
                figure: beta_figure(&self.agents),
                command: format!("{command} --only beta"),
            });
        }
        let scaled: Vec<Scaled> = self.scaled.into_iter().collect();
        let title = "You can't count on luck: the paper's tables and figures".to_owned();
        Report { title, verdicts: Some(verdicts), compared: self.tables, scaled, others }
    }

    /// The results of all parts, by the name that a repository keeps them under.
    pub fn documents(folder: &Path) -> Result<Vec<(String, Vec<u8>)>, ReportError> {
        let mut sources: Vec<(String, PathBuf)> = run::tables()
            .map(|table| {
                let name = table.folder();
                (format!("{name}.json"), folder.join(name).join(Results::FILE))
            })
            .collect();
        sources.push((Self::BETAS.to_owned(), folder.join(Self::BETAS)));
        sources.push(("scaling.json".to_owned(), folder.join(Self::SCALING).join(Scaling::FILE)));
        sources.push((Self::FIGURE_1.to_owned(), folder.join(Self::FIGURE_1)));
        sources.push((Self::CLAIMS.to_owned(), folder.join(Self::CLAIMS)));
        let mut documents = Vec::new();
        for (name, path) in sources.into_iter().filter(|(_, path)| path.exists()) {
            documents.push((name, esper_data::read_file(&path)?));
        }
        Ok(documents)
    }

    /// Writes down what came of everything in a folder so far: the page, and what became of the claims.
    pub fn conclude(folder: &Path) -> Result<Report, ReportError> {
        let reproduction = Self::read(folder)?;
        if !reproduction.agents.is_empty() {
            esper_data::write_json(&folder.join(Self::BETAS), &reproduction.agents)?;
        }
        let report = reproduction.report();
        report.write_claims(folder)?;
        report.write(&folder.join(PAGE))?;
        Ok(report)
    }

    /// Results and figures of a folder without models and data, in another: what a repository keeps.
    pub fn keep_results(from: &Path, report: &Report, to: &Path) -> Result<(), ReportError> {
        make_folder(to)?;
        for (name, bytes) in Self::documents(from)? {
            write(&to.join(name), &bytes)?;
        }
        report.write_figures(to, &[Form::Svg])?;
        Ok(())
    }
}

impl Report {
    /// Writes what became of the claims to a reproduction's folder: page and file are not to say different things.
    pub fn write_claims(&self, folder: &Path) -> Result<(), ReportError> {
        if let Some(verdicts) = &self.verdicts {
            esper_data::write_json(&folder.join(Reproduction::CLAIMS), &verdicts.claims)?;
        }
        Ok(())
    }
}

/// The worths that there are results of, the smallest first.
fn beta_folders(folder: &Path) -> Vec<Betas> {
    let entries = fs::read_dir(folder.join(BETA)).into_iter().flatten().flatten();
    let complete = entries.filter(|entry| entry.path().join(Results::FILE).exists());
    let mut betas: Vec<Betas> =
        complete.filter_map(|entry| Betas::named(entry.file_name().to_str()?)).collect();
    betas.sort_by(|a, b| a.adv.total_cmp(&b.adv).then(a.act.total_cmp(&b.act)));
    betas
}

/// What the gambles return on average, conditioned on a return.
pub const FIGURE_1_TRUTH: [(f64, f64); 4] =
    [(-15.0, -5.0), (-6.0, -2.5), (1.0, -1.0 / 6.0), (5.0, -5.0)];

/// What was achieved for a target, over seeds.
fn achieved(asked: &[Asked], target: f64) -> Option<MeanStd> {
    MeanStd::of(asked.iter().filter(|asked| asked.target == target).map(|asked| asked.achieved))
}

fn figure_1(asked: &[Asked]) -> Figure {
    let rows = FIGURE_1_TRUTH.iter().filter_map(|&(target, truth)| {
        achieved(asked, target).map(|achieved| (target, truth, achieved))
    });
    let rows: Vec<(f64, f64, MeanStd)> = rows.collect();
    let dot = |at: [f64; 2], error: f64, says: String| Dot { at, error, solid: true, says };
    let truths = rows.iter().map(|&(target, truth, _)| {
        dot([target, truth], 0.0, format!("asked for {target}: exactly {truth:.3}"))
    });
    let found = rows.iter().map(|&(target, _, MeanStd { mean, std })| {
        dot([target, mean], std, format!("asked for {target}: {mean:.3} ± {std:.3}"))
    });
    let (exact, ours) = (Colour(5), Colour(1));
    let panel = Panel {
        height: 200.0,
        x: Axis::around("target return", rows.iter().map(|row| row.0)),
        y: Axis::around(
            "achieved return",
            rows.iter().flat_map(|row| [row.1, row.2.mean - row.2.std, row.2.mean + row.2.std]),
        ),
        marks: vec![
            Mark::Dots { colour: exact, dots: truths.collect() },
            Mark::Dots { colour: ours, dots: found.collect() },
        ],
    };
    let mut data = vec![["target", "exact", "mean", "std"].map(str::to_owned).to_vec()];
    data.extend(rows.iter().map(|(target, truth, MeanStd { mean, std })| {
        [target, truth, mean, std].map(f64::to_string).to_vec()
    }));
    Figure {
        name: "figure1".to_owned(),
        title: "Return conditioning asked for the returns of Figure 1".to_owned(),
        series: vec![
            Series { colour: exact, name: "exact".to_owned() },
            Series { colour: ours, name: "return conditioning".to_owned() },
        ],
        panels: vec![panel],
        data,
    }
}

fn beta_figure(agents: &[BetaAgent]) -> Figure {
    let dot = |agent: &BetaAgent| Dot {
        at: [agent.dynamics_loss, agent.offline_return],
        error: 0.0,
        solid: true,
        says: format!(
            "β_act {}, β_adv {}, seed {}: dynamics loss {:.4} ({:.4} without clusters), asked offline it gets {}, at best {}",
            agent.betas.act,
            agent.betas.adv,
            agent.seed,
            agent.dynamics_loss,
            agent.dynamics_loss_without_clusters,
            number(agent.offline_return),
            number(agent.best_return)
        ),
    };
    let dots = |tell: bool| -> Vec<Dot> {
        agents.iter().filter(|agent| (agent.betas.adv < 0.0) == tell).map(dot).collect()
    };
    let (hiding, telling) = (Colour(0), Colour(1));
    let without = MeanStd::of(agents.iter().map(|agent| agent.dynamics_loss_without_clusters));
    let without = without.map_or(0.0, |baseline| baseline.mean);
    let cheating = (1.0 - CHEATING) * without;
    let y = Axis::around("offline return", agents.iter().map(|agent| agent.offline_return));
    let losses = agents.iter().map(|agent| agent.dynamics_loss);
    let panel = Panel {
        height: 240.0,
        x: Axis::around("dynamics loss with clusters", losses.chain([without])),
        marks: vec![
            Mark::Guide { from: [cheating, y.low], to: [cheating, y.high] },
            Mark::Dots { colour: telling, dots: dots(true) },
            Mark::Dots { colour: hiding, dots: dots(false) },
        ],
        y,
    };
    let heading = [
        "beta_act",
        "beta_adv",
        "seed",
        "dynamics_loss",
        "dynamics_loss_without_clusters",
        "leakage",
        "offline_return",
        "best_return",
    ];
    let mut data = vec![heading.map(str::to_owned).to_vec()];
    data.extend(agents.iter().map(|agent| {
        let mut row = [agent.betas.act, agent.betas.adv].map(|n| n.to_string()).to_vec();
        row.push(agent.seed.to_string());
        let losses = [agent.dynamics_loss, agent.dynamics_loss_without_clusters, agent.leakage];
        row.extend(losses.map(|n| n.to_string()));
        row.extend([agent.offline_return, agent.best_return].map(|n| n.to_string()));
        row
    }));
    Figure {
        name: "gambling-beta".to_owned(),
        title: "gambling: dynamics loss against performance".to_owned(),
        series: vec![
            Series {
                colour: hiding,
                name: "β_adv ≥ 0: clusters gain by hiding randomness".to_owned(),
            },
            Series { colour: telling, name: "β_adv < 0: they gain by telling it".to_owned() },
        ],
        panels: vec![panel],
        data,
    }
}

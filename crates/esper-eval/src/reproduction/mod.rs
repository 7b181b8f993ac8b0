//! The paper's tables and figures from the folders that `esper reproduce` leaves, and what became of its claims.

mod claims;

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::report::{
    Axis, Colour, Compared, Dot, Figure, Mark, Panel, Report, ReportError, Scaled, Series,
};
use crate::results::{MeanStd, Results, Scaling, read_json};

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

/// ESPER with certain worths of reconstructing actions and of hiding the world's randomness.
#[derive(Clone, Debug, PartialEq)]
pub struct BetaPoint {
    /// What they are worth.
    pub betas: Betas,
    /// How much clusters help to predict the world, over seeds.
    pub leakage: MeanStd,
    /// What the target gets that is chosen offline, over seeds.
    pub offline_return: MeanStd,
}

/// What reconstructing actions and hiding the world's randomness are worth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Betas {
    /// Reconstructing actions.
    pub act: f64,
    /// Hiding the world's randomness.
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

impl BetaPoint {
    fn of(betas: Betas, results: &Results) -> Option<Self> {
        let esper = results.methods.first()?;
        let leakage = MeanStd::of(esper.runs.iter().filter_map(|run| run.leakage))?;
        Some(BetaPoint { betas, leakage, offline_return: esper.offline_return? })
    }
}

/// Where the worths are.
const BETA: &str = "beta";

/// The tables, in the order of the page.
const TABLES: [(&str, &str); 6] = [
    ("gambling", "mlp"),
    ("gambling", "transformer"),
    ("connect-four", "mlp"),
    ("connect-four", "transformer"),
    ("twenty48", "mlp"),
    ("twenty48", "transformer"),
];

/// What there is of a reproduction.
pub struct Reproduction {
    /// Comparisons of methods.
    pub tables: Vec<Compared>,
    /// Figure 1's table.
    pub figure_1: Vec<Asked>,
    /// Gambling with several worths of reconstructing actions and hiding randomness.
    pub betas: Vec<BetaPoint>,
    /// 2048 with shares of the data.
    pub scaled: Option<Scaled>,
}

impl Reproduction {
    /// The file of Figure 1's table.
    pub const FIGURE_1: &str = "figure1.json";
    /// The file of what became of the claims.
    pub const CLAIMS: &str = "claims.json";
    /// The folder of shares of the data.
    pub const SCALING: &str = "scaling";

    /// The folder of a table.
    pub fn table(task: &str, policy: &str) -> String {
        format!("{task}-{policy}")
    }

    /// Reads whatever parts a folder has.
    pub fn read(folder: &Path) -> Result<Self, ReportError> {
        let mut tables = Vec::new();
        for (task, policy) in TABLES {
            let path = folder.join(Self::table(task, policy));
            if path.join(Results::FILE).exists() {
                tables.push(Compared::read(&path)?);
            }
        }
        let figure_1 = folder.join(Self::FIGURE_1);
        let figure_1 = if figure_1.exists() { read_json(figure_1)? } else { Vec::new() };
        let mut betas = Vec::new();
        for beta in beta_folders(folder) {
            betas.extend(BetaPoint::of(beta, &Results::read(&folder.join(beta.folder()))?));
        }
        let scaling = folder.join(Self::SCALING);
        let scaled = match scaling.join(Scaling::FILE).exists() {
            true => Some(Scaled::read(&scaling)?),
            false => None,
        };
        Ok(Reproduction { tables, figure_1, betas, scaled })
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        let Reproduction { tables, figure_1, betas, scaled } = self;
        tables.is_empty() && figure_1.is_empty() && betas.is_empty() && scaled.is_none()
    }

    /// The one report on all of it.
    pub fn report(self) -> Report {
        let claims = claims::claims(&self);
        let mut others = Vec::new();
        if !self.figure_1.is_empty() {
            others.push((
                "Figure 1: return conditioning on gambling".to_owned(),
                "Conditioned on -15, -6, 1 and 5, a policy that imitates every episode with that return gets -5, -2.5, -1/6 \
                 and -5: it takes the gambles that happened to go that way."
                    .to_owned(),
                figure_1(&self.figure_1),
            ));
        }
        if !self.betas.is_empty() {
            others.push((
                "Dynamics loss against performance".to_owned(),
                "ESPER on gambling, where telling actions is worth more or less against hiding the world's randomness. \
                 The paper finds that clusters which help to foresee the world perform worse."
                    .to_owned(),
                beta_figure(&self.betas),
            ));
        }
        let scaled: Vec<Scaled> = self.scaled.into_iter().collect();
        let title = "You can't count on luck: the paper's tables and figures".to_owned();
        Report { title, claims, compared: self.tables, scaled, others }
    }

    /// The results of all parts, by the name that a repository keeps them under.
    pub fn documents(folder: &Path) -> Result<Vec<(String, Vec<u8>)>, ReportError> {
        let mut sources: Vec<(String, PathBuf)> = TABLES
            .iter()
            .map(|(task, policy)| {
                let name = Self::table(task, policy);
                (format!("{name}.json"), folder.join(name).join(Results::FILE))
            })
            .collect();
        sources.extend(beta_folders(folder).into_iter().map(|beta| {
            (format!("beta-{}.json", beta.name()), folder.join(beta.folder()).join(Results::FILE))
        }));
        sources.push(("scaling.json".to_owned(), folder.join(Self::SCALING).join(Scaling::FILE)));
        sources.push((Self::FIGURE_1.to_owned(), folder.join(Self::FIGURE_1)));
        sources.push((Self::CLAIMS.to_owned(), folder.join(Self::CLAIMS)));
        let mut documents = Vec::new();
        for (name, path) in sources.into_iter().filter(|(_, path)| path.exists()) {
            let bytes = fs::read(&path)
                .map_err(|source| crate::results::ResultsError::Unreadable { path, source })?;
            documents.push((name, bytes));
        }
        Ok(documents)
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
    let (exact, ours) = (Colour::Other(5), Colour::Rvs);
    let panel = Panel {
        height: 200.0,
        x: Axis::around("target return", rows.iter().map(|row| row.0)),
        y: Axis::around("achieved return", rows.iter().flat_map(|row| [row.1, row.2.mean])),
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

fn beta_figure(betas: &[BetaPoint]) -> Figure {
    let dot = |point: &BetaPoint| Dot {
        at: [point.leakage.mean, point.offline_return.mean],
        error: point.offline_return.std,
        solid: true,
        says: format!(
            "actions worth {}, hiding worth {}: leakage {:.4} ± {:.4}, return {:.2} ± {:.2}",
            point.betas.act,
            point.betas.adv,
            point.leakage.mean,
            point.leakage.std,
            point.offline_return.mean,
            point.offline_return.std
        ),
    };
    let dots: Vec<Dot> = betas.iter().map(dot).collect();
    let panel = Panel {
        height: 240.0,
        x: Axis::around(
            "leakage: what clusters take off the dynamics loss",
            dots.iter().map(|dot| dot.at[0]),
        ),
        y: Axis::around("offline return", dots.iter().map(|dot| dot.at[1])),
        marks: vec![Mark::Dots { colour: Colour::Esper, dots }],
    };
    let heading = ["beta_act", "beta_adv", "leakage", "std", "offline_return", "std"];
    let mut data = vec![heading.map(str::to_owned).to_vec()];
    data.extend(betas.iter().map(|point| {
        let BetaPoint { betas, leakage, offline_return } = point;
        let MeanStd { mean, std } = offline_return;
        [betas.act, betas.adv, leakage.mean, leakage.std, *mean, *std]
            .map(|n| n.to_string())
            .to_vec()
    }));
    Figure {
        name: "gambling-beta".to_owned(),
        title: "gambling: dynamics loss against performance".to_owned(),
        series: vec![Series { colour: Colour::Esper, name: "ESPER".to_owned() }],
        panels: vec![panel],
        data,
    }
}

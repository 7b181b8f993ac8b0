//! What a report is made from: the folders that `esper run` and `esper train` leave.

use std::path::{Path, PathBuf};

use esper::differences::Differences;
use esper::methods::{About, Curve};
use esper::run::{DataId, Labelled, Manifest, Record, RunFolder};
use esper_eval::{
    Comparison, DatasetSummary, MethodResults, Results, RunResults, Scaling, evaluated, run_name,
};

use super::ReportError;

/// One comparison: its results, and what its runs left.
pub struct Compared {
    /// What it is of, as a file may be called.
    pub name: String,
    /// What was compared; `None` where runs were trained one by one.
    pub comparison: Option<Comparison>,
    /// What came of it.
    pub results: Results,
    /// Every run that left something, in the order of the results.
    pub runs: Vec<Run>,
}

/// What one training left.
pub struct Run {
    /// The method.
    pub method: String,
    /// The seed.
    pub seed: u64,
    /// What its labels came out like, if it has labels.
    pub labelled: Option<Labelled>,
    /// What was measured while training.
    pub metrics: Vec<Record>,
    /// Its settings, as TOML.
    pub config: String,
    /// Discount factor γ that labels and targets stand for.
    pub discount: f64,
    /// What the policy would do differently from the past, if that was kept.
    pub differences: Option<Differences>,
}

impl Compared {
    /// Reads the folder of a comparison. Runs whose folder is gone are left out.
    pub fn read(folder: &Path) -> Result<Self, ReportError> {
        let comparison = Comparison::read(folder)?;
        let results = Results::read(folder)?;
        let mut runs = Vec::new();
        for method in &results.methods {
            for run in &method.runs {
                let name = run_name(&method.method, method.policy.as_deref(), run.seed);
                let path = folder.join(name);
                if path.is_dir() {
                    runs.push(Run::read(&path, &method.method, run.seed)?);
                }
            }
        }
        Ok(Compared { name: comparison.name(), comparison: Some(comparison), results, runs })
    }

    /// Puts runs together that were trained one by one, on the same data. Those that differ in their seed alone are one method.
    pub fn of_runs(paths: &[PathBuf]) -> Result<Self, ReportError> {
        let mut trained =
            paths.iter().map(|path| Trained::read(path)).collect::<Result<Vec<_>, _>>()?;
        let Some(first) = trained.first() else {
            return Err(ReportError::Nothing { path: PathBuf::new() });
        };
        if let Some(other) = trained.iter().find(|other| !first.is_of_same_data(other)) {
            return Err(ReportError::OtherData {
                one: first.path.clone(),
                other: other.path.clone(),
            });
        }
        let data = first.manifest.data.clone();
        let overview = trained.iter_mut().find_map(|run| run.overview.take());
        let name = match &trained[..] {
            [only] => only.name(),
            _ => data.task.clone().unwrap_or_else(|| "runs".to_owned()),
        };
        let mut groups: Vec<Vec<Trained>> = Vec::new();
        for run in trained {
            match groups.iter_mut().find(|group| group.iter().all(|of| of.goes_with(&run))) {
                Some(group) => group.push(run),
                None => groups.push(vec![run]),
            }
        }
        let DataId { task, steps, episodes, .. } = data;
        let dataset = DatasetSummary {
            steps,
            episodes,
            mean_return: overview.as_ref().map_or(f64::NAN, |overview| overview.all.mean_return),
            path: None,
            overview,
        };
        let seeds = groups.iter().map(Vec::len).max().unwrap_or(0);
        let named = |manifest: &Manifest| (manifest.method.clone(), manifest.policy.clone());
        let names: Vec<_> = groups.iter().map(|group| named(&group[0].manifest)).collect();
        let (mut methods, mut runs) = (Vec::new(), Vec::new());
        for (group, of) in groups.into_iter().zip(&names) {
            let Manifest { method, title, policy, .. } = group[0].manifest.clone();
            // Two of the same name are told apart by their folders.
            let alone = names.iter().filter(|other| *other == of).count() == 1;
            let about = match alone {
                true => About::new(method).titled(title),
                false => {
                    About::new(group[0].name()).titled(format!("{title} ({})", group[0].name()))
                }
            };
            let mut of_seeds = Vec::new();
            for run in group {
                of_seeds.push(run.results);
                runs.push(Run { method: about.name.clone(), ..run.run });
            }
            methods.push(MethodResults::of(&about, policy.as_deref(), of_seeds));
        }
        // Where settings came from is not known of a run.
        let results = Results::new(task.as_deref(), "", seeds, dataset, methods);
        Ok(Compared { name, comparison: None, results, runs })
    }

    /// Whether a report is to say what is known without a world: of data that was given, and of single runs.
    pub(super) fn is_of_logs(&self) -> bool {
        self.comparison.as_ref().is_none_or(|of| of.data.is_some() || !of.world)
    }

    /// The runs of a method.
    pub(super) fn runs_of(&self, method: &MethodResults) -> impl Iterator<Item = &Run> {
        let name = method.method.clone();
        self.runs.iter().filter(move |run| run.method == name)
    }

    /// The methods whose labels were learned: those that know more about them than the returns that were observed.
    pub(super) fn relabelled(&self) -> impl Iterator<Item = &MethodResults> {
        self.results.methods.iter().filter(|method| {
            method.runs.iter().any(|run| run.findings.calibration.is_some())
                && self.runs_of(method).any(|run| run.labelled.is_some())
        })
    }

    /// The task, and the data set if it is not the task's first, or the data that was given; as a file may be called.
    pub(crate) fn name(&self) -> String {
        self.name.clone()
    }

    /// The name of the policy, as a heading has it.
    pub(crate) fn policy(&self) -> &str {
        let of_methods = || self.results.methods.iter().find_map(|method| method.policy.as_deref());
        match &self.comparison {
            Some(comparison) => &comparison.policy,
            None => of_methods().unwrap_or("its own"),
        }
    }
}

/// A run that was trained by itself.
struct Trained {
    path: PathBuf,
    manifest: Manifest,
    results: RunResults,
    run: Run,
    overview: Option<esper_data::Overview>,
}

impl Trained {
    fn read(path: &Path) -> Result<Self, ReportError> {
        let folder = RunFolder::open(path)?;
        let (manifest, summary) = (folder.manifest()?, folder.summary()?);
        let seed = manifest.seed;
        // Where it was tried in a world that is kept beside it.
        let evaluation = evaluated(path).map(|results| results.evaluation);
        Ok(Trained {
            path: path.to_owned(),
            results: RunResults::of(seed, summary, evaluation),
            run: Run::read(path, &manifest.method, seed)?,
            overview: folder.overview()?,
            manifest,
        })
    }

    /// The name of its folder.
    fn name(&self) -> String {
        let path = self.path.canonicalize().unwrap_or_else(|_| self.path.clone());
        path.file_name()
            .map_or_else(|| "run".to_owned(), |name| name.to_string_lossy().into_owned())
    }

    fn is_of_same_data(&self, other: &Trained) -> bool {
        self.manifest.data == other.manifest.data
    }

    /// Whether another is the same with another seed.
    fn goes_with(&self, other: &Trained) -> bool {
        let of = |run: &Trained| {
            let Manifest { method, policy, identity, .. } = run.manifest.clone();
            (method, policy, identity, run.run.config.clone())
        };
        of(self) == of(other) && self.manifest.seed != other.manifest.seed
    }
}

impl Run {
    fn read(path: &Path, method: &str, seed: u64) -> Result<Self, ReportError> {
        let folder = RunFolder::open(path)?;
        Ok(Run {
            method: method.to_owned(),
            seed,
            labelled: folder.labelled()?,
            metrics: folder.metrics()?,
            discount: folder.summary()?.discount,
            differences: folder.differences()?,
            config: folder.config_text()?,
        })
    }

    /// A measure over the steps of a phase.
    pub fn curve(&self, curve: &Curve) -> Vec<[f64; 2]> {
        let records = self.metrics.iter().filter(|record| record.phase == curve.phase);
        let value = |record: &Record| {
            let less = match &curve.less {
                Some(less) => *record.metrics.get(less)?,
                None => 0.0,
            };
            Some(record.metrics.get(&curve.metric)? - less)
        };
        records.filter_map(|record| Some([record.step as f64, value(record)?])).collect()
    }
}

/// Comparisons with several shares of the data.
pub struct Scaled {
    /// What was compared.
    pub comparison: Comparison,
    /// What came of it.
    pub scaling: Scaling,
}

impl Scaled {
    /// The task, or the data that was given; as a file may be called.
    pub(super) fn name(&self) -> String {
        self.comparison.name()
    }

    /// Whether policies were tried in a world.
    pub(super) fn in_world(&self) -> bool {
        self.scaling.fractions.iter().any(|entry| entry.results.in_world())
    }

    /// Reads the folder of such comparisons.
    pub fn read(folder: &Path) -> Result<Self, ReportError> {
        Ok(Scaled { comparison: Comparison::read(folder)?, scaling: Scaling::read(folder)? })
    }
}

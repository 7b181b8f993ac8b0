//! What the paper claims, held against what came out.

use super::{FIGURE_1_TRUTH, Reproduction, achieved};
use crate::report::{Claim, Compared};
use crate::results::{MeanStd, MethodResults};

/// Every claim that there are results for.
pub(super) fn claims(reproduction: &Reproduction) -> Vec<Claim> {
    let mut claims = Vec::new();
    claims.extend(figure_1(reproduction));
    for compared in &reproduction.tables {
        claims.extend(best(compared));
        claims.extend(beats(compared, "rvs"));
        claims.extend(beats(compared, "cql"));
        claims.extend(calibrated(compared));
    }
    claims.extend(scaling(reproduction));
    claims.extend(leaking(reproduction));
    claims
}

fn text(value: MeanStd) -> String {
    format!("{:.2} ({:.2})", value.mean, value.std)
}

fn find<'a>(compared: &'a Compared, method: &str) -> Option<&'a MethodResults> {
    compared.results.methods.iter().find(|results| results.method == method)
}

/// The name of a comparison within a claim.
fn place(compared: &Compared) -> String {
    format!("{} ({})", compared.results.task, compared.comparison.policy)
}

/// How far a mean over a few thousand episodes may be from an exact one of returns up to 15.
const FIGURE_1_TOLERANCE: f64 = 0.35;

fn figure_1(reproduction: &Reproduction) -> Option<Claim> {
    let asked = &reproduction.figure_1;
    let pairs: Vec<(f64, f64, MeanStd)> = FIGURE_1_TRUTH
        .iter()
        .filter_map(|&(target, truth)| Some((target, truth, achieved(asked, target)?)))
        .collect();
    (pairs.len() == FIGURE_1_TRUTH.len()).then(|| Claim {
        says: "Figure 1: return conditioning asked for -15, -6, 1, 5 gets -5, -2.5, -1/6, -5"
            .to_owned(),
        holds: pairs
            .iter()
            .all(|(_, truth, found)| (found.mean - truth).abs() <= FIGURE_1_TOLERANCE),
        numbers: pairs
            .iter()
            .map(|(target, _, found)| format!("{target}: {}", text(*found)))
            .collect::<Vec<_>>()
            .join(", "),
    })
}

/// ESPER reaches the paper's own number, to within its two standard deviations.
fn best(compared: &Compared) -> Option<Claim> {
    let esper = find(compared, "esper")?;
    let (ours, paper) = (esper.best_return?, esper.paper_best_return?);
    Some(Claim {
        says: format!("{}: ESPER's best return is {}", place(compared), text(paper)),
        holds: ours.mean >= paper.mean - 2.0 * paper.std.max(0.01),
        numbers: format!("here {}", text(ours)),
    })
}

/// ESPER is ahead of another by more than the standard deviations of both, where the paper says so; where the paper has
/// them equal, it is not behind.
fn beats(compared: &Compared, other: &str) -> Option<Claim> {
    let (esper, other) = (find(compared, "esper")?, find(compared, other)?);
    let (ours, theirs) = (esper.best_return?, other.best_return?);
    let (paper_ours, paper_theirs) = (esper.paper_best_return?, other.paper_best_return?);
    let name = match (other.method.as_str(), other.policy.as_deref()) {
        ("rvs", Some("transformer")) => "the Decision Transformer",
        ("rvs", _) => "return conditioning",
        _ => "CQL",
    };
    let ahead = paper_ours.mean > paper_theirs.mean;
    let (word, holds) = match ahead {
        true => ("ahead of", ours.mean - theirs.mean > ours.std + theirs.std),
        false => ("as good as", ours.mean >= theirs.mean - ours.std - theirs.std - 0.01),
    };
    Some(Claim {
        says: format!("{}: ESPER is {word} {name}", place(compared)),
        holds,
        numbers: format!(
            "{} against {}; in the paper {} against {}",
            text(ours),
            text(theirs),
            text(paper_ours),
            text(paper_theirs)
        ),
    })
}

/// What ESPER gets follows what it is asked for: closer than return conditioning, and near.
fn calibrated(compared: &Compared) -> Option<Claim> {
    let (esper, rvs) = (find(compared, "esper")?, find(compared, "rvs")?);
    let (ours, theirs) = (esper.calibration_error?, rvs.calibration_error?);
    let sweep = || esper.runs.iter().flat_map(|run| &run.evaluation.sweep);
    let supported = || sweep().filter(|entry| entry.supported).filter_map(|entry| entry.target);
    let span = supported().fold(f64::MIN, f64::max) - supported().fold(f64::INFINITY, f64::min);
    Some(Claim {
        says: format!(
            "{}: ESPER gets what it is asked for, return conditioning does not",
            place(compared)
        ),
        holds: ours.mean < theirs.mean && ours.mean <= 0.15 * span.max(f64::MIN_POSITIVE),
        numbers: format!(
            "off by {} against {}, over supported targets that span {span:.2}",
            text(ours),
            text(theirs)
        ),
    })
}

fn scaling(reproduction: &Reproduction) -> Vec<Claim> {
    let Some(scaled) = &reproduction.scaled else { return Vec::new() };
    let curve = |method: &str| -> Vec<(f64, MeanStd)> {
        let of = |entry: &crate::results::ScalingEntry| {
            let results = entry.results.methods.iter().find(|results| results.method == method)?;
            Some((entry.fraction, results.best_return?))
        };
        scaled.scaling.fractions.iter().filter_map(of).collect()
    };
    let numbers = |curve: &[(f64, MeanStd)]| {
        let point =
            |(share, best): &(f64, MeanStd)| format!("{:.0}%: {:.3}", 100.0 * share, best.mean);
        curve.iter().map(point).collect::<Vec<_>>().join(", ")
    };
    let (esper, rvs) = (curve("esper"), curve("rvs"));
    let (Some(first), Some(last)) = (esper.first(), esper.last()) else { return Vec::new() };
    let mut claims = vec![Claim {
        says: "2048: ESPER improves with more data".to_owned(),
        holds: last.1.mean > first.1.mean,
        numbers: numbers(&esper),
    }];
    if let (Some(first), Some(last)) = (rvs.first(), rvs.last()) {
        claims.push(Claim {
            says: "2048: return conditioning does not improve with more data".to_owned(),
            // About three standard errors of a thousand episodes.
            holds: last.1.mean - first.1.mean < 0.05,
            numbers: numbers(&rvs),
        });
    }
    claims
}

/// The clusters that leak most return less than those that leak least.
fn leaking(reproduction: &Reproduction) -> Option<Claim> {
    let betas = &reproduction.betas;
    if betas.len() < 3 {
        return None;
    }
    let least = betas.iter().min_by(|a, b| a.leakage.mean.total_cmp(&b.leakage.mean))?;
    let most = betas.iter().max_by(|a, b| a.leakage.mean.total_cmp(&b.leakage.mean))?;
    Some(Claim {
        says: "gambling: clusters that let the dynamics model cheat perform worse".to_owned(),
        holds: most.offline_return.mean < least.offline_return.mean,
        numbers: format!(
            "least leakage {:.4}: {}; most {:.4}: {}",
            least.leakage.mean,
            text(least.offline_return),
            most.leakage.mean,
            text(most.offline_return)
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Asked, BetaPoint};
    use super::*;
    use crate::results::{Comparison, DatasetSummary, Results};

    fn method(name: &str, best: f64, std: f64, calibration: Option<f64>) -> MethodResults {
        let value = |mean: f64, std: f64| Some(MeanStd { mean, std });
        let mut results = MethodResults::of("connect-four", name, Some("mlp"), Vec::new());
        results.best_return = value(best, std);
        results.calibration_error = calibration.and_then(|error| value(error, 0.0));
        results
    }

    fn reproduction(methods: Vec<MethodResults>) -> Reproduction {
        let compared = Compared {
            comparison: Comparison {
                task: "connect-four".to_owned(),
                steps: 1,
                preset: "quick".to_owned(),
                methods: Vec::new(),
                policy: "mlp".to_owned(),
                seeds: 3,
                episodes: 1,
                fractions: None,
            },
            results: Results {
                task: "connect-four".to_owned(),
                preset: "quick".to_owned(),
                seeds: 3,
                dataset: DatasetSummary { steps: 1, episodes: 1, mean_return: 0.0 },
                methods,
            },
            runs: Vec::new(),
        };
        Reproduction {
            tables: vec![compared],
            figure_1: Vec::new(),
            betas: Vec::new(),
            scaled: None,
        }
    }

    fn verdicts(reproduction: &Reproduction) -> Vec<bool> {
        claims(reproduction).iter().map(|claim| claim.holds).collect()
    }

    /// In the paper ESPER has 0.99 (0.01), return conditioning 0.24, CQL 0.61.
    #[test]
    fn a_table_is_held_against_the_papers() {
        let rvs = || method("rvs", 0.7, 0.05, None);
        let ahead = vec![method("esper", 0.99, 0.01, None), rvs(), method("cql", 1.0, 0.0, None)];
        // It reaches its number and is ahead of return conditioning, but not of CQL.
        assert_eq!(verdicts(&reproduction(ahead)), [true, true, false]);
        // Too near to say, and below its own number.
        let near = vec![method("esper", 0.74, 0.01, None), rvs()];
        assert_eq!(verdicts(&reproduction(near)), [false, false]);
    }

    #[test]
    fn figure_1_and_leaks_are_judged() {
        let asked = |shift: f64| {
            let ask = |&(target, truth): &(f64, f64)| Asked {
                seed: 0,
                target,
                achieved: truth + shift,
                stderr: 0.1,
            };
            FIGURE_1_TRUTH.iter().map(ask).collect::<Vec<_>>()
        };
        let point = |beta_act: f64, leakage: f64, mean: f64| BetaPoint {
            beta_act,
            leakage: MeanStd { mean: leakage, std: 0.0 },
            offline_return: MeanStd { mean, std: 0.0 },
        };
        let judged = |shift: f64, worst: f64| {
            let betas = vec![point(0.1, 0.0, 1.0), point(1.0, 0.01, 0.9), point(10.0, 0.05, worst)];
            let parts =
                Reproduction { tables: Vec::new(), figure_1: asked(shift), betas, scaled: None };
            verdicts(&parts)
        };
        assert_eq!(judged(0.1, -5.0), [true, true]);
        assert_eq!(judged(0.5, 1.5), [false, false]);
    }
}

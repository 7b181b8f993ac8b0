//! What the paper claims, held against what came out.

use esper_eval::text::percent;
use esper_eval::{MeanStd, MethodResults, PAPER_SEEDS, RunResults};

use super::{BetaAgent, CHEATING, FIGURE_1_TRUTH, Reproduction, achieved};
use crate::report::{Claim, Compared};

/// Every claim that there are results for.
pub(super) fn claims(reproduction: &Reproduction) -> Vec<Claim> {
    let mut claims = Vec::new();
    claims.extend(figure_1(reproduction));
    for compared in &reproduction.tables {
        match find(compared, "esper").and_then(|esper| esper.normalised) {
            // Data of our own players: the paper's numbers stand beside ours, and are no measure of them.
            Some(_) => {
                claims.extend(matches(compared));
                claims.extend(labels_are_returns(compared));
            }
            None => {
                claims.extend(best(compared));
                claims.extend(beats(compared, "rvs"));
                claims.extend(beats(compared, "cql"));
                claims.extend(calibrated(compared));
            }
        }
    }
    claims.extend(scaling(reproduction));
    claims.extend(leaking(reproduction));
    claims
}

fn find<'a>(compared: &'a Compared, method: &str) -> Option<&'a MethodResults> {
    compared.results.methods.iter().find(|results| results.method == method)
}

/// The name of a comparison within a claim.
fn place(compared: &Compared) -> String {
    format!("{} ({})", compared.name(), compared.policy())
}

/// How far an imitation may be from a perfect one, beside the luck of its episodes.
const FIGURE_1_TOLERANCE: f64 = 0.25;

/// The standard error of a method's best return: of the episodes of its best targets.
fn best_error(method: &MethodResults) -> f64 {
    let errors = method.runs.iter().filter_map(RunResults::best_stderr);
    error_of_mean(errors)
}

/// The standard error of a mean of values that have these.
fn error_of_mean(errors: impl Iterator<Item = f64>) -> f64 {
    let errors: Vec<f64> = errors.collect();
    errors.iter().map(|error| error * error).sum::<f64>().sqrt() / errors.len().max(1) as f64
}

/// What two best returns have to differ by: their standard deviations over seeds, and at least twice the error that the
/// luck of the episodes makes.
fn margin(a: &MethodResults, b: &MethodResults) -> f64 {
    let std = |method: &MethodResults| method.best_return.map_or(0.0, |best| best.std);
    (std(a) + std(b)).max(2.0 * best_error(a).hypot(best_error(b)))
}

fn figure_1(reproduction: &Reproduction) -> Option<Claim> {
    let asked = &reproduction.figure_1;
    let seeds = asked.len() / FIGURE_1_TRUTH.len();
    let pairs: Vec<(f64, f64, MeanStd)> = FIGURE_1_TRUTH
        .iter()
        .filter_map(|&(target, truth)| Some((target, truth, achieved(asked, target)?)))
        .collect();
    (pairs.len() == FIGURE_1_TRUTH.len()).then(|| Claim {
        says: "Figure 1: return conditioning asked for -15, -6, 1, 5 gets -5, -2.5, -1/6, -5"
            .to_owned(),
        holds: pairs.iter().all(|&(target, truth, found)| {
            let of_target = asked.iter().filter(|asked| asked.target == target);
            let error = error_of_mean(of_target.map(|asked| asked.stderr));
            (found.mean - truth).abs() <= FIGURE_1_TOLERANCE + 2.0 * error
        }),
        numbers: pairs
            .iter()
            .map(|(target, _, found)| format!("{target}: {}", found.text(seeds)))
            .collect::<Vec<_>>()
            .join(", "),
    })
}

/// ESPER reaches the paper's own number, to within its two standard deviations.
fn best(compared: &Compared) -> Option<Claim> {
    let esper = find(compared, "esper")?;
    let (ours, paper) = (esper.best_return?, esper.paper_best_return?);
    Some(Claim {
        says: format!("{}: ESPER's best return is {}", place(compared), paper.text(PAPER_SEEDS)),
        holds: ours.mean >= paper.mean - 2.0 * paper.std.max(0.01),
        numbers: format!("here {}", ours.text(esper.runs.len())),
    })
}

/// ESPER is ahead of another by more than chance, where the paper says so; where the paper has them equal, it is not
/// behind.
fn beats(compared: &Compared, other: &str) -> Option<Claim> {
    let (esper, other) = (find(compared, "esper")?, find(compared, other)?);
    let (ours, theirs) = (esper.best_return?, other.best_return?);
    let (paper_ours, paper_theirs) = (esper.paper_best_return?, other.paper_best_return?);
    let name = other.title();
    let ahead = paper_ours.mean > paper_theirs.mean;
    let (word, holds) = match ahead {
        true => ("ahead of", ours.mean - theirs.mean > margin(esper, other)),
        false => ("as good as", ours.mean >= theirs.mean - margin(esper, other) - 0.01),
    };
    Some(Claim {
        says: format!("{}: ESPER is {word} {name}", place(compared)),
        holds,
        numbers: format!(
            "{} against {}; in the paper {} against {}",
            ours.text(esper.runs.len()),
            theirs.text(other.runs.len()),
            paper_ours.text(PAPER_SEEDS),
            paper_theirs.text(PAPER_SEEDS)
        ),
    })
}

/// The share of normalised scores by which methods may differ and still count as equal.
const EQUAL_SCORES: f64 = 5.0;

/// In a nearly deterministic world ESPER matches return conditioning: it is neither behind nor ahead by more than chance.
fn matches(compared: &Compared) -> Option<Claim> {
    let (esper, rvs) = (find(compared, "esper")?, find(compared, "rvs")?);
    let (ours, theirs) = (esper.normalised?, rvs.normalised?);
    let (best, other) = (ours.best?, theirs.best?);
    // The error of a return as one of a score.
    let per_score = esper.best_return?.mean - rvs.best_return?.mean;
    let scale = match best.mean - other.mean {
        0.0 => 0.0,
        scores => (scores / per_score).abs(),
    };
    let paper = ours.paper.zip(theirs.paper).map_or(String::new(), |(ours, theirs)| {
        format!(
            "; in the paper {} against {}",
            score(ours, PAPER_SEEDS),
            score(theirs, PAPER_SEEDS)
        )
    });
    Some(Claim {
        says: format!("{}: ESPER matches {}", place(compared), rvs.title()),
        holds: (best.mean - other.mean).abs() <= EQUAL_SCORES + scale * margin(esper, rvs),
        numbers: format!(
            "normalised scores {} against {}{paper}",
            score(best, esper.runs.len()),
            score(other, rvs.runs.len())
        ),
    })
}

/// A normalised score, in as many digits as the paper has.
fn score(MeanStd { mean, std }: MeanStd, seeds: usize) -> String {
    if seeds == 1 { format!("{mean:.1}") } else { format!("{mean:.1} ({std:.1})") }
}

/// The share of the world's randomness that clusters may tell, and the share of the variance of returns that labels have to
/// explain, where there is nearly no chance.
const CLEAN: f64 = 0.02;
const EXPLAINED: f64 = 0.9;

/// Under it: where there is nearly no chance, nothing can leak, and labels are close to returns.
fn labels_are_returns(compared: &Compared) -> Option<Claim> {
    let esper = find(compared, "esper")?;
    let mut leaks = Vec::new();
    let mut explained = Vec::new();
    for run in &esper.runs {
        leaks.push(run.findings.clustering.as_ref()?.leakage.share()[0]);
        explained.push(run.findings.calibration.as_ref()?.explained?);
    }
    let (leak, share) = (MeanStd::of(leaks.into_iter())?, MeanStd::of(explained.into_iter())?);
    Some(Claim {
        says: format!(
            "{}: clusters leak nothing, and labels are close to returns",
            place(compared)
        ),
        holds: leak.mean <= CLEAN && share.mean >= EXPLAINED,
        numbers: format!(
            "clusters tell {} of what the world does; labels explain {} of the variance of held-out returns",
            percent(leak.mean),
            percent(share.mean)
        ),
    })
}

/// What ESPER gets is near to what it is asked for; what return conditioning gets is at least twice as far away.
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
        holds: 2.0 * ours.mean <= theirs.mean && ours.mean <= 0.15 * span.max(f64::MIN_POSITIVE),
        numbers: format!(
            "ESPER is off by {} over the targets it supports, which span {span:.2}; {} by {} over its own",
            ours.text(esper.runs.len()),
            rvs.title(),
            theirs.text(rvs.runs.len())
        ),
    })
}

fn scaling(reproduction: &Reproduction) -> Vec<Claim> {
    let Some(scaled) = &reproduction.scaled else { return Vec::new() };
    let mean = |results: &MethodResults| results.best_return.map_or(f64::NAN, |best| best.mean);
    let claim = |method: &str, says: &str, should_improve: bool| {
        let mut curve: Vec<(f64, &MethodResults)> = Vec::new();
        for entry in &scaled.scaling.fractions {
            let results = entry.results.methods.iter().find(|results| results.method == method)?;
            curve.push((entry.fraction, results));
        }
        let ((_, first), (_, last)) = (curve.first()?, curve.last()?);
        let improves = mean(last) - mean(first) > margin(first, last);
        let point = |(share, results): &(f64, &MethodResults)| {
            format!("{}: {:.3}", percent(*share), mean(results))
        };
        Some(Claim {
            says: says.to_owned(),
            holds: improves == should_improve,
            numbers: curve.iter().map(point).collect::<Vec<_>>().join(", "),
        })
    };
    let esper = claim("esper", "2048: ESPER improves with more data", true);
    let rvs = claim("rvs", "2048: return conditioning does not improve with more data", false);
    esper.into_iter().chain(rvs).collect()
}

/// Agents whose clusters let the dynamics model cheat get less than the others, by more than the deviations of both.
fn leaking(reproduction: &Reproduction) -> Option<Claim> {
    let (cheating, honest): (Vec<&BetaAgent>, Vec<&BetaAgent>) =
        reproduction.agents.iter().partition(|agent| agent.cheats());
    let returns =
        |agents: &[&BetaAgent]| MeanStd::of(agents.iter().map(|agent| agent.offline_return));
    let says = "gambling: clusters that let the dynamics model cheat perform worse".to_owned();
    let (Some(worse), Some(better)) = (returns(&cheating), returns(&honest)) else {
        let numbers = format!("{} agents cheat, {} do not", cheating.len(), honest.len());
        return (!reproduction.agents.is_empty()).then_some(Claim { says, holds: false, numbers });
    };
    let paid = cheating.iter().filter(|agent| agent.betas.adv < 0.0).count();
    Some(Claim {
        says,
        holds: better.mean - worse.mean > better.std + worse.std,
        numbers: format!(
            "offline return of {} agents whose clusters take over {} off the dynamics loss ({paid} of them with β_adv < 0): \
             {}; of the {} others: {}",
            cheating.len(),
            percent(CHEATING),
            worse.text(cheating.len()),
            honest.len(),
            better.text(honest.len())
        ),
    })
}

/// When a claim holds, in words.
pub(super) const CRITERIA: &str = "A best return reaches the paper's if it is at most two of the paper's standard deviations \
    below it (0.02 where those are smaller). One method is ahead of another if its best return is higher by more than both \
    standard deviations over seeds together, and by twice the standard error that the luck of episodes makes; it is as good as \
    another if it is not behind by more than that and 0.01. The first rule also says whether a method improves from the smallest to the largest share of the data. ESPER gets what it is asked for if it is off \
    by at most 15% of the range of targets it supports, and by at most half of what return conditioning is off by. Figure 1's \
    returns may differ by 0.25 and two standard errors. Clusters let the dynamics model cheat if they take more than a tenth \
    off its loss; those agents perform worse if their mean is lower by more than both standard deviations together. On MuJoCo, \
    whose data is of our own players, methods match if their normalised scores differ by at most 5 and what chance makes (the \
    first rule); labels are close to returns if they explain nine tenths of the variance of held-out returns, and clusters leak \
    nothing if they tell at most 2% of what the world does.";

#[cfg(test)]
mod tests {
    use super::super::{Asked, Betas};
    use super::*;
    use crate::report::Scaled;
    use esper::methods::About;
    use esper_data::Moments;
    use esper_eval::{
        Comparison, DatasetSummary, Evaluation, Results, Scaling, ScalingEntry, SweepEntry,
    };

    fn method(name: &str, best: f64, std: f64, calibration: Option<f64>) -> MethodResults {
        let value = |mean: f64, std: f64| Some(MeanStd { mean, std });
        let task = esper_tasks::task("connect-four").unwrap();
        let about = About::new(name);
        let mut results =
            MethodResults::of(&about, Some("mlp"), Vec::new()).beside_published(task, None);
        results.best_return = value(best, std);
        results.calibration_error = calibration.and_then(|error| value(error, 0.0));
        results
    }

    fn reproduction(methods: Vec<MethodResults>) -> Reproduction {
        let compared = Compared {
            name: "connect-four".to_owned(),
            comparison: Some(Comparison {
                task: Some("connect-four".to_owned()),
                data: None,
                world: true,
                steps: 1,
                preset: "quick".to_owned(),
                methods: Vec::new(),
                policy: "mlp".to_owned(),
                seeds: 3,
                episodes: 1,
                fractions: None,
                changes: Vec::new(),
                dataset: None,
                labels: None,
                device: "cpu".to_owned(),
            }),
            results: Results::new(
                Some("connect-four"),
                "quick",
                3,
                DatasetSummary {
                    steps: 1,
                    episodes: 1,
                    mean_return: 0.0,
                    path: None,
                    overview: None,
                },
                methods,
            ),
            runs: Vec::new(),
        };
        Reproduction {
            tables: vec![compared],
            figure_1: Vec::new(),
            agents: Vec::new(),
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

    /// A run that was asked for these targets, all of them supported.
    fn asked(targets: &[f64]) -> RunResults {
        let entry =
            |&target: &f64| SweepEntry::new(Some(target), &Moments::of([target].into_iter()), true);
        RunResults::new(0, Evaluation::of(targets.iter().map(entry).collect(), None))
    }

    /// Over supported targets from -0.6 to 1 it may be off by 0.24, and by half of what return conditioning is.
    #[test]
    fn calibration_is_judged_by_the_span_of_targets() {
        let judged = |ours: f64, theirs: f64| {
            let mut esper = method("esper", 1.0, 0.0, Some(ours));
            esper.runs = vec![asked(&[-0.6, 1.0])];
            let methods = vec![esper, method("rvs", 0.5, 0.0, Some(theirs))];
            claims(&reproduction(methods)).last().unwrap().holds
        };
        assert!(judged(0.2, 0.5));
        assert!(!judged(0.3, 2.0), "far off");
        assert!(!judged(0.2, 0.3), "little better than return conditioning");
    }

    /// ESPER should improve with more data and return conditioning should not.
    #[test]
    fn more_data_is_judged_by_its_ends() {
        let scaled = |esper: [f64; 2], rvs: [f64; 2]| {
            let entry = |at: usize| {
                let methods = vec![
                    method("esper", esper[at], 0.02, None),
                    method("rvs", rvs[at], 0.02, None),
                ];
                let results = reproduction(methods).tables.remove(0).results;
                ScalingEntry { fraction: [0.05, 1.0][at], results }
            };
            let scaling = Scaling {
                task: Some("twenty48".to_owned()),
                preset: "quick".to_owned(),
                fractions: vec![entry(0), entry(1)],
            };
            let mut parts = reproduction(Vec::new());
            let comparison = parts.tables.remove(0).comparison.unwrap();
            parts.scaled = Some(Scaled { comparison, scaling });
            verdicts(&parts)
        };
        assert_eq!(scaled([0.6, 0.8], [0.6, 0.61]), [true, true]);
        assert_eq!(scaled([0.6, 0.63], [0.6, 0.7]), [false, false]);
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
        let agent = |seed: u64, dynamics_loss: f64, offline_return: f64| BetaAgent {
            betas: Betas { act: 0.01, adv: 1.0 },
            seed,
            dynamics_loss,
            dynamics_loss_without_clusters: 1.0,
            leakage: 0.0,
            offline_return,
            best_return: 1.0,
        };
        let judged = |shift: f64, worst: f64| {
            let agents = vec![agent(0, 1.0, 1.0), agent(1, 0.99, 0.9), agent(2, 0.5, worst)];
            let parts =
                Reproduction { tables: Vec::new(), figure_1: asked(shift), agents, scaled: None };
            verdicts(&parts)
        };
        assert_eq!(judged(0.1, -5.0), [true, true]);
        assert_eq!(judged(0.5, 1.5), [false, false]);
    }
}

//! What an episode is asked for, what that promises from its start, and what has to be said about it.

use esper_data::CellsRef;

use crate::condition::{Levels, Target};
use crate::policy::{PolicyCard, Support};

/// What an episode is asked for.
pub(super) struct Asked {
    pub(super) target: Target,
    /// What is promised, if anything is.
    pub(super) promise: Option<f64>,
}

/// Makes sense of what is asked of an episode that begins with an observation; the policy's own choice where nothing is.
pub(super) fn resolve(
    card: &PolicyCard,
    asked: Option<Target>,
    observation: CellsRef<'_>,
    warnings: &mut Vec<String>,
) -> Asked {
    let Some(support) = &card.support else {
        if asked.is_some() {
            warnings.push(format!(
                "a policy of {} cannot be asked for a level or a target; that is ignored",
                card.origin.method
            ));
        }
        return Asked { target: Target::Return(0.0), promise: None };
    };
    match &card.levels {
        Some(levels) => by_level(card, levels, asked, observation, warnings),
        None => by_return(card, support, asked, warnings),
    }
}

/// A policy that is told levels.
fn by_level(
    card: &PolicyCard,
    Levels { starts, promises }: &Levels,
    asked: Option<Target>,
    observation: CellsRef<'_>,
    warnings: &mut Vec<String>,
) -> Asked {
    let level = match asked {
        None => promises.offline_level(),
        Some(Target::Level(level)) => within_levels(level, warnings),
        Some(Target::Return(target)) => {
            let range = [promises.all().first(), promises.all().last()];
            if let [Some(lowest), Some(highest)] = range.map(|end| end.map(|it| it.promise))
                && !(lowest..=highest).contains(&target)
            {
                let used = target.clamp(lowest, highest);
                warnings.push(format!(
                    "the data speaks about average returns from {lowest:.4} to {highest:.4}; {used:.4} is asked for in place of {target}"
                ));
            }
            promises.level_of(target)
        }
    };
    let features = card.interface.observation.features_of(observation, 0);
    if starts.is_unlike_any(&features) {
        warnings.push(
            "this start is unlike any in the data: what is promised, and what is done, is a guess"
                .to_owned(),
        );
    }
    // What levels promise is calibrated on average over starts; from this one it is as much more or less as its level is worth.
    let own = starts.worth(&features, level) - starts.mean_worth(level);
    let promise = promises.of_level(level).promise + own;
    Asked { target: Target::Level(level), promise: Some(promise) }
}

/// A policy that is told what is left to be reached.
fn by_return(
    card: &PolicyCard,
    support: &Support,
    asked: Option<Target>,
    warnings: &mut Vec<String>,
) -> Asked {
    let target = match asked {
        None => support.offline_target(),
        Some(Target::Level(level)) => support.quantile(within_levels(level, warnings)),
        Some(Target::Return(target)) => target,
    };
    let [lowest, highest] = support.range();
    if !support.supports(target) {
        let told = match card.labels.map(|labels| labels.range()) {
            Some([low, high]) if target < low || target > high => {
                format!(", and is told {:.4}, the nearest it has seen", target.clamp(low, high))
            }
            _ => String::new(),
        };
        let range = match (lowest..=highest).contains(&target) {
            true => "few episodes of the data start with such a label".to_owned(),
            false => format!("labels of first steps are from {lowest:.4} to {highest:.4}"),
        };
        warnings
            .push(format!("the policy was not trained for a target of {target}: {range}{told}"));
    }
    let promise = Some(target.clamp(lowest, highest));
    Asked { target: Target::Return(target), promise }
}

fn within_levels(level: f64, warnings: &mut Vec<String>) -> f64 {
    if !(0.0..=1.0).contains(&level) {
        let used = level.clamp(0.0, 1.0);
        warnings.push(format!("levels are from 0 to 1; {used} is taken in place of {level}"));
    }
    level.clamp(0.0, 1.0)
}

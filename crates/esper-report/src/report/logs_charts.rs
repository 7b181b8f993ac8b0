//! Figures of what is known without a world: what levels promise, and who returned what.

use esper_data::{BehaviourReturns, Overview};
use esper_eval::MethodResults;
use esper_eval::text::{count, number, plural};

use super::charts::{joined, series, strings};
use super::figure::{Axis, Colour, Dot, Figure, Mark, Panel, Series};
use super::gather::Compared;

/// The most behaviours that are drawn; all of them are in the numbers behind the figure.
const SHOWN: usize = 12;

/// All of them.
pub(super) fn figures(compared: &Compared) -> impl Iterator<Item = Figure> {
    returns(compared).into_iter().chain(promises(compared))
}

/// A level over seeds: what it promises, from the lowest lower end to the highest upper one.
struct Promised {
    level: f64,
    promise: f64,
    ends: Option<[f64; 2]>,
    episodes: f64,
    chosen: bool,
}

/// What the levels of a method promise; those of its first seed.
fn promised(method: &MethodResults) -> Vec<Promised> {
    let Some(first) = method.runs.first() else { return Vec::new() };
    let at = |level: f64| {
        let of_seeds = method.runs.iter().filter_map(|run| {
            run.promises.iter().find(|of| of.level.is_some_and(|of| (of - level).abs() < 1e-9))
        });
        let seeds: Vec<_> = of_seeds.collect();
        let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len().max(1) as f64;
        let low = seeds.iter().filter_map(|of| of.low).reduce(f64::min);
        let high = seeds.iter().filter_map(|of| of.high).reduce(f64::max);
        let is_chosen =
            |of: &esper::policy::Outlook| of.level.is_some_and(|of| (of - level).abs() < 1e-9);
        Promised {
            level,
            promise: mean(seeds.iter().map(|of| of.promise).collect()),
            ends: low.zip(high).map(|(low, high)| [low, high]),
            episodes: mean(seeds.iter().map(|of| of.episodes as f64).collect()),
            chosen: method
                .runs
                .iter()
                .any(|run| run.offline_promise.is_some_and(|of| is_chosen(&of))),
        }
    };
    first.promises.iter().filter_map(|of| of.level).map(at).collect()
}

/// What levels promise, with intervals, beside the mean of the data and the best behaviour; below, how many episodes are near.
pub(super) fn promises(compared: &Compared) -> Option<Figure> {
    let methods = &compared.results.methods;
    let known: Vec<(&MethodResults, Vec<Promised>)> = methods
        .iter()
        .map(|method| (method, promised(method)))
        .filter(|(_, promised)| !promised.is_empty())
        .collect();
    if known.is_empty() {
        return None;
    }
    let overview = compared.results.dataset.overview.as_ref();
    let beside: Vec<f64> = overview.map_or(Vec::new(), |overview| {
        let best = overview.best_behaviour().map(|best| best.mean_return);
        [Some(overview.all.mean_return), best].into_iter().flatten().collect()
    });
    let x = Axis { label: None, low: 0.0, high: 1.0 };
    let shown = known.iter().flat_map(|(_, promised)| promised).flat_map(|of| {
        let [low, high] = of.ends.unwrap_or([of.promise; 2]);
        [low, of.promise, high]
    });
    let y = Axis::around("average return", shown.chain(beside.iter().copied()));
    let mut marks: Vec<Mark> =
        beside.iter().map(|&at| Mark::Guide { from: [0.0, at], to: [1.0, at] }).collect();
    let mut support = Vec::new();
    let mut data =
        vec![strings(["method", "level", "promise", "low", "high", "episodes near", "chosen"])];
    let mut most = 1.0f64;
    for (method, promised) in &known {
        let Series { colour, name } = series(methods, method);
        let dot = |of: &Promised| {
            let interval = of.ends.map_or(", taken at its word".to_owned(), |[low, high]| {
                format!(" ({} to {})", number(low), number(high))
            });
            let chosen = if of.chosen { ", chosen from the data alone" } else { "" };
            let near = plural(of.episodes.round() as usize, "episode");
            Dot {
                at: [of.level, of.promise],
                error: 0.0,
                solid: of.chosen,
                says: format!(
                    "{name}, level {}: promises {}{interval}, {near} near{chosen}",
                    number(of.level),
                    number(of.promise)
                ),
            }
        };
        let dots: Vec<Dot> = promised.iter().map(dot).collect();
        for of in promised {
            if let Some([low, high]) = of.ends {
                let points = vec![[of.level, low], [of.level, high]];
                marks.push(Mark::Line { colour, points, says: String::new() });
            }
            let text = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
            let mut row = vec![method.method.clone(), of.level.to_string(), of.promise.to_string()];
            row.extend([of.ends.map(|ends| ends[0]), of.ends.map(|ends| ends[1])].map(text));
            row.extend([of.episodes.to_string(), of.chosen.to_string()]);
            data.push(row);
            most = most.max(of.episodes);
        }
        marks.push(joined(colour, &dots));
        marks.push(Mark::Dots { colour, dots });
        let bars = promised.iter().map(|of| [of.level - 0.02, of.level + 0.02, of.episodes]);
        let says = format!("{name}, episodes near levels");
        support.push(Mark::Bars { colour, bars: bars.collect(), says });
    }
    let below = Panel {
        height: 90.0,
        x: Axis { label: Some("level that is asked for".to_owned()), ..x.clone() },
        y: Axis { label: Some("episodes".to_owned()), low: 0.0, high: 1.05 * most },
        marks: support,
    };
    Some(Figure {
        name: format!("{}-{}-promises", compared.name(), compared.policy()),
        title: format!("{}: what levels promise", compared.name()),
        series: known.iter().map(|(method, _)| series(methods, method)).collect(),
        panels: vec![Panel { height: 280.0, x, y, marks }, below],
        data,
    })
}

/// Who returned what on average, and how many episodes what.
pub(super) fn returns(compared: &Compared) -> Option<Figure> {
    let overview = compared.results.dataset.overview.as_ref()?;
    let shown: Vec<&BehaviourReturns> = overview.behaviours.iter().take(SHOWN).collect();
    let Overview { returns, histogram, all, .. } = overview;
    let means = shown.iter().flat_map(|of| {
        [of.mean_return, of.low.unwrap_or(of.mean_return), of.high.unwrap_or(of.mean_return)]
    });
    let mut x = Axis::around("return", [returns.min, returns.max].into_iter().chain(means));
    let mut panels = Vec::new();
    let most = histogram.iter().map(|bar| bar.episodes).max().unwrap_or(1) as f64;
    // A value by itself would have no width.
    let least = (x.high - x.low) / 150.0;
    let bar = |bar: &esper_data::Bar| {
        let wider = if bar.high > bar.low { 0.0 } else { least };
        [bar.low - wider, bar.high + wider, bar.episodes as f64]
    };
    let bars = histogram.iter().map(bar).collect();
    let mut marks =
        vec![Mark::Bars { colour: Colour(5), bars, says: "episodes that return".to_owned() }];
    let mean = all.mean_return;
    marks.push(Mark::Guide { from: [mean, 0.0], to: [mean, 1.05 * most] });
    if !shown.is_empty() {
        panels.push(Panel {
            height: 24.0 * shown.len() as f64 + 12.0,
            x: Axis { label: None, ..x.clone() },
            y: Axis { label: None, low: 0.0, high: shown.len() as f64 + 0.5 },
            marks: of_behaviours(&shown, mean),
        });
    }
    // A dot on the mean says what it is.
    let says = format!("all {}: {} on average", plural(all.episodes, "episode"), number(mean));
    let dots = vec![Dot { at: [mean, most], error: 0.0, solid: true, says }];
    marks.push(Mark::Dots { colour: Colour(5), dots });
    x.label = Some("return of an episode".to_owned());
    panels.push(Panel {
        height: 160.0,
        x,
        y: Axis { label: Some("episodes".to_owned()), low: 0.0, high: 1.05 * most },
        marks,
    });
    let mut data = vec![strings(["what", "from", "to", "episodes", "mean return", "low", "high"])];
    let text = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    for of in overview.behaviours.iter().chain([all]) {
        let mut row = vec![of.name.clone(), String::new(), String::new(), of.episodes.to_string()];
        row.extend([Some(of.mean_return), of.low, of.high].map(text));
        data.push(row);
    }
    for bar in histogram {
        let mut row = vec!["returns".to_owned(), bar.low.to_string(), bar.high.to_string()];
        row.extend([bar.episodes.to_string(), String::new(), String::new(), String::new()]);
        data.push(row);
    }
    let behaviour = |(at, of): (usize, &&BehaviourReturns)| Series {
        colour: Colour(at),
        name: of.name.clone(),
    };
    Some(Figure {
        name: format!("{}-returns", compared.name()),
        title: format!("{}: who returned what", compared.name()),
        series: shown.iter().enumerate().map(behaviour).collect(),
        panels,
        data,
    })
}

/// A dot for each mean with a line for its interval, the one that acted most often on top.
fn of_behaviours(shown: &[&BehaviourReturns], mean: f64) -> Vec<Mark> {
    let mut marks = vec![Mark::Guide { from: [mean, 0.0], to: [mean, shown.len() as f64 + 0.5] }];
    for (at, of) in shown.iter().enumerate() {
        let (colour, height) = (Colour(at), (shown.len() - at) as f64 - 0.25);
        if let (Some(low), Some(high)) = (of.low, of.high) {
            let points = vec![[low, height], [high, height]];
            marks.push(Mark::Line { colour, points, says: String::new() });
        }
        let says = format!(
            "{}: {} on average{} in {} episodes",
            of.name,
            number(of.mean_return),
            interval(of.low, of.high),
            count(of.episodes)
        );
        let dot = Dot { at: [of.mean_return, height], error: 0.0, solid: true, says };
        marks.push(Mark::Dots { colour, dots: vec![dot] });
    }
    marks
}

/// From where to where, in words; nothing where that is not known.
pub(super) fn interval(low: Option<f64>, high: Option<f64>) -> String {
    match (low, high) {
        (Some(low), Some(high)) => format!(" ({} to {})", number(low), number(high)),
        _ => String::new(),
    }
}

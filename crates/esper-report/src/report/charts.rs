//! The figures of a report.

use esper_data::Moments;
use esper_eval::text::{number, percent};
use esper_eval::{MeanStd, MethodResults, ScalingEntry, SweepEntry};

use super::figure::{Axis, Colour, Dot, Figure, Mark, Panel, Series};
use super::gather::{Compared, Run, Scaled};

/// A method's name and its colour: that of its place among all that are compared.
pub(super) fn series(methods: &[MethodResults], method: &MethodResults) -> Series {
    let place = methods.iter().position(|other| other.method == method.method);
    Series { colour: Colour(place.unwrap_or(methods.len())), name: method.title().to_owned() }
}

fn axis(label: &str, low: f64, high: f64) -> Axis {
    Axis { label: Some(label.to_owned()), low, high }
}

/// What a method got for a target, over seeds; the deviation of a single one is its standard error.
struct Asked {
    target: f64,
    achieved: MeanStd,
    supported: bool,
}

impl Asked {
    /// What was achieved, less and more its deviation.
    fn ends(&self) -> [f64; 2] {
        let MeanStd { mean, std } = self.achieved;
        [mean - std, mean + std]
    }

    fn dot(&self, who: &str) -> Dot {
        let Asked { target, achieved: MeanStd { mean, std }, supported } = *self;
        Dot {
            at: [target, mean],
            error: std,
            solid: supported,
            says: format!(
                "{who}: asked for {}, got {} ± {}{}",
                number(target),
                number(mean),
                number(std),
                if supported { "" } else { " (not supported)" }
            ),
        }
    }
}

/// The method whose labels say which targets the data speaks about: the first that has targets.
pub(super) fn speaks(compared: &Compared) -> Option<&MethodResults> {
    compared.results.methods.iter().find(|method| !asked(method).is_empty())
}

/// Ranges of targets that the data does not speak about: none that was asked for there is supported.
fn unsupported(asked: &[Asked], x: &Axis) -> Vec<Mark> {
    let margin = (x.high - x.low) / 100.0;
    let mut shades = Vec::new();
    let mut from = x.low;
    let mut between = true;
    for asked in asked {
        if asked.supported {
            if between {
                shades.push(Mark::Shade { from, to: (asked.target - margin).max(from) });
            }
            from = asked.target + margin;
        }
        between = !asked.supported;
    }
    if !shades.is_empty() {
        shades.push(Mark::Shade { from, to: x.high });
    }
    shades
}

/// A line through dots, which say what they are themselves.
pub(super) fn joined(colour: Colour, dots: &[Dot]) -> Mark {
    Mark::Line { colour, points: dots.iter().map(|dot| dot.at).collect(), says: String::new() }
}

/// The lower and the upper end of a dot's error.
fn ends(dot: &Dot) -> [f64; 2] {
    [dot.at[1] - dot.error, dot.at[1] + dot.error]
}

/// Where target and achieved return are the same, as far as both axes go.
fn diagonal(x: &Axis, y: &Axis) -> Option<Mark> {
    let (low, high) = (x.low.max(y.low), x.high.min(y.high));
    (high > low).then_some(Mark::Guide { from: [low, low], to: [high, high] })
}

/// Seeds have targets of their own; between two of them, what was achieved is taken to lie on a line, and beyond the last
/// it is what the last got: a policy does what it does for the nearest label it knows.
fn achieved_at(sweep: &[SweepEntry], target: f64) -> Option<SweepEntry> {
    let known: Vec<(f64, &SweepEntry)> =
        sweep.iter().filter_map(|entry| Some((entry.target?, entry))).collect();
    let after = known.iter().position(|(at, _)| *at >= target - 1e-9).unwrap_or(known.len());
    let (low, below) = *known.get(after.saturating_sub(1))?;
    let (high, above) = known.get(after).copied().unwrap_or((low, below));
    let share = if high > low { ((target - low) / (high - low)).clamp(0.0, 1.0) } else { 1.0 };
    let nearest = if share > 0.5 { above } else { below };
    let mut entry = nearest.clone();
    entry.target = Some(target);
    entry.achieved = below.achieved + share * (above.achieved - below.achieved);
    Some(entry)
}

/// A method asked for the targets of its first seed.
fn asked(method: &MethodResults) -> Vec<Asked> {
    let Some(first) = method.runs.first() else { return Vec::new() };
    let at = |entry: &SweepEntry| {
        let target = entry.target?;
        let runs = method.runs.iter();
        let seeds: Vec<SweepEntry> =
            runs.filter_map(|run| achieved_at(&run.evaluation.sweep, target)).collect();
        let supported = 2 * seeds.iter().filter(|seed| seed.supported).count() > seeds.len();
        let mut achieved = MeanStd::of(seeds.iter().map(|seed| seed.achieved))?;
        // Of one seed, the luck of its episodes is all that is known.
        if let [only] = &seeds[..] {
            achieved.std = only.stderr;
        }
        Some(Asked { target, achieved, supported })
    };
    first.evaluation.sweep.iter().filter_map(at).collect()
}

/// The paper's figure: what was asked for against what was achieved, over the labels that were trained on.
pub(super) fn targets(compared: &Compared) -> Option<Figure> {
    let results = &compared.results;
    let with_targets: Vec<(&MethodResults, Vec<Asked>)> = results
        .methods
        .iter()
        .map(|method| (method, asked(method)))
        .filter(|(_, asked)| !asked.is_empty())
        .collect();
    let points = || with_targets.iter().flat_map(|(_, asked)| asked);
    points().next()?;
    let x = Axis::around("target return", points().map(|asked| asked.target));
    let best = results.methods.iter().filter_map(|method| {
        let (mean, spread) = (method.best_return?.mean, method.best_spread());
        Some([mean - spread, mean + spread])
    });
    let y = Axis::around("achieved return", points().flat_map(Asked::ends).chain(best.flatten()));

    let mut marks = Vec::new();
    let speaks = speaks(compared).map(|method| &method.method);
    if let Some((_, asked)) = with_targets.iter().find(|(of, _)| Some(&of.method) == speaks) {
        marks.extend(unsupported(asked, &x));
    }
    marks.extend(diagonal(&x, &y));
    for method in &results.methods {
        let Series { name, colour } = series(&results.methods, method);
        match with_targets.iter().find(|(other, _)| std::ptr::eq(*other, method)) {
            Some((_, asked)) => {
                let line = asked.iter().map(|asked| [asked.target, asked.achieved.mean]).collect();
                marks.push(Mark::Line { colour, points: line, says: String::new() });
                let dots = asked.iter().map(|asked| asked.dot(&name)).collect();
                marks.push(Mark::Dots { colour, dots });
            }
            // What cannot be asked gets the same for everything.
            None => {
                if let Some(MeanStd { mean, .. }) = method.best_return {
                    let spread = method.best_spread();
                    let line = vec![[x.low, mean], [x.high, mean]];
                    marks.push(Mark::Line { colour, points: line, says: String::new() });
                    let says = format!(
                        "{name}, which cannot be asked, got {} ± {}",
                        number(mean),
                        number(spread)
                    );
                    let end = x.high - (x.high - x.low) / 50.0;
                    let dots = vec![Dot { at: [end, mean], error: spread, solid: true, says }];
                    marks.push(Mark::Dots { colour, dots });
                }
            }
        }
    }
    let mut panels = vec![Panel { height: 300.0, x: x.clone(), y, marks }];
    if let Some(histogram) = histogram(compared, &x) {
        panels[0].x.label = None;
        panels.push(histogram);
    }
    let mut data =
        vec![strings(["what", "method", "seed", "target", "value", "error", "supported"])];
    let text = |number: Option<f64>| number.map_or(String::new(), |number| number.to_string());
    for method in &results.methods {
        for run in &method.runs {
            for entry in &run.evaluation.sweep {
                let mut row = strings(["achieved by a seed", &method.method]);
                row.push(run.seed.to_string());
                row.extend([entry.target, Some(entry.achieved), Some(entry.stderr)].map(text));
                row.push(entry.supported.to_string());
                data.push(row);
            }
        }
    }
    for (method, asked) in &with_targets {
        for Asked { target, achieved: MeanStd { mean, std }, supported } in asked {
            let mut row = strings(["achieved over seeds", &method.method, ""]);
            row.extend([target, mean, std].map(f64::to_string));
            row.push(supported.to_string());
            data.push(row);
        }
    }
    for (method, bars) in trained_on(compared) {
        for [from, to, share] in bars.into_iter().filter(|bar| bar[2] > 0.0) {
            let mut row = strings(["share of first labels", &method.method, ""]);
            row.extend([(from + to) / 2.0, share].map(|number| number.to_string()));
            row.extend(strings(["", ""]));
            data.push(row);
        }
    }
    Some(Figure {
        name: format!("{}-{}-targets", compared.name(), compared.policy()),
        title: format!("{}: what is asked for, and what is achieved", compared.name()),
        series: results.methods.iter().map(|method| series(&results.methods, method)).collect(),
        panels,
        data,
    })
}

pub(super) fn strings<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(str::to_owned).to_vec()
}

/// The first labels of episodes by method, as shares, a mean over seeds: from, to, share.
fn trained_on(compared: &Compared) -> Vec<(&MethodResults, Vec<[f64; 3]>)> {
    let of_method = |method: &'_ MethodResults| {
        let histograms: Vec<_> = compared
            .runs_of(method)
            .filter_map(|run| Some(&run.labelled.as_ref()?.first))
            .collect();
        let first = histograms.first()?;
        let width = (first.high - first.low) / first.counts.len() as f64;
        let share = |bin: usize| {
            let of = |histogram: &&esper::run::Histogram| {
                let total = histogram.counts.iter().sum::<usize>().max(1);
                histogram.counts.get(bin).copied().unwrap_or(0) as f64 / total as f64
            };
            Moments::of(histograms.iter().map(of)).mean
        };
        let bar = |bin: usize| {
            let from = first.low + bin as f64 * width;
            [from, from + width, share(bin)]
        };
        Some((0..first.counts.len()).map(bar).collect())
    };
    let methods = compared.results.methods.iter();
    methods.filter_map(|method| Some((method, of_method(method)?))).collect()
}

fn histogram(compared: &Compared, x: &Axis) -> Option<Panel> {
    let trained_on = trained_on(compared);
    let shares = trained_on.iter().flat_map(|(_, bars)| bars).map(|bar| bar[2]);
    let highest = shares.fold(0.0, f64::max);
    let bars = |(method, bars): (&MethodResults, Vec<[f64; 3]>)| {
        let Series { colour, name } = series(&compared.results.methods, method);
        Mark::Bars { colour, bars, says: format!("{name}, episodes labelled") }
    };
    (highest > 0.0).then(|| Panel {
        height: 90.0,
        x: x.clone(),
        y: axis("episodes", 0.0, highest * 1.05),
        marks: trained_on.into_iter().map(bars).collect(),
    })
}

/// A seed, and points of something over the steps of its training.
type Curve = (u64, Vec<[f64; 2]>);

/// A panel of one measure, a line a seed; `None` if nothing was measured.
fn curve_panel(label: &str, curves: &[Curve]) -> Option<Panel> {
    let points = || curves.iter().flat_map(|(_, points)| points);
    points().next()?;
    let x = Axis::around("step", points().map(|point| point[0]));
    let y = Axis::around(label, points().map(|point| point[1]));
    let marks = curves
        .iter()
        .map(|(seed, points)| Mark::Line {
            colour: Colour(*seed as usize),
            points: points.clone(),
            says: format!("seed {seed}, {label} at step"),
        })
        .collect();
    Some(Panel { height: 120.0, x, y, marks })
}

/// What a method says of its training, by what it is called; seeds may have different phases of it.
fn measures(compared: &Compared, method: &MethodResults) -> Vec<(String, Vec<Curve>)> {
    let mut measures: Vec<(String, Vec<Curve>)> = Vec::new();
    for results in &method.runs {
        let run = compared.runs_of(method).find(|run: &&Run| run.seed == results.seed);
        for (run, curve) in run.iter().flat_map(|run| results.curves.iter().map(move |c| (run, c)))
        {
            let points = (results.seed, run.curve(curve));
            match measures.iter_mut().find(|(label, _)| *label == curve.label) {
                Some((_, curves)) => curves.push(points),
                None => measures.push((curve.label.clone(), vec![points])),
            }
        }
    }
    measures
}

/// Losses and other measures while a method was trained.
pub(super) fn curves(compared: &Compared, method: &MethodResults) -> Option<Figure> {
    let measures = measures(compared, method);
    let panels: Vec<Panel> =
        measures.iter().filter_map(|(label, curves)| curve_panel(label, curves)).collect();
    let mut data = vec![strings(["measure", "seed", "step", "value"])];
    for (label, curves) in &measures {
        for (seed, points) in curves {
            data.extend(points.iter().map(|[step, value]| {
                vec![label.clone(), seed.to_string(), step.to_string(), value.to_string()]
            }));
        }
    }
    (!panels.is_empty()).then(|| Figure {
        name: format!("{}-{}-{}-training", compared.name(), compared.policy(), method.method),
        title: format!("{}: training of {}", compared.name(), method.title()),
        series: compared
            .runs_of(method)
            .map(|run| Series {
                colour: Colour(run.seed as usize),
                name: format!("seed {}", run.seed),
            })
            .collect(),
        panels,
        data,
    })
}

/// Times with fewer episodes than this share are left out: their means say little.
const FEWEST: f64 = 0.01;

/// A method's labels by who acted, over the time of episodes.
pub(super) fn labels_by_behaviour(compared: &Compared, method: &MethodResults) -> Option<Figure> {
    let runs: Vec<_> = compared
        .runs_of(method)
        .filter_map(|run| Some((run.seed, run.labelled.as_ref()?)))
        .collect();
    let (_, first) = runs.first()?;
    let mut marks = Vec::new();
    let mut shown = Vec::new();
    let mut data = vec![strings(["behaviour", "seed", "step", "episodes", "label"])];
    for (at, behaviour) in first.behaviours.iter().enumerate() {
        let colour = Colour(at);
        let of_seed =
            |(_, labelled): &(u64, &esper::run::Labelled)| labelled.behaviours.get(at).cloned();
        let over_seeds: Vec<_> = runs.iter().filter_map(of_seed).collect();
        let enough = |time: &&esper::run::TimeLabel| {
            time.episodes as f64 >= FEWEST * behaviour.episodes as f64
        };
        let dots: Vec<Dot> = behaviour
            .times
            .iter()
            .filter(enough)
            .filter_map(|time| {
                let labels = over_seeds.iter().filter_map(|of| {
                    of.times.iter().find(|other| other.step == time.step).map(|other| other.label)
                });
                let MeanStd { mean, std } = MeanStd::of(labels)?;
                let says = format!(
                    "{}, step {}: label {} ± {}",
                    named(&behaviour.name),
                    time.step,
                    number(mean),
                    number(std)
                );
                Some(Dot { at: [time.step as f64, mean], error: std, solid: true, says })
            })
            .collect();
        let last = dots.last().map_or(1.0, |dot| dot.at[0]);
        let truth = behaviour.mean_return;
        marks.push(Mark::Guide { from: [0.0, truth], to: [last, truth] });
        marks.push(joined(colour, &dots));
        shown.extend(dots.iter().map(|dot| dot.at));
        shown.push([0.0, truth]);
        marks.push(Mark::Dots { colour, dots });
        for ((seed, _), of) in runs.iter().zip(&over_seeds) {
            data.extend(of.times.iter().map(|time| {
                let numbers =
                    [time.step.to_string(), time.episodes.to_string(), time.label.to_string()];
                [vec![behaviour.name.clone(), seed.to_string()], numbers.to_vec()].concat()
            }));
        }
    }
    let labels = runs.iter().flat_map(|(_, labelled)| [labelled.first.low, labelled.first.high]);
    let panel = Panel {
        height: 220.0,
        x: Axis::around("step of the episode", shown.iter().map(|at| at[0])),
        // As far as labels go: what looks like a difference should be one.
        y: Axis::around("mean label", shown.iter().map(|at| at[1]).chain(labels)),
        marks,
    };
    // The first method that has learned labels gives the figure its short name.
    let first_of_all = compared.relabelled().next().is_some_and(|of| of.method == method.method);
    let whose = if first_of_all { String::new() } else { format!("{}-", method.method) };
    Some(Figure {
        name: format!("{}-{}-{whose}labels", compared.name(), compared.policy()),
        title: format!(
            "{}: labels by who acted ({}), and what they return (dashed)",
            compared.name(),
            method.title()
        ),
        series: first
            .behaviours
            .iter()
            .enumerate()
            .map(|(at, behaviour)| Series { colour: Colour(at), name: named(&behaviour.name) })
            .collect(),
        panels: vec![panel],
        data,
    })
}

fn named(name: &str) -> String {
    if name.is_empty() { "all episodes".to_owned() } else { name.to_owned() }
}

const SCALING_DATA: [&str; 7] =
    ["method", "share", "steps", "seeds", "best_return", "error", "offline_return"];

/// Best returns with shares of the data.
pub(super) fn scaling(scaled: &Scaled) -> Figure {
    let shares = &scaled.scaling.fractions;
    let methods = shares.first().map_or(&[][..], |entry| &entry.results.methods[..]);
    let mut marks = Vec::new();
    let mut shown = Vec::new();
    let mut data = vec![strings(SCALING_DATA)];
    for (at, method) in methods.iter().enumerate() {
        let Series { colour, name } = series(methods, method);
        let mut dots = Vec::new();
        for entry in shares {
            let Some(of) = entry.results.methods.get(at) else { continue };
            let Some(best) = of.best_return else { continue };
            let says = format!(
                "{name} with {} of the data: {} ± {}",
                percent(entry.fraction),
                number(best.mean),
                number(of.best_spread())
            );
            dots.push(Dot {
                at: [100.0 * entry.fraction, best.mean],
                error: of.best_spread(),
                solid: true,
                says,
            });
            let mut row = vec![method.method.clone(), entry.fraction.to_string()];
            row.extend([entry.results.dataset.steps, of.runs.len()].map(|n| n.to_string()));
            let offline =
                of.offline_return.map_or(String::new(), |offline| offline.mean.to_string());
            row.extend([best.mean.to_string(), of.best_spread().to_string(), offline]);
            data.push(row);
        }
        shown.extend(dots.iter().cloned());
        marks.push(joined(colour, &dots));
        marks.push(Mark::Dots { colour, dots });
    }
    let panel = Panel {
        height: 240.0,
        x: Axis::around("percent of the data", shown.iter().map(|dot| dot.at[0])),
        y: Axis::around("best return", shown.iter().flat_map(ends)),
        marks,
    };
    Figure {
        name: format!("{}-scaling", scaled.name()),
        title: format!("{}: best return with more data", scaled.name()),
        series: methods.iter().map(|method| series(methods, method)).collect(),
        panels: vec![panel],
        data,
    }
}

/// What was asked for against what was achieved, a panel a method and a line a share of the data. All panels have the same
/// axes.
pub(super) fn scaling_targets(scaled: &Scaled) -> Option<Figure> {
    let shares = &scaled.scaling.fractions;
    let methods = shares.first().map_or(&[][..], |entry| &entry.results.methods[..]);
    let of_share = |entry: &ScalingEntry, at: usize| entry.results.methods.get(at).map(asked);
    let curves: Vec<Vec<Vec<Asked>>> = (0..methods.len())
        .map(|at| shares.iter().filter_map(|entry| of_share(entry, at)).collect())
        .collect();
    let points = || curves.iter().flatten().flatten();
    let x = Axis::around("target return", points().map(|asked| asked.target));
    let y = Axis::around("", points().flat_map(Asked::ends));
    let mut data = vec![strings(["method", "share", "target", "achieved", "error", "supported"])];
    let mut panels = Vec::new();
    for (method, curves) in methods.iter().zip(&curves) {
        if curves.iter().all(Vec::is_empty) {
            continue;
        }
        let name = method.title();
        let mut marks: Vec<Mark> = diagonal(&x, &y).into_iter().collect();
        for (at, (asked, entry)) in curves.iter().zip(shares).enumerate() {
            let (colour, share) = (Colour(at), percent(entry.fraction));
            let points = asked.iter().map(|asked| [asked.target, asked.achieved.mean]).collect();
            marks.push(Mark::Line { colour, points, says: String::new() });
            let who = format!("{name} with {share} of the data");
            marks.push(Mark::Dots { colour, dots: asked.iter().map(|a| a.dot(&who)).collect() });
            for Asked { target, achieved: MeanStd { mean, std }, supported } in asked {
                let mut row = vec![method.method.clone(), entry.fraction.to_string()];
                row.extend([target, mean, std].map(f64::to_string));
                row.push(supported.to_string());
                data.push(row);
            }
        }
        let y = Axis { label: Some(format!("achieved by {name}")), ..y };
        panels.push(Panel { height: 200.0, x: x.clone(), y, marks });
    }
    let name = |(at, entry): (usize, &ScalingEntry)| Series {
        colour: Colour(at),
        name: percent(entry.fraction),
    };
    (!panels.is_empty()).then(|| Figure {
        name: format!("{}-scaling-targets", scaled.name()),
        title: format!("{}: what is asked for and achieved, with more data", scaled.name()),
        series: shares.iter().enumerate().map(name).collect(),
        panels,
        data,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(entries: &[(f64, f64, bool)]) -> Vec<SweepEntry> {
        let entry = |&(target, achieved, supported): &(f64, f64, bool)| {
            SweepEntry::new(Some(target), &Moments::of([achieved].into_iter()), supported)
        };
        entries.iter().map(entry).collect()
    }

    /// Halfway between two targets it is halfway between what they got; beyond the last it is what that got.
    #[test]
    fn targets_of_other_seeds_lie_on_a_line() {
        let sweep = sweep(&[(0.0, 1.0, false), (2.0, 3.0, true)]);
        let at = |target: f64| {
            let entry = achieved_at(&sweep, target).unwrap();
            (entry.achieved, entry.supported)
        };
        assert_eq!([0.0, 1.5, 2.0].map(at), [(1.0, false), (2.5, true), (3.0, true)]);
        assert_eq!([-9.0, 9.0].map(at), [(1.0, false), (3.0, true)]);
        assert!(achieved_at(&[], 0.0).is_none());
    }

    /// Between the supported targets 1, 2 and 5 there is nothing from 2 to 5.
    #[test]
    fn what_is_unsupported_is_shaded() {
        let asked: Vec<Asked> =
            [(0.0, false), (1.0, true), (2.0, true), (3.0, false), (5.0, true), (9.0, false)]
                .map(|(target, supported)| Asked {
                    target,
                    achieved: MeanStd { mean: 0.0, std: 0.0 },
                    supported,
                })
                .into();
        let shades = unsupported(&asked, &axis("", 0.0, 10.0));
        let shade = |from: f64, to: f64| Mark::Shade { from, to };
        assert_eq!(shades, [shade(0.0, 0.9), shade(2.1, 4.9), shade(5.1, 10.0)]);
        assert!(unsupported(&asked[..1], &axis("", 0.0, 10.0)).is_empty());
    }
}

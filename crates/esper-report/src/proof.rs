//! The page of a proof: promises against the truth.

use esper_eval::text::number;
use esper_eval::{Proven, Tried, Verdict};

use crate::report::{Axis, Colour, Dot, Figure, Mark, Panel, Report, Section, Series};

/// The page of what was proven. Returns are drawn as shares of the range of behaviours: 0 is the best of them.
pub fn proof_page(proven: &Proven, command: &str) -> Report {
    let contenders: Vec<&Verdict> =
        proven.summary.iter().filter(|verdict| verdict.kind.is_none()).collect();
    let name = |verdict: &Verdict| format!("{}, {}", verdict.method, verdict.condition);
    let mut dots = Vec::new();
    for (at, verdict) in contenders.iter().enumerate() {
        let of = |tried: &&Tried| {
            (&tried.method, tried.condition) == (&verdict.method, verdict.condition)
        };
        let dot = |tried: &Tried| {
            let share = |value: f64| (value - tried.best_behaviour) / tried.range;
            let promise = tried.promise?;
            Some(Dot {
                at: [share(promise), share(tried.achieved)],
                error: 2.0 * tried.stderr / tried.range,
                solid: !tried.warned,
                says: format!(
                    "{} ({}): promised {}, achieved {}",
                    tried.world,
                    tried.kind,
                    number(promise),
                    number(tried.achieved)
                ),
            })
        };
        let of_contender = proven.worlds.iter().filter(of).filter_map(dot).collect();
        dots.push(Mark::Dots { colour: Colour(at), dots: of_contender });
    }
    let ends = || {
        dots.iter().flat_map(|mark| match mark {
            Mark::Dots { dots, .. } => dots.iter().flat_map(|dot| dot.at).collect(),
            _ => Vec::new(),
        })
    };
    let label = |what: &str| format!("{what}, as a share of the range above the best behaviour");
    let (x, y) = (Axis::around(&label("promised"), ends()), Axis::around("achieved", ends()));
    let (low, high) = (x.low.max(y.low), x.high.min(y.high));
    let mut marks = vec![Mark::Guide { from: [low, low], to: [high, high] }];
    marks.extend(dots);
    let figure = Figure {
        name: "promises".to_owned(),
        title: "What was promised, and what came of it".to_owned(),
        series: contenders
            .iter()
            .enumerate()
            .map(|(at, verdict)| Series { colour: Colour(at), name: name(verdict) })
            .collect(),
        panels: vec![Panel { height: 360.0, x, y, marks }],
        data: rows(proven),
    };
    Report {
        title: "Promises against the truth".to_owned(),
        verdicts: None,
        compared: Vec::new(),
        scaled: Vec::new(),
        others: vec![
            Section {
                title: "Promises and achievements".to_owned(),
                words: contenders.iter().map(|of| in_words(of)).collect::<Vec<_>>().join(" "),
                figure,
                command: command.to_owned(),
            },
            Section {
                title: "By kind of world".to_owned(),
                words: "How far promises were off, on average, as a share of the range of behaviours' mean returns.".to_owned(),
                figure: by_kind(proven, &contenders),
                command: command.to_owned(),
            },
        ],
    }
}

/// What one contender did, in a sentence.
fn in_words(verdict: &Verdict) -> String {
    let percent =
        |share: Option<f64>| share.map_or("–".to_owned(), |it| format!("{:.0}%", 100.0 * it));
    format!(
        "{} told {}: {} trainings; promises kept within 5% of the range in {}, within 10% in {}; at least the best behaviour less \
         3% in {}; above the best behaviour in {} of the worlds with room; mean error over levels {}.",
        verdict.method,
        verdict.condition,
        verdict.tried,
        percent(verdict.kept_5),
        percent(verdict.kept_10),
        percent(Some(verdict.good)),
        percent(verdict.above_best),
        verdict.calibration_error.map_or("–".to_owned(), |it| format!("{:.1}%", 100.0 * it)),
    )
}

/// Every training, as a table.
fn rows(proven: &Proven) -> Vec<Vec<String>> {
    let heading = [
        "world",
        "kind",
        "seed",
        "method",
        "condition",
        "promise",
        "achieved",
        "stderr",
        "best behaviour",
        "optimum",
        "range",
        "calibration error",
        "warned",
    ];
    let row = |tried: &Tried| {
        let maybe = |value: Option<f64>| value.map_or("–".to_owned(), number);
        vec![
            tried.world.clone(),
            tried.kind.clone(),
            tried.seed.to_string(),
            tried.method.clone(),
            tried.condition.to_string(),
            maybe(tried.promise),
            number(tried.achieved),
            number(tried.stderr),
            number(tried.best_behaviour),
            number(tried.optimum),
            number(tried.range),
            maybe(tried.calibration_error),
            if tried.warned { "yes" } else { "no" }.to_owned(),
        ]
    };
    let heading = heading.map(str::to_owned).to_vec();
    std::iter::once(heading).chain(proven.worlds.iter().map(row)).collect()
}

/// Errors of promises by kind of world.
fn by_kind(proven: &Proven, contenders: &[&Verdict]) -> Figure {
    let mut kinds: Vec<&str> = proven.summary.iter().filter_map(|v| v.kind.as_deref()).collect();
    kinds.dedup();
    let mut data = vec![
        ["kind", "method", "condition", "tried", "error %", "regret %"].map(str::to_owned).to_vec(),
    ];
    let mut marks = Vec::new();
    let mut highest = 1.0f64;
    for (at, contender) in contenders.iter().enumerate() {
        let mut dots = Vec::new();
        for verdict in proven.summary.iter().filter(|verdict| {
            (&verdict.method, verdict.condition) == (&contender.method, contender.condition)
        }) {
            let Some(kind) = verdict.kind.as_deref() else { continue };
            let error = verdict.calibration_error.map(|error| 100.0 * error);
            data.push(vec![
                kind.to_owned(),
                verdict.method.clone(),
                verdict.condition.to_string(),
                verdict.tried.to_string(),
                error.map_or("–".to_owned(), number),
                number(100.0 * verdict.regret),
            ]);
            let place = kinds.iter().position(|known| *known == kind).unwrap_or(0);
            if let Some(error) = error {
                highest = highest.max(error);
                dots.push(Dot {
                    at: [place as f64, error],
                    error: 0.0,
                    solid: true,
                    says: format!("{kind}: {error:.1}% over {} trainings", verdict.tried),
                });
            }
        }
        marks.push(Mark::Dots { colour: Colour(at), dots });
    }
    Figure {
        name: "kinds".to_owned(),
        title: "Errors of promises by kind of world, in percent of the range".to_owned(),
        series: contenders
            .iter()
            .enumerate()
            .map(|(at, of)| Series {
                colour: Colour(at),
                name: format!("{}, {}", of.method, of.condition),
            })
            .collect(),
        panels: vec![Panel {
            height: 240.0,
            x: Axis {
                label: Some("kind of world, in the order of the table".to_owned()),
                low: -0.5,
                high: kinds.len() as f64 - 0.5,
            },
            y: Axis { label: Some("error, %".to_owned()), low: 0.0, high: 1.05 * highest },
            marks,
        }],
        data,
    }
}

//! What shares of logged data promise, where there is no world to try policies in.

use std::fmt::Write;

use esper_eval::text::{count, number, percent, plural};
use esper_eval::{MethodResults, ScalingEntry};

use super::charts::{joined, series, strings};
use super::figure::{Axis, Dot, Figure, Mark, Panel, Series, escape};
use super::gather::Scaled;
use super::logs::short;
use super::logs_charts::interval;
use super::page::{show, warnings};

/// A table of promises by share, and a figure.
pub(super) fn section(scaled: &Scaled, at: usize, page: &mut String) {
    let Scaled { comparison, scaling } = scaled;
    let _ = write!(
        page,
        "<h2 id=\"scaling-{at}\">{}, shares of the data</h2><p>The same comparison with the first part of the data, {} a share. \
         Nothing was tried in a world: these are promises.</p><div class=\"scroll\"><table><tr><th>data</th><th>steps</th>\
         <th>mean of the data</th><th>method</th><th>chosen level</th><th>promise</th><th>from … to</th><th>episodes near</th></tr>",
        escape(&scaled.name()),
        plural(comparison.seeds as usize, "seed"),
    );
    for ScalingEntry { fraction, results } in &scaling.fractions {
        for method in &results.methods {
            let chosen = method.offline_promise;
            let cell = |value: Option<String>| value.unwrap_or_else(|| "–".to_owned());
            let ends = chosen.and_then(|of| of.low.zip(of.high));
            let _ = write!(
                page,
                "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                percent(*fraction),
                count(results.dataset.steps),
                short(results.dataset.mean_return),
                escape(method.title()),
                cell(chosen.and_then(|of| of.level).map(short)),
                cell(chosen.map(|of| short(of.promise))),
                cell(ends.map(|(low, high)| format!("{} … {}", short(low), short(high)))),
                cell(chosen.map(|of| count(of.episodes)))
            );
        }
    }
    *page += "</table></div><p class=\"soft\">A <i>promise</i> is the average return that asking for the level gets which the data \
              alone suggests, with nine chances of ten from … to. Methods that are told returns promise what they are asked for, \
              taken at its word; others promise nothing.</p>";
    for ScalingEntry { fraction, results } in &scaling.fractions {
        let share = format!(" with {} of the data", percent(*fraction));
        warnings(&results.methods, &share, page);
    }
    if let Some(figure) = figure(scaled) {
        show(&figure, "What is promised, with intervals where there are any.", page);
    }
}

/// Promises with shares of the data; nothing where no method promises anything.
pub(super) fn figure(scaled: &Scaled) -> Option<Figure> {
    let shares = &scaled.scaling.fractions;
    let methods = shares.first().map_or(&[][..], |entry| &entry.results.methods[..]);
    let (mut marks, mut shown, mut promising) = (Vec::new(), Vec::new(), Vec::new());
    let mut data = vec![strings(["method", "share", "steps", "level", "promise", "low", "high"])];
    for (at, method) in methods.iter().enumerate() {
        let Series { colour, name } = series(methods, method);
        let mut dots = Vec::new();
        for entry in shares {
            let of = entry.results.methods.get(at);
            let Some(chosen) = of.and_then(|of: &MethodResults| of.offline_promise) else {
                continue;
            };
            let x = 100.0 * entry.fraction;
            if let Some((low, high)) = chosen.low.zip(chosen.high) {
                let points = vec![[x, low], [x, high]];
                shown.extend(&points);
                marks.push(Mark::Line { colour, points, says: String::new() });
            }
            let says = format!(
                "{name} with {} of the data promises {}{}",
                percent(entry.fraction),
                number(chosen.promise),
                interval(chosen.low, chosen.high)
            );
            shown.push([x, chosen.promise]);
            dots.push(Dot { at: [x, chosen.promise], error: 0.0, solid: true, says });
            let text = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
            let mut row = vec![method.method.clone(), entry.fraction.to_string()];
            row.push(entry.results.dataset.steps.to_string());
            row.extend([chosen.level, Some(chosen.promise), chosen.low, chosen.high].map(text));
            data.push(row);
        }
        if !dots.is_empty() {
            promising.push(series(methods, method));
            marks.push(joined(colour, &dots));
            marks.push(Mark::Dots { colour, dots });
        }
    }
    let panel = Panel {
        height: 240.0,
        x: Axis::around("percent of the data", shown.iter().map(|at: &[f64; 2]| at[0])),
        y: Axis::around("promise", shown.iter().map(|at| at[1])),
        marks,
    };
    (!promising.is_empty()).then(|| Figure {
        name: format!("{}-scaling", scaled.name()),
        title: format!("{}: what is promised with more data", scaled.name()),
        series: promising,
        panels: vec![panel],
        data,
    })
}

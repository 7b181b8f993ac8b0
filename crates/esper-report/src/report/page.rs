//! The page: everything in one file, which opens from disk.

use std::fmt::Write;

use esper::RECORD_EVERY;
use esper_eval::text::{count, leaked, number, percent, plural};
use esper_eval::{
    Again, Comparison, FailedRun, LeftOut, MeanStd, MethodResults, NormalisedScores, PAPER_SEEDS,
    ScalingEntry,
};

use super::figure::{Figure, csv, escape};
use super::gather::{Compared, Scaled};
use super::{Report, Section, Verdicts, charts, logs, logs_shares};

/// The whole page.
pub(super) fn page(report: &Report) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{}</title><link rel=\"icon\" href=\"data:,\"><style>{}</style></head><body>\n",
        escape(&report.title),
        include_str!("style.css")
    );
    let introduction = match report.compared.iter().any(|of| !of.results.in_world()) {
        true => logs::INTRODUCTION,
        false => INTRODUCTION,
    };
    let _ = write!(page, "<h1>{}</h1>\n{introduction}", escape(&report.title));
    contents(report, &mut page);
    claims(report, &mut page);
    for (at, compared) in report.compared.iter().enumerate() {
        comparison(compared, at, &mut page);
    }
    for (at, scaled) in report.scaled.iter().enumerate() {
        match scaled.in_world() {
            true => scaling(scaled, at, &mut page),
            false => logs_shares::section(scaled, at, &mut page),
        }
        run_again(&scaled.comparison, &mut page);
    }
    for Section { title, words, figure, command } in &report.others {
        let _ = write!(
            page,
            "<h2 id=\"{}\">{}</h2><p>{}</p>",
            figure.name,
            escape(title),
            escape(words)
        );
        show(figure, "", &mut page);
        let _ = write!(page, "<h3>Run it again</h3><pre>{}</pre>", escape(command));
    }
    let _ = write!(
        page,
        "<p class=\"soft\">Made by esper {}.</p><div id=\"says\" role=\"status\"></div>\n<script>{}</script></body></html>\n",
        env!("CARGO_PKG_VERSION"),
        include_str!("script.js")
    );
    page
}

const INTRODUCTION: &str = "<p>A method that is asked for a return should get that return on average: its points then lie on the \
    diagonal. One that imitates whatever reached a return also imitates luck, and does not.</p>";

/// A comparison's heading.
fn heading(compared: &Compared) -> String {
    format!("{}, {} policy", compared.name(), compared.policy())
}

fn contents(report: &Report, page: &mut String) {
    let mut links: Vec<(String, String)> = Vec::new();
    if report.verdicts.is_some() {
        links.push(("claims".to_owned(), "the paper's claims".to_owned()));
    }
    links.extend(
        report.compared.iter().enumerate().map(|(at, c)| (format!("comparison-{at}"), heading(c))),
    );
    links.extend(
        report
            .scaled
            .iter()
            .enumerate()
            .map(|(at, s)| (format!("scaling-{at}"), format!("{}, shares of the data", s.name()))),
    );
    links.extend(
        report.others.iter().map(|section| (section.figure.name.clone(), section.title.clone())),
    );
    if links.len() > 1 {
        let links: Vec<String> = links
            .iter()
            .map(|(id, name)| format!("<a href=\"#{}\">{}</a>", escape(id), escape(name)))
            .collect();
        let _ = write!(page, "<nav>{}</nav>", links.join(" "));
    }
}

fn claims(report: &Report, page: &mut String) {
    let Some(Verdicts { claims, criteria, missing, command }) = &report.verdicts else { return };
    *page += "<h2 id=\"claims\">What the paper says, and what came out here</h2><div class=\"scroll\"><table class=\"claims\">\
              <tr><th>claim</th><th></th><th style=\"text-align:left\">numbers</th></tr>";
    for claim in claims {
        let (class, verdict) =
            if claim.holds { ("good", "holds") } else { ("bad", "does not hold") };
        let _ = write!(
            page,
            "<tr><td class=\"words\">{}</td><td class=\"{class}\">{verdict}</td><td class=\"words\">{}</td></tr>",
            escape(&claim.says),
            escape(&claim.numbers)
        );
    }
    *page += "</table></div>";
    if !missing.is_empty() {
        let _ = write!(
            page,
            "<p>Not run, or not complete: {}. <code>{} --only {}</code> does it.</p>",
            escape(&missing.join(", ")),
            escape(command),
            escape(&missing.join(","))
        );
    }
    let _ = write!(
        page,
        "<details><summary>When a claim holds</summary><p>{}</p></details>",
        escape(criteria)
    );
}

/// Said of single runs that know nothing of their data.
const OLDER: &str = "<p class=\"soft\">Trained by an older version, which did not keep what the data says by itself: who acted how well \
     and what would be done differently is not known here. Train again to see it.</p>";

fn comparison(compared: &Compared, at: usize, page: &mut String) {
    let results = &compared.results;
    let _ = write!(page, "<h2 id=\"comparison-{at}\">{}</h2>", escape(&heading(compared)));
    let mean = results.dataset.mean_return;
    let mut about = format!(
        "{} steps of data in {} episodes that return {} on average; {}",
        count(results.dataset.steps),
        count(results.dataset.episodes),
        if mean.is_finite() { number(mean) } else { "–".to_owned() },
        plural(results.seeds, "seed"),
    );
    if !results.preset.is_empty() {
        let _ = write!(about, ", preset {}", results.preset);
    }
    if let Some(comparison) = compared.comparison.as_ref().filter(|of| of.world) {
        let _ = write!(about, ", {} episodes with each target", count(comparison.episodes));
    }
    let _ = write!(page, "<p>{}.</p>", escape(&about));
    for FailedRun { method, seed, error } in &results.failed {
        let run = escape(&format!("{method}, seed {seed}"));
        let _ = write!(page, "<p class=\"bad warning\">{run} failed: {}.</p>", escape(error));
    }
    for LeftOut { method, why } in &results.left_out {
        let words = escape(&format!("{method} is left out: {why}"));
        let _ = write!(page, "<p class=\"soft\">{words}.</p>");
    }
    if compared.comparison.is_none() && results.dataset.overview.is_none() {
        *page += OLDER;
    }
    if compared.is_of_logs() {
        logs::sections(compared, page);
    }
    if results.in_world() {
        if compared.is_of_logs() {
            *page += "<h3>Tried in its world</h3>";
        }
        table(&results.methods, page);
        if !compared.is_of_logs() {
            warnings(&results.methods, "", page);
        }
        let _ = write!(page, "<p>{}</p>", escape(&in_words(compared)));
        if let Some(figure) = charts::targets(compared) {
            show(&figure, &targets_words(compared), page);
        }
    }
    compared.relabelled().for_each(|method| learned(compared, method, page));
    let curves: Vec<(Figure, &MethodResults)> = results
        .methods
        .iter()
        .filter_map(|method| Some((charts::curves(compared, method)?, method)))
        .collect();
    if !curves.is_empty() {
        *page += "<h3>Training</h3>";
        for (figure, method) in curves {
            let mut words = format!("Means over {RECORD_EVERY} steps.");
            let first = method.runs.first();
            for curve in first.iter().flat_map(|run| &run.curves) {
                curve.words.iter().for_each(|more| words += &format!(" {more}"));
            }
            show(&figure, &words, page);
        }
    }
    again(compared, page);
}

/// What the figure of targets shows.
fn targets_words(compared: &Compared) -> String {
    let spread = match compared.results.seeds {
        1 => "with the standard error of its episodes",
        _ => {
            "mean and standard deviation over seeds, taken to lie on a line between the targets of a seed"
        }
    };
    let whose = charts::speaks(compared).map_or("", MethodResults::title);
    format!(
        "Above: what was asked for and what was achieved, {spread}; on the dashed line they are the same. In the shaded ranges \
         few episodes or none start with a label of {whose}; a hollow point is a target that few or none start with of the \
         method's own labels. There the data does not say what to expect. Below: the labels that episodes start with, as shares \
         of them."
    )
}

/// The results beside the paper's.
fn table(methods: &[MethodResults], page: &mut String) {
    let published = methods.iter().any(|method| method.paper_best_return.is_some());
    let paper_heading = if published { "<th>paper</th>" } else { "" };
    let _ = write!(
        page,
        "<div class=\"scroll\"><table class=\"results\"><tr><th>method</th><th>best return</th>{paper_heading}\
         <th>offline return</th><th>calibration error</th><th>training, s</th></tr>"
    );
    for method in methods {
        let cell = |name: &str, value: &Option<MeanStd>, digits: usize| match value {
            None => "<td class=\"soft\">–</td>".to_owned(),
            Some(MeanStd { mean, std }) => {
                // One seed deviates from nothing.
                let deviation = match method.runs.len() == 1 && name != "paper_best_return" {
                    true => String::new(),
                    false => format!(" <span class=\"soft\">({std:.digits$})</span>"),
                };
                format!(
                    "<td data-method=\"{}\" data-value=\"{name}\" data-mean=\"{mean}\" \
                     data-std=\"{std}\">{mean:.digits$}{deviation}</td>",
                    escape(&method.method)
                )
            }
        };
        let _ = write!(
            page,
            "<tr><td>{}</td>{}{}{}{}{}</tr>",
            escape(method.title()),
            cell("best_return", &method.best_return, 2),
            if published {
                cell("paper_best_return", &method.paper_best_return, 2)
            } else {
                String::new()
            },
            cell("offline_return", &method.offline_return, 2),
            cell("calibration_error", &method.calibration_error, 2),
            cell("train_seconds", &method.train_seconds, 0)
        );
    }
    let over = match methods.first().map_or(0, |method| method.runs.len()) {
        1 if published => {
            format!("Of one seed; the paper's are means (standard deviations) over {PAPER_SEEDS}.")
        }
        1 => "Of one seed.".to_owned(),
        _ => "Mean (standard deviation) over seeds.".to_owned(),
    };
    let _ = write!(page, "</table></div><p class=\"soft\">{over} {MEANINGS}</p>");
    scores(methods, page);
}

/// Normalised scores, where the task has returns to normalise by.
fn scores(methods: &[MethodResults], page: &mut String) {
    if methods.iter().all(|method| method.normalised.is_none()) {
        return;
    }
    page.push_str(
        "<div class=\"scroll\"><table><tr><th>normalised score</th><th>best</th><th>paper</th><th>offline</th></tr>",
    );
    for method in methods {
        let Some(NormalisedScores { best, offline, paper }) = method.normalised else { continue };
        let cell = |score: Option<MeanStd>, seeds: usize| match score {
            None => "<td class=\"soft\">–</td>".to_owned(),
            Some(MeanStd { mean, .. }) if seeds == 1 => format!("<td>{mean:.1}</td>"),
            Some(MeanStd { mean, std }) => {
                format!("<td>{mean:.1} <span class=\"soft\">({std:.1})</span></td>")
            }
        };
        let seeds = method.runs.len();
        let _ = write!(
            page,
            "<tr><td>{}</td>{}{}{}</tr>",
            escape(method.title()),
            cell(best, seeds),
            cell(paper, PAPER_SEEDS),
            cell(offline, seeds)
        );
    }
    page.push_str("</table></div><p class=\"soft\">0 is random play, 100 is D4RL's expert.</p>");
}

/// What the columns of the table are.
const MEANINGS: &str = "<i>Best return</i> is the best over all targets asked for, as the paper has it; <i>offline return</i> is \
    what the target gets that is chosen from the data alone; <i>calibration error</i> is how far what was achieved is from what \
    was asked for, over the targets that the data speaks about.";

/// What the numbers show.
fn in_words(compared: &Compared) -> String {
    let mut words = String::new();
    let mean =
        |value: &Option<MeanStd>| value.map(|value| number((value.mean * 100.0).round() / 100.0));
    for method in &compared.results.methods {
        let (title, summary) = (method.title(), &method.summary);
        let who = match summary.is_empty() {
            true => title.to_owned(),
            false => format!("{title}, which {summary},"),
        };
        let Some(best) = mean(&method.best_return) else { continue };
        words += &match mean(&method.calibration_error) {
            Some(error) => format!(
                "At its best target {who} returns {best}; over the targets that the data speaks about, what it gets is \
                 {error} from what it was asked for, on average. "
            ),
            None => format!("{who} cannot be asked for a return; it gets {best}. "),
        };
    }
    compared.results.methods.iter().for_each(|method| words += &beside_the_paper(compared, method));
    words
}

/// Where a method did otherwise than in the paper, or worse than those it learned from.
fn beside_the_paper(compared: &Compared, method: &MethodResults) -> String {
    let Some(ours) = method.best_return else { return String::new() };
    let name = method.title();
    let mut words = String::new();
    if let Some(paper) = method.paper_best_return
        && (ours.mean - paper.mean).abs() > (2.0 * paper.std.max(method.best_spread())).max(0.05)
    {
        let than = if ours.mean > paper.mean { "less" } else { "more" };
        let _ = write!(
            words,
            "In the paper {name} gets {} ({}), {than} than here. ",
            number(paper.mean),
            number(paper.std)
        );
    }
    let data = compared.results.dataset.mean_return;
    // What is achieved is discounted as labels are, the mean return of the data is not.
    let discounted = compared.runs.first().is_none_or(|run| run.discount < 1.0);
    if !discounted && ours.mean < data - 2.0 * method.best_spread() {
        let _ = write!(
            words,
            "Here {name} gets less than the episodes that it learned from, which return {}. ",
            number(data)
        );
    }
    words
}

/// What a method's labels know.
fn learned(compared: &Compared, method: &MethodResults, page: &mut String) {
    let Some(figure) = charts::labels_by_behaviour(compared, method) else { return };
    let _ = write!(page, "<h3>What labels know: {}</h3>", escape(method.title()));
    show(
        &figure,
        "The method never sees who acted. Where labels know who acts and not who was lucky, they start at what each \
         behaviour returns on average.",
        page,
    );
    *page += "<div class=\"scroll\"><table><tr><th>behaviour</th><th>seed</th><th>episodes</th><th>returns</th>\
              <th>first label</th><th>… that returned more</th><th>… less</th></tr>";
    for run in compared.runs_of(method) {
        for behaviour in run.labelled.iter().flat_map(|labelled| &labelled.behaviours) {
            let name = if behaviour.name.is_empty() { "all" } else { &behaviour.name };
            let [returns, first] = [behaviour.mean_return, behaviour.first_label].map(number);
            let [lucky, unlucky] = [behaviour.first_label_lucky, behaviour.first_label_unlucky]
                .map(|label| label.map_or_else(|| "–".to_owned(), number));
            let _ = write!(
                page,
                "<tr><td>{}</td><td>{}</td><td>{}</td><td>{returns}</td><td>{first}</td><td>{lucky}</td><td>{unlucky}</td></tr>",
                escape(name),
                run.seed,
                behaviour.episodes
            );
        }
    }
    *page += "</table></div><p class=\"soft\">On the right: the mean first label of the episodes that returned more and \
              less than their behaviour does on average. Where a behaviour's luck lies in the world and not in its own \
              choices, clean labels make no difference between them.</p>";
    leaks(method, page);
    measures(method, page);
    cluster_table(compared, method, page);
}

/// Whatever else a method measured.
fn measures(method: &MethodResults, page: &mut String) {
    for run in method.runs.iter().filter(|run| !run.findings.measures.is_empty()) {
        let found = run.findings.measures.iter();
        let found: Vec<String> =
            found.map(|measure| format!("{} {}", measure.name, number(measure.value))).collect();
        let _ = write!(page, "<p>Seed {}: {}.</p>", run.seed, escape(&found.join(", ")));
    }
}

fn leaks(method: &MethodResults, page: &mut String) {
    let mut found = Vec::new();
    for run in &method.runs {
        let Some(clustering) = &run.findings.clustering else { continue };
        found.push(format!("seed {}: {}", run.seed, leaked(&clustering.leakage)));
    }
    if !found.is_empty() {
        let _ = write!(
            page,
            "<p>Leakage, measured on held-out trajectories as the share of the world's randomness that the probabilities of \
             clusters help to foresee: {}.</p>",
            found.join("; ")
        );
    }
}

/// What methods warn of, and with which seeds; `share` says with how much of the data, where there are several shares.
pub(super) fn warnings(methods: &[MethodResults], share: &str, page: &mut String) {
    for method in methods {
        let mut found: Vec<(&str, Vec<String>)> = Vec::new();
        for run in &method.runs {
            for warning in &run.findings.warnings {
                match found.iter_mut().find(|(known, _)| known == warning) {
                    Some((_, seeds)) => seeds.push(run.seed.to_string()),
                    None => found.push((warning, vec![run.seed.to_string()])),
                }
            }
        }
        for (warning, seeds) in found {
            let _ = write!(
                page,
                "<p class=\"bad warning\">{}{share}, {} {}: {}.</p>",
                escape(method.title()),
                if seeds.len() == 1 { "seed" } else { "seeds" },
                seeds.join(", "),
                escape(warning)
            );
        }
    }
}

fn cluster_table(compared: &Compared, method: &MethodResults, page: &mut String) {
    let Some(run) = compared.runs_of(method).next() else { return };
    let Some(labelled) = &run.labelled else { return };
    if labelled.clusters.is_empty() {
        return;
    }
    let _ = write!(
        page,
        "<details><summary>The most common clusters of seed {}, and whose steps they hold</summary>\
         <div class=\"scroll\"><table><tr><th>cluster</th><th>share of steps</th>",
        run.seed
    );
    for behaviour in &labelled.behaviours {
        let _ = write!(page, "<th>{}</th>", escape(&behaviour.name));
    }
    *page += "<th>mean label</th></tr>";
    for cluster in &labelled.clusters {
        let name: Vec<String> = cluster.categories.iter().map(u32::to_string).collect();
        let _ = write!(
            page,
            "<tr><td>{}</td><td><span class=\"bar\" style=\"width:{:.1}rem\"></span> {:.1}%</td>",
            name.join("·"),
            12.0 * cluster.share,
            100.0 * cluster.share
        );
        for share in cluster.behaviours.iter().take(labelled.behaviours.len()) {
            let _ = write!(page, "<td>{:.0}%</td>", 100.0 * share);
        }
        let _ = write!(page, "<td>{}</td></tr>", number(cluster.label));
    }
    *page += "</table></div></details>";
}

/// Settings, and how to run it again.
fn again(compared: &Compared, page: &mut String) {
    match &compared.comparison {
        Some(comparison) => run_again(comparison, page),
        None => *page += "<h3>Settings</h3>",
    }
    if let Some(run) = compared.runs.first() {
        let _ = write!(
            page,
            "<details><summary>All settings</summary><pre>{}</pre></details>",
            escape(&run.config)
        );
    }
    let json = serde_json::to_string(&compared.results).unwrap_or_default();
    let _ = write!(
        page,
        "<script type=\"application/json\" class=\"results-json\">{}</script>",
        // Nothing in it may look like a tag.
        json.replace('<', "\\u003c")
    );
}

fn scaling(scaled: &Scaled, at: usize, page: &mut String) {
    let Scaled { comparison, scaling } = scaled;
    let _ = write!(
        page,
        "<h2 id=\"scaling-{at}\">{}, shares of the data</h2><p>The same comparison with the first part of the data, {} a \
         share, {} episodes with each target. Luck does not go away with more data; what it takes to tell it from skill comes \
         with it.</p>",
        escape(&scaled.name()),
        plural(comparison.seeds as usize, "seed"),
        count(comparison.episodes)
    );
    *page += "<div class=\"scroll\"><table><tr><th>data</th><th>steps</th><th>method</th><th>best return</th>\
              <th>offline return</th><th>calibration error</th></tr>";
    for ScalingEntry { fraction, results } in &scaling.fractions {
        for method in &results.methods {
            let cell = |value: Option<MeanStd>| {
                value.map_or("–".to_owned(), |value| value.text(method.runs.len()))
            };
            let _ = write!(
                page,
                "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                percent(*fraction),
                count(results.dataset.steps),
                escape(method.title()),
                cell(method.best_return),
                cell(method.offline_return),
                cell(method.calibration_error)
            );
        }
    }
    let _ = write!(page, "</table></div><p class=\"soft\">{MEANINGS}</p>");
    for ScalingEntry { fraction, results } in &scaling.fractions {
        let share = format!(" with {} of the data", percent(*fraction));
        warnings(&results.methods, &share, page);
    }
    let spread = match comparison.seeds {
        1 => "with the standard error of its episodes",
        _ => "mean and standard deviation over seeds",
    };
    show(&charts::scaling(scaled), &format!("Best return over targets, {spread}."), page);
    if let Some(figure) = charts::scaling_targets(scaled) {
        show(
            &figure,
            "On the dashed line what was achieved is what was asked for. The data does not say what to expect where points \
             are hollow.",
            page,
        );
    }
}

/// The command that makes it again, or which call of the library it was.
fn run_again(comparison: &Comparison, page: &mut String) {
    *page += "<h3>Run it again</h3>";
    let _ = match comparison.again() {
        Again::Command(command) => write!(page, "<pre>{}</pre>", escape(&command)),
        Again::Call(words) => write!(page, "<p>It was {}.</p>", escape(&words)),
    };
}

/// A figure with its words, and its numbers to take home.
pub(super) fn show(figure: &Figure, words: &str, page: &mut String) {
    let csv = percent_encoded(&figure.csv());
    let svg = percent_encoded(&figure.standalone());
    let name = escape(&figure.name);
    let _ = write!(
        page,
        "<figure>{}<figcaption><b>{}.</b> {} <a download=\"{name}.csv\" href=\"data:text/csv;charset=utf-8,{csv}\">data \
         (CSV)</a> <a download=\"{name}.svg\" href=\"data:image/svg+xml;charset=utf-8,{svg}\">figure (SVG)</a></figcaption></figure>",
        figure.inline(),
        escape(&figure.title),
        escape(words)
    );
}

/// Rows to take home.
pub(super) fn csv_link(name: &str, rows: &[Vec<String>]) -> String {
    let (name, csv) = (escape(name), percent_encoded(&csv(rows)));
    format!("<a download=\"{name}.csv\" href=\"data:text/csv;charset=utf-8,{csv}\">data (CSV)</a>")
}

/// Text within an address.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z'
            | b'A'..=b'Z'
            | b'0'..=b'9'
            | b'.'
            | b','
            | b'-'
            | b'_'
            | b'/'
            | b':'
            | b'=' => {
                encoded.push(char::from(byte));
            }
            _ => {
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}

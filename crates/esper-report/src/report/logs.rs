//! What a page says of logged data without a world: who acted how well, what levels promise, what a policy would do
//! differently, and how far to trust all that.

use std::fmt::Write;

use esper::condition::Condition;
use esper::differences::{Differences, Measure, StateGroup};
use esper::methods::LabelCalibration;
use esper_data::{BehaviourReturns, Overview};
use esper_eval::MethodResults;
use esper_eval::text::{count, leaked, number, percent, plural};

use super::figure::escape;
use super::gather::Compared;
use super::logs_charts::{interval, promises, returns};
use super::page::{csv_link, show, warnings};

pub(super) const INTRODUCTION: &str = "<p>What can be known from logged data alone, without trying anything: how well those who \
    acted did, which average returns a learned policy promises and how sure that is, how much of past success was luck, and \
    what the policy would do differently.</p>";

/// The most behaviours in the table; all of them are in the numbers behind the figure.
const SHOWN: usize = 30;

/// All of it.
pub(super) fn sections(compared: &Compared, page: &mut String) {
    in_short(compared, page);
    table(compared, page);
    to_look_at(compared, page);
    who_acted(compared, page);
    levels(compared, page);
    different(compared, page);
    trust(compared, page);
}

/// A number rounded as a person would say it.
pub(super) fn short(value: f64) -> String {
    number((value * 1000.0).round() / 1000.0)
}

/// The method to take a promise from: the first that promises with an interval, else the first that promises.
fn promising(compared: &Compared) -> Option<&MethodResults> {
    let methods = || compared.results.methods.iter();
    let has_interval =
        |method: &&MethodResults| method.offline_promise.is_some_and(|chosen| chosen.low.is_some());
    methods().find(has_interval).or_else(|| methods().find(|of| of.offline_promise.is_some()))
}

/// What matters, in a paragraph.
fn in_short(compared: &Compared, page: &mut String) {
    let mut words = String::new();
    if let Some(overview) = &compared.results.dataset.overview {
        let BehaviourReturns { mean_return, low, high, .. } = overview.all;
        let _ = write!(
            words,
            "Episodes of the past return {}{} on average. ",
            short(mean_return),
            interval(low, high)
        );
        if let Some(best) = overview.best_behaviour() {
            let _ = write!(
                words,
                "The best behaviour is {}, with {}{} in {} episodes. ",
                best.name,
                short(best.mean_return),
                interval(best.low, best.high),
                count(best.episodes)
            );
        }
        if overview.discount < 1.0 {
            let _ = write!(words, "Returns are discounted by {} a step. ", overview.discount);
        }
    }
    if let Some(method) = promising(compared)
        && let Some(chosen) = method.offline_promise
    {
        let level =
            chosen.level.map_or(String::new(), |level| format!(" at level {}", short(level)));
        let _ = write!(
            words,
            "Asked for what the data alone suggests{level}, {} promises {}{}. ",
            method.title(),
            short(chosen.promise),
            interval(chosen.low, chosen.high)
        );
        words += better(compared, chosen.low);
    }
    if let Some(share) = luck_share(compared) {
        let _ = write!(
            words,
            "About {} of the differences between returns (their variance) is luck: what the world did, given what was seen and \
             done. ",
            percent((share * 100.0).round() / 100.0)
        );
    }
    let _ = write!(page, "<p>{}</p>", escape(words.trim_end()));
}

/// Whether a promise is better than the past, as far as its lower end says.
fn better(compared: &Compared, low: Option<f64>) -> &'static str {
    let (Some(low), Some(overview)) = (low, &compared.results.dataset.overview) else { return "" };
    let best = overview.best_behaviour().and_then(|best| best.high);
    lower_end(low, overview.all.mean_return, overview.all.high, best)
}

/// What the lower end of a promise says beside the mean of the past, which is only known up to some upper end, and beside that of
/// the best behaviour, where there is one.
fn lower_end(low: f64, mean: f64, highest: Option<f64>, best: Option<f64>) -> &'static str {
    match (highest, best) {
        (_, Some(best)) if low > best => {
            "Even its lower end is above all that the mean of the best behaviour may be. "
        }
        (Some(highest), _) if low > highest => {
            "Even its lower end is above all that the mean of the past may be. "
        }
        _ if low > mean => {
            "Its lower end is above the mean of the past, but within what that mean may be: a gain is likely, not sure. "
        }
        _ => "Its lower end is not above the mean of the past: there may be nothing to gain. ",
    }
}

/// The share of the variance of returns that is luck, a mean over the runs that measured it.
fn luck_share(compared: &Compared) -> Option<f64> {
    let runs = compared.results.methods.iter().flat_map(|method| &method.runs);
    let shares: Vec<f64> = runs
        .filter_map(|run| Some(run.findings.clustering.as_ref()?.luck.as_ref()?.share))
        .collect();
    (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)
}

/// A row a method.
fn table(compared: &Compared, page: &mut String) {
    let overview = compared.results.dataset.overview.as_ref();
    let cell = |value: Option<String>| match value {
        Some(value) => format!("<td>{value}</td>"),
        None => "<td class=\"soft\">–</td>".to_owned(),
    };
    *page += "<div class=\"scroll\"><table class=\"promises\"><tr><th>method</th><th>chosen level</th><th>promise</th>\
              <th>from … to</th><th>mean of the data</th><th>best behaviour</th><th>episodes near</th><th>warnings</th>\
              <th>training, s</th></tr>";
    for method in &compared.results.methods {
        let chosen = method.offline_promise;
        let ends = chosen.and_then(|of| of.low.zip(of.high));
        let warned: usize = method.runs.iter().map(|run| run.findings.warnings.len()).sum();
        let promise = chosen.map_or_else(
            || "<td class=\"soft\">none</td>".to_owned(),
            |of| {
                format!(
                    "<td data-promise=\"{}\" data-of=\"{}\">{}</td>",
                    of.promise,
                    escape(&method.method),
                    short(of.promise)
                )
            },
        );
        let best = overview.and_then(Overview::best_behaviour);
        let _ = write!(
            page,
            "<tr><td>{}</td>{}{promise}{}{}{}{}{}{}</tr>",
            escape(method.title()),
            cell(chosen.and_then(|of| of.level).map(short)),
            cell(ends.map(|(low, high)| format!("{} … {}", short(low), short(high)))),
            cell(overview.map(|of| short(of.all.mean_return))),
            cell(best.map(|of| short(of.mean_return))),
            cell(chosen.map(|of| count(of.episodes))),
            cell(Some(warned.to_string())),
            cell(method.train_seconds.map(|seconds| format!("{:.0}", seconds.mean)))
        );
    }
    let seeds = match compared.results.seeds {
        0 | 1 => "",
        _ => {
            " Promises are means over seeds, intervals from the lowest end of any seed to the highest."
        }
    };
    let _ = write!(
        page,
        "</table></div><p class=\"soft\">A <i>level</i> says how high to aim among what was seen: 0.9 is better than nine tenths of \
         what was done from the same start. A <i>promise</i> is the average return that asking for it gets, with nine chances of ten \
         from … to. <i>Episodes near</i> is support: how many episodes are labelled about so high; where it is none, the policy \
         combines what was done into something that nobody did all along. Methods that are told returns promise what they are \
         asked for, taken at its word; others promise nothing.{seeds}</p>"
    );
}

/// What looks wrong, of the data and of what was learned.
fn to_look_at(compared: &Compared, page: &mut String) {
    let found = compared.results.dataset.overview.as_ref().map_or(&[][..], |of| &of.warnings);
    let methods = &compared.results.methods;
    let warned =
        methods.iter().flat_map(|of| &of.runs).any(|run| !run.findings.warnings.is_empty());
    if found.is_empty() && !warned {
        return;
    }
    *page += "<h3>To look at first</h3>";
    for warning in found {
        let _ = write!(page, "<p class=\"bad warning\">The data: {}.</p>", escape(warning));
    }
    warnings(methods, "", page);
}

fn who_acted(compared: &Compared, page: &mut String) {
    let Some(overview) = &compared.results.dataset.overview else { return };
    *page += "<h3>Who acted how well</h3>";
    let Overview { returns: spread, lengths, terminated, truncated, .. } = overview;
    let _ = write!(
        page,
        "<p>Returns are from {} to {}, half of them below {}; they deviate by {}. Episodes have {} to {} steps, {} on average; {} \
         came to an end, {} were cut.</p>",
        short(spread.min),
        short(spread.max),
        short(spread.median),
        short(spread.std),
        short(lengths.min),
        short(lengths.max),
        short(lengths.mean),
        count(*terminated),
        count(*truncated)
    );
    if let Some(figure) = returns(compared) {
        let words = match overview.behaviours.is_empty() {
            true => "Who acted is not known. Dashed: the mean of all.",
            false => {
                "Above: mean returns by behaviour, with intervals that the truth is in with nine chances of ten. Below: episodes by \
                 their return. Dashed: the mean of all."
            }
        };
        show(&figure, words, page);
    }
    if overview.behaviours.is_empty() {
        return;
    }
    *page += "<div class=\"scroll\"><table><tr><th>behaviour</th><th>episodes</th><th>mean return</th><th>from … to</th>\
              <th>deviation</th><th>mean length</th></tr>";
    for of in overview.behaviours.iter().take(SHOWN).chain([&overview.all]) {
        let ends = match (of.low, of.high) {
            (Some(low), Some(high)) => format!("{} … {}", short(low), short(high)),
            _ => "–".to_owned(),
        };
        let _ = write!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{ends}</td><td>{}</td><td>{}</td></tr>",
            escape(&of.name),
            count(of.episodes),
            short(of.mean_return),
            short(of.std),
            short(of.mean_length)
        );
    }
    *page += "</table></div>";
    if overview.behaviours.len() > SHOWN {
        let _ = write!(
            page,
            "<p class=\"soft\">The {SHOWN} that acted most often of {}; all are in the data of the figure.</p>",
            count(overview.behaviours.len())
        );
    }
}

fn levels(compared: &Compared, page: &mut String) {
    let Some(figure) = promises(compared) else { return };
    *page += "<h3>What levels promise</h3>";
    let beside = match compared.results.dataset.overview.as_ref() {
        None => String::new(),
        Some(of) => {
            let best = of.best_behaviour().map_or(String::new(), |best| {
                format!(", and of the best behaviour ({}, {})", best.name, short(best.mean_return))
            });
            format!(" Dashed: the mean of the data ({}){best}.", short(of.all.mean_return))
        }
    };
    show(
        &figure,
        &format!(
            "The average return that asking for a level promises, with intervals that the truth is in with nine chances of ten, where \
             there are any; filled: chosen from the data alone, as the level whose interval has the highest lower end.{beside} Below: \
             how many episodes are labelled about so high."
        ),
        page,
    );
}

fn different(compared: &Compared, page: &mut String) {
    let known: Vec<(&MethodResults, u64, &Differences)> = compared
        .results
        .methods
        .iter()
        .filter_map(|method| {
            let run = compared.runs_of(method).find(|run| run.differences.is_some())?;
            Some((method, run.seed, run.differences.as_ref()?))
        })
        .collect();
    if known.is_empty() {
        return;
    }
    *page += "<h3>What would be done differently</h3><p>At steps of the past, what was done and what the policy would do there. \
              Steps are put together by the one or two columns that show best where it differs; first comes what changes most times \
              how often it comes up.</p>";
    let first = promising(compared).map(|method| &method.method);
    for (method, seed, differences) in known {
        let open = if Some(&method.method) == first { " open" } else { "" };
        let _ = write!(
            page,
            "<details{open}><summary>{}, seed {seed}</summary>",
            escape(method.title())
        );
        let name = format!("{}-{}-differences", compared.name(), method.method);
        difference(differences, &name, page);
        *page += "</details>";
    }
}

/// What one policy would do differently.
fn difference(differences: &Differences, name: &str, page: &mut String) {
    let Differences { steps, by, changed, groups, measure, .. } = differences;
    let asked = match (differences.level, differences.target) {
        (Some(level), _) => format!("Asked for level {}, ", short(level)),
        (None, Some(target)) => format!("Asked for {}, ", short(target)),
        (None, None) => String::new(),
    };
    let mut words = match differences.agreement {
        Some(agreement) => format!(
            "{asked}{} would do what was done in {} of {} that were looked at. ",
            if asked.is_empty() { "It" } else { "it" },
            percent((agreement * 1000.0).round() / 1000.0),
            plural(*steps, "step")
        ),
        None => format!("{asked}at {} that were looked at: ", plural(*steps, "step")),
    };
    match (groups.is_empty(), measure) {
        (true, Measure::Share) => words += "In no group of states does it do something else.",
        (true, Measure::Mean) => words += "in no group of states does it do something else.",
        (false, Measure::Share) => {
            let _ = write!(
                words,
                "By {}, {} of all decisions would be others.",
                by.join(" and "),
                percent((changed * 1000.0).round() / 1000.0)
            );
        }
        (false, Measure::Mean) => {
            let _ = write!(
                words,
                "by {}, what is done moves by {} of its standard deviations on average.",
                by.join(" and "),
                short(*changed)
            );
        }
    }
    let _ = write!(page, "<p>{}</p>", escape(&words));
    if groups.is_empty() {
        return;
    }
    let changes = match measure {
        Measure::Share => "decisions that change",
        Measure::Mean => "moves by, in deviations",
    };
    let _ = write!(
        page,
        "<div class=\"scroll\"><table class=\"differences\"><tr><th>where</th><th>steps</th><th>of all</th><th>{changes}</th>\
         <th style=\"text-align:left\">in the data → by the policy</th></tr>"
    );
    for group in groups {
        let change = match measure {
            Measure::Share => format!("{:.0}%", 100.0 * group.change),
            Measure::Mean => short(group.change),
        };
        let _ = write!(
            page,
            "<tr><td class=\"words\">{}</td><td>{}</td><td>{:.0}%</td><td>{change}</td><td class=\"words\">{}</td></tr>",
            escape(&group.states),
            count(group.steps),
            100.0 * group.share,
            escape(&in_words(group, *measure))
        );
    }
    let _ = write!(page, "</table></div><p class=\"soft\">{}</p>", csv_link(name, &rows(groups)));
}

/// The actions of a group that change, in words.
fn in_words(group: &StateGroup, measure: Measure) -> String {
    let text = |value: f64| match measure {
        Measure::Share => format!("{:.0}%", 100.0 * value),
        Measure::Mean => short(value),
    };
    let told = group.actions.iter().filter(|of| text(of.data) != text(of.policy));
    let told = told.map(|of| format!("{}: {} → {}", of.action, text(of.data), text(of.policy)));
    told.collect::<Vec<_>>().join("; ")
}

/// The numbers behind the table.
fn rows(groups: &[StateGroup]) -> Vec<Vec<String>> {
    let heading = ["states", "steps", "share", "change", "action", "data", "policy"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for group in groups {
        for of in &group.actions {
            let mut row = vec![group.states.clone(), group.steps.to_string()];
            row.extend([group.share, group.change].map(|number| number.to_string()));
            row.push(of.action.clone());
            row.extend([of.data, of.policy].map(|number| number.to_string()));
            rows.push(row);
        }
    }
    rows
}

/// How far to trust it: held-out episodes, leaks, luck.
fn trust(compared: &Compared, page: &mut String) {
    let mut text = String::new();
    for method in &compared.results.methods {
        for run in &method.runs {
            let mut words = String::new();
            if let Some(calibration) = &run.findings.calibration {
                let explained = calibration.explained.map_or(String::new(), |explained| {
                    format!(
                        ", and explain {} of their variance",
                        percent((explained.max(0.0) * 100.0).round() / 100.0)
                    )
                });
                let _ = write!(
                    words,
                    "On episodes that were not learned from, labels are {} off from returns on average{explained}. ",
                    short(calibration.error)
                );
            }
            if let Some(clustering) = &run.findings.clustering {
                let _ = write!(
                    words,
                    "Clusters help to foresee {} of what the world does by chance (leakage). ",
                    leaked(&clustering.leakage)
                );
                if let Some(luck) = &clustering.luck {
                    let verdict = match clustering.clean {
                        true => "which is no more than chance or what is tolerated",
                        false => "which is more than is tolerated: high promises may be luck",
                    };
                    let _ = write!(
                        words,
                        "Labels correlate by {} with the luck of their episodes, {verdict}. ",
                        short(luck.correlation)
                    );
                }
            }
            if words.is_empty() {
                continue;
            }
            let _ = write!(
                text,
                "<p>{}, seed {}: {}</p>",
                escape(method.title()),
                run.seed,
                escape(words.trim_end())
            );
            if let Some(calibration) = &run.findings.calibration {
                calibrated(calibration, &mut text);
            }
        }
    }
    let told_returns = |method: &&MethodResults| {
        method.condition == Some(Condition::Return) && method.offline_promise.is_some()
    };
    let at_its_word: Vec<&str> =
        compared.results.methods.iter().filter(told_returns).map(MethodResults::title).collect();
    if !at_its_word.is_empty() {
        let _ = write!(
            text,
            "<p>What {} promises is what was observed, luck included: where returns are luck in part, it promises too much.</p>",
            escape(&at_its_word.join(" and "))
        );
    }
    if !text.is_empty() {
        let _ = write!(page, "<h3>How far to trust it</h3>{text}");
    }
}

/// Labels beside the returns of held-out episodes.
fn calibrated(calibration: &LabelCalibration, page: &mut String) {
    *page += "<details><summary>Labels beside the returns of held-out episodes</summary><div class=\"scroll\"><table><tr>\
              <th>mean label</th><th>mean return</th><th>steps</th></tr>";
    for group in &calibration.groups {
        let _ = write!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td></tr>",
            short(group.label),
            short(group.observed),
            count(group.steps)
        );
    }
    *page += "</table></div></details>";
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The past returns 4.735 on average, and may return up to 5.218: what is said of a lower end is true of these numbers.
    #[test]
    fn what_is_said_of_a_lower_end_is_what_was_compared() {
        for (low, words) in [
            (6.1, "above all that the mean of the best behaviour may be"),
            (5.3, "above all that the mean of the past may be"),
            (5.044, "above the mean of the past, but within what that mean may be"),
            (4.735, "not above the mean of the past"),
            (4.0, "not above the mean of the past"),
        ] {
            let said = lower_end(low, 4.735, Some(5.218), Some(6.0));
            assert!(said.contains(words), "{low}: {said}");
        }
        // Of a single episode nobody knows what the mean may be.
        assert!(lower_end(9.0, 4.735, None, None).contains("within what that mean may be"));
    }
}

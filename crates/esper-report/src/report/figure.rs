//! Figures as SVG: panels with axes, and marks in them.
//!
//! A figure in a page takes its colours from the page, so that it follows light and dark; one that stands alone brings
//! its own. Every mark that stands for a number says it when it is pointed at.

use std::fmt::Write;

use esper_eval::text::number;

/// Something drawn, with the numbers behind it.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Its name as a file, without an ending.
    pub name: String,
    /// What it shows, in a line.
    pub title: String,
    /// What the colours mean.
    pub series: Vec<Series>,
    /// From the top down.
    pub panels: Vec<Panel>,
    /// The numbers: a heading, then rows.
    pub data: Vec<Vec<String>>,
}

/// One colour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// Which.
    pub colour: Colour,
    /// What it means.
    pub name: String,
}

/// One of the colours, by its number; beyond the last they begin again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colour(pub usize);

impl Colour {
    fn class(self) -> String {
        format!("c{}", self.0 % COLOURS.len())
    }
}

/// Colours that people who see fewer of them can tell apart (Okabe and Ito).
pub(super) const COLOURS: [&str; 6] =
    ["#0072b2", "#d55e00", "#009e73", "#aa4499", "#b8860b", "#56697a"];

/// Axes and what is drawn between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// Its height, without the axis below.
    pub height: f64,
    /// From left to right.
    pub x: Axis,
    /// From the bottom up.
    pub y: Axis,
    /// In the order they are drawn in.
    pub marks: Vec<Mark>,
}

/// A range of numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What the numbers are; none leaves out the numbers too.
    pub label: Option<String>,
    /// Where it begins.
    pub low: f64,
    /// Where it ends.
    pub high: f64,
}

impl Axis {
    /// An axis that holds some numbers, with a little space around them.
    pub fn around(label: &str, numbers: impl Iterator<Item = f64>) -> Self {
        let [low, high] = extent(numbers);
        let margin = (high - low) * 0.04;
        Axis { label: Some(label.to_owned()), low: low - margin, high: high + margin }
    }
}

/// The lowest and the highest of some numbers; a range around them if they are all the same.
fn extent(numbers: impl Iterator<Item = f64>) -> [f64; 2] {
    let (low, high) = numbers
        .filter(|number| number.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), number| {
            (low.min(number), high.max(number))
        });
    match high - low {
        span if span > 0.0 => [low, high],
        0.0 => [low - 0.5, high + 0.5],
        _ => [0.0, 1.0],
    }
}

/// Something drawn in a panel.
#[derive(Clone, Debug, PartialEq)]
pub enum Mark {
    /// A range of x that is set apart.
    Shade {
        /// Where it begins.
        from: f64,
        /// Where it ends.
        to: f64,
    },
    /// A thin line for orientation.
    Guide {
        /// From here.
        from: [f64; 2],
        /// To here.
        to: [f64; 2],
    },
    /// Points joined by a line.
    Line {
        /// Its colour.
        colour: Colour,
        /// The points.
        points: Vec<[f64; 2]>,
        /// What the line is: its points are said after it when they are pointed at. Empty if there are dots that say it.
        says: String,
    },
    /// Points with what they stand for, perhaps with a range around each.
    Dots {
        /// Their colour.
        colour: Colour,
        /// The points.
        dots: Vec<Dot>,
    },
    /// Bars that stand on the lower axis.
    Bars {
        /// Their colour.
        colour: Colour,
        /// From, to, height.
        bars: Vec<[f64; 3]>,
        /// What the bars count.
        says: String,
    },
}

/// A point.
#[derive(Clone, Debug, PartialEq)]
pub struct Dot {
    /// Where.
    pub at: [f64; 2],
    /// How far the truth may be to either side of y.
    pub error: f64,
    /// Whether it counts; others are drawn hollow.
    pub solid: bool,
    /// What is said when it is pointed at.
    pub says: String,
}

const WIDTH: f64 = 720.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 14.0;
const GAP: f64 = 16.0;
const BELOW: f64 = 40.0;
/// The most points of a line that say what they are.
const SAID: usize = 60;

/// Rows as comma-separated values.
pub(super) fn csv(rows: &[Vec<String>]) -> String {
    let cell = |text: &String| match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.clone(),
    };
    let row = |row: &Vec<String>| row.iter().map(cell).collect::<Vec<_>>().join(",") + "\n";
    rows.iter().map(row).collect()
}

impl Figure {
    /// The numbers behind it, as comma-separated values.
    pub fn csv(&self) -> String {
        csv(&self.data)
    }

    /// The figure as a part of a page, which gives it its colours.
    pub fn inline(&self) -> String {
        self.svg("")
    }

    /// The figure as a file.
    pub fn standalone(&self) -> String {
        let mut style = String::from(
            "<style>text{font-family:Ubuntu,Helvetica,Arial,sans-serif;font-size:13px;fill:#222}\
             .axis{stroke:#888}.grid{stroke:#e4e4e4}.guide{stroke:#999}.shade{fill:#eeeeee}.hollow{fill:#ffffff}",
        );
        for (number, colour) in COLOURS.iter().enumerate() {
            let _ = write!(style, ".s{number}{{stroke:{colour}}}.f{number}{{fill:{colour}}}");
        }
        style += "</style><rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>";
        self.svg(&style)
    }

    fn height(&self) -> f64 {
        let panels: f64 = self
            .panels
            .iter()
            .map(|panel| panel.height + if panel.x.label.is_some() { BELOW } else { GAP })
            .sum();
        self.legend_places().1 + panels + 4.0
    }

    fn svg(&self, style: &str) -> String {
        let height = self.height();
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
             height=\"{height}\" role=\"img\" aria-label=\"{}\" data-figure=\"{}\">{style}",
            escape(&self.title),
            escape(&self.name)
        );
        self.legend(&mut svg);
        let mut top = self.legend_places().1;
        for panel in &self.panels {
            panel.draw(top, style.is_empty(), &mut svg);
            top += panel.height + if panel.x.label.is_some() { BELOW } else { GAP };
        }
        svg + "</svg>"
    }

    /// Where every name of the legend stands, and the height that all take.
    fn legend_places(&self) -> (Vec<[f64; 2]>, f64) {
        let (mut x, mut y) = (LEFT, 8.0);
        let mut places = Vec::new();
        for series in &self.series {
            // About as wide as letters are; nothing depends on it but the space between names.
            let width = 36.0 + 9.2 * series.name.chars().count() as f64;
            if x > LEFT && x + width > WIDTH {
                (x, y) = (LEFT, y + 20.0);
            }
            places.push([x, y]);
            x += width;
        }
        (places, y + 22.0)
    }

    fn legend(&self, svg: &mut String) {
        for (Series { colour, name }, [x, y]) in self.series.iter().zip(self.legend_places().0) {
            let fill = colour.class().replace('c', "f");
            let _ = write!(
                svg,
                "<rect x=\"{x:.0}\" y=\"{y:.0}\" width=\"12\" height=\"12\" rx=\"3\" class=\"{fill}\"/>\
                 <text x=\"{:.0}\" y=\"{:.0}\">{}</text>",
                x + 17.0,
                y + 10.0,
                escape(name)
            );
        }
    }
}

impl Panel {
    fn x_at(&self, x: f64) -> f64 {
        LEFT + (x - self.x.low) / (self.x.high - self.x.low) * (WIDTH - LEFT - RIGHT)
    }

    fn y_at(&self, top: f64, y: f64) -> f64 {
        top + self.height - (y - self.y.low) / (self.y.high - self.y.low) * self.height
    }

    /// In a page the points of lines can be pointed at.
    fn draw(&self, top: f64, in_page: bool, svg: &mut String) {
        let bottom = top + self.height;
        let right = WIDTH - RIGHT;
        let shades = self.marks.iter().filter(|mark| matches!(mark, Mark::Shade { .. }));
        shades.for_each(|mark| self.mark(mark, top, in_page, svg));
        let across = ticks(self.x.low, self.x.high, 8);
        for &tick in &across {
            let x = self.x_at(tick);
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top:.1}\" y2=\"{bottom:.1}\"/>"
            );
            if self.x.label.is_some() {
                let y = bottom + 16.0;
                let text = tick_text(tick, &across);
                let _ = write!(
                    svg,
                    "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{text}</text>"
                );
            }
        }
        if self.y.label.is_some() {
            let up = ticks(self.y.low, self.y.high, (self.height / 40.0) as usize + 1);
            for &tick in &up {
                let y = self.y_at(top, tick);
                let _ = write!(
                    svg,
                    "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                     <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                    LEFT - 6.0,
                    y + 4.0,
                    tick_text(tick, &up)
                );
            }
        }
        let marks = self.marks.iter().filter(|mark| !matches!(mark, Mark::Shade { .. }));
        marks.for_each(|mark| self.mark(mark, top, in_page, svg));
        let _ = write!(
            svg,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{bottom:.1}\" y2=\"{bottom:.1}\"/>\
             <line class=\"axis\" x1=\"{LEFT}\" x2=\"{LEFT}\" y1=\"{top:.1}\" y2=\"{bottom:.1}\"/>"
        );
        if let Some(label) = &self.x.label {
            let (x, y) = ((LEFT + right) / 2.0, bottom + 33.0);
            let label = escape(label);
            let _ = write!(
                svg,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{label}</text>"
            );
        }
        if let Some(label) = &self.y.label {
            let (y, label) = (top + self.height / 2.0, escape(label));
            let _ = write!(
                svg,
                "<text transform=\"translate(14 {y:.1}) rotate(-90)\" text-anchor=\"middle\">{label}</text>"
            );
        }
    }

    fn mark(&self, mark: &Mark, top: f64, in_page: bool, svg: &mut String) {
        let clip_x = |x: f64| self.x_at(x.clamp(self.x.low, self.x.high));
        let clip_y = |y: f64| self.y_at(top, y.clamp(self.y.low, self.y.high));
        match mark {
            Mark::Shade { from, to } => {
                let (x, end) = (clip_x(*from), clip_x(*to));
                let _ = write!(
                    svg,
                    "<rect class=\"shade\" x=\"{x:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\">\
                     <title>the data does not speak about these targets</title></rect>",
                    end - x,
                    self.height
                );
            }
            Mark::Guide { from, to } => {
                let [[x1, y1], [x2, y2]] = [from, to].map(|[x, y]| [clip_x(*x), clip_y(*y)]);
                let _ = write!(
                    svg,
                    "<line class=\"guide\" stroke-dasharray=\"5 4\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" \
                     x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
                );
            }
            Mark::Line { colour, points, says } => {
                let stroke = colour.class().replace('c', "s");
                let points: Vec<&[f64; 2]> =
                    points.iter().filter(|[x, y]| x.is_finite() && y.is_finite()).collect();
                let places: Vec<String> = points
                    .iter()
                    .map(|[x, y]| format!("{:.1},{:.1}", clip_x(*x), clip_y(*y)))
                    .collect();
                let _ = write!(
                    svg,
                    "<polyline class=\"{stroke}\" fill=\"none\" stroke-width=\"1.8\" points=\"{}\"/>",
                    places.join(" ")
                );
                if in_page && !says.is_empty() {
                    let every = points.len().div_ceil(SAID).max(1);
                    for [x, y] in points.into_iter().step_by(every) {
                        let says = format!("{} {}: {}", escape(says), number(*x), precise(*y));
                        let (x, y) = (clip_x(*x), clip_y(*y));
                        let _ = write!(
                            svg,
                            "<circle fill-opacity=\"0\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"6\" \
                             data-says=\"{says}\"><title>{says}</title></circle>"
                        );
                    }
                }
            }
            Mark::Dots { colour, dots } => {
                let class = colour.class();
                let (stroke, fill) = (class.replace('c', "s"), class.replace('c', "f"));
                for dot in dots {
                    let [x, y] = dot.at;
                    let (low, high) = (clip_y(y - dot.error), clip_y(y + dot.error));
                    let (x, y, says) = (clip_x(x), clip_y(y), escape(&dot.says));
                    if dot.error > 0.0 {
                        let _ = write!(
                            svg,
                            "<line class=\"{stroke}\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{low:.1}\" y2=\"{high:.1}\"/>"
                        );
                    }
                    let fill = if dot.solid { fill.as_str() } else { "hollow" };
                    let _ = write!(
                        svg,
                        "<circle class=\"{stroke} {fill}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" \
                         data-says=\"{says}\"><title>{says}</title></circle>"
                    );
                }
            }
            Mark::Bars { colour, bars, says: what } => {
                let fill = colour.class().replace('c', "f");
                for &[from, to, height] in bars.iter().filter(|[_, _, height]| *height > 0.0) {
                    let (x, end, y) = (clip_x(from), clip_x(to), clip_y(height));
                    let what = escape(what);
                    let [from, to, height] = [from, to, height].map(number);
                    let says = format!("{what} {from} to {to}: {height}");
                    let _ = write!(
                        svg,
                        "<rect class=\"{fill}\" fill-opacity=\"0.55\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" \
                         height=\"{:.1}\" data-says=\"{says}\"><title>{says}</title></rect>",
                        (end - x).max(0.8),
                        (self.y_at(top, self.y.low) - y).max(0.0)
                    );
                }
            }
        }
    }
}

/// A number by its first four digits.
fn precise(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits = 3.0 - value.abs().log10().floor();
    match (0.0..=6.0).contains(&digits) {
        true => format!("{value:.*}", digits as usize),
        false => format!("{value:.3e}"),
    }
}

/// A tick with as many decimals as it takes to tell it from the next.
fn tick_text(tick: f64, all: &[f64]) -> String {
    let step = all.windows(2).map(|pair| pair[1] - pair[0]).fold(f64::INFINITY, f64::min);
    let largest = all.iter().fold(0.0f64, |largest, tick| largest.max(tick.abs()));
    if !step.is_finite() || largest == 0.0 {
        return number(tick);
    }
    // Round numbers are multiples of a power of ten, or half of one.
    let decimals = (1.0 - step.log10().floor()).max(0.0) as usize;
    if !(1e-3..1e6).contains(&largest) {
        return if tick == 0.0 { "0".to_owned() } else { format!("{tick:.1e}") };
    }
    let text = format!("{tick:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Round numbers within a range, about `count` of them, and at least two: one alone says nothing.
fn ticks(low: f64, high: f64, count: usize) -> Vec<f64> {
    let finer = |more: usize| round_numbers(low, high, count + more);
    (0..8).map(finer).find(|ticks| ticks.len() > 1).unwrap_or_else(|| finer(0))
}

fn round_numbers(low: f64, high: f64, count: usize) -> Vec<f64> {
    let rough = (high - low) / count.max(1) as f64;
    let unit = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * unit).into_iter().find(|&step| step >= rough);
    let step = step.unwrap_or(unit * 10.0);
    let first = (low / step).ceil() as i64;
    let last = (high / step).floor() as i64;
    (first..=last).take(64).map(|at| at as f64 * step).collect()
}

/// Text within a page. What no page may hold, as names from damaged files do, is shown as such.
pub(super) fn escape(text: &str) -> String {
    let text = text.replace(
        |c: char| (c.is_control() && c != '\n') || matches!(c, '\u{fffe}' | '\u{ffff}'),
        "\u{fffd}",
    );
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        let close = |a: Vec<f64>, b: &[f64]| {
            assert_eq!(a.len(), b.len(), "{a:?}");
            assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9), "{a:?}");
        };
        close(ticks(-0.04, 1.04, 5), &[0.0, 0.5, 1.0]);
        close(ticks(-15.8, 5.8, 8), &[-15.0, -10.0, -5.0, 0.0, 5.0]);
        close(ticks(0.0, 1.0, 8), &[0.0, 0.2, 0.4, 0.6, 0.8, 1.0]);
    }

    #[test]
    fn numbers_have_the_digits_it_takes() {
        let texts = |low: f64, high: f64| {
            let ticks = ticks(low, high, 3);
            ticks.iter().map(|&tick| tick_text(tick, &ticks)).collect::<Vec<_>>()
        };
        assert_eq!(texts(1.0981, 1.0995), ["1.0985", "1.099", "1.0995"]);
        assert_eq!(texts(-0.1, 1.1), ["0", "0.5", "1"]);
        assert_eq!(texts(-2.5e-4, 4.5e-4), ["-2.0e-4", "0", "2.0e-4", "4.0e-4"]);
        assert_eq!(texts(0.0, 20_000.0), ["0", "10000", "20000"]);
        let values = [1.18806, 0.0357327, -5.05, 12345.6, 2.5e-7, 0.0];
        assert_eq!(
            values.map(precise),
            ["1.188", "0.03573", "-5.050", "1.235e4", "2.500e-7", "0"].map(str::to_owned)
        );
    }

    /// Names come from users' files: they may hold what separates values.
    #[test]
    fn values_are_separated_for_good() {
        let rows = [["who", "label"], ["Ada, \"the fair\"", "0.5"]];
        let figure = Figure {
            name: String::new(),
            title: String::new(),
            series: Vec::new(),
            panels: Vec::new(),
            data: rows.map(|row| row.map(str::to_owned).to_vec()).to_vec(),
        };
        assert_eq!(figure.csv(), "who,label\n\"Ada, \"\"the fair\"\"\",0.5\n");
    }

    /// A point at the middle of both axes is drawn at the middle of the panel.
    #[test]
    fn points_are_where_their_numbers_say() {
        let axis = |label: &str| Axis { label: Some(label.to_owned()), low: 0.0, high: 2.0 };
        let dot = Dot { at: [1.0, 1.0], error: 0.5, solid: true, says: "a < b".to_owned() };
        let figure = Figure {
            name: "f".to_owned(),
            title: "a \"title\"".to_owned(),
            series: vec![Series { colour: Colour(0), name: "esper".to_owned() }],
            panels: vec![Panel {
                height: 200.0,
                x: axis("x"),
                y: axis("y"),
                marks: vec![Mark::Dots { colour: Colour(0), dots: vec![dot] }],
            }],
            data: Vec::new(),
        };
        let svg = figure.standalone();
        let middle = LEFT + (WIDTH - LEFT - RIGHT) / 2.0;
        assert!(svg.contains(&format!("cx=\"{middle:.1}\" cy=\"130.0\"")), "{svg}");
        assert!(svg.contains("a &lt; b") && svg.contains("a &quot;title&quot;"));
        assert!(svg.contains("y1=\"180.0\" y2=\"80.0\""), "the range of the error: {svg}");
        assert!(figure.inline().len() < svg.len(), "colours are the page's");
    }
}

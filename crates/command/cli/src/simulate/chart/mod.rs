//! The chart: granted and denied calls over time, one panel per policy. One SVG file without scripts or fonts that
//! follows the light or dark theme.

mod axis;
mod panel;

use std::fmt::Write;

use tollway::core::REQUESTS;
use tollway::{Span, Timestamp};
use tollway_forecast::simulate::{Timeline, Trial};

use super::simulation::SimulationReport;
use crate::humanize::{counted, moment_in_full};
use panel::{PANEL_HEIGHT, Panel};

const WIDTH: f64 = 960.0;
const HEAD_HEIGHT: f64 = 76.0;

/// The most bars in a panel.
const BARS_MAX: u64 = 200;

/// The fewest bars, if there are few calls.
const BARS_MIN: u64 = 24;

/// With fewer bars than this, bars are narrower than a limit's period, to show the course over time.
const BARS_WORTH_SEEING: u64 = 5;

/// A limit this many times above the tallest bar is not drawn: the bars would be flat.
const LINE_HEIGHT_MAX: f64 = 4.0;

const STYLE: &str = "\
text { font: 12px system-ui, sans-serif; fill: #3d4450 }
.paper { fill: #ffffff }
.title { font-size: 18px; font-weight: 600; fill: #14181f }
.name { font-size: 14px; font-weight: 600; fill: #14181f }
.grid { stroke: #e4e7ec }
.axis { stroke: #8b94a3 }
.granted { fill: #3b7dd8 }
.denied { fill: #e4572e }
.limit { stroke: #14181f; stroke-width: 1.5; stroke-dasharray: 6 4 }
.on { fill: #14181f; paint-order: stroke; stroke: #ffffff; stroke-width: 3px }
@media (prefers-color-scheme: dark) {
text { fill: #b3bac6 }
.paper { fill: #14181f }
.title, .name { fill: #f2f4f7 }
.grid { stroke: #2b323d }
.axis { stroke: #6b7484 }
.granted { fill: #5b9bf0 }
.denied { fill: #ff7b54 }
.limit { stroke: #f2f4f7 }
.on { fill: #f2f4f7; stroke: #14181f }
}";

/// Draws the chart.
pub(super) fn draw(report: &SimulationReport<'_>) -> String {
    let (trials, traffic) = (&report.summary.trials, &report.summary.traffic);
    let alone = traffic.by_calls.subjects() == 1;
    let panels = panels(trials, alone, traffic.calls);
    let height = HEAD_HEIGHT + PANEL_HEIGHT * panels.len() as f64;
    let title = format!("{}: {}", report.log, counted(traffic.calls, "calls"));
    let mut svg = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n\
         <title>{title}</title>\n<style>\n{STYLE}\n</style>\n\
         <rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>\n\
         <text class=\"title\" x=\"24\" y=\"34\">{title}</text>\n<text x=\"24\" y=\"56\">{range}</text>\n{LEGEND}",
        title = escaped(&title),
        range = escaped(&range(report)),
    );
    for (index, panel) in panels.iter().enumerate() {
        panel.draw(&mut svg, HEAD_HEIGHT + PANEL_HEIGHT * index as f64);
    }
    svg += "</svg>\n";
    svg
}

const LEGEND: &str = "\
<rect class=\"granted\" x=\"790\" y=\"23\" width=\"12\" height=\"12\" rx=\"2\"/>
<text x=\"808\" y=\"33\">granted</text>
<rect class=\"denied\" x=\"870\" y=\"23\" width=\"12\" height=\"12\" rx=\"2\"/>
<text x=\"888\" y=\"33\">denied</text>
";

fn range(report: &SimulationReport<'_>) -> String {
    let (first, last) = report.summary.traffic.range.unwrap_or_default();
    format!("{} to {}", moment_in_full(first), moment_in_full(last))
}

/// One panel for each trial, all over the same range and to the same scale.
fn panels(trials: &[Trial], alone: bool, calls: u64) -> Vec<Panel> {
    let most = calls.clamp(BARS_MIN, BARS_MAX) as usize;
    let lines: Vec<Vec<Line>> =
        trials.iter().map(|trial| if alone { lines(trial) } else { Vec::new() }).collect();
    let timelines = side_by_side(trials, lines.iter().flatten().map(|line| line.period).min(), most);
    let tallest =
        timelines.iter().flat_map(Timeline::bars).map(|bar| bar.granted + bar.denied).max().unwrap_or(1);
    let width = timelines.first().map_or(Span::ZERO, Timeline::width);
    // A bar narrower than the period may exceed the limit's share of it.
    let drawn = |line: &Line| line.period <= width && line.per_bar(width) <= tallest as f64 * LINE_HEIGHT_MAX;
    let lines: Vec<Vec<Line>> =
        lines.into_iter().map(|lines| lines.into_iter().filter(drawn).collect()).collect();
    let heights = lines.iter().flatten().map(|line| line.per_bar(width).ceil() as u64);
    let amounts = axis::amounts(heights.fold(tallest, u64::max));
    let parts = trials.iter().zip(timelines).zip(lines);
    parts.map(|((trial, timeline), lines)| Panel::new(trial, timeline, lines, amounts.clone())).collect()
}

/// All timelines with one bar width: the shortest limit's period, if that leaves enough bars.
fn side_by_side(trials: &[Trial], period: Option<Span>, most: usize) -> Vec<Timeline> {
    let timelines = || trials.iter().map(|trial| &trial.counts.timeline);
    let ends = timelines().filter(|timeline| timeline.bars().len() > 0).flat_map(|timeline| {
        let last = timeline.start_of(timeline.bars().len()).minus(Span::from_micros(1));
        [timeline.start_of(0), last]
    });
    let (from, to) =
        ends.fold((Timestamp::MAX, Timestamp::EPOCH), |(from, to), at| (from.min(at), to.max(at)));
    let worth_seeing =
        |period: &Span| to.since(from).as_micros() / period.as_micros().max(1) >= BARS_WORTH_SEEING;
    let period = period.filter(worth_seeing).unwrap_or(Span::ZERO);
    let coarse = timelines().map(|timeline| timeline.clone().covering(from, to).coarser(period, most));
    coarse.collect()
}

/// A limit that can be drawn as a rate over time.
#[derive(Clone, Debug, PartialEq)]
struct Line {
    text: String,
    amount: u64,
    period: Span,
}

impl Line {
    /// The amount granted within one bar.
    fn per_bar(&self, width: Span) -> f64 {
        self.amount as f64 * width.as_micros() as f64 / self.period.as_micros().max(1) as f64
    }
}

/// Lines for limits on requests, if each call costs one: only then they share a scale with the bars.
fn lines(trial: &Trial) -> Vec<Line> {
    if trial.carries_request_amounts() {
        return Vec::new();
    }
    let of_requests = trial.policy.limits().iter().filter(|limit| limit.unit().as_str() == REQUESTS);
    of_requests
        .filter_map(|limit| {
            Some(Line { text: limit.to_string(), amount: limit.amount(), period: limit.period()? })
        })
        .collect()
}

/// Escapes text for XML. Characters that XML forbids are removed.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\t' | '\n' | '\r' => safe.push(' '),
            '\0'..' ' | '\u{fffe}' | '\u{ffff}' => {}
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_for_xml() {
        assert_eq!(escaped("<a href=\"x\">&\u{1b}\n</a>"), "&lt;a href=&quot;x&quot;&gt;&amp; &lt;/a&gt;");
    }
}

//! One panel: bars, axes and lines of limits.

use std::fmt::Write;

use tollway::Span;
use tollway_forecast::simulate::{Bar, Timeline, Trial};

use super::{Line, WIDTH, axis, escaped};
use crate::humanize::{count, span};
use crate::simulate::text::percent;

/// Includes the name above and the axis below.
pub(super) const PANEL_HEIGHT: f64 = 290.0;

const LEFT: f64 = 80.0;
const RIGHT: f64 = WIDTH - 24.0;
const TOP: f64 = 36.0;
const BOTTOM: f64 = 236.0;

/// Longer names are truncated, to not overlap the label at the right.
const NAME_CHARS_MAX: usize = 72;

pub(super) struct Panel {
    name: String,
    timeline: Timeline,
    lines: Vec<Line>,
    amounts: Vec<u64>,
}

impl Panel {
    /// `amounts` are the ticks of the vertical axis, the same for all panels.
    pub(super) fn new(trial: &Trial, timeline: Timeline, lines: Vec<Line>, amounts: Vec<u64>) -> Self {
        let calls = trial.counts.granted + trial.counts.denied;
        let limits: Vec<String> = trial.policy.limits().iter().map(ToString::to_string).collect();
        let denied = percent(trial.counts.denied, calls);
        let name = format!("{}: {}", trial.title, limits.join(", "));
        let name = if name.chars().count() > NAME_CHARS_MAX {
            name.chars().take(NAME_CHARS_MAX).chain("...".chars()).collect()
        } else {
            name
        };
        let name = format!("{name} ({denied} denied)");
        Self { name, timeline, lines, amounts }
    }

    /// Draws the panel at this vertical offset.
    pub(super) fn draw(&self, svg: &mut String, down: f64) {
        let _ = writeln!(svg, "<g transform=\"translate(0 {down})\">");
        let _ = writeln!(svg, "<text class=\"name\" x=\"24\" y=\"16\">{}</text>", escaped(&self.name));
        self.draw_amounts(svg);
        self.draw_bars(svg);
        self.draw_moments(svg);
        self.draw_lines(svg);
        svg.push_str("</g>\n");
    }

    fn draw_amounts(&self, svg: &mut String) {
        for amount in &self.amounts {
            let y = self.height_of(*amount as f64);
            let label = y + 4.0;
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text x=\"{:.1}\" y=\"{label:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                count(*amount),
            );
        }
        let unit = format!("calls per {}", one_of(self.timeline.width()));
        let _ =
            writeln!(svg, "<text x=\"{RIGHT}\" y=\"{:.1}\" text-anchor=\"end\">{unit}</text>", TOP - 20.0);
    }

    /// Granted below, denied above, with tooltips.
    fn draw_bars(&self, svg: &mut String) {
        let width = (RIGHT - LEFT) / self.timeline.bars().len().max(1) as f64;
        let gap = if width > 3.0 { 1.0 } else { 0.0 };
        for (index, Bar { granted, denied }) in self.timeline.bars().enumerate() {
            if granted + denied == 0 {
                continue;
            }
            let when = axis::stretch(self.timeline.start_of(index), self.timeline.width());
            let tip = format!("{when}: {} granted, {} denied", count(granted), count(denied));
            let _ = write!(svg, "<g><title>{}</title>", escaped(&tip));
            let x = LEFT + width * index as f64;
            for (class, from, to) in [("granted", 0, granted), ("denied", granted, granted + denied)] {
                let (top, bottom) = (self.height_of(to as f64), self.height_of(from as f64));
                if from < to {
                    let _ = write!(
                        svg,
                        "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                        width - gap,
                        bottom - top,
                    );
                }
            }
            svg.push_str("</g>\n");
        }
    }

    fn draw_moments(&self, svg: &mut String) {
        let _ = writeln!(
            svg,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{BOTTOM}\" y2=\"{BOTTOM}\"/>"
        );
        let (from, to) = (self.timeline.start_of(0), self.timeline.start_of(self.timeline.bars().len()));
        let length = to.since(from).as_micros().max(1) as f64;
        for (at, text) in axis::moments(from, to) {
            let x = LEFT + (RIGHT - LEFT) * at.since(from).as_micros() as f64 / length;
            let (tick, label) = (BOTTOM + 5.0, BOTTOM + 20.0);
            let _ = writeln!(
                svg,
                "<line class=\"axis\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{BOTTOM}\" y2=\"{tick}\"/>\
                 <text x=\"{x:.1}\" y=\"{label}\" text-anchor=\"middle\">{text}</text>"
            );
        }
    }

    fn draw_lines(&self, svg: &mut String) {
        for line in &self.lines {
            let y = self.height_of(line.per_bar(self.timeline.width()));
            let label = y - 5.0;
            let _ = writeln!(
                svg,
                "<line class=\"limit\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"on\" x=\"{:.1}\" y=\"{label:.1}\">{}</text>",
                LEFT + 4.0,
                escaped(&line.text),
            );
        }
    }

    fn height_of(&self, amount: f64) -> f64 {
        let most = self.amounts.last().copied().unwrap_or(1).max(1) as f64;
        BOTTOM - (BOTTOM - TOP) * amount / most
    }
}

/// A duration after `per`.
fn one_of(width: Span) -> String {
    let words = [(1, "second"), (60, "minute"), (3_600, "hour"), (86_400, "day"), (7 * 86_400, "week")];
    let word = words.into_iter().find(|(seconds, _)| Span::from_secs(*seconds) == width);
    word.map_or_else(|| span(width), |(_, word)| word.to_owned())
}

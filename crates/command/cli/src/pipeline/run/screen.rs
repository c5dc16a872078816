//! Shows progress on standard error: live on a terminal, a line a minute elsewhere.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tollway::{Span, Timestamp};
use tollway_pipeline::PipelineConfig;
use tollway_pipeline::run::EngineOutage;
use tollway_pipeline::run::progress::Progress;
use tollway_pipeline::view::PipelineView;

use super::super::progress_text::{self, rate};
use super::super::stage_names::remark;
use super::super::width::stderr_width;
use crate::humanize::{self, count, counted};
use crate::layout::COLUMNS;
use crate::log;
use crate::output::{Output, STRONG, WARN};

/// How often a line is logged without a terminal.
const LINE_EVERY: Span = Span::from_mins(1);

/// When the first line is logged: soon enough to see that it works.
const FIRST_LINE_AFTER: Span = Span::from_secs(5);

/// The display of a run.
pub(super) struct Screen {
    title: String,
    live: Option<ProgressBar>,
    quiet: bool,
    next_line: Option<Timestamp>,
}

impl Screen {
    pub(super) fn new(output: &Output, config: &PipelineConfig) -> Self {
        let live = output.is_watched().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(4));
            let style = ProgressStyle::with_template("{msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            log::go_through(Some(bar.clone()));
            bar
        });
        let stages: Vec<&str> = config.stages.iter().map(|stage| stage.name.as_str()).collect();
        let title = format!("{STRONG}{}{STRONG:#}: {} ({})", config.name, stages.join(" -> "), config.engine);
        Self { title, live, quiet: output.is_quiet() || output.is_json(), next_line: None }
    }

    /// Whether there is something to show now. Reading the quota costs a call to the store.
    pub(super) fn is_due(&mut self, now: Timestamp) -> bool {
        if self.live.is_some() {
            return true;
        }
        let next = *self.next_line.get_or_insert(now.plus(FIRST_LINE_AFTER));
        if self.quiet || now < next {
            return false;
        }
        self.next_line = Some(now.plus(LINE_EVERY));
        true
    }

    /// Whether it is drawn on a terminal.
    pub(super) fn is_live(&self) -> bool {
        self.live.is_some()
    }

    pub(super) fn show(&self, view: &PipelineView) {
        match &self.live {
            Some(bar) => {
                let lines = progress_text::lines(view, stderr_width().unwrap_or(COLUMNS)).join("\n");
                bar.set_message(format!("{}\n{lines}", self.title));
            }
            None => tracing::info!("{}", line(&view.progress)),
        }
    }

    /// While the engine is away, nothing else is known. Without a terminal, the log says so.
    pub(super) fn show_outage(&self, outage: &EngineOutage) {
        let Some(bar) = &self.live else { return };
        let away = humanize::span(outage.lasts);
        let kept = match outage.kept {
            0 => String::new(),
            kept => format!(
                "; {} kept until then",
                counted(u64::try_from(kept).unwrap_or(u64::MAX), "finished answers")
            ),
        };
        let error = &outage.error;
        bar.set_message(format!(
            "{}\n{WARN}  no answer of the engine for {away}{WARN:#}{kept}\n  {error}",
            self.title
        ));
    }

    /// Removes the live display; the summary has its figures.
    pub(super) fn close(&self) {
        if let Some(bar) = &self.live {
            bar.finish_and_clear();
            log::go_through(None);
        }
    }
}

/// `autotag 120 done, 880 ready, 4 running; extract ...; 198 a minute; done in 5 min to 6 min`.
fn line(progress: &Progress) -> String {
    let stage = |stage: &tollway_pipeline::run::progress::StageProgress| {
        let mut text = format!("{} {} done, {} ready", stage.stage, count(stage.done), count(stage.ready));
        for (number, what) in [
            (stage.running, "running"),
            (stage.retrying, "retrying"),
            (stage.held, "held"),
            (stage.dead, "dead"),
        ] {
            if number > 0 {
                text.push_str(&format!(", {} {what}", count(number)));
            }
        }
        if stage.paused {
            text.push_str(", paused");
        } else if let Some(outage) = &stage.unreachable {
            let lasts = humanize::span(progress.at.since(outage.since));
            text.push_str(&format!(", waits for its handler for {lasts}"));
        } else if let Some(until) = stage.waiting_until.filter(|_| stage.ready > 0) {
            text.push_str(&format!(", quota in {}", humanize::span(until.since(progress.at))));
        }
        text
    };
    let mut parts: Vec<String> = progress.stages.iter().map(stage).collect();
    parts.extend(progress.unlisted.iter().map(remark));
    parts.extend(progress.per_minute.map(|per_minute| format!("{} a minute", rate(per_minute))));
    parts.extend(progress.stands.as_ref().map(ToString::to_string));
    parts.extend(progress.eta.as_ref().filter(|_| progress.left > 0.0).map(|eta| {
        let [from, to] = [eta.earliest, eta.latest].map(|at| humanize::span(at.since(progress.at)));
        if from == to { format!("done in {from}") } else { format!("done in {from} to {to}") }
    }));
    parts.join("; ")
}

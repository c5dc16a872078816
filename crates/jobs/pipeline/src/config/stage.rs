//! One stage of a pipeline.

use std::path::Path;

use tollway_config::Section;
use tollway_core::{Name, Span};
use toml::Spanned;

use super::handler::{self, HandlerConfig};
use super::sqs_url::SqsUrl;
use super::{did_you_mean, take, values};
use crate::JobCost;

/// The most jobs that may run at a time.
pub(super) const CONCURRENCY_MAX: u32 = 100_000;

/// The most tries, and the most crashes.
const TRIES_MAX: u32 = 1_000;

const VISIBILITY_DEFAULT: Span = Span::from_mins(15);

/// One stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageConfig {
    /// Its name.
    pub name: Name,
    /// The name of its queue, for engines outside the process.
    pub queue: Option<String>,
    /// The name of the queue of its dead letters.
    pub dead_letter_queue: Option<String>,
    /// What a job takes from the limiter, unless it has a cost of its own; empty: nothing.
    pub take: JobCost,
    /// What does the work; none: the program brings a handler.
    pub handler: Option<HandlerConfig>,
    /// How many jobs may run at a time.
    pub concurrency: u32,
    /// How long a claim lasts without being renewed.
    pub visibility_timeout: Span,
    /// How long a handler may take for a job.
    pub timeout: Span,
    /// How many failed attempts make a dead letter.
    pub tries: u32,
    /// How many crashed attempts make a dead letter.
    pub crashes: u32,
    /// How long done jobs are kept.
    pub retention: Span,
    /// The pause before the second try; each further pause is twice as long.
    pub backoff: Span,
    /// The longest pause between tries.
    pub backoff_max: Span,
    /// The stages that a whole group must have left before its jobs here are ready.
    pub after: Vec<Name>,
    /// Where outputs go that name no stage; none: this is the last stage.
    pub next: Option<Name>,
}

impl StageConfig {
    /// A stage with all defaults, which takes nothing and hands nothing on.
    pub fn new(name: Name) -> Self {
        Self {
            name,
            queue: None,
            dead_letter_queue: None,
            take: JobCost::OF_STAGE,
            handler: None,
            concurrency: 10,
            visibility_timeout: VISIBILITY_DEFAULT,
            timeout: timeout_default(VISIBILITY_DEFAULT),
            tries: 3,
            crashes: 3,
            retention: Span::from_days(7),
            backoff: Span::from_secs(5),
            backoff_max: Span::from_mins(15),
            after: Vec::new(),
            next: None,
        }
    }

    pub(super) fn in_folder(&mut self, folder: &Path) {
        self.handler.iter_mut().for_each(|handler| handler.in_folder(folder));
    }
}

/// Two thirds of the visibility timeout: 10 minutes of 15.
fn timeout_default(visibility: Span) -> Span {
    Span::from_micros(visibility.as_micros() / 3 * 2)
}

/// A stage whose references to other stages are not yet looked up.
pub(super) struct Draft<'a> {
    stage: StageConfig,
    name: Spanned<&'a str>,
    after: Vec<Spanned<&'a str>>,
    next: Option<Spanned<&'a str>>,
}

pub(super) fn read<'a>(mut section: Section<'a>, policies: &take::Policies<'_>) -> Option<Draft<'a>> {
    section.required("name", "\"autotag\"");
    let name = section.string("name", "autotag");
    let named = name.as_ref().and_then(|name| {
        let wrong =
            |error| section.report().problem_with(name, format!("not a name of a stage: {error}"), "");
        Name::new(name.get_ref()).map_err(wrong).ok()
    });
    let after = match section.value("after").map(|value| (value, value.get_ref().as_str())) {
        Some((value, Some(text))) => vec![Spanned::new(value.span(), text)],
        _ => values::strings(&mut section, "after", "[\"extract\"]").unwrap_or_default(),
    };
    let next = section.string("next", "extract");
    // So that the other mistakes of a stage without a name are found, too.
    let stage = read_values(&mut section, named.clone().or_else(|| Name::new("unnamed").ok())?, policies);
    section.finish();
    named?;
    Some(Draft { stage: stage?, name: name?, after, next })
}

fn read_values(section: &mut Section<'_>, name: Name, policies: &take::Policies<'_>) -> Option<StageConfig> {
    let base = StageConfig::new(name);
    let take = take::read(section, policies);
    let queue = section.string("queue", "adobe-autotag-queue");
    let dead = section.string("dead_letter_queue", "adobe-autotag-dlq");
    for name in [&queue, &dead].into_iter().flatten() {
        if let Err(why) = SqsUrl::check_queue(name.get_ref()) {
            section.report().problem_with(name, why, "");
        }
    }
    let handler = section.section("handler").and_then(handler::read);
    let visibility_timeout = section.span("visibility_timeout", "15m").unwrap_or(base.visibility_timeout);
    let timeout = section.span("timeout", "10m").unwrap_or(timeout_default(visibility_timeout));
    check_times(section, visibility_timeout, timeout);
    let backoff = section.span("backoff", "5s").unwrap_or(base.backoff);
    let whole = |section: &mut Section<'_>, key, max, usual: u32| {
        values::whole(section, key, 1..=max, &usual.to_string()).unwrap_or(usual)
    };
    Some(StageConfig {
        take: take?,
        queue: queue.map(|text| (*text.get_ref()).to_owned()),
        dead_letter_queue: dead.map(|text| (*text.get_ref()).to_owned()),
        handler,
        concurrency: whole(section, "concurrency", CONCURRENCY_MAX, base.concurrency),
        visibility_timeout,
        timeout,
        tries: whole(section, "tries", TRIES_MAX, base.tries),
        crashes: whole(section, "crashes", TRIES_MAX, base.crashes),
        retention: section.span("retention", "7d").unwrap_or(base.retention),
        backoff,
        backoff_max: section.span("backoff_max", "15m").unwrap_or(base.backoff_max).max(backoff),
        ..base
    })
}

/// A handler must end before its claim does, or another worker would get the job while the first one works on it.
fn check_times(section: &Section<'_>, visibility: Span, timeout: Span) {
    if visibility < Span::from_secs(1) {
        section.problem("visibility_timeout", "a claim must last at least 1s", "");
    } else if timeout >= visibility || timeout == Span::ZERO {
        let key = if section.has("timeout") { "timeout" } else { "visibility_timeout" };
        let message =
            format!("`timeout` ({timeout}) must be above 0 and below `visibility_timeout` ({visibility})");
        section.problem(key, message, "lower `timeout`, or raise `visibility_timeout`");
    }
}

/// Looks up the stages that stages name. None if a name is wrong.
pub(super) fn link(drafts: Vec<Draft<'_>>, section: &Section<'_>) -> Option<Vec<StageConfig>> {
    let report = section.report();
    let before = report.count();
    let names: Vec<&str> = drafts.iter().map(|draft| *draft.name.get_ref()).collect();
    let position = |name: &str| names.iter().position(|known| *known == name);
    let mut stages = Vec::with_capacity(drafts.len());
    for (index, draft) in drafts.iter().enumerate() {
        let mut stage = draft.stage.clone();
        if position(draft.name.get_ref()) != Some(index) {
            report.problem_with(&draft.name, format!("there are two stages {:?}", draft.name.get_ref()), "");
        }
        for earlier in &draft.after {
            match position(earlier.get_ref()) {
                Some(found) if found < index => stage.after.extend(Name::new(earlier.get_ref()).ok()),
                Some(_) => report.problem_with(earlier, "`after` names stages that come before this one", ""),
                None => unknown(section, earlier, &names),
            }
        }
        stage.next = drafts.get(index + 1).map(|next| next.stage.name.clone());
        if let Some(next) = &draft.next {
            match position(next.get_ref()) {
                Some(found) if found > index => stage.next = Name::new(next.get_ref()).ok(),
                Some(_) => report.problem_with(next, "`next` names a stage that comes after this one", ""),
                None => unknown(section, next, &names),
            }
        }
        stages.push(stage);
    }
    (report.count() == before).then_some(stages)
}

fn unknown(section: &Section<'_>, name: &Spanned<&str>, names: &[&str]) {
    let message = format!("there is no stage {:?}", name.get_ref());
    section.report().problem_with(name, message, did_you_mean(name.get_ref(), names));
}

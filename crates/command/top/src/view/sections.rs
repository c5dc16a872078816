//! What follows the limits: apis, stages of pipelines, and alarms that have not cleared.

use ratatui::style::Style;
use ratatui::text::Line;
use tollway_core::Span;
use tollway_core::humanize::count;
use tollway_dashboard::snapshot::{ApiRow, Snapshot, StageRow};

use super::Place;
use super::cells::{fit, rate, short, span, time_of_day};

/// The most lines of each section: the limits come first.
const APIS_MAX: usize = 3;
const STAGES_MAX: usize = 4;
const ALARMS_MAX: usize = 2;

/// The sections that have something to say.
pub(super) fn below(snapshot: &Snapshot, place: &Place<'_>) -> Vec<Line<'static>> {
    let plain = Style::new();
    let apis =
        snapshot.apis.iter().map(|api| (api_line(api, snapshot.at), api_style(api, snapshot.at, place)));
    let stages = snapshot.pipelines.iter().flat_map(|pipeline| {
        pipeline.stages.iter().map(move |stage| format!("{} {}", pipeline.name, stage_line(stage)))
    });
    let open = snapshot.alarms.iter().filter(|alarm| alarm.cleared.is_none());
    let alarms = open.map(|alarm| {
        (format!("since {} UTC: {}", time_of_day(alarm.since), alarm.text), place.palette.bad())
    });
    let mut lines = Vec::new();
    section(&mut lines, "APIS", apis.collect(), APIS_MAX, place);
    section(&mut lines, "PIPELINES", stages.map(|line| (line, plain)).collect(), STAGES_MAX, place);
    section(&mut lines, "ALARMS", alarms.collect(), ALARMS_MAX, place);
    lines
}

fn section(
    lines: &mut Vec<Line<'static>>,
    title: &'static str,
    all: Vec<(String, Style)>,
    most: usize,
    place: &Place<'_>,
) {
    if all.is_empty() {
        return;
    }
    let most = if place.height.is_some() { most } else { all.len() };
    let more = all.len().saturating_sub(most);
    lines.push(Line::default());
    let title = if more > 0 { format!("{title} (and {more} more)") } else { title.to_owned() };
    lines.push(Line::styled(fit(&title, place.width), place.palette.strong()));
    lines
        .extend(all.into_iter().take(most).map(|(text, style)| Line::styled(fit(&text, place.width), style)));
}

fn api_line(api: &ApiRow, at: u64) -> String {
    let mut parts = vec![api.api.clone()];
    if let Some(pace) = api.rate_per_second {
        let ceiling = api.ceiling_per_second.map(|ceiling| format!(" of {}/s", rate(ceiling)));
        parts.push(format!("{}/s{}", rate(pace), ceiling.unwrap_or_default()));
    }
    if let Some(until) = api.held_until.filter(|until| *until > at) {
        parts.push(format!("held {}", span(Span::from_millis(until - at))));
    }
    if api.refused_5m + api.denied_5m > 0 {
        parts.push(format!(
            "refused in 5 min: vendor {}, ours {}",
            count(api.refused_5m),
            count(api.denied_5m)
        ));
    }
    parts.join("  ")
}

fn api_style(api: &ApiRow, at: u64, place: &Place<'_>) -> Style {
    match api.held_until {
        Some(until) if until > at => place.palette.bad(),
        _ if api.refused_5m > 0 => place.palette.warn(),
        _ => Style::new(),
    }
}

fn stage_line(stage: &StageRow) -> String {
    let mut parts = vec![
        stage.name.clone(),
        format!("{} ready", short(stage.ready)),
        format!("{} running", short(stage.running)),
    ];
    let counted =
        [(stage.delayed, "delayed"), (stage.held, "held"), (stage.dead, "dead"), (stage.done, "done")];
    let some = counted.into_iter().filter(|(jobs, what)| *jobs > 0 || *what == "done");
    parts.extend(some.map(|(jobs, what)| format!("{} {what}", short(jobs))));
    parts.extend(stage.rate_per_minute.map(|pace| format!("{}/min", rate(pace))));
    parts.extend(stage.paused.as_ref().map(|why| format!("paused {why}")));
    parts.join("  ")
}

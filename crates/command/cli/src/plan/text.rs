//! The plan as text: scenarios side by side, then how much of each limit is used.

use std::ops::Range;

use tollway::core::Limit;
use tollway::{Span, Timestamp};
use tollway_forecast::plan::{Finish, Forecast, Load, Quantity, Workers};

use super::Column;
use crate::failure::Failure;
use crate::humanize;
use crate::layout::{COLUMNS, INDENT, column_groups};
use crate::output::{BAD, FAINT, GOOD, Output, STRONG, WARN};

/// The room that the figures of a limit take, with the mark of the bottleneck.
const FIGURES_WIDTH: usize = "    100%    100%  49 min 59 s   bottleneck".len();

/// A row of the table: its label, and a cell for each scenario.
type Row = (String, Vec<String>);

pub(super) fn write(columns: &[Column], load: &Load, output: &Output) -> Result<(), Failure> {
    output.line(title(load))?;
    output.line("")?;
    write_table(&rows(columns, load), output)?;
    for column in columns {
        if column.forecast.limits.len() > 1 {
            output.line("")?;
            write_limits(column, load, output)?;
        }
    }
    Ok(())
}

fn title(load: &Load) -> String {
    let each = humanize::counted(load.calls_per_item, "calls");
    match (load.items, load.calls().map(u64::try_from)) {
        (Some(items), Some(Ok(calls))) => {
            format!(
                "{}, {each} each: {}",
                humanize::counted(items, "items"),
                humanize::counted(calls, "calls")
            )
        }
        (Some(items), _) => format!("{}, {each} each", humanize::counted(items, "items")),
        (None, _) => format!("{each} for each item"),
    }
}

fn rows(columns: &[Column], load: &Load) -> Vec<Row> {
    let row = |label: &str, cell: &dyn Fn(&Forecast) -> String| {
        (label.to_owned(), columns.iter().map(|column| cell(&column.forecast)).collect::<Vec<_>>())
    };
    let items_in = |span| move |forecast: &Forecast| quantity(forecast.items_in_each(span, load));
    let mut rows = vec![
        (String::new(), columns.iter().map(|column| column.heading.clone()).collect()),
        row("items a minute", &items_in(Span::from_mins(1))),
        row("items an hour", &items_in(Span::from_hours(1))),
        row("items a day", &items_in(Span::from_days(1))),
        row("bottleneck", &|forecast| {
            forecast.bottleneck().map(|limit| limit.name().to_string()).unwrap_or_default()
        }),
    ];
    if load.items.is_some() {
        rows.push(row("time", &|forecast| {
            forecast.finish.map(|at| time(at, load.start)).unwrap_or_default()
        }));
        rows.push(row("finish", &|forecast| forecast.finish.map(moment).unwrap_or_default()));
    }
    if let Some(retention) = load.retention {
        let verdict = |forecast: &Forecast| match forecast.within_retention(load) {
            Some(true) => "long enough".to_owned(),
            Some(false) => "too short".to_owned(),
            None => String::new(),
        };
        rows.push(row(&format!("kept for {}", humanize::span(retention)), &verdict));
    }
    if let Some(latency) = load.latency {
        let label = format!("workers at {} a call", humanize::span(latency));
        rows.push(row(&label, &|forecast| forecast.workers.as_ref().map(workers).unwrap_or_default()));
    }
    rows
}

fn write_table(rows: &[Row], output: &Output) -> Result<(), Failure> {
    let label_width = rows.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0);
    let columns = rows.first().map_or(0, |(_, cells)| cells.len());
    let width = |column: usize| {
        rows.iter().filter_map(|(_, cells)| cells.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    for (index, group) in column_groups(label_width, &widths, INDENT.len()).into_iter().enumerate() {
        if index > 0 {
            output.line("")?;
        }
        write_group(rows, label_width, &widths, group, output)?;
    }
    Ok(())
}

/// The columns of a group beside the labels.
fn write_group(
    rows: &[Row],
    label_width: usize,
    widths: &[usize],
    group: Range<usize>,
    output: &Output,
) -> Result<(), Failure> {
    for (label, cells) in rows {
        let style = match label.as_str() {
            "" | "time" => STRONG,
            "bottleneck" => WARN,
            _ => anstyle::Style::new(),
        };
        let cells: String = cells
            .iter()
            .zip(widths)
            .skip(group.start)
            .take(group.len())
            .map(|(cell, width)| {
                let style = match cell.as_str() {
                    "too short" => BAD,
                    "long enough" => GOOD,
                    _ => style,
                };
                format!("  {style}{cell:>width$}{style:#}")
            })
            .collect();
        output.line(format_args!("{label:<label_width$}{cells}"))?;
    }
    Ok(())
}

/// Each limit of one scenario: how much of it is used at the rate of the bottleneck, and how long it alone takes.
fn write_limits(column: &Column, load: &Load, output: &Output) -> Result<(), Failure> {
    let Column { heading, what_if, forecast } = column;
    let limits = forecast.scenario.policy().limits();
    let texts: Vec<String> = limits.iter().map(Limit::to_string).collect();
    let heading = match what_if {
        Some(_) => format!("limits, if {heading}"),
        None => "limits".to_owned(),
    };
    // A limit that leaves no room for its figures gets a line of its own.
    let fits = |text: &&String| text.chars().count() + FIGURES_WIDTH <= COLUMNS;
    let beside = texts.iter().filter(fits).chain([&heading]);
    let width = beside.map(|text| text.chars().count()).max().unwrap_or(0);
    let alone = if load.items.is_some() { "alone" } else { "" };
    let head = format!("{heading:<width$}  {:>6}  {:>6}  {alone:>12}", "used", "slack");
    output.line(format_args!("{STRONG}{}{STRONG:#}", head.trim_end()))?;
    for (index, (limit, (text, own))) in limits.iter().zip(texts.iter().zip(&forecast.limits)).enumerate() {
        let own_line = !fits(&text);
        if own_line {
            output.line(text)?;
        }
        let text = if own_line { "" } else { text };
        let line = match own.share {
            Some(share) => {
                let time = own.last_grant.map(|at| time(at, load.start)).unwrap_or_default();
                let (used, slack) = (percent(share), percent(1.0 - share));
                format!("{text:<width$}  {used:>6}  {slack:>6}  {time:>12}")
            }
            None => format!("{text:<width$}  {FAINT}{}{FAINT:#}", why_not_counted(limit)),
        };
        let mark =
            if index == forecast.bottleneck { format!("  {WARN}bottleneck{WARN:#}") } else { String::new() };
        output.line(format_args!("{}{mark}", line.trim_end()))?;
    }
    Ok(())
}

fn why_not_counted(limit: &Limit) -> String {
    if limit.has_slots() {
        return "not included: needs --latency".to_owned();
    }
    format!("not included: needs --cost {}=N", limit.unit())
}

/// Rounded to a tenth.
fn percent(share: f64) -> String {
    let text = format!("{:.1}", share * 100.0);
    format!("{}%", text.strip_suffix(".0").unwrap_or(&text))
}

/// How long it takes: `at once`, `6 d 23 h`, `27.4 years`, `more than 228 years`.
pub(super) fn time(finish: Finish, start: Timestamp) -> String {
    const YEAR: u64 = Span::from_hours(8_766).as_micros();
    match finish.since(start) {
        Some(Span::ZERO) => "at once".to_owned(),
        Some(took) if took.as_micros() >= 2 * YEAR => {
            let tenths = took.as_micros().div_ceil(YEAR / 10);
            format!("{}.{} years", tenths / 10, tenths % 10)
        }
        Some(took) => humanize::span(took),
        None => format!("more than {} years", Timestamp::MAX.since(start).as_micros() / YEAR),
    }
}

/// In whole seconds, rounded up.
fn moment(finish: Finish) -> String {
    match finish {
        Finish::At(at) => humanize::moment_in_full(Timestamp::from_secs(at.as_micros().div_ceil(1_000_000))),
        Finish::Beyond => "after 2255".to_owned(),
    }
}

/// How many workers are enough, and the most that are useful.
fn workers(workers: &Workers) -> String {
    match (workers.enough, workers.most_useful) {
        (enough, most) if enough == most => wide(enough),
        (enough, most) => format!("{}, at most {}", wide(enough), wide(most)),
    }
}

/// A number that may be larger than a `u64`.
fn wide(number: u128) -> String {
    u64::try_from(number).map_or_else(|_| number.to_string(), humanize::count)
}

/// Two decimals, none from a hundred on: `7,500`, `66.66`, `12.5`.
pub(crate) fn quantity(quantity: Quantity) -> String {
    let millionths = quantity.millionths();
    let (whole, hundredths) = (millionths / Quantity::ONE, millionths % Quantity::ONE / 10_000);
    let Ok(count) = u64::try_from(whole) else { return format!("over {}", humanize::count(u64::MAX)) };
    match (count, hundredths) {
        (0, 0) if millionths > 0 => "less than 0.01".to_owned(),
        (100.., _) | (_, 0) => humanize::count(count),
        (_, tenths) if tenths.is_multiple_of(10) => format!("{count}.{}", tenths / 10),
        _ => format!("{count}.{hundredths:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_rounded_down_but_not_to_zero() {
        let shown = [0, 8_680, 520_833, 12_500_000, 66_666_666, 333_333_333, 7_500_000_000]
            .map(|millionths| quantity(Quantity::from_millionths(millionths)));
        assert_eq!(shown, ["0", "less than 0.01", "0.52", "12.5", "66.66", "333", "7,500"]);
        let largest = quantity(Quantity::from_millionths(u128::MAX));
        assert_eq!(largest, "over 18,446,744,073,709,551,615");
    }
}

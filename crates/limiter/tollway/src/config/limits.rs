//! `limits = [...]`: each a text or a table.

use std::ops::Range;

use tollway_config::{DeInteger, DeValue, Section, Spanned, type_words};
use tollway_core::bounds::LIMITS_PER_POLICY_MAX;
use tollway_core::{AmountText, Limit, LimitTable};

const EXAMPLE: &str = "[\"200 requests / minute\"]";

/// The limits of a policy, if each of them is one.
pub(super) fn read(section: &mut Section<'_>) -> Option<Vec<Limit>> {
    section.required("limits", EXAMPLE)?;
    let items = section.list("limits", EXAMPLE)?;
    if items.is_empty() {
        let advice = format!("write one like `limits = {EXAMPLE}`");
        section.problem("limits", format!("[{}] has no limits", section.path()), &advice);
        return None;
    }
    if let Some(over) = items.get(LIMITS_PER_POLICY_MAX) {
        let message = format!(
            "[{}] has {} limits, more than the {LIMITS_PER_POLICY_MAX} allowed",
            section.path(),
            items.len()
        );
        section.report().problem(over.span(), message, "share them out over several policies");
        return None;
    }
    // All are read before one that is wrong ends it, so that each of them is reported.
    let read: Vec<Option<(Range<usize>, Limit)>> =
        items.iter().map(|item| Some((item.span(), read_one(section, item)?))).collect();
    let placed: Vec<(Range<usize>, Limit)> = read.into_iter().collect::<Option<_>>()?;
    report_same_names(section, &placed)?;
    Some(placed.into_iter().map(|(_, limit)| limit).collect())
}

fn read_one(section: &Section<'_>, item: &Spanned<DeValue<'_>>) -> Option<Limit> {
    let report = section.report();
    match item.get_ref() {
        DeValue::String(text) => {
            let wrong = |error: tollway_core::LimitTextError| {
                report.problem_in(&Spanned::new(item.span(), text), error.range(), error.message(), "");
            };
            text.parse().map_err(wrong).ok()
        }
        DeValue::Table(table) => {
            let path = format!("{}.limits", section.path());
            read_table(Section::new(report, path, item.span(), table))
        }
        other => {
            let message = format!("a limit is a string or a table, not {}", type_words(other));
            report.problem(item.span(), message, "write it like \"200 requests / minute\"");
            None
        }
    }
}

fn read_table(mut table: Section<'_>) -> Option<Limit> {
    let wrong_before = table.report().count();
    table.required("amount", "200");
    let amount = read_amount(&mut table, "amount");
    let burst = read_amount(&mut table, "burst");
    let mut string = |key, example| table.string(key, example).map(|text| (*text.get_ref()).to_owned());
    let limit = LimitTable {
        unit: string("unit", "requests"),
        per: string("per", "minute"),
        algorithm: string("algorithm", "bucket"),
        zone: string("zone", "America/Los_Angeles"),
        expires: string("expires", "60s"),
        name: string("name", "rpd"),
        amount: amount.clone().unwrap_or_default(),
        burst,
    };
    // While a key is missing, misspelt or of a wrong type, what else may be wrong is a guess.
    let made = if table.has_unknown() || amount.is_none() || table.report().count() > wrong_before {
        None
    } else {
        Limit::try_from(limit).map_err(|error| table.problem(error.key, error.message, "")).ok()
    };
    table.finish();
    made
}

/// A whole number, or a text such as `250k`.
fn read_amount(table: &mut Section<'_>, key: &'static str) -> Option<AmountText> {
    let value = table.value(key)?;
    match value.get_ref() {
        DeValue::String(text) => return Some(AmountText::Text(text.to_string())),
        DeValue::Integer(number) => {
            if let Some(number) = whole(number) {
                return Some(AmountText::Number(number));
            }
            let message = format!("{number} is not an amount");
            table.report().problem(value.span(), message, "write a whole number from 1 on");
        }
        other => {
            let message = format!("`{key}` must be a whole number or a string, not {}", type_words(other));
            table.report().problem(value.span(), message, format!("write it like `{key} = 200`"));
        }
    }
    None
}

fn whole(number: &DeInteger<'_>) -> Option<u64> {
    u64::from_str_radix(number.as_str(), number.radix()).ok()
}

/// A policy would refuse them too, but could not say which of its limits to rename.
fn report_same_names(section: &Section<'_>, limits: &[(Range<usize>, Limit)]) -> Option<()> {
    let mut unique = Some(());
    for (index, (at, limit)) in limits.iter().enumerate() {
        if limits.iter().take(index).any(|(_, earlier): &(_, Limit)| earlier.name() == limit.name()) {
            let message = format!("[{}] has two limits named {}", section.path(), limit.name());
            let advice = "give one another name, as in \"other: 200 requests / minute\"";
            section.report().problem(at.clone(), message, advice);
            unique = None;
        }
    }
    unique
}

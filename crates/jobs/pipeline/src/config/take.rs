//! What a stage takes for each job: amounts per policy and unit.

use tollway::Config;
use tollway_config::{DeValue, Section, type_words};
use tollway_core::Subject;
use tollway_core::bounds::AMOUNT_MAX;

use super::did_you_mean;
use crate::JobCost;

const EXAMPLE: &str = "write it like `take = { adobe = { requests = 1 } }`";

/// The policies of the file.
pub(super) struct Policies<'a> {
    /// Every name, also of a policy with mistakes in it.
    pub(super) names: &'a [&'a str],
    pub(super) limits: &'a Config,
    /// Whom the takes of the pipeline count for.
    pub(super) subject: &'a Subject,
}

/// Reads `take`; without the key, a job takes nothing.
pub(super) fn read(section: &mut Section<'_>, policies: &Policies<'_>) -> Option<JobCost> {
    let Some(value) = section.value("take") else { return Some(JobCost::OF_STAGE) };
    let Some(table) = value.get_ref().as_table() else {
        let message = format!("`take` must be a table of policies, not {}", type_words(value.get_ref()));
        section.problem("take", message, EXAMPLE);
        return None;
    };
    let report = section.report();
    let mut amounts: Vec<(&str, &str, u64)> = Vec::new();
    for (policy, units) in table {
        let name: &str = policy.get_ref();
        if !policies.names.contains(&name) {
            let message = format!("there is no policy {name:?}");
            report.problem(policy.span(), message, did_you_mean(name, policies.names));
        }
        let Some(units) = units.get_ref().as_table() else {
            let message = format!("policy {name:?} needs its units, not {}", type_words(units.get_ref()));
            report.problem(policy.span(), message, EXAMPLE);
            continue;
        };
        for (unit, amount) in units {
            check_unit(section, policies, name, unit);
            let read = match amount.get_ref() {
                DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
                _ => None,
            };
            match read.filter(|amount| (1..=AMOUNT_MAX).contains(amount)) {
                Some(amount) => amounts.push((name, unit.get_ref(), amount)),
                None => {
                    let message = format!("an amount is a whole number from 1 to {AMOUNT_MAX}");
                    report.problem(amount.span(), message, EXAMPLE);
                }
            }
        }
    }
    let names = table.keys().map(|policy| &**policy.get_ref());
    if let Some(conflict) = policies.limits.slot_conflict(names, policies.subject) {
        section.problem("take", conflict.to_string(), &conflict.advice());
    }
    JobCost::new(amounts).map_err(|error| section.problem("take", error.to_string(), "")).ok()
}

fn check_unit(
    section: &Section<'_>,
    policies: &Policies<'_>,
    name: &str,
    unit: &toml::Spanned<toml::de::DeString<'_>>,
) {
    let Some(policy) = policies.limits.policy(name) else { return };
    let known: Vec<&str> = policy.units().iter().map(|unit| unit.as_str()).collect();
    let asked: &str = unit.get_ref();
    if !known.contains(&asked) {
        let message = format!("policy {name:?} has no limit for the unit {asked:?}");
        section.report().problem(unit.span(), message, did_you_mean(asked, &known));
    }
}

//! Finds the time, subject and cost fields of a log, named by the caller or by well-known names.

use std::str::FromStr;

use tollway_core::Subject;
use tollway_core::bounds::AMOUNT_MAX;

use super::format::Format;
use super::{LoggedCall, Reason, Value, time};
use crate::simulate::error::SimulateError;

/// Field names recognised as a time, the likeliest first.
pub const TIME_NAMES: [&str; 6] = ["time", "timestamp", "ts", "@timestamp", "at", "datetime"];

/// Field names recognised as a subject, the likeliest first.
const SUBJECT_NAMES: [&str; 9] =
    ["subject", "consumer", "key", "user", "client", "ip", "remote_addr", "client_ip", "api_key"];

/// Stands for no field: all calls share one subject.
const SHARED: &str = "-";

/// What calls take of one unit, written `tokens=FIELD` or `tokens=500`.
#[derive(Clone, Debug, PartialEq)]
pub struct CostSource {
    /// The unit.
    pub unit: String,
    /// Where the amount comes from.
    pub from: Source,
}

/// Where an amount comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// The field of this name.
    Field(String),
    /// The same for every call.
    Number(u64),
}

impl FromStr for CostSource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (unit, from) = match text.split_once('=') {
            Some((unit, from)) if !unit.trim().is_empty() && !from.trim().is_empty() => {
                (unit.trim(), from.trim())
            }
            _ => return Err("write it as tokens=FIELD or tokens=500".to_owned()),
        };
        let from = if from.bytes().all(|byte| byte.is_ascii_digit()) {
            let amount = from.parse().ok().filter(|amount| *amount <= AMOUNT_MAX);
            Source::Number(
                amount.ok_or_else(|| format!("{from} is more than the largest amount, {AMOUNT_MAX}"))?,
            )
        } else {
            Source::Field(from.to_owned())
        };
        Ok(Self { unit: unit.to_owned(), from })
    }
}

/// The fields that the caller names, and the units of the policies. Other fields are found by name.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    /// The field of the time.
    pub time: Option<String>,
    /// The field of the subject; `-` if all calls share one.
    pub subject: Option<String>,
    /// At most one for each unit.
    pub costs: Vec<CostSource>,
    /// All units that are counted.
    pub units: Vec<String>,
}

/// The meaning of the fields of a line.
#[derive(Clone, Debug)]
pub(super) struct Found {
    format: Format,
    /// The time's, the subject's if it has one, and those of costs.
    names: Vec<String>,
    places: Vec<usize>,
    has_subject: bool,
    costs: Vec<CostSource>,
}

impl Fields {
    /// Finds the fields in a log of this format that begins with these lines.
    pub(super) fn find(self, format: Format, sample: &[&str]) -> Result<Found, SimulateError> {
        let known = format.fields(sample);
        let among = |names: &[&str]| {
            let same = |name: &&str| known.iter().find(|field| field.eq_ignore_ascii_case(name)).cloned();
            names.iter().find_map(same)
        };
        // In access logs the user is mostly missing, but the address is not.
        let subject_names = if format == Format::Clf { &["ip"] } else { SUBJECT_NAMES.as_slice() };
        let time = self
            .time
            .or_else(|| among(&TIME_NAMES))
            .ok_or_else(|| SimulateError::NoTime { known: known.clone() })?;
        let mut names = vec![time];
        let has_subject = self.subject.as_deref() != Some(SHARED);
        let subject = if has_subject { self.subject.or_else(|| among(subject_names)) } else { None };
        let has_subject = subject.is_some();
        names.extend(subject);
        let mut costs = self.costs;
        for unit in self.units {
            if !costs.iter().any(|cost| cost.unit == unit)
                && let Some(field) = among(&[unit.as_str()])
            {
                costs.push(CostSource { unit, from: Source::Field(field) });
            }
        }
        names.extend(costs.iter().filter_map(|cost| match &cost.from {
            Source::Field(field) => Some(field.clone()),
            Source::Number(_) => None,
        }));
        let places = names.iter().map(|name| format.place(name)).collect::<Result<_, _>>()?;
        Ok(Found { format, names, places, has_subject, costs })
    }
}

impl Found {
    pub(super) fn format(&self) -> &Format {
        &self.format
    }

    /// The field of the subject; without one, all calls share one.
    pub(super) fn subject(&self) -> Option<&str> {
        if self.has_subject { self.names.get(1).map(String::as_str) } else { None }
    }

    /// The units whose amounts calls carry, in their order.
    pub(super) fn units(&self) -> Vec<String> {
        self.costs.iter().map(|cost| cost.unit.clone()).collect()
    }

    /// Reads a line.
    pub(super) fn read(&self, line: &str) -> Result<LoggedCall, Reason> {
        let mut values = vec![Value::Missing; self.names.len()];
        self.format.read(line, &self.names, &self.places, &mut values)?;
        if let Some(missing) = values.iter().position(|value| *value == Value::Missing) {
            return Err(format!("no field {:?}", self.names[missing]).into());
        }
        let mut values = values.iter();
        let time = time::read(values.next().unwrap_or(&Value::Missing))?;
        let subject = if self.has_subject { values.next() } else { None };
        let subject = subject.map_or(Ok(Subject::SHARED), read_subject)?;
        let amounts: Result<_, Reason> =
            self.costs.iter().map(|cost| read_amount(cost, &mut values)).collect();
        Ok(LoggedCall { time, subject, amounts: amounts? })
    }
}

fn read_subject(value: &Value<'_>) -> Result<Subject, Reason> {
    let text = value.text().ok_or("the subject is neither text nor a number")?;
    Subject::new(&text).map_err(|error| error.to_string().into())
}

/// A fraction of a unit counts as a whole one.
fn read_amount<'v, 'l: 'v>(
    cost: &CostSource,
    values: &mut impl Iterator<Item = &'v Value<'l>>,
) -> Result<u64, Reason> {
    let Source::Number(amount) = cost.from else {
        let value = values.next().unwrap_or(&Value::Missing);
        let amount = match value {
            Value::Whole(amount) => Some(*amount),
            Value::Fraction(number) => rounded_up(*number),
            Value::Text(text) => text.parse().ok().or_else(|| rounded_up(text.parse().ok()?)),
            Value::Missing | Value::Other => None,
        };
        let wrong =
            || format!("{:?} is not an amount of {}", value.text().unwrap_or_default(), cost.unit).into();
        return amount.filter(|amount| *amount <= AMOUNT_MAX).ok_or_else(wrong);
    };
    Ok(amount)
}

fn rounded_up(number: f64) -> Option<u64> {
    (number.is_finite() && number >= 0.0).then_some(number.ceil() as u64)
}

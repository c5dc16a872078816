//! `cost`: what a call costs in units other than calls, estimated before it is sent.

use std::fmt;

use tollway_config::{DeValue, Section, Spanned, type_words};
use tollway_core::bounds::{AMOUNT_MAX, LIMITS_PER_POLICY_MAX};
use tollway_core::{Limit, Name, NameError};

const ADVICE: &str = "write a whole number, \"bytes / 4\" or \"bytes / 4 + 500\"";

/// The cost of a call in one unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitCost {
    unit: Name,
    estimate: CostEstimate,
}

/// How a cost is estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostEstimate {
    /// Every call costs this much.
    Fixed(u64),
    /// Part of the length of the request's body, and a constant.
    Bytes {
        /// How many bytes are one unit.
        per_unit: u64,
        /// What is added.
        plus: u64,
    },
}

impl UnitCost {
    /// The unit, as limits name it: `tokens`.
    pub fn unit(&self) -> &Name {
        &self.unit
    }

    /// How the cost is estimated.
    pub fn estimate(&self) -> CostEstimate {
        self.estimate
    }
}

impl CostEstimate {
    /// The cost of a call with a body of this many bytes, at least 1.
    ///
    /// ```
    /// # use tollway::config::CostEstimate;
    /// assert_eq!("bytes / 4 + 500".parse::<CostEstimate>()?.of(1_001), 751);
    /// # Ok::<(), String>(())
    /// ```
    pub fn of(self, body_bytes: u64) -> u64 {
        let cost = match self {
            Self::Fixed(cost) => cost,
            Self::Bytes { per_unit, plus } => body_bytes.div_ceil(per_unit.max(1)).saturating_add(plus),
        };
        cost.clamp(1, AMOUNT_MAX)
    }
}

impl fmt::Display for CostEstimate {
    /// As it is written in a config.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(cost) => write!(f, "{cost}"),
            Self::Bytes { per_unit, plus } => {
                f.write_str("bytes")?;
                if *per_unit != 1 {
                    write!(f, " / {per_unit}")?;
                }
                if *plus != 0 {
                    write!(f, " + {plus}")?;
                }
                Ok(())
            }
        }
    }
}

impl std::str::FromStr for CostEstimate {
    type Err = String;

    /// `bytes`, `bytes / 4`, `bytes + 500`, `bytes / 4 + 500`, or an amount such as `10k`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a cost");
        let Some(rest) = text.trim().strip_prefix("bytes") else {
            return Limit::read_amount(text.trim()).and_then(fixed).map_err(|_| wrong());
        };
        let (division, plus) = rest.split_once('+').unwrap_or((rest, ""));
        let plus = if rest.contains('+') { amount(plus).ok_or_else(wrong)? } else { 0 };
        let per_unit = match division.trim() {
            "" => 1,
            division => division.strip_prefix('/').and_then(amount).ok_or_else(wrong)?,
        };
        Ok(Self::Bytes { per_unit, plus })
    }
}

fn amount(text: &str) -> Option<u64> {
    Limit::read_amount(text.trim()).ok().filter(|amount| (1..=AMOUNT_MAX).contains(amount))
}

fn fixed(cost: u64) -> Result<CostEstimate, String> {
    match cost {
        1..=AMOUNT_MAX => Ok(CostEstimate::Fixed(cost)),
        _ => Err(format!("{cost} is not from 1 to {AMOUNT_MAX}")),
    }
}

/// `cost` of an api or an endpoint, sorted by unit; what is wrong with it is in the report.
pub(super) fn read(section: &mut Section<'_>) -> Option<Vec<UnitCost>> {
    let value = section.value("cost")?;
    let Some(table) = value.get_ref().as_table() else {
        let message = format!("`cost` must be a table, not {}", type_words(value.get_ref()));
        section.report().problem(value.span(), message, "write it like { tokens = \"bytes / 4\" }");
        return None;
    };
    if table.len() > LIMITS_PER_POLICY_MAX {
        let message = format!("`cost` has more than {LIMITS_PER_POLICY_MAX} units");
        section.report().problem(value.span(), message, "leave out those that no limit counts");
        return None;
    }
    let read: Vec<_> = table
        .iter()
        .map(|(name, cost)| {
            let name = Spanned::new(name.span(), AsRef::<str>::as_ref(name.get_ref()));
            read_one(section, &name, cost)
        })
        .collect();
    let mut costs: Vec<UnitCost> = read.into_iter().collect::<Option<_>>()?;
    costs.sort_by(|one, other| one.unit.cmp(&other.unit));
    Some(costs)
}

fn read_one(section: &Section<'_>, name: &Spanned<&str>, cost: &Spanned<DeValue<'_>>) -> Option<UnitCost> {
    let report = section.report();
    let wrong = |error: NameError| {
        report.problem(name.span(), error.to_string(), "a unit is named as in limits: `tokens`");
    };
    let unit = Name::new(name.get_ref()).map_err(wrong).ok();
    let estimate = match cost.get_ref() {
        DeValue::String(text) => text
            .parse()
            .map_err(|message: String| report.problem_with(&Spanned::new(cost.span(), text), message, ADVICE))
            .ok(),
        DeValue::Integer(number) => {
            let number = u64::from_str_radix(number.as_str(), number.radix()).unwrap_or(0);
            fixed(number).map_err(|message| report.problem(cost.span(), message, ADVICE)).ok()
        }
        other => {
            let message = format!("a cost is a whole number or a string, not {}", type_words(other));
            report.problem(cost.span(), message, ADVICE);
            None
        }
    };
    Some(UnitCost { unit: unit?, estimate: estimate? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_read_and_written_alike() {
        for text in ["bytes", "bytes / 4", "bytes + 500", "bytes / 4 + 500", "12"] {
            assert_eq!(text.parse::<CostEstimate>().unwrap().to_string(), text);
        }
        assert_eq!("bytes/3+1k".parse(), Ok(CostEstimate::Bytes { per_unit: 3, plus: 1_000 }));
        for wrong in ["", "byte / 4", "bytes / 0", "bytes /", "bytes +", "bytes * 2", "bytes / -1", "0", "-3"]
        {
            assert!(wrong.parse::<CostEstimate>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn estimates_round_up_and_are_at_least_one() {
        let of = |text: &str, bytes| text.parse::<CostEstimate>().unwrap().of(bytes);
        assert_eq!([of("bytes / 4", 0), of("bytes / 4", 9), of("bytes", 7), of("5", 1_000)], [1, 3, 7, 5]);
        assert_eq!(of("bytes + 1", u64::MAX), AMOUNT_MAX);
    }
}

//! A limit as a table: `{ amount = 25, per = "day", zone = "America/Los_Angeles", name = "rpd" }`.

use serde::Deserialize;

use super::draft::{Draft, DraftError, Kind, Part, PeriodWord, error, read_amount, read_span};
use super::{Limit, Zone};
use crate::{Name, nearest};

/// The keys of the table form, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitTable {
    /// How much: a number, or a text such as `250k`.
    pub amount: AmountText,
    /// What is counted; `requests` if left out.
    pub unit: Option<String>,
    /// The period: `minute`, `5 minutes`, `day`; left out for `concurrent`.
    pub per: Option<String>,
    /// `window` (default), `from first call`, `sliding`, `bucket`, `paced`, `adaptive` or `concurrent`.
    pub algorithm: Option<String>,
    /// The burst of a bucket.
    pub burst: Option<AmountText>,
    /// The IANA zone of a day, week or month.
    pub zone: Option<String>,
    /// How long a slot lives without renewal.
    pub expires: Option<String>,
    /// Its name, if not the default one.
    pub name: Option<String>,
}

impl LimitTable {
    /// The keys a table may have.
    pub const KEYS: [&'static str; 8] =
        ["amount", "unit", "per", "algorithm", "burst", "zone", "expires", "name"];
}

/// An amount as a number or as text.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum AmountText {
    /// A whole number.
    Number(u64),
    /// Like `250k`.
    Text(String),
}

impl Default for AmountText {
    fn default() -> Self {
        Self::Number(0)
    }
}

/// A table that is not a limit, and the key that is wrong.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {message}")]
pub struct LimitTableError {
    /// The wrong key.
    pub key: &'static str,
    /// What is wrong with it.
    pub message: String,
}

crate::debug_as_display!(LimitTableError);

impl TryFrom<LimitTable> for Limit {
    type Error = LimitTableError;

    fn try_from(table: LimitTable) -> Result<Self, LimitTableError> {
        let name = table.name.as_deref().map(Name::new).transpose();
        let name = name.map_err(|cause| LimitTableError { key: "name", message: cause.to_string() })?;
        let draft = draft_of(&table).map(|draft| Draft { name, ..draft });
        draft
            .and_then(Draft::build)
            .map_err(|error| LimitTableError { key: key_of(error.part), message: error.message })
    }
}

fn draft_of(table: &LimitTable) -> Result<Draft, DraftError> {
    let amount = |text: &AmountText, part| match text {
        AmountText::Number(number) => Ok(*number),
        AmountText::Text(text) => read_amount(text).map_err(|message| error(part, message)),
    };
    let unit = table.unit.as_deref().map(Name::new).transpose().map_err(|cause| error(Part::Unit, cause))?;
    let zone =
        table.zone.as_deref().map(Zone::named).transpose().map_err(|cause| error(Part::Zone, cause))?;
    let expires = table.expires.as_deref().map(read_span).transpose();
    let (count, period) = match &table.per {
        Some(text) => read_period(text)?,
        None => (None, None),
    };
    Ok(Draft {
        name: None,
        amount: amount(&table.amount, Part::Amount)?,
        unit,
        count,
        period,
        kind: read_kind(table.algorithm.as_deref().unwrap_or("window"))?,
        burst: table.burst.as_ref().map(|text| amount(text, Part::Burst)).transpose()?,
        zone,
        expires: expires.map_err(|message| error(Part::Expires, message))?,
    })
}

fn read_period(text: &str) -> Result<(Option<u64>, Option<PeriodWord>), DraftError> {
    let (count, word) = match text.trim().split_once(' ') {
        Some((count, word)) => {
            (Some(read_amount(count).map_err(|message| error(Part::Period, message))?), word.trim())
        }
        None => (None, text.trim()),
    };
    match PeriodWord::read(word) {
        Some(period) => Ok((count, Some(period))),
        None => {
            let hint = nearest(word, PeriodWord::KNOWN.iter().map(|(known, _)| *known));
            let hint = hint.map(|known| format!("; did you mean {known:?}?")).unwrap_or_default();
            Err(error(Part::Period, format!("{word:?} is not a period{hint}")))
        }
    }
}

fn read_kind(text: &str) -> Result<Kind, DraftError> {
    let known = Kind::KNOWN.iter().find(|(word, _)| *word == text).map(|(_, kind)| *kind);
    known.ok_or_else(|| {
        let hint = nearest(text, Kind::KNOWN.iter().map(|(word, _)| *word)).unwrap_or("window");
        error(Part::Algorithm, format!("{text:?} is not an algorithm; did you mean {hint:?}?"))
    })
}

fn key_of(part: Part) -> &'static str {
    match part {
        Part::Amount => "amount",
        Part::Unit => "unit",
        Part::Period => "per",
        Part::Algorithm => "algorithm",
        Part::Burst => "burst",
        Part::Zone => "zone",
        Part::Expires => "expires",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(json: &str) -> Result<Limit, LimitTableError> {
        Limit::try_from(serde_json::from_str::<LimitTable>(json).unwrap())
    }

    #[test]
    fn table_and_text_build_the_same_limit() {
        for (json, text) in [
            (
                r#"{"amount":25,"per":"day","zone":"America/Los_Angeles","name":"rpd"}"#,
                "rpd: 25 / day in America/Los_Angeles",
            ),
            (
                r#"{"amount":"250k","unit":"tokens","per":"minute","algorithm":"bucket","burst":"500k"}"#,
                "250k tokens / minute bucket burst 500k",
            ),
            (r#"{"amount":50,"algorithm":"concurrent","expires":"90s"}"#, "50 concurrent expires 90s"),
            (
                r#"{"amount":5,"per":"10 seconds","algorithm":"from first call"}"#,
                "5 / 10 seconds from first call",
            ),
        ] {
            assert_eq!(table(json).unwrap(), text.parse::<Limit>().unwrap());
        }
    }

    #[test]
    fn errors_name_the_key() {
        for (json, key) in [
            (r#"{"amount":0,"per":"day"}"#, "amount"),
            (r#"{"amount":1,"per":"dya"}"#, "per"),
            (r#"{"amount":1,"per":"day","zone":"Mars"}"#, "zone"),
            (r#"{"amount":1,"per":"day","algorithm":"buckett"}"#, "algorithm"),
            (r#"{"amount":1,"per":"day","burst":2}"#, "burst"),
            (r#"{"amount":1}"#, "per"),
            (r#"{"amount":1,"per":"day","name":"a b"}"#, "name"),
        ] {
            assert_eq!(table(json).unwrap_err().key, key, "{json}");
        }
    }
}

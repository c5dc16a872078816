//! One reading of a source: the amounts it gives, and its problems.

use tollway_core::{Limit, Name};

use super::SourceError;

/// What a reading gives.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SourceReading {
    /// The amounts that can be in force.
    pub(super) amounts: Vec<(Name, u64)>,
    /// The problems with the other limits, in one sentence.
    pub(super) problem: Option<String>,
}

impl SourceReading {
    /// Checks what was read for these limits.
    pub(super) fn of(limits: &[Limit], read: Result<Vec<Option<String>>, SourceError>) -> Self {
        let texts = match read {
            Ok(texts) => texts,
            Err(error) => return Self { problem: Some(error.to_string()), ..Self::default() },
        };
        let mut reading = Self::default();
        let mut problems = Vec::new();
        for (index, limit) in limits.iter().enumerate() {
            match amount(limit, texts.get(index).and_then(Option::as_deref)) {
                Ok(amount) => reading.amounts.push((limit.name().clone(), amount)),
                Err(problem) => problems.push(format!("{}: {problem}", limit.name())),
            }
        }
        reading.problem = (!problems.is_empty()).then(|| problems.join("; "));
        reading
    }
}

/// How much of a text that is no amount is shown.
const SHOWN_MAX: usize = 40;

fn amount(limit: &Limit, text: Option<&str>) -> Result<u64, String> {
    let Some(text) = text.map(str::trim) else { return Err("its parameter is missing".to_owned()) };
    let shown: String = text.chars().take(SHOWN_MAX).collect();
    let amount =
        read_integer(text).ok_or_else(|| format!("{shown:?} is not a number; write one like 200"))?;
    // 0 stops the policy.
    if amount == 0 {
        return Ok(0);
    }
    limit.with_amount(amount).map_err(|error| format!("{shown:?} cannot be its amount: {error}"))?;
    Ok(amount)
}

/// Reads an integer as Python's `int()` does, so that a Python task with the same parameter has the same limit: a sign and
/// underscores between digits are allowed, `250k` is not.
fn read_integer(text: &str) -> Option<u64> {
    let digits = text.strip_prefix('+').unwrap_or(text);
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits.split('_').all(is_number) {
        return None;
    }
    digits.replace('_', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(texts: &[Option<&str>]) -> SourceReading {
        let limits: Vec<Limit> =
            ["5 / minute", "9 tokens / day"].map(|text| text.parse::<Limit>().unwrap()).into();
        SourceReading::of(&limits, Ok(texts.iter().map(|text| text.map(str::to_owned)).collect()))
    }

    fn amounts(reading: &SourceReading) -> Vec<u64> {
        reading.amounts.iter().map(|(_, amount)| *amount).collect()
    }

    #[test]
    fn each_limit_has_its_amount() {
        let reading = read(&[Some(" 250\n"), Some("1000")]);
        assert_eq!((amounts(&reading), &reading.problem), (vec![250, 1000], &None));
    }

    #[test]
    fn an_amount_is_an_integer_as_python_reads_it() {
        for (text, amount) in [("+10", 10), ("1_000", 1_000), ("\t007 \n", 7)] {
            assert_eq!(amounts(&read(&[Some(text), Some("7")])), [amount, 7], "{text:?}");
        }
        for text in ["250k", "5M", "_1", "1_", "1__0", "++1", "+ 1", "0x10", "1e3", "1 000"] {
            assert_eq!(amounts(&read(&[Some(text), Some("7")])), [7], "{text:?}");
        }
    }

    /// A3: what is no number leaves the others in force, and says what is wrong.
    #[test]
    fn one_invalid_amount_is_reported_and_the_others_apply() {
        for (text, problem) in [
            (Some("many"), "requests_per_minute: \"many\" is not a number; write one like 200"),
            (Some(""), "requests_per_minute: \"\" is not a number; write one like 200"),
            (Some("-5"), "requests_per_minute: \"-5\" is not a number; write one like 200"),
            (Some("2.5"), "requests_per_minute: \"2.5\" is not a number; write one like 200"),
            (None, "requests_per_minute: its parameter is missing"),
        ] {
            let reading = read(&[text, Some("7")]);
            assert_eq!((amounts(&reading), reading.problem.as_deref()), (vec![7], Some(problem)));
        }
        assert_eq!(amounts(&read(&[Some("0"), Some("7")])), [0, 7]);
    }

    #[test]
    fn a_short_answer_gives_no_amount() {
        assert_eq!(amounts(&read(&[])), Vec::<u64>::new());
        assert!(read(&[Some("1")]).problem.is_some());
    }
}

//! Parses arguments of `tollway vendor`.

use tollway::Span;
use tollway::core::read_span;

/// The longest latency: more is a hanging vendor.
const LATENCY_MAX: Span = Span::from_mins(10);

/// A limit that changes: `10m: 4 / second bucket`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// After the start.
    pub(super) after: Span,
    pub(super) limit: String,
}

/// A share in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PerThousand(pub(super) u64);

impl PerThousand {
    pub(super) fn of(self, number: u64) -> u64 {
        u64::try_from(u128::from(number) * u128::from(self.0) / 1_000).unwrap_or(u64::MAX)
    }
}

pub(super) fn span(text: &str) -> Result<Span, String> {
    read_span(text)
}

pub(super) fn change(text: &str) -> Result<Change, String> {
    let (after, limit) = text
        .split_once(':')
        .ok_or_else(|| "write a time and a limit, like \"10m: 4 / second bucket\"".to_owned())?;
    Ok(Change { after: read_span(after)?, limit: limit.trim().to_owned() })
}

/// `150ms..350ms`, or one time for all calls.
pub(super) fn latency(text: &str) -> Result<(Span, Span), String> {
    let (low, high) = text.split_once("..").unwrap_or((text, text));
    match (read_span(low)?, read_span(high)?) {
        (low, high) if low > high => {
            Err(format!("{low} is longer than {high}: write the shorter time first"))
        }
        (_, high) if high > LATENCY_MAX => Err(format!("at most {LATENCY_MAX}")),
        latency => Ok(latency),
    }
}

/// `20%`, `0.5%`.
pub(super) fn share(text: &str) -> Result<PerThousand, String> {
    let wrong = || format!("{text:?} is not a share: write it like 20% or 0.5%, at most 100%");
    let percent = text.strip_suffix('%').ok_or_else(wrong)?.trim();
    let (whole, tenth) = percent.split_once('.').unwrap_or((percent, "0"));
    let digits =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok());
    match (digits(whole).flatten(), digits(tenth).flatten()) {
        (Some(whole @ 0..=100), Some(tenth @ 0..=9)) if whole * 10 + tenth <= 1_000 => {
            Ok(PerThousand(whole * 10 + tenth))
        }
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_one_decimal() {
        let thousandths = |text| share(text).map(|share| share.0).ok();
        let texts = ["0%", "1%", "0.5%", "20 %", "100%", "100.1%", "101%", "5", "-1%", "1.25%", "%"];
        let expected =
            [Some(0), Some(10), Some(5), Some(200), Some(1_000), None, None, None, None, None, None];
        assert_eq!(texts.map(thousandths), expected);
        assert_eq!(PerThousand(200).of(3_333_333), 666_666);
    }

    #[test]
    fn latency_is_one_time_or_a_range() {
        let millis = |low, high| Ok((Span::from_millis(low), Span::from_millis(high)));
        assert_eq!(latency("150ms..350ms"), millis(150, 350));
        assert_eq!(latency("2s"), millis(2_000, 2_000));
        assert!(latency("350ms..150ms").unwrap_err().contains("shorter time first"));
        assert!(latency("1h").unwrap_err().contains("at most 10m"));
        assert!(latency("soon").is_err());
    }

    #[test]
    fn change_is_a_time_and_a_limit() {
        let change = change("10m: 4 / second bucket").unwrap();
        assert_eq!((change.after, change.limit.as_str()), (Span::from_mins(10), "4 / second bucket"));
        assert!(super::change("4 / second").unwrap_err().contains("write a time and a limit"));
    }
}

//! A limit as text: `200 requests / minute`, `250k tokens / minute bucket burst 500k`, `50 concurrent`.
//!
//! ```text
//! [name:] AMOUNT [UNIT] / [N] PERIOD [window | sliding | bucket [burst N] | paced | adaptive | from first call] [in ZONE]
//! [name:] N concurrent [expires TIME]
//! ```

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use super::draft::{Draft, DraftError, Kind, Part, PeriodWord, read_amount, read_span};
use super::{Limit, Zone};
use crate::{Name, nearest};

/// A text that is not a limit, and the word that is wrong.
#[derive(Clone, PartialEq, Eq)]
pub struct LimitTextError {
    text: String,
    word: Range<usize>,
    message: String,
}

crate::debug_as_display!(LimitTextError);

impl LimitTextError {
    /// The byte range of the wrong word in the text; empty at the end where something is missing.
    pub fn range(&self) -> Range<usize> {
        self.word.clone()
    }

    /// The wrong word.
    pub fn word(&self) -> &str {
        self.text.get(self.word.clone()).unwrap_or_default()
    }

    /// What is wrong with it.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Two lines: the text, and below it a mark under the wrong word.
    pub fn pointed(&self) -> String {
        let before = self.text.get(..self.word.start).unwrap_or_default().chars().count();
        let mark = "^".repeat(self.word().chars().count().max(1));
        format!("{}\n{}{mark}", self.text, " ".repeat(before))
    }
}

impl fmt::Display for LimitTextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "in the limit {:?}: {}", self.text, self.message)
    }
}

impl std::error::Error for LimitTextError {}

impl FromStr for Limit {
    type Err = LimitTextError;

    fn from_str(text: &str) -> Result<Self, LimitTextError> {
        Reader::new(text).limit()
    }
}

/// Walks over the words and records the position of each part for later errors.
struct Reader<'a> {
    text: &'a str,
    words: Vec<Range<usize>>,
    next: usize,
    parts: Vec<(Part, Range<usize>)>,
}

type Parsed<T> = Result<T, LimitTextError>;

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, words: words_of(text), next: 0, parts: Vec::new() }
    }

    fn limit(mut self) -> Parsed<Limit> {
        let mut draft = Draft::default();
        if let Some(name) = self.peek().and_then(|word| word.strip_suffix(':')) {
            draft.name = Some(Name::new(name).map_err(|cause| self.here(cause.to_string()))?);
            self.next();
        }
        draft.amount = self.amount(Part::Amount)?;
        match self.peek() {
            Some("concurrent") => {
                self.note(Part::Algorithm);
                draft.kind = Kind::Concurrency;
            }
            _ => self.rate(&mut draft)?,
        }
        while let Some(word) = self.peek() {
            self.option(word, &mut draft)?;
        }
        draft.build().map_err(|error| self.at_part(error))
    }

    /// `[UNIT] / [N] PERIOD`
    fn rate(&mut self, draft: &mut Draft) -> Parsed<()> {
        match self.peek() {
            None | Some("/" | "per") => {}
            Some(word) => {
                draft.unit = Some(Name::new(plural(word)).map_err(|cause| self.here(cause.to_string()))?);
                self.note(Part::Unit);
            }
        }
        match self.peek() {
            Some("/" | "per") => self.next(),
            Some(word) => return Err(self.here(format!("expected `/ PERIOD` here, not {word:?}"))),
            None => {
                return Err(self.here("a period is missing: write it like `200 requests / minute`".into()));
            }
        }
        let Some(word) = self.peek() else {
            return Err(
                self.here("a period is missing after `/`: second, minute, hour, day, week or month".into())
            );
        };
        let digits = word.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'_').count();
        let (count, attached) = word.split_at_checked(digits).unwrap_or_default();
        if !count.is_empty() {
            draft.count = Some(read_amount(count).map_err(|message| self.here(message))?);
        }
        let word = match (count.is_empty(), attached.is_empty()) {
            (false, true) => {
                self.note(Part::Period);
                self.peek().ok_or_else(|| self.here("a period is missing after its number".into()))?
            }
            _ => attached,
        };
        let Some(period) = PeriodWord::read(word) else {
            if word == "M" {
                let message = "\"M\" may be a minute or a month; write `minute` or `month`";
                return Err(self.here(message.to_owned()));
            }
            let hint = suggestion(word, PeriodWord::KNOWN.iter().map(|(known, _)| *known));
            return Err(self.here(format!("{word:?} is not a period{hint}")));
        };
        draft.period = Some(period);
        self.note(Part::Period);
        Ok(())
    }

    fn option(&mut self, word: &str, draft: &mut Draft) -> Parsed<()> {
        match word {
            "burst" => {
                self.next();
                draft.burst = Some(self.amount(Part::Burst)?);
            }
            "in" => {
                self.next();
                let name =
                    self.peek().ok_or_else(|| self.here("a time zone is missing after `in`".into()))?;
                draft.zone = Some(Zone::named(name).map_err(|cause| self.here(cause.to_string()))?);
                self.note(Part::Zone);
            }
            "expires" => {
                self.next();
                let time =
                    self.peek().ok_or_else(|| self.here("a time is missing after `expires`".into()))?;
                draft.expires = Some(read_span(time).map_err(|message| self.here(message))?);
                self.note(Part::Expires);
            }
            _ => self.algorithm(word, draft)?,
        }
        Ok(())
    }

    /// An algorithm with all of its words. That of slots stands where others have their period.
    fn algorithm(&mut self, word: &str, draft: &mut Draft) -> Parsed<()> {
        let known = Kind::KNOWN.iter().filter(|(_, kind)| *kind != Kind::Concurrency);
        let first = |text: &'static str| text.split(' ').next().unwrap_or_default();
        let Some((text, kind)) = known.clone().find(|(text, _)| first(text) == word) else {
            let options = known.map(|(text, _)| first(text)).chain(["burst", "in", "expires"]);
            let hint = suggestion(word, options);
            return Err(self.here(format!("{word:?} has no meaning here{hint}")));
        };
        if draft.kind != Kind::Window || self.parts.iter().any(|(part, _)| *part == Part::Algorithm) {
            return Err(self.here(format!("{word:?} is a second algorithm; a limit has one")));
        }
        draft.kind = *kind;
        self.note(Part::Algorithm);
        for expected in text.split(' ').skip(1) {
            if self.peek() != Some(expected) {
                return Err(self.here(format!("write `{text}`")));
            }
            self.next();
        }
        Ok(())
    }

    fn amount(&mut self, part: Part) -> Parsed<u64> {
        let word = self.peek().ok_or_else(|| self.here("an amount is missing".into()))?;
        let amount = read_amount(word).map_err(|message| self.here(message))?;
        self.note(part);
        Ok(amount)
    }

    fn peek(&self) -> Option<&'a str> {
        self.text.get(self.words.get(self.next)?.clone())
    }

    fn next(&mut self) {
        self.next = self.next.saturating_add(1);
    }

    /// Records that the current word is this part of the limit, and goes to the next word.
    fn note(&mut self, part: Part) {
        if let Some(range) = self.words.get(self.next) {
            self.parts.push((part, range.clone()));
        }
        self.next();
    }

    fn here(&self, message: String) -> LimitTextError {
        let end = self.text.len()..self.text.len();
        let word = self.words.get(self.next).cloned().unwrap_or(end);
        LimitTextError { text: self.text.to_owned(), word, message }
    }

    fn at_part(&self, error: DraftError) -> LimitTextError {
        let found = self.parts.iter().find(|(part, _)| *part == error.part);
        let word = found.map_or(0..self.text.len(), |(_, range)| range.clone());
        LimitTextError { text: self.text.to_owned(), word, message: error.message }
    }
}

/// Words are divided by white space; a `/` is a word of its own, except inside a zone's name.
fn words_of(text: &str) -> Vec<Range<usize>> {
    let mut words: Vec<Range<usize>> = Vec::new();
    let mut start = None;
    let close = |start: &mut Option<usize>, end: usize, words: &mut Vec<Range<usize>>| {
        if let Some(start) = start.take() {
            words.push(start..end);
        }
    };
    for (at, character) in text.char_indices() {
        let in_zone = words.last().is_some_and(|last| text.get(last.clone()) == Some("in"));
        if character.is_whitespace() {
            close(&mut start, at, &mut words);
        } else if character == '/' && !in_zone {
            close(&mut start, at, &mut words);
            words.push(at..at.saturating_add(1));
        } else {
            start.get_or_insert(at);
        }
    }
    close(&mut start, text.len(), &mut words);
    words
}

/// `1 request / second` counts `requests`, like its plural.
/// Units that may be written for one and for several.
const NUMBERS: [(&str, &str); 4] =
    [("request", "requests"), ("token", "tokens"), ("byte", "bytes"), ("page", "pages")];

fn plural(unit: &str) -> &str {
    match unit {
        "call" | "calls" => "requests",
        unit => NUMBERS.iter().find(|(one, _)| *one == unit).map_or(unit, |(_, several)| several),
    }
}

/// The unit of this many, as it reads back.
pub(super) fn unit_of(amount: u64, unit: &str) -> &str {
    let one = NUMBERS.iter().find(|(_, several)| amount == 1 && *several == unit);
    one.map_or(unit, |(one, _)| one)
}

fn suggestion<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, known).map(|known| format!("; did you mean {known:?}?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted_texts_and_their_canonical_forms() {
        for (text, canonical) in [
            ("200 requests / minute", "200 requests / minute"),
            ("250k tokens / minute bucket burst 500k", "250000 tokens / minute bucket burst 500000"),
            ("25 requests / day in America/Los_Angeles", "25 requests / day in America/Los_Angeles"),
            ("10 / second from first call", "10 requests / second from first call"),
            ("100 / minute sliding", "100 requests / minute sliding"),
            ("3 / second paced", "3 requests / second paced"),
            ("3 / second adaptive", "3 requests / second adaptive"),
            ("50 concurrent", "50 concurrent"),
            ("50 concurrent expires 5m", "50 concurrent expires 5m"),
            ("5M bytes/5min bucket", "5000000 bytes / 5 minutes bucket"),
            ("1 request per hour window", "1 request / hour"),
            ("1 calls / 5 minutes paced", "1 request / 5 minutes paced"),
            ("1 tokens / day", "1 token / day"),
            ("1 jobs / day", "1 jobs / day"),
            ("2 requests / mo from first call", "2 requests / month from first call"),
            ("2 requests / m", "2 requests / minute"),
            ("rpd: 25 requests / day", "rpd: 25 requests / day"),
            ("7 pages / 36 hours from first call", "7 pages / 36 hours from first call"),
            ("1_000 / 250 ms", "1000 requests / 250 ms"),
            ("9 / month from first call", "9 requests / month from first call"),
        ] {
            let limit: Limit = text.parse().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(limit.to_string(), canonical);
            assert_eq!(canonical.parse::<Limit>().unwrap(), limit, "{canonical} reads back as itself");
        }
    }

    #[test]
    fn errors_point_at_the_wrong_word() {
        for (text, word, message) in [
            ("200 requests / minit", "minit", "\"minit\" is not a period; did you mean \"minute\"?"),
            ("0 requests / minute", "0", "the amount is 0"),
            ("many requests / minute", "many", "\"many\" is not an amount"),
            ("2 requests / M", "M", "\"M\" may be a minute or a month; write `minute` or `month`"),
            ("2 requests / 5 M", "M", "may be a minute or a month"),
            ("200 requests minute", "minute", "expected `/ PERIOD` here"),
            ("200 requests", "", "a period is missing"),
            ("25 / day in Mars/Olympus", "Mars/Olympus", "is not an IANA time zone"),
            ("25 / minute in Europe/Berlin", "Europe/Berlin", "a zone only applies"),
            ("25 / 2 weeks", "2", "a calendar window is one day"),
            ("25 / day burst 3", "3", "a burst belongs to a bucket"),
            ("25 / day bucket burst 0", "0", "the burst is 0"),
            ("25 / day bucket sliding", "sliding", "a second algorithm"),
            ("25 / day slidding", "slidding", "did you mean \"sliding\"?"),
            ("25 / minute from call", "call", "write `from first call`"),
            ("99999999999999999999 / day", "99999999999999999999", "more than the largest amount"),
            ("1000001G / day", "1000001G", "more than the largest amount"),
            ("20000 concurrent", "20000", "more than the 10000"),
            ("5 / second expires 5s", "5s", "`expires` belongs to a concurrency limit"),
            ("5 / 999999999 hours", "999999999", "is outside"),
            ("", "", "an amount is missing"),
        ] {
            let error = text.parse::<Limit>().unwrap_err();
            assert_eq!(error.word(), word, "{error}");
            assert!(error.message().contains(message), "{error}");
        }
        let error = "200 requests / minit".parse::<Limit>().unwrap_err();
        assert_eq!(error.pointed(), "200 requests / minit\n               ^^^^^");
    }

    #[test]
    fn amount_and_burst_are_not_part_of_the_identity() {
        let identity = |text: &str| text.parse::<Limit>().unwrap().identity();
        assert_eq!(identity("200 / minute"), identity("250 / minute"));
        assert_eq!(identity("200 / minute bucket"), identity("200 / minute bucket burst 7"));
        assert_ne!(identity("200 / minute"), identity("200 / minute sliding"));
        assert_ne!(identity("200 / minute"), identity("200 tokens / minute"));
        assert_ne!(identity("200 / day"), identity("200 / day in Europe/Berlin"));
        assert_ne!(identity("200 / minute"), identity("other: 200 / minute"));
    }
}

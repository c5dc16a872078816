//! `sqs:?ledger=TABLE`: queues of Amazon SQS, and a ledger in a DynamoDB table.

use std::collections::BTreeSet;
use std::fmt;

use percent_encoding::percent_decode_str;
use tollway_core::{Name, Span, nearest, read_span};

use super::stage::StageConfig;
use crate::source::Source;

/// The parameters of the URL.
const PARAMETERS: [&str; 6] = ["ledger", "region", "endpoint", "access", "create", "wait"];

/// The longest long poll that SQS has.
const WAIT_MAX: Span = Span::from_secs(20);

/// The longest name of a queue.
const QUEUE_BYTES_MAX: usize = 80;

/// Where the messages and the ledger of a pipeline are. It shows no secret.
#[derive(Clone, PartialEq, Eq)]
pub struct SqsUrl {
    ledger: String,
    region: Option<String>,
    endpoint: Option<String>,
    access: Option<(String, String)>,
    create: bool,
    wait: Span,
    stages: Vec<StageQueues>,
    source: Option<Source>,
}

/// What the config says about the queues of a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageQueues {
    /// The stage.
    pub stage: Name,
    /// Its queue, if it is named.
    pub queue: Option<String>,
    /// The queue of its dead letters, if it is named.
    pub dead_letter_queue: Option<String>,
    /// How long done jobs are kept.
    pub retention: Span,
}

impl SqsUrl {
    /// Reads what follows `sqs:`.
    pub(super) fn parse(rest: &str) -> Result<Self, String> {
        let mut url = Self {
            ledger: String::new(),
            region: None,
            endpoint: None,
            access: None,
            create: false,
            wait: WAIT_MAX,
            stages: Vec::new(),
            source: None,
        };
        let example = "sqs:?ledger=tollway-jobs&region=eu-west-1";
        let Some(query) = rest.strip_prefix('?') else {
            return Err(format!("the URL of SQS names its ledger, a DynamoDB table: {example}"));
        };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = percent_decode_str(value).decode_utf8_lossy();
            url.set(name, &value)?;
        }
        match url.ledger.is_empty() {
            true => Err(format!("the URL of SQS names its ledger, a DynamoDB table: {example}")),
            false => Ok(url),
        }
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "ledger" => {
                let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
                if !(3..=255).contains(&value.len()) || !value.chars().all(known) {
                    return Err(
                        "the name of a table is 3 to 255 letters, digits, `_`, `-` and `.`".to_owned()
                    );
                }
                self.ledger = value.to_owned();
            }
            "region" => {
                let known = |c: char| c.is_ascii_alphanumeric() || c == '-';
                if value.is_empty() || value.len() > 64 || !value.chars().all(known) {
                    return Err("region is written like eu-central-1".to_owned());
                }
                self.region = Some(value.to_owned());
            }
            "endpoint" => {
                let host = value.strip_prefix("http://").or_else(|| value.strip_prefix("https://"));
                if host.is_none_or(|host| host.is_empty() || !host.chars().all(|c| c.is_ascii_graphic())) {
                    return Err("endpoint is written like http://127.0.0.1:4566".to_owned());
                }
                self.endpoint = Some(value.to_owned());
            }
            "access" => match value.split_once(':') {
                Some((key, secret)) if !key.is_empty() && !secret.is_empty() => {
                    self.access = Some((key.to_owned(), secret.to_owned()));
                }
                _ => return Err("access is a key and its secret: access=KEY:SECRET".to_owned()),
            },
            "create" => {
                self.create = match value {
                    "yes" => true,
                    "no" => false,
                    _ => return Err("create is yes or no".to_owned()),
                }
            }
            "wait" => {
                self.wait = match value {
                    // Lengths of time are above zero everywhere else.
                    "0s" => Span::ZERO,
                    _ => read_span(value).map_err(|error| format!("wait: {error}"))?,
                };
                if self.wait > WAIT_MAX {
                    return Err("wait is at most 20s: SQS has no longer poll".to_owned());
                }
            }
            _ => return Err(unknown(name)),
        }
        Ok(())
    }

    /// The table of the ledger.
    pub fn ledger(&self) -> &str {
        &self.ledger
    }

    /// Whether missing queues and a missing table are made at their first use.
    pub fn creates(&self) -> bool {
        self.create
    }

    /// The region, if the URL names one.
    pub fn region(&self) -> Option<&str> {
        self.region.as_deref()
    }

    /// The address in place of that of AWS, if the URL has one.
    pub fn endpoint(&self) -> Option<&str> {
        self.endpoint.as_deref()
    }

    /// A key of AWS and its secret; none: as every AWS tool finds them.
    pub fn access(&self) -> Option<(&str, &str)> {
        self.access.as_ref().map(|(key, secret)| (key.as_str(), secret.as_str()))
    }

    /// How long to wait for the first message of an empty queue.
    pub fn wait(&self) -> Span {
        self.wait
    }

    /// What the config says about the stages of its pipeline.
    pub fn stages(&self) -> &[StageQueues] {
        &self.stages
    }

    /// How messages of other programs become jobs.
    pub fn source(&self) -> Option<&Source> {
        self.source.as_ref()
    }

    /// The names of a stage's queue and of the queue of its dead letters: those of its config, or the usual ones.
    pub fn queue_names(
        &self,
        stage: &Name,
        queue: Option<&str>,
        dead_letter_queue: Option<&str>,
    ) -> (String, String) {
        let queue = queue.map_or_else(|| format!("{}-{}", self.ledger, stage.as_str()), str::to_owned);
        let dead = dead_letter_queue.map_or_else(|| format!("{queue}-dead"), str::to_owned);
        (queue, dead)
    }

    /// Why a text is no name of a queue, if it is none.
    pub fn check_queue(name: &str) -> Result<(), String> {
        let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if name.ends_with(".fifo") {
            return Err(
                "a FIFO queue keeps a whole group waiting for one job; use a standard queue".to_owned()
            );
        }
        match (1..=QUEUE_BYTES_MAX).contains(&name.len()) && name.chars().all(known) {
            true => Ok(()),
            false => {
                Err(format!("the name of a queue is 1 to {QUEUE_BYTES_MAX} letters, digits, `_` and `-`"))
            }
        }
    }

    /// A queue that has two uses, if there is one.
    pub(super) fn shared_queue(&self, stages: &[StageConfig]) -> Option<String> {
        let mut known = BTreeSet::new();
        let names = stages.iter().flat_map(|stage| {
            let (queue, dead) = (stage.queue.as_deref(), stage.dead_letter_queue.as_deref());
            let (queue, dead) = self.queue_names(&stage.name, queue, dead);
            [queue, dead]
        });
        names.into_iter().find(|name| !known.insert(name.clone()))
    }

    /// The same for a pipeline.
    pub(super) fn for_pipeline(mut self, stages: &[StageConfig], source: &Source) -> Self {
        self.stages = stages.iter().map(StageQueues::of).collect();
        self.source = Some(source.clone());
        self
    }
}

impl StageQueues {
    fn of(stage: &StageConfig) -> Self {
        Self {
            stage: stage.name.clone(),
            queue: stage.queue.clone(),
            dead_letter_queue: stage.dead_letter_queue.clone(),
            retention: stage.retention,
        }
    }
}

fn unknown(name: &str) -> String {
    let advice = match nearest(name, PARAMETERS) {
        Some(known) => format!("did you mean {known:?}?"),
        None => format!("it may be {}", PARAMETERS.join(", ")),
    };
    // What has no `=` may be a value, even a secret one.
    let name: String = name.chars().take_while(char::is_ascii_alphabetic).take(20).collect();
    format!("{name:?} is not a parameter of sqs:; {advice}")
}

impl fmt::Display for SqsUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sqs:?ledger={}", self.ledger)?;
        if let Some(region) = &self.region {
            write!(f, "&region={region}")?;
        }
        match &self.endpoint {
            Some(endpoint) => write!(f, "&endpoint={endpoint}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for SqsUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SqsUrl({self}, {:?})", self.stages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_parameter_is_read_and_no_secret_is_shown() {
        let url =
            "?ledger=jobs&region=eu-west-1&endpoint=http://127.0.0.1:1&access=k:hunter2&create=yes&wait=5s";
        let url = SqsUrl::parse(url).unwrap();
        assert_eq!((url.ledger.as_str(), url.create, url.wait), ("jobs", true, Span::from_secs(5)));
        assert_eq!(url.to_string(), "sqs:?ledger=jobs&region=eu-west-1&endpoint=http://127.0.0.1:1");
        assert!(!format!("{url:?}").contains("hunter2"));
    }

    #[test]
    fn mistakes_are_named() {
        for (url, hint) in [
            ("", "names its ledger"),
            ("//jobs", "names its ledger"),
            ("?region=eu-west-1", "names its ledger"),
            ("?ledger=a b", "3 to 255"),
            ("?leger=jobs", "did you mean \"ledger\""),
            ("?ledger=jobs&colour=hunter2", "it may be ledger"),
            ("?ledger=jobs&access=hunter2", "KEY:SECRET"),
            ("?ledger=jobs&wait=1m", "at most 20s"),
            ("?ledger=jobs&create=maybe", "yes or no"),
            ("?ledger=jobs&endpoint=127.0.0.1", "http://"),
        ] {
            let error = SqsUrl::parse(url).unwrap_err();
            assert!(error.contains(hint) && !error.contains("hunter2"), "{url}: {error}");
        }
    }

    #[test]
    fn queue_names_are_checked() {
        assert!(SqsUrl::check_queue("adobe-autotag_queue").is_ok());
        assert!(SqsUrl::check_queue("a.fifo").unwrap_err().contains("FIFO"));
        assert!(SqsUrl::check_queue("a b").is_err() && SqsUrl::check_queue(&"q".repeat(81)).is_err());
    }
}

//! Limit sources (A3): read in the background, kept when they fail, beaten by the store, beating the file.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollway::source::{Origin, SOURCE_EVERY_MIN, Source, SourceAnswer, SourceError, SourceStatus};
use tollway::{Config, Limiter, Name, Span};

/// A source in the test's hand.
struct Manual(Mutex<Result<Vec<Option<String>>, SourceError>>);

impl Manual {
    fn new(texts: &[&str]) -> Arc<Self> {
        let source = Arc::new(Self(Mutex::new(Ok(Vec::new()))));
        source.says(texts);
        source
    }

    fn says(&self, texts: &[&str]) {
        *self.0.lock().unwrap() = Ok(texts.iter().map(|text| Some((*text).to_owned())).collect());
    }

    fn fails(&self, why: &str) {
        *self.0.lock().unwrap() = Err(SourceError(why.to_owned()));
    }
}

impl Source for Manual {
    fn read(&self, _: &[Name]) -> SourceAnswer {
        let said = self.0.lock().unwrap().clone();
        Box::pin(async move { said })
    }

    fn title(&self) -> String {
        "manual".to_owned()
    }
}

/// 200 a minute in the program, and whatever the source says.
fn following(source: &Arc<Manual>) -> Limiter {
    let source: Arc<dyn Source> = Arc::clone(source) as Arc<dyn Source>;
    let builder = Limiter::builder().policy("adobe", ["200 requests / minute"]).unwrap();
    let limiter = builder.source("adobe", SOURCE_EVERY_MIN, source).unwrap().build();
    limiter.sources_read().now().unwrap();
    limiter
}

fn amount(limiter: &Limiter) -> u64 {
    limiter.policies()[0].limits()[0].amount()
}

fn origin(limiter: &Limiter) -> Origin {
    limiter.origin("adobe", "requests_per_minute")
}

/// Waits until the source was read in such a way.
fn wait_for(limiter: &Limiter, what: impl Fn(&SourceStatus) -> bool) {
    while !what(&limiter.sources()[0]) {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A3: the store's value beats the source's, and that beats the file's.
#[test]
fn the_store_overrides_a_source_and_a_source_overrides_the_program() {
    let limiter = following(&Manual::new(&["250"]));
    assert_eq!(amount(&limiter), 250);
    assert!(matches!(origin(&limiter), Origin::Source { title, .. } if title == "manual"));
    limiter.set_limit("adobe", "requests_per_minute", "300").now().unwrap();
    assert_eq!(amount(&limiter), 300);
    assert!(matches!(origin(&limiter), Origin::Store { .. }));
    limiter.clear_limit("adobe", "requests_per_minute").now().unwrap();
    assert_eq!(amount(&limiter), 250);
    assert!(matches!(origin(&limiter), Origin::Source { .. }));
}

/// A3: a task follows while it runs, and what is used stays used.
#[test]
fn a_changed_amount_applies_at_run_time() {
    let source = Manual::new(&["1"]);
    let limiter = following(&source);
    assert!(limiter.try_take("adobe").now().unwrap().is_granted());
    assert!(!limiter.try_take("adobe").now().unwrap().is_granted());
    source.says(&["2"]);
    wait_for(&limiter, |status| status.amounts[0].1 == 2);
    assert_eq!(amount(&limiter), 2);
    assert_eq!(limiter.usage("adobe").now().unwrap().limits[0].amount, 2);
}

/// A3: missing or not a number: the last good value; the limiter says since when, and what is wrong.
#[test]
fn the_last_good_amount_stays_in_force() {
    let source = Manual::new(&["250"]);
    let limiter = following(&source);
    let read_at = limiter.sources()[0].read_at;
    assert!(read_at.is_some());
    source.says(&["many"]);
    wait_for(&limiter, |status| status.problem.is_some());
    let problem = limiter.sources()[0].problem.clone().unwrap();
    assert_eq!(problem, "requests_per_minute: \"many\" is not a number; write one like 200");
    assert_eq!((amount(&limiter), limiter.sources()[0].read_at), (250, read_at));
    source.fails("it is away");
    wait_for(&limiter, |status| status.problem.as_deref() == Some("it is away"));
    assert_eq!((amount(&limiter), limiter.sources()[0].read_at), (250, read_at));
    source.says(&["100"]);
    wait_for(&limiter, |status| status.problem.is_none());
    assert_eq!(amount(&limiter), 100);
    assert!(limiter.sources()[0].read_at > read_at);
}

/// A3: if there never was one, the amount of the file.
#[test]
fn before_the_first_read_the_programs_amount_applies() {
    let source = Manual::new(&[]);
    source.fails("it is away");
    let limiter = following(&source);
    assert_eq!((amount(&limiter), origin(&limiter)), (200, Origin::Config));
    let status = &limiter.sources()[0];
    assert_eq!((status.read_at, status.problem.as_deref()), (None, Some("it is away")));
}

/// With several limits each has its own amount; an invalid one does not affect the others.
#[test]
fn each_limit_of_several_has_its_amount() {
    let source = Manual::new(&["6", "none", "30"]);
    let limits = ["5 / minute bucket", "250k tokens / minute bucket", "25 / day"];
    let builder = Limiter::builder().policy("gemini", limits).unwrap();
    let limiter = builder.source("gemini", Span::from_secs(60), source).unwrap().build();
    limiter.sources_read().now().unwrap();
    let amounts: Vec<u64> = limiter.policies()[0].limits().iter().map(|limit| limit.amount()).collect();
    assert_eq!(amounts, [6, 250_000, 30]);
    assert_eq!(limiter.origin("gemini", "tokens_per_minute"), Origin::Config);
    assert!(matches!(limiter.origin("gemini", "requests_per_day"), Origin::Source { .. }));
}

/// A program's reload of policies keeps what the source says.
#[test]
fn replaced_policies_keep_the_sources_amount() {
    let limiter = following(&Manual::new(&["250"]));
    let other = tollway::Policy::new("adobe", ["50 requests / minute"]).unwrap();
    limiter.replace_policies([other]).unwrap();
    assert_eq!(amount(&limiter), 250);
}

#[tokio::test]
async fn it_can_be_awaited() {
    let source: Arc<dyn Source> = Manual::new(&["7"]);
    let builder = Limiter::builder().policy("adobe", ["200 / minute"]).unwrap();
    let limiter = builder.source("adobe", Span::from_secs(60), source).unwrap().build();
    limiter.sources_read().await.unwrap();
    assert_eq!(amount(&limiter), 7);
}

#[test]
fn a_source_in_a_config_is_checked() {
    let wrong = |keys: &str| {
        let text = format!("[policies.adobe]\nlimits = [\"200 / minute\"]\n{keys}");
        Config::parse(&text).unwrap_err().to_string()
    };
    for (keys, said) in [
        ("source = \"smm:/a\"", "did you mean \"ssm\"?"),
        ("source = \"/a/b\"", "write it like ssm:/pdf-processing/adobe-api-rpm"),
        ("source = 5", "`source` must be a string"),
        ("source_every = \"5m\"", "there is no `source` to be read"),
        ("source = \"ssm:/a\"\nsource_every = \"10ms\"", "a source is read every"),
        ("source = \"ssm:/a\"\nsource_evry = \"5m\"", "source_every"),
    ] {
        let error = wrong(keys);
        assert!(error.contains(said), "{keys}: {error}");
    }
}

/// Without the feature the error says how to build it.
#[cfg(not(feature = "aws"))]
#[test]
fn a_build_without_aws_refuses_ssm_sources() {
    let text = "[policies.adobe]\nlimits = [\"200 / minute\"]\nsource = \"ssm:/a\"";
    let error = Config::parse(text).unwrap_err().to_string();
    assert!(error.contains("build it with `--features aws`"), "{error}");
}

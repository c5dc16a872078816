//! The config file.

use tollway::ConfigError;
use tollway::config::{CONFIG_BYTES_MAX, PROBLEMS_MAX};
use tollway_server::ConfigWithServer;

use crate::limit::is_the_same_again;
use crate::{fuzz, is_harmless, text};

/// T20: parsing is deterministic; limits survive a round trip; an error points into the text.
#[test]
fn config() {
    fuzz("config", |input| {
        let text = text(input);
        let read = ConfigWithServer::parse(&text);
        assert_eq!(read.as_ref().ok(), ConfigWithServer::parse(&text).as_ref().ok());
        match read {
            Ok(config) => {
                let limits = config.limits().policies().iter().flat_map(|policy| policy.limits());
                limits.for_each(is_the_same_again);
                let server = config.server().is_some();
                let (policies, apis) =
                    (config.limits().policies().len().min(4), config.limits().apis().len().min(4));
                format!(
                    "{:?} {policies} {apis} {server}",
                    config.limits().store().map(std::mem::discriminant)
                )
            }
            Err(error) => {
                is_shown(&text, &error);
                tollway_fuzz::kind_of(error.message())
            }
        }
    });
}

fn is_shown(text: &str, error: &ConfigError) {
    let problems = error.problems();
    assert!(!problems.is_empty() && problems.len() <= PROBLEMS_MAX);
    assert!(text.len() <= CONFIG_BYTES_MAX || problems.len() == 1);
    let lines = text.split('\n').count();
    for problem in problems {
        assert!(
            problem.line().is_none_or(|line| (1..=lines).contains(&line)),
            "{problem:?} of {lines} lines"
        );
        assert!(!problem.message().is_empty());
    }
    is_harmless(&error.to_string());
}

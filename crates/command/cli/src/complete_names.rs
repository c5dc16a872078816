//! Names in the config that a shell can complete: policies, limits, apis, pipelines and stages.

use std::ffi::OsStr;
use std::path::PathBuf;

use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};

use crate::context::WholeConfig;

/// Completes the name of a policy.
pub(crate) fn policies() -> ArgValueCompleter {
    names(|config| config.limits().policies().iter().map(|policy| policy.name().to_string()).collect())
}

/// Completes `POLICY.LIMIT`.
pub(crate) fn limits() -> ArgValueCompleter {
    names(|config| {
        let policies = config.limits().policies().iter();
        let names = policies.flat_map(|policy| {
            policy.limits().iter().map(|limit| format!("{}.{}", policy.name(), limit.name()))
        });
        names.collect()
    })
}

/// Completes the name of an api in the config.
pub(crate) fn apis() -> ArgValueCompleter {
    names(|config| config.limits().apis().iter().map(|api| api.name().to_string()).collect())
}

/// Completes the name of a pipeline.
#[cfg(feature = "pipeline")]
pub(crate) fn pipelines() -> ArgValueCompleter {
    names(|config| config.pipelines().iter().map(|pipeline| pipeline.name.to_string()).collect())
}

/// Completes the name of a stage of any pipeline.
#[cfg(feature = "pipeline")]
pub(crate) fn stages() -> ArgValueCompleter {
    names(|config| {
        let stages = config.pipelines().iter().flat_map(|pipeline| &pipeline.stages);
        stages.map(|stage| stage.name.to_string()).collect()
    })
}

/// Completes names of the config. A config that cannot be read has none.
fn names(read: fn(&WholeConfig) -> Vec<String>) -> ArgValueCompleter {
    ArgValueCompleter::new(move |typed: &OsStr| {
        let config = WholeConfig::find(config_argument().as_deref());
        let names = config.map(|config| read(&config)).unwrap_or_default();
        let fits = |name: &String| typed.to_str().is_some_and(|typed| name.starts_with(typed));
        names.into_iter().filter(fits).map(CompletionCandidate::new).collect()
    })
}

/// The file that `--config` names in the words typed so far: the engine does not tell other arguments.
fn config_argument() -> Option<PathBuf> {
    let mut words = std::env::args_os();
    while let Some(word) = words.next() {
        if word == "--config" {
            return words.next().map(PathBuf::from);
        }
        if let Some(path) = word.to_str().and_then(|word| word.strip_prefix("--config=")) {
            return Some(PathBuf::from(path));
        }
    }
    None
}

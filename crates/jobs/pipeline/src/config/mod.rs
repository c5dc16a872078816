//! `[pipelines.NAME]`: an engine and stages, in the order in which jobs pass them.
//!
//! ```text
//! [pipelines.pdf]
//! engine = "sqlite:pdf.db"
//!
//! [[pipelines.pdf.stages]]
//! name = "autotag"
//! take = { adobe = { requests = 1 } }
//! handler = { command = ["python3", "autotag.py"] }
//!
//! [pipelines.pdf.source]
//! key = "chunk_key"
//! ```

mod alarms;
mod engine;
mod handler;
mod source;
mod sqs_url;
mod stage;
mod take;
mod values;

use std::collections::BTreeSet;
use std::path::Path;

use tollway::Config;
use tollway_config::{ConfigError, ConfigFile, FromConfig, Section};
use tollway_core::{Name, Subject, nearest};

pub use engine::EngineUrl;
pub use handler::{CommandConfig, HandlerConfig, HttpConfig};
pub use sqs_url::{SqsUrl, StageQueues};
pub use stage::StageConfig;

use crate::bounds::STAGES_MAX;
use crate::run::alarm::AlarmRules;
use crate::source::Source;

/// One pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipelineConfig {
    /// Its name.
    pub name: Name,
    /// What keeps its jobs.
    pub engine: EngineUrl,
    /// How many jobs may run at a time in all stages together; none: as many as the stages allow.
    pub concurrency: Option<u32>,
    /// The subject that its takes count for, in every stage; by default, the shared one of each policy.
    pub subject: Subject,
    /// Its stages, the first one first.
    pub stages: Vec<StageConfig>,
    /// When a human is needed.
    pub alarms: AlarmRules,
    /// How records become jobs.
    pub source: Source,
}

impl PipelineConfig {
    /// Lets relative paths start at this folder.
    pub fn in_folder(&mut self, folder: &Path) {
        self.engine.in_folder(folder);
        self.stages.iter_mut().for_each(|stage| stage.in_folder(folder));
    }

    /// The names of its stages, the first one first.
    pub fn stage_names(&self) -> Vec<Name> {
        self.stages.iter().map(|stage| stage.name.clone()).collect()
    }

    /// The policies that its stages take from.
    pub fn policies(&self) -> BTreeSet<String> {
        self.stages.iter().flat_map(|stage| stage.take.amounts().into_keys()).collect()
    }

    /// The stage of this name.
    pub fn stage(&self, name: &str) -> Option<&StageConfig> {
        self.stages.iter().find(|stage| stage.name.as_str() == name)
    }
}

/// A config file: limits and pipelines.
///
/// ```
/// let config = tollway_pipeline::ConfigWithPipelines::parse(r#"
///     [policies.adobe]
///     limits = ["200 requests / minute"]
///     [pipelines.pdf]
///     engine = "sqlite:pdf.db"
///     [[pipelines.pdf.stages]]
///     name = "autotag"
///     take = { adobe = { requests = 1 } }
///     handler = { command = ["python3", "autotag.py"] }
/// "#)?;
/// assert_eq!(config.pipeline("pdf").unwrap().stages[0].tries, 3);
/// # Ok::<(), tollway::ConfigError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConfigWithPipelines {
    limits: Config,
    /// Sorted by name.
    pipelines: Vec<PipelineConfig>,
}

impl ConfigWithPipelines {
    /// Reads a config out of its text.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        tollway_config::parse(text)
    }

    /// Reads the config file at `path`.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        ConfigFile::load(path).map(ConfigFile::into_config)
    }

    /// Store, policies and apis.
    pub fn limits(&self) -> &Config {
        &self.limits
    }

    /// The pipelines, sorted by name.
    pub fn pipelines(&self) -> &[PipelineConfig] {
        &self.pipelines
    }

    /// The pipeline of this name.
    pub fn pipeline(&self, name: &str) -> Option<&PipelineConfig> {
        self.pipelines.iter().find(|pipeline| pipeline.name.as_str() == name)
    }
}

impl FromConfig for ConfigWithPipelines {
    fn read(root: &mut Section<'_>) -> Self {
        let limits = Config::read(root);
        let pipelines = read_pipelines(root, &limits);
        Self { limits, pipelines }
    }

    fn in_folder(&mut self, folder: &Path) {
        self.limits.in_folder(folder);
        self.pipelines.iter_mut().for_each(|pipeline| pipeline.in_folder(folder));
    }
}

/// Reads `[pipelines]` of a config file whose limits are read already. Sorted by name.
pub fn read_pipelines(root: &mut Section<'_>, limits: &Config) -> Vec<PipelineConfig> {
    let policies: Vec<&str> = root.names("policies").iter().map(|name| *name.get_ref()).collect();
    let known = take::Policies { names: &policies, limits };
    let read = |(name, section): (toml::Spanned<&str>, Section<'_>)| {
        let named = Name::new(name.get_ref());
        let named = named.map_err(|error| {
            section.report().problem_with(&name, format!("not a name of a pipeline: {error}"), "");
        });
        let pipeline = read(section, &known);
        Some(PipelineConfig { name: named.ok()?, ..pipeline? })
    };
    let mut pipelines: Vec<_> = root.named_sections("pipelines").into_iter().filter_map(read).collect();
    pipelines.sort_by(|one, other| one.name.cmp(&other.name));
    pipelines
}

/// Reads a pipeline, whose name the caller fills in.
fn read(mut section: Section<'_>, policies: &take::Policies<'_>) -> Option<PipelineConfig> {
    section.required("engine", "\"sqlite:jobs.db\"");
    let engine = engine::read(&mut section);
    let concurrency = values::whole(&mut section, "concurrency", 1..=stage::CONCURRENCY_MAX, "100");
    let subject = read_subject(&mut section);
    let stages = read_stages(&mut section, policies);
    if let (Some(EngineUrl::Sqs(url)), Some(stages)) = (&engine, &stages)
        && let Some(queue) = url.shared_queue(stages)
    {
        let message = format!("two stages, or a stage and its dead letters, have the queue {queue:?}");
        section.problem("engine", message, "give each `queue` and `dead_letter_queue` a name of its own");
    }
    let alarms = section.section("alarms").map(alarms::read).unwrap_or_default();
    let source = source::read(&mut section, stages.as_deref());
    section.finish();
    let (stages, source, subject) = (stages?, source?, subject?);
    let engine = engine?.for_pipeline(&stages, &source);
    // Replaced by the caller; a stage's name is one that exists.
    let name = stages.first()?.name.clone();
    Some(PipelineConfig { name, engine, concurrency, subject, stages, alarms, source })
}

/// Reads `subject`; none if it is wrong.
fn read_subject(section: &mut Section<'_>) -> Option<Subject> {
    let Some(text) = section.string("subject", "\"adobe\"") else { return Some(Subject::SHARED) };
    let subject = Subject::new(text.get_ref()).map_err(|error| error.to_string());
    let subject = subject.and_then(|subject| match subject == Subject::SHARED {
        true => Err("an empty subject".to_owned()),
        false => Ok(subject),
    });
    subject.map_err(|error| section.problem("subject", error, "leave it out for the shared subject")).ok()
}

fn read_stages(section: &mut Section<'_>, policies: &take::Policies<'_>) -> Option<Vec<StageConfig>> {
    section.required("stages", "[{ name = \"first\", handler = { command = [\"./first\"] } }]");
    let list = section.list("stages", "[{ name = \"first\" }]")?;
    if list.is_empty() || list.len() > STAGES_MAX {
        let message = format!("a pipeline has 1 to {STAGES_MAX} stages, not {}", list.len());
        section.problem("stages", message, "");
        return None;
    }
    let mut drafts = Vec::new();
    for (index, value) in list.iter().enumerate() {
        let Some(table) = value.get_ref().as_table() else {
            let words = tollway_config::type_words(value.get_ref());
            section.report().problem(value.span(), format!("a stage is a table, not {words}"), "");
            continue;
        };
        let path = format!("{}.stages.{}", section.path(), index + 1);
        let stage = Section::new(section.report(), path, value.span(), table);
        drafts.extend(stage::read(stage, policies));
    }
    (drafts.len() == list.len()).then(|| stage::link(drafts, section)).flatten()
}

/// Advice with the nearest of some names, if one is near.
fn did_you_mean(text: &str, known: &[&str]) -> String {
    match nearest(text, known.iter().copied()) {
        Some(meant) => format!("did you mean {meant:?}?"),
        None if known.is_empty() => String::new(),
        None => format!("there are {}", known.join(", ")),
    }
}

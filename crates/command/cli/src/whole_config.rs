//! All sections of a config file.

use std::ops::Deref;
use std::path::Path;

use tollway::{Config, ConfigError};
use tollway_config::{ConfigFile, FromConfig, Section};
use tollway_notify::cloudwatch::CloudWatchConfig;
#[cfg(feature = "pipeline")]
use tollway_pipeline::PipelineConfig;
use tollway_server::ConfigWithServer;

/// All sections of a config file: every command checks all of them. Those of limits, consumers and the server are what it
/// dereferences to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct WholeConfig {
    with_server: ConfigWithServer,
    #[cfg(feature = "pipeline")]
    pipelines: Vec<PipelineConfig>,
    cloudwatch: Option<CloudWatchConfig>,
}

impl WholeConfig {
    /// Reads the config file at `path`.
    pub(crate) fn load(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        ConfigFile::load(path).map(ConfigFile::into_config)
    }

    /// Reads the config file at `path` as an earlier version of `current`: relative paths in it resolve as in `current`.
    pub(crate) fn load_earlier(path: impl AsRef<Path>, current: &Path) -> Result<Self, ConfigError> {
        tollway_config::load_earlier(path, current)
    }

    /// Finds the config file and reads it.
    pub(crate) fn find(explicit: Option<&Path>) -> Result<Self, ConfigError> {
        Self::load(Config::find_path(explicit)?)
    }

    /// Store, policies and apis.
    pub(crate) fn into_limits(self) -> Config {
        self.with_server.into_limits()
    }

    /// The pipelines, sorted by name.
    #[cfg(feature = "pipeline")]
    pub(crate) fn pipelines(&self) -> &[PipelineConfig] {
        &self.pipelines
    }

    /// Where metrics go in CloudWatch; none: nowhere.
    pub(crate) fn cloudwatch(&self) -> Option<&CloudWatchConfig> {
        self.cloudwatch.as_ref()
    }
}

impl Deref for WholeConfig {
    type Target = ConfigWithServer;

    fn deref(&self) -> &ConfigWithServer {
        &self.with_server
    }
}

impl FromConfig for WholeConfig {
    fn read(root: &mut Section<'_>) -> Self {
        let with_server = ConfigWithServer::read(root);
        #[cfg(feature = "pipeline")]
        let pipelines = tollway_pipeline::read_pipelines(root, with_server.limits());
        let cloudwatch = tollway_notify::cloudwatch::read(root);
        #[cfg(feature = "pipeline")]
        if cloudwatch.is_some() {
            check_stage_names(root, &pipelines);
        }
        Self {
            with_server,
            #[cfg(feature = "pipeline")]
            pipelines,
            cloudwatch,
        }
    }

    fn in_folder(&mut self, folder: &Path) {
        self.with_server.in_folder(folder);
        #[cfg(feature = "pipeline")]
        self.pipelines.iter_mut().for_each(|pipeline| pipeline.in_folder(folder));
    }
}

/// In CloudWatch, a metric of a stage is named after the stage: two of one name would be one.
#[cfg(feature = "pipeline")]
fn check_stage_names(root: &Section<'_>, pipelines: &[PipelineConfig]) {
    use tollway_notify::cloudwatch::pascal_case;

    let stages =
        pipelines.iter().flat_map(|pipeline| pipeline.stages.iter().map(move |stage| (pipeline, stage)));
    let stages: Vec<_> = stages.collect();
    for (index, (pipeline, stage)) in stages.iter().enumerate() {
        let name = pascal_case(stage.name.as_str());
        let same = stages.iter().take(index).find(|(_, other)| pascal_case(other.name.as_str()) == name);
        if let Some((other_pipeline, other)) = same {
            let message = format!(
                "stage {:?} of pipeline {:?} and stage {:?} of pipeline {:?} have one name in CloudWatch, {name}",
                other.name.as_str(),
                other_pipeline.name.as_str(),
                stage.name.as_str(),
                pipeline.name.as_str(),
            );
            root.problem("cloudwatch", message, "rename one of them");
        }
    }
}

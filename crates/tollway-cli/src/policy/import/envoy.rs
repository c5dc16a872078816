//! `tollway policy import envoy`: the files of Envoy's rate limit service as a config.

use std::path::{Path, PathBuf};

use serde_json::json;
use tollway_server::ConfigWithServer;

use super::rules::Import;
use super::{toml, yaml};
use crate::context::Context;
use crate::failure::{Exit, Failure};

/// The largest file that is read: as large as a config may be.
const FILE_BYTES_MAX: u64 = 1 << 20;

const EXAMPLES: &str = "\
Examples:
  tollway policy import envoy ratelimit.yaml > tollway.toml
  tollway policy import envoy config/*.yaml > tollway.toml     several domains

Exit codes:
  0    done; what has no counterpart is told on standard error
  65   a file is not one of Envoy's rate limit service";

/// Make a config of files of Envoy's rate limit service (envoyproxy/ratelimit)
///
/// Writes policies and [[server.descriptors]] to standard output, and tells on standard error what has no counterpart here.
/// The page docs/guide/envoy.md tells how to go on.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Its files, in YAML: one for each domain
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let mut import = Import::default();
    for path in &arguments.files {
        let wrong = |message: String| Failure::new(Exit::DATA, format!("{}: {message}", path.display()));
        let text = read(path).map_err(wrong)?;
        import.add(&yaml::read(&text).map_err(wrong)?).map_err(wrong)?;
    }
    let config = toml::write(&import, &arguments.files);
    // What is written must be understood again.
    ConfigWithServer::parse(&config).map_err(|error| {
        let advice = "leave the limits out that it speaks of, and write them by hand";
        Failure::new(Exit::DATA, format!("these limits make no config: {error}")).advise(advice)
    })?;
    let output = context.output();
    if output.is_json() {
        output.json(&json!({ "config": config, "notes": import.notes }))?;
        return Ok(Exit::DONE);
    }
    output.bytes(config.as_bytes())?;
    output.flush()?;
    import.notes.iter().for_each(|note| output.warning(note));
    Ok(Exit::DONE)
}

fn read(path: &Path) -> Result<String, String> {
    let length = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    if length > FILE_BYTES_MAX {
        return Err(format!("{length} bytes are more than the {FILE_BYTES_MAX} that are read"));
    }
    std::fs::read_to_string(path).map_err(|error| error.to_string())
}

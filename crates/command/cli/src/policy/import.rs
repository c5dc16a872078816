//! `tollway policy import`: converts limits of other systems to a config.

use std::fs::File;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

use serde_json::json;
use tollway_import::obp::Password;
use tollway_import::{FILE_BYTES_MAX, ImportError, Imported, SourceFile, envoy, obp};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Convert limits of another system to a config
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    format: Format,
}

#[derive(Debug, clap::Subcommand)]
enum Format {
    Envoy(EnvoyArguments),
    Obp(ObpArguments),
}

const ENVOY_EXAMPLES: &str = "\
Examples:
  tollway policy import envoy ratelimit.yaml > tollway.toml
  tollway policy import envoy config/*.yaml > tollway.toml     several domains

Exit codes:
  0    success; settings without a counterpart are listed on standard error
  65   not a config file of Envoy's rate limit service";

/// Convert files of Envoy's rate limit service (envoyproxy/ratelimit)
///
/// Writes policies and [[server.descriptors]] to standard output, and warnings about settings without a counterpart to
/// standard error. The page docs/guide/envoy.md describes the next steps.
#[derive(Debug, clap::Args)]
#[command(after_help = ENVOY_EXAMPLES)]
struct EnvoyArguments {
    /// The YAML files, one per domain
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

const OBP_EXAMPLES: &str = "\
Examples:
  tollway policy import obp default.props > tollway.toml
  tollway policy import obp default.props > tollway.toml && tollway doctor

Exit codes:
  0    success; settings without a counterpart are listed on standard error
  65   not a properties file, or an invalid value";

/// Convert the rate-limit properties of OBP-API
///
/// Reads use_consumer_limits, cache.redis.*, redis.use.ssl, the truststore and the keystore of Redis,
/// user_consumer_limit_anonymous_access and rate_limiting_per_*; missing properties get
/// OBP-API's defaults. Other properties are ignored, with a warning if they concern limits or Redis. The output contains
/// the Redis password, except on a terminal.
#[derive(Debug, clap::Args)]
#[command(after_help = OBP_EXAMPLES)]
struct ObpArguments {
    /// The properties file, e.g. default.props
    file: PathBuf,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let output = context.output();
    let imported = match &arguments.format {
        Format::Envoy(arguments) => import_envoy(&arguments.files),
        Format::Obp(arguments) => import_obp(&arguments.file, output),
    };
    write(&imported?, output)?;
    Ok(Exit::DONE)
}

fn import_envoy(paths: &[PathBuf]) -> Result<Imported, Failure> {
    let files = paths.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
    let files: Vec<SourceFile<'_>> = files.iter().map(|(name, bytes)| SourceFile { name, bytes }).collect();
    envoy::import(&files).map_err(failure)
}

fn import_obp(path: &Path, output: &Output) -> Result<Imported, Failure> {
    let (name, bytes) = read(path)?;
    // A terminal would show the password and keep it in its scrollback.
    let shown = !output.is_json() && std::io::stdout().is_terminal();
    let password = if shown { Password::Hide } else { Password::Write };
    obp::import(SourceFile { name: &name, bytes: &bytes }, password).map_err(failure)
}

/// The name and content of a file. Reads at most one byte more than the limit; the library then rejects the file.
fn read(path: &Path) -> Result<(String, Vec<u8>), Failure> {
    let name = path.display().to_string();
    let mut bytes = Vec::new();
    let most = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    File::open(path)
        .and_then(|file| file.take(most).read_to_end(&mut bytes))
        .map_err(|error| Failure::unreadable(Exit::DATA, &name, &error))?;
    Ok((name, bytes))
}

fn failure(error: ImportError) -> Failure {
    let advice = matches!(error, ImportError::NoConfig(_))
        .then_some("remove the limits that the message names, and convert them by hand");
    let failure = Failure::new(Exit::DATA, error);
    match advice {
        Some(advice) => failure.advise(advice),
        None => failure,
    }
}

/// Writes the config to standard output and notes to standard error, or both as one JSON object.
fn write(imported: &Imported, output: &Output) -> Result<(), Failure> {
    let Imported { config, notes, hides_password } = imported;
    if output.is_json() {
        return output.json(&json!({ "config": config, "notes": notes }));
    }
    output.bytes(config.as_bytes())?;
    output.flush()?;
    notes.iter().for_each(|note| output.warning(note));
    if *hides_password {
        output.warning("the password is not shown on a terminal; redirect to a file: > tollway.toml");
    }
    Ok(())
}

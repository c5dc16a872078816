//! `tollway policy import`: a config made of the limits that another system keeps in a file.

use std::fs::File;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

use serde_json::json;
use tollway_import::obp::Password;
use tollway_import::{FILE_BYTES_MAX, ImportError, Imported, SourceFile, envoy, obp};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Make a config of limits that another system has in a file
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
  0    done; what has no counterpart is told on standard error
  65   a file is not one of Envoy's rate limit service";

/// Make a config of files of Envoy's rate limit service (envoyproxy/ratelimit)
///
/// Writes policies and [[server.descriptors]] to standard output, and tells on standard error what has no counterpart here.
/// The page docs/guide/envoy.md tells how to go on.
#[derive(Debug, clap::Args)]
#[command(after_help = ENVOY_EXAMPLES)]
struct EnvoyArguments {
    /// Its files, in YAML: one for each domain
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

const OBP_EXAMPLES: &str = "\
Examples:
  tollway policy import obp default.props > tollway.toml
  tollway policy import obp default.props > tollway.toml && tollway doctor

Exit codes:
  0    done; what has no counterpart is told on standard error
  65   the file is no file of properties, or a value in it is wrong";

/// Make a config of the properties of OBP-API that limit its consumers
///
/// Reads use_consumer_limits, cache.redis.*, redis.use.ssl, the truststore and the keystore of Redis,
/// user_consumer_limit_anonymous_access and rate_limiting_per_*; what is not in the file has the default that it has there.
/// Other properties are passed over, and named if they are about limits or Redis. The password of Redis stands in what is
/// written, but is not shown on a terminal.
#[derive(Debug, clap::Args)]
#[command(after_help = OBP_EXAMPLES)]
struct ObpArguments {
    /// Its file, such as default.props
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
    // A terminal shows the password to others and keeps it in its scrollback.
    let shown = !output.is_json() && std::io::stdout().is_terminal();
    let password = if shown { Password::Hide } else { Password::Write };
    obp::import(SourceFile { name: &name, bytes: &bytes }, password).map_err(failure)
}

/// The name and the content of a file. Of one that is too large, one byte more than the bound: the library refuses it.
fn read(path: &Path) -> Result<(String, Vec<u8>), Failure> {
    let name = path.display().to_string();
    let mut bytes = Vec::new();
    let most = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    File::open(path)
        .and_then(|file| file.take(most).read_to_end(&mut bytes))
        .map_err(|error| Failure::new(Exit::DATA, format!("{name}: {error}")))?;
    Ok((name, bytes))
}

fn failure(error: ImportError) -> Failure {
    let advice = matches!(error, ImportError::NoConfig(_))
        .then_some("leave the limits out that it speaks of, and write them by hand");
    let failure = Failure::new(Exit::DATA, error);
    match advice {
        Some(advice) => failure.advise(advice),
        None => failure,
    }
}

/// The config on standard output, the notes on standard error; or both in one object of JSON.
fn write(imported: &Imported, output: &Output) -> Result<(), Failure> {
    let Imported { config, notes, hides_password } = imported;
    if output.is_json() {
        return output.json(&json!({ "config": config, "notes": notes }));
    }
    output.bytes(config.as_bytes())?;
    output.flush()?;
    notes.iter().for_each(|note| output.warning(note));
    if *hides_password {
        output.warning("the password is not shown on a terminal; write into a file: > tollway.toml");
    }
    Ok(())
}

//! `tollway policy import obp`: the properties of OBP-API as a config.
//!
//! `properties` is Java's way to write them, `settings` what they mean, `config` what is written.

mod config;
mod properties;
mod settings;

use std::fs::File;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

use serde_json::json;
use tollway_server::ConfigWithServer;

use crate::context::Context;
use crate::failure::{Exit, Failure};
use config::Style;
use settings::Settings;

/// The largest file that is read: as large as a config may be.
const FILE_BYTES_MAX: u64 = 1 << 20;

const EXAMPLES: &str = "\
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
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Its file, such as default.props
    file: PathBuf,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let path = &arguments.file;
    let wrong = |message: String| Failure::new(Exit::DATA, format!("{}: {message}", path.display()));
    let properties = read(path).and_then(|bytes| properties::read(&bytes)).map_err(wrong)?;
    let settings = Settings::of(&properties).map_err(wrong)?;
    check(&settings, path)?;
    let output = context.output();
    let is_json = output.is_json();
    // What stands on a screen is seen, and stays in its memory.
    let hides = settings.password.is_some() && !is_json && std::io::stdout().is_terminal();
    let config = config::write(&settings, path, Style { password: !hides, tls: true });
    if is_json {
        output.json(&json!({ "config": config, "notes": settings.notes }))?;
        return Ok(Exit::DONE);
    }
    output.bytes(config.as_bytes())?;
    output.flush()?;
    settings.notes.iter().for_each(|note| output.warning(note));
    if hides {
        output.warning("the password is not shown on a terminal; write into a file: > tollway.toml");
    }
    Ok(Exit::DONE)
}

/// What is written must be understood again.
fn check(settings: &Settings, path: &Path) -> Result<(), Failure> {
    let style = Style { password: true, tls: cfg!(feature = "redis-tls") };
    ConfigWithServer::parse(&config::write(settings, path, style)).map(drop).map_err(|error| {
        Failure::new(Exit::DATA, format!("{}: these properties make no config: {error}", path.display()))
    })
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    file.take(FILE_BYTES_MAX.saturating_add(1)).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > FILE_BYTES_MAX) {
        return Err(format!("it has more than the {FILE_BYTES_MAX} bytes that are read"));
    }
    Ok(bytes)
}

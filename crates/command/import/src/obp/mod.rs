//! Properties of OBP-API that limit its consumers, such as `default.props`.

mod config;
mod properties;
mod settings;

use tollway_server::ConfigWithServer;

use crate::source::{ImportError, Imported, SourceFile};
use config::Style;
use settings::Settings;

/// What to do with the password of Redis, if the file has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Password {
    /// Write it into the config.
    Write,
    /// Write `...` instead, for a config that is shown on a screen.
    Hide,
}

/// Makes a config of a file of properties. A property that is missing has the default that OBP-API gives it.
///
/// ```
/// use tollway_import::{SourceFile, obp};
///
/// let props = b"use_consumer_limits=true\nrate_limiting_per_hour=100\n";
/// let file = SourceFile { name: "default.props", bytes: props };
/// let imported = obp::import(file, obp::Password::Write)?;
/// assert!(imported.config.contains("per_hour = 100  # rate_limiting_per_hour"));
/// # Ok::<(), tollway_import::ImportError>(())
/// ```
pub fn import(file: SourceFile<'_>, password: Password) -> Result<Imported, ImportError> {
    let wrong = |problem: String| file.wrong(problem);
    let properties = properties::read(file.bounded()?).map_err(wrong)?;
    let settings = Settings::of(&properties).map_err(wrong)?;
    let checked = Style { password: true, tls: cfg!(feature = "redis-tls") };
    ConfigWithServer::parse(&config::write(&settings, file.name, checked))
        .map_err(|error| file.wrong(format!("these properties make no config: {error}")))?;
    let hides_password = settings.password.is_some() && password == Password::Hide;
    let config = config::write(&settings, file.name, Style { password: !hides_password, tls: true });
    Ok(Imported { config, notes: settings.notes, hides_password })
}

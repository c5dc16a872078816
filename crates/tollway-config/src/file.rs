//! Finds and reads the config file, up to a size limit, and keeps its text for comparison.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::error::ConfigError;
use crate::report::Report;
use crate::section::Section;
use crate::sections::FromConfig;

/// The largest config file, in bytes.
pub const CONFIG_BYTES_MAX: usize = 1 << 20;

/// The default config file, in the working directory.
pub const CONFIG_FILE: &str = "tollway.toml";

/// The environment variable that names the config file.
pub const CONFIG_VARIABLE: &str = "TOLLWAY_CONFIG";

/// A config together with its source file, so that later changes can be detected.
///
/// See [`ConfigFile::watch`].
#[derive(Clone, Debug)]
pub struct ConfigFile<C> {
    pub(crate) path: PathBuf,
    pub(crate) content: Vec<u8>,
    pub(crate) config: C,
}

impl<C: FromConfig> ConfigFile<C> {
    /// Reads the config file at `path`.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let path = path.as_ref().to_owned();
        let content = read(&path, &path)?;
        let config = parse_file(&path, &content)?;
        Ok(Self { path, content, config })
    }

    /// The path of the file, as given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The config as of the last read.
    pub fn config(&self) -> &C {
        &self.config
    }

    /// The config as of the last read.
    pub fn into_config(self) -> C {
        self.config
    }
}

/// Parses a config.
pub fn parse<C: FromConfig>(text: &str) -> Result<C, ConfigError> {
    check_size(text.len())?;
    let report = Report::new(text);
    let config = report.tables().map(|tables| {
        let mut root = Section::root(&report, tables.get_ref());
        let config = C::read(&mut root);
        root.finish_file();
        config
    });
    report.finish(config)
}

/// Reads the config file at `path` as an earlier version of `current`: relative paths in it start at `current`'s folder.
pub fn load_earlier<C: FromConfig>(path: impl AsRef<Path>, current: &Path) -> Result<C, ConfigError> {
    let path = path.as_ref();
    let folder = current.parent().unwrap_or(Path::new(""));
    parse_in(folder, path, &read(path, path)?)
}

/// The path of the config file: the explicit path, else `$TOLLWAY_CONFIG`, else `./tollway.toml`.
///
/// If there is no such file, the error says where it was searched ([`ConfigError::is_not_found`]).
pub fn find_path(explicit: Option<&Path>) -> Result<PathBuf, ConfigError> {
    find(explicit, std::env::var_os(CONFIG_VARIABLE), Path::new("."))
}

/// The bytes of the file at `path`; errors name it `shown`.
pub(crate) fn read(path: &Path, shown: &Path) -> Result<Vec<u8>, ConfigError> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => ConfigError::whole("there is no such file", "").not_found(),
        _ => ConfigError::whole(format!("the file cannot be read: {error}"), ""),
    };
    let mut content = Vec::new();
    // One byte over the limit detects a file that is too large, without reading all of it.
    let bound = u64::try_from(CONFIG_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    File::open(path)
        .and_then(|file| file.take(bound).read_to_end(&mut content))
        .map_err(failed)
        .and_then(|_| check_size(content.len()))
        .map_err(|error| error.in_file(shown))?;
    Ok(content)
}

pub(crate) fn parse_file<C: FromConfig>(path: &Path, content: &[u8]) -> Result<C, ConfigError> {
    parse_in(path.parent().unwrap_or(Path::new("")), path, content)
}

/// Parses the file as if it were in this folder.
fn parse_in<C: FromConfig>(folder: &Path, path: &Path, content: &[u8]) -> Result<C, ConfigError> {
    let config = match std::str::from_utf8(content) {
        Ok(text) => parse::<C>(text),
        Err(error) => Err(not_text(content, error.valid_up_to())),
    };
    let in_folder = |mut config: C| {
        config.in_folder(folder);
        config
    };
    config.map(in_folder).map_err(|error| error.in_file(path))
}

fn check_size(bytes: usize) -> Result<(), ConfigError> {
    if bytes > CONFIG_BYTES_MAX {
        let message = format!("a config of more than {CONFIG_BYTES_MAX} bytes is not read");
        return Err(ConfigError::whole(message, "check that it is the right file"));
    }
    Ok(())
}

fn not_text(content: &[u8], good: usize) -> ConfigError {
    let text = String::from_utf8_lossy(content);
    let report = Report::new(&text);
    // Everything before the first invalid byte is the same in both.
    report.problem(
        good..good.saturating_add(1),
        "the file is not UTF-8 text from here on",
        "save it as UTF-8",
    );
    match report.finish::<()>(None) {
        Err(error) => error,
        Ok(()) => ConfigError::whole("the file is not UTF-8 text", "save it as UTF-8"),
    }
}

/// The explicit path, else the variable, else the file in the folder; the first that is set must exist.
fn find(explicit: Option<&Path>, variable: Option<OsString>, folder: &Path) -> Result<PathBuf, ConfigError> {
    let variable = variable.filter(|path| !path.is_empty()).map(PathBuf::from);
    let (path, message, advice) = match (explicit, variable) {
        (Some(path), _) => (path.to_owned(), "there is no such file".to_owned(), "check the path"),
        (None, Some(path)) => {
            let message = format!("there is no such file, but ${CONFIG_VARIABLE} names it");
            (path, message, "correct the variable or unset it")
        }
        (None, None) => {
            let message = format!(
                "there is no config file: none was named, ${CONFIG_VARIABLE} is not set, and the working folder has \
                 no {CONFIG_FILE}"
            );
            (folder.join(CONFIG_FILE), message, "write one, or name it")
        }
    };
    // A dangling link counts as no file; a path without permission is reported when it is read.
    match path.try_exists() {
        Ok(false) => Err(ConfigError::whole(message, advice).in_file(&path).not_found()),
        _ => Ok(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_explicit_path_wins_and_must_exist() {
        let folder = tempfile::tempdir().unwrap();
        let [default, named, other] =
            [CONFIG_FILE, "named.toml", "other.toml"].map(|file| folder.path().join(file));
        let find = |explicit: Option<&Path>, variable: Option<&Path>| {
            super::find(explicit, variable.map(|path| path.as_os_str().to_owned()), folder.path())
        };
        let nowhere = find(None, None).unwrap_err();
        assert!(nowhere.is_not_found());
        assert!(nowhere.message().contains("$TOLLWAY_CONFIG is not set"), "{nowhere}");

        for path in [&default, &named, &other] {
            std::fs::write(path, "").unwrap();
        }
        assert_eq!(find(Some(&named), Some(&other)), Ok(named));
        assert_eq!(find(None, Some(&other)), Ok(other.clone()));
        assert_eq!(find(None, Some(Path::new(""))), Ok(default.clone()));
        assert_eq!(find(None, None), Ok(default));

        std::fs::remove_file(&other).unwrap();
        let gone = find(None, Some(&other)).unwrap_err();
        assert!(gone.message().contains("$TOLLWAY_CONFIG names it"), "{gone}");
        assert!(find(Some(&other), None).unwrap_err().is_not_found());
    }
}

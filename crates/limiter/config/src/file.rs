//! Finds and reads the config file with those it includes, up to a size limit, and keeps their texts for comparison.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use toml::de::DeTable;

use crate::error::ConfigError;
use crate::include::{ConfigText, check_size, read_all};
use crate::report::ProblemReport;
use crate::section::Section;
use crate::sections::FromConfig;

/// The largest config, all of its files together, in bytes: 100,000 policies of two limits take a third of it.
pub const CONFIG_BYTES_MAX: usize = 32 << 20;

/// The default config file, in the working directory.
pub const CONFIG_FILE: &str = "tollway.toml";

/// The environment variable that names the config file.
pub const CONFIG_VARIABLE: &str = "TOLLWAY_CONFIG";

/// A config together with its source files, so that later changes can be detected.
///
/// See [`ConfigFile::watch`].
#[derive(Clone, Debug)]
pub struct ConfigFile<C> {
    pub(crate) path: PathBuf,
    pub(crate) texts: Vec<ConfigText>,
    pub(crate) config: C,
}

impl<C: FromConfig> ConfigFile<C> {
    /// Reads the config file at `path`.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let path = path.as_ref().to_owned();
        let texts = read_all(&path, &path, folder_of(&path))?;
        let config = parse_files(&path, &texts)?;
        Ok(Self { path, texts, config })
    }

    /// All files that it was read from: the file itself, then those that it includes.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.texts.iter().map(|text| text.shown.as_path())
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

/// Parses a config. Without a folder it can include no files.
pub fn parse<C: FromConfig>(text: &str) -> Result<C, ConfigError> {
    check_size(text.len(), CONFIG_BYTES_MAX)?;
    let report = ProblemReport::new(text);
    let config = report.tables().map(|tables| read_sections(&report, &tables));
    report.finish(config)
}

/// Reads the config file at `path` as an earlier version of `current`: relative paths in it start at `current`'s folder.
pub fn load_earlier<C: FromConfig>(path: impl AsRef<Path>, current: &Path) -> Result<C, ConfigError> {
    let path = path.as_ref();
    let texts = read_all(path, path, folder_of(current))?;
    parse_in(folder_of(current), path, &texts)
}

/// The path of the config file: the explicit path, else `$TOLLWAY_CONFIG`, else `./tollway.toml`.
///
/// If there is no such file, the error says where it was searched ([`ConfigError::is_not_found`]).
pub fn find_path(explicit: Option<&Path>) -> Result<PathBuf, ConfigError> {
    find(explicit, std::env::var_os(CONFIG_VARIABLE), Path::new("."))
}

/// Parses the texts of the files of a config, whose first is at `path`.
pub(crate) fn parse_files<C: FromConfig>(path: &Path, texts: &[ConfigText]) -> Result<C, ConfigError> {
    parse_in(folder_of(path), path, texts)
}

/// Parses the files as if the first were in this folder.
fn parse_in<C: FromConfig>(folder: &Path, path: &Path, texts: &[ConfigText]) -> Result<C, ConfigError> {
    let report = ProblemReport::of_files(texts);
    let config = report.tables().map(|tables| {
        let mut config: C = read_sections(&report, &tables);
        config.in_folder(folder);
        config
    });
    report.finish(config).map_err(|error| error.in_file(path))
}

fn read_sections<C: FromConfig>(report: &ProblemReport<'_>, tables: &DeTable<'_>) -> C {
    let mut root = Section::root(report, tables);
    let config = C::read(&mut root);
    root.finish_file();
    config
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
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

//! Finding the programs of servers.

use std::env;
use std::path::{Path, PathBuf};

/// A program in PATH, or in one of these folders.
pub(super) fn find(name: &str, elsewhere: &[PathBuf]) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders = env::split_paths(&path).chain(elsewhere.iter().cloned());
    folders.find_map(|folder| Some(folder.join(name)).filter(|program| program.is_file()))
}

/// The same, or a panic that says what to install.
pub(super) fn find_or_say(name: &str, elsewhere: &[PathBuf], package: &str) -> PathBuf {
    find(name, elsewhere).unwrap_or_else(|| {
        panic!("this test needs the program {name}; install it: apt-get install {package}")
    })
}

/// Where Debian keeps Postgres, newest first.
pub(super) fn postgres_folders() -> Vec<PathBuf> {
    let versions = Path::new("/usr/lib/postgresql").read_dir().into_iter().flatten().flatten();
    let mut versions: Vec<u32> =
        versions.filter_map(|version| version.file_name().to_str()?.parse().ok()).collect();
    versions.sort_unstable_by(|one, other| other.cmp(one));
    versions.into_iter().map(|version| PathBuf::from(format!("/usr/lib/postgresql/{version}/bin"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_in_path_or_elsewhere() {
        assert!(find("sh", &[]).is_some());
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(find("a-server", &[folder.path().to_owned()]), None);
        std::fs::write(folder.path().join("a-server"), "").unwrap();
        assert_eq!(find("a-server", &[folder.path().to_owned()]), Some(folder.path().join("a-server")));
    }

    #[test]
    #[should_panic(expected = "needs the program a-server; install it: apt-get install a-package")]
    fn a_missing_program_says_what_to_install() {
        find_or_say("a-server", &[], "a-package");
    }
}

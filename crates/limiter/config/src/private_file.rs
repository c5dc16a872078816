//! Files that hold what strangers must not read: jobs, records, their backups.
//!
//! None is opened through a symbolic link in the last part of its path: what is written through it would be in a file that
//! another user chose. The system refuses it (`O_NOFOLLOW`); a look before opening could be too early.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// What an error says about a symbolic link, also one that another library found.
pub const REFUSED_LINK: &str =
    "it is a symbolic link, and no file is written through one; name the file that it points to";

/// Creates an empty file that only its owner may read, for a library that would create it readable for all. An existing file
/// keeps its mode, and may be a link: the library has to refuse it.
///
/// Never opens an existing file: SQLite's locks on it end when this process closes any other handle.
pub fn create_private(path: &Path) -> io::Result<()> {
    match private(OpenOptions::new().write(true).create_new(true)).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        created => created.map(drop),
    }
}

/// Opens a file as these options say. If they create it, only its owner may read it.
pub fn open_private(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    private(options).open(path).map_err(|error| match is_link(&error) {
        true => io::Error::new(io::ErrorKind::InvalidInput, REFUSED_LINK),
        false => error,
    })
}

/// The path with the links of its folder followed, for a library that refuses links in folders, too (SQLite). A folder that
/// is missing is the library's to report.
pub fn in_real_folder(path: &Path) -> PathBuf {
    let Some(name) = path.file_name() else { return path.to_owned() };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new(".")).canonicalize();
    folder.map_or_else(|_| path.to_owned(), |folder| folder.join(name))
}

/// Only the owner may read the created file.
#[cfg(unix)]
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;

    let no_link = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or_default();
    options.mode(0o600).custom_flags(no_link)
}

/// Elsewhere the permissions of the directory apply.
#[cfg(not(unix))]
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Whether the system refused a link in the last part of a path.
#[cfg(unix)]
fn is_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}

#[cfg(not(unix))]
fn is_link(_: &io::Error) -> bool {
    false
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// Enough for a look before each opening to be too early in some.
    const OPENINGS: u32 = 20_000;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn open(path: &Path) -> io::Result<File> {
        open_private(path, OpenOptions::new().read(true).write(true).create(true).truncate(false))
    }

    #[test]
    fn a_new_file_is_private_and_an_existing_one_keeps_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let (new, old) = (folder.path().join("new"), folder.path().join("old"));
        create_private(&new).unwrap();
        assert_eq!(mode(&new), 0o600);
        fs::write(&old, "kept").unwrap();
        fs::set_permissions(&old, fs::Permissions::from_mode(0o640)).unwrap();
        create_private(&old).unwrap();
        open(&old).unwrap();
        assert_eq!((mode(&old), fs::read_to_string(&old).unwrap().as_str()), (0o640, "kept"));
    }

    #[test]
    fn a_link_is_refused_and_its_target_is_not_created() {
        let folder = tempfile::tempdir().unwrap();
        let (link, target) = (folder.path().join("link"), folder.path().join("target"));
        symlink(&target, &link).unwrap();
        create_private(&link).unwrap();
        assert!(open(&link).unwrap_err().to_string().contains("symbolic link"));
        assert!(!target.exists());
        let through = folder.path().join("folder");
        symlink(folder.path(), &through).unwrap();
        open(&through.join("file")).unwrap();
        assert_eq!(in_real_folder(&through.join("link")), folder.path().canonicalize().unwrap().join("link"));
        assert_eq!(in_real_folder(Path::new("x/none/here")), Path::new("x/none/here"));
    }

    /// Another user exchanges the file and a link all the time.
    #[test]
    fn a_link_that_is_put_there_meanwhile_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let in_folder = |name: &str| folder.path().join(name);
        let (path, target) = (in_folder("file"), in_folder("target"));
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    fs::write(in_folder("plain"), "").unwrap();
                    fs::rename(in_folder("plain"), &path).unwrap();
                    symlink(&target, in_folder("link")).unwrap();
                    fs::rename(in_folder("link"), &path).unwrap();
                }
            });
            let opened = (0..OPENINGS).filter(|_| open(&path).is_ok()).count();
            ended.store(true, Ordering::Relaxed);
            assert!(opened > 0);
        });
        assert!(!target.exists(), "the link was followed");
    }
}

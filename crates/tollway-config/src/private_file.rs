//! Files that hold what strangers must not read: jobs, records, their backups.

use std::fs::{File, OpenOptions, symlink_metadata};
use std::io;
use std::path::Path;

/// Creates an empty file that only its owner may read, for a library that would create it readable for all. An existing file
/// keeps its mode. A symbolic link is an error: what is written through it would be in a file that another user chose.
///
/// Never opens an existing file: SQLite's locks on it end when this process closes any other handle.
pub fn create_private(path: &Path) -> io::Result<()> {
    match symlink_metadata(path) {
        Ok(_) => refuse_link(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            match private(OpenOptions::new().write(true).create_new(true)).open(path) {
                // Another process was faster.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => refuse_link(path),
                created => created.map(drop),
            }
        }
        Err(error) => Err(error),
    }
}

/// Opens a file for reading and writing, and creates it like [`create_private`]. Not truncated.
pub fn open_private(path: &Path) -> io::Result<File> {
    create_private(path)?;
    OpenOptions::new().read(true).write(true).open(path)
}

/// An error if the last part of the path is a symbolic link. Folders before it may be.
pub fn refuse_link(path: &Path) -> io::Result<()> {
    if symlink_metadata(path).is_ok_and(|found| found.is_symlink()) {
        let message =
            "it is a symbolic link, and no file is written through one; name the file that it points to";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok(())
}

/// Only the owner may read the created file.
#[cfg(unix)]
pub fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600)
}

/// Elsewhere the permissions of the directory apply.
#[cfg(not(unix))]
pub fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_new_file_is_private_and_an_existing_one_keeps_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let (new, old) = (folder.path().join("new"), folder.path().join("old"));
        create_private(&new).unwrap();
        assert_eq!(mode(&new), 0o600);
        fs::write(&old, "kept").unwrap();
        fs::set_permissions(&old, fs::Permissions::from_mode(0o640)).unwrap();
        open_private(&old).unwrap();
        assert_eq!((mode(&old), fs::read_to_string(&old).unwrap().as_str()), (0o640, "kept"));
    }

    #[test]
    fn a_link_is_refused_and_its_target_is_not_created() {
        let folder = tempfile::tempdir().unwrap();
        let (link, target) = (folder.path().join("link"), folder.path().join("target"));
        symlink(&target, &link).unwrap();
        assert!(create_private(&link).unwrap_err().to_string().contains("symbolic link"));
        assert!(open_private(&link).is_err() && !target.exists());
        let through = folder.path().join("folder");
        symlink(folder.path(), &through).unwrap();
        open_private(&through.join("file")).unwrap();
    }
}

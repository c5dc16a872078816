//! What is free on the disk of a file.

use std::path::Path;

/// How many bytes this user can write where the file is. None: the system does not say.
pub(super) fn beside(file: &Path) -> Option<u64> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    within(folder)
}

/// The same for a folder.
pub(super) fn within(folder: &Path) -> Option<u64> {
    let space = rustix::fs::statvfs(folder).ok()?;
    Some(space.f_bavail.saturating_mul(space.f_frsize))
}

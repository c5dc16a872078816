//! Whether the file of a store can be written.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;

use rustix::fs::{Access, access};

use super::finding::{Finding, Findings};

/// Looks at the file, or at where it would be made.
pub(super) fn look_at(path: &Path, findings: &mut Findings) {
    findings.looked_at(format!("store file:{}", path.display()));
    if let Err(error) = writable(path) {
        findings.add(Finding::problem(
            "state-not-writable",
            format!("the store's file {} cannot be written: {error}", path.display()),
            "every take fails, or is answered as `when_store_fails` says, and nothing is counted",
            "let the user who runs the processes write it and its folder, or name another: [store] url = \"file:PATH\"",
        ));
    }
}

/// Opens a file that is there, without changing it; of one that is not, asks for the folder that it would be made in.
fn writable(path: &Path) -> io::Result<()> {
    if path.exists() {
        return OpenOptions::new().read(true).write(true).open(path).map(drop);
    }
    let above = path.ancestors().skip(1).map(|folder| match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    });
    let Some(folder) = above.into_iter().find(|folder| folder.exists()) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    if !folder.is_dir() {
        return Err(io::Error::new(
            io::ErrorKind::NotADirectory,
            format!("{} is no folder", folder.display()),
        ));
    }
    Ok(access(folder, Access::WRITE_OK | Access::EXEC_OK)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_can_be_written_where_a_folder_can_be_made() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("a/b/state");
        assert!(writable(&state).is_ok());
        assert!(!folder.path().join("a").exists(), "nothing is made");
        std::fs::write(folder.path().join("a"), "").unwrap();
        assert!(writable(&state).unwrap_err().to_string().contains("is no folder"));
        assert!(writable(folder.path()).is_err(), "a folder is no file");
        assert!(writable(Path::new("state-that-is-not-there")).is_ok());
    }
}

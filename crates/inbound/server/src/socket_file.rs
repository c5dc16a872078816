//! Unix sockets: binding creates a file, its mode says who may connect, and closing removes it.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixSocket, UnixStream};

use crate::bounds::BACKLOG;

/// The file of a listening socket. Dropping it removes the file, so that no client finds a dead socket.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Device and inode tell this file from one that another process has put there since. While the socket is open, no
    /// other file can have them.
    identity: (u64, u64),
}

impl SocketFile {
    fn at(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), identity: identity(path)? })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|found| found == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// Listens on this path. The mode is set before any client can connect.
pub(crate) async fn bind_unix(path: &Path, mode: Option<u32>) -> io::Result<(SocketFile, UnixListener)> {
    remove_left_over(path).await?;
    let socket = UnixSocket::new_stream()?;
    socket.bind(path)?;
    let file = SocketFile::at(path)?;
    if let Some(mode) = mode {
        fs::set_permissions(path, Permissions::from_mode(mode))?;
    }
    Ok((file, socket.listen(BACKLOG)?))
}

/// Removes the socket of a server that was killed: a socket without a listener. The file type is checked first, because
/// connecting to any other file fails with the same error.
async fn remove_left_over(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(found) if !found.file_type().is_socket() => {
            let message = "a file that is not a socket is there; move it away, or listen elsewhere";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path).await {
        Ok(_) => Err(io::ErrorKind::AddrInUse.into()),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

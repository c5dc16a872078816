//! A certificate for localhost that a test makes for itself.

use std::path::Path;
use std::process::Command;

use tollway::TlsFiles;

/// Makes it in this folder; nobody but itself has signed it.
pub(crate) fn certificate(folder: &Path) -> TlsFiles {
    let arguments = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
                     -addext subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE \
                     -keyout server.key -out server.pem";
    let made = Command::new("openssl").args(arguments.split_whitespace()).current_dir(folder).output();
    let made =
        made.unwrap_or_else(|error| panic!("openssl is needed (Debian: apt-get install openssl): {error}"));
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    TlsFiles { certificate: folder.join("server.pem"), key: folder.join("server.key") }
}

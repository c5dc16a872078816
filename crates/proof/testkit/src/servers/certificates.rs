//! Certificates for servers that speak TLS, made by openssl.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes an authority (`ca.crt`, `ca.key`) and a certificate of it for localhost (`one.crt`, `one.key`). Returns the new
/// folder `name` that they are in.
pub fn certificates(folder: &Path, name: &str) -> PathBuf {
    let folder = folder.join(name);
    fs::create_dir(&folder).expect("a new folder for certificates");
    fs::write(folder.join("names"), "subjectAltName=DNS:localhost\n").expect("a file in a new folder");
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(&folder, &format!("req -x509 {key} -keyout ca.key -out ca.crt -days 2 -subj /CN={name}"));
    openssl(&folder, &format!("req {key} -keyout one.key -out one.csr -subj /CN=localhost"));
    let sign = "x509 -req -in one.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2";
    openssl(&folder, &format!("{sign} -extfile names -out one.crt"));
    folder
}

/// Makes a self-signed certificate for localhost, `server.pem` and `server.key`.
pub fn self_signed_certificate(folder: &Path) {
    let request = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
                   -addext subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE";
    openssl(folder, &format!("{request} -keyout server.key -out server.pem"));
}

fn openssl(folder: &Path, arguments: &str) {
    let made = Command::new("openssl").args(arguments.split_whitespace()).current_dir(folder).output();
    let made =
        made.unwrap_or_else(|error| panic!("openssl is needed (Debian: apt-get install openssl): {error}"));
    assert!(made.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&made.stderr));
}

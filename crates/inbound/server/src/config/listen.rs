//! Listen addresses: an IP address and a port, or a unix socket.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use tollway_config::Section;

/// The permission bits. Higher bits mean nothing for a socket.
const MODE_MAX: u32 = 0o777;

/// Where a server listens.
///
/// ```
/// use tollway_server::ListenAddress;
///
/// assert!(matches!("127.0.0.1:8080".parse(), Ok(ListenAddress::Tcp(_))));
/// let socket = "unix:/run/tollway.sock?mode=0660".parse();
/// assert_eq!(socket, Ok(ListenAddress::Unix { path: "/run/tollway.sock".into(), mode: Some(0o660) }));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// An address and a port; port 0 picks a free one.
    Tcp(SocketAddr),
    /// A unix socket.
    Unix {
        /// Its path.
        path: PathBuf,
        /// Its permissions, as for `chmod`; `None` leaves them to the umask.
        mode: Option<u32>,
    },
}

impl ListenAddress {
    /// Whether only processes of this machine can reach it.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().to_canonical().is_loopback(),
            Self::Unix { .. } => true,
        }
    }

    pub(super) fn path_mut(&mut self) -> Option<&mut PathBuf> {
        match self {
            Self::Tcp(_) => None,
            Self::Unix { path, .. } => Some(path),
        }
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some(socket) => read_socket(socket),
            None => text.parse().map(Self::Tcp).map_err(|_| {
                let text = beginning(text);
                format!("{text:?} is not a listen address; write an IP address and a port like 127.0.0.1:8080, or unix:PATH")
            }),
        }
    }
}

/// A path, or one with a mode: `/run/tollway.sock?mode=0660`.
fn read_socket(text: &str) -> Result<ListenAddress, String> {
    let (path, mode) = match text.split_once('?') {
        None => (text, None),
        Some((path, choice)) => (path, Some(read_mode(choice)?)),
    };
    if path.is_empty() {
        return Err("the path is missing; write it like unix:/run/tollway.sock".to_owned());
    }
    Ok(ListenAddress::Unix { path: path.into(), mode })
}

fn read_mode(choice: &str) -> Result<u32, String> {
    let digits =
        choice.strip_prefix("mode=").filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()));
    let mode = digits.and_then(|digits| u32::from_str_radix(digits, 8).ok());
    mode.filter(|mode| *mode <= MODE_MAX).ok_or_else(|| {
        let choice = beginning(choice);
        format!("{choice:?} is not a socket mode; write octal digits up to 0777, like ?mode=0660")
    })
}

/// The beginning of a wrong value, for the message.
fn beginning(text: &str) -> String {
    text.chars().take(80).collect()
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix { path, mode: None } => write!(f, "unix:{}", path.display()),
            Self::Unix { path, mode: Some(mode) } => write!(f, "unix:{}?mode={mode:04o}", path.display()),
        }
    }
}

pub(super) fn read(section: &mut Section<'_>, key: &'static str, example: &str) -> Option<ListenAddress> {
    let text = section.string(key, example)?;
    text.get_ref().parse().map_err(|message: String| section.problem(key, message, "")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_and_sockets_are_local() {
        for (address, local) in [
            ("127.0.0.1:1", true),
            ("[::1]:1", true),
            ("[::ffff:127.0.0.1]:1", true),
            ("unix:/run/x", true),
            ("unix:/run/x?mode=0660", true),
            ("0.0.0.0:1", false),
            ("[::]:1", false),
            ("10.0.0.1:1", false),
        ] {
            let address: ListenAddress = address.parse().unwrap();
            assert_eq!(address.is_local(), local, "{address}");
            assert_eq!(address.to_string().parse(), Ok(address));
        }
    }

    #[test]
    fn socket_mode_is_parsed_as_octal() {
        let mode = |text: &str| match format!("unix:/run/x?{text}").parse() {
            Ok(ListenAddress::Unix { path, mode }) => {
                assert_eq!(path, PathBuf::from("/run/x"));
                mode
            }
            _ => None,
        };
        assert_eq!(
            ["mode=0660", "mode=660", "mode=0", "mode=0777"].map(mode),
            [0o660, 0o660, 0, 0o777].map(Some)
        );
        for wrong in
            ["", "mode", "mode=", "mode=0o660", "mode=+660", "mode=1777", "mode=689", "mode=rw", "owner=me"]
        {
            assert_eq!(mode(wrong), None, "{wrong}");
        }
        assert!("unix:?mode=0660".parse::<ListenAddress>().is_err());
    }
}

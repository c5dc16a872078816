//! Signs an event, so that the receiver knows who sent it, and when.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The value of `Tollway-Signature`: `v1=` and the HMAC-SHA256 of `TIMESTAMP.BODY` in hexadecimal digits.
///
/// ```
/// let signature = tollway_notify::webhook::sign("secret", 1_700_000_000, b"{}");
/// assert!(signature.starts_with("v1=") && signature.len() == 3 + 64);
/// ```
pub fn sign(secret: &str, timestamp: u64, body: &[u8]) -> String {
    // HMAC takes keys of any length; an empty one never gets here.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else { return String::new() };
    mac.update(timestamp.to_string().as_bytes());
    mac.update(b".");
    mac.update(body);
    let digits = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    format!("v1={digits}")
}

//! The way of the fuzz targets to tickets.

use super::token;

/// Reads the bytes of a ticket and writes it again; nothing if they are none.
pub fn ticket(bytes: &[u8]) -> Option<Vec<u8>> {
    token::read(bytes).and_then(|ticket| token::write(&ticket))
}

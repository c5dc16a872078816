//! The way of the fuzz targets to the parser.

use super::request::{Parsed, parse};

/// What stands at the beginning of what was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RespRead {
    /// The words of a request, none if it asks for nothing, and how many bytes they took.
    Request(Vec<Vec<u8>>, usize),
    /// The beginning of a request.
    Incomplete,
}

/// Reads the request that `input` begins with.
pub fn resp(input: &[u8], authenticated: bool) -> Result<RespRead, String> {
    let mut unquoted = Vec::new();
    let parsed = parse(input, &mut unquoted, authenticated).map_err(|error| error.to_string())?;
    Ok(match parsed {
        Parsed::Request(words, taken) => {
            RespRead::Request(words.iter().map(|word| word.to_vec()).collect(), taken)
        }
        Parsed::Nothing(taken) => RespRead::Request(Vec::new(), taken),
        Parsed::Incomplete => RespRead::Incomplete,
    })
}

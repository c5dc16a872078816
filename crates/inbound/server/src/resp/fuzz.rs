//! Entry point of the fuzz targets for the RESP parser.

use super::request::{Parsed, parse};

/// What the input begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RespRead {
    /// The arguments of a request, none if it is empty, and its length in bytes.
    Request(Vec<Vec<u8>>, usize),
    /// An incomplete request.
    Incomplete,
}

/// Parses the request that `input` begins with.
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

//! The parsers of untrusted input, for the fuzz targets only. Each returns plain values, so that the server's types stay
//! private.

#[cfg(feature = "consumers")]
pub use crate::consumers::fuzz::{neutral_record, record};
pub use crate::grpc::fuzz::envoy_question;
pub use crate::http::fuzz::{observed_headers, permit_questions, query, takes};
pub use crate::permit::fuzz::ticket;
pub use crate::resp::fuzz::{RespRead, resp};

//! Entry point of the fuzz targets for gRPC messages.

use bytes::Bytes;
use prost::Message;

use super::descriptors::subject_of_descriptor;
use super::message::{RateLimitRequest, frame, unframe};
use super::resolve;

/// Parses the body of `ShouldRateLimit`. Returns the request encoded again, and the subject of each descriptor.
pub fn envoy_question(body: &[u8]) -> Result<(Vec<u8>, Vec<String>), String> {
    let message = unframe(Bytes::copy_from_slice(body)).map_err(|failure| format!("{failure:?}"))?;
    let question = RateLimitRequest::decode(message).map_err(|error| error.to_string())?;
    resolve::check(&question).map_err(|failure| format!("{failure:?}"))?;
    let descriptors = question.descriptors.iter();
    let subjects = descriptors.map(|one| subject_of_descriptor(&question.domain, &one.entries)).collect();
    Ok((frame(&question).to_vec(), subjects))
}

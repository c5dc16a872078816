//! The five bytes before a message: whether it is compressed, and how long it is.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;

use super::status::{Code, Failure};

const PREFIX_BYTES: usize = 5;

/// The one message of a body.
pub(super) fn open(mut body: Bytes) -> Result<Bytes, Failure> {
    let bad = |message: &str| Failure::new(Code::InvalidArgument, message);
    let prefix = body.split_to(PREFIX_BYTES.min(body.len()));
    let [compressed, length @ ..] =
        <[u8; PREFIX_BYTES]>::try_from(&*prefix).map_err(|_| bad("there is no message"))?;
    match compressed {
        0 => {}
        // Messages are a few hundred bytes: nobody would gain by it.
        1 => return Err(Failure::new(Code::Unimplemented, "compressed messages are not understood")),
        _ => return Err(bad("the message does not begin as one does in gRPC")),
    }
    let announced = u32::from_be_bytes(length);
    if usize::try_from(announced) != Ok(body.len()) {
        return Err(bad("the body is not one message of the length that it announces"));
    }
    Ok(body)
}

/// A message as a body.
pub(super) fn close(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut body = BytesMut::with_capacity(PREFIX_BYTES.saturating_add(length));
    body.put_u8(0);
    body.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    message.encode_raw(&mut body);
    body.freeze()
}

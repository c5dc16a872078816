//! `/v1/live`: the stream of one viewer.

use bytes::Bytes;
use futures_util::stream::unfold;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use tollway_server::{BoxError, HandledBody};

use crate::feed::Viewer;

/// The events of a viewer, until it closes its connection.
pub(crate) fn body(viewer: Viewer) -> HandledBody {
    let events = unfold(viewer, async |mut viewer| {
        let event = viewer.next().await?;
        Some((Ok::<_, BoxError>(Frame::<Bytes>::data(event)), viewer))
    });
    StreamBody::new(events).boxed_unsync()
}

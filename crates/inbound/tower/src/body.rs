//! The response body: the service's, with the permit that ends with it, or that of a refusal.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tollway::Permit;

pin_project! {
    /// The body of a response that passed through a layer of this crate.
    ///
    /// Under a policy with a concurrency limit it holds the request's slot until it ends or is dropped.
    pub struct LimitedBody<B> {
        #[pin]
        kind: Kind<B>,
    }
}

pin_project! {
    #[project = KindProjection]
    enum Kind<B> {
        Served { #[pin] body: B, permit: Option<Permit> },
        Refused { text: Option<Bytes> },
    }
}

impl<B> LimitedBody<B> {
    pub(crate) fn served(body: B, permit: Option<Permit>) -> Self {
        Self { kind: Kind::Served { body, permit } }
    }

    /// Of a request that did not reach the service.
    pub(crate) fn refused(text: Bytes) -> Self {
        Self { kind: Kind::Refused { text: Some(text).filter(|text| !text.is_empty()) } }
    }
}

impl<B: Body<Data = Bytes>> Body for LimitedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project().kind.project() {
            KindProjection::Refused { text } => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            KindProjection::Served { body, permit } => {
                let frame = body.poll_frame(context);
                if matches!(frame, Poll::Ready(None | Some(Err(_)))) {
                    // The call is over: dropping its permit frees the slot.
                    drop(permit.take());
                }
                frame
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Served { body, .. } => body.is_end_stream(),
            Kind::Refused { text } => text.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Served { body, .. } => body.size_hint(),
            Kind::Refused { text } => {
                let bytes = text.as_ref().map_or(0, Bytes::len);
                SizeHint::with_exact(u64::try_from(bytes).unwrap_or(u64::MAX))
            }
        }
    }
}

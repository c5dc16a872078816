//! The body of an answer: read ahead where it may be a refusal, and the tokens it says it used, as it streams.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::runtime::Handle;
use tollway_dialects::{BodyNeed, Dialect, UsageReader};

use crate::error::BoxError;
use crate::permits::Permits;

/// How long a body without a length is read ahead: it may be a stream, whose reader waits for what came. A refusal comes at
/// once, and with a length.
const SUCCESS_WITHOUT_LENGTH: Duration = Duration::from_millis(250);

/// The same of an error.
const ERROR_WITHOUT_LENGTH: Duration = Duration::from_secs(5);

/// The body of an answer. It passes everything on; when it ends or is dropped, the cost of the call is settled and its
/// slot is free.
pub struct ApiBody<B> {
    /// What was read already.
    ahead: Bytes,
    trailers: Option<HeaderMap>,
    /// The rest; none if all of it was read.
    rest: Option<B>,
    /// Why it broke off while it was read ahead.
    error: Option<BoxError>,
    /// `None` once the call is settled.
    call: Option<Box<Settlement>>,
    /// Present if the tokens matter.
    usage: Option<UsageReader>,
}

/// What is left to do when a body ends.
pub(crate) struct Settlement {
    pub(crate) permits: Permits,
    pub(crate) dialect: &'static Dialect,
    /// A body may be dropped on a thread without one.
    pub(crate) runtime: Option<Handle>,
}

/// A body of which a part was read.
pub(crate) struct ReadAhead<B> {
    ahead: Bytes,
    trailers: Option<HeaderMap>,
    rest: Option<B>,
    error: Option<BoxError>,
}

impl<B> ReadAhead<B> {
    pub(crate) fn nothing(body: B) -> Self {
        Self { ahead: Bytes::new(), trailers: None, rest: Some(body), error: None }
    }

    pub(crate) fn ahead(&self) -> &[u8] {
        &self.ahead
    }

    pub(crate) fn into_body(self, settlement: Settlement) -> ApiBody<B> {
        let Self { ahead, trailers, rest, error } = self;
        let usage = settlement.permits.counts_tokens().then(UsageReader::new);
        ApiBody { ahead, trailers, rest, error, call: Some(Box::new(settlement)), usage }
    }

    /// The body of a call that is settled already.
    pub(crate) fn into_settled_body(self) -> ApiBody<B> {
        let Self { ahead, trailers, rest, error } = self;
        ApiBody { ahead, trailers, rest, error, call: None, usage: None }
    }
}

impl<B> ReadAhead<B>
where
    B: Body<Data: Buf + Send, Error: Into<BoxError>> + Send + Unpin,
{
    /// Reads what a dialect needs, or what comes in time. An error is kept for the reader of the body.
    pub(crate) async fn read(&mut self, mut need: BodyNeed, is_success: bool, timeout: Duration) {
        let Some(mut body) = self.rest.take() else { return };
        let timeout = match (body.size_hint().exact(), is_success) {
            (Some(_), _) => timeout,
            (None, true) => timeout.min(SUCCESS_WITHOUT_LENGTH),
            (None, false) => timeout.min(ERROR_WITHOUT_LENGTH),
        };
        let mut ahead = BytesMut::new();
        let read = async {
            while need.wants_more(&ahead) {
                match body.frame().await {
                    None => return true,
                    Some(Err(error)) => {
                        self.error = Some(error.into());
                        return true;
                    }
                    Some(Ok(frame)) => match frame.into_data() {
                        Ok(data) => bytes::BufMut::put(&mut ahead, data),
                        Err(frame) => self.trailers = frame.into_trailers().ok(),
                    },
                }
            }
            false
        };
        let is_over = tokio::time::timeout(timeout, read).await.unwrap_or(false);
        self.ahead = ahead.freeze();
        self.rest = (!is_over).then_some(body);
    }
}

impl<B> ApiBody<B> {
    /// Settles the call with the tokens that were read. In the background: no caller waits for it.
    fn settle(&mut self) {
        let Some(call) = self.call.take() else { return };
        let Settlement { permits, dialect, runtime } = *call;
        if let Some(usage) = self.usage.as_ref().and_then(UsageReader::usage)
            && let Some(runtime) = runtime
        {
            let state = permits.state();
            let settle = permits.settle(move |unit| dialect.tokens_counted(usage, unit.as_str()));
            state.in_background_on(&runtime, settle);
        }
    }

    fn read(&mut self, data: &[u8]) {
        if let Some(usage) = &mut self.usage {
            usage.feed(data);
        }
    }
}

impl<B> Body for ApiBody<B>
where
    B: Body<Data: Buf, Error: Into<BoxError>> + Unpin,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if !self.ahead.is_empty() {
            let ahead = std::mem::take(&mut self.ahead);
            self.read(&ahead);
            return Poll::Ready(Some(Ok(Frame::data(ahead))));
        }
        if let Some(trailers) = self.trailers.take() {
            return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
        }
        if let Some(error) = self.error.take() {
            self.settle();
            return Poll::Ready(Some(Err(error)));
        }
        let frame = match &mut self.rest {
            None => None,
            Some(rest) => match Pin::new(rest).poll_frame(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(frame) => frame,
            },
        };
        Poll::Ready(match frame {
            None => {
                self.settle();
                None
            }
            Some(Err(error)) => {
                self.settle();
                Some(Err(error.into()))
            }
            Some(Ok(frame)) => Some(Ok(frame.map_data(|mut data| {
                let data = data.copy_to_bytes(data.remaining());
                self.read(&data);
                data
            }))),
        })
    }

    fn is_end_stream(&self) -> bool {
        // The end is where the call is settled, so it has to be polled.
        self.call.is_none() && self.ahead.is_empty() && self.rest.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let ahead = u64::try_from(self.ahead.len()).unwrap_or(u64::MAX);
        let rest = self.rest.as_ref().map_or(SizeHint::with_exact(0), Body::size_hint);
        let mut hint = SizeHint::new();
        hint.set_lower(ahead.saturating_add(rest.lower()));
        if let Some(upper) = rest.upper() {
            hint.set_upper(ahead.saturating_add(upper));
        }
        hint
    }
}

impl<B> Drop for ApiBody<B> {
    fn drop(&mut self) {
        self.settle();
    }
}

//! The service that a layer puts around another.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use crate::answer::{denied, failed};
use crate::body::LimitedBody;
use crate::call::Rules;
use crate::decide::{Verdict, decide};
use crate::headers;

/// A service behind a limit; made by a layer of this crate.
#[derive(Clone)]
pub struct RateLimit<S> {
    inner: S,
    rules: Arc<Rules>,
}

impl<S> RateLimit<S> {
    pub(crate) fn new(inner: S, rules: Arc<Rules>) -> Self {
        Self { inner, rules }
    }
}

impl<S, Asked, Answered> Service<Request<Asked>> for RateLimit<S>
where
    S: Service<Request<Asked>, Response = Response<Answered>> + Clone + Send + 'static,
    S::Future: Send,
    Asked: Send + 'static,
    Answered: Body<Data = Bytes> + 'static,
{
    type Response = Response<LimitedBody<Answered>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Asked>) -> Self::Future {
        // The one that is ready goes with the request; its clone gets ready for the next.
        let clone = self.inner.clone();
        let ready = std::mem::replace(&mut self.inner, clone);
        Box::pin(limited(ready, Arc::clone(&self.rules), request))
    }
}

async fn limited<S, Asked, Answered>(
    mut inner: S,
    rules: Arc<Rules>,
    request: Request<Asked>,
) -> Result<Response<LimitedBody<Answered>>, S::Error>
where
    S: Service<Request<Asked>, Response = Response<Answered>>,
{
    let (head, body) = request.into_parts();
    let decided = match decide(&rules, &head).await {
        Ok(decided) => decided,
        Err(problem) => return Ok(failed(&head, &problem)),
    };
    let Some(decided) = decided else {
        let response = inner.call(Request::from_parts(head, body)).await?;
        return Ok(response.map(|body| LimitedBody::served(body, None)));
    };
    if let Verdict::Denied(denial) = &decided.verdict {
        return Ok(denied(&head, denial, &decided));
    }
    let mut response = inner.call(Request::from_parts(head, body)).await?;
    headers::put(&decided, &mut response);
    // A slot is held until the answer has gone out.
    let slot = decided.slot();
    Ok(response.map(|body| LimitedBody::served(body, slot)))
}

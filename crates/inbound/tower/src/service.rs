//! The service that a layer wraps around another.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tollway_inbound::Admission;
use tollway_inbound::problem::ProblemDetails;
use tower_service::Service;

use crate::answer::{denied, failed};
use crate::body::LimitedBody;
use crate::headers;
use crate::problem::Problem;
use crate::rules::Rules;

/// A service behind a limit; built by a layer of this crate.
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
        // The ready service handles this request; its clone becomes ready for the next.
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
    let counted = match rules.admission(&head).await {
        Ok(Admission::Counted(counted)) => counted,
        Ok(Admission::Free) => {
            let response = inner.call(Request::from_parts(head, body)).await?;
            return Ok(response.map(|body| LimitedBody::served(body, None)));
        }
        Ok(Admission::Blocked) => return Ok(failed(&head, &Problem(ProblemDetails::blocked()))),
        Err(problem) => return Ok(failed(&head, &problem)),
    };
    let policies = counted.policies();
    let take = counted.take(&policies, rules.options.headers);
    let permit = match take.decide().await {
        Ok(Ok(permit)) => permit,
        Ok(Err(denial)) => {
            return Ok(denied(&head, &denial, &take, counted.caller, &rules.options));
        }
        Err(error) => return Ok(failed(&head, &Problem::from(error))),
    };
    let mut response = inner.call(Request::from_parts(head, body)).await?;
    headers::put(&take, permit.decision(), &mut response);
    // A slot is held until the response is sent; other units stay spent when the permit ends.
    let slot = policies.iter().any(|policy| policy.holds_slots()).then_some(permit);
    Ok(response.map(|body| LimitedBody::served(body, slot)))
}

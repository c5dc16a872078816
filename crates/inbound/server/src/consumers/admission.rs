//! How a consumer's request counts, from `/v1/authorize` or from a descriptor of Envoy.

use hyper::body::Incoming;
use hyper::{Request, StatusCode};
use tollway_consumers::{ConsumerId, RecordsFault};
use tollway_inbound::headers::CallerKind;
use tollway_inbound::{ANONYMOUS_POLICY, Admission};

use super::Consumers;
use crate::bounded_take::client_network;
use crate::connection::Caller;
use crate::grpc::answer::RefusalBody;
use crate::grpc::descriptors::subject;
use crate::grpc::resolve::{Count, ResolvedRequest};
use crate::grpc::service::{Failure, StatusCode as GrpcStatus};
use crate::http::authorize::{CountedRequest, address};
use crate::http::for_proxy::refused_with;
use crate::http::identity_header::identity_header;
use crate::http::{Problem, Response, no_content};
use crate::worker::Worker;

impl Consumers {
    /// Answers `/v1/authorize`: counts under the limits of the request's consumer, or by address if it names none.
    pub(crate) async fn authorize(
        &self,
        worker: &Worker,
        caller: &Caller,
        request: Request<Incoming>,
        denied_with: StatusCode,
    ) -> Result<Response, Problem> {
        let free = || Ok(no_content(StatusCode::OK));
        let refused = |problem: Problem| Ok(refused_with(denied_with, problem.into_response()));
        let headers = request.headers();
        if let Some(problem) = self.who.headers().find_map(|name| identity_header(headers, name).err()) {
            return refused(problem);
        }
        let network = client_network(worker, caller, headers);
        let shown = |name: &str| identity_header(headers, name).ok().flatten();
        let counted = match self.who.calls(shown) {
            Err(error) => return refused(Problem::unknown_consumer(&error)),
            Ok(None) => {
                let client = address(&worker.state.rules(), caller, headers);
                drop(request);
                // Without this policy, requests without credentials are not limited.
                let known = worker.policies.find(&worker.state, ANONYMOUS_POLICY).ok();
                let Some(known) = known.filter(|_| self.gate.is_enabled()) else { return free() };
                CountedRequest::new(known, client?, CallerKind::Anonymous)?
            }
            Ok(Some(consumer)) => {
                // Records and store may take their time, and the head of a request has up to 16 KiB.
                drop(request);
                match self.admission(&worker.state, &consumer).await? {
                    Admission::Free => return free(),
                    Admission::Blocked => return refused(Problem::blocked()),
                    Admission::Counted(known) => {
                        CountedRequest::new(known, consumer.to_string(), CallerKind::Consumer)?
                    }
                }
            }
        };
        counted.answer(worker, caller, network, denied_with).await
    }
}

impl ResolvedRequest {
    /// Admits a descriptor of a consumer, whose id is `text`, or of an anonymous client, whose subject it is. A refusal is a
    /// denial as from `/v1/authorize`, not an error: a proxy that fails open would let a failed call through.
    pub(crate) async fn admit_caller(
        &mut self,
        worker: &Worker,
        consumers: &Consumers,
        policy: &str,
        text: Vec<u8>,
        unit: Option<&str>,
        hits: u64,
    ) -> Result<Admission<usize>, Failure> {
        if !consumers.gate.is_enabled() {
            return Ok(Admission::Free);
        }
        let mut count = if policy == ANONYMOUS_POLICY {
            // Without this policy, anonymous clients are not limited.
            let Ok(known) = worker.policies.find(&worker.state, policy) else { return Ok(Admission::Free) };
            Count::new(known, subject(text), unit.map(str::to_owned), hits)
        } else {
            let consumer = match consumer_id(text) {
                Ok(consumer) => consumer,
                Err(problem) => return Ok(self.refuse(&Problem::not_a_consumer(problem))),
            };
            match consumers.admission(&worker.state, &consumer).await {
                Ok(Admission::Free) => return Ok(Admission::Free),
                Ok(Admission::Blocked) => return Ok(self.refuse(&Problem::blocked())),
                Ok(Admission::Counted(known)) => Count::new(known, consumer.to_string(), None, hits),
                // A flood of consumer names must not get through.
                Err(error) if error.fault == RecordsFault::Busy => return Ok(self.refuse(&error.into())),
                Err(error) => return Err(Failure::new(GrpcStatus::Unavailable, error.to_string())),
            }
        };
        count.of_caller = true;
        Ok(self.count(count))
    }

    fn refuse(&mut self, problem: &Problem) -> Admission<usize> {
        self.refusal.get_or_insert_with(|| RefusalBody::of_problem(problem));
        Admission::Blocked
    }
}

/// The consumer that a descriptor names. Not hashed if it is too long: the hash would be a valid id that does not exist.
fn consumer_id(text: Vec<u8>) -> Result<ConsumerId, String> {
    let text = String::from_utf8(text).map_err(|_| "the consumer's id is not text".to_owned())?;
    ConsumerId::new(&text).map_err(|error| error.to_string())
}

//! A take within the bounds of its listener: charges in flight to the store, and new subjects of a client network.

use hyper::StatusCode;
use hyper::header::{HeaderMap, RETRY_AFTER};
use tollway::TakeError;
use tollway::core::NewAccounts;
use tollway_inbound::address::Network;
use tollway_inbound::{InboundTake, PermitOrDenied, decision_of};

use crate::connection::Caller;
use crate::http::Problem;
use crate::new_subjects::network_of;
use crate::worker::Worker;

/// Why a take was not decided.
#[derive(Debug)]
pub(crate) enum Undecided {
    /// Too many charges are in flight. It counts as a denial.
    TooManyCharges,
    /// It failed.
    Failed(TakeError),
}

impl From<Undecided> for Problem {
    fn from(undecided: Undecided) -> Self {
        match undecided {
            Undecided::TooManyCharges => too_many_charges(),
            Undecided::Failed(error) => error.into(),
        }
    }
}

/// A denial for now, as `/v1/take` answers it.
pub(crate) fn too_many_charges() -> Problem {
    let detail = "too many takes are in flight to the store; retry in a second";
    let kind = "urn:tollway:too-many-charges";
    Problem::new(StatusCode::TOO_MANY_REQUESTS, kind, "too many takes in flight", detail)
        .with_header(RETRY_AFTER, "1")
}

/// Decides a take, unless too many charges are in flight.
pub(crate) async fn decide(
    worker: &Worker,
    caller: &Caller,
    network: Option<Network>,
    take: &mut InboundTake<'_>,
) -> Result<PermitOrDenied, Undecided> {
    let Some(_in_flight) = worker.charges.admit(&caller.charges, take.charges.len()) else {
        worker.state.counts.charge_denied(&worker.state.limiter);
        return Err(Undecided::TooManyCharges);
    };
    take.new_accounts =
        network.map_or(NewAccounts::Make, |network| worker.state.new_subjects.allowed_to(network));
    let taken = take.decide().await.map_err(Undecided::Failed)?;
    if let Some(network) = network {
        worker.state.new_subjects.made(network, decision_of(&taken).accounts_made);
    }
    Ok(taken)
}

/// The client network of a request, if its new subjects are bounded.
pub(crate) fn client_network(worker: &Worker, caller: &Caller, headers: &HeaderMap) -> Option<Network> {
    if !worker.state.new_subjects.is_bounded() {
        return None;
    }
    let rules = worker.state.rules();
    network_of(&rules.address, caller.peer, headers.get_all(rules.address.header.name()))
}

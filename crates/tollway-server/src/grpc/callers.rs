//! Descriptors of callers: of a consumer, which has limits out of its records, and of one without credentials, known by where
//! it comes from. Whatever they name, the question is answered, and as `/v1/authorize` would: one that fails is let through by
//! proxies that are set so, with all its other descriptors.

use tollway_consumers::{ANONYMOUS_POLICY, CONSUMERS_POLICY, RecordsFault};

use super::asked::{Asked, Place};
use super::count::Count;
use super::message::Entry;
use super::refusal::Refusal;
use super::status::{Code, Failure};
use super::subject;
use crate::SubjectTemplate;
use crate::consumers::{Call, Consumers};
use crate::http::Problem;
use crate::worker::Worker;

/// Which callers, where there are consumers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    Consumer,
    Anonymous,
}

impl Whose {
    /// Those that the policy of this name limits.
    pub(super) fn of(policy: &str) -> Option<Self> {
        match policy {
            CONSUMERS_POLICY => Some(Self::Consumer),
            ANONYMOUS_POLICY => Some(Self::Anonymous),
            _ => None,
        }
    }
}

/// What a rule says of such descriptors.
pub(super) struct CallerRule<'r> {
    pub(super) whose: Whose,
    /// How they name their caller.
    pub(super) subject: &'r SubjectTemplate,
    /// What hits are counted in; consumers' are requests.
    pub(super) unit: Option<&'r str>,
}

impl Asked {
    /// What a descriptor of a caller comes to.
    pub(super) async fn caller(
        &mut self,
        worker: &Worker,
        consumers: &Consumers,
        rule: CallerRule<'_>,
        entries: &[Entry],
        hits: u64,
    ) -> Result<Place, Failure> {
        if !consumers.gate.is_enabled() {
            return Ok(Place::Unlimited);
        }
        let CallerRule { whose, subject, unit } = rule;
        let count = match whose {
            Whose::Anonymous => match worker.policies.find(&worker.shared, ANONYMOUS_POLICY) {
                Ok(known) => {
                    let subject = subject::of_template(subject, entries);
                    Count::new(known, subject, unit.map(str::to_owned), hits)
                }
                // Without such a policy, nothing limits them.
                Err(_) => return Ok(Place::Unlimited),
            },
            Whose::Consumer => {
                let consumer = match subject::consumer(subject, entries) {
                    Ok(consumer) => consumer,
                    Err(problem) => return Ok(self.refuse(&Problem::not_a_consumer(problem))),
                };
                match consumers.call(&worker.shared, &consumer).await {
                    Ok(Call::Free) => return Ok(Place::Unlimited),
                    Ok(Call::Blocked) => return Ok(self.refuse(&Problem::blocked())),
                    Ok(Call::Counted(known)) => Count::new(known, consumer.to_string(), None, hits),
                    // Whoever names more consumers than can be looked up must not get through by it.
                    Err(error) if error.fault == RecordsFault::Busy => {
                        return Ok(self.refuse(&Problem::of_records(&error)));
                    }
                    Err(error) => return Err(Failure::new(Code::Unavailable, error.to_string())),
                }
            }
        };
        Ok(self.count(Count { whose: Some(whose), ..count }))
    }

    fn refuse(&mut self, problem: &Problem) -> Place {
        self.refusal.get_or_insert_with(|| Refusal::of_problem(problem));
        Place::Blocked
    }
}

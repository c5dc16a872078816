//! The answer to a question: all descriptors that are enforced are one take, granted whole or not at all.
//!
//! Envoy's own service counts each descriptor by itself, so that a request which one of them stops has used up the others,
//! and goes on using them up while it is denied. Here a denial is free, and shadow policies are judged in the same step
//! without a say in it.

use std::rc::Rc;

use smallvec::SmallVec;
use tollway::core::{Fault, Reading, WhenStoreFails};
use tollway::{Limit, Span, TakeError};
use tollway_inbound::headers::{HeaderChoice, Shown, TooManyRequests};

use super::asked::Asked;
use super::callers::Whose;
use super::count::Count;
use super::message::{RateLimitRequest, RateLimitResponse};
use super::refusal::Refusal;
use super::status::Failure;
use super::told::Told;
use crate::decide::{Decided, Parties, Party, Verdict, decide_under};
use crate::http::Problem;
use crate::worker::Worker;

/// Decides a question.
pub(super) async fn answer(
    worker: &Worker,
    request: &RateLimitRequest,
) -> Result<RateLimitResponse, Failure> {
    let asked = Asked::new(worker, request).await?;
    let mut told = Told::new(asked.counts.len());
    match decide(worker, &asked, &mut told).await {
        Ok(()) => {}
        // A subject that the store cannot count for, say: its values are the client's, who must not get through by it.
        Err(TakeError::Store(error)) if error.fault == Fault::Caller => {
            told.refuse_all(Refusal::of_problem(&Problem::from(TakeError::Store(error))));
        }
        Err(error) => return Err(error.into()),
    }
    Ok(told.into_response(asked))
}

/// Looks at what is only looked at, and takes the rest.
async fn decide(worker: &Worker, asked: &Asked, told: &mut Told) -> Result<(), TakeError> {
    for (index, count) in asked.counts.iter().enumerate().filter(|(_, count)| count.is_look()) {
        Box::pin(look(index, count, told)).await?;
    }
    if asked.is_blocked() || told.over {
        return Ok(());
    }
    take(worker, asked, told).await
}

/// Takes everything, or nothing.
async fn take(worker: &Worker, asked: &Asked, told: &mut Told) -> Result<(), TakeError> {
    let mut taken: SmallVec<[(usize, &Count); 4]> = SmallVec::new();
    for (index, count) in asked.counts.iter().enumerate().filter(|(_, count)| !count.is_look()) {
        if count.is_shadow() && count.is_above_limit() {
            told.would_deny.push(index);
        } else {
            taken.push((index, count));
        }
    }
    if taken.is_empty() {
        return Ok(());
    }
    let parties = taken.iter().map(|(_, count)| (party(count), Rc::clone(&count.known)));
    let Decided { parties, verdict } = decide_under(Parties::new(parties.collect()), None, None).await?;
    let mut shown = parties.shown(&verdict);
    let mut rest = &mut *shown;
    let rules = worker.shared.rules();
    for (party, (index, count)) in taken.iter().enumerate() {
        let policy = &count.known.policy;
        let limits = policy.limits().len().min(rest.len());
        let (mine, others) = rest.split_at_mut(limits);
        rest = others;
        let over = match &verdict {
            Verdict::Granted(permit) => {
                if permit.decision().would_deny_of(party) {
                    told.would_deny.push(*index);
                }
                false
            }
            // Without the store nobody has a reading; then it is the one that said no.
            Verdict::Denied(denied) if mine.is_empty() => denied.policy().name() == policy.name(),
            Verdict::Denied(_) => mine.iter().any(|shown| shown.refuses),
        };
        told.tell(*index, most(count, mine), verdict.now(), over);
        if let (true, Some(whose), Verdict::Denied(denied)) = (over, count.whose, &verdict) {
            let limit = count.most(mine).map(|shown| shown.limit).or(denied.limit());
            let refusal = || refusal(count, whose, limit, denied.retry_after().into());
            told.refusal.get_or_insert_with(refusal);
        }
        // Envoy makes headers of its own from the status. Others are there for who asks for them, and for callers, who know
        // them from everywhere else.
        if count.whose.is_none() && !rules.names_headers_of(policy.name().as_str()) {
            mine.iter_mut().for_each(|shown| shown.choice = HeaderChoice::NONE);
        }
    }
    told.over = matches!(verdict, Verdict::Denied(_));
    told.tell_headers(&shown, &verdict);
    Ok(())
}

/// The one of its limits that is told of. None of a shadow: Envoy would take it for one that is enforced, and tell callers
/// in headers of its own that nothing is left.
fn most<'s, 'a>(count: &Count, shown: &'s [Shown<'a>]) -> Option<&'s Shown<'a>> {
    count.most(shown).filter(|_| !count.is_shadow())
}

/// What a caller is told whom this limit refuses.
fn refusal(count: &Count, whose: Whose, limit: Option<&Limit>, retry_after: Span) -> Refusal {
    let anonymous = whose == Whose::Anonymous;
    Refusal::of_limit(&TooManyRequests::new(&count.known.policy, limit, anonymous, retry_after))
}

fn party(count: &Count) -> Party<'_> {
    Party { policy: count.known.policy.name().as_str(), subject: &count.subject, cost: count.cost() }
}

/// A descriptor that adds no hits is over its limit when nothing is left. Nothing is counted.
async fn look(index: usize, count: &Count, told: &mut Told) -> Result<(), TakeError> {
    let policy = &count.known.policy;
    let usage = match count.known.handle.usage().subject(&count.subject).await {
        Ok(usage) => usage,
        // As a take would be: without the store, most policies let through.
        Err(TakeError::Store(error))
            if error.fault != Fault::Caller && policy.when_store_fails() != WhenStoreFails::Closed =>
        {
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let shown = policy.limits().iter().zip(&usage.limits).map(|(limit, usage)| {
        let reading = Reading {
            capacity: usage.capacity,
            used: usage.used,
            remaining: usage.remaining,
            resets_at: usage.resets_at,
            as_of: usage.as_of,
        };
        Shown { policy: None, limit, reading, refuses: usage.remaining == 0, choice: HeaderChoice::NONE }
    });
    let shown: SmallVec<[Shown<'_>; 4]> = shown.collect();
    let now = usage.limits.first().map(|usage| usage.as_of).unwrap_or_default();
    let spent = shown.iter().any(|shown| shown.refuses);
    let over = spent && !count.is_shadow();
    if spent && !over {
        told.would_deny.push(index);
    }
    let most = most(count, &shown);
    told.tell(index, most, now, over);
    if let (true, Some(whose), Some(most)) = (over, count.whose, most) {
        let refusal = || refusal(count, whose, Some(most.limit), most.reading.resets_at.since(now));
        told.refusal.get_or_insert_with(refusal);
    }
    told.over |= over;
    Ok(())
}

//! What the vendor's answers say, told to the store: refusals at once, everything else at most once a second.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use smallvec::SmallVec;
use tollway::config::Api;
use tollway::core::controller::{Controller, Keep, Pace, RateRefusal, Report};
use tollway::core::{Feedback, Learned, LearnedRate, Name};
use tollway::{Span, TakeError, Timestamp};
use tollway_dialects::{Observation, RefusalKind, VendorQuota};

use crate::acquire::adapts;
use crate::feedback::{
    SeenQuota, bare_cooldown, configured, cut_of, limits_left, named_quota, rate_change, seen_quotas, stored,
};
use crate::limiter::ApiState;
use crate::permits::Permits;
use crate::token_quotas::TokenQuotas;

/// A process reports accepted calls at most this often.
const REPORT_EVERY: Span = Span::from_secs(1);

/// How often a rate is computed again after another process has changed it.
const RACES_MAX: usize = 2;

/// The same after a refusal, whose cut must not be lost.
const RACES_OF_REFUSAL_MAX: usize = 8;

/// Reports that cannot wait for the second come at most this often.
const AT_ONCE_EVERY: Span = Span::from_millis(100);

/// The hold of a refusal that tells no wait, while the store does not answer.
const BARE_HOLD: Span = Span::from_secs(1);

/// How often a hold is sent again that the store did not take.
const HOLD_AGAIN: Duration = Duration::from_secs(1);

/// What this process has seen and not reported yet.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    accepted: u64,
    /// Calls that are over, however they ended.
    answered: u64,
    /// Whether grants were given back.
    given_back: bool,
    /// Those of them that failed, and how the last one did.
    failed: u64,
    failure: String,
    /// It was said that most calls fail.
    said_failing: bool,
    /// When the newest of these calls was granted.
    newest: Timestamp,
    quotas: Vec<SeenQuota>,
    tokens: TokenQuotas,
    /// What is left of fixed limits, as the newest answer shows it, and when that came.
    left: Vec<VendorQuota>,
    left_at: Timestamp,
    /// Until when calls stop, because what is left of a quota is kept for people.
    kept_until: Timestamp,
    reported_at: Timestamp,
    flush_planned: bool,
    /// The number of the last grant that the last pace allowed: its answer is waited for.
    awaited: Option<u64>,
}

impl Seen {
    /// Notes the quotas in an answer that is no refusal. True if it should be reported at once.
    fn note(&mut self, grant: u64, granted_at: Timestamp, quotas: &[VendorQuota], now: Timestamp) -> bool {
        self.newest = self.newest.max(granted_at);
        let tokens = self.tokens.observe(quotas, grant, now);
        let quotas_seen = seen_quotas(quotas, tokens, grant, now);
        let limits = |quotas: &[SeenQuota]| quotas.iter().map(SeenQuota::limit).collect::<Vec<_>>();
        let is_new = !quotas_seen.is_empty() && limits(&quotas_seen) != limits(&self.quotas);
        if !quotas_seen.is_empty() {
            self.quotas = quotas_seen;
        }
        if !quotas.is_empty() {
            (self.left, self.left_at) = (quotas.to_vec(), now);
        }
        let awaited = self.was_awaited(grant);
        is_new || awaited || quotas.iter().any(VendorQuota::is_exhausted)
    }

    /// Whether the answer to the call with this grant is waited for.
    fn was_awaited(&mut self, grant: u64) -> bool {
        self.awaited.take_if(|awaited| grant >= *awaited).is_some()
    }

    /// Calls stop for this long from now. True if they did not stop before.
    pub(crate) fn keep_until(&mut self, now: Timestamp, hold: Span) -> bool {
        let is_new = self.kept_until <= now;
        self.kept_until = self.kept_until.max(now.plus(hold));
        is_new
    }

    /// Whether there is something to report.
    pub(crate) fn is_unreported(&self) -> bool {
        self.accepted > 0 || self.answered > 0 || self.given_back
    }

    /// A report that did not arrive: the next one tells it.
    fn put_back(&mut self, unreported: &Unreported) {
        self.accepted = self.accepted.saturating_add(unreported.accepted);
        self.answered = self.answered.saturating_add(unreported.answered);
        self.failed = self.failed.saturating_add(unreported.failed);
    }

    /// Starts over.
    fn take(&mut self, now: Timestamp) -> Unreported {
        self.reported_at = now;
        self.given_back = false;
        Unreported {
            accepted: std::mem::take(&mut self.accepted),
            answered: std::mem::take(&mut self.answered),
            failed: std::mem::take(&mut self.failed),
            left_for: now.since(self.left_at),
            newest: self.newest,
            quotas: self.quotas.clone(),
            left: std::mem::take(&mut self.left),
            kept_for: self.kept_until.since(now),
        }
    }
}

/// What a report tells.
struct Unreported {
    accepted: u64,
    answered: u64,
    failed: u64,
    /// How old `left` is.
    left_for: Span,
    newest: Timestamp,
    quotas: Vec<SeenQuota>,
    left: Vec<VendorQuota>,
    /// How long calls stop for what is kept.
    kept_for: Span,
}

/// A report under way. One that is given up, as at the end of a runtime, is unreported again.
struct Reporting<'s> {
    state: &'s ApiState,
    unreported: Unreported,
    is_over: bool,
}

impl Drop for Reporting<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.state.seen().put_back(&self.unreported);
        }
    }
}

/// A refusal, as it is told to the store.
pub(crate) struct Refused {
    hold: Span,
    /// What the controller is told: nothing about refusals that are not about the rate.
    rate: Option<RefusedRate>,
}

impl Refused {
    /// The hold without the store, where no controller decides about a refusal that tells no wait.
    fn hold_alone(&self) -> Span {
        if self.hold == Span::ZERO { BARE_HOLD } else { self.hold }
    }
}

struct RefusedRate {
    granted_at: Timestamp,
    wait: Option<Span>,
    named: Option<(Span, Option<u64>)>,
}

impl ApiState {
    /// A call is over that says nothing about the rate.
    pub(crate) fn over(self: &Arc<Self>, policy: &Name, grant: u64) {
        let mut seen = self.seen();
        seen.answered += 1;
        let at_once = seen.was_awaited(grant);
        self.plan_report(seen, policy, at_once);
    }

    /// A call whose caller has left before it was answered.
    pub(crate) fn unanswered(self: &Arc<Self>, permits: &Permits) {
        if let Some((_, policy)) = permits.place().filter(|(_, policy)| adapts(policy)) {
            self.over(policy.name(), permits.grant());
        }
    }

    /// A call failed: a 5xx, a timeout, no connection. Reported in the background, at most once a second.
    pub(crate) fn failed(self: &Arc<Self>, permits: &Permits, failure: String) {
        let Some((_, policy)) = permits.place().filter(|(_, policy)| adapts(policy)) else { return };
        let mut seen = self.seen();
        seen.answered += 1;
        seen.failed += 1;
        seen.failure = failure;
        let at_once = seen.was_awaited(permits.grant());
        self.plan_report(seen, policy.name(), at_once);
    }

    /// The vendor has accepted a call. Reported in the background, at most once a second.
    pub(crate) fn accepted(self: &Arc<Self>, permits: &Permits, quotas: &[VendorQuota]) {
        if let Some(flight) = permits.flight() {
            flight.accepted();
        }
        self.ended(permits, quotas, 1);
    }

    /// An answer is neither a success nor a refusal, such as a 404: it says nothing about the rate, except to five numbers,
    /// for which everything is a success that does not mean "call later".
    pub(crate) fn answered(self: &Arc<Self>, permits: &Permits, quotas: &[VendorQuota]) {
        let is_auto = matches!(configured(&self.api()), Some(Controller::Auto(_)));
        self.ended(permits, quotas, u64::from(!is_auto));
    }

    fn ended(self: &Arc<Self>, permits: &Permits, quotas: &[VendorQuota], accepted: u64) {
        let Some((_, policy)) = permits.place() else { return };
        let is_kept = self.hold_for_people(quotas);
        let bounds = is_kept || !limits_left(policy, quotas, 0, Span::ZERO, Keep::default()).is_empty();
        if !adapts(policy) && !bounds {
            return;
        }
        let mut seen = self.seen();
        seen.answered += 1;
        seen.accepted += accepted;
        let at_once = seen.note(permits.grant(), permits.granted_at(), quotas, self.now());
        self.plan_report(seen, policy.name(), at_once || is_kept);
    }

    /// A grant of this policy was given back: no call was made under it, and what its grant used up is free again.
    pub(crate) fn given_back(self: &Arc<Self>, policy: &Name) {
        if !self.handle(policy).is_ok_and(|handle| adapts(&handle.policy())) {
            return;
        }
        let mut seen = self.seen();
        seen.given_back = true;
        self.plan_report(seen, policy, true);
    }

    /// Reports in the background, when it is time for it.
    fn plan_report(self: &Arc<Self>, mut seen: MutexGuard<'_, Seen>, policy: &Name, at_once: bool) {
        let now = self.now();
        let due = seen.reported_at.plus(if at_once { AT_ONCE_EVERY } else { REPORT_EVERY });
        let wait = due.since(now);
        if wait > Span::ZERO && seen.flush_planned {
            return;
        }
        if wait == Span::ZERO {
            seen.reported_at = now;
        } else {
            seen.flush_planned = true;
        }
        drop(seen);
        let (state, policy) = (Arc::clone(self), policy.clone());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                tokio::time::sleep(wait.into()).await;
                let _unfinished = state.unfinished.begin();
                state.seen().flush_planned = false;
                state.report(&policy, None).await;
            });
        }
    }

    /// The vendor has refused a call. Returns when the store knows: no process sends another call before. True if the refusal
    /// was to be expected: the rate was being probed.
    pub(crate) async fn refused(
        self: &Arc<Self>,
        api: &Api,
        kind: RefusalKind,
        permits: &Permits,
        observed: &Observation,
    ) -> bool {
        let Some((_, policy)) = permits.place() else { return false };
        let told: Option<Span> = observed.wait.map(Span::from);
        let controller = configured(api);
        let adapts = controller.is_some() && adapts(policy);
        let auto = matches!(controller, Some(Controller::Auto(_)));
        let of_rate = match kind {
            RefusalKind::Rate => adapts,
            // A measured rate knows quotas of a day; a documented one must not be cut because of them.
            RefusalKind::DailyQuota => adapts && auto && named_quota(observed).is_some(),
            // These hold back no other call.
            RefusalKind::Concurrency | RefusalKind::Lock | RefusalKind::NoAccess => {
                if kind == RefusalKind::Concurrency
                    && let Some(flight) = permits.flight()
                {
                    flight.refused();
                }
                if adapts {
                    self.over(policy.name(), permits.grant());
                }
                return false;
            }
            RefusalKind::Overload => false,
        };
        let (granted_at, named) = (permits.granted_at(), named_quota(observed));
        let rate = of_rate.then_some(RefusedRate { granted_at, wait: told, named });
        let hold = match (told, of_rate) {
            (Some(told), _) => told,
            (None, true) => Span::ZERO,
            (None, false) => bare_cooldown(policy, None),
        };
        {
            let mut seen = self.seen();
            seen.answered += 1;
            (seen.left, seen.left_at) = (observed.quotas.clone(), self.now());
        }
        let name = policy.name().clone();
        self.report(&name, Some(Refused { hold, rate })).await
    }

    /// Tells the store what was seen, and writes the controller's rate. True if the rate was being probed.
    pub(crate) async fn report(self: &Arc<Self>, policy: &Name, refused: Option<Refused>) -> bool {
        let hold = refused.as_ref().map_or(Span::ZERO, Refused::hold_alone);
        match self.report_once(policy, refused.as_ref()).await {
            Ok(was_probing) => was_probing,
            Err(error) => {
                tracing::debug!(%error, api = %self.name(), "what a vendor said could not be told to the store");
                if hold > Span::ZERO {
                    self.hold_here(hold);
                    self.hold_again(policy);
                }
                false
            }
        }
    }

    /// The same without a second try.
    pub(crate) async fn report_once(
        &self,
        policy: &Name,
        refused: Option<&Refused>,
    ) -> Result<bool, TakeError> {
        let unreported = self.seen().take(self.now());
        let mut reporting = Reporting { state: self, unreported, is_over: false };
        let reported = self.try_report(policy, &reporting.unreported, refused).await;
        reporting.is_over = true;
        reported
    }

    async fn try_report(
        &self,
        policy: &Name,
        unreported: &Unreported,
        refused: Option<&Refused>,
    ) -> Result<bool, TakeError> {
        let in_force = self.handle(policy)?.policy();
        let in_flight = self.in_flight.load(Ordering::Relaxed);
        let (told, keep) = (refused.map_or(Span::ZERO, |refused| refused.hold), self.api().keep());
        let feedback = Feedback {
            hold: told.max(unreported.kept_for),
            left: limits_left(&in_force, &unreported.left, in_flight, unreported.left_for, keep),
            rate: None,
        };
        let mut learned = self.feedback(policy, feedback).await?;
        let before = learned.clone();
        let Some(controller) = configured(&self.api()) else {
            self.log(&before, &learned, refused);
            return Ok(false);
        };
        let (mut was_probing, mut is_failing) = (false, false);
        let races = if refused.is_some() { RACES_OF_REFUSAL_MAX } else { RACES_MAX };
        for _ in 0..races {
            let Some(known) = learned.rate.clone() else { break };
            let mut controller = controller.clone().resumed(stored(&known.controller), known.cut);
            was_probing = controller.is_probing();
            let pace = unreported.tell(&mut controller, &learned, &known, refused, self.now(), &self.api());
            is_failing = controller.is_failing();
            let change = rate_change(&pace, &known, &controller);
            let awaited = pace.cap.map(|cap| known.grants.saturating_add(cap.grants));
            let feedback = Feedback { hold: pace.hold, left: SmallVec::new(), rate: Some(change) };
            learned = self.feedback(policy, feedback).await?;
            if learned.written {
                self.seen().awaited = awaited;
                self.rate_changed.notify_waiters();
                break;
            }
        }
        if learned.rate.is_some() && !learned.written {
            // Other processes were faster each time: the next report tells it.
            self.seen().put_back(unreported);
        }
        self.log(&before, &learned, refused);
        self.log_failing(is_failing);
        Ok(was_probing)
    }

    /// Says once that most calls fail, and what to write if this is how the vendor refuses.
    fn log_failing(&self, is_failing: bool) {
        let last = {
            let mut seen = self.seen();
            let before = std::mem::replace(&mut seen.said_failing, is_failing);
            (is_failing && !before).then(|| seen.failure.clone())
        };
        if let Some(last) = last {
            let api = self.name();
            let status =
                last.split(' ').next().filter(|status| status.parse::<u16>().is_ok()).unwrap_or("503");
            let line = format!("backoff_codes = [429, {status}]");
            tracing::warn!(%api, last, "most calls of an api fail, and it is called less until they succeed; if this answer means `call later`, add `{line}` to [apis.{api}]");
        }
    }

    /// The rate before and after, as debug lines, and as a warning after a refusal.
    fn log(&self, before: &Learned, after: &Learned, refused: Option<&Refused>) {
        let api = self.name();
        let cooldown = after.held_until.map(|until| until.since(after.now)).unwrap_or(Span::ZERO);
        let rate = |learned: &Learned| learned.rate.as_ref().map(|rate| Rate(rate.rate));
        let (Some(old_rate), Some(new_rate)) = (rate(before), rate(after)) else {
            if refused.is_some() {
                tracing::warn!(%api, %cooldown, "the vendor refused a call: backing off");
            }
            return;
        };
        if refused.is_some() {
            tracing::warn!(%api, %old_rate, %new_rate, %cooldown, "the vendor refused a call: backing off");
        } else if new_rate.0 > old_rate.0 {
            tracing::debug!(%api, %old_rate, %new_rate, "the rate of an api was increased");
        }
    }

    /// Sends a hold until the store has taken it, or it has passed. Takes that are decided without the store obey it
    /// meanwhile.
    fn hold_again(self: &Arc<Self>, policy: &Name) {
        // One task tells the latest hold of this process.
        if self.telling_hold.swap(true, Ordering::Relaxed) {
            return;
        }
        let (state, policy) = (Arc::clone(self), policy.clone());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                loop {
                    tokio::time::sleep(HOLD_AGAIN).await;
                    let hold = state.held_here();
                    let feedback = Feedback { hold, ..Feedback::default() };
                    if hold == Span::ZERO || state.feedback(&policy, feedback).await.is_ok() {
                        break;
                    }
                }
                state.telling_hold.store(false, Ordering::Relaxed);
            });
        }
    }
}

impl Unreported {
    /// Has the controller take it in, and returns its pace.
    fn tell(
        &self,
        controller: &mut Controller,
        learned: &Learned,
        known: &LearnedRate,
        refused: Option<&Refused>,
        now: Timestamp,
        api: &Api,
    ) -> Pace {
        let quotas: SmallVec<[_; 2]> = self.quotas.iter().map(|quota| quota.reported(now)).collect();
        let refusal = refused.and_then(|refused| refused.rate.as_ref());
        controller.report(&Report {
            now: learned.now,
            grants: known.grants,
            accepted: self.accepted,
            answered: self.answered,
            failed: self.failed,
            timeout: api.timeout(),
            accepted_cut: cut_of(self.newest, known),
            refusal: refusal.map(|refusal| RateRefusal {
                cut: cut_of(refusal.granted_at, known),
                wait: refusal.wait,
                named: refusal.named,
            }),
            quotas: &quotas,
            keep: api.keep(),
        })
    }
}

/// A rate in millionths, for people.
struct Rate(u64);

impl std::fmt::Display for Rate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03} a second", self.0 / 1_000_000, self.0 % 1_000_000 / 1_000)
    }
}

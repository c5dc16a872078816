//! What fits a table of minutes: one limit of requests a minute, and takes that need nothing remembered.

use tollway_core::{Action, Calendar, Fault, Limit, Operation, Policy, REQUESTS, Retry, StoreError, Subject};

use super::Layout;
use super::counter::MINUTE;

/// Whether a policy can be counted in such a table; why not, in a sentence.
pub fn check_policy(layout: Layout, policy: &Policy) -> Result<(), String> {
    let unfit = |why: String| {
        Err(format!("policy {} does not fit the layout {}: {why}", policy.name(), layout.name()))
    };
    let [limit] = policy.limits() else {
        return unfit(format!("an item counts one limit, and it has {}", policy.limits().len()));
    };
    if let Err(why) = check_limit(limit) {
        return unfit(why);
    }
    if policy.shadow() {
        return unfit("it cannot be a shadow, for it would have no counters of its own".to_owned());
    }
    if policy.leases() {
        return unfit("it cannot have leases, for others would count what nobody has used".to_owned());
    }
    Ok(())
}

fn check_limit(limit: &Limit) -> Result<(), String> {
    let minutes = matches!(limit.calendar(), Some(Calendar::Every(period)) if *period == MINUTE);
    if !minutes {
        return Err(format!(
            "an item counts a minute of the clock, not {limit}; write `200 requests / minute`"
        ));
    }
    if limit.unit().as_str() != REQUESTS {
        return Err(format!("an item counts {REQUESTS}, not {}", limit.unit()));
    }
    Ok(())
}

/// Whether an operation is possible in such a table. Checked before it is combined with others, so that it cannot fail
/// theirs.
pub(super) fn check(layout: Layout, operation: &Operation) -> Result<(), StoreError> {
    let [charge] = &*operation.charges else {
        let message = format!("the layout {} counts for one policy and subject at a time", layout.name());
        return Err(wrong(message));
    };
    check_policy(layout, &charge.policy).map_err(wrong)?;
    if layout == Layout::ApiMinute && charge.subject == Subject::SHARED {
        return Err(wrong(
            "the layout api-minute needs a subject: it is the `api_type` of the key".to_owned(),
        ));
    }
    if matches!(operation.action, Action::Feedback(_)) {
        return Err(wrong(format!("the layout {} keeps nothing of what a vendor says", layout.name())));
    }
    if matches!(&operation.action, Action::Take(terms) | Action::Preview(terms) if terms.call.is_some()) {
        let message = format!("the layout {} remembers no ids; leave the take's id out", layout.name());
        return Err(wrong(message));
    }
    Ok(())
}

pub(super) fn wrong(message: String) -> StoreError {
    StoreError { fault: Fault::Caller, retry: Retry::Useless, message }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollway_core::Lease;

    fn said(policy: Policy) -> String {
        check_policy(Layout::Minute, &policy).unwrap_err()
    }

    /// A4: only N requests a minute fit; anything else says why.
    #[test]
    fn only_requests_per_minute_fit() {
        assert_eq!(check_policy(Layout::Minute, &Policy::new("p", ["200 / minute"]).unwrap()), Ok(()));
        assert_eq!(check_policy(Layout::ApiMinute, &Policy::new("p", ["200 / 60 seconds"]).unwrap()), Ok(()));
        for (limits, why) in [
            (&["200 / minute", "9 / day"][..], "counts one limit, and it has 2"),
            (&["200 / hour"], "counts a minute of the clock"),
            (&["200 / 2 minutes"], "counts a minute of the clock"),
            (&["200 / minute bucket"], "counts a minute of the clock"),
            (&["200 / minute from first call"], "counts a minute of the clock"),
            (&["200 tokens / minute"], "counts requests, not tokens"),
        ] {
            let error = said(Policy::new("p", limits.iter().copied()).unwrap());
            assert!(
                error.starts_with("policy p does not fit the layout minute: ") && error.contains(why),
                "{error}"
            );
        }
        let policy = || Policy::new("p", ["200 / minute"]).unwrap();
        assert!(said(policy().with_shadow(true)).contains("shadow"));
        assert!(said(policy().with_lease(Lease::On)).contains("leases"));
    }
}

//! Whether a response is a refusal, and of which kind.

use crate::observation::{QuotaUnit, RefusalKind, VendorQuota};
use crate::response::ResponseField::Body;
use crate::response::{ParsedResponse, ResponseField, TextMatch};

/// A refusal that is told by one field of a response. The first row that fits decides.
pub(crate) struct RefusalRow {
    /// The statuses that it may have; none means all, also success.
    pub(crate) statuses: &'static [u16],
    pub(crate) field: ResponseField,
    pub(crate) text: TextMatch,
    pub(crate) kind: RefusalKind,
}

/// The problem types of the IETF draft, for every vendor.
const PROBLEM_TYPES: [RefusalRow; 3] = [
    problem_type("#temporary-reduced-capacity", RefusalKind::Overload),
    problem_type("#quota-exceeded", RefusalKind::Rate),
    problem_type("#abnormal-usage-detected", RefusalKind::Rate),
];

/// The policies that a problem of type `quota-exceeded` names.
const VIOLATED_POLICIES: &str = "violated-policies.*";

/// The members of every body that this module reads.
pub(crate) const MEMBERS: [&str; 2] = ["type", "violated-policies"];

const fn problem_type(text: &'static str, kind: RefusalKind) -> RefusalRow {
    RefusalRow { statuses: &[403, 429, 503], field: Body("type"), text: TextMatch::Contains(text), kind }
}

/// Marks the quotas that a problem names as used up.
pub(crate) fn mark_violated_policies(parsed: &ParsedResponse<'_>, quotas: &mut [VendorQuota]) {
    for violated in parsed.body.texts(VIOLATED_POLICIES) {
        for quota in quotas.iter_mut().filter(|quota| quota.name.as_deref() == Some(&*violated)) {
            quota.remaining = Some(0);
        }
    }
}

/// The kind of refusal: by the vendor's rows, then by problem type, then by status.
pub(crate) fn classify(
    rows: &[RefusalRow],
    parsed: &ParsedResponse<'_>,
    quotas: &[VendorQuota],
) -> Option<RefusalKind> {
    let row = rows.iter().chain(&PROBLEM_TYPES).find(|row| row.fits(parsed));
    let kind = row.map(|row| row.kind).or_else(|| by_status(parsed.status.as_u16()))?;
    Some(if kind == RefusalKind::Rate { by_exhausted(quotas) } else { kind })
}

/// What kind of rate it is, by the quotas that are used up.
fn by_exhausted(quotas: &[VendorQuota]) -> RefusalKind {
    let exhausted = || quotas.iter().filter(|quota| quota.is_exhausted());
    let is_concurrency = |quota: &VendorQuota| quota.unit == QuotaUnit::ConcurrentRequests;
    if exhausted().any(VendorQuota::is_daily) {
        RefusalKind::DailyQuota
    } else if exhausted().next().is_some() && exhausted().all(is_concurrency) {
        RefusalKind::Concurrency
    } else {
        RefusalKind::Rate
    }
}

fn by_status(status: u16) -> Option<RefusalKind> {
    match status {
        429 => Some(RefusalKind::Rate),
        503 | 529 => Some(RefusalKind::Overload),
        _ => None,
    }
}

impl RefusalRow {
    fn fits(&self, parsed: &ParsedResponse<'_>) -> bool {
        (self.statuses.is_empty() || self.statuses.contains(&parsed.status.as_u16()))
            && self.text.fits(&parsed.texts(self.field))
    }
}

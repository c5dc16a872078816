//! Whether a response is a refusal, and of which kind.

use crate::observation::{QuotaUnit, RefusalKind, VendorQuota};
use crate::response::ResponseField::Body;
use crate::response::{ParsedResponse, ResponseSign, TextMatch};

/// A refusal that is told by a sign in the response. The first row that fits decides.
pub(crate) struct RefusalRow {
    pub(crate) sign: ResponseSign,
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
    let sign = ResponseSign::new(&[403, 429, 503], Body("type"), TextMatch::Contains(text));
    RefusalRow { sign, kind }
}

/// Marks the quotas that a problem names as used up.
pub(crate) fn mark_violated_policies(parsed: &ParsedResponse<'_>, quotas: &mut [VendorQuota]) {
    for violated in parsed.body.texts(VIOLATED_POLICIES) {
        for quota in quotas.iter_mut().filter(|quota| quota.name.as_deref() == Some(&*violated)) {
            quota.remaining = Some(0);
        }
    }
}

/// The kind of refusal: by the vendor's rows, then by problem type, then by status. `told` is whether the response has a
/// `Retry-After`.
pub(crate) fn classify(
    rows: &[RefusalRow],
    parsed: &ParsedResponse<'_>,
    quotas: &[VendorQuota],
    told: bool,
) -> Option<RefusalKind> {
    let row = rows.iter().chain(&PROBLEM_TYPES).find(|row| row.sign.is_in(parsed));
    let kind = row.map(|row| row.kind).or_else(|| by_status(parsed.status.as_u16(), told))?;
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

/// A wait makes a refusal of statuses that are about this caller, or about the server. On others, such as 404 and 409, it is
/// about this one call.
fn by_status(status: u16, told: bool) -> Option<RefusalKind> {
    match status {
        429 => Some(RefusalKind::Rate),
        503 | 529 => Some(RefusalKind::Overload),
        403 if told => Some(RefusalKind::Rate),
        408 | 413 | 423 | 425 | 500..=599 if told => Some(RefusalKind::Overload),
        _ => None,
    }
}

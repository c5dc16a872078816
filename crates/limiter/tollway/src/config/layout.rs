//! Layouts of tables that already run: what fits them is known when the file is read.

use std::sync::Arc;

use tollway_config::{ProblemReport, Spanned};
use tollway_core::Policy;

use super::store::StoreUrl;

/// Reports every policy that the store's layout cannot count for.
#[cfg(feature = "dynamodb")]
pub(super) fn check(
    store: Option<&StoreUrl>,
    policies: &[(Spanned<&str>, Arc<Policy>)],
    report: &ProblemReport<'_>,
) {
    use tollway_dynamodb::minute::{Layout, check_policy};

    let Some(layout) = store.and_then(StoreUrl::dynamodb).and_then(|options| options.layout()) else {
        return;
    };
    for (name, policy) in policies {
        if let Err(why) = check_policy(layout, policy) {
            report.problem(name.span(), why, "");
        }
    }
    if let (Layout::Minute, [(_, first), (name, _), ..]) = (layout, policies) {
        let message = format!("the layout minute has one budget, and policy {} has it", first.name());
        report.problem(name.span(), message, "leave one policy, and distinguish callers by their subject");
    }
}

/// There are none in this build.
#[cfg(not(feature = "dynamodb"))]
pub(super) fn check(_: Option<&StoreUrl>, _: &[(Spanned<&str>, Arc<Policy>)], _: &ProblemReport<'_>) {}

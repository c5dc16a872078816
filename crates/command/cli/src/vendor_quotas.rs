//! What a vendor says is left of its quotas, in `tollway usage`.

use serde_json::{Value, json};
use tollway::Limiter;
use tollway::core::Name;
use tollway::core::controller::{Keep, QuotaLeft};

use crate::context::Context;
use crate::failure::Failure;
use crate::humanize;
use crate::output::FAINT;

/// The quotas of a policy's api, with the part that is left to people.
pub(crate) struct VendorQuotas {
    left: Vec<QuotaLeft>,
    keep: Keep,
}

impl VendorQuotas {
    pub(crate) fn read(
        limiter: &Limiter,
        policy: &Name,
        subject: Option<&str>,
        context: &Context,
    ) -> Result<Self, Failure> {
        let left = limiter.quotas_left(policy.as_str()).subject(subject.unwrap_or_default()).now()?;
        if left.is_empty() {
            // A config may have many policies, and only those of apis show quotas.
            return Ok(Self { left, keep: Keep::default() });
        }
        // The limiter of one policy does not know the apis.
        let config = context.config_if_any()?;
        let api = config.apis().iter().find(|api| api.rate().is_some() && api.policy() == Some(policy));
        Ok(Self { keep: api.map_or(Keep::default(), |api| api.keep()), left })
    }

    /// As JSON; `None` if the vendor says nothing.
    pub(crate) fn json(&self) -> Option<Value> {
        let quota = |quota: &QuotaLeft| {
            json!({
                "limit": quota.limit,
                "remaining": quota.remaining,
                "resets_at": quota.resets_at.map(|at| at.to_string()),
                "kept": self.kept(quota),
            })
        };
        (!self.left.is_empty()).then(|| self.left.iter().map(quota).collect())
    }

    /// A line for each quota, and one for what is kept of it.
    pub(crate) fn show(&self, context: &Context) -> Result<(), Failure> {
        self.left.iter().try_for_each(|quota| {
            let mut line = format!("the vendor says: {} left", amount(quota));
            if let Some(at) = quota.resets_at {
                line.push_str(&format!(", resets in {}", humanize::span(at.since(context.now()))));
            }
            context.output().sentence("  ", FAINT, &line)?;
            match self.kept(quota) {
                0 => Ok(()),
                kept => {
                    let line = format!("kept for people: {}", humanize::count(kept));
                    context.output().sentence("  ", FAINT, &line)
                }
            }
        })
    }

    /// What has no reset may be a bucket, of which nothing is kept.
    fn kept(&self, quota: &QuotaLeft) -> u64 {
        quota.limit.filter(|_| quota.resets_at.is_some()).map_or(0, |limit| self.keep.of(limit))
    }
}

fn amount(quota: &QuotaLeft) -> String {
    match quota.limit {
        Some(limit) => {
            format!("{} of {}", humanize::count(quota.remaining), humanize::counted(limit, "calls"))
        }
        None => humanize::counted(quota.remaining, "calls"),
    }
}

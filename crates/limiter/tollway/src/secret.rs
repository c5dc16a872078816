//! A secret shared by all processes of a store; the first process that needs it makes it.

use std::sync::Arc;

use tollway_core::{Name, Setting, SettingChange, Settings, StoreError};

use crate::{Limiter, SetLimitError, TakeError};

/// The policy under whose name secrets are kept among the limits that are set: every store keeps those, and no policy of
/// a config that has limits of such names is touched by them.
const KEPT_UNDER: &str = "tollway.secret";

/// How many secrets are read at the most: one, and those of processes that made one at the same moment.
const SECRETS_MAX: usize = 8;

/// A secret of 32 bytes.
pub type Secret = [u8; 32];

impl Limiter {
    /// The secrets shared by all processes of the store, at least one: sign with the first, accept any. If there is none
    /// yet, `fresh` becomes the first.
    ///
    /// Two processes that make one at the same moment keep both, and agree on the first by when it was set.
    pub async fn shared_secrets(&self, fresh: Secret) -> Result<Vec<Secret>, SetLimitError> {
        let store = Arc::clone(&self.registry().state().store);
        let kept = store.settings().ok_or(SetLimitError::NotKept)?;
        let known = read(kept).await?;
        if !known.is_empty() {
            return Ok(known);
        }
        let name = |text: &str| Name::new(text).map_err(TakeError::from);
        let (policy, limit) = (name(KEPT_UNDER)?, name(&to_text(&fresh))?);
        kept.change(SettingChange { policy, limit, amounts: Some((1, None)) }).await?;
        Ok(read(kept).await?)
    }
}

/// Whether this setting is a secret, which must not be listed among the limits.
pub(crate) fn is_secret(setting: &Setting) -> bool {
    setting.policy.as_str() == KEPT_UNDER
}

/// The oldest first; among those of one moment, the same one everywhere.
async fn read(kept: &dyn Settings) -> Result<Vec<Secret>, StoreError> {
    let mut settings: Vec<Setting> = kept.settings().await?;
    settings.retain(is_secret);
    settings.sort_by(|one, other| (one.set_at, &one.limit).cmp(&(other.set_at, &other.limit)));
    let secrets = settings.iter().filter_map(|setting| from_text(setting.limit.as_str()));
    Ok(secrets.take(SECRETS_MAX).collect())
}

fn to_text(secret: &Secret) -> String {
    secret.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_text(text: &str) -> Option<Secret> {
    let pairs = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok());
    let bytes: Option<Vec<u8>> = pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect();
    bytes?.try_into().ok()
}

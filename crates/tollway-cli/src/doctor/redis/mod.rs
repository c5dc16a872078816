//! What only Redis can tell: keys that never end, memory that runs out or forgets, whether anything is on its disk.
//!
//! `servers` are those behind a URL, `counters` the keys that must end and `keys` looks for those that do not, `memory` is what
//! servers say of themselves, `sameness` whether two URLs lead to the same.

mod counters;
mod keys;
mod memory;
mod sameness;
mod servers;

pub(super) use sameness::{is_at, same_store};

use super::finding::{Finding, Findings};
use super::policies;
use crate::context::WholeConfig;
use counters::Counters;
use keys::Seen;
use servers::Url;

/// Looks at every server behind the URL. Commands that a server refuses tell nothing.
pub(super) async fn look_at(config: &WholeConfig, url: &str, findings: &mut Findings) {
    let Some(url) = Url::read(url) else { return };
    let mut seen = Seen::new(config);
    let counters = Counters::of(&url.prefix);
    for mut server in servers::connect(&url).await {
        memory::look_at(config, &mut server, findings).await;
        for counters in &counters {
            let looked = seen.look_through(&mut server, counters).await;
            seen.whole &= looked.is_ok();
        }
    }
    findings.findings.extend(seen.endless());
    if !seen.whole {
        findings.add(cut_off(&seen));
    } else if !url.has_consumers_layout() {
        // The keys of consumers have no policy in them.
        findings.findings.extend(policies::unused(config, &seen.policies));
    }
}

fn cut_off(seen: &Seen<'_>) -> Finding {
    Finding::note(
        "keys-not-all-seen",
        format!("only {} keys of Redis could be looked at", seen.looked_at),
        "what the others are is not known",
        "let the user of the store's URL use SCAN and PTTL; of more keys than that, look at a part with `redis-cli --scan`",
    )
}

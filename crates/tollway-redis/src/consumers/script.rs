//! The layout's script.

use std::sync::LazyLock;

/// The whole script.
pub(super) const TEXT: &str = concat!(
    include_str!("script/counters.lua"),
    include_str!("script/memory.lua"),
    include_str!("script/verbs.lua"),
    include_str!("script/short.lua"),
    include_str!("script/main.lua"),
);

/// The hash that servers know it by once they have seen it.
pub(super) static HASH: LazyLock<String> = LazyLock::new(|| redis::Script::new(TEXT).get_hash().to_owned());

#[cfg(test)]
mod tests {
    use super::*;
    use tollway_core::bounds;

    /// The bounds are the engine's.
    #[test]
    fn constants_are_the_same_on_both_sides() {
        for line in [
            format!("local MAX = {}", bounds::COUNT_MAX),
            format!("local PARTIES_PER_TAKE_MAX = {}", bounds::PARTIES_PER_TAKE_MAX),
            format!("local CALL_IDS_MAX, REFUNDS_MAX = {}, {}", bounds::CALL_IDS_MAX, bounds::REFUNDS_MAX),
            format!("local CALL_ID_REMEMBERED = {}", bounds::CALL_ID_REMEMBERED.as_micros()),
            format!("local REFUND_REMEMBERED = {}", bounds::REFUND_REMEMBERED.as_micros()),
        ] {
            assert!(TEXT.contains(&format!("{line}\n")), "{line}");
        }
    }
}

//! The script: the engine in Lua, because Redis runs nothing else atomically.
//!
//! Its files are concatenated in this order. Every call creates the functions again, so rarely used ones are created on
//! demand: see `parts.lua`.

use crate::script_call::Script;

/// The whole script.
pub(crate) const TEXT: &str = concat!(
    include_str!("script/parts.lua"),
    include_str!("script/numbers.lua"),
    include_str!("script/window.lua"),
    include_str!("script/bucket.lua"),
    include_str!("script/limit.lua"),
    include_str!("script/account.lua"),
    include_str!("script/plain_take.lua"),
    include_str!("script/decide.lua"),
    include_str!("script/apply.lua"),
    include_str!("script/readings.lua"),
    include_str!("script/equal_takes.lua"),
    "other_parts = function()\n",
    include_str!("script/exact.lua"),
    include_str!("script/edge.lua"),
    include_str!("script/sliding.lua"),
    include_str!("script/slots.lua"),
    include_str!("script/adaptive.lua"),
    include_str!("script/kind.lua"),
    include_str!("script/meter.lua"),
    include_str!("script/change.lua"),
    include_str!("script/memory.lua"),
    include_str!("script/slow_path.lua"),
    include_str!("script/correct.lua"),
    include_str!("script/actions.lua"),
    include_str!("script/feedback.lua"),
    include_str!("script/recall.lua"),
    "end\n",
    include_str!("script/main.lua"),
);

/// The script, as servers know it.
pub(crate) static SCRIPT: Script = Script::new(TEXT);

#[cfg(test)]
mod tests;

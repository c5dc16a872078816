//! What a browser loads, embedded in the command.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::LazyLock;

use super::document::document;

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// Something that every client may read.
pub(crate) struct Asset {
    pub(crate) media_type: &'static str,
    pub(crate) body: String,
}

/// What stands at a path: the document at `/`, and the files that it loads.
pub(crate) fn find(path: &str) -> Option<Asset> {
    if path == "/" {
        return Some(Asset { media_type: HTML, body: DOCUMENT.clone() });
    }
    let (_, media_type, text) = ASSETS.iter().find(|(known, ..)| *known == path)?;
    Some(Asset { media_type, body: (*text).to_owned() })
}

macro_rules! asset {
    ($name:literal, $media_type:expr) => {
        (concat!("/assets/", $name), $media_type, include_str!(concat!("../../assets/", $name)))
    };
}

const ASSETS: &[(&str, &str, &str)] = &[
    asset!("tollway.css", CSS),
    asset!("icon.svg", SVG),
    asset!("theme.js", SCRIPT),
    asset!("tollway.js", SCRIPT),
    asset!("chart.js", SCRIPT),
    asset!("dom.js", SCRIPT),
    asset!("format.js", SCRIPT),
    asset!("limits.js", SCRIPT),
    asset!("live.js", SCRIPT),
    asset!("route.js", SCRIPT),
    asset!("rows.js", SCRIPT),
    asset!("stream.js", SCRIPT),
    asset!("token.js", SCRIPT),
    asset!("worker.js", SCRIPT),
    // Loaded when a view or a dialog needs them.
    asset!("apis.js", SCRIPT),
    asset!("ask.js", SCRIPT),
    asset!("consumers.js", SCRIPT),
    asset!("dialog.js", SCRIPT),
    asset!("fetched.js", SCRIPT),
    asset!("incidents.js", SCRIPT),
    asset!("jobs.js", SCRIPT),
    asset!("pipelines.js", SCRIPT),
    asset!("policy.js", SCRIPT),
    asset!("table.js", SCRIPT),
    asset!("time_chart.js", SCRIPT),
];

/// Names this build: tabs of different builds do not share a worker.
static DOCUMENT: LazyLock<String> = LazyLock::new(|| {
    let mut hasher = DefaultHasher::new();
    ASSETS.hash(&mut hasher);
    document(&format!("{:016x}", hasher.finish())).into_string()
});

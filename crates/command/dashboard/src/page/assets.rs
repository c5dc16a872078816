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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_folder_is_served() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/assets");
        for file in std::fs::read_dir(folder).unwrap() {
            let name = file.unwrap().file_name().into_string().unwrap();
            assert!(find(&format!("/assets/{name}")).is_some(), "{name} is not served");
        }
    }

    #[test]
    fn what_the_document_and_the_scripts_name_is_served() {
        let document = find("/").unwrap().body;
        let in_document =
            document.split('"').filter(|part| part.starts_with("assets/")).map(|part| format!("/{part}"));
        let quoted = ASSETS.iter().flat_map(|(_, _, text)| text.split('\''));
        let in_scripts = quoted.filter_map(|part| Some(format!("/assets/{}", part.strip_prefix("./")?)));
        let in_scripts = in_scripts.filter(|path| path.ends_with(".js"));
        let named: Vec<String> = in_document.chain(in_scripts).collect();
        assert!(named.len() > 40, "{named:?}");
        for path in named {
            assert!(find(&path).is_some(), "{path} is not served");
        }
    }

    /// The content security policy refuses them.
    #[test]
    fn the_document_has_no_inline_script_or_style() {
        let document = find("/").unwrap().body;
        assert_eq!(
            document.matches("<script").count(),
            document.matches("<script src=").count() + 1,
            "one is a module"
        );
        assert!(document.contains(r#"<script type="module" src="#));
        for inline in [" style=", "<style", " onclick=", "javascript:"] {
            assert!(!document.contains(inline), "{inline}");
        }
    }
}

//! The mark of what `--apply` made. `--destroy` deletes nothing else, unless it is told the name.

/// The key of the tag that every created resource gets.
pub(super) const TAG: &str = "tollway:made-by";

/// Its value.
pub(super) const TAG_VALUE: &str = "provision";

/// A dashboard has no tags: this line is in its body.
pub(super) const LINE: &str = "Made by `tollway provision aws`; `--destroy` deletes it.";

/// Whether tags, as pairs of key and value, have ours.
pub(super) fn has_tag<'a>(tags: impl IntoIterator<Item = (&'a str, &'a str)>) -> bool {
    tags.into_iter().any(|tag| tag == (TAG, TAG_VALUE))
}

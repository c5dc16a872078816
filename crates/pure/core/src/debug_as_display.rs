//! `Debug` of errors: the same text as `Display`.

/// Implements `Debug` of error types with the text of their `Display`.
///
/// A `main` that returns an error prints its `Debug`. A reader of that line needs the message, not the fields.
///
/// ```
/// #[derive(thiserror::Error)]
/// #[error("there is no policy {0}")]
/// struct NoPolicy(String);
///
/// tollway_core::debug_as_display!(NoPolicy);
///
/// assert_eq!(format!("{:?}", NoPolicy("gemini".to_owned())), "there is no policy gemini");
/// ```
#[macro_export]
macro_rules! debug_as_display {
    ($($error:ty),+ $(,)?) => {$(
        impl ::core::fmt::Debug for $error {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Display::fmt(self, f)
            }
        }
    )+};
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    /// Every Rust file below a folder.
    fn sources(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
        let rust = files.into_iter().filter(|path| path.extension().is_some_and(|name| name == "rs"));
        rust.chain(folders.iter().flat_map(|folder| sources(folder))).collect()
    }

    /// The public errors in a source text whose `Debug` is derived.
    fn derived(text: &str) -> impl Iterator<Item = &str> {
        let derives = text.split("\n#[derive(").skip(1);
        let errors = derives.filter(|rest| {
            let (list, item) = rest.split_once(")]").unwrap_or_default();
            let public = item.lines().find(|line| line.contains("struct ") || line.contains("enum "));
            list.contains("Debug")
                && list.contains("Error")
                && public.is_some_and(|line| line.starts_with("pub "))
        });
        errors.filter_map(|rest| rest.lines().find(|line| line.starts_with("pub ")))
    }

    #[test]
    fn public_errors_print_their_message_as_debug() {
        assert_eq!(derived("\n#[derive(Debug, thiserror::Error)]\npub enum E {\n}").count(), 1);
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        let wrong: Vec<String> = sources(crates)
            .iter()
            .filter(|path| path.components().any(|part| part.as_os_str() == "src"))
            .flat_map(|path| {
                let text = fs::read_to_string(path).unwrap();
                derived(&text).map(|item| format!("{}: {item}", path.display())).collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(wrong, Vec::<String>::new(), "use debug_as_display! instead of a derived Debug");
    }
}

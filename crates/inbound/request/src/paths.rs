//! Paths of routes, in which a part in braces stands for any text.

use crate::escapes::percent_decode;

/// The decoded parameters of a path, in order, if it has this form.
///
/// ```
/// use tollway_inbound::paths::path_parameters;
///
/// assert_eq!(path_parameters("/v1/policies/{policy}", "/v1/policies/a%2Fb"), Some(vec!["a/b".to_owned()]));
/// assert_eq!(path_parameters("/v1/usage", "/v1/usage"), Some(Vec::new()));
/// assert_eq!(path_parameters("/v1/policies/{policy}", "/v1/policies/a/b"), None);
/// ```
pub fn path_parameters(form: &str, path: &str) -> Option<Vec<String>> {
    if !form.contains('{') {
        return (form == path).then(Vec::new);
    }
    let (mut parts, mut parameters) = (path.split('/'), Vec::new());
    for part in form.split('/') {
        let given = parts.next()?;
        if part.starts_with('{') {
            parameters.push(percent_decode(given)?);
        } else if part != given {
            return None;
        }
    }
    parts.next().is_none().then_some(parameters)
}

//! Keys whose values are usually secrets, and lines without those values.

/// How keys of secrets end: `authorization`, `x-api-key`, `Slack_Token`, and `webhook`, whose URL often holds a token. Not `tokens`, which are counted, and not `key`,
/// the path of a private key.
const ENDINGS: [&str; 9] =
    ["authorization", "-key", "_key", "apikey", "token", "secret", "password", "cookie", "webhook"];

/// The exception: the name of a file in a bucket.
const FILE_KEY: &str = "original_file_key";

/// Whether the value of a key, such as the name of a header, is usually a secret.
pub fn names_a_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    !key.ends_with(FILE_KEY) && ENDINGS.iter().any(|ending| key.ends_with(ending))
}

/// The line with strings after such keys starred out: errors end up in logs. It keeps its length in characters.
pub(crate) fn without_secrets(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(equals) = rest.find('=') {
        let (before, after) = rest.split_at_checked(equals.saturating_add(1)).unwrap_or((rest, ""));
        shown.push_str(before);
        rest = after;
        let key = before.trim_end_matches('=').trim_end().trim_end_matches(['"', '\'']);
        let value = rest.trim_start();
        let Some(quote) = value.chars().next().filter(|first| matches!(first, '"' | '\'')) else { continue };
        if !names_a_secret(key) {
            continue;
        }
        let spaces = rest.len().saturating_sub(value.len());
        let inner = value.get(1..).unwrap_or_default();
        // Without a closing quote, all of the line is the secret.
        let secret = inner.find(quote).map_or(inner, |end| inner.get(..end).unwrap_or_default());
        shown.push_str(rest.get(..spaces).unwrap_or_default());
        shown.push(quote);
        shown.extend(secret.chars().map(|_| '*'));
        rest = inner.get(secret.len()..).unwrap_or_default();
    }
    shown.push_str(rest);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_secret_keys_are_starred_out() {
        for (line, shown) in [
            (
                "headers = { authorization = \"Bearer ab=c\", x = 5 }",
                "headers = { authorization = \"***********\", x = 5 }",
            ),
            ("\"X-Api-Key\"='a b' # b", "\"X-Api-Key\"='***' # b"),
            ("token = \"é\u{301}open", "token = \"******"),
            ("authorization = { env = \"NOTION_TOKEN\" }", "authorization = { env = \"NOTION_TOKEN\" }"),
            ("original_file_key = \"{job_id}.pdf\"", "original_file_key = \"{job_id}.pdf\""),
            ("cost = { tokens = \"bytes / 4\" }", "cost = { tokens = \"bytes / 4\" }"),
            ("a = 'b=c' = = ", "a = 'b=c' = = "),
        ] {
            assert_eq!(without_secrets(line), shown);
        }
    }
}

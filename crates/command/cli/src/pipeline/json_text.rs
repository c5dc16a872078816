//! Indents JSON without changing a value: numbers and strings stay byte for byte as they are.

/// JSON on several lines, with two spaces for each level. What is no JSON comes out in some form.
pub(super) fn indent(json: &str) -> String {
    let (mut text, mut depth, mut in_string, mut escaped) = (String::new(), 0_usize, false, false);
    let mut chars = json.chars().peekable();
    while let Some(c) = chars.next() {
        if in_string {
            text.push(c);
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
            continue;
        }
        match c {
            ' ' | '\t' | '\n' | '\r' => {}
            '"' => {
                in_string = true;
                text.push(c);
            }
            '{' | '[' => {
                text.push(c);
                while chars.peek().is_some_and(|next| next.is_ascii_whitespace()) {
                    chars.next();
                }
                if chars.peek().is_some_and(|next| matches!(next, '}' | ']')) {
                    text.extend(chars.next());
                } else {
                    depth += 1;
                    new_line(&mut text, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut text, depth);
                text.push(c);
            }
            ',' => {
                text.push(c);
                new_line(&mut text, depth);
            }
            ':' => text.push_str(": "),
            other => text.push(other),
        }
    }
    text
}

fn new_line(text: &mut String, depth: usize) {
    text.push('\n');
    text.extend(std::iter::repeat_n("  ", depth));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_as_they_are() {
        let json = r#"{"a":[1e400,12345678901234567890123, {}],"b c":"x, {\"y\": [1]} \\","d":[ ]}"#;
        let expected = "{\n  \"a\": [\n    1e400,\n    12345678901234567890123,\n    {}\n  ],\n  \"b c\": \"x, {\\\"y\\\": [1]} \\\\\",\n  \"d\": []\n}";
        assert_eq!(indent(json), expected);
        assert_eq!(indent(expected), expected);
        assert_eq!(indent("  7 "), "7");
    }
}

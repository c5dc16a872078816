//! A topic of AWS SNS, by its ARN.

/// Shown for a value that is not a text.
pub(super) const TOPIC_EXAMPLE: &str = "arn:aws:sns:eu-central-1:123456789012:alerts";

pub(super) const TOPIC_ADVICE: &str =
    "write it like `topic = \"arn:aws:sns:eu-central-1:123456789012:alerts\"`";

/// The longest name of a topic.
const NAME_MAX: usize = 256;

/// The topic that incidents and alarms are sent to.
///
/// ```
/// use tollway::config::TopicConfig;
///
/// let topic = TopicConfig::new("arn:aws:sns:eu-central-1:123456789012:alerts")?;
/// assert_eq!(topic.region(), "eu-central-1");
/// assert!(TopicConfig::new("alerts").is_err());
/// # Ok::<(), tollway::config::TopicError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicConfig {
    arn: String,
    region: String,
}

/// A text that is not the ARN of a topic.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopicError {
    /// It is something else.
    #[error("`topic` must be the ARN of a topic of SNS")]
    NotAnArn,
    /// Of the other kind of topic.
    #[error("`topic` is a FIFO topic; e-mail, SMS and most other subscribers need a standard one")]
    Fifo,
}

tollway_core::debug_as_display!(TopicError);

impl TopicConfig {
    /// The topic with this ARN.
    pub fn new(arn: &str) -> Result<Self, TopicError> {
        let parts: Vec<&str> = arn.split(':').collect();
        let ["arn", partition, "sns", region, account, name] = parts[..] else {
            return Err(TopicError::NotAnArn);
        };
        let word = |text: &str| {
            !text.is_empty() && text.bytes().all(|letter| letter.is_ascii_alphanumeric() || letter == b'-')
        };
        if name.ends_with(".fifo") {
            return Err(TopicError::Fifo);
        }
        let is_account = account.len() == 12 && account.bytes().all(|digit| digit.is_ascii_digit());
        let is_name = name.len() <= NAME_MAX
            && name.split('_').all(|part| part.is_empty() || word(part))
            && !name.is_empty();
        if partition.starts_with("aws") && word(partition) && word(region) && is_account && is_name {
            return Ok(Self { arn: arn.to_owned(), region: region.to_owned() });
        }
        Err(TopicError::NotAnArn)
    }

    /// Its ARN.
    pub fn arn(&self) -> &str {
        &self.arn
    }

    /// The region that it is in.
    pub fn region(&self) -> &str {
        &self.region
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_arns_of_standard_topics_are_topics() {
        for arn in ["arn:aws:sns:eu-west-1:123456789012:a_b-C", "arn:aws-cn:sns:cn-north-1:000000000000:t"] {
            assert_eq!(TopicConfig::new(arn).unwrap().arn(), arn);
        }
        for arn in [
            "",
            "alerts",
            "arn:aws:sqs:eu-west-1:123456789012:a",
            "arn:aws:sns::123456789012:a",
            "arn:aws:sns:eu-west-1:1234:a",
            "arn:aws:sns:eu-west-1:123456789012:",
            "arn:aws:sns:eu-west-1:123456789012:a b",
            "arn:aws:sns:eu-west-1:123456789012:a:subscription",
        ] {
            assert_eq!(TopicConfig::new(arn), Err(TopicError::NotAnArn), "{arn}");
        }
        assert_eq!(TopicConfig::new("arn:aws:sns:eu-west-1:123456789012:a.fifo"), Err(TopicError::Fifo));
    }
}

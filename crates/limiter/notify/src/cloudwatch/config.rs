//! `[cloudwatch]`: where metrics go in CloudWatch, and how.

use tollway_config::{Section, type_words};
use tollway_core::Span;

use crate::cloudwatch::data::OUR_DIMENSIONS;

/// The namespace, unless the config names one.
pub const NAMESPACE_DEFAULT: &str = "Tollway";

const NAMESPACE_MAX: usize = 255;

/// CloudWatch takes 30; a few are ours.
const DIMENSIONS_MAX: usize = 20;

const DIMENSION_NAME_MAX: usize = 255;

const DIMENSION_VALUE_MAX: usize = 1_024;

const INTERVAL_DEFAULT: Span = Span::from_mins(1);

const INTERVAL_MIN: Span = Span::from_secs(1);

const INTERVAL_MAX: Span = Span::from_mins(60);

/// How figures reach CloudWatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// As lines in the embedded metric format on standard output.
    Emf,
    /// By calls of `PutMetricData`.
    Put,
}

/// The section `[cloudwatch]`.
///
/// ```
/// # struct Only(Option<tollway_notify::cloudwatch::CloudWatchConfig>);
/// # impl tollway_config::FromConfig for Only {
/// #     fn read(root: &mut tollway_config::Section<'_>) -> Self { Self(tollway_notify::cloudwatch::read(root)) }
/// #     fn in_folder(&mut self, _: &std::path::Path) {}
/// # }
/// let Only(config) = tollway_config::parse(r#"
///     [cloudwatch]
///     namespace = "AdobePDFProcessing"
///     send = "emf"
///     dimensions = { Environment = "production" }
/// "#)?;
/// assert_eq!(config.unwrap().namespace, "AdobePDFProcessing");
/// # Ok::<(), tollway_config::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudWatchConfig {
    /// The namespace of all metrics.
    pub namespace: String,
    /// How figures reach CloudWatch.
    pub delivery: Delivery,
    /// How often.
    pub interval: Span,
    /// Dimensions of every figure, besides its own.
    pub dimensions: Vec<(String, String)>,
    /// The region; none: as every AWS tool finds it.
    pub region: Option<String>,
    /// Another place than AWS's own, for emulators and private endpoints.
    pub endpoint: Option<String>,
}

impl CloudWatchConfig {
    /// All defaults, with this way.
    pub fn new(delivery: Delivery) -> Self {
        Self {
            namespace: NAMESPACE_DEFAULT.to_owned(),
            delivery,
            interval: INTERVAL_DEFAULT,
            dimensions: Vec::new(),
            region: None,
            endpoint: None,
        }
    }
}

/// Reads the section, if the file has it.
pub fn read(root: &mut Section<'_>) -> Option<CloudWatchConfig> {
    root.section("cloudwatch").map(read_section)
}

fn read_section(mut section: Section<'_>) -> CloudWatchConfig {
    let ways = [("emf", Delivery::Emf), ("put", Delivery::Put)];
    let mut config = CloudWatchConfig::new(section.choice("send", &ways).unwrap_or(Delivery::Emf));
    if let Some(namespace) = section.string("namespace", "AdobePDFProcessing") {
        if let Some((message, advice)) = wrong_namespace(namespace.get_ref()) {
            section.problem("namespace", message, advice);
        }
        (*namespace.get_ref()).clone_into(&mut config.namespace);
    }
    if let Some(interval) = section.span("interval", "1m") {
        if !(INTERVAL_MIN..=INTERVAL_MAX).contains(&interval) {
            let message = format!("`interval` is a time from {INTERVAL_MIN} to {INTERVAL_MAX}");
            section.problem("interval", message, "write it like `interval = \"1m\"`");
        }
        config.interval = interval;
    }
    config.dimensions = read_dimensions(&mut section);
    config.region = section.string("region", "eu-central-1").map(|text| (*text.get_ref()).to_owned());
    let endpoint = section.string("endpoint", "http://127.0.0.1:4566");
    if let Some(endpoint) = &endpoint
        && !["http://", "https://"].iter().any(|scheme| endpoint.get_ref().starts_with(scheme))
    {
        section.problem("endpoint", "`endpoint` must begin with https:// or http://", "");
    }
    config.endpoint = endpoint.map(|text| (*text.get_ref()).to_owned());
    for key in ["region", "endpoint"] {
        if config.delivery == Delivery::Emf && section.has(key) {
            let message = format!("`{key}` is for `send = \"put\"`; lines on standard output have none");
            section.problem(key, message, "remove it, or add `send = \"put\"`");
        }
    }
    section.finish();
    config
}

fn wrong_namespace(name: &str) -> Option<(String, &'static str)> {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || "._-/#".contains(letter);
    let advice = "a namespace has letters, digits, `.`, `_`, `-`, `/` and `#`";
    if name.is_empty() || name.len() > NAMESPACE_MAX {
        return Some((format!("a namespace has 1 to {NAMESPACE_MAX} letters"), advice));
    }
    if let Some(letter) = name.chars().find(|letter| !allowed(*letter)) {
        return Some((format!("{letter:?} cannot be part of a namespace"), advice));
    }
    let message = || "namespaces that begin with AWS/ belong to AWS".to_owned();
    name.starts_with("AWS/").then(|| (message(), "choose another one"))
}

fn read_dimensions(section: &mut Section<'_>) -> Vec<(String, String)> {
    const EXAMPLE: &str = "write them like `dimensions = { Environment = \"production\" }`";
    let Some(value) = section.value("dimensions") else { return Vec::new() };
    let Some(table) = value.get_ref().as_table() else {
        let message = format!("`dimensions` must be a table, not {}", type_words(value.get_ref()));
        section.problem("dimensions", message, EXAMPLE);
        return Vec::new();
    };
    if table.len() > DIMENSIONS_MAX {
        section.problem("dimensions", format!("there are at most {DIMENSIONS_MAX} dimensions"), "");
    }
    let mut dimensions = Vec::new();
    for (name, value) in table {
        let key: &str = name.get_ref();
        if let Some(message) = wrong_dimension_name(key) {
            section.report().problem(name.span(), message, "");
        }
        match value.get_ref().as_str().filter(|text| is_dimension_value(text)) {
            Some(text) => dimensions.push((key.to_owned(), text.to_owned())),
            None => {
                let message =
                    format!("the value of a dimension is a text of 1 to {DIMENSION_VALUE_MAX} ASCII letters");
                section.report().problem(value.span(), message, EXAMPLE);
            }
        }
    }
    dimensions
}

fn wrong_dimension_name(name: &str) -> Option<String> {
    let visible = |letter: u8| letter == b' ' || letter.is_ascii_graphic();
    if name.is_empty() || name.len() > DIMENSION_NAME_MAX || !name.bytes().all(visible) {
        return Some(format!("the name of a dimension has 1 to {DIMENSION_NAME_MAX} ASCII letters"));
    }
    if name.starts_with(':') || name == "_aws" {
        return Some(format!("{name:?} cannot be the name of a dimension"));
    }
    OUR_DIMENSIONS.contains(&name).then(|| format!("{name:?} is a dimension of Tollway's own figures"))
}

fn is_dimension_value(text: &str) -> bool {
    let visible = |letter: u8| letter == b' ' || letter.is_ascii_graphic();
    (1..=DIMENSION_VALUE_MAX).contains(&text.len()) && text.bytes().all(visible) && !text.trim().is_empty()
}

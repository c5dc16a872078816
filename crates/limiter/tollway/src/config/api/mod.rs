//! `[apis.NAME]`: a vendor that is called.
//!
//! Where to look: `read` takes a section apart, with `base_url`, `rate`, `header`, `endpoint`, `gateway` and `cost` for
//! their keys; `profiles` are the vendors shipped with Tollway, `policies` makes the policy of an api that names none.
//!
//! # Why the library has it
//!
//! `tollway-client` and `tollway-gateway` make the calls, but a section is also policies, and every limiter needs those:
//!
//! - `[apis.notion]` by itself brings a policy of the profile's limits and rate, and `notion.concurrency` (`policies`).
//!   A program without a client ([`Limiter::from_config`](crate::Limiter::from_config), `tollway take notion`, a server)
//!   takes under them, in the same accounts as the client. So the library reads the profiles, too.
//! - A section changes policies of the same file: `rate` becomes one of their limits, and a lease is refused. A section,
//!   its endpoints and its gateway name policies; a wrong name is an error with its line.
//! - A reload replaces policies and apis together. With a reader of its own, the client could follow a new section while
//!   the limiter still enforces the old policies.
//! - Permits of these policies keep what was granted last, as evidence for [`incident`](crate::incident)s.
//!
//! The library passes the other keys (address, headers, dialect, costs, retries) on. They are read here because the one
//! reader of a section is the one that can say which of its keys are unknown.

mod base_url;
mod cost;
mod endpoint;
mod gateway;
mod header;
mod policies;
mod profiles;
mod rate;
mod read;

use tollway_core::bounds::EDGE_PART_OF_PERIOD;
use tollway_core::controller::{Keep, START_RATE};
use tollway_core::{Algorithm, Calendar, Lease, Limit, Name, Policy, REQUESTS, Span};
use tollway_dialects::Dialect;

pub use cost::{CostEstimate, UnitCost};
pub use endpoint::{ApiEndpoint, EndpointPattern};
pub use gateway::{ApiAccounts, ApiGateway};
pub use header::{ApiHeader, ApiHeaderError};
pub(super) use policies::attach;
pub use rate::{ApiRate, RateSettings};
pub(super) use read::{read, read_all};

use rate::RateField;

/// The statuses that mean "call later", unless an api says otherwise.
pub const BACKOFF_CODES_DEFAULT: [u16; 1] = [429];
/// How often a refused call is sent again, unless an api says otherwise.
pub const MAX_RETRIES_DEFAULT: u32 = 5;
/// How long a call may take with all its waits and retries, unless an api says otherwise.
pub const MAX_TIME_DEFAULT: Span = Span::from_mins(10);
/// How long one attempt may take, unless an api says otherwise.
pub const TIMEOUT_DEFAULT: Span = Span::from_secs(60);

/// The edge of a policy that is made of an api's limits, unless a window is too short for it.
const OWN_EDGE: Span = Span::from_millis(250);

/// A vendor in the registry: from the config, from a profile shipped with Tollway, or from both.
///
/// ```
/// use tollway::config::{Api, FieldOrigin};
///
/// let config = tollway::Config::parse("[apis.notion]\nmax_retries = 2")?;
/// let notion = config.api("notion").ok_or("no such api")?;
/// assert_eq!((notion.max_retries(), notion.origin("max_retries")), (2, FieldOrigin::Config));
/// assert_eq!(notion.base_url(), "https://api.notion.com/v1");
/// assert_eq!(notion.origin("base_url"), FieldOrigin::Profile);
/// assert_eq!(Api::profile("notion").map(|profile| profile.max_retries()), Some(5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Api {
    name: Name,
    /// The profile that its fields are taken from where the config is silent.
    profile: Option<Name>,
    /// The policy its calls are charged to: named, of the same name, or made of its own limits.
    policy: Option<Name>,
    fields: Fields,
    /// The keys that the config has.
    given: Vec<&'static str>,
}

/// Where a field of an api comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldOrigin {
    /// The config file.
    Config,
    /// The profile.
    Profile,
    /// Neither says anything.
    Default,
}

/// What a section says; nothing about the fields that are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Fields {
    base_url: Option<String>,
    policy: Option<Name>,
    limits: Option<Vec<Limit>>,
    rate: Option<RateField>,
    concurrency: Option<u32>,
    keep: Option<Keep>,
    dialect: Option<&'static str>,
    backoff_codes: Option<Vec<u16>>,
    max_retries: Option<u32>,
    max_time: Option<Span>,
    timeout: Option<Span>,
    headers: Option<Vec<ApiHeader>>,
    cost: Option<Vec<UnitCost>>,
    endpoints: Option<Vec<ApiEndpoint>>,
    gateway: Option<ApiGateway>,
    documented: Option<String>,
    documented_at: Option<String>,
}

impl Api {
    /// The keys of an api in a config, in the order in which they are shown.
    pub const KEYS: [&'static str; 16] = [
        "base_url",
        "policy",
        "limits",
        "rate",
        "concurrency",
        "keep",
        "dialect",
        "backoff_codes",
        "max_retries",
        "max_time",
        "timeout",
        "headers",
        "cost",
        "endpoints",
        "documented",
        "documented_at",
    ];

    /// The profile of this name that is shipped with Tollway, as an api without a config.
    pub fn profile(name: &str) -> Option<Self> {
        profiles::find(name).cloned()
    }

    /// All profiles that are shipped with Tollway, sorted by name.
    pub fn profiles() -> &'static [Self] {
        profiles::all()
    }

    /// Its name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The profile that its fields are taken from where the config is silent.
    pub fn profile_name(&self) -> Option<&Name> {
        self.profile.as_ref()
    }

    /// What its addresses begin with. Of the profile of a vendor with one address for each customer, with a part in
    /// braces; in a config that part is filled in.
    pub fn base_url(&self) -> &str {
        self.fields.base_url.as_deref().unwrap_or_default()
    }

    /// The same at another address, such as that of a test server. The error says what is wrong with the URL.
    pub fn with_base_url(mut self, url: &str) -> Result<Self, &'static str> {
        match base_url::what_is_wrong_with(url) {
            Some((_, message)) => Err(message),
            None => {
                self.fields.base_url = Some(url.to_owned());
                Ok(self)
            }
        }
    }

    /// The policy that its calls are charged to.
    ///
    /// It is the one that the config names, else the one with the api's name, else one that is made of
    /// [`limits`](Self::limits), under the api's name. Its [`rate`](Self::rate) is a limit of it, named `rate`.
    pub fn policy(&self) -> Option<&Name> {
        self.policy.as_ref()
    }

    /// Every policy whose permits a call may need: that of the api, and those of endpoints.
    pub fn policies(&self) -> impl Iterator<Item = &Name> {
        self.policy.iter().chain(self.endpoints().iter().filter_map(ApiEndpoint::policy))
    }

    /// The policy that counts calls in flight: `NAME.concurrency`. It is apart from the api's policy, because a take that
    /// needs a slot cannot be booked ahead.
    pub fn slots_policy(&self) -> Option<Policy> {
        let limit: Limit = format!("{} concurrent", self.concurrency()?).parse().ok()?;
        let name = Name::new(&format!("{}.concurrency", self.name)).ok()?;
        Policy::of_limits(name, vec![limit]).ok()
    }

    /// The limits that its own policy is made of, if the config has no policy for it.
    pub fn limits(&self) -> &[Limit] {
        self.fields.limits.as_deref().unwrap_or_default()
    }

    /// How its rate is found, if it has one beside the policy's limits.
    pub fn rate(&self) -> Option<ApiRate> {
        match self.fields.rate? {
            RateField::Off => None,
            RateField::On(rate) => Some(rate),
        }
    }

    /// How many calls all processes together may have in flight. See [`slots_policy`](Self::slots_policy).
    pub fn concurrency(&self) -> Option<u32> {
        self.fields.concurrency
    }

    /// The part of the vendor's quotas that is left to people, as far as the vendor's answers show the quotas.
    pub fn keep(&self) -> Keep {
        self.fields.keep.unwrap_or_default()
    }

    /// The same with this part left to people.
    #[must_use]
    pub fn with_keep(mut self, keep: Keep) -> Self {
        self.fields.keep = Some(keep);
        self
    }

    /// How the vendor tells its limits; none if that is to be detected in each response.
    pub fn dialect(&self) -> Option<&'static Dialect> {
        self.fields.dialect.and_then(Dialect::by_name)
    }

    /// The name of the dialect as the config has it. Several vendors may share one dialect.
    pub fn dialect_name(&self) -> Option<&'static str> {
        self.fields.dialect
    }

    /// The statuses that mean "call later".
    pub fn backoff_codes(&self) -> &[u16] {
        self.fields.backoff_codes.as_deref().unwrap_or(&BACKOFF_CODES_DEFAULT)
    }

    /// How often a refused call is sent again.
    pub fn max_retries(&self) -> u32 {
        self.fields.max_retries.unwrap_or(MAX_RETRIES_DEFAULT)
    }

    /// How long a call may take with all its waits and retries.
    pub fn max_time(&self) -> Span {
        self.fields.max_time.unwrap_or(MAX_TIME_DEFAULT)
    }

    /// How long one attempt may take; never longer than [`max_time`](Self::max_time).
    pub fn timeout(&self) -> Span {
        self.fields.timeout.unwrap_or(TIMEOUT_DEFAULT).min(self.max_time())
    }

    /// Headers of every request, sorted by name.
    pub fn headers(&self) -> &[ApiHeader] {
        self.fields.headers.as_deref().unwrap_or_default()
    }

    /// What a call costs in units other than calls, estimated before it is sent, sorted by unit.
    pub fn cost(&self) -> &[UnitCost] {
        self.fields.cost.as_deref().unwrap_or_default()
    }

    /// Calls with a policy or a cost of their own, in the order in which they are compared.
    pub fn endpoints(&self) -> &[ApiEndpoint] {
        self.fields.endpoints.as_deref().unwrap_or_default()
    }

    /// The first endpoint that a call matches. The path is that of the whole URL, without its query.
    pub fn endpoint(&self, method: &str, path: &str) -> Option<&ApiEndpoint> {
        self.endpoints().iter().find(|endpoint| endpoint.pattern().matches(method, path))
    }

    /// How `tollway gateway` treats calls of it.
    pub fn gateway(&self) -> &ApiGateway {
        self.fields.gateway.as_ref().unwrap_or(&gateway::DEFAULT)
    }

    /// Whose accounts at the vendor its calls through a gateway count for: those of callers' credentials, unless the config
    /// has a credential or says otherwise.
    pub fn accounts(&self) -> ApiAccounts {
        let own = || match self.headers().iter().any(ApiHeader::holds_credential) {
            true => ApiAccounts::One,
            false => ApiAccounts::ByCredential,
        };
        self.gateway().accounts.unwrap_or_else(own)
    }

    /// What the vendor says about its limit.
    pub fn documented(&self) -> Option<&str> {
        self.fields.documented.as_deref()
    }

    /// The page where the vendor says so.
    pub fn documented_at(&self) -> Option<&str> {
        self.fields.documented_at.as_deref()
    }

    /// Where the value of a key comes from; [`Api::KEYS`] lists them.
    pub fn origin(&self, key: &str) -> FieldOrigin {
        if self.given.contains(&key) {
            FieldOrigin::Config
        } else if self.fields.has(key) {
            FieldOrigin::Profile
        } else {
            FieldOrigin::Default
        }
    }

    /// A policy of the api's name out of its own limits and its rate; none if it has neither.
    pub(crate) fn own_policy(&self) -> Option<Policy> {
        let limits: Vec<Limit> = self.limits().iter().cloned().chain(self.rate_limit()).collect();
        let edge = limits.iter().filter_map(own_edge).min();
        // Its limits and their names were checked when it was read.
        let policy = Policy::of_limits(self.name.clone(), limits).ok()?;
        Some(policy.with_lease(Lease::Off).with_edge(edge.unwrap_or_default()))
    }

    /// `rate` as a limit. Millionths of a call a second are calls in a million seconds, in lowest terms: 1.5 a second is 3 in
    /// two seconds.
    pub(crate) fn rate_limit(&self) -> Option<Limit> {
        let start = match self.rate()? {
            ApiRate::Auto => START_RATE,
            ApiRate::By(settings) => settings.initial().count(),
        };
        let (start, seconds, unit) = (start.max(1), 1_000_000, Name::new(REQUESTS).ok()?);
        let divisor = greatest_common_divisor(start, seconds);
        let period = Span::from_secs(seconds.checked_div(divisor)?);
        Limit::new(start.checked_div(divisor)?, unit, Algorithm::Adaptive(period)).ok()
    }
}

impl FieldOrigin {
    /// As a word: `config`, `profile` or `default`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Config => "config",
            Self::Profile => "profile",
            Self::Default => "default",
        }
    }
}

impl Fields {
    fn has(&self, key: &str) -> bool {
        match key {
            "base_url" => self.base_url.is_some(),
            "policy" => self.policy.is_some(),
            "limits" => self.limits.is_some(),
            "rate" => self.rate.is_some(),
            "concurrency" => self.concurrency.is_some(),
            "keep" => self.keep.is_some(),
            "dialect" => self.dialect.is_some(),
            "backoff_codes" => self.backoff_codes.is_some(),
            "max_retries" => self.max_retries.is_some(),
            "max_time" => self.max_time.is_some(),
            "timeout" => self.timeout.is_some(),
            "headers" => self.headers.is_some(),
            "cost" => self.cost.is_some(),
            "endpoints" => self.endpoints.is_some(),
            "documented" => self.documented.is_some(),
            "documented_at" => self.documented_at.is_some(),
            _ => false,
        }
    }

    /// These fields, and those of a profile where they say nothing. Headers are joined one by one.
    fn over(self, profile: &Self) -> Self {
        fn either<T: Clone>(one: Option<T>, other: &Option<T>) -> Option<T> {
            one.or_else(|| other.clone())
        }
        Self {
            base_url: either(self.base_url, &profile.base_url),
            policy: either(self.policy, &profile.policy),
            limits: either(self.limits, &profile.limits),
            rate: either(self.rate, &profile.rate),
            concurrency: either(self.concurrency, &profile.concurrency),
            keep: either(self.keep, &profile.keep),
            dialect: either(self.dialect, &profile.dialect),
            backoff_codes: either(self.backoff_codes, &profile.backoff_codes),
            max_retries: either(self.max_retries, &profile.max_retries),
            max_time: either(self.max_time, &profile.max_time),
            timeout: either(self.timeout, &profile.timeout),
            headers: join_headers(self.headers, &profile.headers),
            cost: either(self.cost, &profile.cost),
            endpoints: either(self.endpoints, &profile.endpoints),
            gateway: either(self.gateway, &profile.gateway),
            // The profile's page does not say what the config says.
            documented_at: match self.documented {
                Some(_) => self.documented_at,
                None => either(self.documented_at, &profile.documented_at),
            },
            documented: either(self.documented, &profile.documented),
        }
    }
}

fn greatest_common_divisor(mut one: u64, mut other: u64) -> u64 {
    while let Some(rest) = one.checked_rem(other) {
        (one, other) = (other, rest);
    }
    one.max(1)
}

/// How far grants stay away from the ends of a clock window, so that calls arrive in the window they were granted in.
fn own_edge(limit: &Limit) -> Option<Span> {
    let longest = match limit.calendar()? {
        Calendar::Every(period) => Span::from_micros(period.as_micros() / EDGE_PART_OF_PERIOD),
        Calendar::Day(_) | Calendar::Week(_) | Calendar::Month(_) => OWN_EDGE,
    };
    Some(OWN_EDGE.min(longest))
}

fn join_headers(given: Option<Vec<ApiHeader>>, profile: &Option<Vec<ApiHeader>>) -> Option<Vec<ApiHeader>> {
    let Some(mut headers) = given else { return profile.clone() };
    for header in profile.iter().flatten() {
        if !headers.iter().any(|known| known.name() == header.name()) {
            headers.push(header.clone());
        }
    }
    headers.sort_by(|one, other| one.name().cmp(other.name()));
    Some(headers)
}

//! `rate`: how the rate of calls is found, and the five settings of the documented method.

use tollway_config::{DeValue, Millionths, Section, type_words};

/// The highest rate a vendor may have, calls a second: no single vendor is called more often.
const RATE_MAX: Millionths = Millionths::whole(1_000_000);
/// A factor that decreases is at most this.
const FACTOR_MAX: Millionths = Millionths::whole(1);

const EXAMPLE: &str = "{ initial = 2.0, min = 0.3, max = 3.5, increase_step = 0.1, decrease_factor = 0.5 }, \
                       \"auto\" or \"off\"";

/// The settings as keys of `rate = { ... }`.
const TABLE_KEYS: [&str; 5] = ["initial", "min", "max", "increase_step", "decrease_factor"];
/// The same settings as keys of the api itself.
const FLAT_KEYS: [&str; 5] = ["initial_rate", "min_rate", "max_rate", "increase_step", "decrease_factor"];

/// How the rate of calls to a vendor is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiRate {
    /// `"auto"`: found without settings.
    Auto,
    /// By these settings.
    By(RateSettings),
}

/// Five settings for a limit that is not known exactly: rates in calls a second, and a factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSettings {
    initial: Millionths,
    min: Millionths,
    max: Millionths,
    increase_step: Millionths,
    decrease_factor: Millionths,
}

/// What a section says about the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RateField {
    /// `"off"`: only the policy limits the calls, although the profile has a rate.
    Off,
    On(ApiRate),
}

impl ApiRate {
    /// The settings; none of `"auto"`.
    pub fn settings(self) -> Option<RateSettings> {
        match self {
            Self::Auto => None,
            Self::By(settings) => Some(settings),
        }
    }
}

impl RateSettings {
    /// Where it starts.
    pub fn initial(&self) -> Millionths {
        self.initial
    }

    /// What it never falls below.
    pub fn min(&self) -> Millionths {
        self.min
    }

    /// What it never rises above.
    pub fn max(&self) -> Millionths {
        self.max
    }

    /// What each success adds.
    pub fn increase_step(&self) -> Millionths {
        self.increase_step
    }

    /// What a refusal multiplies it with.
    pub fn decrease_factor(&self) -> Millionths {
        self.decrease_factor
    }

    fn values(&self) -> [Millionths; 5] {
        [self.initial, self.min, self.max, self.increase_step, self.decrease_factor]
    }
}

/// The rate of an api. Settings that the section leaves out are those of its profile, if that has some.
pub(super) fn read(section: &mut Section<'_>, profile: Option<RateSettings>) -> Option<RateField> {
    let flat = FLAT_KEYS.iter().find(|key| section.has(key));
    let Some(value) = section.value("rate") else {
        flat?;
        return read_settings(section, FLAT_KEYS, profile)
            .map(|settings| RateField::On(ApiRate::By(settings)));
    };
    if let Some(flat) = flat {
        for key in FLAT_KEYS {
            section.value(key);
        }
        let message = format!("`rate` and `{flat}` set the same rate");
        section.problem(flat, message, "write the five settings in one place");
        return None;
    }
    let advice = format!("write it like {EXAMPLE}");
    match value.get_ref() {
        DeValue::String(word) if AsRef::<str>::as_ref(word) == "auto" => Some(RateField::On(ApiRate::Auto)),
        DeValue::String(word) if AsRef::<str>::as_ref(word) == "off" => Some(RateField::Off),
        DeValue::String(word) => {
            section.problem("rate", format!("{word:?} is not a rate"), &advice);
            None
        }
        DeValue::Table(table) => {
            let path = format!("{}.rate", section.path());
            let mut table = Section::new(section.report(), path, value.span(), table);
            let settings = read_settings(&mut table, TABLE_KEYS, profile);
            table.finish();
            settings.map(|settings| RateField::On(ApiRate::By(settings)))
        }
        other => {
            let message =
                format!("`rate` must be a table of five numbers or \"auto\", not {}", type_words(other));
            section.problem("rate", message, &advice);
            None
        }
    }
}

fn read_settings(
    table: &mut Section<'_>,
    keys: [&'static str; 5],
    profile: Option<RateSettings>,
) -> Option<RateSettings> {
    const EXAMPLES: [&str; 5] = ["2.0", "0.1", "3.5", "0.1", "0.5"];
    const MOST: [Millionths; 5] = [RATE_MAX, RATE_MAX, RATE_MAX, RATE_MAX, FACTOR_MAX];
    let defaults = profile.map(|profile| profile.values());
    let mut read = [None; 5];
    let settings = read.iter_mut().zip(keys).zip(EXAMPLES).zip(MOST).enumerate();
    for (place, (((setting, key), example), most)) in settings {
        let default = defaults.and_then(|defaults| defaults.get(place).copied());
        *setting = match default {
            Some(default) if !table.has(key) => {
                table.value(key);
                Some(default)
            }
            _ => table.millionths(key, most, example),
        };
    }
    let [initial, min, max, increase_step, decrease_factor] = read;
    if let Some((min, max)) = min.zip(max) {
        check_order(table, keys, initial, min, max);
    }
    Some(RateSettings {
        initial: initial?,
        min: min?,
        max: max?,
        increase_step: increase_step?,
        decrease_factor: decrease_factor?,
    })
}

fn check_order(
    table: &Section<'_>,
    [initial_key, min_key, max_key, ..]: [&str; 5],
    initial: Option<Millionths>,
    min: Millionths,
    max: Millionths,
) {
    // The mark goes under a key that the file has; the others are those of a profile.
    if min > max {
        let key = if table.has(min_key) { min_key } else { max_key };
        let message = format!("`{min_key}` is {min}, above `{max_key}`, which is {max}");
        table.problem(key, message, "exchange them");
    } else if let Some(initial) = initial
        && !(min..=max).contains(&initial)
    {
        let limits = if initial < min { [initial_key, min_key] } else { [initial_key, max_key] };
        let key = limits.into_iter().find(|key| table.has(key)).unwrap_or(initial_key);
        let message =
            format!("`{initial_key}` is {initial}, outside `{min_key}` to `{max_key}`, {min} to {max}");
        table.problem(key, message, "start between them");
    }
}

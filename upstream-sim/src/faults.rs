//! The simulator's faults, on demand.

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Faults that the simulator makes. Shares are from 0 to 1.
#[derive(Args, Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[command(next_help_heading = "Faults")]
pub struct Faults {
    /// Milliseconds by which each response to a lookup is late
    #[arg(long = "fault-latency-ms", value_name = "MS", default_value_t = 0)]
    pub latency_ms: u64,
    /// Share of lookups that fail with an error
    #[arg(long = "fault-error-share", value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    pub error_share: f64,
    /// Status of those errors
    #[arg(
        long = "fault-error-status",
        value_name = "STATUS",
        default_value_t = 500,
        value_parser = clap::value_parser!(u16).range(400..=599)
    )]
    pub error_status: u16,
    /// Seconds in `Retry-After` of errors 429 and 503 [default: none]
    #[arg(long = "fault-retry-after-s", value_name = "SECONDS")]
    pub retry_after_s: Option<u64>,
    /// Share of lookups whose response breaks off
    #[arg(long = "fault-cut-share", value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    pub cut_share: f64,
    /// Share of frames after which the feed's connection breaks
    #[arg(long = "fault-disconnect-share", value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    pub disconnect_share: f64,
    /// Share of frames that come twice
    #[arg(long = "fault-duplicate-share", value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    pub duplicate_share: f64,
    /// Share of frames that come a few frames late
    #[arg(long = "fault-disorder-share", value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    pub disorder_share: f64,
    /// Share of frames before which a frame of garbage comes
    #[arg(long = "fault-garbage-share", value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    pub garbage_share: f64,
    /// Share of changes that the feed never reports
    #[arg(long = "fault-omit-share", value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    pub omit_share: f64,
    /// The feed stays open and sends nothing
    #[arg(long = "fault-silent")]
    pub silent: bool,
    /// The feed is refused with 503
    #[arg(long = "fault-refuse-feed")]
    pub refuse_feed: bool,
    /// Share of frames that are lost, which a `gap` frame reports
    #[arg(long = "fault-gap-share", value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    pub gap_share: f64,
    /// No position is known any more
    #[arg(long = "fault-lose-positions")]
    pub lose_positions: bool,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            latency_ms: 0,
            error_share: 0.0,
            error_status: 500,
            retry_after_s: None,
            cut_share: 0.0,
            disconnect_share: 0.0,
            duplicate_share: 0.0,
            disorder_share: 0.0,
            garbage_share: 0.0,
            omit_share: 0.0,
            silent: false,
            refuse_feed: false,
            gap_share: 0.0,
            lose_positions: false,
        }
    }
}

impl Faults {
    /// These faults, with the fields that a JSON object names replaced.
    pub(crate) fn with(&self, fields: Map<String, Value>) -> Result<Self, String> {
        let Ok(Value::Object(mut all)) = serde_json::to_value(self) else {
            return Err("faults are an object".to_owned());
        };
        all.extend(fields);
        let shares = all.iter().filter(|(name, _)| name.ends_with("_share"));
        let are_shares = shares.filter_map(|(_, value)| value.as_f64()).all(|share| (0.0..=1.0).contains(&share));
        let faults: Self = serde_json::from_value(Value::Object(all)).map_err(|error| error.to_string())?;
        if !are_shares {
            return Err("a share is from 0 to 1".to_owned());
        }
        if !(400..=599).contains(&faults.error_status) {
            return Err("error_status is from 400 to 599".to_owned());
        }
        Ok(faults)
    }
}

/// Reads a share.
fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err("a share is from 0 to 1".to_owned()) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn change(faults: &Faults, fields: Value) -> Result<Faults, String> {
        let Value::Object(fields) = fields else { panic!("this is no object") };
        faults.with(fields)
    }

    #[test]
    fn only_the_named_fields_change() {
        let first = change(&Faults::default(), json!({"silent": true, "retry_after_s": 3})).unwrap();
        let second = change(&first, json!({"error_share": 0.5, "retry_after_s": null})).unwrap();
        assert_eq!(second, Faults { silent: true, error_share: 0.5, ..Faults::default() });
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for fields in [
            json!({"noise": 1}),
            json!({"silent": "yes"}),
            json!({"cut_share": 1.5}),
            json!({"gap_share": -0.1}),
            json!({"error_status": 200}),
        ] {
            assert!(change(&Faults::default(), fields.clone()).is_err(), "{fields}");
        }
        assert!(share("1.1").is_err() && share("x").is_err() && share("NaN").is_err());
    }
}

//! The outcome of a rule.

use std::fmt;

/// The reason why a rule did not pass.
#[derive(Debug)]
pub enum Miss {
    /// The rule is broken.
    Failed(String),
    /// The rule could not be judged, because something is missing for it.
    NotApplicable(&'static str),
}

impl From<String> for Miss {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

impl From<&str> for Miss {
    fn from(why: &str) -> Self {
        Self::Failed(why.to_owned())
    }
}

pub(crate) type Verdict = Result<(), Miss>;

/// A rule with its outcome, for one line of the report.
#[derive(Debug)]
pub struct Judgement {
    /// The name of the rule.
    pub rule: &'static str,
    /// The transport over which it was judged.
    pub transport: &'static str,
    /// The outcome.
    pub verdict: Result<(), Miss>,
}

impl Judgement {
    /// True if the rule is broken.
    #[must_use]
    pub const fn is_failure(&self) -> bool {
        matches!(self.verdict, Err(Miss::Failed(_)))
    }
}

impl fmt::Display for Judgement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, why) = match &self.verdict {
            Ok(()) => ("pass", ""),
            Err(Miss::Failed(why)) => ("FAIL", why.as_str()),
            Err(Miss::NotApplicable(why)) => ("n/a", *why),
        };
        let Self { rule, transport, .. } = self;
        let line = format!("{word:<5} {transport:<10} {rule:<24} {why}");
        out.write_str(line.trim_end())
    }
}

/// Fails the rule unless a condition holds.
macro_rules! ensure {
    ($holds:expr, $($why:tt)+) => {
        if !$holds {
            return Err($crate::verdict::Miss::Failed(format!($($why)+)));
        }
    };
}
pub(crate) use ensure;

//! Datasets and views decide which rows a key sees. Nothing else decides visibility.

use std::fmt;

/// A dataset; each row belongs to exactly one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dataset {
    /// Real data.
    Live,
    /// Fixtures that every test key sees.
    Sandbox,
    /// A project's own test data.
    Project(String),
}

impl Dataset {
    /// Parses `live`, `sandbox` or `project/<id>`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "live" => Some(Self::Live),
            "sandbox" => Some(Self::Sandbox),
            _ => {
                let id = text.strip_prefix("project/")?;
                (!id.is_empty()).then(|| Self::Project(id.to_owned()))
            }
        }
    }

    /// True if its rows are real data.
    #[must_use]
    pub fn livemode(&self) -> bool {
        *self == Self::Live
    }

    /// Returns the datasets that the counts in this dataset's events cover.
    #[must_use]
    pub fn counted_with(&self) -> View {
        match self {
            Self::Live => View::live(),
            Self::Sandbox => View(vec![Self::Sandbox]),
            Self::Project(id) => View::test(id),
        }
    }
}

impl fmt::Display for Dataset {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Live => formatter.write_str("live"),
            Self::Sandbox => formatter.write_str("sandbox"),
            Self::Project(id) => write!(formatter, "project/{id}"),
        }
    }
}

/// The datasets that a key reads, merged: `live`, or `sandbox` and the project's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View(Vec<Dataset>);

impl View {
    /// The view of a live key.
    #[must_use]
    pub fn live() -> Self {
        Self(vec![Dataset::Live])
    }

    /// The view of a project's test key.
    #[must_use]
    pub fn test(project: &str) -> Self {
        Self(vec![Dataset::Sandbox, Dataset::Project(project.to_owned())])
    }

    /// The datasets, in the order of stream cursors.
    #[must_use]
    pub fn datasets(&self) -> &[Dataset] {
        &self.0
    }

    /// True if it shows real data.
    #[must_use]
    pub fn livemode(&self) -> bool {
        self.0.first().is_some_and(Dataset::livemode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for dataset in [Dataset::Live, Dataset::Sandbox, Dataset::Project("prj_1".to_owned())] {
            assert_eq!(Dataset::parse(&dataset.to_string()), Some(dataset));
        }
        assert_eq!(Dataset::parse("project/"), None);
        assert_eq!(Dataset::parse("Live"), None);
    }
}

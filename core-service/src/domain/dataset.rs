//! Datasets and views decide which rows a key sees. Nothing else decides visibility.

use std::{fmt, sync::Arc};

/// A dataset; each row belongs to exactly one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dataset {
    /// Real data.
    Live,
    /// Fixtures that every test key sees.
    Sandbox,
    /// A project's own test data.
    Project(ProjectDataset),
}

/// The dataset of a project, by its name. Copies share the text, because each request names its datasets many times.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProjectDataset(Arc<str>);

impl Dataset {
    /// Name of the dataset of fixtures.
    pub const SANDBOX_NAME: &'static str = "sandbox";
    const LIVE_NAME: &'static str = "live";
    const PROJECT_PREFIX: &'static str = "project/";

    /// The dataset of a project.
    #[must_use]
    pub fn of_project(id: &str) -> Self {
        Self::Project(ProjectDataset([Self::PROJECT_PREFIX, id].concat().into()))
    }

    /// Parses `live`, `sandbox` or `project/<id>`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            Self::LIVE_NAME => Some(Self::Live),
            Self::SANDBOX_NAME => Some(Self::Sandbox),
            _ => {
                let id = text.strip_prefix(Self::PROJECT_PREFIX)?;
                (!id.is_empty()).then(|| Self::of_project(id))
            }
        }
    }

    /// Returns the text that [`Self::parse`] reads.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Live => Self::LIVE_NAME,
            Self::Sandbox => Self::SANDBOX_NAME,
            Self::Project(ProjectDataset(name)) => name,
        }
    }

    /// Returns the id of its project, if it has one.
    #[must_use]
    pub fn project_id(&self) -> Option<&str> {
        self.name().strip_prefix(Self::PROJECT_PREFIX)
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
            Self::Project(_) => View(vec![Self::Sandbox, self.clone()]),
        }
    }
}

impl fmt::Display for Dataset {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The datasets that a key reads, merged: `live`, or `sandbox` and the project's own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
        Self(vec![Dataset::Sandbox, Dataset::of_project(project)])
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
        for dataset in [Dataset::Live, Dataset::Sandbox, Dataset::of_project("prj_1")] {
            assert_eq!(Dataset::parse(&dataset.to_string()), Some(dataset));
        }
        assert_eq!(Dataset::of_project("prj_1").name(), "project/prj_1");
        assert_eq!(Dataset::of_project("prj_1").project_id(), Some("prj_1"));
        assert_eq!((Dataset::Live.project_id(), Dataset::Sandbox.project_id()), (None, None));
        assert_eq!(Dataset::parse("project/"), None);
        assert_eq!(Dataset::parse("Live"), None);
    }

    #[test]
    fn a_project_counts_and_sees_the_sandbox_too() {
        let project = Dataset::of_project("prj_1");
        let views = [&Dataset::Live, &Dataset::Sandbox, &project].map(Dataset::counted_with);
        assert_eq!(views, [View::live(), View(vec![Dataset::Sandbox]), View::test("prj_1")]);
        assert_eq!(views.map(|view| view.livemode()), [true, false, false]);
        assert_eq!([&Dataset::Live, &Dataset::Sandbox, &project].map(Dataset::livemode), [true, false, false]);
        assert_eq!(View::test("prj_1").datasets(), [Dataset::Sandbox, project]);
    }
}

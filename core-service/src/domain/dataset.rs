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
    /// The progress of a project's alerts in one environment, with their events.
    Alerts(AlertsDataset),
}

/// The dataset of a project, by its name. Copies share the text, because each request names its datasets many times.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProjectDataset(Arc<str>);

/// The dataset of a project's alerts in one environment, by its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AlertsDataset(Arc<str>);

impl Dataset {
    /// Name of the dataset of fixtures.
    pub const SANDBOX_NAME: &'static str = "sandbox";
    const LIVE_NAME: &'static str = "live";
    const PROJECT_PREFIX: &'static str = "project/";
    const ALERTS_PREFIX: &'static str = "alerts/";
    const LIVE_SUFFIX: &'static str = "/live";
    const TEST_SUFFIX: &'static str = "/test";

    /// The dataset of a project.
    #[must_use]
    pub fn of_project(id: &str) -> Self {
        Self::Project(ProjectDataset([Self::PROJECT_PREFIX, id].concat().into()))
    }

    /// The dataset of a project's alerts in an environment.
    #[must_use]
    pub fn of_alerts(project: &str, live: bool) -> Self {
        let environment = if live { Self::LIVE_SUFFIX } else { Self::TEST_SUFFIX };
        Self::Alerts(AlertsDataset([Self::ALERTS_PREFIX, project, environment].concat().into()))
    }

    /// Parses `live`, `sandbox`, `project/<id>`, or `alerts/<id>/live` and `alerts/<id>/test`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            Self::LIVE_NAME => Some(Self::Live),
            Self::SANDBOX_NAME => Some(Self::Sandbox),
            _ => {
                if let Some(rest) = text.strip_prefix(Self::ALERTS_PREFIX) {
                    let (id, environment) = rest.split_at(rest.rfind('/')?);
                    let is_known = [Self::LIVE_SUFFIX, Self::TEST_SUFFIX].contains(&environment) && !id.is_empty();
                    return is_known.then(|| Self::of_alerts(id, environment == Self::LIVE_SUFFIX));
                }
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
            Self::Project(ProjectDataset(name)) | Self::Alerts(AlertsDataset(name)) => name,
        }
    }

    /// Returns the id of its project, if it has one.
    #[must_use]
    pub fn project_id(&self) -> Option<&str> {
        match self {
            Self::Live | Self::Sandbox => None,
            Self::Project(_) => self.name().strip_prefix(Self::PROJECT_PREFIX),
            Self::Alerts(_) => {
                let id = self.name().strip_prefix(Self::ALERTS_PREFIX)?;
                id.strip_suffix(if self.livemode() { Self::LIVE_SUFFIX } else { Self::TEST_SUFFIX })
            }
        }
    }

    /// True for the datasets that many projects read.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        matches!(self, Self::Live | Self::Sandbox)
    }

    /// True if its rows are real data.
    #[must_use]
    pub fn livemode(&self) -> bool {
        match self {
            Self::Live => true,
            Self::Sandbox | Self::Project(_) => false,
            Self::Alerts(AlertsDataset(name)) => name.ends_with(Self::LIVE_SUFFIX),
        }
    }

    /// Returns the datasets that the counts in this dataset's events cover.
    #[must_use]
    pub fn counted_with(&self) -> View {
        match self {
            Self::Live => View::live(),
            Self::Sandbox => View(vec![Self::Sandbox]),
            Self::Project(_) => View(vec![Self::Sandbox, self.clone()]),
            Self::Alerts(_) if self.livemode() => View::live(),
            Self::Alerts(_) => View::test(self.project_id().unwrap_or_default()),
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

    /// The same datasets, and behind them the alerts of a project: the logs that a reader of alerts' events reads.
    #[must_use]
    pub fn with_alerts(&self, project: &str) -> Self {
        let alerts = Dataset::of_alerts(project, self.livemode());
        Self(self.0.iter().cloned().chain([alerts]).collect())
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
        let alerts = [true, false].map(|live| Dataset::of_alerts("prj_1", live));
        for dataset in [Dataset::Live, Dataset::Sandbox, Dataset::of_project("prj_1")].iter().chain(&alerts) {
            assert_eq!(Dataset::parse(&dataset.to_string()).as_ref(), Some(dataset));
        }
        assert_eq!(alerts.each_ref().map(Dataset::name), ["alerts/prj_1/live", "alerts/prj_1/test"]);
        assert_eq!(alerts.each_ref().map(Dataset::project_id), [Some("prj_1"); 2]);
        for wrong in ["alerts/", "alerts//live", "alerts/prj_1", "alerts/prj_1/", "alerts/prj_1/other"] {
            assert_eq!(Dataset::parse(wrong), None, "{wrong}");
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
        let alerts = [true, false].map(|live| Dataset::of_alerts("prj_1", live));
        assert_eq!(alerts.each_ref().map(Dataset::counted_with), [View::live(), View::test("prj_1")]);
        assert_eq!(alerts.each_ref().map(Dataset::livemode), [true, false]);
        assert_eq!(View::live().with_alerts("prj_1").datasets(), [Dataset::Live, alerts[0].clone()]);
        assert_eq!(View::test("prj_1").with_alerts("prj_1").datasets()[2], alerts[1]);
    }
}

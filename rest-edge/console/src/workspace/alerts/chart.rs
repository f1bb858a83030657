//! The chart of an alert's metric over the last 24 hours, with the threshold and the value of recovery.

use futures::future::try_join_all;
use prost_types::Timestamp;
use thesis_proto::{
    time::{from_millis, to_millis},
    v1,
};
use tonic::Status;

use crate::{view::time, workspace::Workspace};

const HOURS: i64 = 24;
const HOUR_MS: i64 = 3_600_000;
/// Height of the drawing.
const HEIGHT: f64 = 200.0;

/// The metric at one time. Positions are in units of the drawing.
#[derive(Debug, PartialEq)]
pub(super) struct ChartBar {
    /// The time.
    pub(super) since: Option<Timestamp>,
    /// The time as a text.
    pub(super) at: String,
    /// The value; "no data" if the metric has none.
    pub(super) value: String,
    /// Left edge.
    pub(super) x: usize,
    /// Top edge.
    pub(super) top: String,
    /// Height.
    pub(super) size: String,
}

/// A value that is drawn across the chart.
#[derive(Debug, PartialEq)]
pub(super) struct ChartLine {
    pub(super) name: &'static str,
    pub(super) value: f64,
    pub(super) y: String,
}

/// The chart.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Chart {
    pub(super) bars: Vec<ChartBar>,
    pub(super) lines: Vec<ChartLine>,
}

/// Reads the metric of an alert at each of the last 24 hours, the newest last. The token is a reference of any form.
/// An alert without a threshold has a chart without lines.
pub(super) async fn read(workspace: &Workspace, token: &str, alert: &v1::Alert) -> Result<Chart, Status> {
    let now = v1::GetTokenActivityRequest { r#ref: token.to_owned(), ..v1::GetTokenActivityRequest::default() };
    let now = workspace.core().tokens.get_token_activity(workspace.request(now)).await?.into_inner();
    let now = now.activity.unwrap_or_default();
    // The reference may need a lookup, which one read does for all.
    let id = now.token.map_or_else(|| token.to_owned(), |token| token.id);
    let now = now.computed_at.as_ref().map_or(0, to_millis);
    let metric = alert.metric();
    let reads: Vec<_> = (1 - HOURS..=0)
        .map(|hour| {
            let at = from_millis(now + hour * HOUR_MS);
            // The clock of the core that answers may be behind: then this time is in its future.
            let as_of = (hour < 0).then_some(at);
            let value = value_at(workspace, &id, metric, as_of);
            async move { value.await.map(|value| (at, value)) }
        })
        .collect();
    Ok(draw(&try_join_all(reads).await?, alert))
}

/// Reads the metric as of a time, or now.
async fn value_at(
    workspace: &Workspace,
    token: &str,
    metric: v1::AlertMetric,
    as_of: Option<Timestamp>,
) -> Result<Option<f64>, Status> {
    let r#ref = token.to_owned();
    Ok(match metric {
        v1::AlertMetric::ThesisCount5m | v1::AlertMetric::ChangePct => {
            let message = v1::GetThesisVelocityRequest { r#ref, as_of, ..v1::GetThesisVelocityRequest::default() };
            let answer = workspace.core().tokens.get_thesis_velocity(workspace.request(message)).await?;
            let velocity = answer.into_inner().velocity.unwrap_or_default();
            if metric == v1::AlertMetric::ChangePct { velocity.change_pct } else { Some(number(velocity.last_5m)) }
        }
        _ => {
            let message = v1::GetTokenActivityRequest { r#ref, as_of, ..v1::GetTokenActivityRequest::default() };
            let answer = workspace.core().tokens.get_token_activity(workspace.request(message)).await?;
            let activity = answer.into_inner().activity.unwrap_or_default();
            Some(number(match metric {
                v1::AlertMetric::ThesisCount1h => activity.thesis_count_1h,
                v1::AlertMetric::UniqueAuthors24h => activity.unique_authors_24h,
                _ => activity.thesis_count_24h,
            }))
        }
    })
}

#[expect(clippy::cast_precision_loss, reason = "counts of theses in a day are far below 2^52")]
const fn number(count: i64) -> f64 {
    count as f64
}

fn draw(points: &[(Timestamp, Option<f64>)], alert: &v1::Alert) -> Chart {
    let threshold = alert.above.or(alert.below);
    let thresholds: Vec<(&'static str, f64)> =
        threshold.into_iter().flat_map(|value| [("Threshold", value), ("Recovery", alert.recover)]).collect();
    let values = points.iter().filter_map(|(_, value)| *value).chain(thresholds.iter().map(|(_, value)| *value));
    let (low, high) = values.fold((0.0_f64, 1.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    let y = |value: f64| (high - value) / (high - low) * HEIGHT;
    let bar = |(index, (at, value)): (usize, &(Timestamp, Option<f64>))| {
        let (from, to) = (y(0.0), y(value.unwrap_or_default()));
        ChartBar {
            since: Some(*at),
            at: time(Some(at)),
            value: value.map_or_else(|| "no data".to_owned(), |value| format!("{}", (value * 10.0).round() / 10.0)),
            x: index * 10,
            top: format!("{:.1}", from.min(to)),
            size: format!("{:.1}", (from - to).abs()),
        }
    };
    let line = |(name, value): (&'static str, f64)| ChartLine { name, value, y: format!("{:.1}", y(value)) };
    Chart { bars: points.iter().enumerate().map(bar).collect(), lines: thresholds.into_iter().map(line).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_thresholds_share_a_scale() {
        let at = from_millis(1_795_442_700_000);
        let alert = v1::Alert { above: Some(30.0), recover: 20.0, ..v1::Alert::default() };
        let drawn = draw(&[(at, Some(10.0)), (at, None), (at, Some(-10.0))], &alert);
        let bars: Vec<_> =
            drawn.bars.iter().map(|bar| (bar.x, bar.value.as_str(), bar.top.as_str(), bar.size.as_str())).collect();
        assert_eq!(bars, [(0, "10", "100.0", "50.0"), (10, "no data", "150.0", "0.0"), (20, "-10", "150.0", "50.0")]);
        let lines: Vec<_> = drawn.lines.iter().map(|line| (line.name, line.y.as_str())).collect();
        assert_eq!(lines, [("Threshold", "0.0"), ("Recovery", "50.0")]);
        // A rule that is being typed has no threshold yet.
        let drawn = draw(&[(at, Some(10.0))], &v1::Alert::default());
        assert_eq!((drawn.lines.len(), drawn.bars[0].top.as_str()), (0, "0.0"));
    }
}

//! A customer's replay of many deliveries of a webhook, and how far it is.

use super::delivery::Status;

/// The last replay of a webhook.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct WebhookReplay {
    /// `rpl_…`. The ids of its deliveries derive from it.
    #[prost(string, tag = "1")]
    pub id: String,
    /// Only deliveries created since then, in unix milliseconds.
    #[prost(int64, tag = "2")]
    pub since: i64,
    /// Only deliveries with this final status.
    #[prost(enumeration = "Status", tag = "3")]
    pub status: i32,
    /// Only deliveries created before then, in unix milliseconds.
    #[prost(int64, tag = "4")]
    pub created_at: i64,
    /// Unix milliseconds; none while it runs.
    #[prost(int64, optional, tag = "5")]
    pub finished_at: Option<i64>,
    /// Deliveries examined so far.
    #[prost(int64, tag = "6")]
    pub examined: i64,
    /// Deliveries sent again so far.
    #[prost(int64, tag = "7")]
    pub replayed: i64,
    /// The delivery after which it goes on: its time and id.
    #[prost(int64, tag = "8")]
    pub after_at: i64,
    #[prost(string, tag = "9")]
    pub after_id: String,
    /// Time of the deliveries that the next step creates. It is stored before the step, so that a step that is repeated
    /// after a crash creates the same deliveries. Unix milliseconds.
    #[prost(int64, tag = "10")]
    pub step_at: i64,
}

//! One admitted call, and the checks that follow its admission.

use std::sync::Arc;

use parking_lot::Mutex;
use thesis_proto::{
    error::{ApiError, ErrorCode},
    filter::CompiledFilter,
    json::RenderedRows,
};

use super::{Caller, Gate, RequestMeta, seconds_left};
use crate::{
    access::{
        limits::{Month, Rate, SENDS_PER_MINUTE},
        rights,
    },
    control::ControlState,
    domain::{
        account::{Actor, Role},
        dataset::{Dataset, View},
        operation::{Feature, Operation},
        scope::Scope,
        window::Floor,
    },
    error::{Error, Result},
    metrics::LIMITS,
};

pub struct Call {
    pub caller: Caller,
    /// The operation.
    pub operation: Operation,
    /// The rate window in which the call was counted.
    pub rate: Rate,
    pub meta: RequestMeta,
    /// The time of the admission; the one "now" of the response.
    pub now_ms: i64,
    /// True if the response repeats an earlier one.
    pub replayed: Mutex<bool>,
    /// The rows of the response, in place of its messages.
    pub rendered: Mutex<Option<RenderedRows>>,
    pub(super) gate: Arc<Gate>,
}

impl Call {
    /// Counts the call against the month's quota. This comes first, once the request is known to be well formed. Calls
    /// by members do not count: pages of the console do not use up the quota of the organization's keys.
    pub async fn charge(&self) -> Result<()> {
        if self.meta.malformed {
            return Err(ApiError::validation(&[]).into());
        }
        if self.caller.member.is_some() {
            return Ok(());
        }
        let limit = self.caller.plan.requests_per_month;
        if self.gate.limits.quota.take(&self.caller.organization.id, limit, self.now_ms).await {
            return Ok(());
        }
        LIMITS.at("month").increment(1);
        let wait = (Month::of(self.now_ms).end - self.now_ms) / 1_000 + 1;
        let wait = u32::try_from(wait).unwrap_or(u32::MAX);
        let text = format!(
            "the plan's {limit} requests of this month are used up; \
             wait for the next month, or ask for another plan"
        );
        Err(ApiError::new(ErrorCode::QuotaExceeded, text).with_retry_after(wait).into())
    }

    /// Refuses a test send or a replay that is over the limit, before anything else is charged.
    pub fn demand_send(&self) -> Result<()> {
        let is_used_up = self.gate.limits.sends.is_used_up(&self.caller.project.id, self.now_ms);
        if is_used_up { Err(self.too_many_sends()) } else { Ok(()) }
    }

    /// Counts a test send or a replay.
    pub fn take_send(&self) -> Result<()> {
        let taken = self.gate.limits.sends.take(&self.caller.project.id, self.now_ms);
        if taken { Ok(()) } else { Err(self.too_many_sends()) }
    }

    pub fn actor(&self) -> Actor {
        let address = self.meta.client.clone();
        match &self.caller.member {
            Some(member) => Actor { id: member.key.user_id.clone(), address, is_member: true },
            None => Actor { id: self.caller.key.id.clone(), address, is_member: false },
        }
    }

    /// Refuses a change by a person who lost the right, on the state on which the change is decided.
    pub fn demand_right(&self, state: &ControlState) -> Result<()> {
        let actor = self.actor();
        if actor.is_member {
            rights::project(state, &actor, &self.caller.project.id, Role::Developer)?;
        }
        Ok(())
    }

    fn too_many_sends(&self) -> Error {
        LIMITS.at("sends").increment(1);
        let message = format!(
            "more than {SENDS_PER_MINUTE} test sends and replays of the project in this minute; wait for the next"
        );
        ApiError::new(ErrorCode::RateLimited, message).with_retry_after(seconds_left(self.now_ms)).into()
    }

    /// The logs whose events a filter can match: those of the caller's view and, if it names a type of theirs, that of
    /// its alerts. A reader of other types costs nothing more.
    pub fn logs_for(&self, filter: &CompiledFilter) -> View {
        let Caller { view, project, .. } = &self.caller;
        if filter.names_alerts() { view.with_alerts(&project.id) } else { view.clone() }
    }

    /// True if profiles are shown with their wallet: the Wallets API is enabled, and the key may read wallets.
    pub fn shows_wallets(&self) -> bool {
        self.gate.features.has(Feature::Wallets) && self.caller.holds(Scope::WalletsRead)
    }

    /// The lower bound of a read in the plan's history window.
    pub fn history_floor(&self, explicit: Option<i64>) -> Result<Floor> {
        let plan = &self.caller.plan;
        Floor::first(explicit, plan.window_start(self.now_ms)).map_err(|_| {
            Error::new(
                ErrorCode::HistoryLimit,
                format!("the plan's history reaches {} days back; ask for a later time", plan.history_days),
            )
        })
    }

    /// The lower bound of a later page. The cursor carries the bound of the first page, explicit or not.
    pub fn later_floor(&self, carried: i64, was_explicit: bool) -> Floor {
        Floor::later(carried, was_explicit, self.caller.plan.window_start(self.now_ms))
    }

    /// Checks that a row of a dataset may still be read by its id.
    pub fn demand_in_history(&self, dataset: &Dataset, created_at: i64) -> Result<()> {
        if *dataset != Dataset::Sandbox {
            self.history_floor(Some(created_at))?;
        }
        Ok(())
    }
}

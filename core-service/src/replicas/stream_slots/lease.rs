//! The places that this replica has leased of each project.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use tokio_util::sync::CancellationToken;

/// Part of a limit that the replicas keep leased in advance, all together: an eighth.
const SHARED_PART: u32 = 8;
/// Number of trims after which the rest of a block goes back although streams still use it.
const MAX_TRIMS: u32 = 10;

/// The number of places that each replica may keep without a stream.
pub(super) const fn share_of(limit: u32, replicas: u32) -> u32 {
    limit / SHARED_PART.saturating_mul(replicas)
}

/// The places of a project that this replica may give to streams without the store.
#[derive(Debug, Default)]
pub(super) struct Lease {
    /// Number of places, with those of open streams. The row never counts fewer.
    pub(super) places: u32,
    /// Number of places that may stay without a stream.
    pub(super) share: u32,
    /// How many of them may be without a stream now: the share, or more in a block. When more are, places go back.
    pub(super) spare: u32,
    /// The plan's limit when the places were leased. Another limit needs another lease.
    pub(super) limit: u32,
    /// Number of trims since the places were leased.
    pub(super) trims: u32,
    /// True if a stream has opened since the last trim.
    pub(super) is_busy: bool,
    /// The lease ends when this is cancelled.
    pub(super) term: CancellationToken,
}

#[derive(Debug, Default)]
pub(super) struct Project {
    pub(super) open: u32,
    pub(super) lease: Lease,
    /// Number of openings that wait for their turn. The next change of the row is for them too.
    pub(super) waiting: u32,
    /// Lock for one change of the row at a time.
    pub(super) turn: Arc<tokio::sync::Mutex<()>>,
}

impl Project {
    /// Drops places that are not needed from the lease. Returns whether there were any.
    pub(super) fn drop_surplus(&mut self) -> bool {
        let (needed, Lease { places, share, spare, .. }) = (self.open + self.waiting, &mut self.lease);
        let is_surplus = needed == 0 || needed + *spare < *places;
        if is_surplus {
            // Half of the share stays, so that neither the next opening nor the next closing changes the row.
            *places = if needed == 0 { 0 } else { needed + *share / 2 };
        }
        is_surplus
    }
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) projects: HashMap<Arc<str>, Project>,
    /// Projects whose lease has a block.
    pub(super) blocks: HashSet<Arc<str>>,
    /// Projects whose row may count more places than are leased, or whose lease is too large.
    pub(super) unsettled: HashSet<Arc<str>>,
}

impl State {
    pub(super) fn project(&mut self, project: &Arc<str>) -> &mut Project {
        self.projects.entry(Arc::clone(project)).or_default()
    }

    /// Removes a project that has no stream and no places here.
    pub(super) fn remove_unused(&mut self, project: &str) {
        let is_unused = |held: &Project| held.open == 0 && held.lease.places == 0 && Arc::strong_count(&held.turn) == 1;
        if self.projects.get(project).is_some_and(is_unused) {
            self.projects.remove(project);
        }
    }

    /// Begins a lease of a project. Returns true if streams have closed since it was planned, and places must go back.
    pub(super) fn begin_lease(&mut self, project: &Arc<str>, mut lease: Lease) -> bool {
        let held = self.project(project);
        let free = lease.places.saturating_sub(held.open + held.waiting);
        // Small plans have no blocks, so that they are exact.
        lease.spare = if lease.share == 0 { 0 } else { free.max(lease.share) };
        let has_block = lease.spare > lease.share;
        held.lease = lease;
        let has_surplus = held.drop_surplus();
        if has_surplus {
            self.unsettled.insert(Arc::clone(project));
        }
        if has_block {
            self.blocks.insert(Arc::clone(project));
        }
        has_surplus
    }

    /// Drops the rests of blocks that no stream has used since the last trim, and of old ones.
    pub(super) fn trim_blocks(&mut self) {
        let Self { projects, blocks, unsettled } = self;
        blocks.retain(|project| {
            let Some(held) = projects.get_mut(project) else { return false };
            held.lease.trims += 1;
            let stays = std::mem::take(&mut held.lease.is_busy) && held.lease.trims < MAX_TRIMS;
            if !stays {
                held.lease.spare = held.lease.share;
                if held.drop_surplus() {
                    unsettled.insert(Arc::clone(project));
                }
            }
            stays
        });
    }

    /// Reduces the share of a project. Others would otherwise go on to count places that no stream here needs.
    pub(super) fn reduce_share(&mut self, project: &Arc<str>, share: u32) {
        let Some(held) = self.projects.get_mut(project).filter(|held| share < held.lease.share) else { return };
        (held.lease.share, held.lease.spare) = (share, share);
        if held.drop_surplus() {
            self.unsettled.insert(Arc::clone(project));
        }
    }
}

//! The months that each core has.
//!
//! Every core has the common shard, and the months in which most searches are: the current one and the one before. Each
//! older month belongs to two cores, which rendezvous hashing chooses among the live cores whose index has the same
//! version. The hash is of a core's address, so a core that starts again has the same months.
//!
//! A wrong choice costs a copy, and never a result: searches ask the cores that have a month, whether it belongs to them
//! or not. A core gets a month once it has seen the same cores for a minute, so a restart moves nothing. It deletes a
//! month once it has seen the same cores for ten minutes and both cores to which the month belongs have it whole.

use super::{SearchError, SearchIndex, schema::VERSION, shard::Shard};
use crate::{
    domain::{id, window::MINUTE_MS},
    replicas::members::OtherCore,
};

/// Number of cores that have a month.
const COPIES: usize = 2;
/// Time for which a core must have seen the same cores before it gets a month.
const GAIN_DELAY_MS: i64 = MINUTE_MS;
/// Time for which a core must have seen the same cores before it deletes a month.
const DROP_DELAY_MS: i64 = 10 * MINUTE_MS;

/// The cores that share the months, as one of them sees them.
pub(super) struct Placement {
    /// The address of this core; empty when others cannot reach it.
    own: String,
    /// The addresses of the others, each with the months that its core has whole.
    others: Vec<(String, Vec<i64>)>,
    /// The first month that every core has.
    first_common: i64,
    /// Time since which this core sees the same cores.
    stable_ms: i64,
}

/// The cores that share the months, and the time since which they are the same.
#[derive(Default)]
pub(super) struct KnownCores {
    addresses: Vec<String>,
    /// None before they were first seen.
    since_ms: Option<i64>,
}

impl KnownCores {
    /// The placement of months among the live cores at a time.
    pub(super) fn placement(&mut self, own: String, others: Vec<OtherCore>, now_ms: i64) -> Placement {
        let shares = |other: OtherCore| {
            let part = other.search.filter(|part| other.owns && part.version == VERSION)?;
            Some((other.address, part.months)).filter(|(address, _)| !address.is_empty())
        };
        let others: Vec<_> = others.into_iter().filter_map(shares).collect();
        let mut addresses: Vec<String> = others.iter().map(|(address, _)| address.clone()).collect();
        addresses.sort_unstable();
        if self.addresses != addresses {
            *self = Self { addresses, since_ms: None };
        }
        let stable_ms = now_ms - *self.since_ms.get_or_insert(now_ms);
        Placement { own, others, first_common: Shard::month_of(now_ms) - 1, stable_ms }
    }
}

impl Placement {
    /// True if this core gets a month that it does not have.
    pub(super) fn gains(&self, month: i64) -> bool {
        self.stable_ms >= GAIN_DELAY_MS && self.others_with(month).is_none()
    }

    /// True if a month belongs to other cores, which have it.
    pub(super) fn is_elsewhere(&self, month: i64) -> bool {
        let have = |holders: Vec<&(String, Vec<i64>)>| holders.iter().all(|(_, months)| months.contains(&month));
        self.others_with(month).is_some_and(have)
    }

    /// True if this core may delete a month.
    pub(super) fn may_drop(&self, month: i64) -> bool {
        self.stable_ms >= DROP_DELAY_MS && self.is_elsewhere(month)
    }

    /// The other cores to which a month belongs. None if it belongs to this one.
    fn others_with(&self, month: i64) -> Option<Vec<&(String, Vec<i64>)>> {
        // A core that others cannot reach has all months, since it is no copy for them.
        if self.own.is_empty() || month >= self.first_common {
            return None;
        }
        let name = month.to_string();
        let weight = |address: &str| id::derive("", &[address, &name]);
        let own = weight(&self.own);
        let mut before: Vec<_> = self.others.iter().map(|other| (weight(&other.0), other)).collect();
        before.retain(|(weight, _)| *weight > own);
        before.sort_unstable_by(|one, other| other.cmp(one));
        before.truncate(COPIES);
        (before.len() == COPIES).then(|| before.into_iter().map(|(_, other)| other).collect())
    }
}

impl SearchIndex {
    /// The placement of months among this core and others, as of a time.
    pub(super) fn placement(&self, own: String, others: Vec<OtherCore>, now_ms: i64) -> Placement {
        self.known_cores.lock().placement(own, others, now_ms)
    }

    /// Gets and deletes months by a placement. This blocks.
    pub(super) fn place(&self, placement: &Placement) -> Result<(), SearchError> {
        self.write(|writer| {
            let dropped = writer.place(placement);
            if dropped.is_empty() {
                return Ok(());
            }
            tracing::info!(months = ?dropped, "other cores have these months of the search index");
            // A start deletes the folders of months that the commit no longer has here.
            self.commit_changes(writer)?;
            writer.delete_months(&dropped);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::members::SearchPart;

    /// A time in the month after the next one.
    const NOW_MS: i64 = 122 * 30 * 24 * 60 * MINUTE_MS;

    fn all_months() -> std::ops::Range<i64> {
        0..120
    }

    fn address(number: usize) -> String {
        format!("http://core-{number}")
    }

    /// A core that has some months.
    fn core(number: usize, months: Vec<i64>) -> OtherCore {
        let search = Some(SearchPart { version: VERSION, months });
        OtherCore { replica: format!("rep_{number}"), address: address(number), owns: true, search }
    }

    /// The others of a core among some. Each has all months.
    fn others_of(number: usize, cores: usize) -> Vec<OtherCore> {
        (0..cores).filter(|other| *other != number).map(|other| core(other, all_months().collect())).collect()
    }

    /// The placement of a core among some that it has seen for a time.
    fn placed(number: usize, cores: usize, stable_ms: i64) -> Placement {
        let mut known = KnownCores::default();
        known.placement(address(number), others_of(number, cores), NOW_MS - stable_ms);
        known.placement(address(number), others_of(number, cores), NOW_MS)
    }

    #[test]
    fn each_month_belongs_to_two_cores_and_few_move() {
        let owners_among = |cores: usize| -> Vec<Vec<usize>> {
            let placements: Vec<Placement> = (0..cores).map(|core| placed(core, cores, GAIN_DELAY_MS)).collect();
            all_months().map(|month| (0..cores).filter(|core| placements[*core].gains(month)).collect()).collect()
        };
        for cores in 1..8 {
            let (before, after) = (owners_among(cores), owners_among(cores + 1));
            assert!(before.iter().all(|owners| owners.len() == cores.min(COPIES)), "{before:?}");
            for (before, after) in before.iter().zip(&after) {
                let added: Vec<usize> = after.iter().copied().filter(|core| !before.contains(core)).collect();
                assert!(added.is_empty() || added == [cores], "{before:?} {after:?}");
            }
        }
        let owners = owners_among(10);
        for core in 0..10 {
            let months = owners.iter().filter(|owners| owners.contains(&core)).count();
            assert!((12..=36).contains(&months), "core {core} has {months} months, and 24 are a tenth");
        }
    }

    #[test]
    fn cores_get_and_delete_months_after_a_time() {
        let placement = placed(0, 5, DROP_DELAY_MS);
        assert!(all_months().all(|month| placement.may_drop(month) != placement.gains(month)));
        let early = placed(0, 5, DROP_DELAY_MS - 1);
        assert!(
            all_months().all(|month| !early.may_drop(month) && early.is_elsewhere(month) == placement.may_drop(month))
        );
        assert!(all_months().all(|month| !placed(0, 5, GAIN_DELAY_MS - 1).gains(month)));
        assert!([121, 122, 123].iter().all(|month| placement.gains(*month) && !placement.may_drop(*month)));
        let mut known = KnownCores::default();
        assert_eq!(known.placement(address(0), Vec::new(), NOW_MS).stable_ms, 0);
        assert_eq!(known.placement(address(0), Vec::new(), NOW_MS + 7).stable_ms, 7);
        assert_eq!(known.placement(address(0), vec![core(1, Vec::new())], NOW_MS + 9).stable_ms, 0);
        // A core that others cannot reach keeps all months.
        let hidden = KnownCores::default().placement(String::new(), others_of(0, 5), NOW_MS);
        assert!(all_months().all(|month| !hidden.is_elsewhere(month)));
    }

    #[test]
    fn a_month_is_elsewhere_when_both_cores_to_which_it_belongs_have_it() {
        let placement = placed(0, 5, 0);
        let month = all_months().find(|month| placement.is_elsewhere(*month)).unwrap();
        let owners: Vec<&String> = placement.others_with(month).unwrap().into_iter().map(|(owner, _)| owner).collect();
        assert_eq!(owners.len(), COPIES);
        for number in 1..5 {
            let among = |changed: OtherCore| {
                let mut others = others_of(0, 5);
                others[number - 1] = changed;
                KnownCores::default().placement(address(0), others, NOW_MS)
            };
            let is_owner = owners.contains(&&address(number));
            assert_eq!(among(core(number, Vec::new())).is_elsewhere(month), !is_owner);
            let part = SearchPart { version: VERSION - 1, months: all_months().collect() };
            for left_out in [
                OtherCore { owns: false, ..core(number, all_months().collect()) },
                OtherCore { search: Some(part), ..core(number, Vec::new()) },
                OtherCore { search: None, ..core(number, Vec::new()) },
            ] {
                let placement = among(left_out);
                let owners = placement.others_with(month).unwrap_or_default();
                assert!(owners.iter().all(|(owner, _)| *owner != address(number)));
            }
        }
    }
}

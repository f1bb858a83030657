//! The choice of a core for each shard of webhooks.
//!
//! Each core gets as many shards as any other, or one more. Of the cores that still need shards, a shard gets the one
//! that rendezvous hashing prefers. So every core that knows the same cores makes the same choice, and few shards move
//! when a core comes or goes.

use crate::{domain::id, tables::queue::SHARDS};

/// Chooses one of these cores for each shard. Returns the cores in the order of the shards; none for no cores.
pub fn choose(cores: &[String]) -> Vec<String> {
    let Ok(shards) = usize::try_from(SHARDS) else { return Vec::new() };
    if cores.is_empty() {
        return Vec::new();
    }
    let (part, mut rest) = (shards / cores.len(), shards % cores.len());
    let mut ranks: Vec<(String, usize, usize)> = (0..cores.len())
        .flat_map(|core| (0..shards).map(move |shard| (core, shard)))
        .map(|(core, shard)| (id::derive("", &[&cores[core], &shard.to_string()]), core, shard))
        .collect();
    ranks.sort_unstable_by(|one, other| other.cmp(one));
    let (mut chosen, mut counts) = (vec![None; shards], vec![0; cores.len()]);
    for (_, core, shard) in ranks {
        let has_room = counts[core] < part || counts[core] == part && rest > 0;
        if chosen[shard].is_some() || !has_room {
            continue;
        }
        rest -= usize::from(counts[core] == part);
        counts[core] += 1;
        chosen[shard] = Some(cores[core].clone());
    }
    chosen.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::tables::queue::shard_of;

    fn cores(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("rep_{number}")).collect()
    }

    #[test]
    fn cores_share_equally_and_few_shards_move() {
        assert!(choose(&[]).is_empty());
        let shards = usize::try_from(SHARDS).unwrap();
        for count in 1..=20 {
            let (chosen, next) = (choose(&cores(count)), choose(&cores(count + 1)));
            assert_eq!(chosen.len(), shards);
            let mut parts: HashMap<&str, usize> = HashMap::new();
            chosen.iter().for_each(|core| *parts.entry(core).or_default() += 1);
            assert_eq!(parts.len(), count);
            let (least, most) = (parts.values().min().unwrap(), parts.values().max().unwrap());
            assert!(most - least <= 1, "{parts:?}");
            let moved = chosen.iter().zip(&next).filter(|(before, after)| before != after).count();
            assert!(moved <= shards / (count + 1) + shards / 6, "{moved} of {shards} move to core {count}");
        }
    }

    #[test]
    fn ten_cores_have_equal_parts_of_the_webhooks() {
        let chosen = choose(&cores(10));
        let mut webhooks: HashMap<&str, f64> = HashMap::new();
        for number in 0..100_000 {
            let shard = shard_of(&id::derive("wh_", &[&number.to_string()]));
            *webhooks.entry(&chosen[usize::try_from(shard).unwrap()]).or_default() += 1.0;
        }
        assert!(webhooks.values().all(|count| (8_000.0..=12_000.0).contains(count)), "{webhooks:?}");
    }
}

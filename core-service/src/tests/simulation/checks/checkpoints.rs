//! Checks the signed checkpoints that cores showed.

use bytes::Bytes;
use thesis_receipts::GrowingTree;

use crate::domain::evidence::leaf;

/// A checkpoint that a core showed.
#[derive(Clone, Debug)]
pub(in crate::tests::simulation) struct ShownCheckpoint {
    pub(in crate::tests::simulation) dataset: String,
    pub(in crate::tests::simulation) size: u64,
    pub(in crate::tests::simulation) root: String,
}

/// Each checkpoint has the root of the log's first entries, so any two are consistent. The last one covers the log.
pub(super) fn check<'a>(
    dataset: &str,
    log: &[(u64, Bytes)],
    shown: impl Iterator<Item = &'a ShownCheckpoint>,
) -> Result<(), String> {
    let mut tree = GrowingTree::default();
    let mut roots = vec![hex::encode(tree.root())];
    for (seq, stored) in log {
        tree.push(leaf(dataset, *seq, stored).map_err(|error| format!("entry {seq} of {dataset}: {error}"))?);
        roots.push(hex::encode(tree.root()));
    }
    let mut covered = None;
    for checkpoint in shown.filter(|shown| shown.dataset == dataset) {
        let root = usize::try_from(checkpoint.size).ok().and_then(|size| roots.get(size));
        if root != Some(&checkpoint.root) {
            return Err(format!("the log has another root than {checkpoint:?}"));
        }
        covered = covered.max(Some(checkpoint.size));
    }
    if covered != Some(log.len() as u64) {
        return Err(format!("of {} entries of {dataset}, {covered:?} are signed", log.len()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::entry::Entry;

    fn log(size: u64) -> Vec<(u64, Bytes)> {
        (1..=size).map(|seq| (seq, Entry::filler(seq, 1).stored(seq).into())).collect()
    }

    fn checkpoint(entries: &[(u64, Bytes)]) -> ShownCheckpoint {
        let mut tree = GrowingTree::default();
        entries.iter().for_each(|(seq, stored)| tree.push(leaf("live", *seq, stored).unwrap()));
        ShownCheckpoint { dataset: "live".to_owned(), size: tree.size(), root: hex::encode(tree.root()) }
    }

    #[test]
    fn a_rewritten_log_and_one_that_is_not_signed_are_found() {
        let whole = log(5);
        let shown = [checkpoint(&[]), checkpoint(&whole[..3]), checkpoint(&whole)];
        assert_eq!(check("live", &whole, shown.iter()), Ok(()));
        check("live", &log(6), shown.iter()).unwrap_err();
        check("live", &whole, shown[..2].iter()).unwrap_err();
        check("live", &whole[..3], shown.iter()).unwrap_err();
        check("sandbox", &[], shown.iter()).unwrap_err();
        let mut rewritten = whole;
        rewritten[1].1 = Entry::filler(2, 9).stored(2).into();
        check("live", &rewritten, shown.iter()).unwrap_err();
    }
}

//! Finds a shorter schedule that still fails.

/// Drops faults one at a time while the run still fails. `fails` returns the failure of a run with some faults. Returns
/// the faults that are left, and the failure of the last run that failed.
pub(super) async fn shrink(
    count: usize,
    mut failure: String,
    fails: impl AsyncFn(Vec<usize>) -> Option<String>,
) -> (Vec<usize>, String) {
    let mut kept: Vec<usize> = (0..count).collect();
    let mut place = 0;
    while place < kept.len() {
        let mut fewer = kept.clone();
        fewer.remove(place);
        match fails(fewer.clone()).await {
            Some(shorter) => (kept, failure) = (fewer, shorter),
            None => place += 1,
        }
    }
    (kept, failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_faults_that_matter_are_left() {
        let fails = async |faults: Vec<usize>| {
            [2, 5].iter().all(|fault| faults.contains(fault)).then(|| format!("{} faults", faults.len()))
        };
        assert_eq!(shrink(8, "all".to_owned(), fails).await, (vec![2, 5], "2 faults".to_owned()));
    }

    #[tokio::test]
    async fn a_failure_without_faults_has_none() {
        assert_eq!(shrink(3, "all".to_owned(), async |_| Some("none".to_owned())).await, (vec![], "none".to_owned()));
        assert_eq!(shrink(0, "all".to_owned(), async |_| None).await, (vec![], "all".to_owned()));
    }
}

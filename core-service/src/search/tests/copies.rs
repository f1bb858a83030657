//! Copies of shards, from one index to another.

use std::{fs, path::Path};

use futures::TryStreamExt as _;
use thesis_proto::v1;

use super::{
    files::GENERATION,
    shards::{find_since, month},
    *,
};
use crate::search::schema::VERSION;

fn open_empty(folder: &Path) -> Arc<SearchIndex> {
    Arc::new(SearchIndex::open(Some(SearchFolder::lock(folder).unwrap())).unwrap())
}

fn request(shard: &str) -> v1::CopyShardRequest {
    let (shard, generation) = (shard.to_owned(), GENERATION.to_owned());
    v1::CopyShardRequest { core: String::new(), shard, version: VERSION, generation }
}

/// All messages of a copy.
async fn pieces_of(sender: &Arc<SearchIndex>, shard: Shard) -> Vec<v1::CopyShardResponse> {
    send_shard(sender, request(&shard.to_string())).await.unwrap().try_collect().await.unwrap()
}

fn receive(receiver: &SearchIndex, shard: Shard, pieces: Vec<v1::CopyShardResponse>) -> Result<(), SearchError> {
    let mut pieces = pieces.into_iter();
    let mut copy = receiver.start_receiving(shard, pieces.next().unwrap().files.unwrap())?;
    pieces.try_for_each(|piece| copy.write(&piece.data))?;
    copy.verify(GENERATION)?;
    receiver.install(&copy)
}

/// An index in a folder with a thesis in each of three months and in the sandbox, and its log of `live`.
fn three_months(folder: &Path) -> (Arc<SearchIndex>, Vec<SequencedEntry>) {
    let mut log = Log::on(files::open(folder));
    log.say(&Dataset::Sandbox, "a", "words", 0);
    for number in 0..3 {
        log.say(&Dataset::Live, &number.to_string(), "words", month(number));
    }
    log.index.commit().unwrap();
    let entries = log.entries.remove("live").unwrap();
    (Arc::new(log.index), entries)
}

/// Adds a thesis to a month, and deletes that of another month, in an index that has three entries of `live`.
fn change_months(index: &SearchIndex, entries: &mut Vec<SequencedEntry>) {
    let of_first = thesis(&Dataset::Live, "0", "words", month(0));
    let kinds = [
        created(thesis(&Dataset::Live, "3", "words", month(1) + 1)),
        EntryKind::ThesisDeleted(ThesisDeleted { thesis: of_first, ..ThesisDeleted::default() }),
    ];
    for (seq, kind) in (4..).zip(kinds) {
        let entry = Entry { id: format!("evt_{seq}"), kind: Some(kind), ..Entry::default() };
        entries.push(SequencedEntry { seq, entry });
    }
    index.apply(&Dataset::Live, entries).unwrap();
}

/// Opens an index whose common shard is a copy. Its months wait for copies.
async fn open_copied(folder: &Path, sender: &Arc<SearchIndex>) -> Arc<SearchIndex> {
    let receiver = open_empty(folder);
    assert!(receiver.lacks_common(GENERATION));
    receive(&receiver, Shard::Common, pieces_of(sender, Shard::Common).await).unwrap();
    assert!(!receiver.lacks_common(GENERATION));
    receiver.reopen(GENERATION).unwrap();
    while receiver.open_month(0, true).unwrap() {}
    receiver
}

/// Copies all months, the newest first, and opens them.
async fn copy_months(receiver: &SearchIndex, sender: &Arc<SearchIndex>) {
    for number in (0..3).rev() {
        let expected = Shard::Month(number);
        assert_eq!(receiver.month_to_copy().unwrap(), Some(expected));
        receive(receiver, expected, pieces_of(sender, expected).await).unwrap();
        assert!(receiver.open_month(0, true).unwrap());
    }
    assert_eq!(receiver.month_to_copy().unwrap(), None);
}

#[tokio::test]
async fn a_copy_holds_the_log_up_to_its_position() {
    for sender_is_ahead in [false, true] {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let (sender, mut entries) = three_months(folders[0].path());
        let receiver = open_copied(folders[1].path(), &sender).await;
        assert_eq!((receiver.position(&Dataset::Live), receiver.position(&Dataset::Sandbox)), (3, 1));
        assert!(matches!(find_since(&receiver, 2), Err(SearchError::Closed)));
        if sender_is_ahead {
            change_months(&sender, &mut entries);
            copy_months(&receiver, &sender).await;
            assert_eq!(sender.position(&Dataset::Live), 5, "a copy begins with a commit");
            receiver.rebuild(&[]).unwrap();
            receiver.commit().unwrap();
            receiver.apply(&Dataset::Live, &entries).unwrap();
        } else {
            let mut received = entries.clone();
            change_months(&receiver, &mut received);
            receiver.commit().unwrap();
            copy_months(&receiver, &sender).await;
            assert_eq!(receiver.rebuild_range().unwrap(), Some((3, 5)), "only the entries after the copy");
            receiver.rebuild(&received[3..]).unwrap();
            change_months(&sender, &mut entries);
        }
        receiver.commit().unwrap();
        sender.commit().unwrap();
        assert_eq!(receiver.rebuild_range().unwrap(), None);
        let found = find_since(&receiver, 0).unwrap();
        assert_eq!((found.len(), &found), (3, &find_since(&sender, 0).unwrap()));
        drop(receiver);
        let reopened = files::open(folders[1].path());
        assert_eq!((find_since(&reopened, 0).unwrap(), reopened.rebuild_range().unwrap()), (found, None));
    }
}

#[tokio::test]
async fn merges_leave_the_files_of_a_copy() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let mut log = Log::on(files::open(folders[0].path()));
    for number in 0..4 {
        log.say(&Dataset::Live, &number.to_string(), "words", number);
        log.index.commit().unwrap();
    }
    let Log { index, entries } = log;
    let sender = Arc::new(index);
    let receiver = open_copied(folders[1].path(), &sender).await;
    let mut sent = send_shard(&sender, request("live-0")).await.unwrap();
    let mut pieces = vec![sent.try_next().await.unwrap().unwrap()];
    // All segments of the copy are merged into one.
    let mut entries = entries["live"].clone();
    for seq in 5..20 {
        let kind = Some(created(thesis(&Dataset::Live, &seq.to_string(), "words", 100)));
        entries.push(SequencedEntry { seq, entry: Entry { id: format!("evt_{seq}"), kind, ..Entry::default() } });
        sender.apply(&Dataset::Live, &entries).unwrap();
        sender.commit().unwrap();
    }
    while sender.write(|writer| Ok(writer.open_writers())).unwrap() > 0 {
        sender.commit().unwrap();
    }
    pieces.extend(sent.try_collect::<Vec<_>>().await.unwrap());
    receive(&receiver, Shard::Month(0), pieces).unwrap();
    assert!(receiver.open_month(0, true).unwrap());
    receiver.rebuild(&[]).unwrap();
    receiver.commit().unwrap();
    assert_eq!(find_since(&receiver, 0).unwrap().len(), 4);
}

/// Ways to damage a copy.
const FAULTS: [fn(&mut Vec<v1::CopyShardResponse>); 7] = [
    |pieces| drop(pieces.pop()),
    |pieces| pieces.push(pieces[1].clone()),
    |pieces| drop(pieces.remove(1)),
    |pieces| {
        let mut data = pieces[1].data.to_vec();
        data[0] ^= 1;
        pieces[1].data = data.into();
    },
    |pieces| {
        let files = pieces[0].files.as_mut().unwrap();
        files.meta = [&files.meta[..], b" "].concat().into();
    },
    |pieces| pieces[0].files.as_mut().unwrap().files[0].name = "../term".to_owned(),
    |pieces| {
        // The metadata name a file that was not sent.
        pieces[0].files.as_mut().unwrap().files.remove(0);
        pieces.remove(1);
    },
];

#[tokio::test]
async fn a_damaged_copy_is_not_used() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let (sender, entries) = three_months(folders[0].path());
    let receiver = open_copied(folders[1].path(), &sender).await;
    let (newest, whole) = (Shard::Month(2), pieces_of(&sender, Shard::Month(2)).await);
    for (number, fault) in FAULTS.into_iter().enumerate() {
        let mut pieces = whole.clone();
        fault(&mut pieces);
        receive(&receiver, newest, pieces).unwrap_err();
        assert_eq!(receiver.month_to_copy().unwrap(), Some(newest), "{number}");
        assert!(
            !folders[1].path().join("copy-live-2").exists() && !folders[1].path().join("live-2/meta.json").exists()
        );
    }
    receiver.give_up_copy(newest).unwrap();
    assert!(receiver.open_month(0, true).unwrap());
    assert_eq!(receiver.rebuild_range().unwrap(), Some((0, 3)));
    receiver.rebuild(&entries).unwrap();
    receiver.commit().unwrap();
    assert_eq!(find_since(&receiver, 2).unwrap().len(), 1);
}

#[tokio::test]
async fn copies_have_few_places_and_give_them_back() {
    let folder = tempfile::tempdir().unwrap();
    let (sender, _) = three_months(folder.path());
    let first = send_shard(&sender, request("common")).await.unwrap();
    let second = send_shard(&sender, request("live-1")).await.unwrap();
    assert!(matches!(send_shard(&sender, request("live-2")).await, Err(SearchError::Busy)));
    drop(first);
    let third = send_shard(&sender, request("live-2")).await.unwrap();
    assert!(matches!(send_shard(&sender, request("live-2")).await, Err(SearchError::Busy)));
    assert!(third.try_collect::<Vec<_>>().await.unwrap().len() > 2);
    send_shard(&sender, request("live-2")).await.map(drop).unwrap();
    drop(second);
}

#[tokio::test]
async fn only_a_whole_shard_of_the_same_logs_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let (sender, _) = three_months(folder.path());
    let refused = async |request| send_shard(&sender, request).await.err();
    let newer = v1::CopyShardRequest { version: VERSION + 1, ..request("common") };
    assert!(matches!(refused(newer).await, Some(SearchError::Version)));
    let other = v1::CopyShardRequest { generation: "gen_2".to_owned(), ..request("common") };
    assert!(matches!(refused(other).await, Some(SearchError::Generation)));
    for missing in ["live-7", "live", ""] {
        assert!(matches!(refused(request(missing)).await, Some(SearchError::Closed)), "{missing}");
    }
    sender.request_dataset(&Dataset::Live);
    assert!(matches!(refused(request("common")).await, Some(SearchError::Closed)), "the index may lack a part");
    sender.set_start(&Dataset::Live, 3);
    assert!(refused(request("common")).await.is_none());

    drop(sender);
    fs::remove_dir_all(folder.path().join("live-1")).unwrap();
    let rebuilding = Arc::new(files::open(folder.path()));
    assert!(matches!(send_shard(&rebuilding, request("live-1")).await, Err(SearchError::Closed)));
    assert!(send_shard(&rebuilding, request("live-2")).await.is_ok());
    let in_memory = Arc::new(SearchIndex::open(None).unwrap());
    assert!(matches!(send_shard(&in_memory, request("common")).await, Err(SearchError::Closed)));
}

#[test]
fn a_start_deletes_copies_that_were_not_ended() {
    let folder = tempfile::tempdir().unwrap();
    let aborted = folder.path().join("copy-live-3");
    fs::create_dir(&aborted).unwrap();
    fs::write(aborted.join("content"), "").unwrap();
    let _folder = SearchFolder::lock(folder.path()).unwrap();
    assert!(!aborted.exists());
}

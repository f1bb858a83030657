//! What things cost. Microseconds of one processor unless the text says otherwise. Each tells its figure in
//! `docs/measurements.md`, or that it is assumed.

/// Processors of a core, an edge or a worker: those of the measured machine.
pub(super) const PROCESSORS: usize = 2;
/// Processors of a node of the store.
pub(super) const NODE_PROCESSORS: usize = 8;
/// Copies of a row.
pub(super) const COPIES: usize = 3;
/// Copies that must have answered.
pub(super) const QUORUM: usize = 2;

/// One copy's share of a read: 1,834 a second kept two processors busy, and two copies answer.
pub(super) const STORE_READ: f64 = 2e6 / 1_834.0 / 2.0;
/// One copy's share of a write to one partition: 124 times 12 a second kept two processors busy, and three copies
/// write. Each was a request of its own then. Now small ones share a request, which costs the copies the same and the
/// node that gets it less, so this is on the safe side.
pub(super) const STORE_WRITE: f64 = 2e6 / (124.0 * 12.0) / 3.0;
/// One copy's share of a conditional write: 361 a second kept two processors busy. Any number of entries is assumed to
/// cost the same.
pub(super) const STORE_CONDITION: f64 = 2e6 / 361.0 / 3.0;

/// Reads of a thesis before its append: whether the log has it already.
pub(super) const THESIS_READS: usize = 1;
/// Partitions of the rows of a thesis beside the log: the thesis, four indexes, the token's totals with those of the
/// author on it, and the author. Derived events have no rows but their entries.
pub(super) const THESIS_WRITES: usize = 7;
/// Checkpoints that a batch stores: that of its rows, for which its callers wait, then those of the fan-out and of the
/// upstream's feed. The last two are stored at most twice and four times a second.
pub(super) const CHECKPOINTS: [usize; 2] = [1, 2];
/// Reads of a batch before its deliveries: the head of the control log.
pub(super) const FAN_OUT_READS: usize = 1;
/// Reads of a batch at each core that does not own the log. The one that has it in memory reads nothing.
pub(super) const FOLLOWER_READS: usize = 1;
/// Most events of a batch: 90 KiB on a cluster, at 900 bytes (assumed).
pub(super) const BATCH: usize = 100;
/// Events that one log took a second through two cores.
pub(super) const LOG_MOST: f64 = 1_467.0;
/// Core's part of an event: 22 % of two processors at 1,467 a second.
pub(super) const CORE_EVENT: f64 = 2e6 * 0.22 / 1_467.0;
/// One search index's part of an event: 12 % of two processors at 1,467 a second, for two indexes.
pub(super) const CORE_SEARCH: f64 = 2e6 * 0.12 / 1_467.0 / 2.0;

/// Telling an event to one edge (assumed).
pub(super) const CORE_TAIL: f64 = 20.0;
/// Making an event's JSON at an edge (assumed).
pub(super) const EDGE_RENDER: f64 = 50.0;
/// A frame to a stream: 9.4 to 16.2 measured.
pub(super) const EDGE_FRAME: f64 = 15.5;
/// A sign of life to a stream, every 15 seconds; assumed to cost a frame.
pub(super) const EDGE_SIGN: f64 = EDGE_FRAME;
/// Seconds between two signs of life.
pub(super) const SIGN_SECONDS: f64 = 15.0;
/// Most streams that are planned for an edge: three quarters of the most connections of a process.
pub(super) const EDGE_STREAMS: usize = 15_000;

// A delivery: 106 to 180 measured in one process, store included; the split is assumed, and its sum on the safe side.
/// Matching it, at the owner of the log.
pub(super) const CORE_MATCH: f64 = 1.0;
/// Owing it to its webhook, at the core of the webhook's shard.
pub(super) const CORE_FAN_OUT: f64 = 20.0;
/// Giving it to a worker.
pub(super) const CORE_DISPATCH: f64 = 60.0;
/// Taking its report.
pub(super) const CORE_REPORT: f64 = 40.0;
/// Sending it.
pub(super) const WORKER_SEND: f64 = 120.0;
/// Partitions written before it is sent: its row and its due attempt are in one.
pub(super) const DELIVERY_WRITES_BEFORE: usize = 1;
/// Partitions written after it was sent: its row without its due attempt.
pub(super) const DELIVERY_WRITES_AFTER: usize = 1;
/// How many deliveries come to one mark or note of its partition, which are written before it is sent: 1 / 5 + 1 / 20,
/// since a webhook has 5 deliveries in a minute and 20 in five minutes (assumed).
pub(super) const DELIVERY_NOTE_ONE_IN: usize = 4;

/// A read by id at the edge and at core: at most 100 measured over gRPC, client included.
pub(super) const ID_READ: [f64; 2] = [100.0, 100.0];
/// A list of 25 at the edge and at core: 154 to 234 measured for both in one process. On a cluster core has 3 requests
/// to the store beside that, of at most 22 each: [`CORE_EVENT`] divided by the 13.6 requests that it contained.
pub(super) const LIST_READ: [f64; 2] = [250.0, 300.0];
/// Rows that a read by id reads, one round after the other: the position of the log, the thesis, then its author and
/// its token. None of them is cached (assumed).
pub(super) const ID_ROUNDS: [usize; 3] = [1, 1, 2];
/// Reads of a list: the position of the log, the newest buckets, and a slice of the newest one (assumed to cost as much
/// as a row). Its theses, authors and tokens are cached: most lists are of the newest theses (assumed).
pub(super) const LIST_ROUNDS: [usize; 3] = [3, 0, 0];
/// How many reads come to one list (assumed).
pub(super) const LIST_ONE_IN: usize = 5;

/// One way between two machines of a data centre (assumed).
pub(super) const HOP: f64 = 250.0;
/// Ways of a conditional write there and back beyond the first: four rounds of Paxos (Cassandra).
pub(super) const CONDITION_HOPS: f64 = 6.0;

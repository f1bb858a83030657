//! The machine's clock, and how far others' clocks are from it.

use thesis_net::clock::{Clock as _, SystemClock};
use thesis_proto::time::format_millis;

use super::finding::Finding;

const NAME: &str = "clock";
/// 2026-01-01: no machine that runs this version lives before it.
const EARLIEST_MS: i64 = 1_767_225_600_000;
/// Largest difference, in milliseconds, that changes nothing in the service.
const MAX_SKEW_MS: i64 = 1_000;
/// The remedy for a wrong clock.
const SET: &str = "set this machine's clock, and keep it right by NTP (`timedatectl set-ntp true`)";

/// Checks that the clock can be right at all.
pub(super) fn sane() -> Finding {
    judge(SystemClock.now_ms())
}

fn judge(now_ms: i64) -> Finding {
    let seen = format!("this machine says {}", format_millis(now_ms));
    if now_ms < EARLIEST_MS {
        return Finding::problem(NAME, format!("{seen}, which is before this version was made"), SET);
    }
    Finding::ok(NAME, seen)
}

/// Judges another clock, which is `ahead_ms` ahead of this machine's, give or take `within_ms`.
pub(super) fn against(whose: &str, ahead_ms: i64, within_ms: i64) -> Finding {
    let (far, way) = (ahead_ms.saturating_abs(), if ahead_ms < 0 { "behind" } else { "ahead of" });
    let seen = format!("{whose} is {far} ms {way} this machine, known to within {within_ms} ms");
    if far.saturating_sub(within_ms) > MAX_SKEW_MS {
        return Finding::warning(NAME, seen, format!("{SET}; times in answers and signatures come from these clocks"));
    }
    Finding::ok(NAME, seen)
}

#[cfg(test)]
mod tests {
    use super::{super::finding::Status, *};

    #[test]
    fn wrong_clocks_are_reported() {
        assert_eq!(judge(0).status, Status::Problem);
        assert_eq!(judge(EARLIEST_MS).status, Status::Ok);
        for (ahead, within, status) in [
            (900, 10, Status::Ok),
            (-1_500, 600, Status::Ok),
            (1_500, 100, Status::Warning),
            (-90_000, 1_000, Status::Warning),
            (i64::MIN, 0, Status::Warning),
        ] {
            assert_eq!(against("another", ahead, within).status, status, "{ahead}");
        }
    }
}

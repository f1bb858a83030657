//! Networks and devices from which a user has signed in. Failed attempts from elsewhere do not slow them down.

use crate::{
    domain::{abuse::network_of_text, window::DAY_MS},
    keys::key_ring::KeyRing,
    tables::account::{KNOWN_DAYS, KnownOrigin, KnownOrigins},
};

/// Time for which a network or device stays known after its last sign-in, in milliseconds.
const KNOWN_MS: i64 = KNOWN_DAYS * DAY_MS;
/// Known networks of a user, and as many devices.
const MAX_KNOWN: usize = 20;

/// The source of an attempt to sign in. Its failures have their own limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A device on which the user has signed in before, by the hash of its token.
    Device(String),
    /// Any other device in a network.
    Network {
        /// The network; empty if the caller names no address.
        network: String,
        is_known: bool,
    },
}

impl Origin {
    /// Finds the source of an attempt to sign in as a user. A wrong token, or the token of another user, counts as
    /// none.
    pub fn new(
        keys: &KeyRing,
        user_id: &str,
        (address, device): (Option<&str>, Option<&str>),
        known: &KnownOrigins,
        now_ms: i64,
    ) -> Self {
        let is_known = |hash: &str, is_device: bool| {
            let mut origins = known.origins.iter();
            origins.any(|one| one.hash == hash && one.is_device == is_device && now_ms - one.used_at < KNOWN_MS)
        };
        let device = device.map(|token| keys.known_hash(user_id, token)).filter(|hash| is_known(hash, true));
        if let Some(hash) = device {
            return Self::Device(hash);
        }
        let network = address.map(network_of_text).unwrap_or_default();
        let is_known = is_known(&keys.known_hash(user_id, &network), false);
        Self::Network { network, is_known }
    }

    /// Returns the text that counts for its attempts.
    pub fn key(&self) -> &str {
        match self {
            Self::Device(hash) => hash,
            Self::Network { network, .. } => network,
        }
    }

    pub const fn is_known(&self) -> bool {
        match self {
            Self::Device(_) => true,
            Self::Network { is_known, .. } => *is_known,
        }
    }
}

/// Adds the network and the device of a successful sign-in to the known ones. If there are too many, it first drops
/// those that were used once, then the least recently used. Returns them with the device's token, which is new unless
/// the device is known.
pub fn remember(
    keys: &KeyRing,
    user_id: &str,
    (address, device): (Option<&str>, Option<&str>),
    mut known: KnownOrigins,
    now_ms: i64,
) -> (KnownOrigins, String) {
    let is_device =
        |token: &&str| matches!(Origin::new(keys, user_id, (None, Some(*token)), &known, now_ms), Origin::Device(_));
    let token = device.filter(is_device).map_or_else(|| keys.new_device_token(), str::to_owned);
    let mut used = vec![(keys.known_hash(user_id, &token), true)];
    used.extend(address.map(|address| (keys.known_hash(user_id, &network_of_text(address)), false)));
    known.origins.retain(|one| now_ms - one.used_at < KNOWN_MS);
    let (again, mut others): (Vec<_>, Vec<_>) =
        known.origins.into_iter().partition(|one| used.iter().any(|(hash, _)| *hash == one.hash));
    let used = used.into_iter().map(|(hash, is_device)| {
        let is_returning = again.iter().any(|one| one.hash == hash);
        KnownOrigin { hash, is_device, used_at: now_ms, is_returning, user_agent: None }
    });
    // A program that keeps no token is a new device each time. Such devices push out each other before a device that
    // came back.
    others.sort_by_key(|one| !one.is_returning);
    known.origins = used.chain(others).collect();
    let mut counts = [0; 2];
    known.origins.retain(|one| {
        let count = &mut counts[usize::from(one.is_device)];
        *count += 1;
        *count <= MAX_KNOWN
    });
    (known, token)
}

/// True if the user signs in on an unknown device, and other devices are known.
pub fn is_new_device(origin: &Origin, known: &KnownOrigins) -> bool {
    !matches!(origin, Origin::Device(_)) && known.origins.iter().any(|one| one.is_device)
}

/// The known devices of a user, the last used first.
pub fn devices(known: KnownOrigins, now_ms: i64) -> Vec<KnownOrigin> {
    let is_known = |one: &KnownOrigin| one.is_device && now_ms - one.used_at < KNOWN_MS;
    let mut devices: Vec<_> = known.origins.into_iter().filter(is_known).collect();
    devices.sort_by_key(|one| -one.used_at);
    devices
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use thesis_net::clock::SystemIdSource;

    use super::*;

    const HOME: Option<&str> = Some("192.0.2.1");
    const AWAY: Option<&str> = Some("198.51.100.1");
    const USER: &str = "usr_1";

    fn keys() -> KeyRing {
        KeyRing::new(&[1; 32], Arc::new(SystemIdSource))
    }

    #[test]
    fn a_device_is_known_to_its_user_anywhere_and_a_network_without_it() {
        let keys = keys();
        let (known, token) = remember(&keys, USER, (HOME, None), KnownOrigins::default(), 0);
        let origin = |user: &str, from, at| Origin::new(&keys, user, from, &known, at);
        assert!(matches!(origin(USER, (AWAY, Some(token.as_str())), KNOWN_MS - 1), Origin::Device(_)));
        let at_home = Origin::Network { network: "192.0.2.1".to_owned(), is_known: true };
        assert_eq!(origin(USER, (HOME, Some("dev_wrong")), KNOWN_MS - 1), at_home);
        assert!(!origin(USER, (AWAY, None), 0).is_known());
        assert!(!origin(USER, (None, None), 0).is_known());
        let new = Origin::new(&keys, USER, (AWAY, None), &known, 1);
        assert!(is_new_device(&new, &known) && !is_new_device(&new, &KnownOrigins::default()));
        let device = Origin::new(&keys, USER, (AWAY, Some(token.as_str())), &known, 1);
        assert!(!is_new_device(&device, &known));
        assert_eq!((devices(known.clone(), 1).len(), devices(known.clone(), KNOWN_MS).len()), (1, 0));
        // The token is neither of another user nor expired.
        assert!(!origin("usr_2", (HOME, Some(token.as_str())), 0).is_known());
        assert!(!origin(USER, (HOME, Some(token.as_str())), KNOWN_MS).is_known());
        assert!(known.origins.iter().all(|one| !token.contains(&one.hash) && !one.hash.contains("192.0")));
    }

    #[test]
    fn the_20_networks_and_devices_that_were_used_last_stay() {
        let keys = keys();
        let (mut known, first) = remember(&keys, USER, (HOME, None), KnownOrigins::default(), 0);
        for number in 0..30 {
            let address = format!("203.0.113.{number}");
            known = remember(&keys, USER, (Some(address.as_str()), None), known, number).0;
            let (with_first, token) = remember(&keys, USER, (None, Some(first.as_str())), known, number);
            assert_eq!(token, first, "a known device keeps its token");
            known = with_first;
        }
        let count = |is_device| known.origins.iter().filter(|one| one.is_device == is_device).count();
        assert_eq!((count(true), count(false)), (MAX_KNOWN, MAX_KNOWN));
        assert!(Origin::new(&keys, USER, (None, Some(first.as_str())), &known, 30).is_known());
        assert!(!Origin::new(&keys, USER, (HOME, None), &known, 30).is_known());
        assert!(Origin::new(&keys, USER, (Some("203.0.113.29"), None), &known, 30).is_known());
        let (known, _) = remember(&keys, USER, (HOME, None), known, KNOWN_MS + 29);
        assert_eq!(known.origins.len(), 2, "what was not used for long is forgotten");
    }

    #[test]
    fn devices_that_came_back_outlast_those_that_were_used_once() {
        let keys = keys();
        let (mut known, first) = remember(&keys, USER, (HOME, None), KnownOrigins::default(), 0);
        known = remember(&keys, USER, (HOME, Some(first.as_str())), known, 1).0;
        let mut tokens = Vec::new();
        for number in 2..32 {
            let address = format!("203.0.113.{number}");
            let (next, token) = remember(&keys, USER, (Some(address.as_str()), None), known, number);
            known = next;
            tokens.push(token);
        }
        let is_known = |known: &KnownOrigins, from| Origin::new(&keys, USER, from, known, 32).is_known();
        assert!(is_known(&known, (None, Some(first.as_str()))) && is_known(&known, (HOME, None)));
        // The last 19 others stay beside it.
        let (gone, left) = tokens.split_at(11);
        assert!(gone.iter().all(|token| !is_known(&known, (None, Some(token.as_str())))));
        assert!(left.iter().all(|token| is_known(&known, (None, Some(token.as_str())))));
        // If all devices came back, the least recently used one makes room for a new one.
        for (token, at) in left.iter().zip(32..) {
            known = remember(&keys, USER, (None, Some(token.as_str())), known, at).0;
        }
        let (known, new) = remember(&keys, USER, (None, None), known, 60);
        assert!(is_known(&known, (None, Some(new.as_str()))) && !is_known(&known, (None, Some(first.as_str()))));
    }
}

//! Profiles: found by id, or by the handle that they have now.

use std::{collections::HashMap, sync::Arc};

use serde::Serialize;
use serde_json::Value;

use crate::time;

/// An author of theses. The last three fields are not part of the interface: the service must not store them.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Profile {
    pub(crate) id: String,
    pub(crate) handle: String,
    pub(crate) display_name: Option<String>,
    pub(crate) avatar_url: Option<String>,
    pub(crate) profile_url: Option<String>,
    pub(crate) bio: Option<String>,
    pub(crate) verified: Option<bool>,
    #[serde(serialize_with = "time::optional")]
    pub(crate) created_at: Option<i64>,
    #[serde(serialize_with = "time::required")]
    pub(crate) updated_at: i64,
    pub(crate) email: String,
    pub(crate) balance: String,
    pub(crate) pnl_usd: i64,
}

/// Changes of a profile; `None` leaves a field unchanged.
#[derive(Debug, Default)]
pub(crate) struct ProfileChange {
    pub(crate) handle: Option<String>,
    pub(crate) display_name: Option<Option<String>>,
    pub(crate) bio: Option<Option<String>>,
    pub(crate) verified: Option<Option<bool>>,
}

/// All profiles, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Profiles {
    all: Vec<Arc<Profile>>,
    wallets: Vec<Vec<Value>>,
    by_handle: HashMap<String, usize>,
    /// Handles that others may take.
    given_up: Vec<String>,
}

impl Profiles {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// The id of the profile with a number.
    pub(crate) fn id(number: usize) -> String {
        format!("u_{}", number + 1)
    }

    pub(crate) fn at(&self, number: usize) -> &Arc<Profile> {
        &self.all[number]
    }

    /// All profiles, in the order of their creation.
    pub(crate) fn all(&self) -> &[Arc<Profile>] {
        &self.all
    }

    pub(crate) fn number(&self, id: &str) -> Option<usize> {
        let number = id.strip_prefix("u_")?.parse::<usize>().ok()?.checked_sub(1)?;
        self.all.get(number).filter(|profile| profile.id == id).map(|_| number)
    }

    pub(crate) fn by_handle(&self, handle: &str) -> Option<&Arc<Profile>> {
        self.by_handle.get(&handle.to_lowercase()).map(|number| &self.all[*number])
    }

    pub(crate) fn is_taken(&self, handle: &str) -> bool {
        self.by_handle.contains_key(&handle.to_lowercase())
    }

    pub(crate) fn wallets(&self, number: usize) -> &[Value] {
        &self.wallets[number]
    }

    pub(crate) fn set_wallets(&mut self, number: usize, wallets: Vec<Value>) {
        self.wallets[number] = wallets;
    }

    /// The handle that was released longest ago; a profile may use it again.
    pub(super) fn given_up(&mut self) -> Option<String> {
        (!self.given_up.is_empty()).then(|| self.given_up.remove(0))
    }

    /// Adds a profile whose handle is not taken.
    pub(super) fn add(&mut self, profile: Profile, wallets: Vec<Value>) -> usize {
        let number = self.all.len();
        self.by_handle.insert(profile.handle.to_lowercase(), number);
        self.all.push(Arc::new(profile));
        self.wallets.push(wallets);
        number
    }

    /// Changes a profile; its new handle is not taken by another one.
    pub(crate) fn change(&mut self, number: usize, change: ProfileChange, now: i64) {
        let profile = Arc::make_mut(&mut self.all[number]);
        if let Some(handle) = change.handle {
            let old = std::mem::replace(&mut profile.handle, handle);
            self.by_handle.remove(&old.to_lowercase());
            self.by_handle.insert(profile.handle.to_lowercase(), number);
            if !old.eq_ignore_ascii_case(&profile.handle) {
                self.given_up.push(old);
            }
        }
        profile.display_name = change.display_name.unwrap_or_else(|| profile.display_name.take());
        profile.bio = change.bio.unwrap_or_else(|| profile.bio.take());
        profile.verified = change.verified.unwrap_or(profile.verified);
        profile.updated_at = time::after(profile.updated_at, now);
    }
}

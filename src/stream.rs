//! The stream of events over the public API, for commands that follow it.

mod follow;
mod open;

use clap::Args;

pub(crate) use self::{
    follow::{Follower, Sink},
    open::StreamClient,
};
use crate::config::read_time;

/// The filters of a stream.
#[derive(Debug, Args)]
pub(crate) struct Wanted {
    /// Only events of these types, such as thesis.created [default: all but those of alerts]
    #[arg(long, value_name = "TYPE,…", value_delimiter = ',')]
    events: Vec<String>,
    /// Only events of these tokens: $SYMBOL, address, chain:address or id [default: all]
    #[arg(long, value_name = "TOKEN,…", value_delimiter = ',')]
    token: Vec<String>,
    /// Only events of these handles [default: all]
    #[arg(long, value_name = "HANDLE,…", value_delimiter = ',')]
    handle: Vec<String>,
    /// Only events of these chains [default: all]
    #[arg(long, value_name = "CHAIN,…", value_delimiter = ',')]
    chain: Vec<String>,
    /// Only theses with these words, in the search syntax; repeat it for alternatives [default: all]
    #[arg(long, value_name = "SEARCH")]
    text: Vec<String>,
}

impl Wanted {
    /// The parameters of a query.
    pub(crate) fn query(self) -> Vec<(&'static str, String)> {
        let lists = [("types", self.events), ("token", self.token), ("handle", self.handle), ("chain", self.chain)];
        let lists = lists.into_iter().filter(|(_, values)| !values.is_empty());
        let lists = lists.map(|(name, values)| (name, values.join(",")));
        lists.chain(self.text.into_iter().map(|text| ("text", text))).collect()
    }
}

/// The past events to replay first.
#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// Replay past events from this time on before new ones: ISO 8601, or a span before now such as 24h
    #[arg(long, value_name = "TIME", value_parser = read_time)]
    from: Option<String>,
    /// Stop after the events of this time
    #[arg(long, value_name = "TIME", requires = "from", value_parser = read_time)]
    to: Option<String>,
    /// Space replayed events by their times divided by this: 0.1 to 3600, or max for no pauses [default: max]
    #[arg(long, value_name = "SPEED", requires = "from")]
    speed: Option<String>,
}

impl Replay {
    /// The parameters of a query.
    pub(crate) fn query(self) -> impl Iterator<Item = (&'static str, String)> {
        let values = [("from", self.from), ("to", self.to), ("speed", self.speed)];
        values.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }
}

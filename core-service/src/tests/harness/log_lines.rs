//! Keeps the log lines of a test's thread.

use std::{fmt, sync::Arc};

use parking_lot::Mutex;
use tracing::{
    Dispatch, Event, Id, Level, Metadata, Subscriber,
    dispatcher::{self, DefaultGuard},
    field::{Field, Visit},
    span::{Attributes, Record},
};

/// Keeps the fields of the events of one level.
#[derive(Clone)]
pub(crate) struct LogLines {
    level: Level,
    text: Arc<Mutex<String>>,
}

impl LogLines {
    pub(crate) fn at(level: Level) -> Self {
        Self { level, text: Arc::default() }
    }

    /// Keeps the lines that this thread logs, until the guard is dropped.
    pub(crate) fn listen(&self) -> ListenGuard {
        // With a single listener in the process, the thread that is the first to log a line decides whether anybody
        // wants it, and a thread of another test has no listener. With two of them, both are considered.
        let dispatches = [(); 2].map(|()| Dispatch::new(self.clone()));
        ListenGuard { _default: dispatcher::set_default(&dispatches[0]), _dispatches: dispatches }
    }

    /// The fields so far, such as `day=2026-01-31 `, a line for each event.
    pub(crate) fn text(&self) -> String {
        self.text.lock().clone()
    }
}

/// Ends [`LogLines::listen`].
#[must_use]
pub(crate) struct ListenGuard {
    _default: DefaultGuard,
    _dispatches: [Dispatch; 2],
}

impl Visit for LogLines {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        *self.text.lock() += &format!("{field}={value:?} ");
    }
}

impl Subscriber for LogLines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        if *event.metadata().level() == self.level {
            event.record(&mut self.clone());
            self.text.lock().push('\n');
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

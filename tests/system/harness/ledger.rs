//! What a customer knows of its writes, and demands of the service at the end.

use std::{
    collections::{HashMap, HashSet},
    sync::Mutex,
    time::Duration,
};

use serde_json::{Value, json};

use super::{Client, Project, Receiver, Service, eventually, ids, text};

/// Test theses of one handle, each with a text of its own.
#[derive(Default)]
pub(crate) struct Ledger {
    written: Mutex<Written>,
}

#[derive(Default)]
struct Written {
    /// Thesis and event of every acknowledged write, by its text.
    acknowledged: HashMap<String, (String, String)>,
    /// Texts, which are also idempotency keys, of writes whose answer did not come.
    in_doubt: HashSet<String>,
    /// Acknowledged theses in the order of their answers.
    theses: Vec<String>,
}

impl Ledger {
    /// The request that writes a text.
    pub(crate) fn request(said: &str) -> Value {
        json!({"handle": "survivor", "token": "CRASH", "text": said})
    }

    /// Notes that a text was written.
    pub(crate) fn acknowledge(&self, said: &str, made: &Value) {
        let (thesis, event) = (text(&made["thesis"], "id").to_owned(), text(&made["event"], "id").to_owned());
        let mut written = self.written.lock().unwrap();
        written.in_doubt.remove(said);
        written.theses.push(thesis.clone());
        let before = written.acknowledged.insert(said.to_owned(), (thesis, event));
        assert!(before.is_none(), "{said} was acknowledged twice");
    }

    /// Notes that a text may have been written, and can be written again with its idempotency key.
    pub(crate) fn doubt(&self, said: &str) {
        self.written.lock().unwrap().in_doubt.insert(said.to_owned());
    }

    /// How many writes were acknowledged.
    pub(crate) fn len(&self) -> usize {
        self.written.lock().unwrap().theses.len()
    }

    /// An acknowledged thesis; the newest is 0.
    pub(crate) fn thesis(&self, back: usize) -> Option<String> {
        self.written.lock().unwrap().theses.iter().rev().nth(back).cloned()
    }

    /// Repeats the writes in doubt: that completes or finds them.
    pub(crate) async fn complete(&self, client: &Client) {
        let in_doubt = self.written.lock().unwrap().in_doubt.clone();
        println!("{} acknowledged, {} in doubt and repeated", self.len(), in_doubt.len());
        for said in in_doubt {
            // The server may have died with the request; waits for the next.
            let made = eventually("an answer", Duration::from_secs(40), async || {
                let answer = client.post_once("/v1/test/theses", &Self::request(&said), &said).await;
                (answer.status == 201).then(|| answer.json())
            });
            self.acknowledge(&said, &made.await);
        }
    }

    /// Demands that every acknowledged write is there once and nothing twice, and that no log has a gap; gives the
    /// events in order.
    pub(crate) async fn judge(&self, service: &Service, project: &Project, client: &Client) -> Vec<String> {
        let theses = client.all("/v1/theses?handle=survivor&limit=100").await;
        let events = client.all("/v1/events?types=thesis.created&handle=survivor&limit=100").await;
        let listed: HashMap<&str, &str> = theses.iter().map(|row| (text(row, "id"), text(row, "text"))).collect();
        let evented: HashMap<&str, &str> =
            events.iter().map(|row| (text(&row["data"], "thesis_id"), text(row, "id"))).collect();
        // No thesis twice, none without an event, no event twice or without its thesis.
        assert_eq!((listed.len(), evented.len()), (theses.len(), events.len()));
        assert_eq!(theses.len(), events.len());
        assert!(ids(&theses).iter().all(|id| evented.contains_key(id)));
        {
            let written = self.written.lock().unwrap();
            for (said, (thesis, event)) in &written.acknowledged {
                assert_eq!(listed.get(thesis.as_str()), Some(&said.as_str()));
                assert_eq!(evented.get(thesis.as_str()), Some(&event.as_str()));
            }
        }
        // Each text exists once, even if it was tried often.
        let mut texts: Vec<&str> = listed.values().copied().collect();
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), theses.len());
        assert_eq!(client.all("/v1/theses?token=CRASH&limit=100").await, theses);

        for dataset in ["sandbox".to_owned(), project.dataset(), "control".to_owned()] {
            let log = service.check_log(&dataset).await;
            assert_eq!((log.gaps, log.duplicates, log.entries), (0, 0, log.head), "{dataset}: {log:?}");
        }
        println!("{} theses and as many events, each once; the logs have no gap", theses.len());
        events.iter().rev().map(|event| text(event, "id").to_owned()).collect()
    }

    /// Demands that every event reached the endpoint; gives how many deliveries were repeats.
    pub(crate) async fn delivered(&self, receiver: &Receiver, events: &[String], within: Duration) -> usize {
        let arrived = eventually("every delivery", within, async || {
            let arrived = receiver.arrivals();
            events.iter().all(|event| arrived.contains_key(event)).then_some(arrived)
        });
        let arrived = arrived.await;
        let more = arrived.values().sum::<usize>() - arrived.len();
        println!("{} events delivered, {more} of them once more than needed", arrived.len());
        assert_eq!(arrived.len(), events.len(), "more events were delivered than there are");
        more
    }
}

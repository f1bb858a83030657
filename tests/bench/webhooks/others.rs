//! The cost of an event beside very many webhooks of other projects that do not want it.

use std::{ops::Range, path::Path, time::Duration};

use core_service::{
    domain::{
        account::Actor,
        control::{ControlChange, Project, Webhook},
    },
    keys::key_ring::SealPurpose,
};
use futures::future::try_join_all;
use thesis_net::clock::{Clock as _, SystemClock};
use thesis_proto::v1::{self, EventType, WebhookStatus};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::{
    Failure, Options,
    calls::{self, Ingest, thesis},
    data::Random,
    load,
    process::Service,
    report::{aim_below, median, number, row},
    store::Setup,
    webhooks::at_rest,
};

/// Webhooks of a project: a plan's most.
const PER_PROJECT: usize = 100;
/// Texts of a webhook that has many: the most that a filter takes.
const TEXTS: usize = 50;
/// Characters of each.
const TEXT_CHARS: usize = 100;
/// Words that each event has once.
const EVENT_WORDS: [&str; 6] = ["as", "before", "holding", "the", "through", "week"];
/// Calls under way at once.
const CALLS: u32 = 8;
/// Most that the webhooks may make an event dearer, as a factor.
const DEARER: f64 = 1.1;
/// Most that a webhook may cost an event whose words are those of its text, in microseconds.
const WORST_US: f64 = 5.0;

/// What webhooks wait for that no event has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unwanted {
    /// A token each.
    Tokens,
    /// A word each.
    Words,
    /// All the same phrase, whose words each event has in another order.
    Phrase,
    /// Many long phrases each, whose words each event has in another order.
    Phrases,
    /// Many long searches each, for words of each event without one that it has. All are compared with the event.
    Excluded,
}

impl Unwanted {
    const fn name(self) -> &'static str {
        match self {
            Self::Tokens => "that want other tokens",
            Self::Words => "that want other words",
            Self::Phrase => "that want a phrase of its words",
            Self::Phrases => "that want 50 phrases of its words, of 100 characters each",
            Self::Excluded => "that want 50 times its words without one of them, in 100 characters each",
        }
    }

    /// The tokens and the texts of a webhook.
    fn filters(self, number: usize) -> (Vec<String>, Vec<String>) {
        match self {
            Self::Tokens => (vec![format!("OTHER{number}")], Vec::new()),
            Self::Words => (Vec::new(), vec![format!("other{number}")]),
            Self::Phrase => (Vec::new(), vec!["\"week the\"".to_owned()]),
            Self::Phrases => (Vec::new(), (0..TEXTS).map(|text| long_phrase(number * TEXTS + text)).collect()),
            Self::Excluded => (Vec::new(), (0..TEXTS).map(|text| excluding_search(number * TEXTS + text)).collect()),
        }
    }

    /// Number of events of a turn, and of those in a second. An event that costs much must not delay the next one.
    const fn events(self) -> (u64, u32) {
        match self {
            Self::Tokens | Self::Words | Self::Phrase => (1_000, 200),
            Self::Phrases | Self::Excluded => (10, 1),
        }
    }

    /// Whether the goal was reached, by the costs of an event in microseconds.
    fn aim(self, webhooks: usize, without: f64, with: f64) -> String {
        match self {
            Self::Tokens | Self::Words => aim_below(with / without, DEARER, " times"),
            Self::Phrase | Self::Phrases | Self::Excluded => {
                aim_below((with - without) / webhooks as f64, WORST_US, " µs a webhook")
            }
        }
    }
}

/// A phrase of the words of events, another one for each number. No event has it, because it repeats words.
fn long_phrase(number: usize) -> String {
    let size = TEXT_CHARS - 2;
    format!("\"{:<size$}\"", event_words(number, size))
}

/// A search for the words of events, another one for each number. No event matches, because it has the excluded word.
fn excluding_search(number: usize) -> String {
    let excluded = format!(" -{}", EVENT_WORDS[0]);
    event_words(number, TEXT_CHARS - excluded.len()) + &excluded
}

/// Random words of events, up to a size in bytes.
fn event_words(number: usize, size: usize) -> String {
    let mut random = Random::new(number as u64);
    let mut text = EVENT_WORDS[random.below(EVENT_WORDS.len())].to_owned();
    loop {
        let word = EVENT_WORDS[random.below(EVENT_WORDS.len())];
        if text.len() + 1 + word.len() > size {
            return text;
        }
        text.push(' ');
        text.push_str(word);
    }
}

/// A service that is measured.
struct Side {
    service: Service,
    ingest: Ingest,
    /// Processor time of an event in each turn, in microseconds.
    costs: Vec<f64>,
}

impl Side {
    async fn start(setup: &Setup) -> Result<Self, Failure> {
        let service = Service::start(setup).await?;
        let ingest = calls::ingest(&service).await?;
        Ok(Self { service, ingest, costs: Vec::new() })
    }

    /// Brings live theses, and notes what each cost.
    async fn turn(&mut self, numbers: Range<u64>, rate: u32) -> Result<(), Failure> {
        let before = at_rest(&self.service).await;
        let events = numbers.end - numbers.start;
        let (began, each) = (Instant::now(), Duration::from_secs(1) / rate);
        let bringing = (0..CALLS).map(|first| {
            let (mut ingest, numbers) = (self.ingest.clone(), numbers.clone());
            tokio::spawn(async move {
                let mut turns = interval_at(began + each * first, each * CALLS);
                turns.set_missed_tick_behavior(MissedTickBehavior::Burst);
                for number in numbers.skip(first as usize).step_by(CALLS as usize) {
                    turns.tick().await;
                    let request = v1::IngestRequest { dataset: "live".to_owned(), observations: vec![thesis(number)] };
                    ingest.ingest(request).await?;
                }
                Ok::<_, Failure>(())
            })
        });
        try_join_all(bringing).await?.into_iter().collect::<Result<(), Failure>>()?;
        self.costs.push((at_rest(&self.service).await - before) * 1e6 / events as f64);
        Ok(())
    }
}

/// Measures and prints the cost.
pub(super) async fn run(options: &Options, webhooks: usize, unwanted: Unwanted, base: &Path) -> Result<(), Failure> {
    let none = Setup::new(options, options.store, 0, &base.join(format!("none-{unwanted:?}")))?;
    let many = Setup::new(options, options.store, 0, &base.join(format!("many-{unwanted:?}")))?;
    let measured = measure(options, webhooks, unwanted, [&none, &many]).await;
    none.clear().await?;
    many.clear().await?;
    measured
}

async fn measure(
    options: &Options,
    webhooks: usize,
    unwanted: Unwanted,
    [none, many]: [&Setup; 2],
) -> Result<(), Failure> {
    let began = Instant::now();
    let projects = webhooks.div_ceil(PER_PROJECT);
    create_unwanted(many, webhooks, unwanted).await?;
    let seconds = began.elapsed().as_secs_f64();
    let mut sides = [Side::start(none).await?, Side::start(many).await?];
    let (events, rate) = unwanted.events();
    // The first turn does not count.
    for turn in 0..=options.rounds as u64 {
        for side in &mut sides {
            side.turn(turn * events..(turn + 1) * events, rate).await?;
        }
    }
    println!(
        "\nLive events beside {} webhooks of {projects} projects {} (created in {seconds:.0} s), {rate} events a \
         second, medians of {} runs; {}",
        number((projects * PER_PROJECT) as f64),
        unwanted.name(),
        options.rounds,
        many.kind()
    );
    row(&["", "CPU µs each", "of none", "memory MiB", "ready ms", "aim"]);
    let [without, with] = sides.each_ref().map(|side| median(side.costs[1..].to_vec()));
    let ratio = with / without;
    let aim = unwanted.aim(projects * PER_PROJECT, without, with);
    for (name, side, cost, ratio, aim) in
        [("no webhook", &sides[0], without, 1.0, ""), ("these webhooks", &sides[1], with, ratio, aim.as_str())]
    {
        let (memory, ready) = (side.service.memory().resident, side.service.ready_ms);
        row(&[name, &number(cost), &format!("{ratio:.2}"), &number(memory), &number(ready), aim]);
    }
    for side in sides {
        side.service.stop().await?;
    }
    Ok(())
}

/// Creates approved projects with webhooks for live theses that nobody writes: by a core in this process, since no
/// request may create more than one.
pub(crate) async fn create_unwanted(setup: &Setup, webhooks: usize, unwanted: Unwanted) -> Result<(), Failure> {
    let core = load::core(setup.open().await?, setup.search_dir()).await?;
    let control = &core.shared.control;
    let first = control.state().projects().next().map(|project| project.organization_id.clone());
    let (organization_id, now_ms) = (first.unwrap_or_default(), SystemClock.now_ms());
    for number in 0..webhooks.div_ceil(PER_PROJECT) {
        let project = Project {
            id: format!("prj_benchmark{number}"),
            organization_id: organization_id.clone(),
            name: "Another".to_owned(),
            live_approved: true,
            created_at: now_ms,
            ..Project::default()
        };
        let webhook = |count: usize| {
            let id = format!("wh_benchmark{number}x{count}");
            let (tokens, texts) = unwanted.filters(number * PER_PROJECT + count);
            let secret = core.shared.keys.seal(SealPurpose::WebhookSecret(&id), b"whsec_benchmark");
            Webhook {
                id,
                project_id: project.id.clone(),
                live: true,
                url: "https://customer.example/hook".to_owned(),
                events: vec![EventType::ThesisCreated.into()],
                tokens,
                texts,
                status: WebhookStatus::Enabled.into(),
                secret,
                secret_prefix: "whsec_benc".to_owned(),
                created_at: now_ms,
                updated_at: now_ms,
                ..Webhook::default()
            }
        };
        let mut changes = vec![ControlChange::Project(project.clone())];
        changes.extend((0..PER_PROJECT).map(|count| ControlChange::Webhook(webhook(count))));
        control.change(Actor::service().does("bench"), |_| Ok((changes.clone(), ()))).await?;
    }
    core.close().await;
    Ok(())
}

//! A reader of events that comes back after each restart where it was cut off.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;

use serde_json::Value;

use crate::event_stream::{EventStream, name_of};
use crate::support::Server;

/// Events by run and number: a digest of what was told, which is all that is compared.
#[derive(Default)]
pub(crate) struct Events {
    digests: HashMap<(String, u64), u64>,
    /// How often each of the facts that people cause was told, by run.
    facts: BTreeMap<(String, String), u64>,
}

impl Events {
    /// Adds an event; returns whether it is new. One that comes again says the same.
    fn add(&mut self, event: &Value) -> bool {
        let mut hasher = DefaultHasher::new();
        event.to_string().hash(&mut hasher);
        let (name, digest) = (name_of(event), hasher.finish());
        if let Some(known) = self.digests.get(&name) {
            assert_eq!(*known, digest, "it was told otherwise before: {event}");
            return false;
        }
        for fact in event["facts"].as_array().expect("it is a list") {
            let fact = fact.as_str().expect("it is a word");
            if matches!(fact, "run.signalled" | "run.cancelled") {
                *self.facts.entry((name.0.clone(), fact.to_owned())).or_default() += 1;
            }
        }
        self.digests.insert(name, digest);
        true
    }

    pub(crate) fn count_facts(&self, run: &str, fact: &str) -> u64 {
        self.facts.get(&(run.to_owned(), fact.to_owned())).copied().unwrap_or(0)
    }
}

/// Reads all that has happened since a cursor, in one go.
pub(crate) fn read_all(server: &Server, begin: &str) -> Events {
    let mut events = Events::default();
    for event in EventStream::open(server, &format!("?after={begin}&class=run"), None).until_caught_up() {
        assert!(events.add(&event), "it comes twice: {event}");
    }
    events
}

/// What a reader has been told over all restarts.
pub(crate) struct Follower {
    events: Events,
    last_id: String,
    /// What came after the last id: only this may come again.
    unconfirmed: HashSet<(String, u64)>,
    connections: u64,
    repeated: u64,
}

impl Follower {
    pub(crate) fn new(begin: &str) -> Follower {
        Follower {
            events: Events::default(),
            last_id: begin.to_owned(),
            unconfirmed: HashSet::new(),
            connections: 0,
            repeated: 0,
        }
    }

    pub(crate) fn summary(&self) -> String {
        let Follower { events, connections, repeated, .. } = self;
        format!("{} events over {connections} connections, {repeated} of them again", events.digests.len())
    }

    /// Reads until the server is gone.
    pub(crate) fn follow(&mut self, address: SocketAddr) {
        self.read(address, |_| false);
    }

    /// Reads until all has been told.
    pub(crate) fn read_to_end(&mut self, server: &Server) {
        self.read(server.address, |kind| kind == "caughtUp");
    }

    fn read(&mut self, address: SocketAddr, is_end: impl Fn(&str) -> bool) {
        let Ok(mut stream) = EventStream::try_open(address, "?class=run", Some(&self.last_id)) else {
            return;
        };
        self.connections += 1;
        let may_repeat = std::mem::take(&mut self.unconfirmed);
        // Of this connection: each event, and the last id before it.
        let mut told: HashMap<(String, u64), Option<String>> = HashMap::new();
        while let Some(message) = stream.next() {
            if is_end(&message.kind) {
                break;
            }
            if message.kind != "run" {
                assert!(matches!(message.kind.as_str(), "caughtUp" | "bye"), "{message:?}");
                continue;
            }
            let name = name_of(&message.data);
            if !self.events.add(&message.data) {
                assert!(may_repeat.contains(&name), "it was confirmed before: {:?}", message.data);
                self.repeated += 1;
            }
            let known = told.insert(name, message.id_before);
            assert!(known.is_none(), "it comes twice on one connection: {:?}", message.data);
        }
        let last_id = stream.last_id.clone();
        let is_after = |(_, id): &(_, Option<String>)| *id == last_id;
        self.unconfirmed = told.into_iter().filter(is_after).map(|(name, _)| name).collect();
        if last_id.as_deref() == Some(&self.last_id) {
            self.unconfirmed.extend(may_repeat);
        }
        self.last_id = last_id.expect("it was opened with one");
    }

    /// Looks whether everything was told, and nothing that has not happened.
    pub(crate) fn check(&self, everything: &Events) {
        let (told, all) = (&self.events.digests, &everything.digests);
        for (name, digest) in all {
            assert_eq!(told.get(name), Some(digest), "{name:?} was missed, or told otherwise");
        }
        let invented = told.keys().find(|name| !all.contains_key(*name));
        assert_eq!(invented, None, "it was told, and is not there any more");
        let mut last: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for (run, number) in all.keys() {
            let (count, most) = last.entry(run).or_default();
            (*count, *most) = (*count + 1, (*most).max(*number));
        }
        assert!(last.values().all(|(count, most)| count == most), "numbers have no gaps");
    }
}

//! Asking about the runs of a store: its owner if there is one, else the store itself.

use std::thread;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use unstuck_engine::engine::{Engine, Settings};
use unstuck_engine::executor::process::ProcessExecutor;
use unstuck_engine::runtime::Runtime;
use unstuck_sqlite::{SqliteStore, release_reserve};
use unstuck_store::contract::StoreError;

use crate::desk::asked::{Asked, BulkAct, BulkWhat, BulkWish, Change, PolicyWhat, PolicyWish, Reading, What};
use crate::desk::{Desk, SilentOwner, Unanswered};
use crate::failure::Failure;
use crate::output::Output;
use crate::place::Place;
use crate::socket::{self, Unheard};
use crate::{engine, json_text, who};

/// Another command has the store open for a moment; a run that ends waits for its processes.
const PATIENCE: Duration = Duration::from_secs(15);
const BETWEEN: Duration = Duration::from_millis(20);

/// An answer, as JSON.
pub(crate) struct Answer(String);

impl Answer {
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_str(&self.0).map_err(|error| {
            Failure::new(format!("cannot read the answer ({error}); is another version of unstuck running?"))
        })
    }

    /// Laid out for reading.
    pub(crate) fn pretty(&self) -> String {
        json_text::pretty(&self.0)
    }
}

impl Place {
    /// Asks for something that changes nothing.
    pub(crate) fn read(&self, reading: Reading) -> Result<Answer, Failure> {
        self.ask(&Asked::Read(reading))
    }

    /// Asks something of a run.
    pub(crate) fn change(&self, run: &str, what: What) -> Result<Answer, Failure> {
        self.ask(&Asked::Change(Change { run: run.to_owned(), by: who::user(), what }))
    }

    /// Asks something about policies.
    pub(crate) fn change_policies(&self, what: PolicyWhat) -> Result<Answer, Failure> {
        // They may be there before the first run is.
        let makes_store = matches!(what, PolicyWhat::Load { .. });
        if makes_store && !self.has_store() {
            self.make()?;
        }
        self.ask_or_make(&Asked::Policies(PolicyWish { by: who::user(), what }), makes_store)
    }

    /// Asks something about bulk actions.
    pub(crate) fn change_bulk(&self, what: BulkWhat) -> Result<Answer, Failure> {
        self.ask(&Asked::Bulk(BulkWish { by: who::user(), what }))
    }

    fn ask(&self, asked: &Asked) -> Result<Answer, Failure> {
        self.ask_or_make(asked, false)
    }

    fn ask_or_make(&self, asked: &Asked, makes_store: bool) -> Result<Answer, Failure> {
        let until = Instant::now() + PATIENCE;
        loop {
            if !makes_store && !self.has_store() {
                return Err(self.no_store());
            }
            match socket::ask(&self.directory, &self.option, asked) {
                Ok(json) => return Ok(Answer(json)),
                Err(Unheard::Silent(sentence, process)) if let Asked::Read(reading) = asked => {
                    return self.beside(reading, &sentence, process, false).map(Answer);
                }
                Err(Unheard::Stopped(sentence, process)) if let Asked::Read(reading) = asked => {
                    return self.beside(reading, &sentence, process, true).map(Answer);
                }
                Err(Unheard::Silent(sentence, _)) => return Err(Failure::Unknown(sentence)),
                Err(Unheard::Stopped(sentence, _)) => {
                    return Err(Failure::Unavailable(format!("{sentence}. Nothing was changed")));
                }
                Err(unheard @ (Unheard::Refused(_) | Unheard::Unavailable(_))) => return Err(unheard.into()),
                Err(Unheard::HungUp) if !asked.may_be_repeated() => return Err(unknown_outcome(asked)),
                Err(Unheard::Busy) if Instant::now() >= until => return Err(Unheard::Busy.into()),
                Err(Unheard::Busy) => {
                    thread::sleep(BETWEEN);
                    continue;
                }
                // Nobody has the store, or it is about to change hands.
                Err(Unheard::Nobody | Unheard::HungUp) => {}
            }
            match self.open(asked, engine::settings(None)?) {
                Ok(opened) => return self.alone(opened, asked).map(Answer),
                Err(StoreError::Away(_)) if Instant::now() < until => thread::sleep(BETWEEN),
                // To forget makes room, and there is some in reserve for it.
                Err(StoreError::Full(_)) if is_forget(asked) && release_reserve(&self.directory) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Reads what is in the file, beside an owner that does not answer.
    fn beside(
        &self,
        reading: &Reading,
        why: &str,
        process: Option<u32>,
        is_stopped: bool,
    ) -> Result<String, Failure> {
        Output::stderr().line(&format!("note: {why}. Showing what is stored on disk."));
        let silent = Some(SilentOwner { process, is_stopped });
        let desk = Desk { option: self.option.clone(), silent, ..Desk::default() };
        let mut store = SqliteStore::open_beside(&self.directory)?;
        desk.read(&mut store, &mut engine::flows(), reading).map_err(Failure::from)
    }

    /// Opens a store that nobody has. A full or read-only disk is no hindrance to who only reads.
    fn open(&self, asked: &Asked, settings: Settings) -> Result<Opened, StoreError> {
        let is_reading = matches!(asked, Asked::Read(_));
        if is_reading && !unstuck_sqlite::is_writable(&self.directory) {
            let store = SqliteStore::open_for_reading(&self.directory)?;
            return Ok(Opened::ForReading(Box::new(store)));
        }
        let store = match SqliteStore::open(&self.directory) {
            Err(StoreError::Full(_)) if is_reading => SqliteStore::open_for_reading(&self.directory)?,
            opened => opened?,
        };
        if is_reading {
            return Ok(Opened::ForReading(Box::new(store)));
        }
        // It is there for one answer, which should not wait for a line of batches about other runs.
        let settings = Settings { max_outstanding: 2, ..settings };
        Engine::new(store, engine::compile(), settings).map(|engine| Opened::WithEngine(Box::new(engine)))
    }

    /// Answers from a store that nobody else has.
    fn alone(&self, opened: Opened, asked: &Asked) -> Result<String, Failure> {
        let desk = Desk { option: self.option.clone(), ..Desk::default() };
        let answer = match (opened, asked) {
            (Opened::ForReading(mut store), Asked::Read(reading)) => {
                desk.read(&mut *store, &mut engine::flows(), reading)
            }
            (Opened::WithEngine(engine), asked) => {
                // It executes nothing, and ends what processes of an engine that was killed are left.
                let runtime = Runtime::start(*engine, vec![Box::new(ProcessExecutor::new(0))], None);
                desk.answer(&runtime.handle(), asked.clone())
            }
            (Opened::ForReading(_), Asked::Change(_) | Asked::Policies(_) | Asked::Bulk(_)) => {
                Err(Unanswered::refused("the store is open for reading only"))
            }
        };
        answer.map_err(Failure::from)
    }
}

/// A store that nobody else has.
enum Opened {
    ForReading(Box<SqliteStore>),
    WithEngine(Box<Engine<SqliteStore>>),
}

fn is_forget(asked: &Asked) -> bool {
    match asked {
        Asked::Change(change) => matches!(change.what, What::Forget),
        Asked::Bulk(wish) => {
            matches!(&wish.what, BulkWhat::Begin(begin) if matches!(begin.action, BulkAct::Forget))
        }
        Asked::Read(_) | Asked::Policies(_) => false,
    }
}

fn unknown_outcome(asked: &Asked) -> Failure {
    let command = match asked {
        Asked::Change(change) => format!("unstuck history {}", change.run),
        Asked::Policies(_) => "unstuck policy audit".to_owned(),
        Asked::Bulk(_) => "unstuck bulk list".to_owned(),
        Asked::Read(_) => "unstuck runs".to_owned(),
    };
    Failure::Unknown(format!(
        "the process that had the store open stopped before it answered. To see whether the command was carried out: {command}"
    ))
}

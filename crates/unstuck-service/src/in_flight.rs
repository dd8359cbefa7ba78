//! Requests under an idempotency key that are being carried out by this process: a repeat that overtakes its original waits
//! for it.

use std::collections::HashMap;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// So many repeats may wait for all originals together; more are turned away.
const MAX_WAITING: usize = 1_000;

type Name = (Arc<str>, Arc<str>);
type Wake = Box<dyn FnOnce() + Send>;

/// The requests that are being carried out, by scope and key. Clones share them.
#[derive(Clone, Default)]
pub struct InFlight(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    /// Those who wait for each.
    waiting: HashMap<Name, Vec<Wake>>,
    count: usize,
}

/// Whether a request may be carried out.
pub enum Entered {
    /// Nobody else carries it out. Whoever waits for it is woken when this is dropped.
    First(Original),
    /// Somebody does: whoever asked is called when that has ended, and enters again.
    Waits,
    /// Too many wait.
    TooMany,
}

/// The one who carries a request out.
pub struct Original {
    table: InFlight,
    name: Name,
}

impl InFlight {
    /// Enters with a request. If somebody else carries it out, `wake` is called when that has ended, on their thread, and must
    /// not block.
    pub fn enter(&self, scope: &Arc<str>, key: &Arc<str>, wake: impl FnOnce() + Send + 'static) -> Entered {
        let name = (scope.clone(), key.clone());
        let mut table = self.table();
        let is_full = table.count >= MAX_WAITING;
        match table.waiting.get_mut(&name) {
            None => {
                table.waiting.insert(name.clone(), Vec::new());
                Entered::First(Original { table: self.clone(), name })
            }
            Some(_) if is_full => Entered::TooMany,
            Some(waiting) => {
                waiting.push(Box::new(wake));
                table.count += 1;
                Entered::Waits
            }
        }
    }

    /// Enters, and waits for whoever carries the same request out; `None` if too many wait.
    pub fn enter_blocking(&self, scope: &Arc<str>, key: &Arc<str>) -> Option<Original> {
        loop {
            let (sender, receiver) = sync_channel(1);
            let wake = move || {
                // Whoever has stopped waiting does not mind.
                let _ = sender.send(());
            };
            match self.enter(scope, key, wake) {
                Entered::First(original) => return Some(original),
                Entered::Waits => drop(receiver.recv()),
                Entered::TooMany => return None,
            }
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Original {
    fn drop(&mut self) {
        let mut table = self.table.table();
        let woken = table.waiting.remove(&self.name).unwrap_or_default();
        table.count -= woken.len();
        drop(table);
        for wake in woken {
            wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    fn name(key: &str) -> (Arc<str>, Arc<str>) {
        ("token".into(), key.into())
    }

    #[test]
    fn a_repeat_waits_until_its_original_has_ended_and_others_do_not() {
        let (table, woken) = (InFlight::default(), Arc::new(AtomicUsize::new(0)));
        let (scope, key) = name("k");
        let enter = |key: &Arc<str>| {
            let woken = woken.clone();
            table.enter(&scope, key, move || {
                woken.fetch_add(1, Ordering::SeqCst);
            })
        };
        let Entered::First(original) = enter(&key) else { panic!("nobody is there") };
        assert!(matches!(enter(&key), Entered::Waits));
        assert!(matches!(enter(&key), Entered::Waits));
        let Entered::First(other) = enter(&"l".into()) else { panic!("another key is another request") };
        drop(other);
        assert_eq!(woken.load(Ordering::SeqCst), 0);
        drop(original);
        assert_eq!(woken.load(Ordering::SeqCst), 2);
        let Entered::First(_next) = enter(&key) else { panic!("it has ended") };
        assert_eq!(table.table().count, 0);
    }

    #[test]
    fn of_many_threads_one_at_a_time_carries_it_out() {
        let (table, inside) = (InFlight::default(), AtomicUsize::new(0));
        let (scope, key) = name("k");
        thread::scope(|threads| {
            for _ in 0..8 {
                threads.spawn(|| {
                    for _ in 0..50 {
                        let original = table.enter_blocking(&scope, &key).expect("there is room");
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "nobody else is inside");
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(original);
                    }
                });
            }
        });
        assert!(table.table().waiting.is_empty());
    }

    #[test]
    fn no_more_wait_than_there_is_room_for() {
        let table = InFlight::default();
        let (scope, key) = name("k");
        let Entered::First(_original) = table.enter(&scope, &key, || {}) else { panic!("nobody is there") };
        for _ in 0..MAX_WAITING {
            assert!(matches!(table.enter(&scope, &key, || {}), Entered::Waits));
        }
        assert!(matches!(table.enter(&scope, &key, || {}), Entered::TooMany));
    }
}

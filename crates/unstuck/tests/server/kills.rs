//! `kill -9` of the server under load, again and again: what was acknowledged is there, once, nothing that has ended changes, and
//! a stream of events that is resumed misses nothing and repeats nothing. `cargo xtask torture` is the long form.

mod book;
mod clients;
mod follower;

use std::env;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use unstuck_core::random::Random;

use crate::support::{Server, Store, wait_until};
use book::Book;
use clients::{Period, act, start_many, start_one_by_one, start_under_idempotency_keys};
use follower::{Follower, read_all};

/// So often it is killed unless `UNSTUCK_KILLS` says otherwise.
const KILLS: u64 = 30;

/// Runs that end at once, that take a while, that wait for the clock, and that wait for people.
const FLOWS: &str = "\
flow: quick
steps:
  - {id: only, set: 1}
---
flow: once
steps:
  - {id: only, set: 1}
---
flow: work
defaults: {minimumDelay: 10ms, maxStuck: 1000000}
steps:
  - {id: first, emulate: {wait: 30ms}}
  - {id: second, emulate: {wait: 5ms}}
---
flow: nap
steps:
  - {id: nap, wait: 40ms}
  - {id: last, set: 1}
---
flow: order
steps:
  - {id: approve, signal: approve}
  - {id: ship, set: '${steps.approve.output}'}
output: '${steps.ship.output}'
";

/// How a server is killed.
enum Moment {
    /// While it starts, so long after its process began.
    Starting(Duration),
    /// So long after it has acknowledged something.
    UnderLoad(Duration),
}

#[test]
fn nothing_acknowledged_is_lost_and_no_event_is_missed_or_repeated_over_many_kills() {
    let setting = |name: &str| env::var(name).ok().map(|text| text.parse().expect("it is a number"));
    let (kills, seed) = (setting("UNSTUCK_KILLS").unwrap_or(KILLS), setting("UNSTUCK_SEED").unwrap_or(1));
    println!("seed {seed}, {kills} kills");
    let (store, mut random) = (Store::new(), Random::new(seed));
    let server = Server::start_on(&store, &[]);
    server.apply(FLOWS).with(200);
    let begin = server.get("/v1/runs").header("unstuck-events").expect("it says where it ends").to_owned();
    server.stop();
    let (mut book, mut follower) = (Book::default(), Follower::new(&begin));
    for kill in 0..kills {
        match draw_moment(&mut random, kill) {
            Moment::Starting(after) => kill_while_it_starts(&store, after),
            Moment::UnderLoad(after) => {
                let server = Server::start_on(&store, &[]);
                book.check_some(&server, &mut random);
                work_until_killed(server, after, random.draw(), &mut book, &mut follower);
            }
        }
        if kill % 50 == 49 {
            println!("{} kills: {}, {}", kill + 1, book.summary(), follower.summary());
        }
    }
    let server = Server::start_on(&store, &[]);
    book.finish(&server);
    let everything = read_all(&server, &begin);
    follower.read_to_end(&server);
    println!("{}; {}", book.summary(), follower.summary());
    follower.check(&everything);
    book.check_all(&server, &everything);
    server.stop().assert_clean();
}

/// Every eighth is while it starts, where the store is read again and what was under way is taken up.
fn draw_moment(random: &mut Random, kill: u64) -> Moment {
    if kill % 8 == 5 {
        Moment::Starting(Duration::from_micros(random.between(0, 250_000)))
    } else {
        Moment::UnderLoad(Duration::from_micros(random.between(0, 120_000)))
    }
}

fn kill_while_it_starts(store: &Store, after: Duration) {
    let mut command = store.command(&["serve", "--listen", "127.0.0.1:0"]);
    let mut child = command.stdout(std::process::Stdio::null()).spawn().expect("it starts");
    thread::sleep(after);
    child.kill().expect("it is there");
    child.wait().expect("it ends");
}

/// Lets clients of every kind work, kills the server in the middle of it, and writes down what was acknowledged.
fn work_until_killed(server: Server, after: Duration, seed: u64, book: &mut Book, follower: &mut Follower) {
    let (acknowledged, pending) = (AtomicU64::new(0), book.take_pending());
    let period = &Period { address: server.address, seed, acknowledged: &acknowledged };
    let (starts, acts) = (pending.starts, pending.acts);
    thread::scope(|scope| {
        let ones = scope.spawn(move || start_one_by_one(period));
        let many = scope.spawn(move || start_many(period));
        let once = scope.spawn(move || start_under_idempotency_keys(period, starts));
        let acts = scope.spawn(move || act(period, acts));
        let events = scope.spawn(move || follower.follow(period.address));
        let begun = Instant::now();
        wait_until("something is acknowledged", || acknowledged.load(Ordering::Acquire) > 0);
        assert!(begun.elapsed() < Duration::from_secs(20), "it took {:?}", begun.elapsed());
        // The moment is chance, which a sleep of a drawn length is; nothing is expected to have happened by then.
        thread::sleep(after);
        server.kill();
        book.add_keyed(ones.join().expect("it ends"));
        book.add_keyed(many.join().expect("it ends"));
        book.add_once(once.join().expect("it ends"));
        book.add_acts(acts.join().expect("it ends"));
        events.join().expect("it ends");
    });
}

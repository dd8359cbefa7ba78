//! What is over costs nothing: no memory, and no time when a store is opened.

use unstuck_core::command::{Command, Says};
use unstuck_core::json::Json;
use unstuck_sqlite::{Hand, Options};
use unstuck_store::conformance::driver::Driver;
use unstuck_store::conformance::flows::{action, limited, sequence};
use unstuck_store::conformance::settle;

use crate::support::fixture::Fixture;
use crate::support::power::Power;

/// So many runs that are over, each with a slot that it had, and three that wait; then it is opened again.
fn opened_with(over: usize) -> Driver<Fixture> {
    let options = Options { hand: Hand::Caller, ..Options::default() };
    let mut driver = Driver::new(Fixture::on_a_disk(options, Power::steady(1)));
    let flow = driver.keep(limited(sequence("f", vec![action("a")]), 5));
    for _ in 0..over {
        let run = driver.start(&flow);
        driver.act(run, Command::Admit);
        driver.work(run, 0);
        driver.say(run, 0, Says::Complete { output: Json::NULL });
        assert_eq!(settle(&mut driver.store, 5), []);
    }
    assert_eq!(driver.store.store().runs_in_memory(), 0, "what is over has left");
    for _ in 0..3 {
        let run = driver.start(&flow);
        driver.act(run, Command::Admit);
        assert_eq!(settle(&mut driver.store, 2), []);
    }
    driver.store.close();
    driver.store.disk().inner().faults.reads = 0;
    driver.store.restart().expect("opens");
    driver
}

#[test]
fn opening_reads_what_goes_on_and_not_what_is_over() {
    let [few, many] = [50, 2_000].map(|over| {
        let mut driver = opened_with(over);
        assert_eq!(driver.store.store().runs_in_memory(), 3);
        driver.store.disk().inner().faults.reads
    });
    println!("{many} reads with two thousand runs that are over, {few} with fifty");
    // Trees get higher, and that is all.
    assert!(many <= few + 10, "{many} reads with two thousand runs that are over, {few} with fifty");
}

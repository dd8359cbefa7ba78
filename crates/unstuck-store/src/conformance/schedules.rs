//! Schedules: made and changed in the transactions of the runs that they start, and due only for whoever fires them.

use unstuck_core::id::ScheduleId;
use unstuck_core::json::Json;
use unstuck_core::model::flow::Flow;
use unstuck_core::model::schedule::{CatchUp, Overlap, ScheduleSpec, Timing};
use unstuck_core::schedule::Schedule;
use unstuck_core::thing::{Thing, ThingRef};
use unstuck_core::time::{Millis, Time};

use crate::conformance::contents::contents;
use crate::conformance::driver::Driver;
use crate::conformance::flows::{action, sequence};
use crate::conformance::restarts::settle_all;
use crate::conformance::{TestStore, settle};
use crate::contract::{LockedThing, Stage, Store, StoreError};

/// The schedule of a flow, every minute since 1970.
pub fn scheduled(flow: &Flow) -> Schedule {
    let timing = Timing::Every(Millis::minutes(1));
    let (overlap, catch_up) = (Overlap::default(), CatchUp::default());
    let spec = ScheduleSpec { timing, overlap, catch_up, input: Json::NULL };
    Schedule::new(ScheduleId(flow.id.0), flow.name.clone(), &spec, Time(0))
}

/// Stages a schedule, durable on return.
fn put_schedule<S: TestStore>(driver: &mut Driver<S>, thing: &Thing) {
    stage_schedule(driver, thing);
    settle_all(driver);
}

/// Stages a schedule.
pub fn stage_schedule<S: Store>(driver: &mut Driver<S>, thing: &Thing) {
    driver.begin().expect("begins");
    driver.lock_things(&[thing.address()]).expect("locks");
    let stage = Stage { at: driver.now, things: vec![thing.clone()], ..Stage::default() };
    driver.stage(stage).expect("stages");
}

fn changed(thing: &Thing, change: impl FnOnce(&mut Schedule)) -> Thing {
    let mut next = Thing { version: thing.version + 1, ..thing.clone() };
    next.schedule_mut().map(change).expect("a schedule");
    next
}

/// It is made by a stage, changed by the next, found again after a restart, and gone once it is removed.
pub fn a_schedule_is_made_changed_and_removed_by_stages<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("q")]));
    let first = Thing::of_schedule(scheduled(&flow));
    put_schedule(&mut driver, &first);
    assert_eq!(driver.store.things(), Ok(vec![first.clone()]));
    let next = changed(&first, |schedule| schedule.counts.fired = 1);
    put_schedule(&mut driver, &next);
    let (store, driver) = driver.split();
    let mut driver = driver.continue_with(store.reopen());
    assert_eq!(driver.store.things(), Ok(vec![next.clone()]));
    assert_eq!(driver.store.reader().schedules(), Ok(next.schedule().cloned().into_iter().collect()));
    put_schedule(&mut driver, &changed(&next, |schedule| schedule.is_removed = true));
    assert_eq!(driver.store.things(), Ok(Vec::new()));
    assert_eq!(driver.store.reader().schedules(), Ok(Vec::new()));
    let (store, driver) = driver.split();
    let mut driver = driver.continue_with(store.reopen());
    assert_eq!(driver.store.things(), Ok(Vec::new()), "it does not come back");
    put_schedule(&mut driver, &first);
    assert_eq!(driver.store.things(), Ok(vec![first]), "it begins again in its first version");
}

/// It is due for whoever says that it fires schedules, and for nobody else; also after a stage has failed.
pub fn a_schedule_is_due_for_those_who_fire_it<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("q")]));
    let thing = Thing::of_schedule(scheduled(&flow));
    put_schedule(&mut driver, &thing);
    let due = |driver: &mut Driver<S>| {
        let things = driver.store.due_things(driver.now, 9).expect("reads");
        (driver.store.next_due().expect("reads"), things.iter().map(Thing::address).collect::<Vec<_>>())
    };
    assert_eq!(due(&mut driver), (None, vec![]));
    driver.store.fire_schedules();
    assert_eq!(due(&mut driver), (thing.due(), vec![thing.address()]));
    driver.start(&flow);
    let error = StoreError::Away("the disk".into());
    if driver.store.fail_next(&error) == 0 {
        return;
    }
    assert_eq!(settle(&mut driver.store, 1), [error]);
    assert_eq!(due(&mut driver), (thing.due(), vec![thing.address()]));
}

/// One that was not locked, is of another version, or is made twice: nothing of the stage happens.
pub fn a_schedule_that_does_not_fit_is_refused<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("q")]));
    let first = Thing::of_schedule(scheduled(&flow));
    let other = Thing::of_schedule(Schedule { id: ScheduleId(99), ..scheduled(&flow) });
    put_schedule(&mut driver, &first);
    let before = contents(&mut driver.store, driver.flows.values());
    let next = changed(&first, |_| ());
    let cases = [
        ("made twice", first.address(), vec![first.clone()]),
        ("in one stage twice", first.address(), vec![next.clone(), next]),
        ("a later version", first.address(), vec![Thing { version: 3, ..first.clone() }]),
        ("a later version of one that is not there", other.address(), vec![Thing { version: 2, ..other }]),
    ];
    for (case, address, things) in cases {
        driver.begin().expect("begins");
        driver.lock_things(&[address]).expect("locks");
        let result = driver.stage(Stage { at: driver.now, things, ..Stage::default() });
        assert!(matches!(result, Err(StoreError::Conflict(_))), "{case}: {result:?}");
        assert_eq!(contents(&mut driver.store, driver.flows.values()), before, "{case}");
    }
    driver.begin().expect("begins");
    let stage = Stage { at: driver.now, things: vec![changed(&first, |_| ())], ..Stage::default() };
    assert!(matches!(driver.stage(stage), Err(StoreError::Conflict(_))), "nobody has locked it");
    driver.begin().expect("begins");
    let absent = ThingRef::Schedule(ScheduleId(77));
    assert_eq!(driver.lock_things(&[absent]), Ok(vec![LockedThing::Absent]));
    assert!(driver.lock_things(&[absent]).is_err(), "an address where nothing is yet is locked too");
    driver.rollback();
}

//! Each damage to a schedule is found as what it is.

use unstuck_core::thing::Thing;
use unstuck_sqlite::verify::Promise;
use unstuck_store::conformance::driver::Driver;
use unstuck_store::conformance::flows::{action, sequence};
use unstuck_store::conformance::schedules::{scheduled, stage_schedule};

use crate::fixture::Temporary;

#[test]
fn a_schedule_belongs_to_its_flow_and_can_be_read() {
    let cases = [
        ("UPDATE schedule SET body = '{'", "it cannot be read (EOF"),
        ("UPDATE schedule SET flow = 'g'", "its row does not match its content"),
        ("UPDATE schedule SET version = 0", "two servers could start the same run"),
        ("UPDATE schedule SET id = 9", "there is no such flow"),
    ];
    for (sql, said) in cases {
        let mut driver = Driver::new(Temporary::parking());
        let flow = driver.keep(sequence("f", vec![action("a")]));
        stage_schedule(&mut driver, &Thing::of_schedule(scheduled(&flow)));
        let Driver { store, flows, .. } = driver;
        let closed = store.close();
        assert_eq!(closed.check(&flows).findings, [], "before: {sql}");
        let connection = rusqlite::Connection::open(closed.file()).expect("opens");
        connection.execute_batch(sql).expect("is damaged");
        connection.close().expect("closes");
        let findings = closed.check(&flows).findings;
        assert!(findings.iter().all(|finding| finding.promise == Promise::Schedule), "{sql}: {findings:#?}");
        assert!(findings.iter().any(|finding| finding.to_string().contains(said)), "{sql}: {findings:#?}");
    }
}

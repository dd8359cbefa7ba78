//! Each damage to a bulk action is found as what it is.

use unstuck_sqlite::verify::Promise;
use unstuck_store::conformance::bulks::in_error;
use unstuck_store::conformance::driver::Driver;

use crate::fixture::Temporary;

#[test]
fn what_is_counted_and_what_is_there() {
    let cases = [
        ("UPDATE bulk SET body = '{'", "it cannot be read (EOF"),
        ("UPDATE bulk SET open = 0", "its row does not match its content"),
        ("UPDATE bulk SET total = 2", "its row does not match its content"),
        ("DELETE FROM bulk", "it has targets but does not exist"),
        ("DELETE FROM bulk_target WHERE place = 1", "target 1 is missing"),
        ("DELETE FROM bulk_target WHERE place = 2", "it has 3 targets, but 2 are stored"),
        (
            "UPDATE bulk_target SET result = 'passed' WHERE place = 2",
            "target 2 is passed the step, but the next",
        ),
        ("UPDATE bulk_target SET result = 'refused' WHERE place = 0", "it counted"),
        ("UPDATE bulk_target SET result = 'passed' WHERE place = 0", "which does not wait for it"),
        (
            "UPDATE bulk_target SET run = (SELECT run FROM bulk_target WHERE place = 2) WHERE place = 0",
            "would not report its result",
        ),
    ];
    for (sql, said) in cases {
        let (mut driver, bulk, _) = in_error(Temporary::parking(), 3);
        driver.go_on(bulk, 2).expect("goes on");
        let Driver { store, flows, .. } = driver;
        let closed = store.close();
        assert_eq!(closed.check(&flows).findings, [], "before: {sql}");
        let connection = rusqlite::Connection::open(closed.file()).expect("opens");
        connection.execute_batch(sql).expect("is damaged");
        connection.close().expect("closes");
        let findings = closed.check(&flows).findings;
        assert!(findings.iter().all(|finding| finding.promise == Promise::Bulk), "{sql}: {findings:#?}");
        assert!(findings.iter().any(|finding| finding.to_string().contains(said)), "{sql}: {findings:#?}");
    }
}

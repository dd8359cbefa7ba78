//! Schedules: what is started for which time, what is left out, and what is made up for.

use jiff::tz::TimeZone;
use unstuck_core::decide::Answer;
use unstuck_core::duration::parse_instant;
use unstuck_core::event::Actor;
use unstuck_core::id::{RunId, ScheduleId};
use unstuck_core::json::Json;
use unstuck_core::model::cron::Cron;
use unstuck_core::model::schedule::{CatchUp, Overlap, ScheduleSpec, Timing};
use unstuck_core::schedule::{Firing, GRACE, LeftOut, RECHECK, RETRY, Schedule, firing_key};
use unstuck_core::time::{Millis, Time};

fn at(text: &str) -> Time {
    parse_instant(&format!("2026-01-10T{text}Z")).expect("an instant")
}

/// At every full hour.
fn hourly(overlap: Overlap, catch_up: CatchUp) -> ScheduleSpec {
    let cron = Cron::parse("0 * * * *").expect("an expression");
    let timing = Timing::Cron { cron, zone: "UTC".into(), rules: TimeZone::UTC };
    ScheduleSpec { timing, overlap, catch_up, input: Json::NULL }
}

fn plain() -> ScheduleSpec {
    hourly(Overlap::Skip, CatchUp::default())
}

fn begun(spec: &ScheduleSpec, now: &str) -> Schedule {
    Schedule::new(ScheduleId(1), "f".into(), spec, at(now))
}

/// Takes what is due, and starts a run for it.
fn fire(schedule: &mut Schedule, spec: &ScheduleSpec, is_open: bool, now: Time) -> Option<Time> {
    let due = schedule.take_due(spec, |_| is_open, now)?;
    let run = RunId(schedule.counts.fired + 1);
    schedule.record_fired(spec, Firing { at: due, run }, true);
    Some(due)
}

#[test]
fn each_time_is_fired_once_and_the_next_follows() {
    let spec = plain();
    let mut schedule = begun(&spec, "08:30:00");
    assert_eq!(schedule.due(), Some(at("09:00:00")));
    assert_eq!(fire(&mut schedule, &spec, false, at("08:59:59")), None, "it is not due");
    assert_eq!(fire(&mut schedule, &spec, false, at("09:00:00")), Some(at("09:00:00")));
    assert_eq!(fire(&mut schedule, &spec, false, at("09:00:01")), None, "once");
    assert_eq!(schedule.due(), Some(at("10:00:00")));
    assert_eq!(schedule.last, Some(Firing { at: at("09:00:00"), run: RunId(1) }));
}

#[test]
fn what_passed_while_nobody_was_there_is_made_up_for_within_its_bounds() {
    let limit = |limit: u32| CatchUp { limit, within: None };
    let within = |limit: u32, within: u64| CatchUp { limit, within: Some(Millis::minutes(within)) };
    // Due at 09:00, and looked at later: which are started, and how many are missed.
    let cases: [(CatchUp, &str, &[&str], u64); 9] = [
        (limit(1), "09:00:30", &["09:00:00"], 0),
        (limit(1), "09:59:59", &["09:00:00"], 0),
        (limit(1), "12:30:00", &["12:00:00"], 3),
        (limit(2), "12:30:00", &["11:00:00", "12:00:00"], 2),
        (limit(9), "12:30:00", &["09:00:00", "10:00:00", "11:00:00", "12:00:00"], 0),
        (limit(0), "12:30:00", &[], 4),
        (limit(0), "12:00:59", &["12:00:00"], 3),
        (within(9, 90), "12:20:00", &["11:00:00", "12:00:00"], 2),
        (within(1, 10), "12:20:00", &[], 4),
    ];
    for (catch_up, now, wanted, missed) in cases {
        let spec = hourly(Overlap::Allow, catch_up);
        let mut schedule = begun(&spec, "08:30:00");
        let mut fired = Vec::new();
        while let Some(time) = fire(&mut schedule, &spec, false, at(now)) {
            fired.push(time);
        }
        let wanted: Vec<Time> = wanted.iter().map(|time| at(time)).collect();
        assert_eq!((fired, schedule.counts.missed), (wanted, missed), "{catch_up:?} at {now}");
        assert_eq!(schedule.next, spec.next(at(now)), "it continues from there");
    }
    assert_eq!(GRACE, Millis::minutes(1));
}

#[test]
fn the_last_missed_time_is_known() {
    let spec = plain();
    let mut schedule = begun(&spec, "08:30:00");
    fire(&mut schedule, &spec, false, at("12:30:00"));
    assert_eq!(schedule.counts.last_missed, Some(at("11:00:00")));
}

#[test]
fn an_earlier_run_that_has_not_ended_is_minded_as_the_flow_says() {
    let cases = [(Overlap::Skip, None, 1), (Overlap::Queue, None, 0), (Overlap::Allow, Some("10:00:00"), 0)];
    for (overlap, wanted, skipped) in cases {
        let spec = hourly(overlap, CatchUp::default());
        let mut schedule = begun(&spec, "08:30:00");
        fire(&mut schedule, &spec, false, at("09:00:00"));
        let fired = fire(&mut schedule, &spec, true, at("10:00:00"));
        assert_eq!(fired, wanted.map(at), "{overlap:?}");
        assert_eq!(schedule.counts.skipped, skipped, "{overlap:?}");
    }
}

#[test]
fn a_queued_time_is_fired_when_the_others_have_ended() {
    let spec = hourly(Overlap::Queue, CatchUp::default());
    let mut schedule = begun(&spec, "08:30:00");
    fire(&mut schedule, &spec, false, at("09:00:00"));
    assert_eq!(fire(&mut schedule, &spec, true, at("10:00:00")), None);
    assert_eq!(schedule.due(), Some(at("10:00:00") + RECHECK), "it is looked at again soon");
    assert_eq!(fire(&mut schedule, &spec, false, at("10:20:00")), Some(at("10:00:00")));
    assert_eq!(schedule.due(), Some(at("11:00:00")));
    // Of several that wait, as many are started as are made up for.
    fire(&mut schedule, &spec, true, at("11:00:00"));
    assert_eq!(fire(&mut schedule, &spec, false, at("13:30:00")), Some(at("13:00:00")));
    assert_eq!(schedule.counts.missed, 2);
}

#[test]
fn a_paused_schedule_starts_nothing_and_makes_nothing_up() {
    let spec = plain();
    let mut schedule = begun(&spec, "08:30:00");
    let ada = Actor::User("ada".into());
    assert_eq!(schedule.pause(ada.clone(), Some("moving".into()), at("08:40:00")), Answer::Done);
    assert_eq!(schedule.pause(ada, None, at("08:41:00")), Answer::Already);
    assert_eq!(schedule.due(), None);
    assert_eq!(fire(&mut schedule, &spec, false, at("11:30:00")), None);
    assert_eq!(schedule.unpause(&spec, at("11:30:00")), Answer::Done);
    assert_eq!(schedule.unpause(&spec, at("11:30:00")), Answer::Already);
    assert_eq!((schedule.due(), schedule.counts.missed), (Some(at("12:00:00")), 0));
}

#[test]
fn a_schedule_follows_its_flow() {
    let spec = plain();
    let mut schedule = begun(&spec, "08:30:00");
    schedule.follow(Some(&spec), at("09:30:00"));
    assert_eq!(schedule.due(), Some(at("09:00:00")), "with the same times, what is due stays due");
    let other = ScheduleSpec { timing: Timing::Every(Millis::minutes(15)), ..plain() };
    schedule.follow(Some(&other), at("09:31:00"));
    assert_eq!((&*schedule.timing, schedule.due()), ("every 15m", Some(at("09:45:00"))));
    assert!(!schedule.is_removed);
    schedule.follow(None, at("09:32:00"));
    assert!(schedule.is_removed && schedule.due().is_none());
}

#[test]
fn a_clock_that_was_wrong_neither_freezes_nor_floods_a_schedule() {
    let spec = plain();
    let mut schedule = begun(&spec, "08:30:00");
    // It stands 90 years ahead for a while: one run, for the latest time then.
    let ahead = at("08:30:00") + Millis::hours(24 * 365 * 90);
    assert!(fire(&mut schedule, &spec, false, ahead).is_some());
    assert_eq!(fire(&mut schedule, &spec, false, ahead), None);
    assert!(schedule.counts.missed < 10_000, "{}", schedule.counts.missed);
    // Set right, it goes on by the clock as it is.
    schedule.follow(Some(&spec), at("08:40:00"));
    assert_eq!(schedule.due(), Some(at("09:00:00")));
    // Set back by an hour, 09:00 comes again, and its key says that it was fired.
    fire(&mut schedule, &spec, false, at("09:00:00"));
    schedule.follow(Some(&spec), at("08:20:00"));
    assert_eq!(schedule.take_due(&spec, |_| false, at("09:00:00")), Some(at("09:00:00")));
    assert_eq!(&*firing_key(at("09:00:00")), "schedule:2026-01-10T09:00:00Z");
    let before = schedule.counts.fired;
    schedule.record_fired(&spec, Firing { at: at("09:00:00"), run: RunId(2) }, false);
    assert_eq!(schedule.counts.fired, before);
}

#[test]
fn what_cannot_be_started_is_told_and_tried_again() {
    let spec = plain();
    let mut schedule = begun(&spec, "08:30:00");
    schedule.postpone("the flow cannot be used".into(), at("09:00:00"));
    assert_eq!(schedule.due(), Some(at("09:00:00") + RETRY));
    assert_eq!(fire(&mut schedule, &spec, false, at("09:02:00")), Some(at("09:00:00")));
    assert_eq!(schedule.problem, None);
    let due = schedule.take_due(&spec, |_| false, at("10:00:00")).expect("it is due");
    schedule.record_refused(due, "the input is refused".into());
    assert_eq!((schedule.counts.missed, schedule.due()), (1, Some(at("11:00:00"))));
    assert!(schedule.problem.is_some());
}

#[test]
fn an_interval_is_counted_from_1970_whoever_counts() {
    let every = |span| ScheduleSpec { timing: Timing::Every(span), ..plain() };
    let cases = [
        (Millis::minutes(15), "08:30:00", "08:45:00"),
        (Millis::minutes(15), "08:44:59", "08:45:00"),
        (Millis::hours(24), "08:30:00", "24:00:00"),
        (Millis::seconds(1), "08:30:00.500", "08:30:01"),
    ];
    for (span, now, wanted) in cases {
        let wanted = if wanted == "24:00:00" { at("00:00:00") + Millis::hours(24) } else { at(wanted) };
        assert_eq!(every(span).next(at(now)), Some(wanted), "every {span} after {now}");
    }
    assert_eq!(every(Millis::seconds(90)).timing.to_string(), "every 90s");
    assert_eq!(every(Millis::seconds(1)).next(Time(-1_500)), Some(Time(-1_000)));
    assert_eq!(every(Millis::seconds(1)).next(Time(i64::MAX)), None);
}

#[test]
fn what_came_to_nothing_is_told_once() {
    let spec = plain();
    let mut schedule = begun(&spec, "08:30:00");
    let before = schedule.clone();
    assert_eq!(fire(&mut schedule, &spec, false, at("11:30:00")), Some(at("11:00:00")));
    let missed = LeftOut::Missed { count: 2, last: Some(at("10:00:00")) };
    assert_eq!(schedule.left_out_since(&before), [missed]);
    let before = schedule.clone();
    assert_eq!(fire(&mut schedule, &spec, true, at("12:00:00")), None);
    let skipped = LeftOut::Skipped { count: 1, last: Some(at("12:00:00")) };
    assert_eq!(schedule.left_out_since(&before), [skipped]);
    assert_eq!(schedule.left_out_since(&schedule.clone()), []);
}

//! Schedules that are refused, and the forms in which they may be written.

use super::{Case, accepted, read, refused};

#[test]
fn every_mistake_is_refused_with_its_place_and_what_to_write() {
    refused(CASES);
}

const CASES: &[Case] = &[
    (
        "not a cron expression",
        "flow: a\nschedule: daily\nsteps: [{id: x, set: 1}]\n",
        &[
            "2:11: schedule: a cron expression has five fields, not 1 (write minute, hour, day of the month, month and day of the week, for example `0 3 * * *` for every day at 03:00)",
        ],
    ),
    (
        "a cron expression that never fires",
        "flow: a\nschedule: {cron: '0 0 30 2 *'}\nsteps: [{id: x, set: 1}]\n",
        &[
            "2:18: schedule.cron: `0 0 30 2 *` never fires: no such month has such a day (check the day of the month and the month)",
        ],
    ),
    (
        "an unknown zone",
        "flow: a\nschedule: {cron: '0 3 * * *', timeZone: Europe/Berln}\nsteps: [{id: x, set: 1}]\n",
        &["2:41: schedule.timeZone: there is no time zone `Europe/Berln` (did you mean `Europe/Berlin`?)"],
    ),
    (
        "a zone within the expression",
        "flow: a\nschedule: 'CRON_TZ=Europe/Berlin 0 3 * * *'\nsteps: [{id: x, set: 1}]\n",
        &[
            "2:11: schedule: a cron expression has no time zone (write `{cron: \"0 3 * * *\", timeZone: Europe/Berlin}`)",
        ],
    ),
    (
        "an interval that is too short",
        "flow: a\nschedule: {every: 100ms}\nsteps: [{id: x, set: 1}]\n",
        &[
            "2:19: schedule.every: 100ms is too short: the shortest interval is 1s (write `every: 1s` or longer)",
        ],
    ),
    (
        "an interval as if it were an expression",
        "flow: a\nschedule: 15m\nsteps: [{id: x, set: 1}]\n",
        &["2:11: schedule: `15m` is not a cron expression (for an interval, write `{every: 15m}`)"],
    ),
    (
        "both",
        "flow: a\nschedule: {cron: '0 3 * * *', every: 1h}\nsteps: [{id: x, set: 1}]\n",
        &[
            "2:38: schedule.every: `cron` and `every` cannot be given together (keep one of them, or make two flows)",
        ],
    ),
    (
        "neither",
        "flow: a\nschedule: {overlap: skip}\nsteps: [{id: x, set: 1}]\n",
        &[
            "2:11: schedule: `schedule` has neither `cron` nor `every` (write for example `{cron: \"0 3 * * *\", timeZone: Europe/Berlin}` or `{every: 15m}`)",
        ],
    ),
    (
        "an interval with a zone, and other words",
        "flow: a\nschedule: {every: 1h, timeZone: UTC, overlap: skp, catchUp: 101}\nsteps: [{id: x, set: 1}]\n",
        &[
            "2:33: schedule.timeZone: an interval has no time zone (remove it, or use `cron` for times of day)",
            "2:47: schedule.overlap: expected `skip`, `queue` or `allow`, not `skp` (did you mean `skip`?)",
            "2:61: schedule.catchUp: at most 100 missed times are made up for, not 101 (a run for each of them would start at once)",
        ],
    ),
    (
        "an unknown field, and nothing to make up for",
        "flow: a\nschedule: {cron: '0 3 * * *', overlaps: skip, catchUp: {limit: -1, within: 0s}}\nsteps: [{id: x, set: 1}]\n",
        &[
            "2:31: schedule.overlaps: `schedule` has no field `overlaps` (did you mean `overlap`?)",
            "2:64: schedule.catchUp.limit: expected a whole number from 0 to 100, not `-1`",
            "2:76: schedule.catchUp.within: must be longer than zero (remove the field to use the default)",
        ],
    ),
    (
        "an expression in the input",
        "flow: a\nschedule: {every: 1h, input: {at: '${now}'}}\nsteps: [{id: x, set: 1}]\n",
        &[
            "2:30: schedule.input: expressions are not allowed here (steps can read the time of the run from its key: `${run.key}`)",
        ],
    ),
    (
        "an input that the flow refuses",
        "flow: a\ninput: {type: object, properties: {n: {type: integer}}}\nschedule: {every: 1h, input: {n: x}}\nsteps: [{id: x, set: 1}]\n",
        &["3:30: schedule.input: the flow would refuse this: input.n: \"x\" is not of type \"integer\""],
    ),
    (
        "no input where the flow needs one",
        "flow: a\ninput: {type: object}\nschedule: every 1h\nsteps: [{id: x, set: 1}]\n",
        &[
            "3:11: schedule: the flow needs an input, and its `schedule` gives none (write for example `{cron: \"0 3 * * *\", input: {...}}`)",
        ],
    ),
    (
        "something else",
        "flow: a\nschedule: 5\nsteps: [{id: x, set: 1}]\n",
        &["2:11: schedule: expected a cron expression in quotes, or an object, not `5`"],
    ),
];

#[test]
fn a_schedule_has_a_short_form_and_a_long_one() {
    accepted(&[(
        "aliases",
        "flow: a\nschedule: {cron: '@daily', timezone: UTC, catchup: 3}\nsteps: [{id: x, set: 1}]\n",
        &[],
    )]);
    let cases = [
        ("'0 3 * * *'", "0 3 * * * UTC", "skip", 1),
        ("'@daily'", "0 0 * * * UTC", "skip", 1),
        ("every 15m", "every 15m", "skip", 1),
        ("{every: PT1H, overlap: queue}", "every 1h", "queue", 1),
        ("{every: 90, overlap: allow, catchUp: 0}", "every 90s", "allow", 0),
        (
            "{cron: 0 3 * * MON, timeZone: Europe/Berlin, catchUp: {limit: 5, within: 2d}}",
            "0 3 * * MON Europe/Berlin",
            "skip",
            5,
        ),
    ];
    for (text, timing, overlap, limit) in cases {
        let file = format!("flow: a\nschedule: {text}\nsteps: [{{id: x, set: 1}}]\n");
        let loaded = read(&file).unwrap_or_else(|problems| panic!("{text}: {problems:?}"));
        let spec = loaded.flows[0].schedule.clone().expect("it has one");
        assert_eq!(spec.timing.to_string(), timing, "{text}");
        assert_eq!((spec.overlap.word(), spec.catch_up.limit), (overlap, limit), "{text}");
    }
}

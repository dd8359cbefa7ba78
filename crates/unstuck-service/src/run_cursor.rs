//! Where a list of runs goes on, as a text: it names its order and its filters, and is of use for no other list.

use unstuck_api::request::{RunSort, RunsQuery};
use unstuck_core::digest::digest;
use unstuck_core::id::RunId;
use unstuck_core::time::Time;
use unstuck_store::contract::RunPlace;

use crate::service::{ServiceError, to_json};

/// What every cursor begins with.
const PREFIX: &str = "page.";

/// Returns whether a text is meant to be a cursor, and not the name of a run.
pub(crate) fn is_cursor(text: &str) -> bool {
    text.starts_with(PREFIX)
}

/// Formats the place at which the list of a query goes on.
pub(crate) fn format_cursor(query: &RunsQuery, place: &RunPlace) -> Result<String, ServiceError> {
    let filters = digest_filters(query)?;
    let place = match place {
        RunPlace::Created(run) => format!("c.{filters}.{:x}", run.0),
        RunPlace::Updated(position) => format!("u.{filters}.{position:x}"),
        RunPlace::NextResume(due, run) => format!("r.{filters}.{:x}.{:x}", due.0, run.0),
    };
    Ok(format!("{PREFIX}{place}"))
}

/// Parses what [`format_cursor`] wrote for the same query.
pub(crate) fn parse_cursor(query: &RunsQuery, text: &str) -> Result<RunPlace, ServiceError> {
    let is_not_ours = || {
        ServiceError::bad_cursor(format!(
            "--after: `{text}` is not the end of a page; give `next` of the page before, as it is"
        ))
    };
    let parts: Vec<&str> = text.strip_prefix(PREFIX).unwrap_or_default().split('.').collect();
    let number = |part: &str| u64::from_str_radix(part, 16).map_err(|_| is_not_ours());
    let (place, filters) = match parts[..] {
        ["c", filters, run] => (RunPlace::Created(RunId(number(run)?)), filters),
        ["u", filters, position] => (RunPlace::Updated(number(position)?), filters),
        ["r", filters, due, run] => {
            let due = i64::from_str_radix(due, 16).map_err(|_| is_not_ours())?;
            (RunPlace::NextResume(Time(due), RunId(number(run)?)), filters)
        }
        _ => return Err(is_not_ours()),
    };
    let is_same_order = match place {
        RunPlace::Created(_) => query.sort == RunSort::Created,
        RunPlace::Updated(_) => query.sort == RunSort::Updated,
        RunPlace::NextResume(..) => query.sort == RunSort::NextAutoResume,
    };
    if !is_same_order || *filters != *digest_filters(query)? {
        return Err(ServiceError::bad_cursor(format!(
            "--after: `{text}` is the end of a page of another list; give the same filters and the same order as for \
             that page"
        )));
    }
    Ok(place)
}

/// Returns a digest of the filters. Of times only whether they are given: an age such as `7d` means another time with
/// every page.
fn digest_filters(query: &RunsQuery) -> Result<String, ServiceError> {
    let times = [query.since.is_some(), query.until.is_some(), query.updated_since.is_some()];
    let fixed =
        RunsQuery { since: None, until: None, updated_since: None, limit: 0, after: None, ..query.clone() };
    let text = format!("{times:?}{}", to_json(&fixed)?);
    Ok(digest(&serde_json::Value::String(text))[..8].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written_and_for_the_same_list_only() {
        let created = RunsQuery { flow: Some("f".to_owned()), ..RunsQuery::default() };
        let with = |sort| RunsQuery { sort, ..created.clone() };
        let cases = [
            (created.clone(), RunPlace::Created(RunId(910_713_926_834_978_816))),
            (with(RunSort::Updated), RunPlace::Updated(12)),
            (with(RunSort::NextAutoResume), RunPlace::NextResume(Time(1_794_967_920_404), RunId(7))),
        ];
        for (query, place) in &cases {
            let text = format_cursor(query, place).expect("written");
            assert!(is_cursor(&text) && parse_cursor(query, &text) == Ok(*place), "{text}");
            let next_page = RunsQuery { limit: 7, after: Some(text.clone()), ..query.clone() };
            assert_eq!(parse_cursor(&next_page, &text), Ok(*place), "whatever the size of the page");
            for (other, _) in cases.iter().filter(|(other, _)| other.sort != query.sort) {
                assert!(parse_cursor(other, &text).is_err(), "of another order: {text}");
            }
            let other = RunsQuery { flow: Some("g".to_owned()), ..query.clone() };
            assert!(parse_cursor(&other, &text).is_err(), "of another filter: {text}");
        }
    }

    #[test]
    fn an_age_means_another_time_with_every_page() {
        let at = |time: i64| RunsQuery { since: Some(Time(time).timestamp()), ..RunsQuery::default() };
        let text = format_cursor(&at(1_000), &RunPlace::Created(RunId(5))).expect("written");
        assert!(parse_cursor(&at(2_000), &text).is_ok());
        assert!(parse_cursor(&RunsQuery::default(), &text).is_err());
    }

    #[test]
    fn what_is_no_cursor_is_refused() {
        for text in
            ["page.", "page.c", "page.c.12345678.x", "page.c.12345678.1.2", "page.z.12345678.1", "run_1", ""]
        {
            assert!(parse_cursor(&RunsQuery::default(), text).is_err(), "{text}");
        }
    }
}

//! What stands where on the screen: how it is now at the top, and sections that share the rows that are left.

use unstuck_api::schedules::ScheduleView;
use unstuck_api::status::StatusView;
use unstuck_core::time::Time;
use unstuck_service::local_time::format_full;
use unstuck_service::owner::state_phrase;

use super::picture::Picture;
use super::whole_seconds;
use crate::command::status::{count_open_runs, describe_due, describe_executing};
use crate::view::paused_policies::describe_paused;
use crate::view::style::{self, Look, style_of_word};
use crate::view::table::{Cell, Table};
use crate::view::text;

/// What a picture is of.
pub(super) struct Shown<'a> {
    /// The server or the folder.
    pub(super) name: String,
    /// What a command that is to be typed needs to find it.
    pub(super) option: &'a str,
    /// Why there is no newer picture.
    pub(super) failure: Option<&'a str>,
}

/// What there is to say in one line, and how.
struct Line {
    text: String,
    style: anstyle::Style,
}

/// Rows about one subject.
struct Section {
    title: String,
    /// How many there are; more than rows where not all were read.
    total: usize,
    rows: Table,
}

/// A section has a title and an empty line before it.
const AROUND: usize = 2;

/// Formats all of it, without a terminal.
pub(super) fn plain_lines(picture: &Picture, shown: &Shown<'_>, look: Look) -> Vec<String> {
    let now = Time(picture.status.at.as_millisecond());
    let mut lines = top_lines(picture, shown, None, look);
    for section in list_sections(picture, now, None) {
        lines.extend(section.lines(section.rows.len(), None, look));
    }
    lines
}

/// Formats what fits on a terminal of this size, with as many lines as it has rows.
pub(super) fn draw_lines(
    picture: &Picture,
    shown: &Shown<'_>,
    now: Time,
    (columns, rows): (usize, usize),
    look: Look,
) -> Vec<String> {
    let mut lines = top_lines(picture, shown, Some(columns), look);
    let sections = list_sections(picture, now, Some(columns));
    // The last row says how to end it.
    let room = rows.saturating_sub(lines.len() + 1);
    let wanted: Vec<usize> = sections.iter().map(|section| section.rows.len()).collect();
    for (section, most) in sections.iter().zip(share_rows(&wanted, room)) {
        if most > 0 {
            lines.extend(section.lines(most, Some(columns), look));
        }
    }
    lines.truncate(rows.saturating_sub(1));
    lines.resize(rows.saturating_sub(1), String::new());
    let help = format!("q quits; `unstuck explain RUN{}` says what you can do", shown.option);
    lines.push(look.paint(style::DIM, cut(&help, Some(columns), look)));
    lines
}

/// Says how many rows each section gets, none where it is left out: the first sections come first, and what is left is shared.
fn share_rows(wanted: &[usize], room: usize) -> Vec<usize> {
    let mut given = vec![0; wanted.len()];
    let mut left = room;
    for (given, wanted) in given.iter_mut().zip(wanted) {
        if *wanted > 0 && left > AROUND {
            *given = 1;
            left -= AROUND + 1;
        }
    }
    while left > 0 {
        let before = left;
        for (given, wanted) in given.iter_mut().zip(wanted) {
            if *given > 0 && *given < *wanted && left > 0 {
                *given += 1;
                left -= 1;
            }
        }
        if left == before {
            break;
        }
    }
    given
}

/// Formats what is at the top: what is watched, when that was, and how many runs there are.
fn top_lines(picture: &Picture, shown: &Shown<'_>, columns: Option<usize>, look: Look) -> Vec<String> {
    let status = &picture.status;
    let mut said =
        vec![Line { text: format!("{}  {}", shown.name, format_full(status.at)), style: style::BOLD }];
    match shown.failure {
        Some(failure) => {
            said.push(Line { text: "This is how it was then; trying again.".to_owned(), style: style::BAD });
            said.push(Line { text: text::capitalised(&text::sentence(failure)), style: style::BAD });
        }
        None => said.extend(describe_owner(status, picture.note.as_deref())),
    }
    let says = |line: Line| look.paint(line.style, cut(&line.text, columns, look));
    let mut lines: Vec<String> = said.into_iter().map(says).collect();
    lines.push(String::new());
    lines.extend(count_table(status).screen_lines(usize::MAX, columns, look));
    lines
}

/// Describes who executes runs, and what keeps them from going on.
fn describe_owner(status: &StatusView, note: Option<&str>) -> Vec<Line> {
    let mut said = Vec::new();
    let plain = anstyle::Style::new();
    said.push(match note {
        Some(note) => Line { text: note.to_owned(), style: style::BAD },
        None => Line { text: describe_executing(status), style: plain },
    });
    let idle = match status.idle_count {
        0 => None,
        1 => Some("1 run is idle; `unstuck status` shows how to continue it.".to_owned()),
        count => Some(format!("{count} runs are idle; `unstuck status` shows how to continue them.")),
    };
    said.extend(idle.map(|text| Line { text, style: style::ASKS }));
    if let Some(paused) = &status.policies_paused {
        let text = format!("Automatic resumes are paused {}.", describe_paused(paused));
        said.push(Line { text, style: style::LATER });
    }
    said
}

/// Counts runs by state: those that are open, and those that ended lately.
fn count_table(status: &StatusView) -> Table {
    let mut table = Table::new(&[""; 12]);
    for (title, counts) in [("open", &count_open_runs(status)), ("last 24h", &status.ended)] {
        let mut row = vec![Cell::styled(title, style::DIM)];
        for (state, count) in counts {
            row.push(Cell::styled(format!("{count} {}", state_phrase(state)), style_of_word(state)));
        }
        if counts.is_empty() {
            row.push(Cell::new("none"));
        }
        table.row(row);
    }
    table
}

/// Lists the sections that have something to say, the most urgent first.
fn list_sections(picture: &Picture, now: Time, columns: Option<usize>) -> Vec<Section> {
    let sections = [
        needs_person(&picture.status, now, columns),
        open_errors(picture, columns),
        upcoming(&picture.status, now),
        queues(picture),
        schedules(&picture.schedules, now),
    ];
    sections.into_iter().filter(|section| section.rows.len() > 0).collect()
}

/// Returns the cells that are worth their place; each has the columns below which it is left out, so that the cause, which is last, is not.
fn fitting(cells: Vec<(usize, Cell)>, columns: Option<usize>) -> Vec<Cell> {
    let fits = |least: usize| columns.is_none_or(|columns| columns >= least);
    cells.into_iter().filter(|(least, _)| fits(*least)).map(|(_, cell)| cell).collect()
}

fn needs_person(status: &StatusView, now: Time, columns: Option<usize>) -> Section {
    let mut rows = Table::new(&[""; 5]);
    for run in &status.needs_person {
        let since = whole_seconds(now).since(whole_seconds(Time(run.since.as_millisecond())));
        let since = if since.0 == 0 { "just now".to_owned() } else { format!("{since} ago") };
        let cells = vec![
            (0, Cell::new(&run.run)),
            (0, Cell::styled(&run.state, style_of_word(&run.state))),
            (60, Cell::new(&run.flow)),
            (80, Cell::new(since)),
            (0, Cell::new(run.cause.as_deref().unwrap_or_default())),
        ];
        rows.row(fitting(cells, columns));
    }
    Section { title: "Needs a person".to_owned(), total: status.needs_person_count, rows }
}

fn open_errors(picture: &Picture, columns: Option<usize>) -> Section {
    let mut rows = Table::new(&[""; 5]);
    for group in &picture.errors {
        let scheduled: u64 = group.scheduled.iter().map(|policy| policy.count).sum();
        let is_alone = group.open > scheduled;
        let open =
            Cell::styled(format!("{} open", group.open), if is_alone { style::BAD } else { style::LATER });
        let cells = vec![
            (0, Cell::new(&group.group)),
            (0, open),
            (80, Cell::new(format!("{scheduled} scheduled"))),
            (60, Cell::new(&group.action)),
            (0, Cell::new(&group.pattern)),
        ];
        rows.row(fitting(cells, columns));
    }
    Section { title: "Open errors".to_owned(), total: rows.len(), rows }
}

fn upcoming(status: &StatusView, now: Time) -> Section {
    let mut rows = Table::new(&[""; 3]);
    for next in &status.next {
        rows.row(vec![
            Cell::styled(describe_when(next.at, now), style::LATER),
            Cell::new(&next.run),
            Cell::new(&next.what),
        ]);
    }
    let executed = if status.executes.is_none() { ", once a process executes the run" } else { "" };
    Section { title: format!("What comes next{executed}"), total: rows.len(), rows }
}

fn queues(picture: &Picture) -> Section {
    let mut rows = Table::new(&[""; 3]);
    let runs = |count: u64| if count == 1 { "1 run".to_owned() } else { format!("{count} runs") };
    let at_work = "queued or at work";
    let not_begun = "not begun, or waiting for a slot";
    for (counts, what) in [(&picture.actions, at_work), (&picture.queued, not_begun)] {
        for counted in counts {
            let name = counted.action.as_ref().or(counted.flow.as_ref());
            let name = name.map_or("", String::as_str);
            rows.row(vec![Cell::styled(runs(counted.count), style::BUSY), Cell::new(name), Cell::new(what)]);
        }
    }
    Section { title: "Queues".to_owned(), total: rows.len(), rows }
}

fn schedules(schedules: &[ScheduleView], now: Time) -> Section {
    let mut rows = Table::new(&[""; 3]);
    for schedule in schedules {
        let when = match (&schedule.paused, schedule.next.first()) {
            (Some(_), _) => Cell::styled("paused", style::LATER),
            (None, Some(next)) => Cell::new(describe_when(*next, now)),
            (None, None) => Cell::new("never"),
        };
        let problem = schedule.problem.as_deref();
        let last = match problem {
            Some(problem) => Cell::styled(problem, style::BAD),
            None => Cell::new(&schedule.spec),
        };
        rows.row(vec![when, Cell::new(&schedule.flow), last]);
    }
    Section { title: "Schedules".to_owned(), total: rows.len(), rows }
}

fn describe_when(at: jiff::Timestamp, now: Time) -> String {
    let at = whole_seconds(Time(at.as_millisecond()));
    describe_due(at.timestamp(), whole_seconds(now))
}

impl Section {
    /// Formats so many rows, after an empty line and the title, which says how many there are.
    fn lines(&self, most: usize, columns: Option<usize>, look: Look) -> Vec<String> {
        let shown = most.min(self.rows.len());
        let title = if shown < self.total {
            format!("{} ({shown} of {})", self.title, self.total)
        } else {
            self.title.clone()
        };
        let mut lines = vec![String::new(), look.paint(style::BOLD, cut(&title, columns, look))];
        lines.extend(self.rows.screen_lines(shown, columns, look));
        lines
    }
}

fn cut(line: &str, columns: Option<usize>, look: Look) -> String {
    let line = text::visible(line);
    let ellipsis = if look.unicode { "\u{2026}" } else { "..." };
    columns.map_or_else(|| line.clone(), |columns| text::cut(&line, columns, ellipsis))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn picture() -> Picture {
        let status = json!({
            "at": "2030-01-01T10:00:00Z",
            "needsPerson": [
                {"run": "run_1", "flow": "payout", "key": null, "state": "held", "since": "2030-01-01T09:58:00Z", "cause": "the bank did not answer"},
                {"run": "run_2", "flow": "nightly", "key": null, "state": "error", "since": "2030-01-01T10:00:00Z", "cause": "no room"},
            ],
            "needsPersonCount": 7,
            "executes": null, "goOn": [], "idleCount": 1, "idleStates": {"running": 1},
            "next": [{"at": "2030-01-01T10:01:05Z", "run": "run_3", "what": "policy `resets` resumes `one` (flow `a`)"}],
            "open": {"held": 5, "error": 2, "running": 4}, "ended": {"completed": 120}, "more": false,
        });
        let count = |action: Option<&str>, flow: Option<&str>, count| unstuck_api::runs::RunCount {
            action: action.map(str::to_owned),
            flow: flow.map(str::to_owned),
            count,
            ..unstuck_api::runs::RunCount::default()
        };
        Picture {
            status: serde_json::from_value(status).expect("it is a status"),
            errors: Vec::new(),
            actions: vec![count(Some("payout.Pay"), None, 3)],
            queued: vec![count(None, Some("nightly"), 1)],
            schedules: Vec::new(),
            note: None,
        }
    }

    const NOW: Time = Time(1_893_492_000_400);

    fn draw(failure: Option<&str>, size: (usize, usize)) -> Vec<String> {
        let shown = Shown { name: "/srv/unstuck".to_owned(), option: "", failure };
        draw_lines(&picture(), &shown, NOW, size, Look::PLAIN)
    }

    #[test]
    fn a_screen_has_what_is_urgent_first() {
        let lines = draw(None, (80, 24));
        assert!(lines[0].starts_with("/srv/unstuck  2030-01-01 "), "{lines:#?}");
        let wanted = [
            "No process is executing runs of this store.",
            "1 run is idle; `unstuck status` shows how to continue it.",
            "",
            "open      2 in error     5 held  1 idle  3 running",
            "last 24h  120 completed",
            "",
            "Needs a person (2 of 7)",
            "run_1  held   payout   2m ago    the bank did not answer",
            "run_2  error  nightly  just now  no room",
            "",
            "What comes next, once a process executes the run",
            "in 1m 5s  run_3  policy `resets` resumes `one` (flow `a`)",
            "",
            "Queues",
            "3 runs  payout.Pay  queued or at work",
            "1 run   nightly     not begun, or waiting for a slot",
            "",
        ];
        assert_eq!(lines[1..18], wanted);
        assert_eq!(lines.len(), 24);
        assert_eq!(lines[23], "q quits; `unstuck explain RUN` says what you can do");
    }

    #[test]
    fn a_narrow_screen_has_the_cause_all_the_same() {
        let cases = [
            (80, "run_1  held   payout   2m ago    the bank did not answer"),
            (60, "run_1  held   payout   the bank did not answer"),
            (40, "run_1  held   the bank did not answer"),
            (30, "run_1  held   the bank did no\u{2026}"),
        ];
        for (columns, wanted) in cases {
            let lines = draw(None, (columns, 24));
            assert!(lines.contains(&wanted.to_owned()), "{wanted:?} in {lines:#?}");
        }
    }

    #[test]
    fn every_size_is_filled_and_nothing_is_wider() {
        for columns in [1, 2, 7, 20, 41, 80, 300] {
            for rows in [1, 2, 3, 5, 9, 13, 24, 100] {
                for failure in [None, Some("http://127.0.0.1:7070 cannot be reached (connection refused)")] {
                    let lines = draw(failure, (columns, rows));
                    assert_eq!(lines.len(), rows, "{columns} x {rows}");
                    let widest = lines.iter().map(|line| text::columns(line)).max();
                    assert!(widest <= Some(columns), "{columns} x {rows}: {lines:#?}");
                }
            }
        }
    }

    #[test]
    fn a_failure_is_told_instead_of_who_executes() {
        let lines = draw(Some("the server is gone."), (80, 24));
        assert_eq!(lines[1..3], ["This is how it was then; trying again.", "The server is gone."]);
        assert!(lines.contains(&"Needs a person (2 of 7)".to_owned()), "{lines:#?}");
    }

    #[test]
    fn rows_are_shared_and_the_first_sections_come_first() {
        let cases: [(&[usize], usize, &[usize]); 7] = [
            (&[2, 3], 100, &[2, 3]),
            (&[9, 9], 10, &[3, 3]),
            (&[1, 9], 10, &[1, 5]),
            (&[9, 9], 5, &[3, 0]),
            (&[9, 9], 2, &[0, 0]),
            (&[], 10, &[]),
            (&[10, 10, 10], 11, &[2, 2, 1]),
        ];
        for (wanted, room, given) in cases {
            assert_eq!(share_rows(wanted, room), given, "{wanted:?} in {room}");
        }
    }
}

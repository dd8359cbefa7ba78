//! The live view, on a terminal that shows what it is sent.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZero;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::support::{Folder, Store};

/// The end of a frame, after which the terminal shows all of it.
const FRAME_END: &[u8] = b"\x1b[?2026l";

/// What a terminal of this size got and showed.
struct Shown {
    code: i32,
    bytes: String,
    /// The screen after each frame.
    frames: Vec<String>,
    /// At the end, with what has scrolled away.
    last: String,
}

fn run(arguments: &[&str], size: (u16, u16), environment: &[(&str, &str)]) -> Shown {
    run_on(&Store::new(), arguments, size, environment)
}

fn run_on(store: &Store, arguments: &[&str], size: (u16, u16), environment: &[(&str, &str)]) -> Shown {
    run_with(store, arguments, size, environment, None)
}

/// Somebody types this, if anything, and the command reads it.
fn run_with(
    store: &Store,
    arguments: &[&str],
    (columns, rows): (u16, u16),
    environment: &[(&str, &str)],
    typed: Option<&str>,
) -> Shown {
    // Before there is a terminal: a server that it starts must not keep that open.
    let mut command = store.command();
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("there are terminals");
    grantpt(&terminal).and_then(|()| unlockpt(&terminal)).expect("it is ours");
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&terminal, size).expect("it has a size");
    let name = ptsname(&terminal, Vec::new()).expect("it has a name");
    let end = open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).expect("it can be opened");
    let share = |end: &OwnedFd| end.as_fd().try_clone_to_owned().expect("a terminal can be shared");
    command.args(arguments).env("TERM", "xterm-256color").envs(environment.iter().copied());
    if typed.is_some() {
        command.stdin(share(&end));
    }
    let mut child = command.stdout(share(&end)).stderr(end).spawn().expect("the binary starts");
    // It has the other end, and with that gone this one hangs up when the process ends.
    drop(command);
    let mut terminal = File::from(terminal);
    if let Some(typed) = typed {
        terminal.write_all(typed.as_bytes()).expect("somebody can type");
    }
    let mut bytes = Vec::new();
    // The other end hangs up with an error.
    let _ = terminal.read_to_end(&mut bytes);
    let code = child.wait().expect("it ends").code().expect("by itself");
    let mut screen = screen_of(rows, columns);
    let mut frames = Vec::new();
    let (drawn, _summary) = split_after(&bytes, FRAME_END);
    for frame in drawn {
        screen.process(frame);
        frames.push(screen.screen().contents());
        let wrapped = (0..rows).find(|row| screen.screen().row_wrapped(*row));
        assert_eq!(wrapped, None, "nothing is broken by the terminal:\n{}", screen.screen().contents());
    }
    let mut tall = screen_of(1_000, columns);
    tall.process(&bytes);
    let last = tall.screen().contents();
    Shown { code, bytes: String::from_utf8_lossy(&bytes).into_owned(), frames, last }
}

/// What a command shows on a terminal where somebody types this, and its exit code.
pub(crate) fn asked_on_terminal(store: &Store, arguments: &[&str], typed: &str) -> (i32, String) {
    let shown = run_with(store, arguments, (120, 24), &[("NO_COLOR", "1")], Some(typed));
    (shown.code, shown.last)
}

/// What a command shows on a terminal of so many columns, all of it.
pub(crate) fn on_terminal(store: &Store, arguments: &[&str], columns: u16) -> String {
    run_on(store, arguments, (columns, 24), &[("NO_COLOR", "1")]).last
}

fn screen_of(rows: u16, columns: u16) -> vt100::Parser {
    let size = |n| NonZero::new(n).expect("a screen is not empty");
    vt100::Parser::new(size(rows), size(columns), 0)
}

/// What ends with `end`, piece by piece, and the rest.
fn split_after<'a>(bytes: &'a [u8], end: &[u8]) -> (Vec<&'a [u8]>, &'a [u8]) {
    let mut parts = Vec::new();
    let mut rest = bytes;
    while let Some(place) = rest.windows(end.len()).position(|window| window == end) {
        let (part, after) = rest.split_at(place + end.len());
        parts.push(part);
        rest = after;
    }
    (parts, rest)
}

only_on_a_store! {
    "the document of a run does not say until when a step waits, so that it is not counted down";
#[test]
fn the_view_is_drawn_in_place_below_the_log() {
    let flow = "
flow: bumpy
defaults: {timeout: 10s}
steps:
  - id: fetch
    emulate: {sequence: [stall, pass], cause: connection reset, output: done}
    retryStrategy: retry
    minimumDelay: 2s
  - id: validate
    emulate: {sequence: [fail], cause: line 3 has no date}
    failOnError: false
output: ${steps.fetch.output}
";
    let (_folder, path) = Folder::with("flow.yaml", flow);
    let shown = run(&["run", &path], (80, 24), &[]);
    assert_eq!(shown.code, 0);
    for frame in &shown.frames {
        assert!(frame.matches("bumpy run_").count() <= 1, "one header at a time:\n{frame}");
        let steps = frame.lines().filter(|line| line.contains(" validate  ")).count();
        assert!(steps <= 1, "one line for a step:\n{frame}");
    }
    let waits = |frame: &&String| {
        let parts = ["◌ fetch     waiting: retrying in ", "s (attempt 2 of 2)\n· validate  pending"];
        parts.iter().all(|part| frame.contains(part))
    };
    let waiting = shown.frames.iter().filter(waits).count();
    assert!(waiting > 1, "the time that is left is counted down:\n{}", shown.bytes);
    // The log stays, and the last view stands between it and the summary.
    let parts = [
        "fetch: attempt 1 stalled: connection reset\n",
        " the run completed\n\nbumpy run_",
        "✓ fetch     completed in 2.",
        "✗ validate  failed: line 3 has no date; the flow continues\n\ncompleted after 2",
        "\n\"done\"",
    ];
    let places: Vec<Option<usize>> = parts.iter().map(|part| shown.last.find(part)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}\n{}", shown.last);
}
}

#[test]
fn a_narrow_terminal_gets_shorter_lines() {
    for size in [(40, 10), (20, 6), (10, 3)] {
        let shown = run(&["run", "examples/signal.yaml"], size, &[]);
        assert_eq!(shown.code, 0);
        let ellipsis = shown.frames.iter().any(|frame| frame.contains('…'));
        assert!(ellipsis, "{size:?}: {:?}", shown.frames);
    }
}

#[test]
fn the_environment_says_how_it_looks() {
    // Whether there are colours, lines drawn in place, and more than ASCII.
    let cases = [
        (("LANG", ""), true, true, true),
        (("NO_COLOR", "1"), false, true, true),
        (("NO_COLOR", ""), true, true, true),
        (("TERM", "dumb"), false, false, false),
        (("LC_ALL", "C"), true, true, false),
    ];
    for (environment, colour, live, unicode) in cases {
        let arguments = ["run", "examples/wait.yaml", "--input", "{\"seconds\": 0}"];
        let shown = run(&arguments, (80, 24), &[environment]);
        assert_eq!(shown.code, 0);
        let found =
            (has_colour(&shown.bytes), shown.bytes.contains("\u{1b}[?2026h"), !shown.bytes.is_ascii());
        assert_eq!(found, (colour, live, unicode), "{environment:?}: {}", shown.bytes);
        assert!(live || !shown.bytes.contains('\u{1b}'), "{environment:?}: {}", shown.bytes);
    }
}

/// Whether there is a code such as `\x1b[32m`.
fn has_colour(text: &str) -> bool {
    text.split("\u{1b}[")
        .skip(1)
        .any(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';').starts_with('m'))
}

#[test]
fn problems_are_coloured_on_a_terminal() {
    let shown = run(&["check", "Cargo.toml"], (80, 24), &[]);
    assert_eq!(shown.code, 1);
    assert!(shown.bytes.contains("\u{1b}[1m\u{1b}[31merror:\u{1b}[0m"), "{:?}", shown.bytes);
}

#[test]
fn a_resume_that_a_policy_has_scheduled_is_counted_down() {
    let store = Store::new();
    let policy = store.write("p.yaml", "{name: resets, flow: a, maxAttempts: 3, backOff: 1s}");
    assert_eq!(store.unstuck(&["policy", "load", &policy]).code, 0);
    let flow = store.write(
        "a.yaml",
        "flow: a\nsteps: [{id: one, emulate: {sequence: [stall, pass], cause: no room}, timeout: 5s, minimumDelay: 0}]\n",
    );
    let shown = run_on(&store, &["run", &flow], (80, 24), &[]);
    assert_eq!(shown.code, 0, "{}", shown.last);
    let counting = |frame: &&String| frame.contains("error: no room; policy resets resumes it in 0.");
    assert!(shown.frames.iter().filter(counting).count() > 1, "{:#?}", shown.frames);
}

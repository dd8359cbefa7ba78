//! `unstuck watch`: a live screen on a real terminal, which says when the server has gone and gives the terminal back.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZero;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Termios, Winsize, tcgetattr, tcsetwinsize};
use serde_json::{Value, json};

use crate::support::{Server, Store, wait_until};

/// A command on a terminal, and what that shows.
struct Watched {
    child: Child,
    keyboard: File,
    /// The end that the command has, to see how it leaves it.
    end: OwnedFd,
    before: Termios,
    screen: Arc<Mutex<vt100::Parser>>,
}

fn size(columns: u16, rows: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

impl Watched {
    fn start(store: &Store, arguments: &[&str], (columns, rows): (u16, u16)) -> Watched {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .expect("there are terminals");
        grantpt(&terminal).and_then(|()| unlockpt(&terminal)).expect("it is ours");
        tcsetwinsize(&terminal, size(columns, rows)).expect("it has a size");
        let name = ptsname(&terminal, Vec::new()).expect("it has a name");
        let end = open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())
            .expect("it can be opened");
        let share = || end.as_fd().try_clone_to_owned().expect("a terminal can be shared");
        let before = tcgetattr(&end).expect("it is a terminal");
        let mut command = store.command(arguments);
        command.env("TERM", "xterm-256color").env("LANG", "C.UTF-8").env_remove("NO_COLOR");
        let child = command.stdin(share()).stdout(share()).stderr(share()).spawn().expect("it starts");
        let some = |n| NonZero::new(n).expect("a screen is not empty");
        let screen = Arc::new(Mutex::new(vt100::Parser::new(some(rows), some(columns), 0)));
        let mut shown = File::from(terminal);
        let keyboard = shown.try_clone().expect("it can be shared");
        let drawn = Arc::clone(&screen);
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count) = shown.read(&mut bytes)
                && count > 0
            {
                drawn.lock().expect("nobody panicked").process(&bytes[..count]);
            }
        });
        Watched { child, keyboard, end, before, screen }
    }

    fn contents(&self) -> String {
        self.screen.lock().expect("nobody panicked").screen().contents()
    }

    /// Waits until the screen shows all of this, in this order.
    fn shows(&self, parts: &[&str]) {
        let is_shown = || {
            let contents = self.contents();
            let after = |rest: &'_ str, part: &&str| rest.split_once(part).map(|(_, rest)| rest.to_owned());
            parts.iter().try_fold(contents, |rest, part| after(&rest, part)).is_some()
        };
        let what = format!("{parts:?}");
        // What is there instead says more than that it is not there.
        let waited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| wait_until(&what, is_shown)));
        assert!(waited.is_ok(), "{parts:?} is not shown:\n{}", self.contents());
    }

    fn type_keys(&mut self, keys: &[u8]) {
        self.keyboard.write_all(keys).expect("somebody can type");
    }

    fn resize(&self, columns: u16, rows: u16) {
        let some = |n| NonZero::new(n).expect("a screen is not empty");
        self.screen.lock().expect("nobody panicked").screen_mut().set_size(some(rows), some(columns));
        tcsetwinsize(&self.keyboard, size(columns, rows)).expect("it has a size");
        // The terminal of a session does this; here there is none.
        self.signal(Signal::WINCH);
    }

    fn signal(&self, signal: Signal) {
        let id = Pid::from_raw(i32::try_from(self.child.id()).expect("a process has a number"));
        kill_process(id.expect("it is not 0"), signal).expect("it is there");
    }

    /// Waits for its end, and checks that the terminal is as it was.
    fn ends_with(mut self, code: i32) {
        assert_eq!(self.child.wait().expect("it ends").code(), Some(code), "{}", self.contents());
        let after = tcgetattr(&self.end).expect("it is a terminal");
        assert_eq!(after.local_modes, self.before.local_modes);
        wait_until("the screen is what it was", || {
            let parser = self.screen.lock().expect("nobody panicked");
            let screen = parser.screen();
            !screen.alternate_screen() && !screen.hide_cursor() && screen.contents().is_empty()
        });
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // It has ended, unless the test has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const FLOWS: &str = "\
flow: upload
defaults: {timeout: 1h}
steps: [{id: send, emulate: {sequence: [stall, pass], cause: no route to host}}]
---
flow: payout
steps: [{id: pay, emulate: {sequence: [stall], cause: the bank did not answer}, retryStrategy: hold}]
---
flow: encode
steps: [{id: work, action: Encode, timeout: 1h}]
---
flow: nightly
schedule: every 6h
steps: [{id: a, set: 1}]
";

fn serve() -> Server {
    let server = Server::start_on(&Store::new(), &[]);
    server.apply(FLOWS).with(200);
    server
}

#[test]
fn a_screen_shows_what_happens_and_fits_its_terminal() {
    let server = serve();
    let url = format!("http://{}", server.address);
    let (elsewhere, own) = (Store::new(), server.store.clone());
    // Of a server that is named, and of the one that has the store.
    for (store, arguments) in [(&elsewhere, vec!["watch", "--server", &url]), (&own, vec!["watch"])] {
        let mut watched = Watched::start(store, &arguments, (100, 30));
        watched.shows(&["executes its runs.", "open", "Schedules", "in ", "nightly  every 6h", "q quits"]);
        let start = |flow: &str| {
            let started = server.post("/v1/runs", &json!({"flow": flow})).with(201);
            started["run"].as_str().expect("it is an id").to_owned()
        };
        // Nobody takes the step of the last one.
        let (held, in_error, _) = (start("payout"), start("upload"), start("encode"));
        watched.shows(&["Needs a person", &in_error, "error", "upload", "no route to host"]);
        watched.shows(&["Needs a person", &held, "held", "payout", "the bank did not answer"]);
        watched.shows(&["Open errors", " open", "0 scheduled", "upload.send", "no route to host"]);
        watched.shows(&["Queues", "encode.Encode", "queued or at work"]);
        // What is urgent stays when there is less room, and its cause.
        watched.resize(40, 9);
        watched.shows(&["Needs a person (1 of ", "run_", "  no route", "…", "q quits"]);
        assert!(!watched.contents().contains("Schedules"), "{}", watched.contents());
        assert!(watched.contents().lines().all(|line| line.chars().count() <= 40));
        watched.resize(100, 30);
        watched.shows(&["Needs a person", "Open errors", "Queues", "Schedules"]);
        // Other keys do nothing.
        watched.type_keys(b"x\n q");
        watched.ends_with(0);
    }
}

#[test]
fn a_screen_survives_the_server_and_ends_as_it_is_told_to() {
    let server = serve();
    let url = format!("http://{}", server.address);
    let address = server.address.to_string();
    let alone = Store::new();
    let mut by_key = Watched::start(&alone, &["watch", "--server", &url], (120, 24));
    let by_signal = Watched::start(&alone, &["watch", "--server", &url], (120, 24));
    by_key.shows(&["executes its runs."]);
    let keys = tcgetattr(&by_key.end).expect("it is a terminal").local_modes;
    assert!(!keys.intersects(LocalModes::ECHO | LocalModes::ICANON), "what is typed is not shown");
    // One that has stopped to answer is missed before its connection is given up.
    server.suspend();
    by_key.shows(&["trying again.", "No answer for ", "Schedules"]);
    server.wake();
    by_key.shows(&["executes its runs."]);
    let store = server.kill();
    let gone = "This is how it was then; trying again.";
    by_key.shows(&[gone, "No server answers at", "Schedules", "nightly"]);
    by_signal.shows(&[gone]);
    let server = Server::start_at(&address, &store, &[]);
    let held = server.start_run("payout");
    for watched in [&by_key, &by_signal] {
        watched.shows(&["executes its runs.", "Needs a person", &held, "the bank did not answer"]);
        assert!(!watched.contents().contains(gone));
    }
    by_key.type_keys(b"\x03");
    by_key.ends_with(0);
    by_signal.signal(Signal::TERM);
    by_signal.ends_with(128 + 15);
    // A store without a server is watched, too, and is free for the next one.
    let mut of_nobody = Watched::start(&server.kill(), &["watch"], (120, 24));
    of_nobody.shows(&["No process is executing runs of this store.", "Needs a person", &held]);
    let server = Server::start_on(&store, &[]);
    of_nobody.shows(&["executes its runs.", "Needs a person", &held]);
    of_nobody.type_keys(b"q");
    of_nobody.ends_with(0);
    drop(server);
}

#[test]
fn without_a_terminal_there_is_one_picture() {
    let server = serve();
    let url = format!("http://{}", server.address);
    let held = server.start_run("payout");
    server.rest(&held);
    for arguments in [vec!["watch"], vec!["watch", "--server", &url]] {
        let (code, text) = server.store.run(&arguments);
        assert_eq!(code, 0, "{text}");
        assert!(!text.contains('\u{1b}') && !text.contains("q quits"), "{text}");
        for part in ["open      1 held\nlast 24h  none\n", "\nNeeds a person\n", &held, "\nSchedules\nin "] {
            assert!(text.contains(part), "{part:?} in {text}");
        }
        let (code, json) = server.store.run(&[&arguments[..], &["-o", "json"]].concat());
        let json: Value = serde_json::from_str(&json).expect("it is JSON");
        assert_eq!(code, 0);
        assert_eq!(json["status"]["needsPerson"][0]["run"], *held);
        assert_eq!(json["schedules"][0]["flow"], "nightly");
    }
    // One that was never there is an error, as for every command.
    let nowhere = server.store.run(&["watch", "--server", "http://127.0.0.1:1"]);
    assert!(nowhere.0 != 0 && nowhere.1.contains("no server answers"), "{nowhere:?}");
    let none = Store::new().run(&["watch"]);
    assert!(none.0 != 0 && none.1.contains("there is no store at"), "{none:?}");
}

#[test]
fn a_token_sees_what_it_may_see() {
    let server = serve();
    let create = |name: &str, role: &str| {
        let (_, created) = server.store.run(&["token", "create", name, "--role", role, "-o", "json"]);
        let created: Value = serde_json::from_str(&created).expect("it is JSON");
        created["token"].as_str().expect("it is a token").to_owned()
    };
    let tokens = [create("boss", "admin"), create("eyes", "viewer"), String::new()];
    let elsewhere = Store::new();
    let url = format!("http://{}", server.address);
    let watch = |token: &str| {
        let mut command = elsewhere.command(&["watch", "--server", &url]);
        let output = command.env("UNSTUCK_TOKEN", token).output().expect("it starts");
        let text = String::from_utf8([output.stdout, output.stderr].concat()).expect("it is UTF-8");
        (output.status.code(), text)
    };
    for token in &tokens[..2] {
        let (code, text) = watch(token);
        assert!(code == Some(0) && text.contains("\nSchedules\nin "), "{text}");
    }
    let (code, text) = watch(&tokens[2]);
    assert!(code != Some(0) && text.contains("UNSTUCK_TOKEN"), "{text}");
}

//! Process groups: whatever ends an attempt ends all of its group, and nothing waits for what got away.

use std::fs;
use std::process::Command as Program;
use std::thread;
use std::time::{Duration, Instant};

use unstuck_core::command::Report;
use unstuck_core::model::attempt::AttemptId;
use unstuck_core::model::flow::{Kind, ProcessCommand};
use unstuck_core::model::recovery::Limits;
use unstuck_engine::executor::process::ProcessExecutor;
use unstuck_engine::executor::{Executor, ExecutorReport, Job};

use super::support::{Ear, LONG, flow, job_of, line, outcome, shell};

/// The processes of a group: the living, and the dead whom this process has not reaped. Orphans are others' to reap.
fn members(group: u32) -> Vec<String> {
    let listing = Program::new("ps").args(["-A", "-o", "pgid=,ppid=,stat=,args="]).output().expect("ps runs");
    let listing = String::from_utf8_lossy(&listing.stdout).into_owned();
    let (group, here) = (group.to_string(), std::process::id().to_string());
    let is_member = |line: &&str| {
        let fields: Vec<&str> = line.split_whitespace().take(3).collect();
        fields[0] == group && (fields[1] == here || !fields[2].starts_with('Z'))
    };
    listing.lines().filter(is_member).map(str::to_owned).collect()
}

/// Begins a job whose process says `{"heartbeat": true}` when it is ready, and waits for that.
fn begin(executor: &mut ProcessExecutor, job: Job) -> (Ear, AttemptId, u32) {
    let ear = Ear::new();
    let attempt = job.attempt;
    executor.execute(job, &ear.answers);
    assert_eq!(ear.progress(), None);
    let (running, group) = executor.running()[0];
    assert_eq!(running, attempt);
    (ear, attempt, group)
}

const READY: &str = "echo '{\"heartbeat\": true}' >> \"$UNSTUCK_REPORT\"";

#[test]
fn an_interrupt_ends_the_whole_group() {
    let cases = [
        ("sleep 1000 & sleep 1000", 3),
        // Deaf to SIGTERM, all of them: the leader inherits it to its children.
        ("trap '' TERM; sleep 1000 & sleep 1000 & wait", 3),
        // A grandchild that has let go of the pipes.
        ("(sleep 1000 > /dev/null 2>&1 < /dev/null &) ; sleep 1000", 3),
        ("kill -STOP $$", 1),
    ];
    for (script, size) in cases {
        let mut executor = ProcessExecutor::new(1);
        let (ear, attempt, group) = begin(&mut executor, shell(&format!("{READY}; {script}")));
        let patience = Instant::now() + LONG;
        while members(group).len() < size && Instant::now() < patience {
            thread::yield_now();
        }
        assert_eq!(members(group).len(), size, "{script}: {:?}", members(group));
        executor.interrupt(attempt, "a test");
        assert_eq!(line(&ear.word()), "freed", "{script}");
        assert_eq!(members(group), Vec::<String>::new(), "{script}");
        assert!(executor.running().is_empty() && ear.is_silent(), "{script}");
    }
}

#[test]
fn a_process_that_is_told_to_end_may_tidy_up_first() {
    let folder = std::env::temp_dir().join(format!("unstuck-test-{}-tidy", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    // The shell dies of the signal at once; its child, which holds the pipes, uses the time it has.
    let script = format!(
        "sh -c 'trap \"sleep 0.3; touch tidy; exit 0\" TERM; {READY}; while :; do sleep 0.05; done' & wait"
    );
    let kind = Kind::Process(ProcessCommand::Shell(
        script.replace("'{\"heartbeat\": true}'", "{\\\"heartbeat\\\":true}"),
    ));
    let mut executor = ProcessExecutor::new(1);
    let (ear, attempt, _) = begin(&mut executor, job_of(&flow(kind, Limits::default(), &folder), 1, "null"));
    executor.interrupt(attempt, "a test");
    assert_eq!(line(&ear.word()), "freed");
    assert!(folder.join("tidy").exists());
    fs::remove_dir_all(&folder).expect("removed");
}

#[test]
fn an_interrupt_before_the_process_runs_or_after_it_ended_is_heard_once() {
    let mut executor = ProcessExecutor::new(1);
    for _ in 0..50 {
        let ear = Ear::new();
        let job = shell("exit 0");
        let attempt = job.attempt;
        executor.execute(job, &ear.answers);
        executor.interrupt(attempt, "a test");
        let word = line(&ear.word());
        assert!(word == "freed" || word == "completed null", "{word}");
        executor.interrupt(attempt, "a test");
        executor.stop();
        assert!(ear.is_silent());
        executor = ProcessExecutor::new(1);
    }
}

#[test]
fn a_stop_ends_everything_and_gives_it_back() {
    let mut executor = ProcessExecutor::new(8);
    let ear = Ear::new();
    let kind = Kind::Process(ProcessCommand::Shell(format!("{READY}; sleep 1000 & sleep 1000")));
    let flow = flow(kind, Limits::default(), std::path::Path::new(""));
    for run in 0..8 {
        executor.execute(job_of(&flow, run, "null"), &ear.answers);
    }
    for _ in 0..8 {
        assert_eq!(ear.progress(), None);
    }
    let groups: Vec<u32> = executor.running().into_iter().map(|(_, group)| group).collect();
    assert_eq!(groups.len(), 8);
    executor.stop();
    assert!(executor.running().is_empty());
    for _ in 0..8 {
        assert_eq!(line(&ear.word()), "released");
    }
    assert!(ear.is_silent());
    for group in groups {
        assert_eq!(members(group), Vec::<String>::new());
    }
    assert_eq!(line(&outcome(&mut executor, shell("exit 0")).1), "released");
}

#[test]
fn an_executor_that_is_dropped_leaves_nothing_behind() {
    let mut executor = ProcessExecutor::new(1);
    let (_ear, _, group) = begin(&mut executor, shell(&format!("{READY}; sleep 1000 & sleep 1000")));
    drop(executor);
    assert_eq!(members(group), Vec::<String>::new());
}

#[test]
fn what_a_process_leaves_running_in_its_group_is_ended() {
    let mut executor = ProcessExecutor::new(1);
    let (_, word) = outcome(&mut executor, shell("sleep 1000 & sleep 1000 & echo $$"));
    let ExecutorReport::Report(_, Report::Complete { output }) = &word else { panic!("{word:?}") };
    let group = output.text().parse().expect("a process id");
    assert_eq!(members(group), Vec::<String>::new());
}

#[test]
fn what_got_away_from_the_group_does_not_hold_the_attempt_up() {
    // In a session of its own, with the pipes in its hands.
    let begun = Instant::now();
    let script = "setsid sh -c 'echo $$ >&2; echo away >> \"$UNSTUCK_REPORT\"; exec sleep 30' &
        while [ ! -s \"$UNSTUCK_REPORT\" ]; do sleep 0.01; done; exit 3";
    let (_, word) = outcome(&mut ProcessExecutor::new(1), shell(script));
    let ExecutorReport::Report(_, Report::Fail { error, .. }) = &word else { panic!("{word:?}") };
    let away = error.cause.to_string();
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert!(Program::new("kill").arg(&away).status().expect("kill runs").success(), "{away} is still there");
}

#[test]
fn no_process_and_no_report_is_left_of_an_attempt() {
    let (_, word) =
        outcome(&mut ProcessExecutor::new(1), shell("echo $$; echo \"[$$, \\\"$UNSTUCK_REPORT\\\"]\""));
    let ExecutorReport::Report(_, Report::Complete { output }) = &word else { panic!("{word:?}") };
    let output = output.value();
    let group = u32::try_from(output[0].as_u64().expect("a process id")).expect("small");
    assert_eq!(members(group), Vec::<String>::new());
    let report = std::path::PathBuf::from(output[1].as_str().expect("a path"));
    assert!(
        !report.exists() && report.parent().is_some_and(|folder| !folder.exists()),
        "{}",
        report.display()
    );
}

/// The living processes whose command line has this in it.
fn living(marker: &str) -> Vec<String> {
    let listing = Program::new("ps").args(["-A", "-o", "stat=,args="]).output().expect("ps runs");
    let listing = String::from_utf8_lossy(&listing.stdout).into_owned();
    listing
        .lines()
        .filter(|line| line.contains(marker) && !line.starts_with('Z'))
        .map(str::to_owned)
        .collect()
}

#[test]
fn a_daemon_in_a_session_of_its_own_ends_with_the_attempt_that_is_ended() {
    // `SLEEP` stands for a sleep that can be told from all others.
    let cases = [
        "setsid SLEEP & wait",
        // It has lost its parent, and the pipes.
        "(setsid SLEEP > /dev/null 2>&1 < /dev/null &); sleep 1000",
        // Deaf to SIGTERM.
        "setsid sh -c 'trap \"\" TERM; SLEEP; SLEEP' & wait",
        // It has put the token away, and its parent lives.
        "env -i setsid SLEEP & wait",
        // A daemon of a daemon, without the token.
        "setsid sh -c 'env -i setsid SLEEP & wait' & wait",
    ];
    for (place, script) in cases.into_iter().enumerate() {
        for is_stopped in [false, true] {
            let marker = format!("sleep 9{}{place}{}", std::process::id(), u8::from(is_stopped));
            let mut executor = ProcessExecutor::new(1);
            let script = format!("{READY}; {}", script.replace("SLEEP", &marker));
            let (ear, attempt, group) = begin(&mut executor, shell(&script));
            let patience = Instant::now() + LONG;
            while !living(&marker)
                .iter()
                .any(|line| line.contains(&format!(" {marker}")) && !line.contains("sh -c"))
            {
                assert!(Instant::now() < patience, "{script}: {:?}", living(&marker));
                thread::yield_now();
            }
            if is_stopped {
                executor.stop();
            } else {
                executor.interrupt(attempt, "a test");
            }
            assert_eq!(line(&ear.word()), if is_stopped { "released" } else { "freed" }, "{script}");
            assert_eq!(living(&marker), Vec::<String>::new(), "{script}");
            assert_eq!(members(group), Vec::<String>::new(), "{script}");
        }
    }
}

#[test]
fn whoever_kills_at_once_kills_daemons_too() {
    let marker = format!("sleep 8{}", std::process::id());
    let mut executor = ProcessExecutor::new(1);
    let script = format!("{READY}; (setsid {marker} > /dev/null 2>&1 < /dev/null &); sleep 1000");
    let (ear, _, _) = begin(&mut executor, shell(&script));
    let patience = Instant::now() + LONG;
    while !living(&marker).iter().any(|line| !line.contains("sh -c")) {
        assert!(Instant::now() < patience, "{:?}", living(&marker));
        thread::yield_now();
    }
    executor.killer().kill();
    assert_eq!(living(&marker), Vec::<String>::new());
    let word = line(&ear.word());
    assert!(word.starts_with("stalled"), "{word}");
}

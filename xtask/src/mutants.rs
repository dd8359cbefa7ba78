//! `cargo xtask mutants`: tests the simulator with engines that contain a deliberate mistake, each of which it must
//! catch.
//!
//! A mutant is a file in `crates/unstuck-sim/mutants`: what it breaks, and exact texts with their replacements, where
//! `@on` is whether this mutant is switched on. All of them are put into one copy of the tree, which is built once.
//! Mutants of the SQLite store are hunted by simulated histories on a disk that loses power, beside the store in
//! memory.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

/// Where they are, and what runs them in the copy.
const FOLDER: &str = "crates/unstuck-sim/mutants";
const HUNTER: &str = "hunt.rs";
/// What says which mutant is switched on.
const SWITCH: &str = "UNSTUCK_MUTANT";
/// Each is caught within so many seeds, unless another number is given.
const SEEDS: u64 = 5_000;
/// The crate whose mutants only show in its own histories.
/// What only the store in memory has.
const IN_MEMORY: &str = "crates/unstuck-store/src/memory";
const SQLITE: &str = "crates/unstuck-sqlite/";
/// The test that hunts there, and what tells it to.
const HISTORIES: &str = "simulated_histories_are_the_same_on_a_disk_that_crashes_and_in_memory";
const HUNT: &str = "UNSTUCK_HUNT";
const USAGE: &str = "usage: cargo xtask mutants [--seeds N] [--store memory|sqlite] [NAME...]";

/// What is hunted, and where.
#[derive(Debug, PartialEq)]
struct Hunt<'a> {
    seeds: u64,
    /// On the store of this name only: where it is not given, on whatever store each mutant shows in.
    store: Option<StoreKind>,
    names: Vec<&'a str>,
}

/// The stores that mutants are hunted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StoreKind {
    Memory,
    Sqlite,
}

/// A mistake made on purpose.
#[derive(Debug, PartialEq)]
struct Mutant {
    name: String,
    breaks: String,
    edits: Vec<Edit>,
}

/// A text, once in its file, and what stands in its place.
#[derive(Debug, PartialEq)]
struct Edit {
    file: String,
    old: String,
    new: String,
}

/// Copies the tree, builds it with all mutants, and lets the simulator hunt each, or the named ones.
pub(crate) fn run(root: &Path, args: &[&str]) -> ExitCode {
    match hunt_all(root, args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("mutants: {problem}");
            ExitCode::from(2)
        }
    }
}

/// Hunts the selected mutants, and returns whether all were caught and nothing else was found.
fn hunt_all(root: &Path, args: &[&str]) -> Result<bool, String> {
    let hunt = parse_arguments(args)?;
    let mutants = read_mutants(root)?;
    let is_wanted = |mutant: &&Mutant| match (&hunt.names[..], hunt.store) {
        ([], None) => true,
        // Mutants that show only in the SQLite store are not hunted in memory.
        ([], Some(store)) => mutant.shows_in(store),
        (names, _) => names.contains(&&*mutant.name),
    };
    let wanted: Vec<&Mutant> = mutants.iter().filter(is_wanted).collect();
    if let Some(unknown) = hunt.names.iter().find(|name| !mutants.iter().any(|mutant| mutant.name == **name))
    {
        let names: Vec<&str> = mutants.iter().map(|mutant| &*mutant.name).collect();
        return Err(format!("there is no mutant `{unknown}`; there are {}", names.join(", ")));
    }
    let tree = root.join("target/mutants/tree");
    copy_tree(root, &tree)?;
    apply_mutants(&tree, &mutants)?;
    let begun = Instant::now();
    let store_of = |mutant: &Mutant| match hunt.store {
        Some(store) => store,
        None if mutant.is_sqlite() => StoreKind::Sqlite,
        None => StoreKind::Memory,
    };
    let stores: Vec<StoreKind> = [StoreKind::Memory, StoreKind::Sqlite]
        .into_iter()
        .filter(|store| wanted.iter().any(|mutant| store_of(mutant) == *store))
        .collect();
    let mut programs = Vec::new();
    for store in &stores {
        programs.push((*store, build_hunter(root, &tree, *store)?));
    }
    println!("built in {:.0} s", begun.elapsed().as_secs_f64());
    let program_of = |store| programs.iter().find(|(of, _)| *of == store).map(|(_, program)| program);
    // The copy without a mutant first: a tester that always complains proves nothing.
    let mut hunts: Vec<(StoreKind, &str, &str)> =
        stores.iter().map(|store| (*store, "", "nothing: no mutant is switched on")).collect();
    hunts.extend(wanted.iter().map(|mutant| (store_of(mutant), &*mutant.name, &*mutant.breaks)));
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((store, name, breaks)) = hunts.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let Some(program) = program_of(*store) else { continue };
                    if let Err(problem) = hunt_one((*store, program), hunt.seeds, name, breaks)
                        && let Ok(mut failures) = failures.lock()
                    {
                        failures.push(problem);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().map_err(|error| error.to_string())?;
    for problem in &failures {
        println!("{problem}");
    }
    let (count, took) = (wanted.len(), begun.elapsed().as_secs_f64());
    println!("{count} mutants in {took:.0} s, {} wrong", failures.len());
    Ok(failures.is_empty())
}

/// Hunts one mutant and prints the result. Fails if it was not caught, or if the unchanged engine was accused.
fn hunt_one(
    (store, program): (StoreKind, &Path),
    seeds: u64,
    name: &str,
    breaks: &str,
) -> Result<(), String> {
    let mut command = Command::new(program);
    match store {
        StoreKind::Memory => command.arg(seeds.to_string()),
        StoreKind::Sqlite => command.args(["--nocapture", HISTORIES]).env(HUNT, seeds.to_string()),
    };
    let output = command.env(SWITCH, name).output();
    let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = said.lines().find(|line| line.contains('\t')).unwrap_or_default();
    match (name, line.split('\t').collect::<Vec<_>>().as_slice()) {
        ("", [seeds, _, what]) => Err(format!("without a mutant, after {seeds} seeds: {}", what.trim())),
        ("", _) if output.status.success() => {
            println!("{:<32} {seeds} seeds, every promise kept", "(none)");
            Ok(())
        }
        (_, [seeds, promise, _]) => {
            println!("{name:<32} caught after {seeds:>4} seeds by {promise:<10} {breaks}");
            Ok(())
        }
        (_, _) if output.status.success() => Err(format!("{name} survives {seeds} seeds: {breaks}")),
        (_, _) => Err(format!("{name} ends without a word: {}", last_line(&output))),
    }
}

fn last_line(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or("nothing was said").to_owned()
}

/// Reads all mutants, sorted by name.
fn read_mutants(root: &Path) -> Result<Vec<Mutant>, String> {
    let folder = root.join(FOLDER);
    let mut mutants = Vec::new();
    for entry in fs::read_dir(&folder).map_err(|error| format!("{FOLDER}: {error}"))? {
        let path = entry.map_err(|error| error.to_string())?.path();
        if path.extension().is_some_and(|extension| extension == "mutant") {
            let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            mutants.push(
                parse_mutant(&name, &text).map_err(|problem| format!("{FOLDER}/{name}.mutant: {problem}"))?,
            );
        }
    }
    mutants.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(mutants)
}

/// Parses a mutant: `breaks:`, then for each edit `file:`, `--- old`, `--- new` and `--- end`.
fn parse_mutant(name: &str, text: &str) -> Result<Mutant, String> {
    let (mut breaks, mut edits) = (None, Vec::new());
    let (mut file, mut old, mut new): (Option<String>, Option<String>, Option<String>) = (None, None, None);
    for line in text.split_inclusive('\n') {
        match line.trim_end() {
            "--- old" => old = Some(String::new()),
            "--- new" => new = Some(String::new()),
            "--- end" => match (file.take(), old.take(), new.take()) {
                (Some(file), Some(old), Some(new)) => edits.push(Edit { file, old, new }),
                _ => return Err("`--- end` without `file:`, `--- old` and `--- new` before it".to_owned()),
            },
            said => match (&mut old, &mut new) {
                (_, Some(new)) => new.push_str(line),
                (Some(old), None) => old.push_str(line),
                (None, None) if said.is_empty() => {}
                (None, None) => match said.split_once(": ") {
                    Some(("breaks", what)) => breaks = Some(what.to_owned()),
                    Some(("file", path)) => file = Some(path.to_owned()),
                    _ => return Err(format!("`{said}` is neither `breaks: ...` nor `file: ...`")),
                },
            },
        }
    }
    let breaks = breaks.ok_or("it does not say what it breaks")?;
    if edits.is_empty() || !edits.iter().any(|edit| edit.new.contains("@on")) {
        return Err("it changes nothing that can be switched on with `@on`".to_owned());
    }
    Ok(Mutant { name: name.to_owned(), breaks, edits })
}

/// Copies tracked and new files, without ignored ones.
fn copy_tree(root: &Path, tree: &Path) -> Result<(), String> {
    let list = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output();
    let list = list.map_err(|error| format!("git: {error}"))?;
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    // An unchanged file keeps its modification time, so that it is not built again.
    for path in list.split('\0').filter(|path| !path.is_empty()) {
        copy_file(&root.join(path), &tree.join(path)).map_err(|error| format!("{path}: {error}"))?;
    }
    let hunter = tree.join("crates/unstuck-sim/src/bin").join(HUNTER);
    copy_file(&root.join(FOLDER).join(HUNTER), &hunter).map_err(|error| format!("{HUNTER}: {error}"))
}

fn copy_file(from: &Path, to: &Path) -> std::io::Result<()> {
    if !from.exists() {
        return Ok(());
    }
    let content = fs::read(from)?;
    write_if_new(to, &content)
}

/// Writes a file only if its content differs.
fn write_if_new(to: &Path, content: &[u8]) -> std::io::Result<()> {
    if fs::read(to).is_ok_and(|known| known == content) {
        return Ok(());
    }
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(to, content)
}

/// Puts every mutant into the copy, each behind its switch.
fn apply_mutants(tree: &Path, mutants: &[Mutant]) -> Result<(), String> {
    let mut places: BTreeMap<&str, Vec<(usize, &Edit, &str)>> = BTreeMap::new();
    for mutant in mutants {
        for edit in &mutant.edits {
            let text = fs::read_to_string(tree.join(&edit.file))
                .map_err(|error| format!("{}: {error}", edit.file))?;
            let place =
                find_only_place(&text, edit).map_err(|problem| format!("{}: {problem}", mutant.name))?;
            places.entry(&edit.file).or_default().push((place, edit, &mutant.name));
        }
    }
    for (file, mut edits) in places {
        edits.sort_by_key(|(place, ..)| std::cmp::Reverse(*place));
        let path = tree.join(file);
        let mut text = fs::read_to_string(&path).map_err(|error| format!("{file}: {error}"))?;
        let mut before = text.len();
        for (place, edit, name) in edits {
            if place + edit.old.len() > before {
                return Err(format!("{name}: another mutant changes the same lines of {file}"));
            }
            let is_on = format!("std::env::var_os(\"{SWITCH}\").is_some_and(|on| on == \"{name}\")");
            text.replace_range(place..place + edit.old.len(), &edit.new.replace("@on", &is_on));
            before = place;
        }
        fs::write(&path, text).map_err(|error| format!("{file}: {error}"))?;
    }
    Ok(())
}

/// Finds where the old text is, which must be exactly once.
fn find_only_place(text: &str, edit: &Edit) -> Result<usize, String> {
    let places: Vec<usize> = text.match_indices(&*edit.old).map(|(place, _)| place).collect();
    match places[..] {
        [place] => Ok(place),
        _ => Err(format!(
            "its old text stands {} times in {}, and must stand once:\n{}",
            places.len(),
            edit.file,
            edit.old
        )),
    }
}

/// Builds the program that hunts mutants on this store, and returns its path.
fn build_hunter(root: &Path, tree: &Path, store: StoreKind) -> Result<std::path::PathBuf, String> {
    let target = root.join("target/mutants/build");
    if store == StoreKind::Sqlite {
        return build_sqlite_histories(tree, &target);
    }
    let status = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()))
        .args(["build", "--quiet", "-p", "unstuck-sim", "--features", "simulate", "--bin", "hunt"])
        .current_dir(tree)
        .env("CARGO_TARGET_DIR", &target)
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    if status.success() {
        Ok(target.join("debug/hunt"))
    } else {
        Err("the copy with the mutants does not build".to_owned())
    }
}

/// Builds the test program of the SQLite store, which has the disk that loses power.
fn build_sqlite_histories(tree: &Path, target: &Path) -> Result<std::path::PathBuf, String> {
    let output = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()))
        .args(["test", "--quiet", "-p", "unstuck-sqlite", "--test", "storage", "--no-run"])
        .args(["--message-format", "json"])
        .current_dir(tree)
        .env("CARGO_TARGET_DIR", target)
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let program = said.lines().rev().find_map(|line| {
        let from = line.find("\"executable\":\"")? + "\"executable\":\"".len();
        Some(line[from..].split('"').next()?.into())
    });
    program.ok_or_else(|| format!("the histories with the mutants do not build: {}", last_line(&output)))
}

/// Parses `[--seeds N] [--store memory|sqlite] [NAME...]`.
fn parse_arguments<'a>(args: &[&'a str]) -> Result<Hunt<'a>, String> {
    let mut hunt = Hunt { seeds: SEEDS, store: None, names: Vec::new() };
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match *arg {
            "--seeds" => {
                let number = rest.next().and_then(|number| number.parse().ok()).filter(|seeds| *seeds > 0);
                hunt.seeds = number.ok_or_else(|| format!("--seeds needs a number\n{USAGE}"))?;
            }
            "--store" => {
                hunt.store = Some(match rest.next().copied() {
                    Some("memory") => StoreKind::Memory,
                    Some("sqlite") => StoreKind::Sqlite,
                    _ => return Err(format!("--store needs `memory` or `sqlite`\n{USAGE}")),
                });
            }
            option if option.starts_with('-') => {
                return Err(format!("`{option}` is not known here\n{USAGE}"));
            }
            name => hunt.names.push(name),
        }
    }
    Ok(hunt)
}

impl Mutant {
    /// Returns whether the mutant can be caught on this store: one of the SQLite store only there, one of the memory
    /// store only in memory.
    fn shows_in(&self, store: StoreKind) -> bool {
        match store {
            StoreKind::Memory => !self.is_sqlite(),
            StoreKind::Sqlite => !self.edits.iter().any(|edit| edit.file.starts_with(IN_MEMORY)),
        }
    }

    /// Returns whether the mutant only shows on the SQLite store.
    fn is_sqlite(&self) -> bool {
        self.edits.iter().any(|edit| edit.file.starts_with(SQLITE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutant_fits_the_tree() {
        let root = crate::repo::root();
        let mutants = read_mutants(&root).expect("every mutant can be read");
        assert!(mutants.len() >= 12, "{}", mutants.len());
        for mutant in &mutants {
            for edit in &mutant.edits {
                let text = fs::read_to_string(root.join(&edit.file)).expect("its file is there");
                let place = find_only_place(&text, edit);
                assert!(place.is_ok(), "{}: {}", mutant.name, place.unwrap_err());
            }
        }
    }

    #[test]
    fn a_hunt_has_a_number_of_seeds_a_store_and_names() {
        let hunt = |seeds, store, names| Hunt { seeds, store, names };
        let cases: [(&[&str], Result<Hunt<'_>, &str>); 6] = [
            (&[], Ok(hunt(SEEDS, None, vec![]))),
            (&["--seeds", "5000", "no-fencing"], Ok(hunt(5_000, None, vec!["no-fencing"]))),
            (&["--store", "sqlite"], Ok(hunt(SEEDS, Some(StoreKind::Sqlite), vec![]))),
            (&["--seeds", "none"], Err("--seeds needs a number")),
            (&["--store", "paper"], Err("--store needs `memory` or `sqlite`")),
            (&["--fast"], Err("`--fast` is not known here")),
        ];
        for (args, wanted) in cases {
            match (parse_arguments(args), wanted) {
                (Ok(is), Ok(wanted)) => assert_eq!(is, wanted, "{args:?}"),
                (Err(is), Err(wanted)) => assert!(is.starts_with(wanted), "{args:?}: {is}"),
                (is, wanted) => panic!("{args:?}: {is:?}, and not {wanted:?}"),
            }
        }
    }

    #[test]
    fn a_mutant_says_what_it_breaks_and_what_it_changes() {
        let edit = "file: a.rs\n--- old\nx\n--- new\nif @on { y } else { x }\n--- end\n";
        let good = parse_mutant("m", &format!("breaks: it all\n\n{edit}")).expect("it is good");
        assert_eq!(good.edits[0].old, "x\n");
        let cases = [
            (edit.to_owned(), "does not say what it breaks"),
            ("breaks: nothing\n".to_owned(), "changes nothing"),
            (format!("breaks: it\n{}", edit.replace("@on", "true")), "changes nothing"),
            (format!("breaks: it\n{}", edit.replace("--- old\nx\n", "")), "without `file:`"),
            ("fixes: it\n".to_owned(), "neither"),
        ];
        for (text, wanted) in cases {
            let problem = parse_mutant("m", &text).expect_err(&text);
            assert!(problem.contains(wanted), "{text}: {problem}");
        }
    }
}

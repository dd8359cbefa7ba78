//! `cargo xtask mutants`: the tester is tested. Engines with a mistake made on purpose, each of which the simulator must catch.
//!
//! A mutant is a file in `crates/unstuck-sim/mutants`: what it breaks, and exact texts with what stands in their place, where
//! `@on` is whether this mutant is switched on. All of them are put into a copy of the tree, which is built once.

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
/// Each is caught within so many.
const SEEDS: u64 = 1_000;

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

/// Makes the copy, builds it, and lets the simulator hunt every mutant, or the one of this name.
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

fn hunt_all(root: &Path, args: &[&str]) -> Result<bool, String> {
    let mutants = read_all(root)?;
    let wanted: Vec<&Mutant> =
        mutants.iter().filter(|mutant| args.is_empty() || args.contains(&&*mutant.name)).collect();
    if let Some(unknown) = args.iter().find(|name| !mutants.iter().any(|mutant| mutant.name == **name)) {
        let names: Vec<&str> = mutants.iter().map(|mutant| &*mutant.name).collect();
        return Err(format!("there is no mutant `{unknown}`; there are {}", names.join(", ")));
    }
    let tree = root.join("target/mutants/tree");
    copy_tree(root, &tree)?;
    apply(&tree, &mutants)?;
    let begun = Instant::now();
    let program = build(root, &tree)?;
    println!("built in {:.0} s", begun.elapsed().as_secs_f64());
    // The copy without a mistake first: a tester that always complains proves nothing.
    let mut hunts: Vec<(&str, &str)> = vec![("", "nothing: no mutant is switched on")];
    hunts.extend(wanted.iter().map(|mutant| (&*mutant.name, &*mutant.breaks)));
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((name, breaks)) = hunts.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(problem) = hunt(&program, name, breaks)
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

/// Hunts one mutant and says how that went; an error is one that was not caught, or a complaint about nothing.
fn hunt(program: &Path, name: &str, breaks: &str) -> Result<(), String> {
    let output = Command::new(program).arg(SEEDS.to_string()).env(SWITCH, name).output();
    let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    match (name, said.split('\t').collect::<Vec<_>>().as_slice()) {
        ("", [seeds, _, what]) => Err(format!("without a mutant, after {seeds} seeds: {}", what.trim())),
        ("", _) if output.status.success() => {
            println!("{:<32} {SEEDS} seeds, every promise kept", "(none)");
            Ok(())
        }
        (_, [seeds, promise, _]) => {
            println!("{name:<32} caught after {seeds:>4} seeds by {promise:<10} {breaks}");
            Ok(())
        }
        (_, _) if output.status.success() => Err(format!("{name} survives {SEEDS} seeds: {breaks}")),
        (_, _) => Err(format!("{name} ends without a word: {}", last_line(&output))),
    }
}

fn last_line(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or("nothing was said").to_owned()
}

fn read_all(root: &Path) -> Result<Vec<Mutant>, String> {
    let folder = root.join(FOLDER);
    let mut mutants = Vec::new();
    for entry in fs::read_dir(&folder).map_err(|error| format!("{FOLDER}: {error}"))? {
        let path = entry.map_err(|error| error.to_string())?.path();
        if path.extension().is_some_and(|extension| extension == "mutant") {
            let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            mutants.push(read(&name, &text).map_err(|problem| format!("{FOLDER}/{name}.mutant: {problem}"))?);
        }
    }
    mutants.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(mutants)
}

/// Reads a mutant: `breaks:`, then for each edit `file:`, `--- old`, `--- new` and `--- end`.
fn read(name: &str, text: &str) -> Result<Mutant, String> {
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

/// What the tree tracks, and what is new in it, but for what is ignored.
fn copy_tree(root: &Path, tree: &Path) -> Result<(), String> {
    let list = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output();
    let list = list.map_err(|error| format!("git: {error}"))?;
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    // What is the same keeps its time, so that it is not built again.
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

fn write_if_new(to: &Path, content: &[u8]) -> std::io::Result<()> {
    if fs::read(to).is_ok_and(|known| known == content) {
        return Ok(());
    }
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(to, content)
}

/// Puts every mutant into the copy.
fn apply(tree: &Path, mutants: &[Mutant]) -> Result<(), String> {
    let mut places: BTreeMap<&str, Vec<(usize, &Edit, &str)>> = BTreeMap::new();
    for mutant in mutants {
        for edit in &mutant.edits {
            let text = fs::read_to_string(tree.join(&edit.file))
                .map_err(|error| format!("{}: {error}", edit.file))?;
            let place = only_place(&text, edit).map_err(|problem| format!("{}: {problem}", mutant.name))?;
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

/// Where the old text stands, which must be once.
fn only_place(text: &str, edit: &Edit) -> Result<usize, String> {
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

fn build(root: &Path, tree: &Path) -> Result<std::path::PathBuf, String> {
    let target = root.join("target/mutants/build");
    let status = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()))
        .args(["build", "--quiet", "-p", "unstuck-sim", "--bin", "hunt"])
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutant_fits_the_tree() {
        let root = crate::repo::root();
        let mutants = read_all(&root).expect("every mutant can be read");
        assert!(mutants.len() >= 12, "{}", mutants.len());
        for mutant in &mutants {
            for edit in &mutant.edits {
                let text = fs::read_to_string(root.join(&edit.file)).expect("its file is there");
                let place = only_place(&text, edit);
                assert!(place.is_ok(), "{}: {}", mutant.name, place.unwrap_err());
            }
        }
    }

    #[test]
    fn a_mutant_says_what_it_breaks_and_what_it_changes() {
        let edit = "file: a.rs\n--- old\nx\n--- new\nif @on { y } else { x }\n--- end\n";
        let good = read("m", &format!("breaks: it all\n\n{edit}")).expect("it is good");
        assert_eq!(good.edits[0].old, "x\n");
        let cases = [
            (edit.to_owned(), "does not say what it breaks"),
            ("breaks: nothing\n".to_owned(), "changes nothing"),
            (format!("breaks: it\n{}", edit.replace("@on", "true")), "changes nothing"),
            (format!("breaks: it\n{}", edit.replace("--- old\nx\n", "")), "without `file:`"),
            ("fixes: it\n".to_owned(), "neither"),
        ];
        for (text, wanted) in cases {
            let problem = read("m", &text).expect_err(&text);
            assert!(problem.contains(wanted), "{text}: {problem}");
        }
    }
}

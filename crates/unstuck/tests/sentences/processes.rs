//! Why the attempts of local processes fail, as the command itself tells it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::Line;

/// What a step runs, in the order of its lines.
const CASES: [(&str, &str); 10] = [
    ("no such program", "[no-such-program]"),
    ("no such file", "[./nothing]"),
    ("not executable", "[./plain]"),
    ("no program", "[./no-program]"),
    ("no interpreter", "[./no-interpreter]"),
    ("exit status", "exit 3"),
    ("last line of stderr", "echo first >&2; echo the disk is full >&2; exit 1"),
    ("killed", "kill -9 $$"),
    ("large output", "head -c 20000000 /dev/zero"),
    ("reported", r#"echo '{"error": {"cause": "no such order"}}' >> "$UNSTUCK_REPORT"; exit 1"#),
];

pub(crate) fn lines() -> Vec<Line> {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str, mode: u32| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("written");
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("changed");
    };
    write("plain", "", 0o644);
    write("no-program", "this is a letter", 0o755);
    write("no-interpreter", "#!/no/such/interpreter\n", 0o755);
    CASES.map(|(label, run)| (label.to_owned(), cause(folder.path(), run))).into()
}

/// How the attempt of a step that runs this ends.
fn cause(folder: &Path, run: &str) -> String {
    let run = if run.starts_with('[') { run.to_owned() } else { Value::from(run).to_string() };
    let flow = format!("flow: media\nsteps:\n  - {{id: fetch, run: {run}, timeout: 1m}}\n");
    fs::write(folder.join("flow.yaml"), flow).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_unstuck"));
    command.arg("run").arg(folder.join("flow.yaml")).arg("--store").arg(folder.join("store"));
    // The document has the whole cause, however long the name of the folder is.
    let ran = command.args(["-o", "json"]).output().expect("the binary starts");
    let document: Value =
        serde_json::from_slice(&ran.stdout).unwrap_or_else(|error| panic!("{run}: {error}"));
    let attempt = &document["steps"][0]["attempts"][0];
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{run}: {document:#}")).to_owned();
    let cause = text(&attempt["error"]["cause"]).replace(&folder.display().to_string(), "FOLDER");
    format!("{}: {cause}", text(&attempt["state"]))
}

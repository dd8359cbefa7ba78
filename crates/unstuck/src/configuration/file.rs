//! The configuration file: where it is, and every problem in it with its line and column.

use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use unstuck_flow::suggest::find_nearest;
use unstuck_flow::{Problem, Severity};

use crate::configuration::setting::{Kind, Setting, Value};
use crate::configuration::table::SETTINGS;
use crate::error::{CommandError, Refused, without_os_number};

/// The variable that names the file.
pub(crate) const VARIABLE: &str = "UNSTUCK_CONFIG";
/// The largest file that is read.
const LARGEST: u64 = 1 << 20;

/// A configuration file that was read.
#[derive(Debug)]
pub(crate) struct ConfigurationFile {
    pub(crate) path: PathBuf,
    /// What it sets, and on which line.
    pub(crate) values: Vec<(&'static Setting, Value, u32)>,
}

/// Finds the file: the one that is named, else the user's, if there is one.
pub(crate) fn find(
    given: Option<PathBuf>,
    variable: impl Fn(&str) -> Option<std::ffi::OsString>,
) -> Option<PathBuf> {
    let named = given.or_else(|| variable(VARIABLE).map(PathBuf::from));
    named.or_else(|| default_place(variable).filter(|path| path.exists()))
}

/// Returns where the file is looked for: `unstuck/unstuck.toml` in the folder for the user's configuration.
fn default_place(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> Option<PathBuf> {
    let folder = variable("XDG_CONFIG_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
    let folder = folder.or_else(|| variable("HOME").map(|home| Path::new(&home).join(".config")))?;
    Some(folder.join("unstuck").join("unstuck.toml"))
}

/// Reads the file.
pub(crate) fn read(path: &Path) -> Result<ConfigurationFile, CommandError> {
    let cannot = |why: &str| {
        CommandError::new(format!(
            "cannot read the configuration file {}: {why}. Name another with --config PATH or {VARIABLE}",
            path.display()
        ))
    };
    let about = std::fs::metadata(path).map_err(|error| cannot(&without_os_number(&error)))?;
    if !about.is_file() {
        return Err(cannot("it is not a file"));
    }
    if about.len() > LARGEST {
        return Err(cannot("it is larger than 1 MiB"));
    }
    let bytes = std::fs::read(path).map_err(|error| cannot(&without_os_number(&error)))?;
    let text = String::from_utf8(bytes).map_err(|_| cannot("it is not UTF-8"))?;
    let name = path.display().to_string();
    match parse(&name, &text) {
        Ok(values) => {
            let values =
                values.into_iter().map(|(setting, value, line)| (setting, beside(path, value), line));
            Ok(ConfigurationFile { path: path.to_owned(), values: values.collect() })
        }
        Err(problems) => Err(CommandError::Refused(vec![Refused { file: name, text, problems }])),
    }
}

/// Lets a relative path start from the folder of the file that names it.
fn beside(file: &Path, value: Value) -> Value {
    match value {
        Value::Path(path) => {
            let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
            Value::Path(file.parent().map_or_else(|| path.clone(), |folder| folder.join(&path)))
        }
        other => other,
    }
}

/// Parses the text of a file, or returns all of its problems.
fn parse(file: &str, text: &str) -> Result<Vec<(&'static Setting, Value, u32)>, Vec<Problem>> {
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut reading = Reading { file, text, values: Vec::new(), problems: Vec::new() };
    for error in errors {
        let at = error.span().unwrap_or_default();
        reading.problem(&at, "", format!("this is not TOML: {}", error.message()), None);
    }
    if reading.problems.is_empty() {
        reading.read_table("", table.get_ref());
    }
    if reading.problems.is_empty() {
        return Ok(reading.values);
    }
    reading.problems.sort_by_key(|problem| (problem.line, problem.column));
    Err(reading.problems)
}

/// What was found in a file so far.
struct Reading<'a> {
    file: &'a str,
    text: &'a str,
    values: Vec<(&'static Setting, Value, u32)>,
    problems: Vec<Problem>,
}

impl Reading<'_> {
    fn problem(&mut self, at: &Range<usize>, field: &str, message: impl Into<String>, hint: Option<String>) {
        let (line, column) = find_place(self.text, at.start);
        self.problems.push(Problem {
            file: self.file.to_owned(),
            line,
            column,
            field: field.to_owned(),
            message: message.into(),
            hint,
            severity: Severity::Error,
        });
    }

    fn read_table(&mut self, group: &str, table: &DeTable<'_>) {
        for (name, value) in table {
            let key = if group.is_empty() {
                name.get_ref().to_string()
            } else {
                format!("{group}.{}", name.get_ref())
            };
            if let Some(setting) = SETTINGS.iter().find(|setting| setting.key == key) {
                self.read_value(setting, value);
            } else if !SETTINGS.iter().any(|setting| setting.group() == Some(&key)) {
                let hint = suggest_key(&key).map(|near| format!("did you mean `{near}`?"));
                let hint =
                    hint.or_else(|| Some("`unstuck serve --print-config` lists every setting".to_owned()));
                self.problem(&name.span(), &key, format!("there is no setting `{key}`"), hint);
            } else if let DeValue::Table(inner) = value.get_ref() {
                self.read_table(&key, inner);
            } else {
                let hint = Some(format!("write `[{key}]` on a line of its own, and its settings below it"));
                self.problem(&value.span(), &key, format!("`{key}` is a table of settings"), hint);
            }
        }
    }

    fn read_value(&mut self, setting: &'static Setting, value: &Spanned<DeValue<'_>>) {
        match take_value(setting, value.get_ref()) {
            Ok(taken) => {
                let (line, _) = find_place(self.text, value.span().start);
                self.values.push((setting, taken, line));
            }
            Err(why) => {
                let (message, hint) = why.split_once("; ").unwrap_or((&why, ""));
                let message = if message.starts_with("is ") {
                    format!("`{}` {message}", setting.key)
                } else {
                    message.to_owned()
                };
                let hint = (!hint.is_empty()).then(|| hint.to_owned());
                self.problem(&value.span(), setting.key, message, hint);
            }
        }
    }
}

/// Takes a value of a file as a setting wants it.
fn take_value(setting: &Setting, value: &DeValue<'_>) -> Result<Value, String> {
    match value {
        DeValue::String(text) => match setting.kind {
            Kind::Networks => setting.list(vec![text.to_string()]),
            Kind::Flag | Kind::Number(..) => Err(setting.kind.not_one("a text")),
            _ => setting.parse(text),
        },
        DeValue::Integer(number) => match u64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => setting.number(number),
            Err(_) => Err(setting.kind.not_one(&format!("`{number}`"))),
        },
        DeValue::Boolean(flag) => match setting.kind {
            Kind::Flag => Ok(Value::Flag(*flag)),
            _ => Err(setting.kind.not_one(&format!("`{flag}`"))),
        },
        DeValue::Array(items) => {
            let texts: Option<Vec<String>> =
                items.iter().map(|item| item.get_ref().as_str().map(str::to_owned)).collect();
            setting.list(texts.ok_or_else(|| setting.kind.not_one("this list"))?)
        }
        DeValue::Float(_) => Err(setting.kind.not_one("a number with a fraction")),
        DeValue::Datetime(_) => Err(setting.kind.not_one("a date")),
        DeValue::Table(_) => Err(setting.kind.not_one("a table")),
    }
}

/// Finds the setting that an unknown key may mean: by its whole name, or by its last part.
fn suggest_key(key: &str) -> Option<&'static str> {
    let keys = || SETTINGS.iter().map(|setting| setting.key);
    let last = |key: &'static str| key.rsplit('.').next().unwrap_or(key);
    let own = key.rsplit('.').next().unwrap_or(key);
    let groups = SETTINGS.iter().filter_map(|setting| setting.group());
    keys()
        .find(|known| last(known).eq_ignore_ascii_case(own))
        .or_else(|| find_nearest(key, keys().chain(groups)))
}

/// Returns line and column of a place, counted from 1, the column in characters.
fn find_place(text: &str, offset: usize) -> (u32, u32) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    let count = |number: usize| u32::try_from(number + 1).unwrap_or(u32::MAX);
    (count(before.matches('\n').count()), count(before[line_start..].chars().count()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The problems of a text, each on a line.
    fn problems(text: &str) -> Vec<String> {
        match parse("unstuck.toml", text) {
            Ok(values) => panic!("it is taken: {values:?}"),
            Err(problems) => problems.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn every_problem_has_its_place_and_what_to_do() {
        for (text, wanted) in [
            ("lisen = 'a'", "unstuck.toml:1:1: lisen: there is no setting `lisen` (did you mean `listen`?)"),
            (
                "\n[limits]\nbdoy = 1",
                "unstuck.toml:3:1: limits.bdoy: there is no setting `limits.bdoy` (did you mean `limits.body`?)",
            ),
            (
                "[limit]\nbody = 1",
                "unstuck.toml:1:2: limit: there is no setting `limit` (did you mean `limits`?)",
            ),
            ("body = 1", "unstuck.toml:1:1: body: there is no setting `body` (did you mean `limits.body`?)"),
            (
                "qqqqqq = 1",
                "unstuck.toml:1:1: qqqqqq: there is no setting `qqqqqq` (`unstuck serve --print-config` lists every setting)",
            ),
            (
                "limits = 4",
                "unstuck.toml:1:10: limits: `limits` is a table of settings (write `[limits]` on a line of its own, and its settings below it)",
            ),
            (
                "allowRun = 'yes'",
                "unstuck.toml:1:12: allowRun: a text is not true or false (give true or false)",
            ),
            (
                "[limits]\nbody = -1",
                "unstuck.toml:2:8: limits.body: `-1` is not a size (give a size, such as `64 KiB`, `4 MiB` or a number of bytes)",
            ),
            ("[limits]\nitems = 0", "unstuck.toml:2:9: limits.items: `limits.items` is 0 (the least is 1)"),
            (
                "[limits]\nbodyTime = 1979-05-27",
                "unstuck.toml:2:12: limits.bodyTime: a date is not a length of time (give a length of time, such as `30s`, `5m` or a number of seconds)",
            ),
            (
                "allowAddress = ['10.0.0.0/99']",
                "unstuck.toml:1:16: allowAddress: `10.0.0.0/99` is not a network: write for example `10.0.0.0/8` or `127.0.0.1`",
            ),
            (
                "listen = 7070",
                "unstuck.toml:1:10: listen: a number is not an address (give an address and a port, such as `127.0.0.1:7070` or `[::1]:7070`)",
            ),
        ] {
            assert_eq!(problems(text), [wanted], "{text}");
        }
    }

    #[test]
    fn what_is_no_toml_is_told_with_its_place() {
        let told = problems("listen = \"a\"\nname = \n");
        assert!(told[0].starts_with("unstuck.toml:2:8: this is not TOML: "), "{told:?}");
        let told = problems("name = 'a'\nname = 'b'\n");
        assert!(told[0].starts_with("unstuck.toml:2:1: this is not TOML: duplicate key"), "{told:?}");
    }

    #[test]
    fn all_problems_are_told_at_once() {
        assert_eq!(problems("a1 = 1\n[limits]\nbody = true\nitems = 1.5\n").len(), 3);
    }

    #[test]
    fn a_file_sets_what_it_says() {
        let text = "listen = '[::1]:80'\nallowRun = true\nallowAddress = '10.0.0.0/8'\n[limits]\nbody = '8 MiB'\nbodyTime = 5\n";
        let values = parse("unstuck.toml", text).expect("it is fine");
        let mut told: Vec<(u32, String)> = values
            .iter()
            .map(|(setting, value, line)| (*line, format!("{} {}", setting.key, value.to_text())))
            .collect();
        told.sort();
        let told: Vec<String> = told.into_iter().map(|(line, what)| format!("{line} {what}")).collect();
        assert_eq!(
            told,
            [
                "1 listen [::1]:80",
                "2 allowRun true",
                "3 allowAddress 10.0.0.0/8",
                "5 limits.body 8 MiB",
                "6 limits.bodyTime 5s"
            ]
        );
    }
}

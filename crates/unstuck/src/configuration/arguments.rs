//! The flags of a server's settings, made from their table.

use std::path::PathBuf;
use std::sync::LazyLock;

use clap::builder::TypedValueParser;
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};

use crate::configuration::setting::{DefaultValue, Kind, Setting, Value};
use crate::configuration::table::{self, SETTINGS};

/// Settings that everybody needs to know; the others are in `--help` only.
static FIRST: &[&Setting] = &[
    &table::LISTEN,
    &table::STORE,
    &table::NAME,
    &table::ALLOW_RUN,
    &table::MAX_LOAD,
    &table::SECRETS,
    &table::ALLOW_ADDRESS,
    &table::TLS_CERT,
    &table::TLS_KEY,
];

/// What the command line sets.
#[derive(Clone, Debug, Default)]
pub(crate) struct SettingArguments {
    /// The configuration file that it names.
    pub(crate) file: Option<PathBuf>,
    pub(crate) given: Vec<(&'static Setting, Value)>,
}

impl clap::Args for SettingArguments {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new("config")
            .long("config")
            .value_name("PATH")
            .value_hint(clap::ValueHint::FilePath)
            .value_parser(clap::value_parser!(PathBuf))
            .help("The configuration file. [default: `$UNSTUCK_CONFIG`, else `unstuck/unstuck.toml` in the folder for user configuration, if it is there]");
        SETTINGS.iter().fold(command.arg(file), |command, setting| command.arg(build_flag(setting)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        SettingArguments::augment_args(command)
    }
}

impl FromArgMatches for SettingArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<SettingArguments, clap::Error> {
        let mut arguments = SettingArguments::default();
        arguments.update_from_arg_matches(matches)?;
        Ok(arguments)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.file = matches.get_one::<PathBuf>("config").cloned();
        for setting in SETTINGS.iter().copied() {
            let values: Vec<Value> =
                matches.get_many::<Value>(setting.key).into_iter().flatten().cloned().collect();
            self.given.extend(join_values(values).map(|value| (setting, value)));
        }
        Ok(())
    }
}

/// Makes one value of what a flag was given: lists are joined.
fn join_values(values: Vec<Value>) -> Option<Value> {
    let mut joined: Option<Value> = None;
    for value in values {
        joined = Some(match (joined, value) {
            (Some(Value::Texts(mut before)), Value::Texts(more)) => {
                before.extend(more);
                Value::Texts(before)
            }
            (_, value) => value,
        });
    }
    joined
}

/// The flags of all settings, in the order of their table: what the parser of arguments takes lives as long as the process.
static FLAGS: LazyLock<Vec<String>> =
    LazyLock::new(|| SETTINGS.iter().map(|setting| setting.flag()).collect());

fn flag_name(setting: &Setting) -> &'static str {
    let place = SETTINGS.iter().position(|other| std::ptr::eq(*other, setting));
    place.and_then(|place| FLAGS.get(place)).map_or(setting.key, String::as_str)
}

fn build_flag(setting: &'static Setting) -> Arg {
    let is_list = matches!(setting.kind, Kind::Networks);
    let is_first = FIRST.iter().any(|first| std::ptr::eq(*first, setting));
    let parser = clap::builder::StringValueParser::new().try_map(move |text: String| setting.parse(&text));
    let mut flag = Arg::new(setting.key)
        .long(flag_name(setting))
        .value_name(setting.kind.placeholder())
        .action(if is_list { ArgAction::Append } else { ArgAction::Set })
        .value_parser(parser)
        .hide_short_help(!is_first)
        .help(format!("{} {}", setting.about, describe_default(setting)));
    if let Kind::Flag = setting.kind {
        flag = flag.num_args(0..=1).require_equals(true).default_missing_value("true");
    }
    if let Kind::Path = setting.kind {
        flag = flag.value_hint(clap::ValueHint::AnyPath);
    }
    flag
}

fn describe_default(setting: &Setting) -> String {
    match setting.default {
        DefaultValue::Is("") => format!("[${}]", setting.variable()),
        DefaultValue::Is(default) => format!("[default: {default}] [${}]", setting.variable()),
        DefaultValue::Unset(means) => format!("[default: {means}] [${}]", setting.variable()),
    }
}

//! Shows a configuration: as a file that would set the same, each line with where its value came from, or as JSON.

use serde_json::{Value as Json, json};

use super::{Configuration, Held, Origin};
use crate::Format;
use crate::configuration::setting::DefaultValue;
use crate::view::json_text;

impl Configuration {
    /// Formats the whole configuration.
    pub(crate) fn format(&self, format: Format) -> String {
        match format {
            Format::Text => self.to_toml(),
            Format::Json => json_text::pretty(&self.to_json().to_string()),
        }
    }

    /// Writes it as a file: what is not set is a comment.
    fn to_toml(&self) -> String {
        let mut lines = vec![match &self.file {
            Some(path) => format!("# Read from {}", path.display()),
            None => "# No configuration file".to_owned(),
        }];
        let mut group = None;
        for held in &self.values {
            if held.setting.group() != group {
                group = held.setting.group();
                lines.extend([String::new(), format!("[{}]", group.unwrap_or_default())]);
            }
            lines.push(held.to_line());
        }
        lines.join("\n")
    }

    fn to_json(&self) -> Json {
        let settings: Vec<Json> = self.values.iter().map(Held::to_json).collect();
        json!({"file": self.file.as_ref().map(|path| path.display().to_string()), "settings": settings})
    }
}

impl Held {
    fn to_line(&self) -> String {
        let name = self.setting.key.rsplit('.').next().unwrap_or(self.setting.key);
        let line = match (&self.value, self.setting.default) {
            (Some(value), _) => format!("{name} = {}", value.to_toml()),
            (None, DefaultValue::Unset(means)) => return format!("# {name} is not set: {means}"),
            (None, DefaultValue::Is(_)) => return format!("# {name} is not set"),
        };
        format!("{line:<40} # {}", self.origin.place())
    }

    fn to_json(&self) -> Json {
        let value = match &self.value {
            Some(value) => value.to_json(),
            None => Json::Null,
        };
        let (source, line) = match &self.origin {
            Origin::Default => ("default", None),
            Origin::File(_, line) => ("file", Some(*line)),
            Origin::Variable(_) => ("variable", None),
            Origin::Flag(_) => ("flag", None),
        };
        json!({"key": self.setting.key, "value": value, "source": source, "place": self.origin.place(), "line": line})
    }
}

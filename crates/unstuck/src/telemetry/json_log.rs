//! The log as JSON: one object a line, with the time, the level, the part and the fields of the event.

use std::fmt::Debug;
use std::io::Write;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// Writes events to stderr.
pub(super) struct JsonLines;

impl<S: Subscriber> Layer<S> for JsonLines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = format_event(event, Timestamp::now());
        line.push('\n');
        // A closed stderr must not end a server.
        let _ = std::io::stderr().lock().write_all(line.as_bytes());
    }
}

fn format_event(event: &Event<'_>, now: Timestamp) -> String {
    let about = event.metadata();
    let mut fields = Fields(Map::new());
    fields.0.insert("at".to_owned(), json!(format!("{now:.3}")));
    fields.0.insert("level".to_owned(), json!(about.level().as_str().to_ascii_lowercase()));
    fields.0.insert("part".to_owned(), json!(about.target()));
    event.record(&mut fields);
    Value::Object(fields.0).to_string()
}

/// The fields of an event as JSON.
struct Fields(Map<String, Value>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), json!(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), json!(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().to_owned(), json!(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().to_owned(), json!(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.insert(field.name().to_owned(), json!(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name().to_owned(), json!(value));
    }
}

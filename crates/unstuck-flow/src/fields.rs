//! The fields of flow files, policy files and plan files, with their aliases.

/// A field that may be given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    /// The name in files and in everything that the project says.
    pub(crate) name: &'static str,
    /// Names from elsewhere that are understood too, besides the name with hyphens (`retry-strategy`).
    aliases: &'static [&'static str],
}

const fn field(name: &'static str) -> Field {
    Field { name, aliases: &[] }
}

const fn also(name: &'static str, aliases: &'static [&'static str]) -> Field {
    Field { name, aliases }
}

/// The fields of a flow.
pub(crate) const FLOW: &[Field] = &[
    field("flow"),
    field("version"),
    field("description"),
    field("input"),
    field("output"),
    field("deadline"),
    field("concurrency"),
    field("schedule"),
    field("defaults"),
    field("labels"),
    field("steps"),
];

/// The fields of a step.
pub(crate) const STEP: &[Field] = &[
    field("id"),
    field("action"),
    field("run"),
    field("http"),
    field("flow"),
    field("wait"),
    field("signal"),
    field("set"),
    field("emulate"),
    field("description"),
    field("type"),
    field("with"),
    field("needs"),
    field("if"),
    also("forEach", &["foreach"]),
    field("timeout"),
    field("startTimeout"),
    field("heartbeatTimeout"),
    field("queueTimeout"),
    field("maxStuck"),
    field("minimumDelay"),
    field("defer"),
    field("load"),
    field("priority"),
    field("retryStrategy"),
    field("maxAttempts"),
    also("backOff", &["backoff"]),
    field("failOnError"),
    also("exceptionHandler", &["exceptionHandlerWorkflow", "exception-handler-workflow"]),
];

/// The fields of `defaults`: those of a step that several steps can share.
pub(crate) const DEFAULTS: &[Field] = &[
    field("type"),
    field("timeout"),
    field("startTimeout"),
    field("heartbeatTimeout"),
    field("queueTimeout"),
    field("maxStuck"),
    field("minimumDelay"),
    field("defer"),
    field("load"),
    field("priority"),
    field("retryStrategy"),
    field("maxAttempts"),
    also("backOff", &["backoff"]),
    field("failOnError"),
    also("exceptionHandler", &["exceptionHandlerWorkflow", "exception-handler-workflow"]),
];

/// The fields of `backOff`.
pub(crate) const BACK_OFF: &[Field] =
    &[field("delay"), field("maxDelay"), field("multiplier"), field("random")];

/// The fields of a resume policy.
pub(crate) const POLICY: &[Field] = &[
    field("name"),
    field("id"),
    field("errorSubstring"),
    field("flow"),
    field("action"),
    field("actionType"),
    field("maxAttempts"),
    field("priority"),
    also("backOff", &["backoff"]),
    field("enabled"),
    field("includeFatal"),
];

/// The fields of `defer`.
pub(crate) const DEFER: &[Field] = &[field("delay"), field("multiplier"), field("maxDelay"), field("limit")];

/// The fields of `forEach`.
pub(crate) const FOR_EACH: &[Field] = &[field("items"), field("parallel"), field("maxItems")];

/// The fields of `concurrency`.
pub(crate) const CONCURRENCY: &[Field] = &[field("limit"), field("key"), field("strict")];

/// The fields of `schedule`.
pub(crate) const SCHEDULE: &[Field] = &[
    field("cron"),
    field("every"),
    also("timeZone", &["timezone", "zone"]),
    field("overlap"),
    also("catchUp", &["catchup"]),
    field("input"),
];

/// The fields of `catchUp`.
pub(crate) const CATCH_UP: &[Field] = &[field("limit"), field("within")];

/// The fields of `wait`, where it is for a time of day.
pub(crate) const WAIT: &[Field] = &[field("until"), field("zone"), field("days")];

/// The fields of `http`.
pub(crate) const HTTP: &[Field] =
    &[field("url"), field("method"), field("headers"), field("body"), field("on")];

/// The fields of `emulate`.
pub(crate) const EMULATE: &[Field] = &[
    field("sequence"),
    field("odds"),
    field("wait"),
    field("seed"),
    field("duration"),
    field("drag"),
    field("cause"),
    field("output"),
];

/// The fields of a plan.
pub(crate) const PLAN: &[Field] = &[
    field("plan"),
    field("description"),
    field("start"),
    field("every"),
    field("until"),
    field("input"),
    field("steps"),
    field("actions"),
    field("actionTypes"),
    field("outputs"),
    field("outages"),
    field("workers"),
    field("signals"),
    field("operator"),
];

/// The fields of what a plan says of a step.
pub(crate) const PLAN_RULE: &[Field] = &[
    field("sequence"),
    field("odds"),
    field("duration"),
    field("drag"),
    field("cause"),
    field("context"),
    field("reason"),
    field("output"),
];

/// The fields of one attempt in a plan: one behaviour, and what goes with it.
pub(crate) const PLAN_ACT: &[Field] = &[
    field("pass"),
    field("stall"),
    field("fail"),
    field("crash"),
    field("drag"),
    field("stick"),
    field("choke"),
    field("wait"),
    field("after"),
    field("cause"),
    field("context"),
    field("reason"),
    field("output"),
    field("times"),
];

/// The fields of an outage.
pub(crate) const OUTAGE: &[Field] = &[
    field("steps"),
    field("actions"),
    field("actionTypes"),
    field("from"),
    field("to"),
    field("for"),
    field("does"),
];

/// The fields of `workers`.
pub(crate) const WORKERS: &[Field] =
    &[field("count"), field("maxLoad"), field("restartAfter"), field("deaths")];

/// The fields of a worker's death.
pub(crate) const DEATH: &[Field] = &[field("at"), field("every"), field("worker"), field("restartAfter")];

/// The fields of a signal that a plan sends.
pub(crate) const PLAN_SIGNAL: &[Field] = &[field("name"), field("after"), field("payload")];

/// The fields of `operator`.
pub(crate) const OPERATOR: &[Field] = &[field("after"), field("choose"), field("resume"), field("times")];

/// The kinds of steps, as a step names them.
pub(crate) const KINDS: &[&str] = &["action", "run", "http", "flow", "wait", "signal", "set", "emulate"];

/// Words from other tools, and the field that is meant here.
const FOREIGN: &[(&str, &str)] = &[
    ("name", "id"),
    ("name", "flow"),
    ("dependsOn", "needs"),
    ("depends", "needs"),
    ("after", "needs"),
    ("when", "if"),
    ("condition", "if"),
    ("command", "run"),
    ("exec", "run"),
    ("shell", "run"),
    ("script", "run"),
    ("uses", "action"),
    ("task", "action"),
    ("activity", "action"),
    ("workflow", "flow"),
    ("sleep", "wait"),
    ("request", "http"),
    ("webhook", "http"),
    ("uri", "url"),
    ("endpoint", "url"),
    ("href", "url"),
    ("verb", "method"),
    ("data", "body"),
    ("json", "body"),
    ("payload", "body"),
    ("statuses", "on"),
    ("responses", "on"),
    ("input", "with"),
    ("arguments", "with"),
    ("parameters", "with"),
    ("retries", "maxAttempts"),
    ("loop", "forEach"),
    ("withItems", "forEach"),
    ("onError", "exceptionHandler"),
    ("continueOnError", "failOnError"),
    ("substring", "errorSubstring"),
    ("cause", "errorSubstring"),
    ("error", "errorSubstring"),
    ("errorCause", "errorSubstring"),
    ("message", "errorSubstring"),
    ("type", "actionType"),
    ("attempts", "maxAttempts"),
    ("delay", "backOff"),
    ("disabled", "enabled"),
    ("active", "enabled"),
    ("fatal", "includeFatal"),
    ("max", "maxDelay"),
    ("jitter", "random"),
];

impl Field {
    /// Lists every alias, the hyphenated form included.
    pub(crate) fn other_names(&self) -> Vec<String> {
        let hyphens = hyphenated(self.name);
        let own = (hyphens != self.name).then_some(hyphens);
        own.into_iter().chain(self.aliases.iter().map(|alias| (*alias).to_owned())).collect()
    }
}

/// Finds the field that a key means, by its name or an alias.
pub(crate) fn find(fields: &[Field], key: &str) -> Option<&'static str> {
    let field = fields
        .iter()
        .find(|field| field.name == key || field.aliases.contains(&key) || hyphenated(field.name) == key)?;
    Some(field.name)
}

/// Guesses the field that an unknown key was meant to be: a word of another tool, or the nearest spelling.
pub(crate) fn guess_field(fields: &[Field], key: &str) -> Option<&'static str> {
    let plain = |word: &str| word.replace(['-', '_'], "").to_lowercase();
    let known = |name: &&str| fields.iter().any(|field| field.name == *name);
    let foreign =
        FOREIGN.iter().filter(|(word, _)| plain(word) == plain(key)).map(|(_, name)| *name).find(known);
    foreign.or_else(|| crate::suggest::find_nearest(key, fields.iter().map(|field| field.name)))
}

/// `retryStrategy` as `retry-strategy`.
fn hyphenated(name: &str) -> String {
    name.chars().fold(String::new(), |mut text, letter| {
        if letter.is_ascii_uppercase() {
            text.push('-');
        }
        text.push(letter.to_ascii_lowercase());
        text
    })
}

/// Returns whether a field means anything for this kind of step.
pub(crate) fn has_meaning(field: &str, kind: &str) -> bool {
    match field {
        "queueTimeout" | "load" | "priority" | "defer" => is_executed(kind),
        // A request starts at once, and nobody but its server could say how far it is.
        "startTimeout" | "heartbeatTimeout" => is_executed(kind) && kind != "http",
        // The input of an `http` step is its request.
        "with" => (is_executed(kind) && kind != "http") || kind == "flow",
        "timeout" | "maxStuck" | "minimumDelay" | "retryStrategy" | "maxAttempts" | "backOff" => {
            kind != "set"
        }
        "forEach" => kind != "signal",
        _ => true,
    }
}

/// Returns whether steps of this kind take a field over from `defaults`. A shared `timeout` is for attempts: it must
/// not cut short a wait, a signal or a child without a timeout of its own.
pub(crate) fn takes_default(field: &str, kind: &str) -> bool {
    match field {
        "timeout" => is_executed(kind),
        _ => has_meaning(field, kind),
    }
}

/// Returns whether attempts of this kind are handed to an executor.
fn is_executed(kind: &str) -> bool {
    matches!(kind, "action" | "run" | "http" | "emulate")
}

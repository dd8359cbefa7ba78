//! Converts errors of the engine and the store to problem documents, with a type of the closed list.

use unstuck_api::policies::{PolicyDocument, RefusedDraft};
use unstuck_api::{ProblemDocument, ProblemPart, ProblemSubject, ProblemType, VoidToken};
use unstuck_core::api_token::TokenRefusal;
use unstuck_core::refusal::Refusal;
use unstuck_core::step_name::StepNameError;
use unstuck_core::time::Time;
use unstuck_engine::request::EngineError;
use unstuck_flow::{Problem, Severity};
use unstuck_store::contract::{PutFlowError, StoreError};

use crate::find_nearest;
use crate::service::ServiceError;

impl ServiceError {
    /// Builds the error of a request that cannot be carried out as it was given (`bad-request`).
    pub fn refused(sentence: impl Into<String>) -> ServiceError {
        ServiceError::new(ProblemType::BadRequest, sentence)
    }

    /// Builds the error of something that does not exist.
    pub fn not_found(sentence: impl Into<String>) -> ServiceError {
        ServiceError::new(ProblemType::NotFound, sentence)
    }

    /// Adds the kind and name of the thing that the error is about.
    #[must_use]
    pub(crate) fn named(mut self, what: &str, name: &str) -> ServiceError {
        if let ServiceError::Refused(problem) = &mut self {
            problem.about.what = Some(what.to_owned());
            problem.about.name = Some(name.to_owned());
        }
        self
    }

    /// Adds the names that may be meant.
    #[must_use]
    pub(crate) fn similar_to<'a>(mut self, name: &str, known: impl Iterator<Item = &'a str>) -> ServiceError {
        if let ServiceError::Refused(problem) = &mut self {
            problem.about.similar = find_nearest(name, known).map(str::to_owned).into_iter().collect();
        }
        self
    }

    /// Adds the flow that the error is about, and the version of it.
    #[must_use]
    pub(crate) fn of_flow(mut self, flow: &str, version: Option<&str>) -> ServiceError {
        if let ServiceError::Refused(problem) = &mut self {
            problem.about.flow = Some(flow.to_owned());
            problem.about.version = version.map(str::to_owned);
        }
        self
    }

    /// Builds the error of a name that has several meanings.
    pub fn ambiguous(sentence: impl Into<String>, candidates: Vec<String>) -> ServiceError {
        let mut problem = ProblemDocument::new(ProblemType::Ambiguous, sentence);
        problem.about.candidates = candidates;
        ServiceError::Refused(Box::new(problem))
    }

    /// Builds the error of something that is in another state.
    pub fn wrong_state(sentence: impl Into<String>) -> ServiceError {
        ServiceError::new(ProblemType::WrongState, sentence)
    }

    /// Builds the error of a cursor that is not from a page.
    pub fn bad_cursor(sentence: impl Into<String>) -> ServiceError {
        ServiceError::new(ProblemType::BadCursor, sentence)
    }

    /// Builds the error of a bug, or of bad stored data.
    pub fn internal(sentence: impl Into<String>) -> ServiceError {
        ServiceError::new(ProblemType::Internal, sentence)
    }

    /// Builds the error of policies that cannot be read, with the same sentences as for those that the core refuses.
    pub(crate) fn bad_policies(documents: &[PolicyDocument], refused: Vec<RefusedDraft>) -> ServiceError {
        let sentence = |bad: &RefusedDraft| {
            let name = documents.get(bad.place).map_or("", |document| &document.name);
            format!("policy `{name}`: {}; {}", bad.message, bad.hint)
        };
        let sentences: Vec<String> = refused.iter().map(sentence).collect();
        let parts = refused.into_iter().map(|bad| build_part(&bad.field, bad.message, &bad.hint));
        ServiceError::invalid(sentences.join("\n"), parts.collect())
    }

    /// Builds the error of a file of flows that cannot be used, with every problem and its place.
    pub(crate) fn bad_flows(problems: Vec<Problem>) -> ServiceError {
        let sentences: Vec<String> = problems.iter().map(ToString::to_string).collect();
        ServiceError::invalid(sentences.join("\n"), problems.into_iter().map(flow_part).collect())
    }

    /// Builds the error of an input with several faults, each with its field.
    fn invalid(sentence: String, parts: Vec<ProblemPart>) -> ServiceError {
        let mut problem = ProblemDocument::new(ProblemType::Invalid, sentence);
        problem.about.problems = parts;
        ServiceError::Refused(Box::new(problem))
    }

    fn new(kind: ProblemType, sentence: impl Into<String>) -> ServiceError {
        ServiceError::Refused(Box::new(ProblemDocument::new(kind, sentence)))
    }
}

/// Converts a problem with a file.
pub fn flow_part(problem: Problem) -> ProblemPart {
    ProblemPart {
        file: Some(problem.file),
        line: Some(problem.line),
        column: Some(problem.column),
        field: problem.field,
        message: problem.message,
        hint: problem.hint,
        severity: match problem.severity {
            Severity::Error => "error".to_owned(),
            Severity::Warning => "warning".to_owned(),
        },
        place: None,
    }
}

fn build_part(field: &str, message: String, hint: &str) -> ProblemPart {
    ProblemPart {
        file: None,
        line: None,
        column: None,
        field: field.to_owned(),
        message,
        hint: Some(hint.to_owned()).filter(|hint| !hint.is_empty()),
        severity: "error".to_owned(),
        place: None,
    }
}

impl From<EngineError> for ServiceError {
    fn from(error: EngineError) -> ServiceError {
        let sentence = error.to_string();
        let of = |kind| ServiceError::new(kind, sentence.clone());
        match error {
            EngineError::Stopped => ServiceError::Stopped,
            EngineError::Store(error) => error.into(),
            EngineError::Busy => {
                ServiceError::Unavailable(Box::new(ProblemDocument::new(ProblemType::Overloaded, sentence)))
            }
            EngineError::Refused(refusal) => refusal.into(),
            EngineError::UnknownFlow(name) => {
                let mut problem = ProblemDocument::new(ProblemType::NotFound, sentence);
                problem.about.what = Some("flow".to_owned());
                problem.about.name = Some(name.to_string());
                ServiceError::Refused(Box::new(problem))
            }
            EngineError::UnknownVersion { flow, version } => {
                of(ProblemType::NotFound).named("version", &version).of_flow(&flow, Some(&version))
            }
            EngineError::VersionTaken { flow, version } => {
                of(ProblemType::VersionTaken).of_flow(&flow, Some(&version))
            }
            EngineError::FlowInUse { flow, version, runs } => {
                let mut error = of(ProblemType::InUse).of_flow(&flow, version.as_deref());
                if let ServiceError::Refused(problem) = &mut error {
                    problem.about.runs = Some(runs);
                }
                error
            }
            EngineError::BadFlow(_) => of(ProblemType::Invalid),
            EngineError::BadPolicies(problems) => {
                let parts = problems
                    .into_iter()
                    .map(|bad| build_part(bad.problem.field, bad.problem.message, bad.problem.hint));
                ServiceError::invalid(sentence, parts.collect())
            }
            EngineError::BadBulk(_) => of(ProblemType::BadRequest),
            EngineError::NoSchedule(flow) => ServiceError::not_found(sentence).named("schedule", &flow),
            EngineError::NotFired(_) => of(ProblemType::Invalid),
            EngineError::BadToken(refusal) => token_problem(&refusal),
            EngineError::Changed(run) => {
                let mut problem = ProblemDocument::new(ProblemType::Changed, sentence);
                problem.about.run = Some(run.to_string());
                ServiceError::Refused(Box::new(problem))
            }
            EngineError::PoliciesChanged => of(ProblemType::Changed),
            EngineError::KeyReused(_) => of(ProblemType::IdempotencyKeyReused),
            // Whoever gives a key takes this for the answer.
            EngineError::Replayed(_) | EngineError::Damaged(_) | EngineError::Defect(_) => {
                of(ProblemType::Internal)
            }
        }
    }
}

/// Converts a refusal about tokens.
fn token_problem(refusal: &TokenRefusal) -> ServiceError {
    let of = |kind| ServiceError::new(kind, refusal.to_string());
    match refusal {
        TokenRefusal::Unknown(name) => of(ProblemType::NotFound).named("token", name),
        TokenRefusal::NameTaken(name) | TokenRefusal::Over(name) => {
            of(ProblemType::WrongState).named("token", name)
        }
        TokenRefusal::BadName(name) => of(ProblemType::BadRequest).named("token", name),
        TokenRefusal::Misfit { .. } | TokenRefusal::TooMany => of(ProblemType::BadRequest),
    }
}

impl From<StoreError> for ServiceError {
    fn from(error: StoreError) -> ServiceError {
        // Its owner is gone, as an engine is that has stopped: another one is asked, or the store is opened.
        if error == StoreError::Closed {
            return ServiceError::Stopped;
        }
        let problem = Box::new(ProblemDocument::new(problem_type(&error), error.to_string()));
        if error.is_transient() { ServiceError::Unavailable(problem) } else { ServiceError::Refused(problem) }
    }
}

/// Returns the problem type of a store error.
pub fn problem_type(error: &StoreError) -> ProblemType {
    match error {
        StoreError::Conflict(_) => ProblemType::Changed,
        StoreError::Full(_) => ProblemType::StoreFull,
        StoreError::Away(_) | StoreError::Closed => ProblemType::StoreAway,
        StoreError::Damaged(_) | StoreError::Broken(_) | StoreError::SessionEnded => ProblemType::Internal,
    }
}

impl From<PutFlowError> for ServiceError {
    fn from(error: PutFlowError) -> ServiceError {
        let sentence = error.to_string();
        match error {
            PutFlowError::Store(error) => error.into(),
            PutFlowError::VersionTaken { name, version } => {
                let mut problem = ProblemDocument::new(ProblemType::VersionTaken, sentence);
                problem.about.flow = Some(name.to_string());
                problem.about.version = Some(version.to_string());
                ServiceError::Refused(Box::new(problem))
            }
        }
    }
}

impl From<StepNameError> for ServiceError {
    fn from(wrong: StepNameError) -> ServiceError {
        match wrong {
            StepNameError::Malformed(sentence) => ServiceError::refused(sentence),
            StepNameError::NotFound(sentence) => ServiceError::not_found(sentence),
            StepNameError::Ambiguous(sentence) => ServiceError::ambiguous(sentence, Vec::new()),
            StepNameError::WrongState(sentence) => ServiceError::wrong_state(sentence),
        }
    }
}

impl From<Refusal> for ServiceError {
    fn from(refusal: Refusal) -> ServiceError {
        ServiceError::Refused(Box::new(to_problem_document(&refusal)))
    }
}

/// Converts a refusal to a problem document.
fn to_problem_document(refusal: &Refusal) -> ProblemDocument {
    let kind = ProblemType::of(refusal.code()).unwrap_or(ProblemType::Internal);
    ProblemDocument { about: refusal_subject(refusal), ..ProblemDocument::new(kind, refusal.to_string()) }
}

/// Returns what a refusal is about as fields, so that programs need not read the sentence.
fn refusal_subject(refusal: &Refusal) -> ProblemSubject {
    let some = |text: &dyn ToString| Some(text.to_string());
    let number = |n: usize| u64::try_from(n).ok();
    let nothing = ProblemSubject::default;
    match refusal {
        Refusal::UnknownRun(run) => {
            ProblemSubject { what: some(&"run"), name: some(run), run: some(run), ..nothing() }
        }
        Refusal::UnknownUnit(unit) => {
            ProblemSubject { what: some(&"step"), name: some(unit), step: some(unit), ..nothing() }
        }
        Refusal::Final(state) => ProblemSubject { state: some(&state.word()), ..nothing() },
        Refusal::Void(void) => ProblemSubject {
            step: some(&void.unit),
            void: Some(VoidToken {
                attempt: void.attempt,
                since: void.since.map(Time::timestamp),
                why: void.why.clone(),
            }),
            ..nothing()
        },
        Refusal::WrongState { unit, is, wanted, .. } => {
            ProblemSubject { step: some(unit), state: some(is), wanted: some(wanted), ..nothing() }
        }
        Refusal::WrongRunState { is, .. } => ProblemSubject { state: some(&is.word()), ..nothing() },
        Refusal::BelongsTo { run, parent }
        | Refusal::RerunOfChild { run, parent }
        | Refusal::AmendOfChild { run, parent } => {
            ProblemSubject { run: some(run), parent: some(parent), ..nothing() }
        }
        Refusal::CannotMigrate(cannot) => ProblemSubject {
            step: cannot.step.clone(),
            version: some(&cannot.version),
            problems: vec![build_part("to", cannot.why.clone(), "")],
            ..nothing()
        },
        Refusal::PastDeadline { .. } => ProblemSubject { what: some(&"deadline"), ..nothing() },
        Refusal::KeyTaken { key, run, theirs, ours } => ProblemSubject {
            key: some(key),
            run: some(run),
            theirs: some(theirs),
            ours: some(ours),
            ..nothing()
        },
        Refusal::KeyExists { key, run } => ProblemSubject { key: some(key), run: some(run), ..nothing() },
        Refusal::BadName { what, bytes, max } => {
            ProblemSubject { what: some(what), bytes: number(*bytes), max: number(*max), ..nothing() }
        }
        Refusal::TooManyLabels { max, .. } => {
            ProblemSubject { what: some(&"labels"), max: number(*max), ..nothing() }
        }
        Refusal::LongReason { max, .. } => {
            ProblemSubject { what: some(&"reason"), max: number(*max), ..nothing() }
        }
        Refusal::BadInput(problems) => ProblemSubject {
            problems: problems.iter().map(|message| input_part(message)).collect(),
            ..nothing()
        },
        Refusal::TooManySignals { name, max } | Refusal::TooManySignalNames { name, max } => {
            ProblemSubject { name: some(name), max: number(*max), ..nothing() }
        }
        Refusal::TooLarge { what, bytes, max } => {
            ProblemSubject { what: some(what), bytes: number(*bytes), max: number(*max), ..nothing() }
        }
    }
}

fn input_part(message: &str) -> ProblemPart {
    ProblemPart {
        file: None,
        line: None,
        column: None,
        field: "input".to_owned(),
        message: message.to_owned(),
        hint: None,
        severity: "error".to_owned(),
        place: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use unstuck_core::id::RunId;
    use unstuck_core::model::run::RunState;
    use unstuck_core::refusal::Void;

    use super::*;

    #[test]
    fn every_refusal_has_a_type_of_the_list_and_tells_what_it_is_about() {
        let run = RunId(1);
        let name = "run_0000000000001";
        let void = Void {
            unit: "a".to_owned(),
            attempt: 2,
            since: Some(Time(0)),
            why: "w".to_owned(),
            holds_now: None,
        };
        let cases = [
            (Refusal::UnknownRun(run), "not-found", json!({"run": name, "what": "run", "name": name})),
            (
                Refusal::UnknownUnit("a".to_owned()),
                "not-found",
                json!({"step": "a", "what": "step", "name": "a"}),
            ),
            (Refusal::Final(RunState::Failed), "final", json!({"state": "failed"})),
            (
                Refusal::Void(Box::new(void)),
                "void-token",
                json!({"step": "a", "void": {"attempt": 2, "since": "1970-01-01T00:00:00.000Z", "why": "w"}}),
            ),
            (
                Refusal::WrongState { unit: "a".to_owned(), is: "completed", wanted: "held", hint: "h" },
                "wrong-state",
                json!({"step": "a", "state": "completed", "wanted": "held"}),
            ),
            (
                Refusal::WrongRunState { is: RunState::Held, asked: "be rerun", hint: "h" },
                "wrong-state",
                json!({"state": "held"}),
            ),
            (
                Refusal::BelongsTo { run, parent: RunId(2) },
                "belongs-to-run",
                json!({"run": name, "parent": "run_0000000000002"}),
            ),
            (
                Refusal::KeyTaken { key: "k".into(), run, theirs: "t".into(), ours: "o".into() },
                "key-taken",
                json!({"key": "k", "run": name, "theirs": "t", "ours": "o"}),
            ),
            (Refusal::KeyExists { key: "k".into(), run }, "key-taken", json!({"key": "k", "run": name})),
        ];
        check(&cases);
    }

    #[test]
    fn values_that_do_not_fit_are_told_with_their_bounds() {
        let cases = [
            (
                Refusal::BadName { what: "the key", bytes: 300, max: 255 },
                "bad-request",
                json!({"what": "the key", "bytes": 300, "max": 255}),
            ),
            (
                Refusal::TooManyLabels { labels: 40, max: 32 },
                "bad-request",
                json!({"what": "labels", "max": 32}),
            ),
            (
                Refusal::LongReason { characters: 2_000, max: 1_000 },
                "bad-request",
                json!({"what": "reason", "max": 1_000}),
            ),
            (
                Refusal::BadInput(vec!["n: 1 is no text".to_owned()]),
                "invalid",
                json!({"problems": [{"field": "input", "message": "n: 1 is no text", "hint": null, "severity": "error"}]}),
            ),
            (
                Refusal::TooManySignals { name: "go".into(), max: 100 },
                "too-many-signals",
                json!({"name": "go", "max": 100}),
            ),
            (
                Refusal::TooManySignalNames { name: "go".into(), max: 100 },
                "too-many-signals",
                json!({"name": "go", "max": 100}),
            ),
            (
                Refusal::TooLarge { what: "the output", bytes: 9, max: 8 },
                "too-large",
                json!({"what": "the output", "bytes": 9, "max": 8}),
            ),
        ];
        check(&cases);
    }

    fn check(cases: &[(Refusal, &str, Value)]) {
        for (refusal, slug, about) in cases {
            let ServiceError::Refused(problem) = ServiceError::from(refusal.clone()) else {
                panic!("{refusal}")
            };
            assert_eq!((problem.kind.slug(), problem.detail.clone()), (*slug, refusal.to_string()));
            assert_eq!(problem.status, problem.kind.status());
            let written: Value = serde_json::to_value(&problem.about).expect("it can be written");
            assert_eq!(written, *about, "{refusal}");
        }
    }

    #[test]
    fn troubles_of_the_store_and_of_the_engine_have_types_too() {
        let text = || "it".to_owned();
        let cases = [
            (EngineError::Store(StoreError::Conflict(text())), Some(("changed", true))),
            (EngineError::Store(StoreError::Full(text())), Some(("store-full", true))),
            (EngineError::Store(StoreError::Away(text())), Some(("store-away", true))),
            (EngineError::Store(StoreError::Broken(text())), Some(("internal", false))),
            (EngineError::Damaged(text()), Some(("internal", false))),
            (EngineError::Defect(text()), Some(("internal", false))),
            (EngineError::UnknownFlow("f".into()), Some(("not-found", false))),
            (
                EngineError::UnknownVersion { flow: "f".into(), version: "2".into() },
                Some(("not-found", false)),
            ),
            (
                EngineError::VersionTaken { flow: "f".into(), version: "2".into() },
                Some(("version-taken", false)),
            ),
            (EngineError::FlowInUse { flow: "f".into(), version: None, runs: 3 }, Some(("in-use", false))),
            (EngineError::BadFlow(text()), Some(("invalid", false))),
            (EngineError::BadBulk(text()), Some(("bad-request", false))),
            (EngineError::NoSchedule("f".into()), Some(("not-found", false))),
            (EngineError::NotFired(text().into()), Some(("invalid", false))),
            (EngineError::BadToken(TokenRefusal::Unknown("t".into())), Some(("not-found", false))),
            (EngineError::BadToken(TokenRefusal::NameTaken("t".into())), Some(("wrong-state", false))),
            (EngineError::BadToken(TokenRefusal::TooMany), Some(("bad-request", false))),
            (EngineError::Changed(RunId(1)), Some(("changed", false))),
            (EngineError::PoliciesChanged, Some(("changed", false))),
            (EngineError::KeyReused("k".into()), Some(("idempotency-key-reused", false))),
            (EngineError::Busy, Some(("overloaded", true))),
            (EngineError::Stopped, None),
        ];
        for (error, wanted) in cases {
            let sentence = error.to_string();
            let found = match ServiceError::from(error) {
                ServiceError::Refused(problem) => Some((problem.kind.slug(), false, problem.detail)),
                ServiceError::Unavailable(problem) => Some((problem.kind.slug(), true, problem.detail)),
                ServiceError::Stopped => None,
            };
            assert_eq!(found, wanted.map(|(slug, later)| (slug, later, sentence)));
        }
    }
}

//! Policy files: parses text into policy drafts, with the position of every problem, and formats policies as text.

mod export;
mod read;

use std::collections::BTreeMap;
use std::sync::Arc;

use unstuck_api::policies::PolicyDocument;
use unstuck_core::policy::{Policy, PolicyDraft};

use crate::parse;
use crate::problem::{Problem, Problems, Severity};
use crate::tree::Position;

pub use crate::schema::policy_schema as schema;
pub use export::{document, document_of_draft, export_json, export_yaml, to_yaml};

/// What a file gave.
#[derive(Debug)]
pub struct LoadedPolicies {
    /// Its policies, in the order of the file. Each is right by itself.
    pub policies: Vec<LoadedPolicy>,
    /// What is only suspicious.
    pub warnings: Vec<Problem>,
}

/// A policy, and where each of its fields is written.
#[derive(Clone, Debug)]
pub struct LoadedPolicy {
    /// As it was written.
    pub draft: PolicyDraft,
    file: Arc<str>,
    at: Position,
    fields: BTreeMap<&'static str, Position>,
}

/// Loads a file with one or more policies: YAML documents, a JSON object, or a list of either.
///
/// `file` is the name shown in problems. A file loads as a whole or not at all, and every problem is reported at once.
pub fn load(text: &str, file: &str) -> Result<LoadedPolicies, Vec<Problem>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut problems = Problems::new(file, text);
    let Some(documents) = parse::parse_documents(&mut problems) else { return Err(problems.into_sorted()) };
    if documents.is_empty() {
        problems.error(Position::START, "", "the file contains no policy").hint(
            "start with `name: <name>`, then what it matches (such as `errorSubstring`) and its `backOff`",
        );
    }
    let policies: Vec<LoadedPolicy> =
        documents.iter().filter_map(|document| read::read_policy(document, file, &mut problems)).collect();
    refuse_duplicate_policies(&policies, &mut problems);
    if problems.any_error() {
        return Err(problems.into_sorted());
    }
    Ok(LoadedPolicies { policies, warnings: problems.into_sorted() })
}

/// Reads a policy that came as a document by the rules of policy files.
pub fn read_document(document: &PolicyDocument) -> Result<PolicyDraft, Vec<Problem>> {
    // Serialisation fails only for maps with non-string keys, which a document does not have.
    let text = serde_json::to_string(document).unwrap_or_default();
    let loaded = load(&text, "policy")?;
    loaded.policies.into_iter().next().map(|policy| policy.draft).ok_or_else(Vec::new)
}

impl LoadedPolicy {
    /// Builds a problem that was found later, at the position of its field.
    pub fn problem(&self, field: &str, message: impl Into<String>, hint: impl Into<String>) -> Problem {
        let at = self.position_of_field(field);
        Problem {
            file: self.file.to_string(),
            line: at.line,
            column: at.column,
            field: field.to_owned(),
            message: message.into(),
            hint: Some(hint.into()),
            severity: Severity::Error,
        }
    }

    /// Returns where a field is written, or the object that it belongs to.
    fn position_of_field(&self, field: &str) -> Position {
        let outer = field.split('.').next().unwrap_or(field);
        *self.fields.get(field).or_else(|| self.fields.get(outer)).unwrap_or(&self.at)
    }
}

/// Refuses policies of one file that share a name or id, or match the same errors.
fn refuse_duplicate_policies(policies: &[LoadedPolicy], problems: &mut Problems<'_>) {
    let unnamed: Arc<str> = Arc::from("");
    let checked: Vec<Option<Policy>> =
        policies.iter().map(|policy| policy.draft.check(&unnamed, 0).ok()).collect();
    for (place, later) in policies.iter().enumerate() {
        let before = || policies[..place].iter().zip(&checked);
        let mut tell = |field: &str, message: String, hint: &str| {
            problems.error(later.position_of_field(field), field, message).hint(hint);
        };
        let same_name =
            |other: &LoadedPolicy| later.draft.name.is_some() && other.draft.name == later.draft.name;
        if let Some((first, _)) = before().find(|(other, _)| same_name(other)) {
            let (name, line) = (later.draft.name.as_deref().unwrap_or_default(), first.at.line);
            let message = format!("the name `{name}` is already used by the policy on line {line}");
            tell("name", message, "give each policy its own name");
        }
        let same_id = |other: &LoadedPolicy| later.draft.id.is_some() && other.draft.id == later.draft.id;
        if let Some((first, _)) = before().find(|(other, _)| same_id(other)) {
            let message = format!("this id is already used by the policy on line {}", first.at.line);
            tell("id", message, "remove the id, and a new one is generated");
        }
        let Some(policy) = &checked[place] else { continue };
        let alike = |other: &Option<Policy>| {
            other.as_ref().is_some_and(|other| {
                other.criteria == policy.criteria && other.max_attempts == policy.max_attempts
            })
        };
        if let Some((first, _)) = before().find(|(_, other)| alike(other)) {
            let (name, line) = (first.draft.name.as_deref().unwrap_or_default(), first.at.line);
            let message =
                format!("it has the same criteria and `maxAttempts` as policy `{name}` on line {line}");
            tell("errorSubstring", message, "only one of the two can ever apply: change or remove one");
        }
    }
}

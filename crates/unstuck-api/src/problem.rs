//! Problem documents (RFC 9457): why a request was refused or could not be answered, with a type of a closed list.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How the types begin; a server answers there with a page about them.
const PATH: &str = "/problems/";

macro_rules! types {
    ($(#[doc = $doc:literal] $name:ident $slug:literal $status:literal $title:literal;)*) => {
        /// What kind of problem it is: a closed list.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ProblemType {
            $(#[doc = $doc] $name,)*
        }

        impl ProblemType {
            /// All of them.
            pub const ALL: &[ProblemType] = &[$(ProblemType::$name),*];

            /// Its name, such as `wrong-state`.
            pub fn slug(self) -> &'static str {
                match self { $(ProblemType::$name => $slug,)* }
            }

            /// The status of an HTTP answer with it.
            pub fn status(self) -> u16 {
                match self { $(ProblemType::$name => $status,)* }
            }

            /// When it comes up, in a few words.
            pub fn meaning(self) -> &'static str {
                match self { $(ProblemType::$name => $doc.trim_ascii(),)* }
            }

            /// The same for every problem of the type.
            pub fn title(self) -> &'static str {
                match self { $(ProblemType::$name => $title,)* }
            }
        }
    };
}

types! {
    /// Not JSON, an unknown or wrong field, a bad parameter, wrong usage.
    BadRequest "bad-request" 400 "The request is not understood";
    /// A cursor that is not ours, too old, or of other filters.
    BadCursor "bad-cursor" 400 "This is not the end of a page";
    /// An attempt token that was never ours.
    BadToken "bad-token" 400 "This is not a token of an attempt";
    /// No token, or one that is unknown, expired or revoked.
    Unauthenticated "unauthenticated" 401 "A valid token is needed";
    /// The role, action or flow is not the token's.
    Forbidden "forbidden" 403 "The token does not allow this";
    /// Switched off here.
    NotEnabled "not-enabled" 403 "This is switched off here";
    /// A thing that is not there.
    NotFound "not-found" 404 "There is no such thing";
    /// By the rules of HTTP.
    MethodNotAllowed "method-not-allowed" 405 "The method is not allowed here";
    /// By the rules of HTTP.
    NotAcceptable "not-acceptable" 406 "No form of the answer is acceptable";
    /// The run never changes again.
    Final "final" 409 "The run is final";
    /// The step or run is in another state.
    WrongState "wrong-state" 409 "It is not in a state that allows this";
    /// A child or handler.
    BelongsToRun "belongs-to-run" 409 "The run belongs to another one";
    /// The key has a run already.
    KeyTaken "key-taken" 409 "The key is taken";
    /// The same flow version with other content.
    VersionTaken "version-taken" 409 "The version of the flow is taken";
    /// Open runs need it.
    InUse "in-use" 409 "It is in use";
    /// A name that several things share.
    Ambiguous "ambiguous" 409 "The name means several things";
    /// So many wait unconsumed.
    TooManySignals "too-many-signals" 409 "Too many signals wait";
    /// The attempt is no longer the worker's.
    VoidToken "void-token" 409 "The attempt is no longer yours";
    /// Forgotten.
    Gone "gone" 410 "It is gone";
    /// It changed meanwhile.
    Changed "changed" 412 "It has changed in the meantime";
    /// A body or payload.
    TooLarge "too-large" 413 "It is too large";
    /// By the rules of HTTP.
    UnsupportedMediaType "unsupported-media-type" 415 "The type of the body is not supported";
    /// Well-formed, but it cannot be: flows, policies, inputs against their schema.
    Invalid "invalid" 422 "It is not valid";
    /// The key stands for another request.
    IdempotencyKeyReused "idempotency-key-reused" 422 "The idempotency key stands for another request";
    /// The rate of a token.
    TooMany "too-many" 429 "Too many requests";
    /// A fault of ours, or of the disk.
    Internal "internal" 500 "Something is wrong with Unstuck or with its data";
    /// Too much waits.
    Overloaded "overloaded" 503 "Too much is waiting";
    /// The disk is full.
    StoreFull "store-full" 503 "The store is full";
    /// The store cannot be reached, or whoever has it open does not answer.
    StoreAway "store-away" 503 "The store cannot be reached";
    /// The process stops, or has stopped.
    Stopping "stopping" 503 "The process stops";
}

impl ProblemType {
    /// The type of this name.
    pub fn of(slug: &str) -> Option<ProblemType> {
        ProblemType::ALL.iter().copied().find(|kind| kind.slug() == slug)
    }
}

impl Serialize for ProblemType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{PATH}{}", self.slug()))
    }
}

impl<'de> Deserialize<'de> for ProblemType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ProblemType, D::Error> {
        let text = String::deserialize(deserializer)?;
        let kind = text.strip_prefix(PATH).and_then(ProblemType::of);
        kind.ok_or_else(|| serde::de::Error::custom(format_args!("`{text}` is no type of problem")))
    }
}

/// A problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProblemDocument {
    /// `/problems/` and the name of the type.
    #[serde(rename = "type")]
    pub kind: ProblemType,
    /// The same for every problem of the type.
    pub title: String,
    /// The status of an HTTP answer with it.
    pub status: u16,
    /// In a sentence: what is wrong, and what to do.
    pub detail: String,
    /// What it is about, for programs.
    #[serde(flatten)]
    pub about: ProblemSubject,
}

/// What a problem is about. What does not belong to its type, or is not known, is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProblemSubject {
    /// The request that it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The step or item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The state that the step is in, or the run if there is no step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The state that it would have to be in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wanted: Option<String>,
    /// The run that the run belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The digest of the input that the run of the key has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub theirs: Option<String>,
    /// The digest of the input that was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ours: Option<String>,
    /// The flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
    /// The version of the flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What kind of thing is not there, or which part is too large.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub what: Option<String>,
    /// The name of what is not there, or of the signal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How many open runs need it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<u64>,
    /// How large it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// How large it may be, or how many there may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u64>,
    /// The ids that an ambiguous name may mean; the first ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<String>,
    /// Names that are alike, where one is not there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub similar: Vec<String>,
    /// The roles that would be enough.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// The setting that switches it on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setting: Option<String>,
    /// What is allowed instead.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<String>,
    /// What it is now, where it has changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    /// After so many milliseconds the same may succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// Why a token is void.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub void: Option<VoidToken>,
    /// Everything that is wrong with what was given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<ProblemPart>,
}

/// An attempt that is no longer the worker's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VoidToken {
    /// The attempt that the token named.
    pub attempt: u32,
    /// When it was lost, if that is still known.
    #[serde(default, with = "crate::json_form::optional_time")]
    pub since: Option<Timestamp>,
    /// Why, in a sentence.
    pub why: String,
}

/// One thing that is wrong in what was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProblemPart {
    /// The file, where it is in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// In characters, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    /// The path of the field; empty where it is the whole.
    pub field: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
    /// `error` or `warning`.
    pub severity: String,
    /// Which of several policies it is about, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<usize>,
}

impl ProblemDocument {
    /// A problem of this type, in a sentence.
    pub fn new(kind: ProblemType, detail: impl Into<String>) -> ProblemDocument {
        ProblemDocument {
            kind,
            title: kind.title().to_owned(),
            status: kind.status(),
            detail: detail.into(),
            about: ProblemSubject::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_read_as_it_was_written() {
        for kind in ProblemType::ALL.iter().copied() {
            let mut problem = ProblemDocument::new(kind, "it cannot be");
            problem.about.run = Some("run_0s87q8xnr0000".to_owned());
            let json = serde_json::to_string(&problem).expect("it can be written");
            let wanted = format!(
                r#"{{"type":"/problems/{}","title":"{}","status":{},"detail":"it cannot be","run":"run_0s87q8xnr0000"}}"#,
                kind.slug(),
                kind.title(),
                kind.status()
            );
            assert_eq!(json, wanted);
            assert_eq!(serde_json::from_str::<ProblemDocument>(&json).expect("it can be read"), problem);
        }
    }
}

//! One request as its handler sees it.

use std::borrow::Cow;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName, header};
use sha2::{Digest, Sha256};
use unstuck_api::ProblemType;
use unstuck_core::event::Actor;
use unstuck_engine::call::{AuditContext, Call as EngineCall, PolicyMark, RunMark};
use unstuck_service::Service;
use unstuck_store::contract::{CallOrigin, IdempotencyKey};

use crate::access::Caller;
use crate::app::App;
use crate::parameter::Parameters;
use crate::problem::Problem;
use crate::receive::ReceivedBody;
use crate::route::Verb;

/// Events from there on miss nothing that a read does not show yet.
pub(crate) const EVENTS_HEADER: HeaderName = HeaderName::from_static("unstuck-events");
/// What a command that is to be typed needs to find this server, such as ` --server URL`. It goes back to whoever sent it, and is used for
/// nothing else.
const OPTION: HeaderName = HeaderName::from_static("unstuck-option");
/// Characters of it, at most.
const LONGEST_OPTION: usize = 4_200;

/// A request that is known to be allowed, with its parameters read and its body arrived.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) app: Arc<App>,
    pub(crate) caller: Caller,
    pub(crate) verb: Verb,
    /// Path and query, as they came.
    pub(crate) target: String,
    /// The id of the request.
    pub(crate) id: String,
    pub(crate) path: Vec<(String, String)>,
    pub(crate) parameters: Parameters,
    pub(crate) headers: HeaderMap,
    pub(crate) body: ReceivedBody,
}

impl Call {
    /// Returns a part of the path by the name that its route gives it.
    pub(crate) fn part(&self, name: &str) -> &str {
        self.path.iter().find(|(other, _)| other == name).map_or("", |(_, value)| value)
    }

    /// Returns whom a change is recorded under.
    pub(crate) fn by(&self) -> String {
        self.caller.shown_name()
    }

    /// Returns the service, which writes commands to be typed as the caller has to type them.
    pub(crate) fn service(&self) -> Result<Cow<'_, Service>, Problem> {
        let Some(given) = self.header(&OPTION)? else { return Ok(Cow::Borrowed(&self.app.service)) };
        let option: String = form_urlencoded::parse(given.as_bytes()).map(|(option, _)| option).collect();
        if option.len() > LONGEST_OPTION || option.chars().any(char::is_control) {
            return Err(Problem::new(
                ProblemType::BadRequest,
                format!(
                    "`{OPTION}` is an option of commands, URL-encoded, of at most {LONGEST_OPTION} characters"
                ),
            ));
        }
        Ok(Cow::Owned(Service { option, ..self.app.service.clone() }))
    }

    /// Returns how many things of a list are wanted.
    pub(crate) fn limit(&self, default: usize) -> usize {
        self.parameters
            .number("limit")
            .map_or(default, |limit| usize::try_from(limit).unwrap_or(default).max(1))
    }

    /// Returns whether the caller would rather have an answer of this type than JSON.
    pub(crate) fn accepts(&self, kind: &str) -> bool {
        let accepted = self.headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
        accepted.is_some_and(|accepted| {
            accepted.split(',').any(|part| part.split(';').next().is_some_and(|part| part.trim() == kind))
        })
    }

    /// Returns the text of a header; one that is no text is refused.
    pub(crate) fn header(&self, name: &HeaderName) -> Result<Option<&str>, Problem> {
        let Some(value) = self.headers.get(name) else { return Ok(None) };
        value.to_str().map(Some).map_err(|_| {
            Problem::new(
                ProblemType::BadRequest,
                format!("the header `{name}` has characters that are not allowed"),
            )
        })
    }
}

/// Names a change, so that it is carried out once however often it comes.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Characters of such a key, at most.
const LONGEST_KEY: usize = 255;

impl Call {
    /// Returns what comes with a change: its key, its condition, and what the audit is told.
    pub(crate) fn context(&self, reason: Option<String>) -> Result<EngineCall, Problem> {
        let by = Actor::User(self.caller.name.clone());
        let origin = CallOrigin {
            user: self.caller.user.clone(),
            from: Some(self.caller.peer.to_string().into()),
            request_id: Some(self.id.as_str().into()),
        };
        let audit = Some(AuditContext { by, reason: reason.map(Arc::from), origin });
        self.check_condition()?;
        Ok(EngineCall {
            expected: self.expected()?,
            expected_policies: self.expected_policies()?,
            idempotency: self.idempotency_key()?,
            audit,
        })
    }

    /// Reads `Idempotency-Key`. A key stands for all that the request says.
    pub(crate) fn idempotency_key(&self) -> Result<Option<IdempotencyKey>, Problem> {
        let Some(key) = self.header(&IDEMPOTENCY_KEY)? else { return Ok(None) };
        if !(1..=LONGEST_KEY).contains(&key.len()) || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Problem::new(
                ProblemType::BadRequest,
                format!("`Idempotency-Key` has 1 to {LONGEST_KEY} visible characters without spaces"),
            ));
        }
        let scope = match &self.caller.token {
            Some(token) => token.id.to_string(),
            None => "local".to_owned(),
        };
        let mut digest = Sha256::new();
        for part in [self.verb.word().as_bytes(), self.target.as_bytes(), &self.body.bytes] {
            digest.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
            digest.update(part);
        }
        Ok(Some(IdempotencyKey { scope: scope.into(), key: key.into(), digest: digest.finalize().into() }))
    }

    /// Reads `If-Match` on a change of a run: how it was when the caller saw it.
    fn expected(&self) -> Result<Option<RunMark>, Problem> {
        if !self.path.iter().any(|(name, _)| name == "run") {
            return Ok(None);
        }
        let Some(mark) = self.if_match()? else { return Ok(None) };
        let read = mark.split_once('.').and_then(|(generation, seq)| {
            Some(RunMark { generation: generation.parse().ok()?, seq: seq.parse().ok()? })
        });
        read.map(Some).ok_or_else(|| bad_condition("the `ETag` of the run"))
    }

    /// Reads `If-Match` on a change of policies: how the set, or the one that is named, was when the caller saw it.
    fn expected_policies(&self) -> Result<Option<PolicyMark>, Problem> {
        if !self.target.starts_with("/v1/policies") {
            return Ok(None);
        }
        let Some(mark) = self.if_match()? else { return Ok(None) };
        let read = match mark.split_once('.') {
            Some((id, version)) => {
                version.parse().ok().map(|version| PolicyMark::One { id: id.into(), version })
            }
            None => mark.parse().ok().map(PolicyMark::Set),
        };
        read.map(Some).ok_or_else(|| bad_condition("the `ETag` of a policy, or of the list of all"))
    }

    /// Refuses a condition on what has none: it would not be kept.
    fn check_condition(&self) -> Result<(), Problem> {
        let has_tag =
            self.path.iter().any(|(name, _)| name == "run") || self.target.starts_with("/v1/policies");
        if has_tag || self.if_match()?.is_none() {
            return Ok(());
        }
        Err(Problem::new(
            ProblemType::BadRequest,
            "`If-Match` takes the `ETag` of a run or of policies, on changes of these",
        ))
    }

    /// Returns the tag of `If-Match`, without quotes. Something that is no tag is none that fits.
    fn if_match(&self) -> Result<Option<&str>, Problem> {
        let given = self.header(&header::IF_MATCH)?.map(str::trim).filter(|given| *given != "*");
        Ok(given.map(|given| given.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or("")))
    }
}

fn bad_condition(wanted: &str) -> Problem {
    Problem::new(ProblemType::BadRequest, format!("`If-Match` takes {wanted}, as it was given"))
}

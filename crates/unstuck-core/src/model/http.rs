//! The `http` steps: what the status of a response means for the attempt.

use crate::model::error::Reason;

/// What a response makes of its attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpOutcome {
    Completed,
    Stalled,
    Failed,
    Deferred,
}

impl HttpOutcome {
    /// Every outcome.
    pub const ALL: [HttpOutcome; 4] =
        [HttpOutcome::Completed, HttpOutcome::Stalled, HttpOutcome::Failed, HttpOutcome::Deferred];

    /// Returns the word for it.
    pub fn word(self) -> &'static str {
        match self {
            HttpOutcome::Completed => "completed",
            HttpOutcome::Stalled => "stalled",
            HttpOutcome::Failed => "failed",
            HttpOutcome::Deferred => "deferred",
        }
    }
}

/// Statuses that an `on` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusPattern {
    /// Such as `409`.
    Exactly(u16),
    /// Such as `5xx`: the first digit.
    Class(u16),
}

impl StatusPattern {
    /// Parses `409` or `5xx`; nothing for what is no status.
    pub fn parse(text: &str) -> Option<StatusPattern> {
        if let Some(class) = text.strip_suffix("xx").or_else(|| text.strip_suffix("XX")) {
            let class = class.parse().ok().filter(|_| class.len() == 1)?;
            return (2..=5).contains(&class).then_some(StatusPattern::Class(class));
        }
        let status = text.parse().ok().filter(|_| text.len() == 3)?;
        (200..=599).contains(&status).then_some(StatusPattern::Exactly(status))
    }
}

/// What the `on` of a step says about statuses, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusRules(pub Vec<(StatusPattern, HttpOutcome)>);

impl StatusRules {
    /// Returns what a status means: as the step says, an exact status before a class, or else as everywhere.
    pub fn outcome(&self, status: u16, has_retry_after: bool) -> HttpOutcome {
        self.given(status).unwrap_or_else(|| default_outcome(status, has_retry_after))
    }

    /// Returns what the step itself says about a status. A redirect that it says something about is not followed.
    pub fn given(&self, status: u16) -> Option<HttpOutcome> {
        let find =
            |wanted| self.0.iter().find(|(pattern, _)| *pattern == wanted).map(|(_, outcome)| *outcome);
        find(StatusPattern::Exactly(status)).or_else(|| find(StatusPattern::Class(status / 100)))
    }
}

/// What a status means where a step does not say.
fn default_outcome(status: u16, has_retry_after: bool) -> HttpOutcome {
    match status {
        200..=299 => HttpOutcome::Completed,
        429 => HttpOutcome::Deferred,
        503 if has_retry_after => HttpOutcome::Deferred,
        // The request did not arrive in time, or came too early: the same one may succeed.
        408 | 425 => HttpOutcome::Stalled,
        500.. => HttpOutcome::Stalled,
        _ => HttpOutcome::Failed,
    }
}

/// Returns who is to blame for an error with this status: 400 and 422 say that the request itself is wrong.
pub fn reason(status: u16) -> Reason {
    if matches!(status, 400 | 422) { Reason::Data } else { Reason::Processing }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_statuses_or_classes() {
        let cases = [
            ("409", Some(StatusPattern::Exactly(409))),
            ("200", Some(StatusPattern::Exactly(200))),
            ("599", Some(StatusPattern::Exactly(599))),
            ("5xx", Some(StatusPattern::Class(5))),
            ("2XX", Some(StatusPattern::Class(2))),
            ("199", None),
            ("600", None),
            ("1xx", None),
            ("6xx", None),
            ("50x", None),
            ("+40", None),
            ("0409", None),
            ("xx", None),
            ("", None),
            ("ok", None),
        ];
        for (text, expected) in cases {
            assert_eq!(StatusPattern::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn a_status_means_what_the_step_says_or_else_what_it_means_everywhere() {
        use HttpOutcome::{Completed, Deferred, Failed, Stalled};
        let none = StatusRules::default();
        let rules: Vec<(StatusPattern, HttpOutcome)> =
            [("4xx", Stalled), ("409", Completed), ("5xx", Failed), ("304", Completed)]
                .into_iter()
                .filter_map(|(text, outcome)| Some((StatusPattern::parse(text)?, outcome)))
                .collect();
        let rules = StatusRules(rules);
        let cases = [
            (200, false, Completed, Completed),
            (204, false, Completed, Completed),
            (299, true, Completed, Completed),
            (301, false, Failed, Failed),
            (304, false, Failed, Completed),
            (400, false, Failed, Stalled),
            (401, false, Failed, Stalled),
            (404, true, Failed, Stalled),
            (408, false, Stalled, Stalled),
            (409, false, Failed, Completed),
            (422, false, Failed, Stalled),
            (425, false, Stalled, Stalled),
            (429, false, Deferred, Stalled),
            (429, true, Deferred, Stalled),
            (500, false, Stalled, Failed),
            (500, true, Stalled, Failed),
            (503, false, Stalled, Failed),
            (503, true, Deferred, Failed),
            (599, false, Stalled, Failed),
        ];
        for (status, retry_after, by_default, by_rule) in cases {
            assert_eq!(none.outcome(status, retry_after), by_default, "{status}");
            assert_eq!(rules.outcome(status, retry_after), by_rule, "{status}");
        }
        assert_eq!(
            [400, 401, 404, 422, 500].map(reason).map(Reason::word),
            ["data", "processing", "processing", "data", "processing"]
        );
    }
}

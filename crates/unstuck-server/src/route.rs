//! A route: what may be called, by whom, with what, and which function answers.

use std::future::Future;
use std::pin::Pin;

use crate::access::Access;
use crate::answer::Answer;
use crate::body::BodyKind;
use crate::call::Call;
use crate::parameter::Parameter;
use crate::pressure::Load;
use crate::problem::Problem;

/// What a handler gives back.
pub(crate) type Answered = Result<Answer, Problem>;

/// A future on the heap, so that handlers can stand in a table.
pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The function that answers.
#[derive(Clone, Copy)]
pub(crate) enum Handler {
    /// Reads; it may block, and waits its turn.
    Query(fn(&Call) -> Answered),
    /// Changes something; it may block, and waits its turn among changes.
    Change(fn(&Call) -> Answered),
    /// Blocks nothing.
    Async(fn(Call) -> BoxFuture<Answered>),
    /// Needs nothing but memory.
    Direct(fn(&Call) -> Answered),
}

/// The method of a request. Ours, because the table is made at compile time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verb {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

impl Verb {
    /// Returns the word for it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Verb::Get => "GET",
            Verb::Post => "POST",
            Verb::Put => "PUT",
            Verb::Patch => "PATCH",
            Verb::Delete => "DELETE",
        }
    }

    /// Returns whether such a request changes nothing by its nature.
    pub(crate) fn is_read(self) -> bool {
        self == Verb::Get
    }
}

/// Operations that may look at much, or take long.
const HEAVY: &[&str] = &[
    "streamEvents",
    "countRuns",
    "getHistory",
    "getLogs",
    "listErrors",
    "listAudit",
    "previewPolicies",
    "backtestPolicies",
];

/// One line of the table of routes.
#[derive(Clone, Copy)]
pub(crate) struct Route {
    pub(crate) verb: Verb,
    pub(crate) path: &'static str,
    pub(crate) access: Access,
    /// The name of the operation, for generated clients.
    pub(crate) operation: &'static str,
    pub(crate) about: &'static str,
    pub(crate) parameters: &'static [Parameter],
    pub(crate) body: BodyKind,
    /// The type of the body, by its name among the schemas.
    pub(crate) takes: Option<&'static str>,
    /// The status and the type of the answer, by its name among the schemas.
    pub(crate) gives: (u16, Option<&'static str>),
    /// Other answers that are no problems.
    pub(crate) others: &'static [OtherAnswer],
    pub(crate) handler: Handler,
}

impl Route {
    pub(crate) const fn new(
        verb: Verb,
        path: &'static str,
        access: Access,
        operation: &'static str,
        handler: Handler,
    ) -> Route {
        Route {
            verb,
            path,
            access,
            operation,
            about: "",
            parameters: &[],
            body: BodyKind::Nothing,
            takes: None,
            gives: (200, None),
            others: &[],
            handler,
        }
    }

    /// Returns when the route is given up under pressure.
    pub(crate) fn load(&self) -> Load {
        if HEAVY.contains(&self.operation) {
            return Load::Heavy;
        }
        match self.handler {
            Handler::Async(_) if self.operation.starts_with("startRun") => Load::Start,
            Handler::Change(_) => Load::Operator,
            Handler::Async(_) | Handler::Query(_) | Handler::Direct(_) => Load::Light,
        }
    }

    pub(crate) const fn about(self, about: &'static str) -> Route {
        Route { about, ..self }
    }

    pub(crate) const fn with(self, parameters: &'static [Parameter]) -> Route {
        Route { parameters, ..self }
    }

    pub(crate) const fn takes(self, body: BodyKind, schema: &'static str) -> Route {
        Route { body, takes: Some(schema), ..self }
    }

    /// Answers 204.
    pub(crate) const fn gives_nothing(self) -> Route {
        Route { gives: (204, None), ..self }
    }

    pub(crate) const fn gives(self, status: u16, schema: &'static str) -> Route {
        Route { gives: (status, Some(schema)), ..self }
    }

    pub(crate) const fn or(self, others: &'static [OtherAnswer]) -> Route {
        Route { others, ..self }
    }
}

/// An answer that is neither the usual one of a route nor a problem.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OtherAnswer {
    pub(crate) status: u16,
    /// Empty where there is no body.
    pub(crate) media: &'static str,
    /// Of JSON, by its name among the schemas.
    pub(crate) schema: Option<&'static str>,
}

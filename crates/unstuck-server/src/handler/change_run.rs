//! What operators do to one run. Each answers with the run as it is then.

use serde_json::value::RawValue;
use unstuck_api::ProblemType;
use unstuck_api::http::{
    AcknowledgeBody, AmendBody, ChooseBody, CompleteBody, KeySignalBody, MigrateBody, ReasonBody, RerunBody,
    RerunWhat, ResumeBody, SignalBody, SkipBody,
};
use unstuck_api::request::{AmendRequest, Request, RerunOptions, RerunScope, RunOperation, RunRequest};
use unstuck_service::run_name::find_run;
use unstuck_service::set_aside::find_flow_name;

use crate::call::Call;
use crate::problem::Problem;
use crate::route::Answered;

pub(crate) fn resume(call: &Call) -> Answered {
    let ResumeBody { step, input, step_input, reason } = call.json()?;
    let (input, step_input) = (input.as_deref().map(text_of), step_input.as_deref().map(text_of));
    call.change(RunOperation::Resume { step, reason, input, step_input })
}

pub(crate) fn acknowledge(call: &Call) -> Answered {
    let AcknowledgeBody { step, reason } = call.json()?;
    call.change(RunOperation::Acknowledge { step, reason })
}

pub(crate) fn choose(call: &Call) -> Answered {
    let ChooseBody { step, choice, reason } = call.json()?;
    call.change_for(RunOperation::Choose { step, choice }, reason)
}

pub(crate) fn complete(call: &Call) -> Answered {
    let CompleteBody { step, output, reason } = call.json()?;
    call.change(RunOperation::Complete { step, output: text_or_null(output), reason })
}

pub(crate) fn skip(call: &Call) -> Answered {
    let SkipBody { step, reason } = call.json()?;
    call.change(RunOperation::Skip { step, reason })
}

pub(crate) fn pause(call: &Call) -> Answered {
    let ReasonBody { reason } = call.json()?;
    call.change(RunOperation::Pause { reason })
}

pub(crate) fn unpause(call: &Call) -> Answered {
    let ReasonBody { reason } = call.json()?;
    call.change_for(RunOperation::Unpause, reason)
}

pub(crate) fn cancel(call: &Call) -> Answered {
    let ReasonBody { reason } = call.json()?;
    call.change(RunOperation::Cancel { reason })
}

pub(crate) fn amend(call: &Call) -> Answered {
    let AmendBody { priority, labels, deadline, reason } = call.json()?;
    call.change(RunOperation::Amend(AmendRequest { priority, labels, deadline, reason }))
}

pub(crate) fn migrate(call: &Call) -> Answered {
    let MigrateBody { to, reason } = call.json()?;
    let dry_run = call.parameters.flag("dryRun").unwrap_or(false);
    call.change(RunOperation::Migrate { to, dry_run, reason })
}

pub(crate) fn signal(call: &Call) -> Answered {
    let SignalBody { name, payload } = call.json()?;
    call.change(RunOperation::Signal { name, payload: text_or_null(payload) })
}

/// Sends a signal to the run of a key.
pub(crate) fn signal_key(call: &Call) -> Answered {
    let KeySignalBody { flow, key, name, payload } = call.json()?;
    call.caller.check_flow(&flow)?;
    let found = call.app.reader().run_of_key(&flow, &key)?;
    let run = found.ok_or_else(|| {
        let mut problem = unstuck_api::ProblemDocument::new(
            ProblemType::NotFound,
            format!("flow `{flow}` has no run with the key `{key}`; start it first"),
        );
        problem.about.what = Some("run".to_owned());
        problem.about.name = Some(key.clone());
        problem.about.state = Some("unknown".to_owned());
        Problem::from(problem)
    })?;
    call.change_run(run.to_string(), RunOperation::Signal { name, payload: text_or_null(payload) }, None)
}

pub(crate) fn rerun(call: &Call) -> Answered {
    let RerunBody { what, steps, input, step_input, cancel_first, deadline, reason } = call.json()?;
    let dry_run = call.parameters.flag("dryRun").unwrap_or(false);
    let again = match what.unwrap_or(RerunWhat::Continue) {
        RerunWhat::Steps if steps.is_empty() => {
            return Err(Problem::bad_field("steps", "name at least one step, or use `what: continue`"));
        }
        RerunWhat::Steps => RerunScope::Steps(steps),
        RerunWhat::Continue | RerunWhat::All if !steps.is_empty() => {
            return Err(Problem::bad_field("steps", "steps go with `what: steps` only"));
        }
        RerunWhat::Continue => RerunScope::Continue,
        RerunWhat::All => RerunScope::All,
    };
    let what = RunOperation::Rerun {
        again,
        input: input.as_deref().map(text_of),
        step_input: step_input.as_deref().map(text_of),
        options: RerunOptions { cancel_first, deadline, dry_run },
    };
    call.change_for(what, reason)
}

pub(crate) fn forget(call: &Call) -> Answered {
    call.change(RunOperation::Forget)
}

impl Call {
    /// Does something to the run that the path names.
    fn change(&self, what: RunOperation) -> Answered {
        self.change_run(self.part("run").to_owned(), what, None)
    }

    /// The same, with a reason that only the audit has a place for.
    fn change_for(&self, what: RunOperation, reason: Option<String>) -> Answered {
        self.change_run(self.part("run").to_owned(), what, reason)
    }

    fn change_run(&self, run: String, what: RunOperation, reason: Option<String>) -> Answered {
        let by = self.by();
        if self.caller.is_limited() {
            self.check_flow_of(&run)?;
        }
        self.change_because(&Request::Change(RunRequest { run, by, what }), reason)
    }

    /// Refuses a run of a flow that is not the token's.
    pub(crate) fn check_flow_of(&self, run: &str) -> Result<(), Problem> {
        let (reader, flows) = (self.app.reader(), &self.app.service.flows);
        let id = find_run(reader, flows, run)?;
        let found = reader.run(id)?;
        let Some(found) = found else { return Ok(()) };
        let (flow, _) = find_flow_name(reader, flows, found.flow)?;
        self.caller.check_flow(&flow)
    }
}

pub(crate) fn text_of(json: &RawValue) -> String {
    json.get().to_owned()
}

pub(crate) fn text_or_null(json: Option<Box<RawValue>>) -> String {
    json.map_or_else(|| "null".to_owned(), |json| text_of(&json))
}

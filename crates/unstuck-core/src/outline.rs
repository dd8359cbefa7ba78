//! What can be decided about a run whose flow can no longer be compiled: its cancellation, and that what comes for a run
//! that has ended is stale. Both need the names and the number of the steps, and nothing of what they do.

use std::sync::Arc;

use crate::command::{Command, NoticeBody};
use crate::json::Json;
use crate::model::expression::Template;
use crate::model::flow::{Flow, GraphNode, Kind, RunKind, Step};
use crate::model::recovery::{Defer, Limits, RetryStrategy};
use crate::model::run::Run;

/// Returns whether `command` can be decided on `run` with only the [outline](Flow::outline) of its flow: it ends the
/// run, or finds that it has ended. An outline cannot tell what comes next.
pub fn can_decide_by_outline(run: &Run, command: &Command) -> bool {
    match command {
        Command::Cancel { .. } => true,
        Command::Report { .. }
        | Command::Lost { .. }
        | Command::Claim { .. }
        | Command::Admit
        | Command::Due { .. } => run.is_final(),
        Command::Notice(notice) => match &**notice {
            NoticeBody::CancelChild { serves } => run.is_final() || run.origin.serves() == Some(*serves),
            NoticeBody::PauseChild
            | NoticeBody::UnpauseChild
            | NoticeBody::AmendChild { .. }
            | NoticeBody::ChildChanged { .. }
            | NoticeBody::ChildEnded { .. } => run.is_final(),
            NoticeBody::TargetEnded { .. } => true,
            NoticeBody::StartChild(_) | NoticeBody::ContinueChild { .. } => false,
        },
        Command::Start(_)
        | Command::Choose { .. }
        | Command::Resume { .. }
        | Command::Acknowledge { .. }
        | Command::Complete { .. }
        | Command::Skip { .. }
        | Command::ApplyPolicies { .. }
        | Command::Pause { .. }
        | Command::Unpause { .. }
        | Command::Amend { .. }
        | Command::Migrate { .. }
        | Command::Signal { .. }
        | Command::Rerun { .. } => false,
    }
}

impl Flow {
    /// Builds a flow from the kept names of its steps, without what they do, for a flow that can no longer be compiled.
    /// If the names do not fit the run, the steps get numbers.
    pub fn outline(run: &Run, name: Arc<str>, version: Arc<str>, steps: Option<&[Arc<str>]>) -> Flow {
        let steps = steps.filter(|steps| steps.len() == run.steps.len());
        let ids = (0..run.steps.len()).map(|place| match steps {
            Some(steps) => steps[place].clone(),
            None => format!("#{place}").into(),
        });
        let steps: Vec<Step> = ids.map(|id| build_outline_step(&name, id)).collect();
        Flow {
            id: run.flow,
            name,
            version,
            description: None,
            input: None,
            output: None,
            deadline: None,
            concurrency: None,
            schedule: None,
            kind: RunKind::Graph,
            labels: std::collections::BTreeMap::new(),
            dependents: vec![Vec::new(); steps.len()],
            steps,
            source: "".into(),
            directory: "".into(),
        }
    }
}

/// Builds a step that does nothing, so that the outline has as many steps as the run.
fn build_outline_step(flow: &str, id: Arc<str>) -> Step {
    Step {
        full_action: format!("{flow}.{id}").into(),
        id,
        kind: Kind::Set(Template::Fixed(Json::NULL)),
        action_type: None,
        node: GraphNode::default(),
        limits: Limits::default(),
        defer: Defer::default(),
        load: 1,
        priority: 0,
        retry: RetryStrategy::None,
        fail_on_error: true,
        exception_handler: None,
        queue: "".into(),
    }
}

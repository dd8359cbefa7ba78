//! How deep a run stands below its root, and through which flows: children and handlers may not be nested without end.

use std::fmt::Write as _;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::model::run::{Origin, Run};

/// How deep children and handlers may be nested by default.
pub const MAX_NESTING: u32 = 32;

/// How many flows of a long chain are kept and shown at each end.
const KEPT_AT_EACH_END: usize = 4;

/// Where a child or handler stands below its root run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nesting {
    /// How many runs stand above it; 1 for the child of a root run.
    pub depth: u32,
    /// The flows of those, from the root down; of a long chain the first and the last few.
    pub flows: Vec<Arc<str>>,
}

impl Nesting {
    /// Returns the nesting of a child or handler of `parent`, which is a run of `flow`.
    pub fn below(parent: &Run, flow: &Arc<str>) -> Nesting {
        let mut flows = match (&parent.nesting, &parent.origin) {
            (Some(nesting), _) => nesting.flows.clone(),
            (None, Origin::Root) => Vec::new(),
            // A child from an older store, which did not record its nesting.
            (None, Origin::Child { .. } | Origin::Handler { .. }) => vec![parent.root_flow.clone()],
        };
        flows.push(flow.clone());
        if flows.len() > 2 * KEPT_AT_EACH_END {
            flows.remove(KEPT_AT_EACH_END);
        }
        Nesting { depth: depth_of(parent).saturating_add(1), flows }
    }

    /// Refuses a run of `flow` that would be nested deeper than `max`.
    pub fn check(&self, flow: &str, max: u32) -> Result<(), String> {
        if self.depth <= max {
            return Ok(());
        }
        Err(format!(
            "`{flow}` would be at nesting depth {}, over the limit of {max}: {}; a flow that starts itself \
             needs a condition that ends the chain",
            self.depth,
            self.chain(flow)
        ))
    }

    /// Lists the flows from the root down to a run of `flow`, shortened in the middle.
    fn chain(&self, flow: &str) -> String {
        let left_out = (self.depth as usize).saturating_sub(self.flows.len());
        let mut chain = String::new();
        for (place, name) in self.flows.iter().enumerate() {
            if place == KEPT_AT_EACH_END && left_out > 0 {
                let _ = write!(chain, "({left_out} more) > ");
            }
            let _ = write!(chain, "{name} > ");
        }
        chain.push_str(flow);
        chain
    }
}

/// Returns how many runs are above this one, as far as an older store knows it.
fn depth_of(run: &Run) -> u32 {
    match (&run.nesting, &run.origin) {
        (Some(nesting), _) => nesting.depth,
        (None, Origin::Root) => 0,
        (None, Origin::Child { .. } | Origin::Handler { .. }) => 1,
    }
}

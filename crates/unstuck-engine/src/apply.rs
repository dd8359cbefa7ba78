//! Policies are applied to what is in error already: a bulk action like any other, which acts at once.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use unstuck_core::bulk::{Bulk, BulkAction, Pace};
use unstuck_core::decide::check_texts;
use unstuck_core::event::Actor;
use unstuck_core::id::{BulkId, RunId};
use unstuck_core::model::unit::UnitRef;
use unstuck_core::policy::{ApplyPlan, names_of};

use crate::bulk::FrozenOrder;
use crate::call::Call;
use crate::request::EngineError;
use crate::runtime::Handle;
use crate::trials::each_open;

/// The first wait before it is looked at again, and the longest.
const FIRST_LOOK: Duration = Duration::from_millis(1);
const LONGEST_LOOK: Duration = Duration::from_millis(20);

/// What is in error, by run and unit.
type Targets = Vec<(RunId, Option<UnitRef>)>;

/// What came of applying policies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplyResult {
    /// The bulk action that did it; none where nothing was to be moved.
    pub bulk: Option<BulkId>,
    /// Steps that a policy will resume now, or at another time than before.
    pub moved: u64,
    /// Steps that were scheduled, and that no policy takes any more.
    pub unscheduled: u64,
    /// Steps that are as they were.
    pub unchanged: u64,
    /// Why policies that were named do not take steps that they are about.
    pub plan: ApplyPlan,
}

impl Handle {
    /// Matches what is in error now with the policies again, or with those of these names only, and waits until all of it
    /// is matched. What would be due already is resumed from now on, at most `rate` steps a second.
    pub fn apply(
        &self,
        only: Option<Vec<Arc<str>>>,
        rate: u32,
        by: &Actor,
    ) -> Result<ApplyResult, EngineError> {
        self.apply_as(only, rate, (by, None), Call::default())
    }

    /// What applying policies would come to now, as far as the open errors tell. Nothing is changed.
    pub fn plan_apply(&self, only: Option<Vec<Arc<str>>>) -> Result<ApplyPlan, EngineError> {
        self.find_open_to_match(only).map(|(plan, _)| plan)
    }

    /// Finds what is in error and is to be matched with the policies again.
    fn find_open_to_match(&self, only: Option<Vec<Arc<str>>>) -> Result<(ApplyPlan, Targets), EngineError> {
        let (policies, _) = self.policies_now()?;
        let only = only.map(|given| names_of(&policies, &given)).transpose();
        let mut plan = ApplyPlan::new(only.map_err(EngineError::BadPolicies)?);
        let mut targets = Targets::new();
        let mut errors = self;
        each_open(&mut errors, |page| {
            let taken = page.iter().filter(|error| plan.takes(&policies, error));
            targets.extend(taken.map(|error| (error.record.run, Some(error.record.unit))));
            Ok(())
        })?;
        Ok((plan, targets))
    }

    /// The same as [`Handle::apply`], with why and with what comes with the request.
    pub fn apply_as(
        &self,
        only: Option<Vec<Arc<str>>>,
        rate: u32,
        (by, reason): (&Actor, Option<Arc<str>>),
        call: Call,
    ) -> Result<ApplyResult, EngineError> {
        check_texts(by, reason.as_deref())?;
        let (plan, targets) = self.find_open_to_match(only)?;
        let only = plan.only.clone();
        let words = match only.as_deref() {
            None => "all policies".to_owned(),
            Some([one]) => format!("policy {one}"),
            Some(several) => format!("policies {}", several.join(", ")),
        };
        let order = FrozenOrder {
            action: BulkAction::ApplyPolicies { only },
            words: words.into(),
            pace: Pace { rate, canary: None },
            by: by.clone(),
            reason,
            left_out: 0,
            call: Arc::new(call),
        };
        let unchanged = plan.unchanged;
        let Some(begun) = self.begin_with(order, targets)? else {
            return Ok(ApplyResult { unchanged, plan, ..ApplyResult::default() });
        };
        let counts = self.wait_until_it_rests(begun.id)?.counts;
        Ok(ApplyResult {
            bulk: Some(begun.id),
            moved: counts.passed,
            unscheduled: counts.unscheduled,
            // A run that has gone on meanwhile, or is gone, has nothing to be moved.
            unchanged: unchanged + counts.unchanged + counts.refused,
            plan,
        })
    }

    /// Waits until a bulk action does nothing more by itself, and gives it as it stands, without a visit to the engine's
    /// thread.
    fn wait_until_it_rests(&self, id: BulkId) -> Result<Bulk, EngineError> {
        let mut wait = FIRST_LOOK;
        loop {
            // Before it is looked at: what was done until then is seen.
            let is_stopped = self.is_stopped();
            let Some(bulk) = self.reader().bulk(id)? else {
                return Err(EngineError::BadBulk(format!("there is no bulk action {id}")));
            };
            if bulk.due().is_none() {
                return Ok(bulk);
            }
            if let Some(error) = self.trouble() {
                return Err(error.into());
            }
            if is_stopped {
                return Err(EngineError::Stopped);
            }
            thread::sleep(wait);
            wait = (wait * 2).min(LONGEST_LOOK);
        }
    }
}

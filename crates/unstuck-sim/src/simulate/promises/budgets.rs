//! Which rung had to act after an attempt, with which numbers: climbed again from the history, beside the engine.

use unstuck_core::event::{Choice, Event, Fact, UnitFact};
use unstuck_core::model::attempt::{Cancelled, Outcome, ResumedBy, StuckLimit};
use unstuck_core::model::error::Error;
use unstuck_core::model::flow::{Flow, Step};
use unstuck_core::model::recovery::RetryStrategy;
use unstuck_core::model::run::{Origin, Phase, Run};
use unstuck_core::model::unit::{UnitRef, UnitState};
use unstuck_core::policy::{PassedPolicy, PassedReason, Policy, PolicyRef};
use unstuck_core::time::{Millis, Time};

use super::policy_choice::{EndedInError, PolicyHistory, delays, first_match};
use super::recount::Recount;
use super::{Broken, Promise};

/// One event, while its facts about one unit are looked at.
pub(super) struct Climb<'a> {
    /// The run before the event.
    pub(super) before: &'a Run,
    pub(super) flow: &'a Flow,
    pub(super) event: &'a Event,
    /// When it was, paced, and what its run has taken in of corrections of the clock.
    pub(super) at: Time,
    pub(super) clock: i64,
    pub(super) in_force: &'a PolicyHistory,
}

/// What had to follow.
#[derive(Debug, PartialEq)]
enum Rung<'p> {
    Retry,
    Held,
    Ignored,
    Scheduled(&'p Policy),
    LeftInError,
    Failed,
}

impl Climb<'_> {
    /// Looks at the fact at this place, before it is counted.
    pub(super) fn check(
        &self,
        place: usize,
        unit: UnitRef,
        fact: &UnitFact,
        recount: &Recount,
    ) -> Result<(), Broken> {
        match fact {
            UnitFact::Ended { outcome, .. } => self.check_end(place, unit, outcome, recount),
            UnitFact::Retry { .. } => self.check_retry(unit, fact, recount),
            UnitFact::Requeued { .. } => self.check_anew(unit, fact, recount),
            UnitFact::Deferred { .. } => self.check_deferral(unit, fact, recount),
            UnitFact::Scheduled { .. } => self.check_schedule(unit, fact, recount),
            UnitFact::PassedOver { policies } => self.check_passed(unit, policies, recount),
            UnitFact::LeftInError => self.check_rest(place, unit, recount),
            UnitFact::Resumed { by: ResumedBy::Policy, .. } => self.check_resume(unit),
            UnitFact::Chosen { choice: Choice::None, .. } => {
                let goes_on = !self.step(unit).fail_on_error;
                let follows = self.follows(place, unit);
                let is_right = if goes_on {
                    follows == Some(&UnitFact::Ignored)
                } else {
                    follows == Some(&UnitFact::Failed)
                };
                if is_right {
                    Ok(())
                } else {
                    self.wrong(unit, "an operator chose `none`, and that was not done")
                }
            }
            _ => Ok(()),
        }
    }

    fn step(&self, unit: UnitRef) -> &Step {
        self.flow.step(unit.step)
    }

    fn wrong<T>(&self, unit: UnitRef, what: impl Into<String>) -> Result<T, Broken> {
        self.broken(Promise::Budgets, unit, what)
    }

    fn broken<T>(&self, promise: Promise, unit: UnitRef, what: impl Into<String>) -> Result<T, Broken> {
        let name = unstuck_core::decide::unit_name(self.flow, unit);
        let what = format!("event {}, step `{name}`: {}", self.event.seq, what.into());
        Err(Broken::of(promise, self.before.id, what))
    }

    /// The next fact about the unit in this event.
    fn follows(&self, place: usize, unit: UnitRef) -> Option<&UnitFact> {
        self.event.facts[place + 1..].iter().find_map(|fact| match fact {
            Fact::Unit { fact: UnitFact::PassedOver { .. }, .. } => None,
            Fact::Unit { unit: other, fact } if *other == unit => Some(fact),
            _ => None,
        })
    }

    /// Whether the run was failing when the fact at this place became true.
    fn is_failing(&self, place: usize) -> bool {
        let reran = self.event.facts[..place].iter().any(|fact| matches!(fact, Fact::Reran { .. }));
        // A run that begins with this event is shown as the event leaves it.
        let is_first = self.event.seq == 1;
        (!reran && !is_first && matches!(self.before.phase, Phase::Failing(_)))
            || self.event.facts[..place].iter().any(|fact| matches!(fact, Fact::Failing { .. }))
    }

    fn check_end(
        &self,
        place: usize,
        unit: UnitRef,
        outcome: &Outcome,
        recount: &Recount,
    ) -> Result<(), Broken> {
        let follows = self.follows(place, unit);
        let is_failing = self.is_failing(place);
        match outcome {
            Outcome::Stalled(error) => self.check_rung(place, unit, error, false, recount),
            Outcome::Failed(error) => {
                if self.event.by == unstuck_core::event::Actor::Engine
                    && error.cause.starts_with("stuck: ")
                    && !is_failing
                    && recount.stuck + 1 < self.step(unit).limits.max_stuck
                    && !matches!(self.step(unit).kind, unstuck_core::model::flow::Kind::Child(_))
                {
                    let max = self.step(unit).limits.max_stuck;
                    return self
                        .wrong(unit, format!("given up after {} of {max} times stuck", recount.stuck + 1));
                }
                self.check_rung(place, unit, error, true, recount)
            }
            Outcome::Stuck(stuck) => {
                if stuck.free && (stuck.limit != StuckLimit::Gone || recount.losses > 0) {
                    return self.wrong(unit, "only the first loss of its worker in a round is free");
                }
                let used = recount.stuck + u32::from(!stuck.free);
                let max = self.step(unit).limits.max_stuck;
                if !stuck.free && used >= max && !is_failing {
                    return self.wrong(unit, format!("stuck {used} times of {max}, and not given up"));
                }
                let is_right = if is_failing {
                    is_closed(follows)
                } else {
                    matches!(follows, Some(UnitFact::Requeued { .. }))
                };
                if is_right { Ok(()) } else { self.wrong(unit, format!("after stuck comes {follows:?}")) }
            }
            Outcome::Deferred { .. } => {
                let is_right = if is_failing {
                    is_closed(follows)
                } else {
                    matches!(follows, Some(UnitFact::Deferred { .. }))
                };
                if is_right { Ok(()) } else { self.wrong(unit, format!("after deferred comes {follows:?}")) }
            }
            Outcome::Cancelled(Cancelled::Released) if !is_failing => {
                let again = matches!(follows, Some(UnitFact::Queued { place, .. }) if place.front);
                if again { Ok(()) } else { self.wrong(unit, "what was released is not back at the front") }
            }
            Outcome::Cancelled(_) if is_closed(follows) => Ok(()),
            Outcome::Cancelled(_) => self.wrong(unit, format!("after cancelled comes {follows:?}")),
            Outcome::Completed(_) if follows.is_none() => Ok(()),
            Outcome::Completed(_) => self.wrong(unit, format!("after completed comes {follows:?}")),
        }
    }

    /// The first rung that acts ends the climb.
    fn check_rung(
        &self,
        place: usize,
        unit: UnitRef,
        error: &Error,
        fatal: bool,
        recount: &Recount,
    ) -> Result<(), Broken> {
        let follows = self.follows(place, unit);
        if self.is_failing(place) {
            let ends = follows == Some(&UnitFact::Failed) || is_closed(follows);
            return if ends {
                Ok(())
            } else {
                self.wrong(unit, format!("the run is failing, and {follows:?} follows"))
            };
        }
        let tries = recount.erred + 1;
        let mut wanted = Vec::new();
        for policies in self.in_force.at(self.at) {
            let rung = self.rung(unit, error, fatal, tries, recount.rounds(), policies);
            let fits = match (&rung, follows) {
                (Rung::Retry, Some(UnitFact::Retry { .. }))
                | (Rung::Held, Some(UnitFact::Held))
                | (Rung::Ignored, Some(UnitFact::Ignored))
                | (Rung::LeftInError, Some(UnitFact::LeftInError))
                | (Rung::Failed, Some(UnitFact::Failed)) => true,
                (Rung::Scheduled(policy), Some(UnitFact::Scheduled { policy: by, .. })) => {
                    is_this(policy, by)
                }
                _ => false,
            };
            if fits {
                return Ok(());
            }
            wanted.push(shown(&rung));
        }
        let policy_matters = wanted.iter().any(|rung| rung.starts_with("policy"))
            || matches!(follows, Some(UnitFact::Scheduled { .. }));
        let promise = if policy_matters { Promise::Policies } else { Promise::Budgets };
        let wanted = wanted.join(" or ");
        self.broken(
            promise,
            unit,
            format!(
                "after `{}` (error {tries} of round {}) comes {follows:?}, and not {wanted}",
                error.cause, recount.round
            ),
        )
    }

    fn rung<'p>(
        &self,
        unit: UnitRef,
        error: &Error,
        fatal: bool,
        tries: u32,
        rounds: u32,
        policies: &'p [Policy],
    ) -> Rung<'p> {
        let step = self.step(unit);
        match step.retry {
            RetryStrategy::Retry { max_attempts, .. }
                if !fatal && max_attempts.is_none_or(|max| tries < max) =>
            {
                return Rung::Retry;
            }
            RetryStrategy::Hold { max_attempts } if max_attempts.is_none_or(|max| tries < max) => {
                return Rung::Held;
            }
            RetryStrategy::None | RetryStrategy::Retry { .. } | RetryStrategy::Hold { .. } => {}
        }
        if !step.fail_on_error {
            return Rung::Ignored;
        }
        let erred = self.erred(unit, error, fatal, rounds);
        if let Some(policy) = first_match(policies, &erred) {
            return Rung::Scheduled(policy);
        }
        let in_handler = match &self.before.origin {
            Origin::Root => false,
            Origin::Child { in_handler, .. } => *in_handler,
            Origin::Handler { .. } => true,
        };
        if step.exception_handler.is_none() && !fatal && !in_handler {
            Rung::LeftInError
        } else {
            Rung::Failed
        }
    }

    fn erred<'e>(&'e self, unit: UnitRef, error: &'e Error, fatal: bool, rounds: u32) -> EndedInError<'e> {
        let step = self.step(unit);
        EndedInError {
            cause: &error.cause,
            root_flow: &self.before.root_flow,
            action: &step.full_action,
            found_by: error.found_by.as_deref(),
            action_type: step.action_type.as_deref(),
            fatal,
            rounds,
        }
    }

    fn check_retry(&self, unit: UnitRef, fact: &UnitFact, recount: &Recount) -> Result<(), Broken> {
        let UnitFact::Retry { due, delay, stalled, max } = fact else { return Ok(()) };
        let step = self.step(unit);
        let RetryStrategy::Retry { max_attempts, back_off } = step.retry else {
            return self.wrong(unit, "it is retried, and its strategy is another one");
        };
        if *stalled != recount.erred || *max != max_attempts {
            let tries = recount.erred;
            return self.wrong(
                unit,
                format!("the retry says {stalled} of {max:?}, and it is {tries} of {max_attempts:?}"),
            );
        }
        let minimum = step.limits.minimum_delay;
        let (least, most) =
            back_off.map_or((minimum, minimum), |back_off| delays(&back_off, recount.erred, minimum));
        self.check_delay(unit, *due, *delay, (least, most), self.event.time())
    }

    fn check_delay(
        &self,
        unit: UnitRef,
        due: Time,
        delay: Millis,
        (least, most): (Millis, Millis),
        from: Time,
    ) -> Result<(), Broken> {
        if delay < least || delay > most {
            return self.wrong(unit, format!("it waits {delay}, and should wait {least} to {most}"));
        }
        if due == from + delay {
            Ok(())
        } else {
            self.wrong(unit, format!("due {due} is not {from} and {delay}"))
        }
    }

    fn check_anew(&self, unit: UnitRef, fact: &UnitFact, recount: &Recount) -> Result<(), Broken> {
        let UnitFact::Requeued { due, stuck, max, place } = fact else { return Ok(()) };
        let limits = &self.step(unit).limits;
        if *stuck != recount.stuck || *max != limits.max_stuck {
            let (ours, most) = (recount.stuck, limits.max_stuck);
            return self.wrong(
                unit,
                format!("requeued after {stuck} of {max} times stuck, and it is {ours} of {most}"),
            );
        }
        if place.alone != (recount.losses > 1) {
            return self.wrong(unit, format!("lost {} times, and alone is {}", recount.losses, place.alone));
        }
        self.check_delay(
            unit,
            *due,
            limits.minimum_delay,
            (Millis::ZERO, limits.minimum_delay),
            self.event.time(),
        )
    }

    fn check_deferral(&self, unit: UnitRef, fact: &UnitFact, recount: &Recount) -> Result<(), Broken> {
        let UnitFact::Deferred { due, delay } = fact else { return Ok(()) };
        let step = self.step(unit);
        let Some((_, Outcome::Deferred { asked, .. })) = &recount.ended else {
            return self.wrong(unit, "it waits for resources, and no worker has said that they are lacking");
        };
        let left = step.defer.limit.0.saturating_sub(recount.deferred.0);
        if left == 0 {
            let limit = step.defer.limit;
            return self.wrong(unit, format!("it is deferred again, over defer.limit {limit}"));
        }
        let mut grown = step.defer.delay;
        for _ in 0..recount.deferrals.min(64) {
            grown = grown.times(step.defer.multiplier).min(step.defer.max_delay);
        }
        let wanted = asked.unwrap_or(grown.min(step.defer.max_delay)).min(Millis(left));
        let wanted = wanted.max(step.limits.minimum_delay);
        let slack = Millis(wanted.0 / 1000 + 1);
        let range = (Millis(wanted.0.saturating_sub(slack.0)), wanted.plus(slack));
        self.check_delay(unit, *due, *delay, range, self.event.time())
    }

    fn check_schedule(&self, unit: UnitRef, fact: &UnitFact, recount: &Recount) -> Result<(), Broken> {
        let UnitFact::Scheduled { due, delay, policy: by, rounds, max } = fact else { return Ok(()) };
        let bad = |what: String| self.broken(Promise::Policies, unit, what);
        let Some((stopped, outcome)) = &recount.ended else {
            return bad("a policy resumes it, and it has not gone wrong".to_owned());
        };
        let Some(error) = outcome.error() else {
            return bad(format!("a policy resumes it after {}", outcome.word()));
        };
        if *rounds != recount.rounds() {
            return bad(format!("the schedule says round {rounds}, and it is {}", recount.rounds()));
        }
        let fatal = matches!(outcome, Outcome::Failed(_));
        let erred = self.erred(unit, error, fatal, *rounds);
        let first = |set| first_match(set, &erred).filter(|policy| is_this(policy, by));
        let Some(policy) = self.in_force.at(self.at).into_iter().find_map(first) else {
            return bad(format!(
                "`{}` resumes it, and is not the first that matches and is not spent",
                by.name
            ));
        };
        let (least, most) = delays(&policy.back_off, *rounds, self.step(unit).limits.minimum_delay);
        if *max != policy.max_attempts || *delay < least || *delay > most {
            return bad(format!(
                "`{}` resumes it after {delay}, and should after {least} to {most}",
                by.name
            ));
        }
        let (now, due) = (self.at, &due.shifted(self.clock.saturating_neg()));
        let is_right = match self.event.by {
            // Whoever applies policies spreads what would be due already, from now on.
            unstuck_core::event::Actor::User(_) => {
                *due == *stopped + *delay || (*stopped + *delay <= now && *due >= now)
            }
            // One that was due and whose policy is off or gone is matched as of now.
            unstuck_core::event::Actor::Engine => *due == *stopped + *delay || *due == now + *delay,
            unstuck_core::event::Actor::Worker => *due == *stopped + *delay,
        };
        if is_right {
            return Ok(());
        }
        bad(format!("nextAutoResume is {due}: it stopped at {stopped} and the delay is {delay}"))
    }

    /// At rest after an error that nothing takes any more: rung 5 itself is looked at with the end of the attempt.
    fn check_rest(&self, place: usize, unit: UnitRef, recount: &Recount) -> Result<(), Broken> {
        let has_just_ended = self.event.facts[..place].iter().any(
            |fact| matches!(fact, Fact::Unit { unit: other, fact: UnitFact::Ended { .. } } if *other == unit),
        );
        if has_just_ended {
            return Ok(());
        }
        let Some((_, outcome)) = &recount.ended else {
            return self.wrong(unit, "it rests, and nothing went wrong");
        };
        let Some(error) = outcome.error() else {
            return self.wrong(unit, "it rests, and nothing went wrong");
        };
        let erred = self.erred(unit, error, matches!(outcome, Outcome::Failed(_)), recount.rounds());
        if self.in_force.at(self.at).into_iter().any(|set| first_match(set, &erred).is_none()) {
            return Ok(());
        }
        self.broken(Promise::Policies, unit, "it rests in error, and a policy takes it")
    }

    /// A policy that is named because it did not take an error is about it, and is used up or disabled.
    fn check_passed(&self, unit: UnitRef, passed: &[PassedPolicy], recount: &Recount) -> Result<(), Broken> {
        let fits = |policy: &Policy, passed: &PassedPolicy| match passed.why {
            PassedReason::Disabled => !policy.enabled,
            PassedReason::Spent { rounds, max } => {
                policy.enabled && max == policy.max_attempts && rounds == recount.rounds() && rounds >= max
            }
        };
        let is_right = |set: &[Policy]| {
            passed.iter().all(|passed| {
                set.iter().any(|policy| is_this(policy, &passed.policy) && fits(policy, passed))
            })
        };
        if self.in_force.at(self.at).into_iter().any(is_right) {
            return Ok(());
        }
        self.broken(Promise::Policies, unit, format!("policies are passed over that are not: {passed:?}"))
    }

    /// A policy resumes what it has scheduled, when it is due, and while it is enabled.
    fn check_resume(&self, unit: UnitRef) -> Result<(), Broken> {
        let state = self.before.unit(unit).map(|unit| &unit.state);
        let Some(UnitState::Error { resume: Some(resume), acknowledged, .. }) = state else {
            return self.broken(Promise::Policies, unit, "a policy resumes what none has scheduled");
        };
        if acknowledged.is_some() {
            return self.broken(Promise::Policies, unit, "a policy resumes what somebody has acknowledged");
        }
        if resume.due.shifted(self.before.clock.saturating_neg()) > self.at {
            return self.broken(Promise::Policies, unit, format!("it is resumed before {}", resume.due));
        }
        let is_on = |set: &[Policy]| set.iter().any(|policy| policy.id == resume.policy.id && policy.enabled);
        if self.in_force.at(self.at).into_iter().any(is_on) {
            return Ok(());
        }
        self.broken(
            Promise::Policies,
            unit,
            format!("`{}` is off or gone, and resumes it", resume.policy.name),
        )
    }
}

fn is_this(policy: &Policy, by: &PolicyRef) -> bool {
    policy.id == by.id && policy.name == by.name && policy.version == by.version
}

fn is_closed(fact: Option<&UnitFact>) -> bool {
    matches!(fact, Some(UnitFact::Closed { .. }))
}

fn shown(rung: &Rung<'_>) -> String {
    match rung {
        Rung::Retry => "a retry".to_owned(),
        Rung::Held => "a hold".to_owned(),
        Rung::Ignored => "continuing without it".to_owned(),
        Rung::Scheduled(policy) => format!("policy `{}`", policy.name),
        Rung::LeftInError => "left in error".to_owned(),
        Rung::Failed => "failure".to_owned(),
    }
}

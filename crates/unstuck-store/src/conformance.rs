//! What every store must do, as cases that any store can run.
//!
//! ```
//! # use unstuck_store::memory::MemoryStore;
//! unstuck_store::conformance_tests!(MemoryStore::new);
//! ```

pub mod contents;
pub mod driver;
pub mod flows;
pub mod steps;

pub mod bulks;
pub mod conflicts;
pub mod definitions;
pub mod due;
pub mod errors;
pub mod failures;
pub mod flow_changes;
pub mod forgetting;
pub mod keys;
pub mod ledger;
pub mod lists;
pub mod logs;
pub mod notices;
pub mod policies;
pub mod readers;
pub mod reading;
pub mod ready;
pub mod restarts;
pub mod schedules;
pub mod sessions;
pub mod set_aside;
pub mod sharing;
pub mod slots;
pub mod tails;
pub mod tokens;
pub mod transactions;

use std::collections::BTreeMap;
use std::sync::Arc;

use unstuck_core::id::{FlowId, RunId};
use unstuck_core::model::flow::Flow;
use unstuck_core::time::Time;

use crate::contract::{Store, StoreError};
use crate::memory::{DurableStage, MemoryStore};

/// A store that can be put through what happens to stores. Where it cannot, the cases about that have nothing to do.
pub trait TestStore: Store + Sized {
    /// Lets the process die and another one open the store: what was durable is there, what was not may be gone, and
    /// nothing is locked.
    #[must_use]
    fn reopen(self) -> Self;

    /// Makes the oldest `n` outstanding stages durable, in stores that wait for this.
    fn make_durable(&mut self, n: usize) {
        let _ = n;
    }

    /// Fails the oldest outstanding stage. Returns how many have failed with it; 0 if this store cannot do that.
    fn fail_next(&mut self, error: &StoreError) -> usize {
        let _ = error;
        0
    }

    /// Refuses the next stage. Returns whether this store can do that.
    fn refuse_stage(&mut self, error: StoreError) -> bool {
        let _ = error;
        false
    }

    /// Lets somebody else have this run for so many tries to lock it. Returns whether this store can do that.
    fn make_busy(&mut self, run: RunId, tries: u32) -> bool {
        let _ = (run, tries);
        false
    }

    /// Leaves it unknown what becomes of the next stage, which happens or does not, until it is looked up. Returns
    /// whether this store can do that.
    fn lose_next_answer(&mut self, happens: bool) -> bool {
        let _ = happens;
        false
    }

    /// Keeps the answer to the next stage after all. Returns whether it was to be lost.
    fn keep_next_answer(&mut self) -> bool {
        false
    }

    /// Looks up what became of the stages whose answers were lost. Returns how many.
    fn look_up_outcomes(&mut self) -> usize {
        0
    }

    /// Returns whether something that was staged by this handle may wait to be made durable.
    fn is_awaiting_disk(&mut self) -> bool {
        true
    }

    /// Opens another handle on the same data, as another server has; `None` if this store cannot be shared.
    fn new_handle(&mut self) -> Option<Self> {
        None
    }

    /// Lets the process of this handle die and another one open the store; those of other handles go on, and with
    /// them what it had staged.
    #[must_use]
    fn replace_handle(self) -> Self {
        self.reopen()
    }

    /// Sets the clock of the store, where sessions last by it.
    fn set_time(&mut self, now: Time) {
        let _ = now;
    }

    /// Returns what has become durable since the last call, in order; the first call starts recording. For stores
    /// that can be shared.
    fn take_durable(&mut self) -> Vec<DurableStage> {
        Vec::new()
    }

    /// Returns whether the process has died by itself: what it has said since counts for nothing, and the store must
    /// be opened again.
    fn has_crashed(&self) -> bool {
        false
    }

    /// The store has these flows, and is in the middle of its work: for stores that can look whether all is as promised.
    fn look(&mut self, flows: &BTreeMap<FlowId, Arc<Flow>>) {
        let _ = flows;
    }
}

impl TestStore for MemoryStore {
    fn reopen(self) -> MemoryStore {
        self.crash()
    }

    fn make_durable(&mut self, n: usize) {
        MemoryStore::make_durable(self, n);
    }

    fn fail_next(&mut self, error: &StoreError) -> usize {
        MemoryStore::fail_next(self, error)
    }

    fn refuse_stage(&mut self, error: StoreError) -> bool {
        MemoryStore::refuse_stage(self, error);
        true
    }

    fn lose_next_answer(&mut self, happens: bool) -> bool {
        MemoryStore::lose_next_answer(self, happens);
        true
    }

    fn keep_next_answer(&mut self) -> bool {
        MemoryStore::keep_next_answer(self)
    }

    fn look_up_outcomes(&mut self) -> usize {
        MemoryStore::look_up_outcomes(self)
    }

    fn is_awaiting_disk(&mut self) -> bool {
        MemoryStore::is_awaiting_disk(self)
    }
}

/// A case: it makes as many stores as it needs.
pub type Case<S> = fn(&mut dyn FnMut() -> S);

/// Lists every case by name.
pub fn cases<S: TestStore>() -> Vec<(&'static str, Case<S>)> {
    crate::conformance_tests!(@all list S)
}

/// Runs every case against stores that `make` makes.
pub fn run_all<S: TestStore>(mut make: impl FnMut() -> S) {
    for (_, case) in cases() {
        case(&mut make);
    }
}

/// Waits until `stages` stages have settled, and returns the errors.
pub fn settle<S: Store>(store: &mut S, stages: usize) -> Vec<StoreError> {
    let (mut settled, mut tries) = (Vec::new(), 0);
    while settled.len() < stages {
        let more = store.settle(true);
        // A slow disk may take longer than anybody waits for at once.
        tries = if more.is_empty() { tries + 1 } else { 0 };
        assert!(tries < 60, "{} of {stages} stages have settled, and no more do", settled.len());
        settled.extend(more);
    }
    assert_eq!(settled.len(), stages, "as many settle as were staged");
    assert!(settled.is_sorted_by_key(|settled| settled.stage), "they settle in order");
    settled.into_iter().filter_map(|settled| settled.result.err()).collect()
}

/// Makes a test of every case, in one module a subject. The argument is what makes an empty store.
#[macro_export]
macro_rules! conformance_tests {
    (@all $what:ident $($argument:tt)*) => {
        $crate::conformance_tests! {
            @$what [$($argument)*]
            transactions: [
                a_lock_gives_runs_in_order
                a_staged_batch_is_seen_at_once
                stages_settle_in_order
                what_was_only_locked_comes_back_as_it_was
                an_abandoned_transaction_changes_nothing
                a_rolled_back_transaction_changes_nothing
                a_refused_stage_changes_nothing
                a_stage_that_fails_for_now_succeeds_later
                an_empty_stage_settles
                the_last_time_and_id_are_kept
            ]
            conflicts: [
                events_continue_the_numbering
                a_final_generation_does_not_change
                a_run_is_made_once
                a_payload_is_written_once
                what_was_refused_may_come_again
            ]
            keys: [
                a_key_leads_to_its_run
                no_key_is_no_key
                a_key_is_taken_in_any_state
                a_key_is_taken_once_in_a_stage
                a_rerun_keeps_its_key
            ]
            ready: [
                higher_priorities_come_first
                flows_take_turns
                nobody_starves
                the_front_comes_first_then_age
                ties_go_by_run_and_unit
                offers_are_filled_and_no_more
                several_offers_share
                what_does_not_fit_keeps_its_place
                a_load_over_the_maximum_takes_a_whole_worker
                what_must_be_alone_gets_an_idle_worker
                an_entry_is_given_until_it_is_claimed
                what_stops_leaves_the_queue
                the_highest_priority_that_waits_is_known
            ]
            due: [
                timers_come_in_order
                a_timer_stays_until_it_is_changed
                what_is_withheld_is_not_due
                what_waits_for_a_turn_comes_back_in_order
                a_timer_is_replaced_and_removed
                a_lease_moves_with_signs_of_life
                a_moved_lease_outlives_other_changes
                a_clock_that_is_set_moves_leases
                a_lease_begins_with_the_start
                a_lease_ends_with_its_attempt
                an_attempt_inherits_no_sign_of_life
                a_run_has_a_timer_of_its_own
                what_is_not_listed_is_removed
            ]
            slots: [
                no_more_than_there_is_room_for
                by_priority_then_by_age
                a_slot_is_given_back
                each_limit_counts_its_own
                holders_of_slots_are_named
                versions_may_differ_in_their_limit
            ]
            notices: [
                a_notice_comes_until_it_is_delivered
                notices_keep_their_order
                a_notice_may_be_delivered_twice
                a_receiver_that_cannot_take_a_notice_holds_up_nobody_else
                what_is_on_its_way_is_known_by_run
                a_family_comes_to_its_end
            ]
            reading: [
                an_empty_store_is_empty
                a_history_is_read_in_pages
                payloads_are_kept
                runs_are_listed_newest_first
                versions_are_listed_together
                runs_are_found_by_what_they_have
            ]
            lists: [
                runs_are_found_by_their_labels
                runs_are_found_by_changed_labels
                runs_are_found_by_the_version_that_they_were_moved_to
                runs_are_found_by_their_open_work
                what_is_below_a_root_is_found
                lists_have_an_order
            ]
            readers: [
                who_was_answered_reads_what_was_done
                what_is_not_durable_is_not_shown
                what_was_shown_survives_a_crash
                a_reader_sees_all_that_is_there
                a_long_history_is_read_from_its_middle
                others_read_meanwhile
            ]
            tails: [
                a_tail_tells_all_that_happens
                a_page_has_no_more_than_was_asked_for
                a_tail_tells_nothing_that_is_not_durable
                a_tail_goes_on_after_a_restart
                who_is_forgotten_is_told_no_more
                a_cursor_of_another_store_is_refused
                others_follow_meanwhile
            ]
            definitions: [
                a_flow_is_kept
                the_same_flow_again_is_the_same
                a_version_does_not_change
                versions_are_counted
                flows_are_listed
            ]
            flow_changes: [
                a_file_is_kept_as_a_whole
                a_deleted_version_is_not_the_newest
                flows_are_listed_with_their_open_runs
            ]
            ledger: [
                a_key_stands_for_what_was_done
                a_key_is_used_once
                a_key_is_free_after_a_day
                what_failed_is_not_recorded
                who_changed_what_is_listed
                changes_of_policies_have_entries
                what_came_to_nothing_is_recorded
            ]
            tokens: [
                tokens_are_kept
                a_token_is_made_once_under_a_key
                uses_of_tokens_are_kept
            ]
            set_aside: [
                what_is_due_in_it_waits
                what_is_ready_in_it_waits
                it_is_not_admitted
                notices_to_it_stay_in_order
                it_stays_aside_until_the_store_is_opened_again
            ]
            failures: [
                a_failed_stage_takes_what_is_on_top_with_it
                what_was_durable_stays
                a_transaction_on_top_of_a_failure_is_a_conflict
                what_nobody_knows_stays_outstanding_until_it_is_looked_up
                a_failed_delivery_is_made_again
            ]
            restarts: [
                what_is_durable_is_found_again
                undelivered_notices_come_again
                nothing_stays_locked
                what_is_not_durable_is_whole_or_gone
                turns_begin_anew
                work_goes_on_after_a_restart
            ]
            bulks: [
                a_bulk_action_is_there_once_it_is_put
                targets_follow_each_other
                targets_without_a_bulk_action_are_gone_with_their_session
                a_bulk_action_goes_on_with_the_runs
                a_stage_that_does_not_fit_changes_nothing
                a_bulk_action_is_due_by_its_pace
                what_became_of_a_target_is_known_at_once
                what_is_open_is_listed
                targets_are_read_in_pages
                a_failed_stage_takes_its_results_back
                a_bulk_action_goes_on_after_a_restart
                a_rerun_comes_out_after_a_restart
                a_forgotten_run_leaves_its_result
                every_result_is_kept
            ]
            schedules: [
                a_schedule_is_made_changed_and_removed_by_stages
                a_schedule_is_due_for_those_who_fire_it
                a_schedule_that_does_not_fit_is_refused
            ]
            sessions: [
                each_session_has_an_incarnation_of_its_own
                attempts_of_executors_are_found
                downtimes_are_kept
                the_last_sign_of_life_is_kept
            ]
            forgetting: [
                a_forgotten_run_is_gone
                a_forgotten_key_is_free
                only_a_final_run_is_forgotten
                only_a_locked_run_is_forgotten
            ]
            policies: [
                policies_are_kept_with_their_changes
                what_does_not_go_together_is_refused
                policies_are_durable_at_once
                the_switch_is_of_the_same_snapshot_as_the_policies
                hits_are_counted
                hits_of_a_failed_stage_do_not_count
            ]
            errors: [
                errors_are_recorded_in_order
                what_is_in_error_is_open
                open_errors_are_read_in_pages
                errors_are_grouped
                a_group_shows_some_of_many
                a_forgotten_run_takes_its_errors_with_it
                errors_come_with_their_stage
                nothing_is_unexamined
            ]
            logs: [
                what_an_attempt_printed_is_kept
                the_oldest_logs_are_dropped
                a_forgotten_run_takes_its_logs_with_it
                a_log_comes_with_its_stage
            ]
        }
    };
    (@tests [$make:expr] $($subject:ident: [$($case:ident)*])*) => {
        fn conformance_store() -> impl $crate::conformance::TestStore {
            ($make)()
        }
        $(mod $subject {
            $(#[test]
            fn $case() {
                $crate::conformance::$subject::$case(&mut super::conformance_store);
            })*
        })*
    };
    (@list [$store:ty] $($subject:ident: [$($case:ident)*])*) => {
        vec![$($((
            concat!(stringify!($subject), "::", stringify!($case)),
            $crate::conformance::$subject::$case::<$store> as $crate::conformance::Case<$store>,
        ),)*)*]
    };
    ($make:expr) => {
        $crate::conformance_tests! { @all tests $make }
    };
}

/// A test for each case about several that share a store: `sharing_tests!(make)`, beside [`conformance_tests!`].
#[macro_export]
macro_rules! sharing_tests {
    ($make:expr) => {
        $crate::sharing_tests! {
            @tests [$make]
            a_run_that_somebody_else_has_is_busy
            each_knows_whether_a_session_is_older
            a_busy_run_is_read_as_it_was
            each_is_told_of_its_own_stages
            who_is_gone_holds_nothing
            sessions_side_by_side_have_ids_of_their_own
            only_a_session_that_has_ended_loses_its_attempts
            an_ended_session_is_given_to_one
            a_session_that_has_ended_changes_nothing
            an_interrupt_reaches_the_session_that_has_the_worker
            a_thing_that_somebody_else_has_is_busy
            drafts_belong_to_their_session
            what_one_sets_aside_or_withholds_others_are_given
            a_tail_tells_what_all_of_them_write
        }
    };
    (@tests [$make:expr] $($case:ident)*) => {
        $(#[test]
        fn $case() {
            $crate::conformance::sharing::$case(&mut $make);
        })*
    };
}

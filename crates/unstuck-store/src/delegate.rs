//! A store inside of something else, such as one in a folder that goes when it does, is asked through this.

/// Implements [`Store`](crate::contract::Store) for a type that has one: `delegate_store!(Temporary, store)`, where
/// `self.store()` gives it. With `but { .. }` the type says for itself what has settled and when it was alive, with
/// `but loads { .. }` what a batch is given and how it ends. A type with parameters names them first:
/// `delegate_store!([<S: Store>] Outer<S>, ..)`.
#[macro_export]
macro_rules! delegate_store {
    ([$($generics:tt)*] $type:ty, $inner:ident, but loads { $($own:item)* }) => {
        $crate::delegate_store! {
            @all_but [$($generics)*] $type, $inner, {
                fn settle(&mut self, wait: bool) -> Vec<Settled> {
                    self.$inner().settle(wait)
                }

                fn record_alive(&mut self, now: Time) {
                    self.$inner().record_alive(now);
                }

                fn last_seen(&mut self) -> Result<Option<Time>, StoreError> {
                    self.$inner().last_seen()
                }

                $($own)*
            },
        }
    };
    ($type:ty, $inner:ident) => {
        $crate::delegate_store! {
            $type, $inner, but {
                fn settle(&mut self, wait: bool) -> Vec<Settled> {
                    self.$inner().settle(wait)
                }

                fn record_alive(&mut self, now: Time) {
                    self.$inner().record_alive(now);
                }

                fn last_seen(&mut self) -> Result<Option<Time>, StoreError> {
                    self.$inner().last_seen()
                }
            }
        }
    };
    ($type:ty, $inner:ident, but loads { $($own:item)* }) => {
        $crate::delegate_store! { [] $type, $inner, but loads { $($own)* } }
    };
    ($type:ty, $inner:ident, but { $($own:item)* }) => {
        $crate::delegate_store! {
            @all_but [] $type, $inner, { $($own)* },
            loaded() -> Option<(BatchId, Result<Loaded, StoreError>)>;
            more(batch: BatchId, runs: &[RunId], payloads: &[PayloadId]) -> Result<More, StoreError>;
            stage(batch: BatchId, stage: Stage) -> Result<StageId, StoreError>;
            abandon(batch: BatchId, unchanged: Vec<Run>) -> ();
            rollback(batch: BatchId) -> ();
        }
    };
    (@all_but [$($generics:tt)*] $type:ty, $inner:ident, { $($own:item)* }, $($besides:tt)*) => {
        $crate::delegate_store! {
            @methods [$($generics)*] $type, $inner, { $($own)* }:
            $($besides)*
            lanes() -> usize;
            ask(wants: &Wants) -> Result<BatchId, StoreError>;
            run_of_key(flow: &str, key: &str) -> Result<Option<RunId>, StoreError>;
            payloads(ids: &[PayloadId]) -> Result<Vec<Option<Json>>, StoreError>;
            admissible_runs(limit: usize) -> Result<Vec<RunId>, StoreError>;
            due(now: Time, limit: usize) -> Result<Vec<Due>, StoreError>;
            slot_holders(limit: &str, most: usize) -> Result<Vec<RunId>, StoreError>;
            withhold(due: &Due, until: Withheld) -> ();
            release_withheld(limit: usize) -> usize;
            timers(after: Option<(Time, RunId, Option<UnitRef>)>, limit: usize) -> Result<Vec<Due>, StoreError>;
            notices(limit: usize) -> Result<Vec<(NoticeId, Notice)>, StoreError>;
            notices_to(thing: ThingRef, limit: usize) -> Result<Vec<(NoticeId, Notice)>, StoreError>;
            due_things(now: Time, limit: usize) -> Result<Vec<Thing>, StoreError>;
            things() -> Result<Vec<Thing>, StoreError>;
            fire_schedules() -> ();
            target_results(bulk: BulkId, places: &[u64]) -> Result<Vec<TargetResult>, StoreError>;
            set_aside(run: RunId, aside: SetAside) -> ();
            release(run: RunId) -> ();
            set_aside_record(run: RunId) -> Option<SetAside>;
            release_reserve() -> bool;
            open_session(new: NewSession) -> Result<Session, StoreError>;
            renew_session() -> Result<(), StoreError>;
            end_session() -> ();
            ended_sessions() -> Result<Vec<EndedSession>, StoreError>;
            downtimes() -> Result<Vec<Downtime>, StoreError>;
            clock() -> Result<ClockRecord, StoreError>;
            next_due() -> Result<Option<Time>, StoreError>;
            last_time() -> Result<Option<Time>, StoreError>;
            last_id() -> Result<u64, StoreError>;
            reader() -> Arc<dyn Reader>;
            run(run: RunId) -> Result<Option<Run>, StoreError>;
            history(run: RunId, after: u64, limit: usize) -> Result<Vec<Event>, StoreError>;
            list(filter: &RunFilter, before: Option<RunId>, limit: usize) -> Result<Vec<Run>, StoreError>;
            count_runs(since: Time) -> Result<BTreeMap<RunState, u64>, StoreError>;
            put_flow(flow: NewFlow) -> Result<FlowRecord, PutFlowError>;
            flow(flow: FlowId) -> Result<Option<FlowRecord>, StoreError>;
            flows(after: Option<FlowId>, limit: usize) -> Result<Vec<FlowRecord>, StoreError>;
            newest_flow(name: &str) -> Result<Option<FlowRecord>, StoreError>;
            policies() -> Result<Vec<Policy>, StoreError>;
            policy_switch() -> Result<PolicySwitch, StoreError>;
            put_policies(change: PolicyChange, made_on: u64) -> Result<(), StoreError>;
            versions() -> Result<Versions, StoreError>;
            on_news(wake: Box<dyn Fn() + Send + Sync>) -> ();
            policy_audit(before: Option<AuditId>, limit: usize) -> Result<Vec<(AuditId, PolicyAudit)>, StoreError>;
            policy_hits() -> Result<Vec<PolicyHits>, StoreError>;
            errors(filter: &ErrorFilter, after: Option<ErrorId>, limit: usize)
                -> Result<Vec<(ErrorId, ErrorRecord)>, StoreError>;
            open_errors(filter: &OpenErrorFilter, after: Option<(RunId, UnitRef)>, limit: usize)
                -> Result<Vec<OpenError>, StoreError>;
            error_groups(filter: &GroupFilter, limit: usize) -> Result<Vec<ErrorGroup>, StoreError>;
            needs_backfill(after: Option<RunId>, limit: usize) -> Result<Vec<RunId>, StoreError>;
            logs(run: RunId) -> Result<RunLogs, StoreError>;
            put_targets(bulk: BulkId, targets: Vec<Target>) -> Result<(), StoreError>;
            put_bulk(bulk: Bulk) -> Result<(), StoreError>;
            bulk(bulk: BulkId) -> Result<Option<Bulk>, StoreError>;
            bulks(open_only: bool, before: Option<BulkId>, limit: usize) -> Result<Vec<Bulk>, StoreError>;
            targets(bulk: BulkId, only: Option<ResultKind>, from: u64, limit: usize)
                -> Result<Vec<Target>, StoreError>;
            lock_things(batch: BatchId, things: &[ThingRef]) -> Result<Vec<LockedThing>, StoreError>;
            next_targets(bulk: BulkId, from: u64, limit: usize) -> Result<Vec<Target>, StoreError>;
        }
    };
    (@methods [$($generics:tt)*] $type:ty, $inner:ident, { $($own:item)* }:
        $($name:ident($($argument:ident: $kind:ty),*) -> $result:ty;)*) => {
        const _: () = {
            use $crate::delegate::names::*;
            impl $($generics)* Store for $type {
                $(fn $name(&mut self $(, $argument: $kind)*) -> $result {
                    self.$inner().$name($($argument),*)
                })*

                $($own)*
            }
        };
        $crate::delegate_store! {
            @admin [$($generics)*] $type, $inner:
            plan_flows(flows: &[NewFlow]) -> Result<Vec<PlannedFlow>, PutFlowError>;
            change_flows(change: FlowChange, made_on: u64) -> Result<(), StoreError>;
            flow_version(name: &str, version: &str) -> Result<Option<FlowRecord>, StoreError>;
            flow_versions(name: &str) -> Result<Vec<FlowRecord>, StoreError>;
            begin_bulk(bulk: Bulk, ledger: Ledger) -> Result<(), StoreError>;
            tokens() -> Result<Vec<ApiToken>, StoreError>;
            put_tokens(change: TokensChange, made_on: u64) -> Result<(), StoreError>;
            record(ledger: Ledger) -> Result<(), StoreError>;
            idempotency(scope: &str, key: &str) -> Result<Option<IdempotencyRecord>, StoreError>;
            open_runs(flows: &[FlowId]) -> Result<OpenRuns, StoreError>;
        }
    };
    (@admin [$($generics:tt)*] $type:ty, $inner:ident:
        $($name:ident($($argument:ident: $kind:ty),*) -> $result:ty;)*) => {
        const _: () = {
            use $crate::delegate::names::*;
            impl $($generics)* AdminStore for $type {
                $(fn $name(&mut self $(, $argument: $kind)*) -> $result {
                    self.$inner().$name($($argument),*)
                })*
            }
        };
    };
}

/// The names that the contract is written with.
pub mod names {
    pub use std::collections::BTreeMap;
    pub use std::sync::Arc;
    pub use unstuck_core::api_token::ApiToken;
    pub use unstuck_core::bulk::{Bulk, ResultKind, Target, TargetResult};
    pub use unstuck_core::clock::ClockRecord;
    pub use unstuck_core::command::Notice;
    pub use unstuck_core::decide::Withheld;
    pub use unstuck_core::downtime::Downtime;
    pub use unstuck_core::errors::{ErrorRecord, OpenError};
    pub use unstuck_core::event::Event;
    pub use unstuck_core::id::{BulkId, FlowId, PayloadId, RunId};
    pub use unstuck_core::json::Json;
    pub use unstuck_core::model::run::{Run, RunState};
    pub use unstuck_core::model::unit::UnitRef;
    pub use unstuck_core::offer::Offer;
    pub use unstuck_core::policy::{Policy, PolicySwitch};
    pub use unstuck_core::thing::{Thing, ThingRef};
    pub use unstuck_core::time::Time;

    pub use crate::contract::{
        AdminStore, AuditId, BatchId, Candidate, Due, EndedSession, ErrorFilter, ErrorGroup, ErrorId,
        FlowChange, FlowRecord, GroupFilter, IdempotencyRecord, Interrupt, Ledger, Loaded, LoadedPayload,
        Locked, LockedThing, More, NewFlow, NewSession, NoticeId, OpenErrorFilter, OpenRuns, PlannedFlow,
        PolicyAudit, PolicyChange, PolicyHits, PutFlowError, Reader, RunFilter, RunLogs, Session, SetAside,
        Settled, Stage, StageId, Store, StoreError, TokensChange, Versions, Wants,
    };
}

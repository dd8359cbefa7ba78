//! Resolves run names: an id, the start of an id, a key, or `@latest`.

use std::collections::BTreeSet;

use unstuck_core::id::RunId;
use unstuck_engine::read_flows::ReadFlows;
use unstuck_store::contract::{Reader, RunFilter};

use crate::service::ServiceError;
use crate::set_aside;

/// The name of the newest root run.
pub const LATEST: &str = "@latest";

/// How many candidates an ambiguous name lists.
const SHOWN: usize = 5;
/// So many flow versions are read at once.
const FLOWS: usize = 1_000;
const PREFIX: &str = "run_";
/// Characters of 5 bits in an id.
const DIGITS: u32 = 13;
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Finds the run that a name refers to, or lists the candidates.
pub fn find_run(reader: &dyn Reader, flows: &ReadFlows, name: &str) -> Result<RunId, ServiceError> {
    if name == LATEST {
        let filter = RunFilter { roots_only: true, ..RunFilter::default() };
        let found = reader.list(&filter, None, 1)?.pop();
        return found.map(|run| run.id).ok_or_else(|| {
            ServiceError::not_found("this store has no runs yet; start one with `unstuck run FILE`")
        });
    }
    let range = IdRange::parse_prefix(name);
    if let Some(range) = range.filter(IdRange::is_full_id)
        && reader.has_run(range.start)?
    {
        return Ok(range.start);
    }
    let of_key = find_runs_of_key(reader, name)?;
    let beginning = match range {
        Some(range) => list_runs_in_range(reader, range)?,
        None => Vec::new(),
    };
    match (of_key.as_slice(), beginning.as_slice()) {
        ([], []) => Err(ServiceError::not_found(format!(
            "there is no run `{name}`: no id starts with it, and no key equals it. `unstuck runs` lists all runs"
        ))
        .named("run", name)),
        ([run], []) | ([], [run]) => Ok(*run),
        _ => Err(ambiguous_name(reader, flows, name, &of_key, &beginning)?),
    }
}

/// Returns whether `second`, after the name of a run, refers to another run rather than to a step of the first.
pub fn is_second_run(
    reader: &dyn Reader,
    flows: &ReadFlows,
    first: &str,
    second: &str,
) -> Result<bool, ServiceError> {
    let id = find_run(reader, flows, first)?;
    let flow = reader.run(id)?.and_then(|run| flows.get(reader, run.flow).ok());
    let step = second.split_once('[').map_or(second, |(step, _)| step);
    if flow.is_none_or(|flow| flow.find_step(step).is_none()) {
        return Ok(find_run(reader, flows, second).is_ok());
    }
    match find_runs_of_key(reader, second)?.first() {
        None => Ok(false),
        Some(other) => Err(ServiceError::ambiguous(
            format!(
                "`{second}` is both a step of {id} and the key of {other}; name the other run by its id or FLOW:KEY"
            ),
            vec![other.to_string()],
        )),
    }
}

/// Lists the runs whose ids are in this range, newest first, at most one more than are shown.
fn list_runs_in_range(reader: &dyn Reader, range: IdRange) -> Result<Vec<RunId>, ServiceError> {
    let found = reader.list(&RunFilter::default(), range.end, SHOWN + 1)?;
    Ok(found.into_iter().map(|run| run.id).filter(|run| *run >= range.start).collect())
}

/// The runs that have this key, `KEY` in any flow or `FLOW:KEY`.
pub fn find_runs_of_key(reader: &dyn Reader, name: &str) -> Result<Vec<RunId>, ServiceError> {
    let mut names = BTreeSet::new();
    let mut after = None;
    loop {
        let page = reader.flows(after, FLOWS)?;
        let Some(last) = page.last() else { break };
        after = Some(last.id);
        names.extend(page.into_iter().map(|flow| flow.name));
    }
    let mut found = Vec::new();
    for flow in names {
        found.extend(reader.run_of_key(&flow, name)?);
        if let Some(key) = name.strip_prefix(&*flow).and_then(|rest| rest.strip_prefix(':')) {
            found.extend(reader.run_of_key(&flow, key)?);
        }
    }
    Ok(found)
}

/// Builds the error of an ambiguous name, with an unambiguous name for each candidate.
fn ambiguous_name(
    reader: &dyn Reader,
    flows: &ReadFlows,
    name: &str,
    of_key: &[RunId],
    beginning: &[RunId],
) -> Result<ServiceError, ServiceError> {
    let what = match (of_key, beginning) {
        ([], _) => "is the start of several ids; give more of the id:",
        (_, []) => "is a key in several flows; use FLOW:KEY or the id:",
        _ => "is a key and also the start of an id; use FLOW:KEY or the id:",
    };
    let mut lines = vec![format!("`{name}` {what}")];
    for id in of_key.iter().chain(beginning).take(SHOWN) {
        let Some(run) = reader.run(*id)? else { continue };
        let flow = match flows.get(reader, run.flow) {
            Ok(flow) => flow.name.clone(),
            Err(_) => set_aside::find_flow_name(reader, flows, run.flow)?.0,
        };
        let state = run.state().word();
        lines.push(match &run.key {
            Some(key) if of_key.contains(id) => format!("  {flow}:{key}  is {id}, {state}"),
            Some(_) | None => format!("  {id}  {state}, of flow `{flow}`"),
        });
    }
    lines.extend((of_key.len() + beginning.len() > SHOWN).then(|| "  and more".to_owned()));
    let candidates = of_key.iter().chain(beginning).take(SHOWN).map(ToString::to_string).collect();
    Ok(ServiceError::ambiguous(lines.join("\n"), candidates))
}

/// The ids that begin alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdRange {
    pub start: RunId,
    /// The first one after them, if there can be one.
    pub end: Option<RunId>,
}

impl IdRange {
    /// Returns the range of ids that begin like this, with or without `run_`.
    pub fn parse_prefix(name: &str) -> Option<IdRange> {
        let lower = name.to_ascii_lowercase();
        let digits = lower.strip_prefix(PREFIX).unwrap_or(&lower);
        let count = u32::try_from(digits.len()).ok().filter(|count| (1..=DIGITS).contains(count))?;
        let value = digits.bytes().try_fold(0u128, |value, byte| {
            let digit = ALPHABET.iter().position(|known| *known == byte)?;
            Some(value * 32 + digit as u128)
        })?;
        let shift = 5 * (DIGITS - count);
        // Ids have 63 bits.
        let id = |value: u128| i64::try_from(value << shift).ok().map(|id| RunId(id.cast_unsigned()));
        Some(IdRange { start: id(value)?, end: id(value + 1) })
    }

    /// Returns whether the range is one full id.
    fn is_full_id(&self) -> bool {
        self.end.is_some_and(|end| end.0 - self.start.0 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_an_id_is_a_range() {
        let last = RunId(u64::MAX >> 1);
        let cases = [
            ("run_0000000000001", 1, Some(2)),
            ("0000000000001", 1, Some(2)),
            ("RUN_000000000000Z", 31, Some(32)),
            ("run_000000000001", 32, Some(64)),
            ("1", 1 << 60, Some(2 << 60)),
            ("7", 7 << 60, None),
        ];
        for (name, start, end) in cases {
            let wanted = IdRange { start: RunId(start), end: end.map(RunId) };
            assert_eq!(IdRange::parse_prefix(name), Some(wanted), "{name}");
        }
        assert_eq!(IdRange::parse_prefix(&last.to_string()), Some(IdRange { start: last, end: None }));
        for name in ["", "run_", "8", "00000000000000", "run-1", "lu!", "no/such", "\u{1b}[2J", "ü"] {
            assert_eq!(IdRange::parse_prefix(name), None, "{name}");
        }
    }
}

//! How runs are named: by id, by the beginning of an id, or as the latest.

use unstuck_core::id::RunId;
use unstuck_engine::flows::Flows;
use unstuck_store::contract::{Filter, Store};

use super::{Unanswered, aside};

/// The newest run that somebody started.
pub(crate) const LATEST: &str = "@latest";

/// Of so many runs with the same beginning one can choose.
const SHOWN: usize = 5;
const PREFIX: &str = "run_";
/// Characters of 5 bits in an id.
const DIGITS: u32 = 13;
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The run that somebody means.
pub(crate) fn find(store: &mut dyn Store, flows: &mut Flows, name: &str) -> Result<RunId, Unanswered> {
    if name == LATEST {
        let filter = Filter { roots_only: true, ..Filter::default() };
        let found = store.list(&filter, None, 1)?.pop();
        return found.map(|run| run.id).ok_or_else(|| {
            Unanswered::refused("there is no run in this store yet; `unstuck run FILE` starts one")
        });
    }
    let range = Range::of(name).ok_or_else(|| {
        Unanswered::refused(format!(
            "`{name}` does not name a run: give its id, the beginning of its id, or {LATEST}"
        ))
    })?;
    let found = store.list(&Filter::default(), range.end, SHOWN + 1)?;
    let found: Vec<_> = found.into_iter().filter(|run| run.id >= range.start).collect();
    match found.as_slice() {
        [] => Err(Unanswered::refused(format!(
            "there is no run `{name}` in this store; `unstuck runs` lists them"
        ))),
        [run] => Ok(run.id),
        several => {
            let mut lines = vec![format!("`{name}` is the beginning of several ids; give more of it:")];
            for run in several.iter().take(SHOWN) {
                let flow = match flows.get(store, run.flow) {
                    Ok(flow) => flow.name.clone(),
                    Err(_) => aside::flow_of(store, run)?.0,
                };
                lines.push(format!("  {}  {}, of flow `{flow}`", run.id, run.state().word()));
            }
            lines.extend((several.len() > SHOWN).then(|| "  and more".to_owned()));
            Err(Unanswered::Refused(lines.join("\n")))
        }
    }
}

/// The ids that begin alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) start: RunId,
    /// The first one after them, if there can be one.
    pub(crate) end: Option<RunId>,
}

impl Range {
    /// The ids that begin like this, with or without `run_`.
    pub(crate) fn of(name: &str) -> Option<Range> {
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
        Some(Range { start: id(value)?, end: id(value + 1) })
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
            let wanted = Range { start: RunId(start), end: end.map(RunId) };
            assert_eq!(Range::of(name), Some(wanted), "{name}");
        }
        assert_eq!(Range::of(&last.to_string()), Some(Range { start: last, end: None }));
        for name in ["", "run_", "8", "00000000000000", "run-1", "lu!", "no/such", "\u{1b}[2J", "ü"] {
            assert_eq!(Range::of(name), None, "{name}");
        }
    }
}

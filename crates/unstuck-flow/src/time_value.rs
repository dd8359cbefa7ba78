//! Reads a value that is a duration or an instant.

use unstuck_core::duration::{parse_duration, parse_instant};
use unstuck_core::time::{Millis, Time};

use crate::problem::Problems;
use crate::read::LocatedNode;
use crate::tree::Content;

/// A duration from now, or an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeValue {
    After(Millis),
    At(Time),
}

/// Reads a duration or an instant; expressions are refused.
pub(crate) fn read_time_value(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<TimeValue> {
    let Content::Text(text) = &spot.node.content else {
        return spot.read_duration(problems).map(TimeValue::After);
    };
    if text.contains("${") {
        spot.expected(problems, "a duration or an instant");
        return None;
    }
    let duration = parse_duration(text);
    let instant = parse_instant(text);
    match (duration, instant) {
        (Ok(span), _) => Some(TimeValue::After(span)),
        (Err(_), Ok(time)) => Some(TimeValue::At(time)),
        (Err(no_duration), Err(no_instant)) => {
            let dated = text.bytes().take_while(u8::is_ascii_digit).count() == 4 && text.contains('-');
            let problem = spot.refuse(problems, if dated { no_instant } else { no_duration });
            if !dated {
                problem.hint("or an instant, such as `2030-01-31T08:30:00Z`");
            }
            None
        }
    }
}

//! What is given up first when more comes than can be done: event streams and heavy reads, then starts, then what operators do. What
//! workers report is never refused here; the engine refuses it when its line is full, and nothing else before that.

use unstuck_api::ProblemType;
use unstuck_core::time::Millis;

use crate::app::App;
use crate::problem::Problem;

/// What a request costs, and what refusing it would: the first is given up first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Load {
    /// An event stream, or a read of much.
    Heavy,
    /// New work.
    Start,
    /// What people do about work that is there.
    Operator,
    /// A read of little, or a look at the server itself: it is bounded by its turns, and never given up.
    Light,
}

/// Of a hundred places in the engine's line, so many are taken when each load is given up.
const TAKEN: [(usize, Load); 3] = [(75, Load::Operator), (25, Load::Start), (10, Load::Heavy)];
/// So late is the engine for what is due when each load is given up. What operators do may be what helps.
const LATE: [(Millis, Load); 2] = [(Millis::seconds(10), Load::Start), (Millis::seconds(5), Load::Heavy)];

/// Refuses a request where the pressure is too high for it.
pub(crate) fn check(app: &App, load: Load) -> Result<(), Problem> {
    if load == Load::Light {
        return Ok(());
    }
    // A store that takes nothing has an error of its own, which says more.
    let late = if app.handle.trouble().is_some() { Millis(0) } else { app.handle.lateness() };
    match find_given_up(app.handle.waiting(), late) {
        Some(given_up) if load <= given_up => Err(refuse(load)),
        Some(_) | None => Ok(()),
    }
}

/// Returns the last load that is given up: all before it are, too.
fn find_given_up((waiting, most): (usize, usize), late: Millis) -> Option<Load> {
    let share = waiting.saturating_mul(100) / most.max(1);
    let by_line = TAKEN.iter().find(|(taken, _)| share >= *taken).map(|(_, load)| *load);
    let by_time = LATE.iter().find(|(length, _)| late >= *length).map(|(_, load)| *load);
    by_line.max(by_time)
}

fn refuse(load: Load) -> Problem {
    let what = match load {
        Load::Heavy => "event streams and large reads",
        Load::Start => "new runs",
        Load::Operator | Load::Light => "changes",
    };
    let sentence = format!(
        "the server has more to do than it can and takes no {what} now; repeat the request in a moment"
    );
    Problem::new(ProblemType::Overloaded, sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::ROUTES;

    #[test]
    fn loads_are_given_up_in_their_order() {
        for (waiting, late, wanted) in [
            (0, 0, None),
            (9, 4_999, None),
            (10, 0, Some(Load::Heavy)),
            (24, 0, Some(Load::Heavy)),
            (25, 0, Some(Load::Start)),
            (74, 0, Some(Load::Start)),
            (75, 0, Some(Load::Operator)),
            (200, 0, Some(Load::Operator)),
            (0, 5_000, Some(Load::Heavy)),
            (0, 10_000, Some(Load::Start)),
            // However late it is, an operator can do something about it.
            (0, 1_000_000, Some(Load::Start)),
            (75, 5_000, Some(Load::Operator)),
        ] {
            assert_eq!(find_given_up((waiting, 100), Millis(late)), wanted, "{waiting} {late}");
        }
        assert!(Load::Heavy < Load::Start && Load::Start < Load::Operator && Load::Operator < Load::Light);
    }

    #[test]
    fn every_route_has_its_place_in_the_order() {
        let of = |load| -> Vec<&str> {
            ROUTES.iter().filter(|route| route.load() == load).map(|route| route.operation).collect()
        };
        assert_eq!(of(Load::Start), ["startRun", "startRuns"]);
        for heavy in ["streamEvents", "countRuns", "listAudit", "backtestPolicies"] {
            assert!(of(Load::Heavy).contains(&heavy), "{heavy}: {:?}", of(Load::Heavy));
        }
        for light in ["checkHealth", "getMetrics", "getRun", "listRuns"] {
            assert!(of(Load::Light).contains(&light), "{light}");
        }
        for operator in ["cancelRun", "signalRun", "applyFlows", "createToken"] {
            assert!(of(Load::Operator).contains(&operator), "{operator}");
        }
    }
}

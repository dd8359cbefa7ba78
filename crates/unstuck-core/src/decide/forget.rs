//! Forgetting a run: whether it may be removed for good, with its history and its key.

use crate::model::run::Run;
use crate::refusal::Refusal;

/// Whether `run` may be forgotten. Its children and handlers go with it, so it must be nobody's itself, unless
/// what it belongs to is forgotten too.
pub fn check_forget(run: &Run, with_parent: bool) -> Result<(), Refusal> {
    if let (Some(parent), false) = (run.origin.parent(), with_parent) {
        return Err(Refusal::BelongsTo { run: run.id, parent });
    }
    if run.is_final() {
        return Ok(());
    }
    let hint = if with_parent {
        "it ends soon; repeat the command then"
    } else {
        "cancel it first, or wait until it ends"
    };
    Err(Refusal::WrongRunState { is: run.state(), asked: "be forgotten", hint })
}

//! Checks whether a run may be forgotten: removed for good, with its history and its key.

use crate::model::run::Run;
use crate::refusal::Refusal;

/// Refuses to forget a run that is not final, or that belongs to a parent which is not forgotten with it
/// (`with_parent`). Children and handlers are forgotten with their parent.
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

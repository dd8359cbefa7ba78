//! Labels of a run: names with values that whoever starts it gives it, so that people find it by them.

use std::collections::BTreeMap;

use crate::decide::MAX_NAME_BYTES;
use crate::refusal::Refusal;

/// Values by name.
pub type Labels = BTreeMap<String, String>;

/// How many labels a run may have.
pub const MAX_RUN_LABELS: usize = 32;

/// The longest value of a label.
pub const MAX_LABEL_BYTES: usize = 512;

/// Refuses labels that are too many, and names and values that are blank or too long.
pub(crate) fn check_labels(labels: &Labels) -> Result<(), Refusal> {
    if labels.len() > MAX_RUN_LABELS {
        return Err(Refusal::TooManyLabels { labels: labels.len(), max: MAX_RUN_LABELS });
    }
    for (name, value) in labels {
        Refusal::unless_named("the name of a label", name, MAX_NAME_BYTES)?;
        Refusal::unless_named("the value of a label", value, MAX_LABEL_BYTES)?;
    }
    Ok(())
}

/// Returns the labels that a run is shown with and found by: its own, and those of its flow that it does not give
/// another value.
pub fn all_labels(of_run: Option<&Labels>, of_flow: &Labels) -> Labels {
    let mut all = of_flow.clone();
    if let Some(own) = of_run {
        all.extend(own.iter().map(|(name, value)| (name.clone(), value.clone())));
    }
    all
}

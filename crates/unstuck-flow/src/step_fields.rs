//! The fields of a step: its own, and those of `defaults` that it takes over.

use unstuck_core::time::Millis;

use crate::fields;
use crate::problem::Problems;
use crate::read::{LocatedNode, Object};

/// The fields of a step on top of the defaults of its flow.
pub(crate) struct StepFields<'a, 'b> {
    pub(crate) own: &'b Object<'a>,
    pub(crate) defaults: Option<&'b Object<'a>>,
    /// The kind of the step.
    pub(crate) kind: &'static str,
}

impl<'a> StepFields<'a, '_> {
    /// Returns the value of a field: the step's own, else the default.
    pub(crate) fn spot(&self, name: &str) -> Option<LocatedNode<'a>> {
        // A field without meaning for the kind has been refused already.
        let own = self.own.spot(name).filter(|_| fields::has_meaning(name, self.kind));
        own.or_else(|| self.default_spot(name))
    }

    /// Returns the value of a default that the step takes over, even if it has one of its own.
    pub(crate) fn default_spot(&self, name: &str) -> Option<LocatedNode<'a>> {
        self.defaults
            .and_then(|defaults| defaults.spot(name))
            .filter(|_| fields::takes_default(name, self.kind))
    }

    /// Returns whether the step itself gives the field.
    pub(crate) fn is_own(&self, name: &str) -> bool {
        self.own.get(name).is_some()
    }

    /// Reads a duration, if the field is given and valid.
    pub(crate) fn read_duration(&self, name: &str, problems: &mut Problems<'_>) -> Option<Millis> {
        self.spot(name)?.read_duration(problems)
    }

    /// Reads a duration above zero, if the field is given and valid.
    pub(crate) fn read_positive_duration(&self, name: &str, problems: &mut Problems<'_>) -> Option<Millis> {
        self.spot(name)?.read_positive_duration(problems)
    }
}

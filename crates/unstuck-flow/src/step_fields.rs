//! What a step is given: its own fields, and those of `defaults` that it takes over.

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
    /// The value of a field, the step's own before the default.
    pub(crate) fn spot(&self, name: &str) -> Option<LocatedNode<'a>> {
        // What has no meaning for the kind is refused where it is written, and not looked at.
        let own = self.own.spot(name).filter(|_| fields::has_meaning(name, self.kind));
        own.or_else(|| self.default_spot(name))
    }

    /// The value of a default that the step takes over, whether or not it has one of its own.
    pub(crate) fn default_spot(&self, name: &str) -> Option<LocatedNode<'a>> {
        self.defaults
            .and_then(|defaults| defaults.spot(name))
            .filter(|_| fields::takes_default(name, self.kind))
    }

    /// Whether the step itself gives the field.
    pub(crate) fn is_own(&self, name: &str) -> bool {
        self.own.get(name).is_some()
    }

    /// A duration, if it is given and right.
    pub(crate) fn duration(&self, name: &str, problems: &mut Problems<'_>) -> Option<Millis> {
        self.spot(name)?.duration(problems)
    }

    /// A duration above zero, if it is given and right.
    pub(crate) fn some_duration(&self, name: &str, problems: &mut Problems<'_>) -> Option<Millis> {
        self.spot(name)?.some_duration(problems)
    }
}

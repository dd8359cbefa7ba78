//! The budget of an evaluation: every operation and every byte is paid for, large ones in advance.

use std::cell::Cell;

use super::{MAX_OPERATIONS, MAX_RESULT_BYTES};

/// Why an evaluation has no value.
#[derive(Debug)]
pub(super) enum EvaluationError {
    /// A value did not fit; `&&` and `||` may do without it.
    Wrong(String),
    /// A limit was reached; nothing does without that.
    Limit(String),
}

impl EvaluationError {
    pub(super) fn wrong<T>(message: impl Into<String>) -> Result<T, EvaluationError> {
        Err(EvaluationError::Wrong(message.into()))
    }

    pub(super) fn into_sentence(self) -> String {
        match self {
            EvaluationError::Wrong(sentence) | EvaluationError::Limit(sentence) => sentence,
        }
    }
}

/// What an evaluation may still use.
pub(crate) struct Meter {
    operations: Cell<usize>,
    bytes: Cell<usize>,
}

impl Meter {
    pub(crate) fn new() -> Meter {
        Meter { operations: Cell::new(MAX_OPERATIONS), bytes: Cell::new(MAX_RESULT_BYTES) }
    }

    /// Refills the operations, not the bytes, for the next expression of the same value.
    pub(crate) fn next_expression(&self) {
        self.operations.set(MAX_OPERATIONS);
    }

    /// Pays for operations, or fails if the budget is used up.
    pub(super) fn spend(&self, operations: usize) -> Result<(), EvaluationError> {
        match self.operations.get().checked_sub(operations) {
            Some(left) => {
                self.operations.set(left);
                Ok(())
            }
            None => Err(EvaluationError::Limit(format!(
                "this takes more than {MAX_OPERATIONS} operations; shorten the lists, or do it in a step"
            ))),
        }
    }

    /// Pays for reading this many bytes of text.
    pub(super) fn spend_on_reading(&self, bytes: usize) -> Result<(), EvaluationError> {
        self.spend(1 + bytes / 16)
    }

    /// Pays for bytes before they are made.
    pub(crate) fn spend_bytes(&self, bytes: usize) -> Result<(), TooLarge> {
        match self.bytes.get().checked_sub(bytes) {
            Some(left) => {
                self.bytes.set(left);
                Ok(())
            }
            None => Err(TooLarge),
        }
    }
}

/// More bytes than an evaluation may make.
#[derive(Debug)]
pub(crate) struct TooLarge;

impl TooLarge {
    pub(crate) fn sentence() -> String {
        format!(
            "the value is larger than {} MiB; create it in a step and pass a reference",
            MAX_RESULT_BYTES >> 20
        )
    }
}

impl From<TooLarge> for EvaluationError {
    fn from(_: TooLarge) -> EvaluationError {
        EvaluationError::Limit(TooLarge::sentence())
    }
}

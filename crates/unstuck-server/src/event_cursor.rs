//! Where a stream of events goes on: in the log of runs, and in the audit of everything else.

use std::fmt;
use std::str::FromStr;

use unstuck_core::id::AuditEntryId;
use unstuck_store::contract::{Cursor, Reader, StoreError, TailError};

/// A place in all that happens. It is opaque to whoever holds it, and outlives the server that gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventCursor {
    pub(crate) log: Cursor,
    /// The last entry of the audit.
    pub(crate) audit: AuditEntryId,
}

impl EventCursor {
    /// Returns the end of what is durable. Taken before something is read, a stream from there on misses nothing that was not
    /// read.
    pub(crate) fn end(reader: &dyn Reader) -> Result<EventCursor, StoreError> {
        let (log, audit) = reader.ends()?;
        Ok(EventCursor { log, audit })
    }

    /// Reads a cursor. One of before there was an audit in it tells of runs from its place on, and of the rest from now on.
    pub(crate) fn read(text: &str, reader: &dyn Reader) -> Result<EventCursor, TailError> {
        if let Ok(log) = text.parse::<Cursor>() {
            let (_, audit) = reader.ends().map_err(TailError::Store)?;
            return Ok(EventCursor { log, audit });
        }
        let (log, audit) = text.rsplit_once('.').ok_or(TailError::NoCursor)?;
        let is_plain = audit.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'));
        let audit = u64::from_str_radix(audit, 16).ok().filter(|_| is_plain).ok_or(TailError::NoCursor)?;
        Ok(EventCursor { log: Cursor::from_str(log)?, audit: AuditEntryId(audit) })
    }

    /// Returns whether this is at another place or after it, in both.
    pub(crate) fn is_at_or_after(&self, other: &EventCursor) -> bool {
        self.log.position() >= other.log.position() && self.audit >= other.audit
    }
}

impl fmt::Display for EventCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:x}", self.log, self.audit.0)
    }
}

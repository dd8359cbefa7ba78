//! The JSON types on the wire, and nothing else.

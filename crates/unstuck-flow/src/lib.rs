//! Flow files: from text to the model, with every problem and its place.

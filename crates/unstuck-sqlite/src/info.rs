//! What a store holds, in numbers: read beside whoever owns it, and nothing is changed.

use std::path::Path;

use crate::open::DATABASE;

/// Whether there is a store in this folder.
pub fn has_store(directory: &Path) -> bool {
    directory.join(DATABASE).is_file()
}

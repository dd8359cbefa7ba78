//! Files of a disk in memory that are read and written to past SQLite.

use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use rusqlite::ffi;
use unstuck_sqlite::RawFile;

use super::disk::{Disk, Failed};
use super::vfs;

/// An open file.
struct Bytes {
    disk: Arc<Disk>,
    name: String,
    file: u64,
    at: usize,
}

impl unstuck_sqlite::Disk for Disk {
    fn vfs(&self) -> &str {
        vfs::NAME
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn RawFile>> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        self.inner().alive()?;
        let file = self.inner().find(&name).ok_or(ErrorKind::NotFound)?;
        let disk = self.share().ok_or(ErrorKind::NotFound)?;
        Ok(Box::new(Bytes { disk, name, file, at: 0 }))
    }
}

impl From<Failed> for io::Error {
    fn from(Failed(code): Failed) -> io::Error {
        let kind = if code == ffi::SQLITE_FULL { ErrorKind::StorageFull } else { ErrorKind::Other };
        io::Error::new(kind, format!("the disk says {code}"))
    }
}

impl Read for Bytes {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut inner = self.disk.inner();
        let there = inner.size(self.file).saturating_sub(self.at).min(into.len());
        inner.read(&self.name, self.file, self.at, &mut into[..there])?;
        self.at += there;
        Ok(there)
    }
}

impl Write for Bytes {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.disk.inner().write(&self.name, self.file, self.at, from)?;
        self.at += from.len();
        Ok(from.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Bytes {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let SeekFrom::Start(at) = to else { return Err(ErrorKind::Unsupported.into()) };
        self.at = usize::try_from(at).map_err(io::Error::other)?;
        Ok(at)
    }
}

impl RawFile for Bytes {
    fn sync(&self) -> io::Result<()> {
        Ok(self.disk.inner().sync(&self.name, self.file, false)?)
    }
}

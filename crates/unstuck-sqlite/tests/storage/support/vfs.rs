//! The disks in memory, as SQLite asks for them: a VFS in which the first folder of a path names the disk.
#![expect(unsafe_code, reason = "SQLite is given its file system as a table of C functions")]

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Once, PoisonError};

use rusqlite::ffi;

use super::disk::{Disk, Failed};
use super::faults::{Op, Which};
use super::locks::REGION;

/// What the VFS is called.
pub(crate) const NAME: &str = "unstuck-disks";

static DISKS: Mutex<BTreeMap<u64, Arc<Disk>>> = Mutex::new(BTreeMap::new());

/// A disk that SQLite can find, under a path of its own, until this goes.
pub(crate) struct Mounted {
    pub(crate) disk: Arc<Disk>,
    number: u64,
}

impl Mounted {
    pub(crate) fn new(disk: Arc<Disk>) -> Mounted {
        register();
        let mut disks = DISKS.lock().unwrap_or_else(PoisonError::into_inner);
        let number = disks.keys().next_back().map_or(1, |last| last + 1);
        disks.insert(number, disk.clone());
        Mounted { disk, number }
    }

    /// Its folder.
    pub(crate) fn path(&self) -> PathBuf {
        format!("/{}", self.number).into()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        DISKS.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

/// An open file, as SQLite keeps it.
#[repr(C)]
struct Handle {
    base: ffi::sqlite3_file,
    open: *mut Open,
}

struct Open {
    disk: Arc<Disk>,
    name: String,
    file: u64,
    /// The folder is synced with the first sync of this file.
    syncs_names: bool,
    level: c_int,
    uses_memory: bool,
    /// The slots of the shared memory that it has, a bit each.
    slots: u32,
}

fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the table and its name live as long as the process; the default VFS is always there.
        let code = unsafe {
            let usual = *ffi::sqlite3_vfs_find(std::ptr::null());
            let vfs = Box::new(ffi::sqlite3_vfs {
                iVersion: 2,
                szOsFile: c_int::try_from(size_of::<Handle>()).unwrap_or(c_int::MAX),
                mxPathname: 512,
                pNext: std::ptr::null_mut(),
                zName: c"unstuck-disks".as_ptr(),
                pAppData: std::ptr::null_mut(),
                xOpen: Some(open),
                xDelete: Some(delete),
                xAccess: Some(access),
                xFullPathname: Some(full_path),
                ..usual
            });
            ffi::sqlite3_vfs_register(Box::into_raw(vfs), 0)
        };
        assert_eq!(code, ffi::SQLITE_OK, "the VFS is registered");
    });
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

fn code(result: Result<(), Failed>) -> c_int {
    match result {
        Ok(()) => ffi::SQLITE_OK,
        Err(Failed(code)) => code,
    }
}

/// The disk that a path is on, and the name there.
fn place(path: *const c_char) -> Option<(Arc<Disk>, String)> {
    if path.is_null() {
        return None;
    }
    // SAFETY: SQLite gives paths that end with a zero.
    let path = unsafe { CStr::from_ptr(path) }.to_str().ok()?;
    let (number, name) = path.strip_prefix('/')?.split_once('/')?;
    let disks = DISKS.lock().unwrap_or_else(PoisonError::into_inner);
    Some((disks.get(&number.parse().ok()?)?.clone(), name.to_owned()))
}

/// The open file behind a handle.
///
/// # Safety
/// SQLite calls with handles that `open` has filled, and not after `close`; never two calls at once for one handle.
unsafe fn opened<'a>(handle: *mut ffi::sqlite3_file) -> &'a mut Open {
    // SAFETY: as said above.
    unsafe { &mut *(*handle.cast::<Handle>()).open }
}

unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    path: ffi::sqlite3_filename,
    handle: *mut ffi::sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    let handle = handle.cast::<Handle>();
    // SAFETY: SQLite gives room for a handle; without methods it will not be closed.
    unsafe { (*handle).base.pMethods = std::ptr::null() };
    let Some((disk, name)) = place(path) else { return ffi::SQLITE_CANTOPEN };
    let found = {
        let mut inner = disk.inner();
        if let Err(Failed(code)) = inner.alive() {
            return code;
        }
        match inner.find(&name) {
            Some(file) => Ok(file),
            None if flags & ffi::SQLITE_OPEN_CREATE != 0 => inner.make(&name),
            None => Err(Failed(ffi::SQLITE_CANTOPEN)),
        }
    };
    let file = match found {
        Ok(file) => file,
        Err(Failed(code)) => return code,
    };
    let syncs_names = Which::of(&name) != Which::Database && flags & ffi::SQLITE_OPEN_CREATE != 0;
    let open = Open { disk, name, file, syncs_names, level: 0, uses_memory: false, slots: 0 };
    // SAFETY: as above; `close` takes the box back.
    unsafe {
        (*handle).open = Box::into_raw(Box::new(open));
        (*handle).base.pMethods = &raw const METHODS;
        if !out.is_null() {
            *out = flags;
        }
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn delete(_: *mut ffi::sqlite3_vfs, path: *const c_char, sync: c_int) -> c_int {
    let Some((disk, name)) = place(path) else { return ffi::SQLITE_IOERR_DELETE };
    let mut inner = disk.inner();
    if inner.find(&name).is_none() {
        return inner.alive().map_or_else(|Failed(code)| code, |()| ffi::SQLITE_IOERR_DELETE_NOENT);
    }
    code(inner.remove(&name, sync != 0))
}

unsafe extern "C" fn access(
    _: *mut ffi::sqlite3_vfs,
    path: *const c_char,
    _: c_int,
    out: *mut c_int,
) -> c_int {
    let found = place(path).map(|(disk, name)| {
        let inner = disk.inner();
        let is_there = inner.find(&name).is_some_and(|file| inner.size(file) > 0);
        (inner.alive(), is_there)
    });
    let (alive, is_there) = found.unwrap_or((Ok(()), false));
    // SAFETY: SQLite gives a place for the answer.
    unsafe { *out = c_int::from(is_there) };
    code(alive)
}

unsafe extern "C" fn full_path(
    _: *mut ffi::sqlite3_vfs,
    path: *const c_char,
    size: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: SQLite gives a path that ends with a zero, and room for `size` characters.
    unsafe {
        let bytes = CStr::from_ptr(path).to_bytes_with_nul();
        if bytes.len() > usize::try_from(size).unwrap_or(0) {
            return ffi::SQLITE_CANTOPEN;
        }
        std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), out, bytes.len());
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn close(handle: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: `open` has made the box, and SQLite closes once.
    unsafe {
        unlock(handle, ffi::SQLITE_LOCK_NONE);
        shm_unmap(handle, 0);
        drop(Box::from_raw((*handle.cast::<Handle>()).open));
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn read(handle: *mut ffi::sqlite3_file, into: *mut c_void, n: c_int, at: i64) -> c_int {
    // SAFETY: SQLite gives room for `n` bytes.
    let (open, into) = unsafe {
        (opened(handle), std::slice::from_raw_parts_mut(into.cast::<u8>(), usize::try_from(n).unwrap_or(0)))
    };
    match open.disk.inner().read(&open.name, open.file, usize::try_from(at).unwrap_or(0), into) {
        Ok(true) => ffi::SQLITE_OK,
        Ok(false) => ffi::SQLITE_IOERR_SHORT_READ,
        Err(Failed(code)) => code,
    }
}

unsafe extern "C" fn write(handle: *mut ffi::sqlite3_file, from: *const c_void, n: c_int, at: i64) -> c_int {
    // SAFETY: SQLite gives `n` bytes.
    let (open, bytes) = unsafe {
        (opened(handle), std::slice::from_raw_parts(from.cast::<u8>(), usize::try_from(n).unwrap_or(0)))
    };
    code(open.disk.inner().write(&open.name, open.file, usize::try_from(at).unwrap_or(0), bytes))
}

unsafe extern "C" fn truncate(handle: *mut ffi::sqlite3_file, size: i64) -> c_int {
    // SAFETY: see `opened`.
    let open = unsafe { opened(handle) };
    code(open.disk.inner().cut(&open.name, open.file, usize::try_from(size).unwrap_or(0)))
}

unsafe extern "C" fn sync(handle: *mut ffi::sqlite3_file, _: c_int) -> c_int {
    // SAFETY: see `opened`.
    let open = unsafe { opened(handle) };
    let synced = open.disk.inner().sync(&open.name, open.file, open.syncs_names);
    open.syncs_names &= synced.is_err();
    code(synced)
}

unsafe extern "C" fn file_size(handle: *mut ffi::sqlite3_file, out: *mut i64) -> c_int {
    // SAFETY: see `opened`; SQLite gives a place for the answer.
    unsafe {
        let open = opened(handle);
        let inner = open.disk.inner();
        *out = i64::try_from(inner.size(open.file)).unwrap_or(i64::MAX);
        code(inner.alive())
    }
}

unsafe extern "C" fn lock(handle: *mut ffi::sqlite3_file, wanted: c_int) -> c_int {
    // SAFETY: see `opened`.
    let Open { disk, name, level, .. } = unsafe { opened(handle) };
    let mut inner = disk.inner();
    let alive = inner.alive();
    code(alive.and_then(|()| inner.locks.entry(name.clone()).or_default().raise(level, wanted)))
}

unsafe extern "C" fn unlock(handle: *mut ffi::sqlite3_file, wanted: c_int) -> c_int {
    // SAFETY: see `opened`.
    let Open { disk, name, level, .. } = unsafe { opened(handle) };
    disk.inner().locks.entry(name.clone()).or_default().lower(level, wanted);
    ffi::SQLITE_OK
}

unsafe extern "C" fn check_reserved_lock(handle: *mut ffi::sqlite3_file, out: *mut c_int) -> c_int {
    // SAFETY: see `opened`; SQLite gives a place for the answer.
    unsafe {
        let Open { disk, name, .. } = opened(handle);
        *out = c_int::from(disk.inner().locks.entry(name.clone()).or_default().is_reserved());
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn file_control(_: *mut ffi::sqlite3_file, _: c_int, _: *mut c_void) -> c_int {
    ffi::SQLITE_NOTFOUND
}

unsafe extern "C" fn sector_size(_: *mut ffi::sqlite3_file) -> c_int {
    4096
}

/// What SQLite takes for granted on Unix: a write does not harm the bytes around it.
unsafe extern "C" fn device_characteristics(_: *mut ffi::sqlite3_file) -> c_int {
    ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE
}

unsafe extern "C" fn shm_map(
    handle: *mut ffi::sqlite3_file,
    region: c_int,
    size: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: see `opened`.
    let Open { disk, name, uses_memory, .. } = unsafe { opened(handle) };
    assert_eq!(usize::try_from(size), Ok(REGION));
    let mut inner = disk.inner();
    let allowed = inner.alive().and_then(|()| inner.faults.check(Op::Map, name));
    if let Err(Failed(code)) = allowed {
        return code;
    }
    let memory = inner.memory.entry(name.clone()).or_default();
    memory.users += usize::from(!std::mem::replace(uses_memory, true));
    let found = memory.region(usize::try_from(region).unwrap_or(0), extend != 0);
    // SAFETY: SQLite gives a place for the answer. The region stays until nobody uses it.
    unsafe { *out = found.map_or(std::ptr::null_mut(), <*mut u64>::cast) };
    ffi::SQLITE_OK
}

unsafe extern "C" fn shm_lock(
    handle: *mut ffi::sqlite3_file,
    from: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: see `opened`.
    let Open { disk, name, slots, .. } = unsafe { opened(handle) };
    let mut inner = disk.inner();
    let alive = inner.alive();
    let memory = inner.memory.entry(name.clone()).or_default();
    let (from, count) = (usize::try_from(from).unwrap_or(0), usize::try_from(count).unwrap_or(0));
    let mask = ((1 << count) - 1) << from;
    if flags & ffi::SQLITE_SHM_UNLOCK != 0 {
        if *slots & mask != 0 {
            memory.unlock(from, count);
            *slots &= !mask;
        }
        return ffi::SQLITE_OK;
    }
    let exclusive = flags & ffi::SQLITE_SHM_EXCLUSIVE != 0;
    if !exclusive && *slots & mask != 0 {
        return ffi::SQLITE_OK;
    }
    code(alive.and_then(|()| memory.lock(from, count, exclusive)).map(|()| *slots |= mask))
}

unsafe extern "C" fn shm_barrier(_: *mut ffi::sqlite3_file) {
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

unsafe extern "C" fn shm_unmap(handle: *mut ffi::sqlite3_file, _: c_int) -> c_int {
    // SAFETY: see `opened`.
    let Open { disk, name, uses_memory, slots, .. } = unsafe { opened(handle) };
    if std::mem::take(uses_memory) {
        let mut inner = disk.inner();
        let memory = inner.memory.entry(name.clone()).or_default();
        for slot in 0..ffi::SQLITE_SHM_NLOCK as usize {
            if *slots & (1 << slot) != 0 {
                memory.unlock(slot, 1);
            }
        }
        *slots = 0;
        memory.leave();
    }
    ffi::SQLITE_OK
}

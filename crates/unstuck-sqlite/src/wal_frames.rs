//! The frames of a write-ahead log: where one is damaged that must have been whole.
//!
//! SQLite reads a log up to the first frame that does not fit and passes over the rest, as it must after a crash: what
//! was not synced may be anything. But every transaction is synced before the next one is written. So a frame that does
//! not fit, with the ends of two transactions after it, was whole once, and what is behind it was acknowledged.

use std::io::{self, Read};

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// The first word of a log, with sums over words of which the lowest byte comes first; one more for the highest.
const MAGIC: u32 = 0x377f_0682;
/// The pages of a log whose header cannot be read.
const USUAL_PAGE: usize = 4096;

/// What is summed up over all frames so far.
type Sums = (u32, u32);

/// Returns the position of the first frame that does not fit although two transactions end after it. What a crash
/// leaves has no such ends, and is no damage.
pub(crate) fn find_damage(log: &mut impl Read) -> io::Result<Option<u64>> {
    let mut header = [0; HEADER];
    if !fill_buffer(log, &mut header)? {
        return Ok(None);
    }
    let magic = read_word(&header, 0);
    let highest_first = magic == MAGIC + 1;
    let mut sums = sum_words((0, 0), &header[..24], highest_first);
    let is_whole = magic & !1 == MAGIC && sums == (read_word(&header, 24), read_word(&header, 28));
    let page = if is_whole { read_word(&header, 8) as usize } else { USUAL_PAGE };
    let mut salt = is_whole.then(|| (read_word(&header, 16), read_word(&header, 20)));
    let mut damaged = (!is_whole).then_some(0);
    let mut ends = 0;
    let mut at = HEADER as u64;
    let mut frame = vec![0; FRAME_HEADER + page];
    while fill_buffer(log, &mut frame)? {
        let own = (read_word(&frame, 8), read_word(&frame, 12));
        let is_of_this_log = *salt.get_or_insert(own) == own;
        sums = sum_words(sum_words(sums, &frame[..8], highest_first), &frame[FRAME_HEADER..], highest_first);
        if !is_of_this_log || sums != (read_word(&frame, 16), read_word(&frame, 20)) {
            damaged = damaged.or(Some(at));
        }
        ends += usize::from(damaged.is_some() && is_of_this_log && read_word(&frame, 4) != 0);
        at += frame.len() as u64;
    }
    Ok(damaged.filter(|_| ends >= 2))
}

/// Copies the pages of every committed transaction of a log into an image of its database.
pub(crate) fn apply_commits(log: &mut impl Read, image: &mut Vec<u8>) -> io::Result<()> {
    let mut header = [0; HEADER];
    if !fill_buffer(log, &mut header)? {
        return Ok(());
    }
    let highest_first = read_word(&header, 0) == MAGIC + 1;
    let mut sums = sum_words((0, 0), &header[..24], highest_first);
    if read_word(&header, 0) & !1 != MAGIC || sums != (read_word(&header, 24), read_word(&header, 28)) {
        return Ok(());
    }
    let page = read_word(&header, 8) as usize;
    let mut frame = vec![0; FRAME_HEADER + page];
    let mut pending: Vec<(usize, Vec<u8>)> = Vec::new();
    while fill_buffer(log, &mut frame)? {
        sums = sum_words(sum_words(sums, &frame[..8], highest_first), &frame[FRAME_HEADER..], highest_first);
        if frame[8..16] != header[16..24] || sums != (read_word(&frame, 16), read_word(&frame, 20)) {
            break;
        }
        pending.push((read_word(&frame, 0) as usize, frame[FRAME_HEADER..].to_vec()));
        let pages = read_word(&frame, 4) as usize;
        if pages == 0 {
            continue;
        }
        image.resize(pages * page, 0);
        for (number, bytes) in pending.drain(..).filter(|(number, _)| (1..=pages).contains(number)) {
            image[(number - 1) * page..number * page].copy_from_slice(&bytes);
        }
    }
    Ok(())
}

/// Continues SQLite's checksum, which adds pairs of 32-bit words, in the byte order that the header names.
fn sum_words(before: Sums, bytes: &[u8], highest_first: bool) -> Sums {
    let (mut first, mut second) = before;
    for pair in bytes.chunks_exact(8) {
        let mut words = [read_word(pair, 0), read_word(pair, 4)];
        if !highest_first {
            words = words.map(u32::swap_bytes);
        }
        first = first.wrapping_add(words[0]).wrapping_add(second);
        second = second.wrapping_add(words[1]).wrapping_add(first);
    }
    (first, second)
}

fn read_word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().fold(0, |word, byte| word << 8 | u32::from(*byte))
}

/// Fills the buffer; false if the file ended before.
fn fill_buffer(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

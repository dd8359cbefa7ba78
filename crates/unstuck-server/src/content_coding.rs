//! `gzip` and `zstd`: answers to whoever takes them, and bodies that come so, whose limits count what they become.

use std::io::{self, Write};

use axum::http::{HeaderMap, header};
use flate2::Compression;
use flate2::write::{GzDecoder, GzEncoder};
use unstuck_api::ProblemType;
use zstd::stream::raw::{DParameter, Decoder as ZstdDecoder, InBuffer, Operation as _, OutBuffer};

use crate::problem::Problem;

/// Levels that cost little: answers are made anew for everybody.
const GZIP_LEVEL: u32 = 3;
const ZSTD_LEVEL: i32 = 1;
/// A zstd body may look back 8 MiB, as RFC 8878 recommends: whoever sends it decides how much memory that takes.
const ZSTD_WINDOW_LOG: u32 = 23;
/// Bytes that are made of a zstd body at once.
const STEP: usize = 16 << 10;

/// How content is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentCoding {
    Gzip,
    Zstd,
}

impl ContentCoding {
    /// Its name in headers.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ContentCoding::Gzip => "gzip",
            ContentCoding::Zstd => "zstd",
        }
    }

    /// Chooses the coding that a caller likes best, by `Accept-Encoding`; zstd where both are the same to it, because it costs less.
    pub(crate) fn of_answer(headers: &HeaderMap) -> Option<ContentCoding> {
        let accepted =
            headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
        let mut weights: [Option<u16>; 2] = [None, None];
        let mut other = None;
        for part in accepted.flat_map(|value| value.split(',')) {
            let (name, weight) = part.split_once(';').unwrap_or((part, "q=1"));
            let Some(weight) = read_weight(weight) else { continue };
            match name.trim().to_ascii_lowercase().as_str() {
                "gzip" | "x-gzip" => weights[0] = Some(weight),
                "zstd" => weights[1] = Some(weight),
                "*" => other = Some(weight),
                _ => {}
            }
        }
        let [gzip, zstd] = weights.map(|weight| weight.or(other).unwrap_or(0));
        match (gzip, zstd) {
            (0, 0) => None,
            (gzip, zstd) if gzip > zstd => Some(ContentCoding::Gzip),
            _ => Some(ContentCoding::Zstd),
        }
    }

    /// Reads how the body of a request is compressed; none where it is not.
    pub(crate) fn of_request(headers: &HeaderMap) -> Result<Option<ContentCoding>, Problem> {
        let mut given = headers.get_all(header::CONTENT_ENCODING).iter();
        let (first, second) = (given.next(), given.next());
        let name = first.map(|name| name.to_str().unwrap_or("?").trim().to_ascii_lowercase());
        match (name.as_deref(), second) {
            (None | Some("identity" | ""), None) => Ok(None),
            (Some("gzip" | "x-gzip"), None) => Ok(Some(ContentCoding::Gzip)),
            (Some("zstd"), None) => Ok(Some(ContentCoding::Zstd)),
            (_, Some(_)) => Err(refuse_coding("more than one `Content-Encoding`")),
            (Some(other), None) => {
                let other: String = other.chars().take(100).collect();
                Err(refuse_coding(&format!("`Content-Encoding: {other}`")))
            }
        }
    }

    /// Compresses a text.
    pub(crate) fn compress(self, text: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            ContentCoding::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::new(GZIP_LEVEL));
                encoder.write_all(text)?;
                encoder.finish()
            }
            ContentCoding::Zstd => zstd::bulk::compress(text, ZSTD_LEVEL),
        }
    }
}

fn refuse_coding(given: &str) -> Problem {
    let sentence = format!("{given} is not taken here; send the body as it is, or with `gzip` or `zstd`");
    Problem::new(ProblemType::UnsupportedMediaType, sentence)
}

/// Reads a weight such as `q=0.5`, in thousandths.
fn read_weight(text: &str) -> Option<u16> {
    let weight: f32 = text.trim().strip_prefix("q=")?.trim().parse().ok()?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is between 0 and 1000")]
    (0.0..=1.0).contains(&weight).then_some((weight * 1_000.0) as u16)
}

/// Takes a body in pieces and makes what it stands for, up to a limit.
pub(crate) struct BodyDecoder {
    kind: DecoderKind,
    coding: Option<ContentCoding>,
}

enum DecoderKind {
    Plain(LimitedBytes),
    Gzip(Box<GzDecoder<LimitedBytes>>),
    Zstd(Box<ZstdBody>),
}

/// Why a body cannot be taken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DecodeError {
    TooLarge,
    /// It is not what its header says, or ends too early.
    Broken(ContentCoding),
}

impl BodyDecoder {
    pub(crate) fn new(coding: Option<ContentCoding>, limit: usize) -> BodyDecoder {
        let bytes = LimitedBytes { bytes: Vec::new(), limit, is_exceeded: false };
        let kind = match coding {
            None => DecoderKind::Plain(bytes),
            Some(ContentCoding::Gzip) => DecoderKind::Gzip(Box::new(GzDecoder::new(bytes))),
            Some(ContentCoding::Zstd) => {
                DecoderKind::Zstd(Box::new(ZstdBody { decoder: None, bytes, is_whole: false }))
            }
        };
        BodyDecoder { kind, coding }
    }

    /// Takes the next piece.
    pub(crate) fn take(&mut self, piece: &[u8]) -> Result<(), DecodeError> {
        let taken = match &mut self.kind {
            DecoderKind::Plain(bytes) => bytes.write_all(piece),
            DecoderKind::Gzip(decoder) => decoder.write_all(piece),
            DecoderKind::Zstd(body) => body.take(piece),
        };
        taken.map_err(|_| self.error())
    }

    /// How many bytes there are so far.
    pub(crate) fn len(&self) -> usize {
        self.bytes().bytes.len()
    }

    /// Returns all of it, when the last piece has come.
    pub(crate) fn finish(mut self) -> Result<Vec<u8>, DecodeError> {
        // The decoder keeps back up to 32 KiB of what it has made: the limit may be exceeded only here.
        if let DecoderKind::Gzip(decoder) = &mut self.kind
            && decoder.try_finish().is_err()
        {
            return Err(self.error());
        }
        let error = self.error();
        match self.kind {
            DecoderKind::Plain(bytes) => Ok(bytes.bytes),
            DecoderKind::Gzip(decoder) => decoder.finish().map(|bytes| bytes.bytes).map_err(|_| error),
            DecoderKind::Zstd(body) if body.is_whole => Ok(body.bytes.bytes),
            DecoderKind::Zstd(_) => Err(error),
        }
    }

    fn bytes(&self) -> &LimitedBytes {
        match &self.kind {
            DecoderKind::Plain(bytes) => bytes,
            DecoderKind::Gzip(decoder) => decoder.get_ref(),
            DecoderKind::Zstd(body) => &body.bytes,
        }
    }

    fn error(&self) -> DecodeError {
        match self.coding {
            Some(coding) if !self.bytes().is_exceeded => DecodeError::Broken(coding),
            Some(_) | None => DecodeError::TooLarge,
        }
    }
}

/// A body in the form of zstd.
struct ZstdBody {
    decoder: Option<ZstdDecoder<'static>>,
    bytes: LimitedBytes,
    /// Whether what has come ends with the end of a frame.
    is_whole: bool,
}

impl ZstdBody {
    fn take(&mut self, piece: &[u8]) -> io::Result<()> {
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            None => self.decoder.insert(new_zstd_decoder()?),
        };
        let mut input = InBuffer::around(piece);
        let mut made = [0; STEP];
        loop {
            let mut output = OutBuffer::around(&mut made[..]);
            let rest = decoder.run(&mut input, &mut output)?;
            self.is_whole = rest == 0;
            let is_full = output.pos() == STEP;
            self.bytes.write_all(output.as_slice())?;
            // One that has filled its output may have more of it, and needs nothing for that.
            if input.pos() == piece.len() && (self.is_whole || !is_full) {
                return Ok(());
            }
        }
    }
}

fn new_zstd_decoder() -> io::Result<ZstdDecoder<'static>> {
    let mut decoder = ZstdDecoder::new()?;
    decoder.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG))?;
    Ok(decoder)
}

/// Bytes up to a limit; more of them are refused.
struct LimitedBytes {
    bytes: Vec<u8>,
    limit: usize,
    is_exceeded: bool,
}

impl Write for LimitedBytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.limit {
            self.is_exceeded = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    const BOTH: [ContentCoding; 2] = [ContentCoding::Gzip, ContentCoding::Zstd];

    fn decode(
        coding: Option<ContentCoding>,
        limit: usize,
        body: &[u8],
        size: usize,
    ) -> Result<Vec<u8>, DecodeError> {
        let mut decoder = BodyDecoder::new(coding, limit);
        for piece in body.chunks(size) {
            decoder.take(piece)?;
            assert!(decoder.len() <= limit);
        }
        decoder.finish()
    }

    /// Some JSON of this length that is neither all the same nor without any order.
    fn text(length: usize) -> Vec<u8> {
        let parts =
            (0_u64..).map(|number| format!("{{\"run\":{}}},", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        parts.flat_map(String::into_bytes).take(length).collect()
    }

    #[test]
    fn what_is_compressed_comes_back_in_pieces_of_any_size() {
        for length in [1, 100, STEP, STEP + 1, 300_000] {
            let text = text(length);
            for coding in BOTH {
                let body = coding.compress(&text).expect("it can be written");
                for size in [1, 7, 1_000, body.len()] {
                    let decoded = decode(Some(coding), length, &body, size);
                    assert_eq!(decoded.as_ref(), Ok(&text), "{coding:?} {length} {size}");
                }
                let cut = decode(Some(coding), length, &body[..body.len() - 1], 100);
                assert_eq!(cut, Err(DecodeError::Broken(coding)), "{length}");
            }
            assert_eq!(decode(None, length, &text, 100), Ok(text));
        }
    }

    #[test]
    fn the_limit_counts_what_a_body_becomes() {
        for coding in BOTH {
            // A few kilobytes that become 20 MiB.
            let body = coding.compress(&vec![b' '; 20 << 20]).expect("it can be written");
            assert!(body.len() < 300_000, "{}", body.len());
            assert_eq!(decode(Some(coding), 1 << 20, &body, 1_000), Err(DecodeError::TooLarge));
            let body = coding.compress(&text(1_001)).expect("it can be written");
            assert_eq!(decode(Some(coding), 1_000, &body, 1_000), Err(DecodeError::TooLarge));
        }
        assert_eq!(decode(None, 10, &[b' '; 11], 4), Err(DecodeError::TooLarge));
    }

    #[test]
    fn what_is_not_compressed_is_refused() {
        for coding in BOTH {
            for body in [&b"{\"flow\":\"quick\"}"[..], b"", b"\x1f\x8b", b"\x28\xb5\x2f\xfd"] {
                assert_eq!(
                    decode(Some(coding), 1_000, body, 1_000),
                    Err(DecodeError::Broken(coding)),
                    "{body:?}"
                );
            }
        }
    }

    #[test]
    fn the_caller_says_what_it_takes() {
        let (gzip, zstd) = (Some(ContentCoding::Gzip), Some(ContentCoding::Zstd));
        for (accepted, wanted) in [
            ("", None),
            ("identity", None),
            ("br", None),
            ("gzip", gzip),
            ("GZIP", gzip),
            ("zstd", zstd),
            ("gzip, deflate, br, zstd", zstd),
            ("gzip;q=1.0, zstd;q=0.5", gzip),
            ("gzip; q=0.2 , zstd; q=0.9", zstd),
            ("gzip;q=0", None),
            ("*", zstd),
            ("*;q=0.1, gzip", gzip),
            ("zstd;q=0, *", gzip),
            ("gzip;q=2", None),
            ("gzip;q=x", None),
            ("*;q=0", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(accepted));
            assert_eq!(ContentCoding::of_answer(&headers), wanted, "{accepted}");
        }
    }
}

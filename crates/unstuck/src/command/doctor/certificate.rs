//! Until when a certificate is valid: the one field that is read here of its DER.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

const INTEGER: u8 = 0x02;
const SEQUENCE: u8 = 0x30;
/// The version of the certificate, which older ones lack.
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// Finds the end of a certificate's time; none where it is no certificate.
pub(super) fn find_expiry(der: &[u8]) -> Option<Timestamp> {
    let (certificate, _) = take(der, SEQUENCE)?;
    let (mut fields, _) = take(certificate, SEQUENCE)?;
    if fields.first() == Some(&VERSION) {
        (_, fields) = take(fields, VERSION)?;
    }
    // The serial number, the algorithm, the issuer.
    for tag in [INTEGER, SEQUENCE, SEQUENCE] {
        (_, fields) = take(fields, tag)?;
    }
    let (validity, _) = take(fields, SEQUENCE)?;
    let (_, rest) = take_time(validity)?;
    let (end, _) = take_time(rest)?;
    Some(end)
}

/// Takes an element with this tag: its content, and what comes after it.
fn take(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = bytes.split_first()?;
    if found != tag {
        return None;
    }
    let (&first, mut rest) = rest.split_first()?;
    let mut length = usize::from(first);
    if first & 0x80 != 0 {
        let digits = usize::from(first & 0x7f);
        if digits == 0 || digits > 4 {
            return None;
        }
        length = rest.get(..digits)?.iter().fold(0, |length, digit| length << 8 | usize::from(*digit));
        rest = &rest[digits..];
    }
    rest.split_at_checked(length)
}

fn take_time(bytes: &[u8]) -> Option<(Timestamp, &[u8])> {
    let tag = *bytes.first()?;
    let (content, rest) = take(bytes, tag)?;
    let text = std::str::from_utf8(content).ok()?;
    let text = match tag {
        GENERALIZED_TIME => text.to_owned(),
        // Two digits of a year: the first half of them is of this century.
        UTC_TIME if text.get(..2)? < "50" => format!("20{text}"),
        UTC_TIME => format!("19{text}"),
        _ => return None,
    };
    let time = DateTime::strptime("%Y%m%d%H%M%SZ", &text).ok()?;
    Some((time.to_zoned(TimeZone::UTC).ok()?.timestamp(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An element.
    fn element(tag: u8, content: &[u8]) -> Vec<u8> {
        let length = content.len();
        let head = match u8::try_from(length) {
            Ok(length) if length < 0x80 => vec![tag, length],
            _ => vec![
                tag,
                0x82,
                u8::try_from(length >> 8).expect("it is short"),
                u8::try_from(length & 0xff).expect("it fits"),
            ],
        };
        [head, content.to_vec()].concat()
    }

    fn certificate(version: &[u8], end: &[u8]) -> Vec<u8> {
        let begin = element(UTC_TIME, b"260101000000Z");
        let validity = element(SEQUENCE, &[begin, end.to_vec()].concat());
        let issuer = element(SEQUENCE, &[0; 300]);
        let fields = [version, &element(INTEGER, &[1]), &element(SEQUENCE, &[]), &issuer, &validity].concat();
        element(SEQUENCE, &element(SEQUENCE, &fields))
    }

    #[test]
    fn the_end_is_found_in_every_form() {
        let version = element(VERSION, &[2, 1, 2]);
        for (version, end, wanted) in [
            (&version[..], element(UTC_TIME, b"270203040506Z"), Some("2027-02-03T04:05:06Z")),
            (&[], element(UTC_TIME, b"990203040506Z"), Some("1999-02-03T04:05:06Z")),
            (&version, element(GENERALIZED_TIME, b"21260203040506Z"), Some("2126-02-03T04:05:06Z")),
            (&version, element(GENERALIZED_TIME, b"soon"), None),
            (&version, element(INTEGER, b"270203040506Z"), None),
        ] {
            let found = find_expiry(&certificate(version, &end)).map(|end| end.to_string());
            assert_eq!(found.as_deref(), wanted);
        }
    }

    #[test]
    fn what_is_cut_off_is_no_certificate() {
        let whole = certificate(&[], &element(UTC_TIME, b"270203040506Z"));
        for length in 0..whole.len() {
            assert_eq!(find_expiry(&whole[..length]), None, "{length}");
        }
        assert_eq!(find_expiry(&[SEQUENCE, 0x84, 0xff, 0xff, 0xff, 0xff, 0]), None);
        assert_eq!(find_expiry(&[SEQUENCE, 0xff, 0]), None);
    }
}

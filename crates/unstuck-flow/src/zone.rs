//! Time zones by name. Their rules are compiled in, so that a flow means the same on every machine.

use std::sync::LazyLock;

use jiff::tz::{Offset, TimeZone, TimeZoneDatabase};

use crate::suggest;

static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// Names are no longer than this.
const LONGEST_NAME: usize = 64;

/// Why a name stands for no zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnknownZone {
    pub(crate) message: String,
    pub(crate) hint: String,
}

/// Finds the zone of this name: `Europe/Berlin`, `UTC`, or an offset such as `+02:00`.
pub(crate) fn find_zone(name: &str) -> Result<TimeZone, UnknownZone> {
    if name == "UTC" {
        return Ok(TimeZone::UTC);
    }
    if name.starts_with(['+', '-']) {
        return parse_offset(name).map(TimeZone::fixed).ok_or_else(|| UnknownZone {
            message: format!("`{}` is not a UTC offset", shortened(name)),
            hint: "write hours and minutes, from `-18:00` to `+18:00`, for example `+02:00`".to_owned(),
        });
    }
    let known = if name.len() <= LONGEST_NAME { ZONES.get(name).ok() } else { None };
    known.ok_or_else(|| UnknownZone {
        message: format!("there is no time zone `{}`", shortened(name)),
        hint: suggest_zone(name),
    })
}

/// Parses an offset from `-18:00` to `+18:00`.
fn parse_offset(name: &str) -> Option<Offset> {
    let (sign, digits) = name.split_at(1);
    let (hours, minutes) = digits.split_once(':')?;
    let number = |text: &str| (text.len() == 2).then(|| text.parse::<i32>().ok()).flatten();
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let seconds = (hours * 60 + minutes) * 60;
    if minutes >= 60 || seconds > 18 * 3_600 || digits.contains(['+', '-']) {
        return None;
    }
    Offset::from_seconds(if sign == "-" { -seconds } else { seconds }).ok()
}

/// Suggests the zone that was probably meant.
fn suggest_zone(name: &str) -> String {
    let example = "use an IANA name such as `Europe/Berlin`, or `UTC`";
    if (2..=5).contains(&name.len()) && name.bytes().all(|letter| letter.is_ascii_uppercase()) {
        return format!("an abbreviation can mean several zones: {example}");
    }
    let names: Vec<String> = ZONES.available().map(|name| name.to_string()).collect();
    let place = |name: &str| name.rsplit_once('/').map_or(name, |(_, place)| place).to_owned();
    let places: Vec<String> = names.iter().map(|name| place(name)).collect();
    let exactly = name.replace(' ', "_");
    let is_it = |known: &&String| place(known).eq_ignore_ascii_case(&exactly);
    let whole = || suggest::nearest(name, names.iter().map(String::as_str)).map(str::to_owned);
    let near = names.iter().find(is_it).cloned().or_else(whole).or_else(|| {
        let near = suggest::nearest(name, places.iter().map(String::as_str))?;
        names.iter().find(|known| place(known) == near).cloned()
    });
    near.map_or_else(|| example.to_owned(), |near| format!("did you mean `{near}`?"))
}

fn shortened(name: &str) -> String {
    match name.char_indices().nth(LONGEST_NAME) {
        None => name.to_owned(),
        Some((end, _)) => format!("{}...", &name[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_known_by_its_name_or_its_offset() {
        let summer: jiff::Timestamp = "2030-07-01T00:00:00Z".parse().expect("an instant");
        let cases = [
            ("UTC", 0),
            ("Europe/Berlin", 2 * 3_600),
            ("europe/berlin", 2 * 3_600),
            ("America/New_York", -4 * 3_600),
            ("Asia/Kolkata", 5 * 3_600 + 1_800),
            ("+02:00", 2 * 3_600),
            ("-03:30", -(3 * 3_600 + 1_800)),
        ];
        for (name, seconds) in cases {
            assert_eq!(find_zone(name).expect(name).to_offset(summer).seconds(), seconds, "{name}");
        }
    }

    #[test]
    fn another_one_is_refused_with_what_was_meant() {
        let cases = [
            ("Europe/Berln", "there is no time zone `Europe/Berln`", "did you mean `Europe/Berlin`?"),
            ("Berlin", "there is no time zone `Berlin`", "did you mean `Europe/Berlin`?"),
            ("New York", "there is no time zone `New York`", "did you mean `America/New_York`?"),
            ("", "there is no time zone ``", "use an IANA name"),
            ("Londn", "there is no time zone `Londn`", "did you mean `Europe/London`?"),
            ("PST", "there is no time zone `PST`", "an abbreviation can mean several zones"),
            ("Middle-earth/Shire", "there is no time zone `Middle-earth/Shire`", "use an IANA name"),
            ("+2", "`+2` is not a UTC offset", "for example `+02:00`"),
            ("+25:00", "`+25:00` is not a UTC offset", "from `-18:00` to `+18:00`"),
            ("+02:60", "`+02:60` is not a UTC offset", "from `-18:00` to `+18:00`"),
            ("-+2:00", "`-+2:00` is not a UTC offset", "from `-18:00` to `+18:00`"),
        ];
        for (name, message, hint) in cases {
            let error = find_zone(name).expect_err(name);
            assert_eq!(error.message, message);
            assert!(error.hint.contains(hint), "{name}: {}", error.hint);
        }
        assert!(find_zone(&"x".repeat(10_000)).expect_err("too long").message.len() < 100);
    }
}

//! Short texts: durations, instants, tokens, ids, causes of errors.

use serde_json::Value;
use unstuck_core::duration::{parse_duration, parse_instant, read_duration};
use unstuck_core::fingerprint::{Fingerprint, mask_variable_parts};
use unstuck_core::id::RunId;
use unstuck_core::model::attempt::AttemptId;
use unstuck_core::model::flow::StepIndex;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::time::Millis;
use unstuck_engine::token::Signer;

const LONGEST: Millis = Millis::hours(24 * 365 * 10_000);

/// A duration, as a text and as JSON.
pub(crate) fn duration(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    let json = serde_json::from_str::<Value>(text).map(|value| read_duration(&value));
    for read in [Ok(parse_duration(text)), json].into_iter().flatten() {
        match read {
            Ok(span) => {
                assert!(span <= LONGEST, "{span}");
                assert_eq!(parse_duration(&format!("{}ms", span.0)), Ok(span), "in milliseconds");
                let shown = span.to_string();
                let rounded = parse_duration(&shown).unwrap_or_else(|error| panic!("{shown}: {error}"));
                assert!(rounded <= span, "{shown} is more than {} ms", span.0);
                assert_eq!(rounded.to_string(), shown, "the same is shown");
            }
            Err(sentence) => refusal(&sentence),
        }
    }
}

/// An instant.
pub(crate) fn instant(bytes: &[u8]) {
    match parse_instant(&String::from_utf8_lossy(bytes)) {
        Ok(time) => assert_eq!(parse_instant(&time.to_string()), Ok(time), "{time}"),
        Err(sentence) => refusal(&sentence),
    }
}

/// A token, an id, or the parts of an attempt.
pub(crate) fn token(bytes: &[u8]) {
    let signer = Signer::new([7; 32], 3);
    let text = &*String::from_utf8_lossy(bytes);
    if let Some(attempt) = signer.verify(text) {
        assert_eq!(signer.sign(attempt), text.to_ascii_lowercase(), "a token of ours");
    }
    match text.parse::<RunId>() {
        Ok(run) => assert_eq!(run.to_string(), text.to_ascii_lowercase(), "an id is written in one way"),
        Err(bad) => assert!(bad.to_string().contains("is not an id"), "{bad}"),
    }
    let mut bytes = bytes.iter().copied();
    let mut number = || (0..4).fold(0u32, |number, _| number << 8 | u32::from(bytes.next().unwrap_or(0)));
    let run = RunId(u64::from(number()) << 32 | u64::from(number()));
    let [generation, step, item, attempt, change] = [(); 5].map(|()| number());
    // The largest number stands for no item; no list is as long.
    let item = (item != u32::MAX && step & 1 << 16 != 0).then_some(item);
    let unit = UnitRef { step: StepIndex((step & 0xffff) as u16), item };
    let attempt = AttemptId { run, generation, unit, attempt };
    let token = signer.sign(attempt);
    assert_eq!(signer.verify(&token), Some(attempt));
    let place = change as usize % token.len();
    let changed = if token.as_bytes()[place] == b'0' { "1" } else { "0" };
    assert_eq!(signer.verify(&[&token[..place], changed, &token[place + 1..]].concat()), None, "changed");
    assert_eq!(run.to_string().parse::<RunId>(), Ok(run));
}

/// The cause of an error.
pub(crate) fn fingerprint(bytes: &[u8]) {
    let cause = &*String::from_utf8_lossy(bytes);
    let pattern = mask_variable_parts(cause);
    assert!(pattern.chars().count() <= 1_201, "{} characters", pattern.chars().count());
    let of = Fingerprint::of("flow.action", cause);
    assert_eq!(&*of.pattern, pattern, "the pattern is that of the cause");
    assert!(of.group.starts_with("err_") && of.group.len() == 16, "{}", of.group);
    assert_eq!(Fingerprint::of("flow.action", cause), of, "the same every time");
}

/// One line that says something, and quotes no more than a little of the text.
fn refusal(sentence: &str) {
    assert!((10..2_000).contains(&sentence.len()), "{sentence}");
}

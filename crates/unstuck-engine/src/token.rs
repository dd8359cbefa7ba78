//! Tokens: opaque, unforgeable names of attempts.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use unstuck_core::id::RunId;
use unstuck_core::model::attempt::AttemptId;
use unstuck_core::model::flow::StepIndex;
use unstuck_core::model::unit::UnitRef;

/// So many bytes of the signature are kept: nobody guesses 128 bits.
const SIGNATURE_BYTES: usize = 16;
const NO_ITEM: u32 = u32::MAX;

/// Makes and checks tokens with a key that only the engine has.
#[derive(Clone)]
pub struct Signer {
    key: [u8; 32],
    epoch: u32,
}

impl fmt::Debug for Signer {
    /// Its key is a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

impl Signer {
    /// Tokens of one epoch of a store.
    pub fn new(key: [u8; 32], epoch: u32) -> Signer {
        Signer { key, epoch }
    }

    /// The token of an attempt.
    pub fn sign(&self, attempt: AttemptId) -> String {
        let body = self.body(attempt);
        let mut text = hex(&body);
        text.push_str(&hex(&self.signature(&body)));
        text
    }

    /// The attempt that a token names, if it is one of ours and of this epoch.
    pub fn verify(&self, token: &str) -> Option<AttemptId> {
        let bytes = unhex(token)?;
        let body_length = bytes.len().checked_sub(SIGNATURE_BYTES)?;
        let (body, signature) = bytes.split_at(body_length);
        self.mac(body).verify_truncated_left(signature).ok()?;
        let word = |at: usize| Some(u32::from_be_bytes(body.get(at..at + 4)?.try_into().ok()?));
        if word(0)? != self.epoch || body.len() != 26 {
            return None;
        }
        let run = u64::from_be_bytes(body.get(4..12)?.try_into().ok()?);
        let step = u16::from_be_bytes(body.get(16..18)?.try_into().ok()?);
        let item = word(18)?;
        let unit = UnitRef { step: StepIndex(step), item: (item != NO_ITEM).then_some(item) };
        Some(AttemptId { run: RunId(run), generation: word(12)?, unit, attempt: word(22)? })
    }

    fn body(&self, attempt: AttemptId) -> Vec<u8> {
        let AttemptId { run, generation, unit, attempt } = attempt;
        let mut body = Vec::with_capacity(26);
        body.extend(self.epoch.to_be_bytes());
        body.extend(run.0.to_be_bytes());
        body.extend(generation.to_be_bytes());
        body.extend(unit.step.0.to_be_bytes());
        body.extend(unit.item.unwrap_or(NO_ITEM).to_be_bytes());
        body.extend(attempt.to_be_bytes());
        body
    }

    fn signature(&self, body: &[u8]) -> [u8; SIGNATURE_BYTES] {
        let full = self.mac(body).finalize().into_bytes();
        std::array::from_fn(|i| full[i])
    }

    fn mac(&self, body: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).expect("a key of any length will do");
        mac.update(body);
        mac
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| char::from(b"0123456789abcdef"[digit as usize]))
        .collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    let digits = digits?;
    let pairs = digits.chunks_exact(2);
    pairs.remainder().is_empty().then(|| pairs.map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(item: Option<u32>) -> AttemptId {
        AttemptId { run: RunId(77), generation: 2, unit: UnitRef { step: StepIndex(3), item }, attempt: 4 }
    }

    #[test]
    fn a_token_names_its_attempt() {
        let signer = Signer::new([7; 32], 1);
        for item in [None, Some(0), Some(9_999)] {
            assert_eq!(signer.verify(&signer.sign(attempt(item))), Some(attempt(item)));
        }
    }

    #[test]
    fn a_token_cannot_be_forged_changed_or_carried_over() {
        let signer = Signer::new([7; 32], 1);
        let token = signer.sign(attempt(None));
        let mut changed = token.clone();
        changed.replace_range(23..24, if &token[23..24] == "0" { "1" } else { "0" });
        assert_eq!(signer.verify(&changed), None);
        assert_eq!(Signer::new([8; 32], 1).verify(&token), None, "another key");
        assert_eq!(Signer::new([7; 32], 2).verify(&token), None, "another epoch");
        for nonsense in ["", "ff", "zz", "é", &token[1..], &token[..40]] {
            assert_eq!(signer.verify(nonsense), None, "{nonsense}");
        }
    }
}

//! Mutations of inputs in a fixed order: the same ones on every machine and in every run.

/// Numbers at which lengths, counts and offsets go wrong.
const EDGES: [u64; 12] =
    [0, 1, 2, 31, 255, 1 << 16, (1 << 31) - 1, 1 << 31, u32::MAX as u64, 1 << 32, i64::MAX as u64, u64::MAX];

/// A sequence of pseudo-random numbers (xorshift, then a multiplication).
pub struct Dice(u64);

impl Dice {
    /// The sequence of that number.
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    /// A number below `limit`; 0 when that is 0.
    fn below(&mut self, limit: usize) -> usize {
        (self.roll() % limit.max(1) as u64) as usize
    }

    fn one_of<'a, T: ?Sized>(&mut self, list: &[&'a T]) -> Option<&'a T> {
        let at = self.below(list.len());
        list.get(at).copied()
    }
}

/// `input` after one to four changes. `other` is an input to take pieces from, `words` are pieces that
/// mean something to the target.
pub fn mutated(input: &[u8], other: &[u8], words: &[&str], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..=dice.below(4) {
        change(&mut bytes, other, words, dice);
    }
    bytes
}

fn change(bytes: &mut Vec<u8>, other: &[u8], words: &[&str], dice: &mut Dice) {
    let at = dice.below(bytes.len() + 1);
    let length = (1 + dice.below(16)).min(bytes.len() - at);
    match dice.below(9) {
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(at..at + length)),
        2 => {
            let again = bytes[at..at + length].to_vec();
            bytes.splice(at..at, again);
        }
        3 | 4 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << dice.below(8);
            }
        }
        5 => {
            let edge = EDGES[dice.below(EDGES.len())].to_le_bytes();
            let width = [1, 4, 8][dice.below(3)].min(bytes.len() - at);
            bytes[at..at + width].copy_from_slice(&edge[..width]);
        }
        6 => {
            let from = dice.below(other.len());
            let end = (from + 1 + dice.below(32)).min(other.len());
            bytes.splice(at..at + length, other[from..end].iter().copied());
        }
        7 => bytes.insert(at, dice.below(256) as u8),
        _ => {
            let word = dice.one_of(words).unwrap_or_default();
            bytes.splice(at..at, word.bytes());
        }
    }
}

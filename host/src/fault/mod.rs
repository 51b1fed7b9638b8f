//! Faults that nothing can go on from, each one sentence and exit status 1 instead of a dead process: a model
//! file cut short while it is mapped, and no memory for what the program itself keeps.
//!
//! Both are found where nothing may allocate, lock or panic, so the sentence is put together here from bytes. It
//! is the program that takes these up; a library leaves signals and the allocator alone. A limit on files is the
//! one that can be outlived.

mod cut_file;
mod exhaustion;
mod file_limit;

pub use cut_file::name_cut_files;
pub use exhaustion::SaysWhenFull;
pub use file_limit::outlive_file_limits;

/// Most bytes of a sentence.
const MAX_SENTENCE: usize = 1024;

/// Says the parts on standard error, as one line, and ends the process with status 1. Calls only what may be
/// called in a signal handler.
fn end_with(parts: &[&[u8]]) -> ! {
    let (line, len) = joined(parts);
    // SAFETY: `len` bytes of the array are readable. A short or failed write changes nothing below.
    unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), len) };
    // SAFETY: ends the process here and now; no destructor has to run.
    unsafe { libc::_exit(1) }
}

/// The parts on one line, and its length.
fn joined(parts: &[&[u8]]) -> ([u8; MAX_SENTENCE], usize) {
    let mut line = [0; MAX_SENTENCE];
    let mut len = 0;
    let bytes = [&b"cajeta: "[..]].into_iter().chain(parts.iter().copied()).flatten();
    // The last place is kept for the end of the line.
    for (to, from) in line.iter_mut().take(MAX_SENTENCE - 1).zip(bytes) {
        *to = *from;
        len += 1;
    }
    if let Some(end) = line.get_mut(len) {
        *end = b'\n';
        len += 1;
    }
    (line, len)
}

/// A number in decimal, without the formatter.
fn decimal(mut number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut first = digits.len();
    for (at, digit) in digits.iter_mut().enumerate().rev() {
        *digit = b'0' + (number % 10) as u8;
        first = at;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    digits.get(first..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_whole() {
        for number in [0, 7, 10, 4096, u64::MAX] {
            assert_eq!(decimal(number, &mut [0; 20]), number.to_string().as_bytes());
        }
    }

    #[test]
    fn sentences_are_lines_and_end_in_time() {
        let (line, len) = joined(&[b"a", b"", b"bc"]);
        assert_eq!(&line[..len], b"cajeta: abc\n");
        let (line, len) = joined(&[&[b'x'; 5000]]);
        assert_eq!((len, line[len - 1]), (MAX_SENTENCE, b'\n'));
    }
}

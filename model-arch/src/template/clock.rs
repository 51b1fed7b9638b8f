//! Dates for templates that tell the model what day it is: `strftime_now`, in UTC.

use std::fmt::Write;
use std::time::{Duration, SystemTime};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// A moment on the calendar, in UTC: the host reads no zone files, and a server's own zone is rarely its user's.
struct Civil {
    year: i64,
    /// 0 to 11.
    month: usize,
    /// 1 to 31.
    day: u64,
    /// 0 to 6, from Sunday.
    weekday: usize,
    /// 1 to 366.
    day_of_year: u64,
    hour: u64,
    minute: u64,
    second: u64,
    microsecond: u32,
}

impl Civil {
    fn at(time: SystemTime) -> Self {
        let since_epoch = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let seconds = since_epoch.as_secs();
        let (days, in_day) = (seconds / 86_400, seconds % 86_400);
        let mut year = 1970;
        let mut left = days;
        // Whole 400-year cycles have 146,097 days; the rest is at most 400 steps.
        year += i64::try_from(left / 146_097).unwrap_or(0) * 400;
        left %= 146_097;
        while left >= days_in_year(year) {
            left -= days_in_year(year);
            year += 1;
        }
        let day_of_year = left + 1;
        let mut month = 0;
        while left >= days_in_month(year, month) {
            left -= days_in_month(year, month);
            month += 1;
        }
        Self {
            year,
            month,
            day: left + 1,
            // The epoch was a Thursday.
            weekday: ((days + 4) % 7) as usize,
            day_of_year,
            hour: in_day / 3600,
            minute: in_day / 60 % 60,
            second: in_day % 60,
            microsecond: since_epoch.subsec_micros(),
        }
    }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in_year(year: i64) -> u64 {
    if is_leap(year) { 366 } else { 365 }
}

fn days_in_month(year: i64, month: usize) -> u64 {
    match month {
        1 if is_leap(year) => 29,
        1 => 28,
        3 | 5 | 8 | 10 => 30,
        _ => 31,
    }
}

/// `time` written as `format` says, with the directives of C and Python in the C locale; `%-d` and the like leave out
/// the padding. A directive that is not known stays as it is.
pub(super) fn strftime(format: &str, time: SystemTime) -> String {
    let now = Civil::at(time);
    let mut out = String::with_capacity(format.len() + 16);
    let mut rest = format.chars();
    while let Some(c) = rest.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let directive = rest.clone().next();
        let (padded, directive) = match directive {
            Some('-') => {
                rest.next();
                (false, rest.next())
            }
            _ => (true, rest.next()),
        };
        if !directive.is_some_and(|directive| write_one(&mut out, &now, directive, padded)) {
            out.push('%');
            out.extend((!padded).then_some('-'));
            out.extend(directive);
        }
    }
    out
}

/// Writes one directive; false when it is not known. Writing to a string cannot fail.
fn write_one(out: &mut String, now: &Civil, directive: char, padded: bool) -> bool {
    let mut number = |value: u64, width: usize| {
        let width = if padded { width } else { 0 };
        write!(out, "{value:0width$}").is_ok()
    };
    let year = now.year.unsigned_abs();
    let hour_12 = (now.hour + 11) % 12 + 1;
    let text = match directive {
        'Y' => return number(year, 4),
        'y' => return number(year % 100, 2),
        'm' => return number(now.month as u64 + 1, 2),
        'd' => return number(now.day, 2),
        'e' => format!("{:2}", now.day),
        'j' => return number(now.day_of_year, 3),
        'H' => return number(now.hour, 2),
        'I' => return number(hour_12, 2),
        'M' => return number(now.minute, 2),
        'S' => return number(now.second, 2),
        'f' => return number(now.microsecond.into(), 6),
        'w' => return number(now.weekday as u64, 1),
        'B' => MONTHS[now.month].to_owned(),
        'b' | 'h' => MONTHS[now.month][..3].to_owned(),
        'A' => DAYS[now.weekday].to_owned(),
        'a' => DAYS[now.weekday][..3].to_owned(),
        'p' => if now.hour < 12 { "AM" } else { "PM" }.to_owned(),
        'F' => format!("{:04}-{:02}-{:02}", year, now.month + 1, now.day),
        'T' => format!("{:02}:{:02}:{:02}", now.hour, now.minute, now.second),
        'D' => format!("{:02}/{:02}/{:02}", now.month + 1, now.day, year % 100),
        'R' => format!("{:02}:{:02}", now.hour, now.minute),
        'z' => "+0000".to_owned(),
        'Z' => "UTC".to_owned(),
        'n' => "\n".to_owned(),
        't' => "\t".to_owned(),
        '%' => "%".to_owned(),
        _ => return false,
    };
    out.push_str(&text);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(seconds: u64, format: &str, expected: &str) {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(strftime(format, time), expected);
    }

    #[test]
    fn known_moments() {
        check(0, "%A %d %B %Y %H:%M:%S", "Thursday 01 January 1970 00:00:00");
        check(951_827_696, "%a %F %T %j", "Tue 2000-02-29 12:34:56 060");
        check(1_796_040_000, "%d %b %Y", "30 Nov 2026");
        check(4_107_542_399, "%Y-%m-%d %I:%M %p", "2100-02-28 11:59 PM");
        check(4_107_542_400, "%Y-%m-%d %I %p", "2100-03-01 12 AM");
    }

    #[test]
    fn padding_and_unknown_directives() {
        check(
            0,
            "%-d/%-m/%y %e %D %R %Z%z %w %f 100%% %Q %-Q %",
            "1/1/70  1 01/01/70 00:00 UTC+0000 4 000000 100% %Q %-Q %",
        );
    }

    #[test]
    fn any_time_has_a_date() {
        for exponent in 0..62 {
            assert!(
                !strftime("%c %F", SystemTime::UNIX_EPOCH + Duration::from_secs(1 << exponent)).is_empty()
            );
        }
        assert_eq!(strftime("%F", SystemTime::UNIX_EPOCH - Duration::from_secs(9)), "1970-01-01");
    }
}

//! Dates as ISO 8601 has them, in the Gregorian calendar.

/// Seconds of a day.
pub const SECONDS_OF_A_DAY: f64 = 86_400.0;

/// Seconds since 1970 of a date as ISO 8601 has it: `2024-05-31`, with a time behind a `T` or a blank, with fractions of a
/// second, and an offset from UTC where one is given.
pub fn parse_date(text: &str) -> Option<f64> {
    let (seconds, fraction) = parse_moment(text)?;
    let fraction = match fraction {
        "" => 0.0,
        digits => format!("0.{digits}").parse::<f64>().ok()?,
    };
    Some(seconds as f64 + fraction)
}

/// The same in nanoseconds, exactly; what is below is left out.
pub(crate) fn parse_nanoseconds(text: &str) -> Option<i128> {
    let (seconds, fraction) = parse_moment(text)?;
    let fraction = format!("{:0<9}", fraction.get(..9).unwrap_or(fraction));
    Some(i128::from(seconds) * 1_000_000_000 + fraction.parse::<i128>().ok()?)
}

/// Whole seconds since 1970 of a date, and the digits of what is beyond them.
fn parse_moment(text: &str) -> Option<(i64, &str)> {
    let text = text.trim();
    let (day, rest) = (text.get(..10)?, text.get(10..)?);
    let mut numbers = day.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, day_of_month) = (numbers.next()??, numbers.next()??, numbers.next()??);
    if day.len() != 10
        || !day.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
        || !(1..=12).contains(&month)
        || !(1..=days_of(year, month)).contains(&day_of_month)
    {
        return None;
    }
    let midnight = days_since_1970(year, month, day_of_month) * 86_400;
    if rest.is_empty() {
        return Some((midnight, ""));
    }
    let time = rest.strip_prefix(['T', 't', ' '])?;
    let at = time.find(['Z', 'z', '+', '-']).unwrap_or(time.len());
    let (time, zone) = time.split_at(at);
    let offset = match zone.trim() {
        "" | "Z" | "z" => 0,
        zone => {
            let sign = if zone.starts_with('-') { -1 } else { 1 };
            let digits = zone[1..].replace(':', "");
            let hours = digits.get(..2)?.parse::<u32>().ok()?;
            let minutes = digits.get(2..4).map_or(Some(0), |text| text.parse::<u32>().ok())?;
            if hours > 23 || minutes > 59 || ![2, 4].contains(&digits.len()) {
                return None;
            }
            sign * i64::from(hours * 3600 + minutes * 60)
        }
    };
    let mut parts = time.trim().split(':');
    let hours = parts.next()?.parse::<u32>().ok().filter(|&hours| hours < 24)?;
    let minutes = parts.next()?.parse::<u32>().ok().filter(|&minutes| minutes < 60)?;
    let (seconds, fraction) = match parts.next() {
        None => (0, ""),
        Some(text) => {
            let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
            (whole.parse::<u32>().ok()?, fraction)
        }
    };
    let is_digits = fraction.bytes().all(|byte| byte.is_ascii_digit());
    if parts.next().is_some() || seconds > 60 || !is_digits {
        return None;
    }
    Some((midnight + i64::from(hours * 3600 + minutes * 60 + seconds) - offset, fraction))
}

/// The day of some seconds since 1970, as ISO 8601 has it; `None` outside of years with four digits.
pub(crate) fn format_day(seconds: f64) -> Option<String> {
    let (year, month, day) = civil((seconds / SECONDS_OF_A_DAY).floor() as i64);
    (0..10_000).contains(&year).then(|| format!("{year:04}-{month:02}-{day:02}"))
}

/// Year, month and day of a day since the first of January 1970, in the Gregorian calendar. Years begin in March.
pub(crate) fn civil(days: i64) -> (i64, i64, i64) {
    let days = days.saturating_add(719_468);
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (year + era * 400 + next, month, day)
}

fn days_of(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since the first of January 1970, in the Gregorian calendar. Years begin in March, so that a leap day is their last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let of_years = 365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    of_years + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (text, seconds) in [
            ("1970-01-01", 0.0),
            ("2000-02-29", 951_782_400.0),
            ("2024-05-31T12:30:15.5Z", 1_717_158_615.5),
            ("2024-05-31 12:30", 1_717_158_600.0),
            ("2024-05-31T12:30:00+02:00", 1_717_151_400.0),
            ("1900-03-01", -2_203_891_200.0),
            ("2024-05-31T12:30:15.123456789", 1_717_158_615.123_456_7),
        ] {
            assert_eq!(parse_date(text), Some(seconds), "{text}");
            let of_day = &text[..10];
            assert_eq!(format_day(parse_date(of_day).unwrap() + 86_399.0).as_deref(), Some(of_day));
        }
        for days in -800_000..=2_900_000 {
            let seconds = f64::from(days) * SECONDS_OF_A_DAY;
            if let Some(text) = format_day(seconds) {
                assert_eq!(parse_date(&text), Some(seconds), "{text}");
            }
        }
        assert_eq!((format_day(1e15), format_day(-1e15)), (None, None));
        for text in [
            "2023-02-29",
            "2024-13-01",
            "2024-05-31T25:00",
            "31.05.2024",
            "",
            "2024-5-31",
            "2024-05-31T12:00+9",
        ] {
            assert_eq!(parse_date(text), None, "{text}");
        }
    }
}

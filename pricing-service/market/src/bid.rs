//! The bid a user writes: a limit in SU per GPU-hour, as a token anywhere in a job's comment, or as a bare value.
//!
//! The token starts at the comment's start or after white space or one of `; , | ' " ( [ {`, is `bid:` in any case,
//! and goes to white space or one of `; | ' " ) ] }`. Behind the limit may stand options after commas. All the rest
//! of the comment belongs to others and is neither judged nor changed.

mod error;

use std::fmt;

pub(crate) use error::printable;
pub use error::{BidError, BidErrorKind, Place};

use crate::amount::{DecimalError, Price};
use crate::order::Tier;

/// What a user is ready to pay at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bid {
    /// Highest price, per hour of the actual GPU; 0 asks for the free tier.
    pub limit: Price,
    /// The tier, where the user named one.
    pub asked_tier: Option<Tier>,
}

impl Bid {
    /// A limit of 0: the free tier, which pays nothing and yields to all that pay.
    #[must_use]
    pub fn is_free(self) -> bool {
        self.limit == Price::ZERO
    }

    /// The tier asked for; without a word standard, or free for a limit of 0.
    #[must_use]
    pub fn tier(self) -> Tier {
        let by_limit = if self.is_free() { Tier::Free } else { Tier::Standard };
        self.asked_tier.unwrap_or(by_limit)
    }
}

impl fmt::Display for Bid {
    /// As a user would write it behind `bid:`, e.g. `3.5` or `3.5,tier=spot`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.limit.fmt(f)?;
        self.asked_tier.map_or(Ok(()), |tier| write!(f, ",tier={tier}"))
    }
}

/// The bid in a comment; `None` if no token stands in it.
///
/// # Errors
/// Whatever starts like a bid but is not one: see [`BidErrorKind`]. Two starts are reported before anything else.
pub fn find(comment: &str) -> Result<Option<Bid>, BidError> {
    let mut starts = TokenStarts::of(comment);
    let Some(first) = starts.next() else {
        return Ok(None);
    };
    let error = |kind| BidError::new(Place::Comment, first.column, &comment[first.start..first.value], kind);
    if let Some(second) = starts.next() {
        return Err(error(BidErrorKind::TwoBids { second_column: second.column }));
    }
    if comment[..first.value].ends_with('=') {
        return Err(error(BidErrorKind::EqualSign));
    }
    let rest = &comment[first.value..];
    let value = &rest[..rest.find(ends_token).unwrap_or(rest.len())];
    parse_parts(value, first.column + PREFIX_LEN, Place::Comment).map(Some)
}

/// [`find`] for a comment as C hands it over. Bytes that are not UTF-8 count as one character each run and never
/// hide a token.
///
/// # Errors
/// As [`find`].
pub fn find_bytes(comment: &[u8]) -> Result<Option<Bid>, BidError> {
    find(&String::from_utf8_lossy(comment))
}

/// The bid in a channel of its own, where only what follows `bid:` is written: `SBATCH_BID=3.5`, `sbid bid JOBID 3.5`.
///
/// # Errors
/// As [`find`], with columns counted from the start of the value.
pub fn parse_value(value: &str) -> Result<Bid, BidError> {
    parse_parts(value, 1, Place::Value)
}

/// Characters, and bytes, of `bid:`.
const PREFIX_LEN: usize = 4;

/// One place where a token starts, well-formed or not.
struct TokenStart {
    /// Counted in characters from 1.
    column: usize,
    /// Byte offsets of the prefix and of what follows it.
    start: usize,
    value: usize,
}

/// All places where `bid:` or `bid=` stands and a token may start.
struct TokenStarts<'a> {
    comment: &'a str,
    chars: std::iter::Enumerate<std::str::CharIndices<'a>>,
    may_start: bool,
}

impl<'a> TokenStarts<'a> {
    fn of(comment: &'a str) -> Self {
        Self { comment, chars: comment.char_indices().enumerate(), may_start: true }
    }
}

impl Iterator for TokenStarts<'_> {
    type Item = TokenStart;

    fn next(&mut self) -> Option<TokenStart> {
        for (index, (start, c)) in self.chars.by_ref() {
            let may_start = std::mem::replace(&mut self.may_start, precedes_token(c));
            if may_start && has_prefix(&self.comment.as_bytes()[start..]) {
                return Some(TokenStart { column: index + 1, start, value: start + PREFIX_LEN });
            }
        }
        None
    }
}

fn has_prefix(text: &[u8]) -> bool {
    matches!(text, [b'b' | b'B', b'i' | b'I', b'd' | b'D', b':' | b'=', ..])
}

fn precedes_token(c: char) -> bool {
    c.is_whitespace() || matches!(c, ';' | ',' | '|' | '\'' | '"' | '(' | '[' | '{')
}

fn ends_token(c: char) -> bool {
    c.is_whitespace() || matches!(c, ';' | '|' | '\'' | '"' | ')' | ']' | '}')
}

/// Reads `limit[,option]…`; `column` is that of the first character.
fn parse_parts(value: &str, column: usize, place: Place) -> Result<Bid, BidError> {
    let parts = value.split(',').scan(column, |next_column, text| {
        let column = *next_column;
        *next_column += text.chars().count() + 1;
        Some(Part { text, column, place })
    });
    let limit = Part { text: value.split(',').next().unwrap_or_default(), column, place };
    let limit = limit.limit()?;
    let mut asked_tier = None;
    for option in parts.skip(1) {
        // Only `tier` is given back: all other options are refused.
        let tier = option.tier(limit)?;
        if asked_tier.replace(tier).is_some() {
            return Err(option.error("tier", BidErrorKind::RepeatedOption));
        }
    }
    Ok(Bid { limit, asked_tier })
}

/// What stands between two commas of a token.
#[derive(Clone, Copy)]
struct Part<'a> {
    text: &'a str,
    column: usize,
    place: Place,
}

impl Part<'_> {
    fn error(self, text: &str, kind: BidErrorKind) -> BidError {
        BidError::new(self.place, self.column, text, kind)
    }

    fn limit(self) -> Result<Price, BidError> {
        Price::parse(self.text).map_err(|error| {
            let kind = match error {
                DecimalError::Empty => BidErrorKind::Missing,
                DecimalError::TooManyDecimals => BidErrorKind::TooManyDecimals,
                DecimalError::TooLarge => BidErrorKind::TooLarge,
                DecimalError::NotPlain => return self.word_for_limit(),
            };
            self.error(self.text, kind)
        })
    }

    /// What stands where the limit should, and is no number.
    fn word_for_limit(self) -> BidError {
        let (name, _) = option_name(self.text);
        if name.eq_ignore_ascii_case("auto") {
            return self.error(name, BidErrorKind::AutoNotYet);
        }
        if OptionName::of(name).is_some() {
            return self.error("", BidErrorKind::Missing);
        }
        let is_model = name.starts_with(|c: char| c.is_ascii_alphabetic()) && self.text.contains('=');
        self.error(self.text, if is_model { BidErrorKind::ModelsNotYet } else { BidErrorKind::Unreadable })
    }

    /// The tier that the option names, if it fits the limit; everything else is refused.
    fn tier(self, limit: Price) -> Result<Tier, BidError> {
        if self.text.is_empty() {
            return Err(BidError::new(self.place, self.column - 1, ",", BidErrorKind::EmptyOption));
        }
        let (name, has_value) = option_name(self.text);
        let kind = match OptionName::of(name) {
            Some(OptionName::Max | OptionName::Deadline) => {
                return Err(self.error(name, BidErrorKind::OptionNotYet));
            }
            Some(OptionName::Tier) => {
                let tier = if has_value { &self.text[name.len() + 1..] } else { "" };
                match tier.to_ascii_lowercase().parse::<Tier>() {
                    Ok(tier) if tier.is_paid() == (limit > Price::ZERO) => return Ok(tier),
                    Ok(Tier::Free) => BidErrorKind::FreeWithLimit,
                    Ok(_) => BidErrorKind::TierWithoutLimit,
                    Err(_) => BidErrorKind::UnknownTier,
                }
            }
            // `bid:3,5`: a decimal comma, not an option.
            None if name.starts_with(|c: char| c.is_ascii_digit()) => BidErrorKind::Unreadable,
            None => BidErrorKind::UnknownOption,
        };
        Err(self.error(self.text, kind))
    }
}

enum OptionName {
    Tier,
    Max,
    Deadline,
}

impl OptionName {
    fn of(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "tier" => Some(Self::Tier),
            "max" => Some(Self::Max),
            "deadline" => Some(Self::Deadline),
            _ => None,
        }
    }
}

/// The name before `=` (or `:`, which people write as well), and whether one of them follows.
fn option_name(text: &str) -> (&str, bool) {
    match text.find(['=', ':']) {
        Some(end) => (&text[..end], true),
        None => (text, false),
    }
}

#[cfg(test)]
mod tests;

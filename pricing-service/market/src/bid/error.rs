//! The sentences a user reads when a bid is refused: what is wrong, where, and what to type instead.

use std::fmt;

use thiserror::Error;

use crate::amount::Price;

/// Where the bid was written; decides only the wording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A token in a job's comment.
    Comment,
    /// A value of its own: environment or command line.
    Value,
}

/// A bid that is refused. Its text is the sentence that follows `bid: `.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct BidError {
    pub place: Place,
    /// Counted in characters from 1.
    pub column: usize,
    /// What stands there: at most [`Self::TEXT_CHARS_MAX`] characters, those that would not print replaced.
    pub text: String,
    pub kind: BidErrorKind,
}

/// The rule that a bid breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BidErrorKind {
    /// No number after `bid:`.
    Missing,
    /// No plain decimal.
    Unreadable,
    TooManyDecimals,
    /// Above [`Price::PARSE_MAX`].
    TooLarge,
    /// `bid=` where a token may start.
    EqualSign,
    TwoBids {
        second_column: usize,
    },
    /// Nothing between two commas or after the last.
    EmptyOption,
    UnknownOption,
    RepeatedOption,
    UnknownTier,
    /// `max`, `deadline`.
    OptionNotYet,
    /// `bid:auto`.
    AutoNotYet,
    /// `bid:a100=1.8,h100=3`.
    ModelsNotYet,
    /// A tier that pays with a limit of 0.
    TierWithoutLimit,
    /// `tier=free` with a limit above 0.
    FreeWithLimit,
}

impl BidError {
    /// Most characters of the user's text that an error repeats.
    pub const TEXT_CHARS_MAX: usize = 40;

    pub(super) fn new(place: Place, column: usize, text: &str, kind: BidErrorKind) -> Self {
        Self { place, column, text: printable(text), kind }
    }
}

/// What users wrote reaches terminals and logs through errors: at most [`BidError::TEXT_CHARS_MAX`] characters of it,
/// and no control or direction character.
pub(crate) fn printable(text: &str) -> String {
    let mut chars = text.chars();
    let mut printable: String = chars
        .by_ref()
        .take(BidError::TEXT_CHARS_MAX)
        .map(|c| {
            if matches!(c, '\\' | '\'' | '"') || c.escape_debug().len() == 1 {
                c
            } else {
                char::REPLACEMENT_CHARACTER
            }
        })
        .collect();
    if chars.next().is_some() {
        printable.pop();
        printable.push('…');
    }
    printable
}

impl fmt::Display for BidError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use BidErrorKind::*;
        let Self { column, text, .. } = self;
        let (of_comment, example, free) = match self.place {
            Place::Comment => (" of the comment", "bid:3.5", "bid:0"),
            Place::Value => ("", "3.5", "0"),
        };
        match self.kind {
            Missing => {
                write!(f, "the number is missing at column {column}{of_comment}; write e.g. {example}")
            }
            Unreadable => {
                write!(f, "cannot read \"{text}\" at column {column}{of_comment}; write e.g. {example}")
            }
            TooManyDecimals => {
                write!(
                    f,
                    "\"{text}\" at column {column}{of_comment} has more than 6 decimals; write e.g. {example}"
                )
            }
            TooLarge => write!(
                f,
                "\"{text}\" at column {column}{of_comment} is above the highest limit, {}; write e.g. {example}",
                Price::PARSE_MAX
            ),
            EqualSign => write!(f, "\"{text}\" at column {column}: write {example} with a colon"),
            TwoBids { second_column } => {
                write!(f, "two bids in one comment, at columns {column} and {second_column}; keep one")
            }
            EmptyOption => write!(f, "nothing follows the comma at column {column}; leave it out"),
            UnknownOption => {
                write!(
                    f,
                    "\"{text}\" at column {column} is not an option of a bid; leave it out or put a space before it"
                )
            }
            RepeatedOption => write!(f, "option \"{text}\" at column {column} is given twice; keep one"),
            UnknownTier => {
                write!(
                    f,
                    "cannot read \"{text}\" at column {column}; write tier=urgent, tier=standard or tier=spot, or leave it out"
                )
            }
            OptionNotYet => {
                write!(f, "option \"{text}\" at column {column} is not available yet; leave it out")
            }
            AutoNotYet => write!(
                f,
                "\"{text}\" at column {column} is not available yet; write a number, e.g. {example}"
            ),
            ModelsNotYet => write!(
                f,
                "a limit per model, \"{text}\" at column {column}, is not available yet; write one number, e.g. {example}"
            ),
            TierWithoutLimit => {
                write!(
                    f,
                    "\"{text}\" at column {column} needs a limit above 0; write e.g. {example}, or {free} for the free tier"
                )
            }
            FreeWithLimit => write!(f, "\"{text}\" at column {column} needs a limit of 0; write {free}"),
        }
    }
}

//! What this product writes into a job's AdminComment: the stamp at submission, the receipt at the end.
//!
//! The stamp `bid:<uuid> <limit> tier=<tier> [signal=[B:]<number>@<seconds>] [why=unavailable]` is the bid of record: it is written by the plugin,
//! users cannot change it, and the daemon reads it when it first sees the job. The receipt takes its place in the
//! accounting record once the job is settled. Text that others wrote into the AdminComment is kept.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::amount::{Amount, Price};
use crate::order::Tier;

const UUID_CHARS: usize = 36;

/// The signal that a job asked for before its end (`sbatch --signal=[B:]SIG@t`): it gets it before an eviction too,
/// and no other job gets any, since the default action of a signal would kill it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointSignal {
    pub number: u16,
    /// For the batch shell only (`B:`), else for all of the job's steps.
    pub batch_only: bool,
    /// How long before the end, in seconds.
    pub lead_s: u16,
}

impl fmt::Display for CheckpointSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}@{}", if self.batch_only { "B:" } else { "" }, self.number, self.lead_s)
    }
}

impl FromStr for CheckpointSignal {
    type Err = UnreadableSignal;

    fn from_str(text: &str) -> Result<Self, UnreadableSignal> {
        let number = text.strip_prefix("B:");
        let (number_text, lead) = number.unwrap_or(text).split_once('@').ok_or(UnreadableSignal)?;
        let read = |text: &str| text.parse::<u16>().map_err(|_| UnreadableSignal);
        Ok(Self { number: read(number_text)?, batch_only: number.is_some(), lead_s: read(lead)? })
    }
}

/// The text is no signal with the time it is to come before the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a signal is written [B:]number@seconds")]
pub struct UnreadableSignal;

/// The bid of record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    /// Hyphenated lower-case UUID; array tasks share that of their array.
    pub uuid: String,
    pub limit: Price,
    pub tier: Tier,
    pub signal: Option<CheckpointSignal>,
    /// The daemon was gone at submission, and the site's `when_unavailable` gave the tier.
    pub unavailable: bool,
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bid:{} {} tier={}", self.uuid, self.limit, self.tier)?;
        if let Some(signal) = self.signal {
            write!(f, " signal={signal}")?;
        }
        if self.unavailable {
            f.write_str(" why=unavailable")?;
        }
        Ok(())
    }
}

impl Stamp {
    /// The first stamp in an AdminComment and where it stands; `None` if there is none.
    pub fn find(admin_comment: &str) -> Option<(Self, std::ops::Range<usize>)> {
        admin_comment.match_indices("bid:").find_map(|(start, _)| {
            let before = &admin_comment[..start];
            if before.chars().next_back().is_some_and(|c| !c.is_whitespace() && c != ';') {
                return None;
            }
            let (stamp, length) = Self::read(&admin_comment[start..])?;
            Some((stamp, start..start + length))
        })
    }

    fn read(text: &str) -> Option<(Self, usize)> {
        let rest = text.strip_prefix("bid:")?;
        let uuid = rest.get(..UUID_CHARS).filter(|uuid| is_uuid(uuid))?;
        let mut rest = rest[UUID_CHARS..].strip_prefix(' ')?;
        let limit_text = &rest[..rest.find(' ')?];
        let limit = Price::parse(limit_text).ok()?;
        rest = rest[limit_text.len()..].strip_prefix(" tier=")?;
        let tier_text = &rest[..rest.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(rest.len())];
        let tier = Tier::from_str(tier_text).ok()?;
        rest = &rest[tier_text.len()..];
        let signal_text =
            rest.strip_prefix(" signal=").map(|text| &text[..text.find([' ', ';']).unwrap_or(text.len())]);
        let signal = signal_text.map(str::parse).transpose().ok()?;
        if let Some(text) = signal_text {
            rest = &rest[" signal=".len() + text.len()..];
        }
        let unavailable = rest.strip_prefix(" why=unavailable");
        let rest = unavailable.unwrap_or(rest);
        if rest.chars().next().is_some_and(|c| !c.is_whitespace() && c != ';') {
            return None;
        }
        let stamp = Self { uuid: uuid.into(), limit, tier, signal, unavailable: unavailable.is_some() };
        Some((stamp, text.len() - rest.len()))
    }
}

fn is_uuid(text: &str) -> bool {
    text.bytes().enumerate().all(|(index, byte)| match index {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
    })
}

/// The AdminComment with a stamp behind what others wrote there.
pub fn with_stamp(admin_comment: &str, stamp: &Stamp) -> String {
    if admin_comment.is_empty() { stamp.to_string() } else { format!("{admin_comment}; {stamp}") }
}

/// The AdminComment without any stamp, and all other text as it was.
pub fn without_stamp(admin_comment: &str) -> String {
    let mut text = admin_comment.to_owned();
    while let Some((_, place)) = Stamp::find(&text) {
        let (before, after) = (&text[..place.start], &text[place.end..]);
        text = match after.strip_prefix("; ") {
            Some(after) => format!("{before}{after}"),
            None => format!("{}{after}", before.strip_suffix("; ").unwrap_or(before)),
        };
    }
    text
}

/// What a run segment was charged, as it stands in `sacct`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    pub paid: Amount,
    pub limit: Price,
    pub tier: Tier,
    /// GPU-seconds that were metered.
    pub gpu_seconds: i64,
    /// Mean price of those GPU-seconds; nothing was metered when absent.
    pub price: Option<Price>,
}

impl fmt::Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "paid={} bid={}", self.paid, self.limit)?;
        if let Some(price) = self.price {
            write!(f, " price={price}")?;
        }
        write!(f, " gpu_s={} tier={}", self.gpu_seconds, self.tier)
    }
}

/// The AdminComment of an ended segment: the receipt where the stamp stood, all other text as it was. A comment
/// that already carries this receipt comes back unchanged, so writing it again is harmless.
pub fn with_receipt(admin_comment: &str, receipt: &str) -> String {
    if let Some((_, place)) = Stamp::find(admin_comment) {
        return format!("{}{receipt}{}", &admin_comment[..place.start], &admin_comment[place.end..]);
    }
    if admin_comment.split("; ").any(|part| part == receipt) {
        return admin_comment.into();
    }
    if admin_comment.is_empty() { receipt.into() } else { format!("{admin_comment}; {receipt}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "0d9f4f5e-8f5c-4e0a-9a39-0b1f3a2c4d5e";

    fn stamp(unavailable: bool) -> Stamp {
        let limit = Price::parse("3.5").expect("price");
        Stamp { uuid: UUID.into(), limit, tier: Tier::Standard, signal: None, unavailable }
    }

    fn receipt() -> Receipt {
        Receipt {
            paid: Amount::parse("1.34").expect("amount"),
            limit: Price::parse("3.5").expect("price"),
            tier: Tier::Standard,
            gpu_seconds: 2400,
            price: Some(Price::parse("2.01").expect("price")),
        }
    }

    #[test]
    fn a_stamp_is_found_among_other_text() {
        for unavailable in [false, true] {
            let written = stamp(unavailable).to_string();
            for text in [
                written.clone(),
                format!("note; {written}"),
                format!("{written}; JS1:H4sI"),
                format!("a bid:3 {written}\nb"),
            ] {
                let (found, place) = Stamp::find(&text).expect(&text);
                assert_eq!(found, stamp(unavailable));
                assert_eq!(text[place], written);
            }
        }
    }

    #[test]
    fn a_signal_is_read_back() {
        let signals = [
            CheckpointSignal { number: 10, batch_only: false, lead_s: 120 },
            CheckpointSignal { number: 12, batch_only: true, lead_s: 0 },
        ];
        for (signal, text) in signals.into_iter().zip(["signal=10@120", "signal=B:12@0"]) {
            for unavailable in [false, true] {
                let stamp = Stamp { signal: Some(signal), tier: Tier::Spot, ..stamp(unavailable) };
                assert!(stamp.to_string().contains(&format!(" tier=spot {text}")), "{stamp}");
                let (found, place) = Stamp::find(&format!("{stamp}; note")).expect("found");
                assert_eq!((found, place), (stamp.clone(), 0..stamp.to_string().len()));
            }
        }
    }

    #[test]
    fn look_alikes_are_no_stamps() {
        let written = stamp(false).to_string();
        for text in [
            "",
            "bid:3.5",
            "bid:",
            &written[..30],
            &format!("x{written}"),
            &format!("{written}x"),
            &written.replace("3.5", "-1"),
            &written.replace("standard", "gold"),
            &format!("{written} signal=USR1@60"),
            &written.to_uppercase(),
            "bid:ééééééééééééééééééééééééééééééé 1 tier=free",
        ] {
            assert_eq!(Stamp::find(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_stamp_comes_and_goes_and_leaves_all_other_text() {
        for others in ["", "note", "ticket 7; watched by ops", "paid=1"] {
            let with = with_stamp(others, &stamp(false));
            assert_eq!(Stamp::find(&with).map(|(found, _)| found), Some(stamp(false)), "{with}");
            assert_eq!(without_stamp(&with), others);
            assert_eq!(without_stamp(others), others);
        }
        let between = format!("before; {}; after", stamp(true));
        assert_eq!(without_stamp(&between), "before; after");
        assert_eq!(without_stamp(&format!("{}; {}", stamp(true), stamp(false))), "");
        assert_eq!(without_stamp(&format!("{}; after", stamp(true))), "after");
    }

    #[test]
    fn a_receipt_takes_the_place_of_the_stamp_once() {
        assert_eq!(receipt().to_string(), "paid=1.34 bid=3.5 price=2.01 gpu_s=2400 tier=standard");
        let before = format!("admin's note; {}; more", stamp(true));
        let after = with_receipt(&before, &receipt().to_string());
        assert_eq!(after, format!("admin's note; {}; more", receipt()));
        assert_eq!(with_receipt(&after, &receipt().to_string()), after);
        assert_eq!(with_receipt("", &receipt().to_string()), receipt().to_string());
    }
}

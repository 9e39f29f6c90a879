//! What this product writes into a job's AdminComment: the stamp at submission, the receipt at the end.
//!
//! The stamp `bid:<uuid> <limit> tier=<tier> [why=unavailable]` is the bid of record: it is written by the plugin,
//! users cannot change it, and the daemon reads it when it first sees the job. The receipt takes its place in the
//! accounting record once the job is settled. Text that others wrote into the AdminComment is kept.

use std::fmt;
use std::str::FromStr;

use crate::amount::{Amount, Price};
use crate::order::Tier;

const UUID_CHARS: usize = 36;

/// The bid of record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    /// Hyphenated lower-case UUID; array tasks share that of their array.
    pub uuid: String,
    pub limit: Price,
    pub tier: Tier,
    /// The daemon was gone at submission, and the site's `when_unavailable` gave the tier.
    pub unavailable: bool,
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bid:{} {} tier={}", self.uuid, self.limit, self.tier)?;
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
        let unavailable = rest.strip_prefix(" why=unavailable");
        let rest = unavailable.unwrap_or(rest);
        if rest.chars().next().is_some_and(|c| !c.is_whitespace() && c != ';') {
            return None;
        }
        let stamp = Self { uuid: uuid.into(), limit, tier, unavailable: unavailable.is_some() };
        Some((stamp, text.len() - rest.len()))
    }
}

fn is_uuid(text: &str) -> bool {
    text.bytes().enumerate().all(|(index, byte)| match index {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
    })
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
        Stamp { uuid: UUID.into(), limit, tier: Tier::Standard, unavailable }
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
            &written.to_uppercase(),
            "bid:ééééééééééééééééééééééééééééééé 1 tier=free",
        ] {
            assert_eq!(Stamp::find(text), None, "{text:?}");
        }
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

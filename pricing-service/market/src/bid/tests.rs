use super::*;

fn micros(comment: &str) -> Option<i64> {
    find(comment).unwrap_or_else(|error| panic!("{comment:?}: {error}")).map(|bid| bid.limit.micros())
}

fn sentence(comment: &str) -> String {
    match find(comment) {
        Err(error) => error.to_string(),
        Ok(bid) => panic!("{comment:?} was read as {bid:?}"),
    }
}

#[test]
fn the_token_is_found_wherever_it_may_start() {
    let table = [
        ("bid:5", 5_000_000),
        ("BID:5", 5_000_000),
        ("Bid:0.000001", 1),
        ("bid:0", 0),
        ("proj=alpha;bid:5", 5_000_000),
        ("proj=alpha; bid:5 ;x", 5_000_000),
        ("a,bid:5", 5_000_000),
        ("a|bid:5|b", 5_000_000),
        ("'bid:5'", 5_000_000),
        ("(bid:5)", 5_000_000),
        ("[bid:5]", 5_000_000),
        ("{bid:5}", 5_000_000),
        ("bid:5 note:'a b'", 5_000_000),
        ("fold(1) bid:2.50", 2_500_000),
        (r#"{"comment":"bid:5","x":[1]}"#, 5_000_000),
        ("x\tbid:3.5\nsecond line", 3_500_000),
        ("größe=5 bid:3.5", 3_500_000),
        ("a\u{3000}bid:3.5\u{a0}b", 3_500_000),
        ("bid:3.5,tier=standard", 3_500_000),
        ("bid:3.5,tier=SPOT", 3_500_000),
        ("bid:3.5,TIER=Standard;x", 3_500_000),
        ("bid:0,tier=free", 0),
        ("bid:1000000", 1_000_000_000_000),
        ("bidding war bid:7", 7_000_000),
    ];
    for (comment, expected) in table {
        assert_eq!(micros(comment), Some(expected), "{comment:?}");
    }
}

#[test]
fn what_only_looks_like_a_token_is_ignored() {
    let table = [
        "",
        "bid",
        "bid 5",
        "forbid:5",
        "forbid=5",
        "bids:5",
        "bid;5",
        "http://wandb.ai/x?bid:5",
        "http://wandb.ai/bid:5",
        r#"{"bid":5,"x":[1]}"#,
        r#"{"OccupiedIdleGPUsJobReaper":{"exemptIdleTimeMins":"120"}}"#,
        "rule_x_wildcards_y",
        "_bid:5",
        "-bid:5",
        ")bid:5",
        "}bid:5",
        "bıd:5",
        "ｂｉｄ:5",
        "bid：5",
    ];
    for comment in table {
        assert_eq!(micros(comment), None, "{comment:?}");
    }
}

#[test]
fn refusals_say_what_is_wrong_where_and_what_to_type() {
    let long = format!("bid:{}", "9".repeat(2_000));
    let table = [
        ("bid:", "the number is missing at column 5 of the comment; write e.g. bid:3.5"),
        ("x bid: 5", "the number is missing at column 7 of the comment; write e.g. bid:3.5"),
        ("bid:tier=free", "the number is missing at column 5 of the comment; write e.g. bid:3.5"),
        ("bid:,tier=free", "the number is missing at column 5 of the comment; write e.g. bid:3.5"),
        ("bid:-1", "cannot read \"-1\" at column 5 of the comment; write e.g. bid:3.5"),
        ("bid:+5", "cannot read \"+5\" at column 5 of the comment; write e.g. bid:3.5"),
        ("bid:1e309", "cannot read \"1e309\" at column 5 of the comment; write e.g. bid:3.5"),
        ("bid:.5", "cannot read \".5\" at column 5 of the comment; write e.g. bid:3.5"),
        ("bid:5.", "cannot read \"5.\" at column 5 of the comment; write e.g. bid:3.5"),
        ("bid:5.25/gpuh", "cannot read \"5.25/gpuh\" at column 5 of the comment; write e.g. bid:3.5"),
        ("bid:market", "cannot read \"market\" at column 5 of the comment; write e.g. bid:3.5"),
        ("bid:bid:5", "cannot read \"bid:5\" at column 5 of the comment; write e.g. bid:3.5"),
        ("bid:5(x", "cannot read \"5(x\" at column 5 of the comment; write e.g. bid:3.5"),
        ("bid:3,5x", "cannot read \"5x\" at column 7 of the comment; write e.g. bid:3.5"),
        ("bid:3,5", "cannot read \"5\" at column 7 of the comment; write e.g. bid:3.5"),
        ("ü bid:٣", "cannot read \"٣\" at column 7 of the comment; write e.g. bid:3.5"),
        ("bid:\u{1b}[2J", "cannot read \"\u{fffd}[2J\" at column 5 of the comment; write e.g. bid:3.5"),
        (
            "bid:5.1234567",
            "\"5.1234567\" at column 5 of the comment has more than 6 decimals; write e.g. bid:3.5",
        ),
        (
            "bid:1000001",
            "\"1000001\" at column 5 of the comment is above the highest limit, 1000000; write e.g. bid:3.5",
        ),
        (
            &long,
            "\"999999999999999999999999999999999999999…\" at column 5 of the comment is above the highest limit, 1000000; \
             write e.g. bid:3.5",
        ),
        ("bid=5", "\"bid=\" at column 1: write bid:3.5 with a colon"),
        ("x;BID=5", "\"BID=\" at column 3: write bid:3.5 with a colon"),
        ("bid:5   bid:6", "two bids in one comment, at columns 1 and 9; keep one"),
        ("bid:5,bid:6", "two bids in one comment, at columns 1 and 7; keep one"),
        ("bid:5 bid:5", "two bids in one comment, at columns 1 and 7; keep one"),
        ("bid:5 bid=6", "two bids in one comment, at columns 1 and 7; keep one"),
        ("bid:x (bid:y bid:z", "two bids in one comment, at columns 1 and 8; keep one"),
        ("bid:5,", "nothing follows the comma at column 6; leave it out"),
        ("bid:5, max=40", "nothing follows the comma at column 6; leave it out"),
        ("bid:5,,tier=standard", "nothing follows the comma at column 6; leave it out"),
        (
            "bid:5,proj=a",
            "\"proj=a\" at column 7 is not an option of a bid; leave it out or put a space before it",
        ),
        (
            "bid:5,h100=3",
            "\"h100=3\" at column 7 is not an option of a bid; leave it out or put a space before it",
        ),
        ("bid:3.75,max=40", "option \"max\" at column 10 is not available yet; leave it out"),
        ("bid:5,max:40", "option \"max\" at column 7 is not available yet; leave it out"),
        (
            "bid:5,deadline=2026-12-02T08:00",
            "option \"deadline\" at column 7 is not available yet; leave it out",
        ),
        ("bid:5,tier=urgent,max=4", "option \"max\" at column 19 is not available yet; leave it out"),
        (
            "bid:5,tier=gold",
            "cannot read \"tier=gold\" at column 7; write tier=urgent, tier=standard or tier=spot, or leave it out",
        ),
        (
            "bid:5,tier",
            "cannot read \"tier\" at column 7; write tier=urgent, tier=standard or tier=spot, or leave it out",
        ),
        ("bid:5,tier=standard,tier=spot", "option \"tier\" at column 21 is given twice; keep one"),
        (
            "bid:0,tier=standard",
            "\"tier=standard\" at column 7 needs a limit above 0; write e.g. bid:3.5, or bid:0 for the free tier",
        ),
        ("bid:5,tier=free", "\"tier=free\" at column 7 needs a limit of 0; write bid:0"),
        ("bid:auto", "\"auto\" at column 5 is not available yet; write a number, e.g. bid:3.5"),
        ("bid:AUTO,max=40", "\"AUTO\" at column 5 is not available yet; write a number, e.g. bid:3.5"),
        ("bid:auto:cap=10", "\"auto\" at column 5 is not available yet; write a number, e.g. bid:3.5"),
        (
            "bid:a100=1.8,h100=3",
            "a limit per model, \"a100=1.8\" at column 5, is not available yet; write one number, e.g. bid:3.5",
        ),
    ];
    for (comment, expected) in table {
        assert_eq!(sentence(comment), expected, "{comment:?}");
    }
}

#[test]
fn a_value_of_its_own_is_read_without_the_prefix() {
    let limit = |text| parse_value(text).map(|bid| bid.limit.micros()).map_err(|error| error.to_string());
    assert_eq!(limit("3.5"), Ok(3_500_000));
    assert_eq!(limit("0"), Ok(0));
    assert_eq!(limit("3.5,tier=standard"), Ok(3_500_000));
    let refused = [
        ("", "the number is missing at column 1; write e.g. 3.5"),
        ("bid:3.5", "cannot read \"bid:3.5\" at column 1; write e.g. 3.5"),
        ("3.5 ", "cannot read \"3.5 \" at column 1; write e.g. 3.5"),
        ("3,5x", "cannot read \"5x\" at column 3; write e.g. 3.5"),
        ("3.5,max=40", "option \"max\" at column 5 is not available yet; leave it out"),
        ("auto", "\"auto\" at column 1 is not available yet; write a number, e.g. 3.5"),
        ("1,tier=free", "\"tier=free\" at column 3 needs a limit of 0; write 0"),
    ];
    for (text, expected) in refused {
        assert_eq!(limit(text), Err(expected.to_owned()), "{text:?}");
    }
}

#[test]
fn bytes_that_are_not_utf8_hide_no_token() {
    assert_eq!(find_bytes(b"caf\xe9 bid:5").map(|bid| bid.map(|b| b.limit.micros())), Ok(Some(5_000_000)));
    assert_eq!(
        find_bytes(b"\xe2\x82;bid:5\xff").map_err(|error| (error.column, error.kind)),
        Err((7, BidErrorKind::Unreadable))
    );
    assert_eq!(find_bytes(b"\xffbid:5"), Ok(None));
    assert_eq!(find_bytes(b"\xff\xfe bid:").map_err(|error| error.column), Err(8));
}

#[test]
fn the_canonical_form_is_read_back() {
    for (text, tier) in [
        ("0", Tier::Free),
        ("0,tier=free", Tier::Free),
        ("3.5", Tier::Standard),
        ("0.000001,tier=standard", Tier::Standard),
        ("1000000,tier=spot", Tier::Spot),
        ("3,tier=urgent", Tier::Urgent),
    ] {
        let bid = parse_value(text).unwrap();
        assert_eq!((bid.to_string().as_str(), bid.tier(), bid.is_free()), (text, tier, tier == Tier::Free));
    }
    assert_eq!(parse_value("03.50,TIER:Spot").map(|bid| bid.to_string()).as_deref(), Ok("3.5,tier=spot"));
}

//! Properties of everything that reads what users and Slurm write.

use std::collections::BTreeSet;

use market::amount::{Amount, Price};
use market::bid::{Bid, BidErrorKind, find, find_bytes, parse_value};
use market::request::{
    Ask, TimeLimit, gpus_asked, gpus_of_node, gpus_of_request, gpus_of_tres, parse_array,
    parse_time_limit_min,
};
use proptest::prelude::*;

/// Texts near the grammars, where mistakes hide.
fn near_grammar() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "bid:",
            "bid=",
            "BID:",
            "bid",
            "tier=",
            "standard",
            "free",
            "spot",
            "max=",
            "auto",
            "gres:",
            "gres/",
            "gpu",
            "shard",
            "a100",
            "3g.20gb",
            "none",
            "(S:0-1)",
            "(IDX:",
            "(null)",
            "0x",
            "...",
            "UNLIMITED",
            "é",
            "\u{a0}",
        ])
        .prop_map(str::to_owned),
        "[0-9]{1,25}",
        "[ ;,|'\"()\\[\\]{}:=.%/+-]",
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), near_grammar()]
}

/// A second reading of the token rule, by splitting instead of scanning: the limit in µSU, `None` without a token,
/// `Err` for a refusal. Knows no option but `tier`.
fn reference_limit_micros(comment: &str) -> Result<Option<i64>, ()> {
    const STARTS: [char; 8] = [';', ',', '|', '\'', '"', '(', '[', '{'];
    const CLOSERS: [char; 3] = [')', ']', '}'];
    let words: Vec<&str> =
        comment.split_inclusive(|c: char| c.is_whitespace() || STARTS.contains(&c)).collect();
    let is_start = |word: &&str| {
        word.get(..4).is_some_and(|head| ["bid:", "bid="].contains(&&*head.to_ascii_lowercase()))
    };
    let mut found = words.iter().enumerate().filter(|(_, word)| is_start(word));
    let Some((position, word)) = found.next() else {
        return Ok(None);
    };
    if found.next().is_some() || word.as_bytes()[3] == b'=' {
        return Err(());
    }
    // The token goes on over `, ( [ {`, which start a token but end none.
    let mut token = String::new();
    for word in &words[position..] {
        token.push_str(word);
        if !word.ends_with([',', '(', '[', '{']) || word.contains(CLOSERS) {
            break;
        }
    }
    let token = token.split(|c: char| c.is_whitespace() || "; | ' \" ) ] }".contains(c)).next().unwrap_or("");
    let mut parts = token[4..].split(',');
    let limit = reference_decimal_micros(parts.next().unwrap_or(""))?;
    match (parts.next().map(str::to_ascii_lowercase).as_deref(), parts.next()) {
        (None, _) => Ok(Some(limit)),
        (Some("tier=urgent" | "tier=standard" | "tier=spot"), None) if limit > 0 => Ok(Some(limit)),
        (Some("tier=free"), None) if limit == 0 => Ok(Some(limit)),
        _ => Err(()),
    }
}

fn reference_decimal_micros(text: &str) -> Result<i64, ()> {
    let digits = |part: &str| (!part.is_empty() && part.chars().all(|c| c.is_ascii_digit())).then_some(());
    let (whole, decimals) = text.split_once('.').map_or((text, "0"), |(whole, decimals)| (whole, decimals));
    digits(whole).and(digits(decimals)).ok_or(())?;
    if decimals.len() > 6 {
        return Err(());
    }
    let micros: i128 = format!("{whole}{decimals:0<6}").parse().map_err(|_| ())?;
    if micros > 1_000_000_000_000 { Err(()) } else { i64::try_from(micros).map_err(|_| ()) }
}

fn limit_micros(comment: &str) -> Result<Option<i64>, ()> {
    find(comment).map(|bid| bid.map(|bid| bid.limit.micros())).map_err(|_| ())
}

/// Every text of up to five of these pieces, 177,156 of them.
#[test]
fn short_comments_agree_with_the_reference() {
    const PIECES: [&str; 11] = ["bid:", "BiD=", "x", "5", ".", ",", " ", ";", "(", "}", "tier=free"];
    let mut texts = vec![String::new()];
    let mut shortest = 0;
    for _ in 0..5 {
        let longest = texts.len();
        for index in shortest..longest {
            for piece in PIECES {
                texts.push(format!("{}{piece}", texts[index]));
            }
        }
        shortest = longest;
    }
    let mut bids = 0;
    for text in &texts {
        let limit = limit_micros(text);
        assert_eq!(limit, reference_limit_micros(text), "{text:?}");
        bids += usize::from(matches!(limit, Ok(Some(_))));
    }
    assert!(bids > 1_000, "only {bids} of {} texts hold a bid", texts.len());
}

proptest! {
    #[test]
    fn comments_agree_with_the_reference(comment in any_text()) {
        // Options that are known but closed are refused by one and unknown to the other: refused by both.
        prop_assert_eq!(limit_micros(&comment), reference_limit_micros(&comment));
    }

    #[test]
    fn bytes_are_read_like_the_text_they_hold(bytes in any::<Vec<u8>>(), text in any_text()) {
        let _ = find_bytes(&bytes);
        prop_assert_eq!(find_bytes(text.as_bytes()), find(&text));
    }

    #[test]
    fn bytes_around_a_token_do_not_hide_it(before in any::<Vec<u8>>(), after in any::<Vec<u8>>(), micros in 0..=10_i64.pow(12)) {
        // No colon and no equal sign: then nothing around can be a token.
        let clean = |bytes: Vec<u8>| bytes.into_iter().filter(|b| !b":=".contains(b)).collect::<Vec<_>>();
        let bid = Bid { limit: Price::from_micros(micros).unwrap(), asked_tier: None };
        let comment = [clean(before), format!(" bid:{bid} ").into_bytes(), clean(after)].concat();
        prop_assert_eq!(find_bytes(&comment), Ok(Some(bid)));
    }

    #[test]
    fn a_token_is_read_in_any_surroundings(
        before in "[^:=]{0,30}",
        start in prop::sample::select(vec![" ", ";", ",", "|", "'", "\"", "(", "[", "{", "\t", "\n"]),
        prefix in prop::sample::select(vec!["bid:", "BID:", "Bid:", "biD:"]),
        end in prop::sample::select(vec![" ", ";", "|", "'", "\"", ")", "]", "}", "\n"]),
        after in "[^:=]{0,30}",
        micros in 0..=10_i64.pow(12),
    ) {
        let bid = Bid { limit: Price::from_micros(micros).unwrap(), asked_tier: None };
        let comment = format!("{before}{start}{prefix}{bid}{end}{after}");
        prop_assert_eq!(find(&comment), Ok(Some(bid)));
        let alone = format!("{prefix}{bid}");
        prop_assert_eq!(find(&alone), Ok(Some(bid)));
        prop_assert_eq!(parse_value(&bid.to_string()), Ok(bid));
    }

    #[test]
    fn a_look_alike_is_never_a_token(
        before in "[^:=]{0,20}",
        glue in "[a-zA-Z0-9_./?&#@!*+-:)}\\]\\\\]",
        number in "[0-9]{1,3}",
    ) {
        prop_assume!(glue != "," && glue != "(");
        let comment = format!("{before}{glue}bid:{number}");
        prop_assert_eq!(find(&comment), Ok(None));
    }

    #[test]
    fn an_error_points_at_the_text_it_shows(comment in any_text()) {
        if let Err(error) = find(&comment) {
            let chars: Vec<char> = comment.chars().collect();
            prop_assert!((1..=chars.len() + 1).contains(&error.column));
            let shown: Vec<char> = error.text.chars().collect();
            for (offset, &c) in shown.iter().enumerate().filter(|(_, c)| !"…\u{fffd}".contains(**c)) {
                // A repeated option is shown by its name in lower case.
                prop_assert!(chars[error.column - 1 + offset].eq_ignore_ascii_case(&c));
            }
            if let BidErrorKind::TwoBids { second_column } = error.kind {
                prop_assert!(chars[second_column - 1].eq_ignore_ascii_case(&'b') && second_column > error.column);
            }
            prop_assert!(error.to_string().chars().all(|c| !c.is_control()));
        }
    }

    #[test]
    fn amounts_and_prices_come_back(micros in 0..=10_i64.pow(18)) {
        let amount = Amount::from_micros(micros);
        prop_assert_eq!(Amount::parse(&amount.to_string()), Ok(amount));
        prop_assert_eq!(Amount::parse(&amount.fixed6()), Ok(amount));
        let price = Price::from_micros(micros / 1_000_000).unwrap();
        prop_assert_eq!(Price::parse(&price.to_string()), Ok(price));
        prop_assert_eq!(Price::parse(&price.fixed6()), Ok(price));
        prop_assert_eq!(format!("-{amount}"), if micros == 0 { "-0".to_owned() } else { Amount::from_micros(-micros).to_string() });
    }

    #[test]
    fn decimals_agree_with_the_reference(text in "[0-9]{0,9}[.]?[0-9]{0,8}|.{0,4}") {
        prop_assert_eq!(Price::parse(&text).map(Price::micros).map_err(|_| ()), reference_decimal_micros(&text));
    }

    #[test]
    fn nothing_panics_and_every_count_is_plain(text in any_text()) {
        let _ = parse_time_limit_min(&text);
        let _ = parse_value(&text);
        let _ = gpus_of_node(&text);
        if let Ok(spec) = parse_array(&text) {
            prop_assert!(spec.tasks > 0 && spec.at_once != Some(0));
        }
        for gpus in [gpus_of_request(&text), gpus_of_tres(&text)].into_iter().flatten() {
            prop_assert!(gpus.iter().all(|(model, count)| count > 0 && model.is_none_or(|m| m == m.to_ascii_lowercase())));
        }
    }

    #[test]
    fn time_limits_round_up_and_come_back(minutes in 1..=35_791_394_u32, seconds in 1..=i32::MAX as u32) {
        let limit = TimeLimit::Minutes(minutes);
        prop_assert_eq!(parse_time_limit_min(&limit.to_string()), Ok(limit));
        prop_assert_eq!(parse_time_limit_min(&minutes.to_string()), Ok(limit));
        let rounded_up = Ok(TimeLimit::Minutes(seconds.div_ceil(60)));
        prop_assert_eq!(parse_time_limit_min(&format!("0:{seconds}")), rounded_up);
        let (days, hours, rest) = (seconds / 86_400, seconds / 3_600 % 24, seconds % 3_600);
        prop_assert_eq!(parse_time_limit_min(&format!("{days}-{hours}:{}:{}", rest / 60, rest % 60)), rounded_up);
    }

    #[test]
    fn arrays_are_counted_like_a_set(
        tokens in prop::collection::vec((0..300_u32, prop::option::of((0..300_u32, prop::option::of(1..40_u32)))), 1..12),
        at_once in prop::option::of(1..50_u32),
    ) {
        let mut members = BTreeSet::new();
        let texts: Vec<String> = tokens
            .iter()
            .map(|(first, range)| match range {
                None => {
                    members.insert(*first);
                    first.to_string()
                }
                Some((length, step)) => {
                    members.extend((*first..=first + length).step_by(step.unwrap_or(1) as usize));
                    let step = step.map_or(String::new(), |step| format!(":{step}"));
                    format!("{first}-{}{step}", first + length)
                }
            })
            .collect();
        let limit = at_once.map_or(String::new(), |n| format!("%{n}"));
        let spec = parse_array(&format!("{}{limit}", texts.join(","))).unwrap();
        prop_assert_eq!((spec.tasks, spec.at_once), (members.len() as u64, at_once));

        let mut bitmap = vec![0_u32; 150];
        for index in members {
            bitmap[149 - index as usize / 4] |= 1 << (index % 4);
        }
        let hex: String = bitmap.iter().map(|digit| format!("{digit:X}")).collect();
        prop_assert_eq!(parse_array(&format!("0x{hex}{limit}")), Ok(spec));
    }

    #[test]
    fn gpus_are_the_same_in_every_spelling(model in "[a-z][a-z0-9_.-]{0,12}", count in 1..1_000_000_u64) {
        let spellings = [
            format!("gres:gpu:{model}:{count}"),
            format!("gres/gpu:{model}:{count}"),
            format!("gres/gpu:{model}={count}"),
            format!("gpu:{}:{count}", model.to_uppercase()),
        ];
        for spelling in spellings {
            let gpus = gpus_of_request(&spelling).unwrap();
            prop_assert_eq!((gpus.total(), gpus.of(Some(&model))), (count, count));
            prop_assert_eq!(gpus_of_node(&format!("{spelling}(S:0-1)")), Ok(gpus.clone()));
            prop_assert_eq!(gpus_of_tres(&format!("gres/gpu={count},cpu=4,{spelling}")), Ok(gpus));
        }
    }

    #[test]
    fn asking_for_more_never_counts_less(
        (per_job, per_node, per_socket, per_task) in (0..9_u32, 0..9_u32, 0..5_u32, 0..5_u32),
        (nodes_min, nodes_more, tasks, sockets) in (1..6_u32, 0..6_u32, prop::option::of(1..40_u32), 1..5_u32),
        (exclusive, node_gpus_max) in (any::<bool>(), 0..17_u32),
    ) {
        let texts = [per_job, per_node, per_socket, per_task].map(|count| format!("gres:gpu:{count}"));
        let count = |max_nodes: u32, num_tasks: Option<u32>, exclusive: bool| {
            let ask = Ask {
                tres_per_job: Some(&texts[0]),
                tres_per_node: Some(&texts[1]),
                tres_per_socket: Some(&texts[2]),
                tres_per_task: Some(&texts[3]),
                min_nodes: Some(nodes_min),
                max_nodes: Some(max_nodes),
                num_tasks,
                sockets_per_node: Some(sockets),
                exclusive,
                node_gpus_max,
                ..Ask::default()
            };
            gpus_asked(&ask).unwrap().total()
        };
        let base = count(nodes_min, tasks, exclusive);
        prop_assert!(base >= u64::from(per_job));
        prop_assert!(base >= u64::from(per_node * nodes_min));
        prop_assert!(base >= u64::from(per_socket * sockets * nodes_min));
        prop_assert!(base >= u64::from(per_task * tasks.unwrap_or(nodes_min)));
        prop_assert!(count(nodes_min + nodes_more, tasks, exclusive) >= base);
        prop_assert!(count(nodes_min, tasks.map(|n| n + 1), exclusive) >= base);
        prop_assert!(count(nodes_min, tasks, true) >= u64::from(node_gpus_max * nodes_min).max(base));
    }
}

use super::*;

fn parse(text: &str) -> Result<Config, String> {
    Config::parse(text, Path::new("market.toml")).map_err(|error| error.to_string())
}

#[test]
fn an_empty_file_gives_the_defaults() {
    assert_eq!(parse("").expect("valid"), Config::default());
}

#[test]
fn prices_are_exact_decimals() {
    let config = parse("[pools.a100]\nweight = 1\n[pools.h100]\nweight = 2.1\nreserve_price = 0.333333\n")
        .expect("valid");
    assert_eq!(config.pools["a100"].weight.micros(), 1_000_000);
    assert_eq!(config.pools["h100"].weight.micros(), 2_100_000);
    assert_eq!(config.pools["h100"].reserve_price.map(Price::micros), Some(333_333));
}

#[test]
fn every_mistake_names_file_line_and_key() {
    let cases = [
        ("poll_s = 3\nquantums = 5\n", "market.toml:2: quantums: unknown field"),
        ("quantum_s = 0\n", "market.toml:1: quantum_s: 0 is out of range"),
        ("quantum_s = \"5\"\n", "market.toml:1: quantum_s: invalid type"),
        ("\nwhen_short = \"wait\"\n", "market.toml:2: when_short: unknown variant `wait`"),
        ("mode = \"shadow\"\n", "market.toml:1: mode: unknown variant"),
        ("[tiers]\nstandard = \"a b\"\n", "market.toml:2: standard: \"a b\" is no QOS name"),
        ("[tiers]\nspot = \"free\"\n", "market.toml:1: tiers: QOS free is named twice"),
        ("no_bid = \"default_bid\"\n", "market.toml:1: no_bid: \"default_bid\" and a price"),
        ("default_bid = 0.5\n", "market.toml:1: no_bid: \"default_bid\" and a price"),
        ("default_bid = 0\nno_bid = \"default_bid\"\n", "market.toml:1: default_bid: 0 is no price"),
        ("[pools.a100]\nweight = -1\n", "market.toml:2: weight: -1 is no price"),
        ("[pools.a100]\nweight = 0.1234567\n", "market.toml:2: weight: 0.1234567 is no price"),
        ("[pools.a100]\nweight = \"x\"\n", "market.toml:2: weight: invalid type"),
        ("[pools.a100]\nwieght = 1\n", "market.toml:2: wieght: unknown field"),
        ("[pools.a100]\n", "market.toml:1: pools.a100: missing field `weight`"),
        ("[pools.A100]\nweight = 1\n", "market.toml:1: A100: is no GPU model"),
        ("poll_s = 20\nstale_after_s = 20\n", "market.toml:2: stale_after_s: must be greater than poll_s"),
        ("[eviction]\ngrace_s = 90\ngrace_most_s = 60\n", "market.toml:3: grace_most_s: must not be less"),
        ("poll_s 3\n", "market.toml:1: poll_s 3:"),
    ];
    for (text, expected) in cases {
        let error = parse(text).expect_err(text);
        assert!(error.starts_with(expected), "{text:?} gave {error:?}, not {expected:?}…");
        assert!(!error.contains('\n'), "{error:?} is not one line");
    }
}

//! `sbid price`

use market_api::v1::PoolPrice;

use crate::client::Market;
use crate::failure::Failure;
use crate::field::{Cell, Field};
use crate::output::{Outcome, OutputArgs, Report};

pub(crate) const NAME: &str = "price";

pub(crate) const FIELDS: &[Field<PoolPrice>] = &[
    Field::text("Pool", "pool", |pool| Cell::Text(pool.pool.clone())),
    Field::number("GPUs", "gpus", |pool| Cell::Count(Some(pool.gpus.into()))),
    Field::number("InSupply", "gpus_in_supply", |pool: &PoolPrice| {
        Cell::Count(Some(pool.gpus_in_supply.into()))
    })
    .on_request(),
    Field::number("Free", "gpus_idle", |pool| Cell::Count(Some(pool.gpus_idle.into()))),
    Field::number("Waiting", "gpus_waiting", |pool| Cell::Count(Some(pool.gpus_waiting.into()))),
    Field::number("Reserve", "reserve_price", |pool| Cell::Money(Some(pool.reserve_usu))),
    Field::number("Charge", "charge_price", |pool| Cell::Money(Some(pool.charge_usu))),
    Field::number("StartNow", "start_price", |pool| Cell::Money(Some(pool.start_usu))),
    Field::text("Why", "why", |pool: &PoolPrice| Cell::Text(pool.why.clone())).on_request(),
];

pub(crate) fn run(market: &Market, output: &OutputArgs) -> Result<Outcome, Failure> {
    let layout = output.layout(FIELDS)?;
    let reply = market.prices()?;
    let mut report = Report::new(NAME, "pools", reply.as_of_s, reply.pools);
    report.before.push("(SU per GPU-hour, tier standard)".into());
    let reasons = report.rows.iter().filter(|pool| !pool.why.is_empty());
    report.after = reasons.map(|pool| format!("{}: {}", pool.pool, pool.why)).collect();
    Ok(layout.lay_out(report))
}

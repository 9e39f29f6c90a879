//! A pool: all GPUs of one model in the cluster, cleared together.

use crate::amount::Price;

/// ρ0 is this part of the weight κ.
const RHO0_DIVISOR: i64 = 4;

/// What an operator sets for one pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolParams {
    pub name: String,
    /// κ, the weight of the GPU model: the fair price, where index and start price begin.
    pub weight: Price,
    /// The reserve, where the operator fixes it.
    pub reserve_price: Option<Price>,
}

impl PoolParams {
    /// ρ0 = ⌊κ/4⌋, at least 1 µSU: the measure of age and of the priority factor. A reserve fixed by the operator
    /// does not touch it: queue order and factors must not move with the reserve.
    #[must_use]
    pub fn rho0(&self) -> Price {
        Price::from_micros((self.weight.micros() / RHO0_DIVISOR).max(1)).unwrap_or(self.weight)
    }

    /// The operator's floor ρ: as fixed, else ρ0 (it does not move with use yet: T = 1).
    #[must_use]
    pub fn reserve(&self) -> Price {
        self.reserve_price.unwrap_or_else(|| self.rho0())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(weight: i64, reserve: Option<i64>) -> PoolParams {
        PoolParams {
            name: "a100".to_owned(),
            weight: Price::from_micros(weight).expect("not below zero"),
            reserve_price: reserve.and_then(Price::from_micros),
        }
    }

    #[test]
    fn rho0_is_a_quarter_of_the_weight() {
        for (weight, rho0) in [(1_000_000, 250_000), (600_001, 150_000), (7, 1), (0, 1)] {
            assert_eq!(pool(weight, None).rho0().micros(), rho0);
            assert_eq!(pool(weight, None).reserve().micros(), rho0);
        }
    }

    #[test]
    fn a_fixed_reserve_leaves_rho0_alone() {
        let pool = pool(1_000_000, Some(400_000));
        assert_eq!(pool.reserve().micros(), 400_000);
        assert_eq!(pool.rho0().micros(), 250_000);
    }
}

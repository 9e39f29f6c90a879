-- Money in micro-SU, prices in micro-SU per GPU-hour, GPUs in milli-GPUs, times in seconds since the epoch (UTC).

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;

CREATE TABLE ledger_account (
    id          INTEGER PRIMARY KEY,
    kind        TEXT NOT NULL CHECK (kind IN ('account', 'escrow', 'mint', 'burn', 'house_loss')),
    name        TEXT NOT NULL,
    balance_usu INTEGER NOT NULL DEFAULT 0,
    -- What left it for charges since the ledger began.
    charged_usu INTEGER NOT NULL DEFAULT 0,
    CHECK (balance_usu >= 0 OR kind IN ('mint', 'burn', 'house_loss')),
    UNIQUE (kind, name)
) STRICT;

CREATE TABLE transfer (
    id         INTEGER PRIMARY KEY,
    at_s       INTEGER NOT NULL,
    kind       TEXT NOT NULL,
    segment_id INTEGER REFERENCES segment (id),
    actor_uid  INTEGER,
    memo       TEXT NOT NULL
) STRICT;

CREATE TABLE entry (
    id                INTEGER PRIMARY KEY,
    transfer_id       INTEGER NOT NULL REFERENCES transfer (id),
    ledger_account_id INTEGER NOT NULL REFERENCES ledger_account (id),
    amount_usu        INTEGER NOT NULL CHECK (amount_usu <> 0),
    UNIQUE (transfer_id, ledger_account_id)
) STRICT;
CREATE INDEX entry_by_account ON entry (ledger_account_id, id);

-- Balances follow the entries, and entries are for ever.
CREATE TRIGGER entry_moves_balance AFTER INSERT ON entry BEGIN
    UPDATE ledger_account SET balance_usu = balance_usu + NEW.amount_usu WHERE id = NEW.ledger_account_id;
END;
CREATE TRIGGER entry_of_charge AFTER INSERT ON entry
WHEN (SELECT kind FROM transfer WHERE id = NEW.transfer_id) = 'charge' BEGIN
    UPDATE ledger_account SET charged_usu = charged_usu - NEW.amount_usu WHERE id = NEW.ledger_account_id;
END;
CREATE TRIGGER entry_is_final BEFORE UPDATE ON entry BEGIN SELECT RAISE(ABORT, 'entries are append-only'); END;
CREATE TRIGGER entry_stays BEFORE DELETE ON entry BEGIN SELECT RAISE(ABORT, 'entries are append-only'); END;
CREATE TRIGGER transfer_is_final BEFORE UPDATE ON transfer BEGIN SELECT RAISE(ABORT, 'transfers are append-only'); END;
CREATE TRIGGER transfer_stays BEFORE DELETE ON transfer BEGIN SELECT RAISE(ABORT, 'transfers are append-only'); END;

-- Commands that moved or changed something, each with its first answer.
CREATE TABLE command (
    idempotency_key TEXT PRIMARY KEY,
    uid             INTEGER NOT NULL,
    at_s            INTEGER NOT NULL,
    request         TEXT NOT NULL,
    reply           BLOB NOT NULL
) STRICT;

-- A job in the market, an array as one. Known by its first-seen id and submit time; Slurm rewrites both later.
CREATE TABLE market_order (
    id          INTEGER PRIMARY KEY,
    uuid        TEXT NOT NULL UNIQUE,
    job_id      INTEGER NOT NULL,
    submitted_s INTEGER NOT NULL,
    uid         INTEGER NOT NULL,
    user        TEXT NOT NULL,
    account     TEXT NOT NULL,
    partition   TEXT NOT NULL,
    tier        TEXT NOT NULL CHECK (tier IN ('urgent', 'standard', 'spot', 'free')),
    limit_usu   INTEGER NOT NULL CHECK (limit_usu >= 0),
    eligible_s  INTEGER,
    age_s       INTEGER NOT NULL DEFAULT 0 CHECK (age_s >= 0),
    closed_s    INTEGER
) STRICT;
CREATE INDEX market_order_open ON market_order (id) WHERE closed_s IS NULL;
CREATE INDEX market_order_by_job ON market_order (job_id);

-- Limits that were changed while the order waited: a run pays by the limit of the moment it started, which Slurm may
-- tell only later.
CREATE TABLE bid_change (
    id            INTEGER PRIMARY KEY,
    order_id      INTEGER NOT NULL REFERENCES market_order (id),
    at_s          INTEGER NOT NULL,
    old_limit_usu INTEGER NOT NULL CHECK (old_limit_usu >= 0)
) STRICT;
CREATE INDEX bid_change_by_order ON bid_change (order_id, id);

-- The funded orders of the last committed round: what a start displaces.
CREATE TABLE round_order (
    order_id      INTEGER NOT NULL REFERENCES market_order (id),
    pool          TEXT NOT NULL,
    account       TEXT NOT NULL,
    effective_usu INTEGER NOT NULL CHECK (effective_usu >= 0),
    eligible_s    INTEGER NOT NULL,
    q_milli       INTEGER NOT NULL CHECK (q_milli > 0),
    PRIMARY KEY (order_id, pool)
) STRICT;

-- One run of a job, from a start to its end. (job id, start) names it: ids are given again, starts are not.
CREATE TABLE segment (
    id            INTEGER PRIMARY KEY,
    order_id      INTEGER NOT NULL REFERENCES market_order (id),
    job_id        INTEGER NOT NULL,
    display_id    TEXT NOT NULL,
    start_s       INTEGER NOT NULL,
    time_limit_s  INTEGER,
    tier          TEXT NOT NULL CHECK (tier IN ('urgent', 'standard', 'spot', 'free')),
    limit_usu     INTEGER NOT NULL CHECK (limit_usu >= 0),
    account       TEXT NOT NULL,
    effective_usu INTEGER NOT NULL,
    rank_usu      INTEGER NOT NULL,
    escrow_usu    INTEGER NOT NULL CHECK (escrow_usu >= 0),
    escrow_until_s INTEGER NOT NULL,
    end_s         INTEGER,
    metered_s     INTEGER,
    charge_usu    INTEGER CHECK (charge_usu >= 0),
    loss_usu      INTEGER CHECK (loss_usu >= 0),
    receipt       TEXT,
    receipt_read_back_s INTEGER,
    UNIQUE (job_id, start_s)
) STRICT;
CREATE INDEX segment_running ON segment (id) WHERE end_s IS NULL;
CREATE INDEX segment_unreceipted ON segment (id) WHERE receipt IS NOT NULL AND receipt_read_back_s IS NULL;
CREATE INDEX segment_by_start ON segment (start_s);
CREATE INDEX segment_by_end ON segment (end_s);
CREATE INDEX segment_by_order ON segment (order_id);

CREATE TABLE segment_pool (
    segment_id INTEGER NOT NULL REFERENCES segment (id),
    pool       TEXT NOT NULL,
    q_milli    INTEGER NOT NULL CHECK (q_milli > 0),
    PRIMARY KEY (segment_id, pool)
) STRICT;

-- A price holds from this many metered seconds on, to the next one of the same segment and pool.
CREATE TABLE segment_price (
    segment_id INTEGER NOT NULL,
    pool       TEXT NOT NULL,
    from_metered_s INTEGER NOT NULL CHECK (from_metered_s >= 0),
    price_usu  INTEGER NOT NULL CHECK (price_usu >= 0),
    PRIMARY KEY (segment_id, pool, from_metered_s),
    FOREIGN KEY (segment_id, pool) REFERENCES segment_pool (segment_id, pool)
) STRICT;

-- A running spot job that gives way to a waiting order: asked, warned (grace_until_s), taken (outcome), closed.
CREATE TABLE eviction (
    id             INTEGER PRIMARY KEY,
    segment_id     INTEGER NOT NULL REFERENCES segment (id),
    beneficiary_id INTEGER NOT NULL REFERENCES market_order (id),
    actor_uid      INTEGER,
    asked_s        INTEGER NOT NULL,
    grace_until_s  INTEGER,
    closed_s       INTEGER,
    outcome        TEXT CHECK (outcome IN ('requeued', 'cancelled', 'ended_by_itself', 'called_off')),
    CHECK (closed_s IS NULL OR outcome IS NOT NULL)
) STRICT;
CREATE UNIQUE INDEX eviction_open ON eviction (segment_id) WHERE closed_s IS NULL;

CREATE TABLE pool_round (
    round_id     INTEGER NOT NULL,
    pool         TEXT NOT NULL,
    at_s         INTEGER NOT NULL,
    supply_milli INTEGER NOT NULL,
    start_usu    INTEGER NOT NULL,
    reserve_usu  INTEGER NOT NULL,
    index_log2_q32 INTEGER NOT NULL,
    charge_usu   INTEGER NOT NULL,
    why          TEXT NOT NULL,
    PRIMARY KEY (round_id, pool)
) STRICT;
CREATE INDEX pool_round_by_pool ON pool_round (pool, at_s);

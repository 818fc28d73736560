-- +goose Up
CREATE TABLE pool (
    id         uuid PRIMARY KEY,
    name       text NOT NULL UNIQUE CHECK (name ~ '^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$'),
    simulated  boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE node (
    id                  uuid PRIMARY KEY,
    name                text NOT NULL UNIQUE CHECK (name ~ '^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$'),
    pool_id             uuid NOT NULL REFERENCES pool,
    state               text NOT NULL DEFAULT 'late' CHECK (state IN ('ready', 'late', 'lost')),
    drained             boolean NOT NULL DEFAULT false,
    simulated           boolean NOT NULL DEFAULT false,
    vcpu                int NOT NULL CHECK (vcpu >= 0),
    memory_mib          bigint NOT NULL CHECK (memory_mib >= 0),
    cpu_overcommit      double precision NOT NULL DEFAULT 4 CHECK (cpu_overcommit >= 1),
    agent_version       text NOT NULL DEFAULT '',
    boot_id             text NOT NULL DEFAULT '',
    drivers             jsonb NOT NULL DEFAULT '{}',
    orphans             jsonb NOT NULL DEFAULT '[]',
    -- Of its assignment (decision 7): raised in the transaction that changes it.
    generation          bigint NOT NULL DEFAULT 0,
    ack_era             uuid,
    ack_generation      bigint NOT NULL DEFAULT 0,
    last_seen_at        timestamptz,
    created_at          timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE node_certificate (
    serial     text PRIMARY KEY,
    node_id    uuid NOT NULL REFERENCES node ON DELETE CASCADE,
    not_after  timestamptz NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    revoked_at timestamptz
);
CREATE INDEX node_certificate_node ON node_certificate (node_id);

CREATE TABLE node_join_token (
    hash       bytea PRIMARY KEY CHECK (octet_length(hash) = 32),
    pool_id    uuid NOT NULL REFERENCES pool,
    simulated  boolean NOT NULL DEFAULT false,
    created_by uuid REFERENCES app_user,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    used_at    timestamptz,
    node_id    uuid REFERENCES node ON DELETE SET NULL
);

CREATE TABLE gpu (
    id          uuid PRIMARY KEY,
    node_id     uuid NOT NULL REFERENCES node,
    uuid        text NOT NULL UNIQUE,
    pci_address text NOT NULL CHECK (pci_address ~ '^([0-9a-f]{4}|[1-9a-f][0-9a-f]{4,7}):[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$'),
    index       int NOT NULL DEFAULT 0,
    model       text NOT NULL,
    geometry    text NOT NULL,
    mode        text NOT NULL CHECK (mode IN ('whole', 'mig', 'shared', 'vgpu')),
    state       text NOT NULL CHECK (state IN ('ready', 'cleaning', 'quarantined', 'unhealthy', 'missing', 'unknown')),
    reason      text NOT NULL DEFAULT '',
    memory_mib  bigint NOT NULL CHECK (memory_mib > 0),
    numa_node   int NOT NULL DEFAULT -1,
    nvlink      text[] NOT NULL DEFAULT '{}',
    simulated   boolean NOT NULL DEFAULT false,
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now(),
    UNIQUE (node_id, pci_address),
    -- What a claim points at, so a card can't change under it (decision 1).
    UNIQUE (id, mode, geometry)
);
CREATE INDEX gpu_node ON gpu (node_id);

-- Every legal place on a card; filled from package gpu at each migration, so an
-- illegal start, size or empty range has nothing to refer to.
CREATE TABLE placement_shape (
    geometry text NOT NULL,
    mode     text NOT NULL,
    profile  text NOT NULL,
    slots    int4range NOT NULL CHECK (NOT isempty(slots) AND NOT lower_inf(slots) AND NOT upper_inf(slots)),
    PRIMARY KEY (geometry, mode, profile, slots)
);

CREATE TABLE flavor (
    id          uuid PRIMARY KEY,
    name        text NOT NULL CHECK (name ~ '^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$'),
    description text NOT NULL DEFAULT '',
    gpu_count   int NOT NULL DEFAULT 0 CHECK (gpu_count BETWEEN 0 AND 16),
    gpu_model   text NOT NULL DEFAULT '',
    gpu_mode    text NOT NULL DEFAULT '' CHECK (gpu_mode IN ('', 'whole', 'mig', 'shared', 'vgpu')),
    gpu_profile text NOT NULL DEFAULT '',
    vcpu        int NOT NULL CHECK (vcpu BETWEEN 1 AND 1024),
    memory_mib  bigint NOT NULL CHECK (memory_mib BETWEEN 64 AND 16777216),
    disk_mib    bigint NOT NULL CHECK (disk_mib BETWEEN 64 AND 16777216),
    created_at  timestamptz NOT NULL DEFAULT now(),
    retired_at  timestamptz,
    CHECK ((gpu_count = 0) = (gpu_model = '' AND gpu_mode = '' AND gpu_profile = ''))
);
CREATE UNIQUE INDEX flavor_name ON flavor (name) WHERE retired_at IS NULL;

-- Prices are versions with a start; one that has started never changes.
CREATE TABLE price (
    id              uuid PRIMARY KEY,
    sku             text NOT NULL CHECK (sku ~ '^(gpu/[a-z0-9-]+/[a-z0-9+]+|vcpu|memory_gib)$'),
    currency        text NOT NULL DEFAULT 'USD' CHECK (currency ~ '^[A-Z]{3}$'),
    micros_per_hour bigint NOT NULL CHECK (micros_per_hour >= 0),
    starts_at       timestamptz NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT now(),
    UNIQUE (sku, starts_at)
);
-- +goose StatementBegin
CREATE FUNCTION price_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.starts_at <= now() THEN
        RAISE EXCEPTION 'the price of % from % has started and can not change', OLD.sku, OLD.starts_at
            USING ERRCODE = 'check_violation', CONSTRAINT = 'price_started';
    END IF;
    IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER price_guard BEFORE UPDATE OR DELETE ON price FOR EACH ROW EXECUTE FUNCTION price_guard();

CREATE TABLE alarm (
    id              uuid PRIMARY KEY,
    key             text NOT NULL,
    severity        text NOT NULL CHECK (severity IN ('warning', 'critical')),
    subject         text NOT NULL,
    message         text NOT NULL,
    opened_at       timestamptz NOT NULL DEFAULT now(),
    acknowledged_at timestamptz,
    cleared_at      timestamptz
);
CREATE UNIQUE INDEX alarm_open ON alarm (key) WHERE cleared_at IS NULL;

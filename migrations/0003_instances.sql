-- +goose Up
CREATE TABLE image (
    id          uuid PRIMARY KEY,
    org_id      uuid NOT NULL REFERENCES organisation, -- the platform's own: offered to everyone
    name        text NOT NULL CHECK (name ~ '^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$'),
    kind        text NOT NULL CHECK (kind IN ('container', 'vm', 'notebook')),
    ref         text NOT NULL,
    digest      text NOT NULL CHECK (digest ~ '^sha256:[0-9a-f]{64}$'),
    embedded    boolean NOT NULL,
    size_bytes  bigint NOT NULL DEFAULT 0,
    description text NOT NULL DEFAULT '',
    created_at  timestamptz NOT NULL DEFAULT now(),
    deleted_at  timestamptz,
    UNIQUE (org_id, id)
);
CREATE UNIQUE INDEX image_name ON image (org_id, name) WHERE deleted_at IS NULL;

CREATE TABLE instance (
    id                  uuid PRIMARY KEY,
    org_id              uuid NOT NULL,
    project_id          uuid NOT NULL,
    name                text NOT NULL CHECK (name ~ '^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$'),
    kind                text NOT NULL CHECK (kind IN ('container', 'vm', 'notebook')),
    image_org_id        uuid NOT NULL CHECK (image_org_id IN (org_id, '00000000-0000-7000-8000-000000000000')),
    image_id            uuid NOT NULL,
    image_digest        text NOT NULL,
    flavor_id           uuid NOT NULL REFERENCES flavor,
    pool_id             uuid NOT NULL REFERENCES pool,
    -- The shape, copied from the flavor at admission.
    gpu_count           int NOT NULL,
    gpu_model           text NOT NULL,
    gpu_mode            text NOT NULL,
    gpu_profile         text NOT NULL,
    vcpu                int NOT NULL,
    memory_mib          bigint NOT NULL,
    disk_mib            bigint NOT NULL,
    command             text[],
    env                 jsonb NOT NULL DEFAULT '{}',
    labels              jsonb NOT NULL DEFAULT '{}',
    -- Intent, written by app.
    desired_state       text NOT NULL DEFAULT 'running' CHECK (desired_state IN ('running', 'stopped', 'deleted')),
    generation          bigint NOT NULL DEFAULT 1,
    -- Truth, written by the loops.
    state               text NOT NULL DEFAULT 'queued' CHECK (state IN ('queued', 'starting', 'running', 'stopping', 'stopped', 'failed', 'deleting', 'deleted')),
    observed_generation bigint NOT NULL DEFAULT 0,
    state_at            timestamptz NOT NULL DEFAULT now(),
    deadline_at         timestamptz,
    reason              text NOT NULL DEFAULT '',
    message             text NOT NULL DEFAULT '',
    reasons             jsonb NOT NULL DEFAULT '[]', -- of a wait: [{reason, count}]
    progress            int CHECK (progress BETWEEN 0 AND 100),
    exit_code           int,
    last_lines          text NOT NULL DEFAULT '' CHECK (octet_length(last_lines) <= 65536),
    node_id             uuid REFERENCES node,
    epoch               bigint NOT NULL DEFAULT 0,
    address             text NOT NULL DEFAULT '',
    holds_quota         boolean NOT NULL DEFAULT true,
    queued_at           timestamptz NOT NULL DEFAULT now(),
    started_at          timestamptz,
    deleted_at          timestamptz,
    created_by          uuid NOT NULL REFERENCES app_user,
    created_at          timestamptz NOT NULL DEFAULT now(),
    event_seq           bigint NOT NULL DEFAULT 0,
    metered_seq         bigint NOT NULL DEFAULT 0,
    UNIQUE (org_id, id),
    UNIQUE (org_id, project_id, id),
    FOREIGN KEY (org_id, project_id) REFERENCES project (org_id, id),
    FOREIGN KEY (image_org_id, image_id) REFERENCES image (org_id, id),
    CHECK ((node_id IS NOT NULL) = (state IN ('starting', 'running', 'stopping', 'deleting'))),
    CHECK ((deleted_at IS NOT NULL) = (state = 'deleted')),
    CHECK (metered_seq <= event_seq)
);
CREATE UNIQUE INDEX instance_name ON instance (project_id, name) WHERE state <> 'deleted';
CREATE INDEX instance_project ON instance (project_id, id);
CREATE INDEX instance_image ON instance (image_id) WHERE state <> 'deleted';
CREATE INDEX instance_node ON instance (node_id) WHERE node_id IS NOT NULL;
CREATE INDEX instance_queue ON instance (queued_at, id) WHERE state = 'queued';
CREATE INDEX instance_deadline ON instance (deadline_at) WHERE deadline_at IS NOT NULL;
CREATE INDEX instance_unmetered ON instance (id) WHERE metered_seq < event_seq;
CREATE INDEX instance_unsettled ON instance (id)
    WHERE desired_state = 'stopped' AND state IN ('queued', 'starting', 'running')
        OR desired_state = 'deleted' AND state IN ('queued', 'starting', 'running', 'stopping', 'stopped', 'failed');

-- The legal moves; package cloud holds the same table and a test compares them.
CREATE TABLE instance_move (
    from_state text NOT NULL,
    to_state   text NOT NULL,
    PRIMARY KEY (from_state, to_state)
);
INSERT INTO instance_move VALUES
    ('queued', 'starting'), ('queued', 'stopped'), ('queued', 'failed'), ('queued', 'deleted'),
    ('starting', 'running'), ('starting', 'stopping'), ('starting', 'failed'), ('starting', 'deleting'), ('starting', 'stopped'),
    ('running', 'stopping'), ('running', 'stopped'), ('running', 'failed'), ('running', 'deleting'),
    ('stopping', 'stopped'), ('stopping', 'failed'), ('stopping', 'deleting'),
    ('stopped', 'queued'), ('stopped', 'deleted'),
    ('failed', 'queued'), ('failed', 'deleted'),
    ('deleting', 'deleted');
-- +goose StatementBegin
CREATE FUNCTION instance_guard() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
BEGIN
    IF NEW.state <> OLD.state AND NOT EXISTS (
        SELECT FROM instance_move WHERE from_state = OLD.state AND to_state = NEW.state) THEN
        RAISE EXCEPTION 'instance % can not go from % to %', OLD.id, OLD.state, NEW.state
            USING ERRCODE = 'check_violation', CONSTRAINT = 'instance_move';
    END IF;
    IF NEW.epoch < OLD.epoch OR NEW.generation < OLD.generation OR NEW.event_seq < OLD.event_seq OR NEW.metered_seq < OLD.metered_seq THEN
        RAISE EXCEPTION 'instance %: a counter ran backwards', OLD.id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'instance_counters';
    END IF;
    -- What holds slots has a node: a state without one frees nothing by itself.
    IF NEW.node_id IS NULL AND OLD.node_id IS NOT NULL AND EXISTS (
        SELECT FROM gpu_claim WHERE instance_id = NEW.id) THEN
        RAISE EXCEPTION 'instance % leaves its node with claims held', OLD.id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'instance_claims_held';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER instance_guard BEFORE UPDATE ON instance FOR EACH ROW EXECUTE FUNCTION instance_guard();

-- Live claims only; deleted on release (decision 1).
CREATE TABLE gpu_claim (
    id          uuid PRIMARY KEY,
    gpu_id      uuid NOT NULL,
    org_id      uuid NOT NULL,
    project_id  uuid NOT NULL,
    instance_id uuid NOT NULL,
    epoch       bigint NOT NULL,
    mode        text NOT NULL,
    geometry    text NOT NULL,
    profile     text NOT NULL,
    slots       int4range NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    FOREIGN KEY (gpu_id, mode, geometry) REFERENCES gpu (id, mode, geometry),
    FOREIGN KEY (geometry, mode, profile, slots) REFERENCES placement_shape (geometry, mode, profile, slots),
    FOREIGN KEY (org_id, project_id, instance_id) REFERENCES instance (org_id, project_id, id),
    CONSTRAINT gpu_claim_slots EXCLUDE USING gist (gpu_id WITH =, slots WITH &&)
);
-- A card has one set of media engines.
CREATE UNIQUE INDEX gpu_claim_media ON gpu_claim (gpu_id) WHERE profile LIKE '%+me';
CREATE INDEX gpu_claim_instance ON gpu_claim (instance_id);
CREATE INDEX gpu_claim_org ON gpu_claim (org_id);

-- What nodes last said of each instance. A node writes here and nowhere else of
-- an instance; the lifecycle loop draws the conclusions.
CREATE TABLE observation (
    instance_id     uuid PRIMARY KEY REFERENCES instance ON DELETE CASCADE,
    node_id         uuid NOT NULL REFERENCES node,
    epoch           bigint NOT NULL,
    generation      bigint NOT NULL,
    state           text NOT NULL CHECK (state IN ('pending', 'pulling', 'starting', 'running', 'stopping', 'stopped', 'failed', 'gone')),
    reason          text NOT NULL DEFAULT '',
    message         text NOT NULL DEFAULT '',
    progress        int CHECK (progress BETWEEN 0 AND 100),
    exit_code       int,
    last_lines      text NOT NULL DEFAULT '' CHECK (octet_length(last_lines) <= 65536),
    address         text NOT NULL DEFAULT '',
    state_for       interval NOT NULL DEFAULT '0',
    ran_for         interval NOT NULL DEFAULT '0',
    received_at     timestamptz NOT NULL DEFAULT now(),
    seq             bigint NOT NULL DEFAULT 1,
    handled_seq     bigint NOT NULL DEFAULT 0
);
CREATE INDEX observation_unhandled ON observation (instance_id) WHERE handled_seq < seq;
CREATE INDEX observation_node ON observation (node_id);

-- Everything that happened, per resource without holes (seq), and as a stream
-- per project: readers take rows whose transaction is older than every running
-- one, in (xid, cursor) order, so that none is passed over.
CREATE TABLE event (
    cursor      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    xid         xid8 NOT NULL DEFAULT pg_current_xact_id(),
    id          uuid NOT NULL UNIQUE,
    org_id      uuid NOT NULL,
    project_id  uuid NOT NULL,
    resource    text NOT NULL CHECK (resource IN ('instance', 'image', 'project')),
    resource_id uuid NOT NULL,
    seq         bigint NOT NULL,
    verb        text NOT NULL,
    message     text NOT NULL DEFAULT '',
    at          timestamptz NOT NULL,
    data        jsonb NOT NULL DEFAULT '{}',
    FOREIGN KEY (org_id, project_id) REFERENCES project (org_id, id),
    UNIQUE (resource_id, seq)
);
CREATE INDEX event_stream ON event (project_id, xid, cursor);

-- +goose Up
-- An instance's place: a VM may be stopped and keep it (held), its disk and a
-- notebook's home stay on a node, and a node that is lost may be fenced.

ALTER TABLE node
    ADD COLUMN labels       jsonb NOT NULL DEFAULT '{}',      -- rack, zone: from the node itself
    ADD COLUMN kinds        text[] NOT NULL DEFAULT '{container,notebook}', -- that its usable drivers can run
    ADD COLUMN watchdog     boolean NOT NULL DEFAULT false,   -- it ends guests by itself when it has lost contact
    ADD COLUMN fenced_at    timestamptz,                      -- nothing runs on it: an operator said so, or its own time-out is over
    ADD COLUMN fenced_by    uuid REFERENCES app_user,         -- null: by its own time-out
    ADD COLUMN report_digest bytea,                           -- of its last report, when all of that is kept
    ADD COLUMN tried_at     timestamptz,                      -- the last assignment that was sent and not answered: it may have come
    ADD COLUMN leftovers    jsonb NOT NULL DEFAULT '{}',      -- of a fenced node: what its last report still shows and is not its own any more
    ADD COLUMN forgotten_at timestamptz;                      -- it will not come back; its name is free again (it gets another)

ALTER TABLE project
    ADD COLUMN idle_stop_seconds int CHECK (idle_stop_seconds BETWEEN 60 AND 2592000), -- null: notebooks are never stopped for idleness
    ADD COLUMN idle_warn_seconds int NOT NULL DEFAULT 600 CHECK (idle_warn_seconds BETWEEN 0 AND 86400); -- before that

ALTER TABLE instance
    ADD COLUMN on_stop      text NOT NULL DEFAULT 'release' CHECK (on_stop IN ('release', 'hold')),
    ADD COLUMN held         boolean NOT NULL DEFAULT false,   -- stopped, and keeps its place
    ADD COLUMN on_node_loss text NOT NULL DEFAULT 'wait' CHECK (on_node_loss IN ('wait', 'restart')),
    ADD COLUMN ssh_keys     text[] NOT NULL DEFAULT '{}',
    ADD COLUMN user_data    bytea,                            -- sealed; a node fetches it apart
    ADD COLUMN idle_since   timestamptz,                      -- null: not idle, or not known
    ADD COLUMN idle_warned_at timestamptz,
    ADD COLUMN loss_generation bigint NOT NULL DEFAULT 0,     -- of its node's assignment that tells of the present on_node_loss
    ADD CONSTRAINT instance_hold CHECK (NOT held OR state = 'stopped' AND kind = 'vm'),
    ADD CONSTRAINT instance_on_stop CHECK (on_stop = 'release' OR kind = 'vm');
ALTER TABLE instance DROP CONSTRAINT instance_check1;
ALTER TABLE instance ADD CONSTRAINT instance_node
    CHECK ((node_id IS NOT NULL) = (state IN ('starting', 'running', 'stopping', 'deleting') OR held));

-- Held and started again; taken from a fenced node and queued again.
INSERT INTO instance_move VALUES ('stopped', 'starting'), ('starting', 'queued'), ('running', 'queued');

-- A claim whose instance has gone elsewhere stays held until its own node says
-- that nothing of that epoch is left, or is forgotten.
ALTER TABLE gpu_claim ADD COLUMN fenced boolean NOT NULL DEFAULT false;
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION instance_guard() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
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
        SELECT FROM gpu_claim WHERE instance_id = NEW.id AND NOT fenced) THEN
        RAISE EXCEPTION 'instance % leaves its node with claims held', OLD.id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'instance_claims_held';
    END IF;
    IF NEW.state <> 'running' THEN -- idleness is of a run
        NEW.idle_since := NULL;
        NEW.idle_warned_at := NULL;
    END IF;
    -- A node ends by itself only what it was told to: until it holds an assignment
    -- that tells of the new on_node_loss, its silence proves nothing.
    IF NEW.epoch <> OLD.epoch THEN
        NEW.loss_generation := 0;
    ELSIF NEW.on_node_loss <> OLD.on_node_loss AND NEW.node_id IS NOT NULL THEN
        UPDATE node SET generation = generation + 1 WHERE id = NEW.node_id RETURNING generation INTO NEW.loss_generation;
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd

-- Data that outlives a run: a VM's disk, a notebook's home. It belongs to one
-- instance and, on local storage, lies on one node.
CREATE TABLE volume (
    id          uuid PRIMARY KEY,
    org_id      uuid NOT NULL,
    project_id  uuid NOT NULL,
    instance_id uuid NOT NULL,
    role        text NOT NULL CHECK (role IN ('root', 'home')),
    size_mib    bigint NOT NULL CHECK (size_mib BETWEEN 64 AND 16777216),
    node_id     uuid REFERENCES node,  -- null: not made yet
    state       text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'present', 'deleting', 'deleted', 'lost')),
    message     text NOT NULL DEFAULT '',
    -- What its node last said of it; the lifecycle loop draws the conclusion.
    said        text NOT NULL DEFAULT '' CHECK (said IN ('', 'present', 'gone', 'failed')),
    said_at     timestamptz,
    used_mib    bigint,
    created_at  timestamptz NOT NULL DEFAULT now(),
    sized_at    timestamptz NOT NULL DEFAULT now(), -- since when it has its size
    ending_at   timestamptz,                        -- when its deletion was asked for: nothing is charged from then
    deleted_at  timestamptz,
    charged_mib bigint,                             -- what its open segment says; null: none is open
    UNIQUE (org_id, id),
    FOREIGN KEY (org_id, project_id, instance_id) REFERENCES instance (org_id, project_id, id),
    CHECK (state <> 'present' OR node_id IS NOT NULL),
    CHECK ((deleted_at IS NOT NULL) = (state = 'deleted'))
);
CREATE UNIQUE INDEX volume_of_instance ON volume (instance_id, role) WHERE state <> 'deleted';
CREATE INDEX volume_project ON volume (project_id, id);
CREATE INDEX volume_node ON volume (node_id) WHERE node_id IS NOT NULL AND state <> 'deleted';
-- What the lifecycle loop has a step to take with.
CREATE INDEX volume_unsettled ON volume (id) WHERE state = 'pending' AND said = 'present' OR state = 'present' AND said = 'gone'
    OR state = 'deleting' AND said = 'gone' OR state = 'present' AND charged_mib IS DISTINCT FROM size_mib OR state <> 'present' AND charged_mib IS NOT NULL;
-- +goose StatementBegin
CREATE FUNCTION volume_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.size_mib < OLD.size_mib AND OLD.node_id IS NOT NULL THEN -- before that there is nothing of it
        RAISE EXCEPTION 'volume % can not shrink', OLD.id USING ERRCODE = 'check_violation', CONSTRAINT = 'volume_shrinks';
    END IF;
    -- Local data does not move by itself.
    IF OLD.state IN ('present', 'lost') AND NEW.node_id IS DISTINCT FROM OLD.node_id THEN
        RAISE EXCEPTION 'volume % can not move', OLD.id USING ERRCODE = 'check_violation', CONSTRAINT = 'volume_moves';
    END IF;
    IF NEW.state = 'deleting' AND OLD.state <> 'deleting' THEN
        NEW.said := ''; -- what its node says from now on answers the deletion
    END IF;
    IF OLD.state = 'deleted' THEN
        RAISE EXCEPTION 'volume % is deleted', OLD.id USING ERRCODE = 'check_violation', CONSTRAINT = 'volume_deleted';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER volume_guard BEFORE UPDATE ON volume FOR EACH ROW EXECUTE FUNCTION volume_guard();

-- What a volume is charged for: half-open, one size each.
CREATE TABLE volume_segment (
    id         uuid PRIMARY KEY,
    org_id     uuid NOT NULL,
    project_id uuid NOT NULL,
    volume_id  uuid NOT NULL,
    instance_id uuid NOT NULL,
    size_mib   bigint NOT NULL,
    started_at timestamptz NOT NULL,
    ended_at   timestamptz CHECK (ended_at >= started_at),
    FOREIGN KEY (org_id, volume_id) REFERENCES volume (org_id, id),
    FOREIGN KEY (org_id, project_id, instance_id) REFERENCES instance (org_id, project_id, id),
    CONSTRAINT volume_segment_overlap EXCLUDE USING gist (volume_id WITH =, tstzrange(started_at, ended_at) WITH &&)
);
CREATE INDEX volume_segment_project ON volume_segment (project_id, started_at);
CREATE INDEX volume_segment_open ON volume_segment (volume_id) WHERE ended_at IS NULL;
CREATE TRIGGER segment_guard BEFORE UPDATE OR DELETE ON volume_segment FOR EACH ROW EXECUTE FUNCTION segment_guard();
ALTER TABLE price DROP CONSTRAINT price_sku_check;
ALTER TABLE price ADD CONSTRAINT price_sku_check CHECK (sku ~ '^(gpu/[a-z0-9-]+/[a-z0-9+]+|vcpu|memory_gib|volume_gib)$');

-- What a node runs or keeps and nobody assigned, that an operator let go.
CREATE TABLE node_removal (
    node_id   uuid NOT NULL REFERENCES node ON DELETE CASCADE,
    what      text NOT NULL CHECK (length(what) <= 100), -- printed id of an instance or a volume
    asked_by  uuid REFERENCES app_user,
    asked_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (node_id, what)
);

ALTER TABLE observation ADD COLUMN activity jsonb; -- a notebook's, as its node sees it

-- Credentials for a registry that is not ours, under the master key.
CREATE TABLE registry_credential (
    id         uuid PRIMARY KEY,
    org_id     uuid NOT NULL,
    project_id uuid NOT NULL,
    host       text NOT NULL CHECK (host = lower(host) AND length(host) BETWEEN 1 AND 255),
    username   text NOT NULL CHECK (length(username) <= 255),
    secret     bytea NOT NULL, -- sealed
    created_by uuid NOT NULL REFERENCES app_user,
    created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (org_id, id),
    UNIQUE (project_id, host),
    FOREIGN KEY (org_id, project_id) REFERENCES project (org_id, id)
);
ALTER TABLE image ADD COLUMN credential_id uuid,
    ADD FOREIGN KEY (org_id, credential_id) REFERENCES registry_credential (org_id, id) ON DELETE SET NULL (credential_id);

-- The last restore.
ALTER TABLE cloud_state
    ADD COLUMN restored_at   timestamptz,
    ADD COLUMN restored_from timestamptz,                    -- the moment that the backup shows
    ADD COLUMN epoch_floor   bigint NOT NULL DEFAULT 0;      -- placements begin above it: a run from before a restore never meets its own epoch

-- Which control plane processes there are, and which of them a node is connected
-- to: any of them finds the one that holds a node's connections.
CREATE TABLE replica (
    id         text PRIMARY KEY,
    address    text NOT NULL, -- of its door for peers, host:port
    version    text NOT NULL DEFAULT '',
    started_at timestamptz NOT NULL DEFAULT now(),
    seen_at    timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE node_connection (
    node_id    uuid NOT NULL REFERENCES node ON DELETE CASCADE,
    replica_id text NOT NULL REFERENCES replica ON DELETE CASCADE,
    since      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (node_id, replica_id)
);

GRANT SELECT, INSERT, UPDATE, DELETE ON volume, volume_segment, node_removal, registry_credential, replica, node_connection TO tenon_system;
-- +goose StatementBegin
DO $$
DECLARE t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['volume', 'volume_segment', 'registry_credential', 'node_removal', 'replica', 'node_connection'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('CREATE POLICY system ON %I TO tenon_system USING (true) WITH CHECK (true)', t);
    END LOOP;
    FOREACH t IN ARRAY ARRAY['volume', 'volume_segment', 'registry_credential'] LOOP
        EXECUTE format('CREATE POLICY tenant ON %I TO tenon_api USING (org_id = (SELECT current_org())) WITH CHECK (org_id = (SELECT current_org()))', t);
    END LOOP;
    FOREACH t IN ARRAY ARRAY['volume', 'node_removal', 'replica', 'node_connection'] LOOP
        EXECUTE format('CREATE POLICY operator ON %I FOR SELECT TO tenon_api USING ((SELECT is_operator()))', t);
    END LOOP;
END $$;
-- +goose StatementEnd
CREATE POLICY operator_ask ON node_removal FOR INSERT TO tenon_api WITH CHECK ((SELECT is_operator()));
CREATE POLICY own ON volume TO tenon_node USING (node_id = (SELECT current_node())) WITH CHECK (node_id = (SELECT current_node()));
CREATE POLICY own ON node_removal FOR SELECT TO tenon_node USING (node_id = (SELECT current_node()));
CREATE POLICY own ON registry_credential FOR SELECT TO tenon_node
    USING (id IN (SELECT m.credential_id FROM image m JOIN instance i ON i.image_org_id = m.org_id AND i.image_id = m.id WHERE i.node_id = (SELECT current_node())));
GRANT SELECT ON volume, volume_segment, registry_credential, node_removal, replica, node_connection TO tenon_api;
GRANT INSERT ON volume, registry_credential, node_removal TO tenon_api;
GRANT UPDATE (state, ending_at, deleted_at, message) ON volume TO tenon_api;
GRANT DELETE ON registry_credential TO tenon_api;
GRANT UPDATE (username, secret, created_by, created_at) ON registry_credential TO tenon_api;
GRANT UPDATE (idle_stop_seconds, idle_warn_seconds) ON project TO tenon_api;
GRANT UPDATE (on_stop, held, on_node_loss, node_id, epoch, flavor_id, gpu_count, gpu_model, gpu_mode, gpu_profile, vcpu, memory_mib, disk_mib,
    idle_since, idle_warned_at) ON instance TO tenon_api;
GRANT UPDATE (fenced_at, fenced_by, forgotten_at) ON node TO tenon_api;
GRANT SELECT ON volume, node_removal, registry_credential TO tenon_node;
GRANT UPDATE (said, said_at, used_mib, message) ON volume TO tenon_node;
GRANT UPDATE (labels, kinds, watchdog) ON node TO tenon_node;
GRANT UPDATE (activity) ON observation TO tenon_node;

-- A tenant's request that ends or moves what a held VM keeps; nothing of it runs,
-- so its node need not be asked.
-- +goose StatementBegin
CREATE FUNCTION held_release(released uuid) RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = public AS $$
    WITH gone AS (
        DELETE FROM gpu_claim c USING instance i
        WHERE i.id = released AND i.held AND i.org_id = current_org() AND c.instance_id = i.id AND c.epoch = i.epoch RETURNING 1)
    SELECT count(*) FROM gone
$$;
CREATE FUNCTION held_start(started uuid) RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = public AS $$
    WITH moved AS (
        UPDATE gpu_claim c SET epoch = i.epoch FROM instance i
        WHERE i.id = started AND i.state = 'starting' AND i.org_id = current_org() AND c.instance_id = i.id AND c.epoch = i.epoch - 1 AND NOT c.fenced RETURNING 1)
    SELECT count(*) FROM moved
$$;
-- The place in its pool's queue, from 1, of an instance of one's own.
CREATE FUNCTION queue_place(wanted uuid) RETURNS bigint LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public AS $$
    SELECT count(*) FROM instance w JOIN instance q ON q.pool_id = w.pool_id AND q.state = 'queued' AND (q.queued_at, q.id) <= (w.queued_at, w.id)
    WHERE w.id = wanted AND w.state = 'queued' AND (w.org_id = current_org() OR is_operator())
$$;
-- Which kinds of instances nodes can run, for offers and dry runs.
CREATE FUNCTION fleet_kinds() RETURNS TABLE (node_id uuid, kinds text[]) LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public AS
    $$ SELECT id, kinds FROM node $$;
DO $$
DECLARE f regprocedure;
BEGIN
    FOR f IN SELECT p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace
        AND p.proname IN ('held_release', 'held_start', 'queue_place', 'fleet_kinds') LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO tenon_api, tenon_system', f);
    END LOOP;
END $$;
-- +goose StatementEnd

-- Fencing, forgetting and idleness.
CREATE INDEX node_fenced ON node (id) WHERE fenced_at IS NOT NULL;
CREATE INDEX gpu_claim_fenced ON gpu_claim (gpu_id) WHERE fenced;
CREATE INDEX instance_notebook ON instance (id) WHERE kind = 'notebook' AND state = 'running';
CREATE POLICY operator_change ON node_certificate FOR UPDATE TO tenon_api USING ((SELECT is_operator()));
GRANT SELECT (node_id, revoked_at), UPDATE (revoked_at) ON node_certificate TO tenon_api;
GRANT UPDATE (name, leftovers, state) ON node TO tenon_api;
GRANT UPDATE (tried_at, leftovers, report_digest) ON node TO tenon_node;
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION fleet_free() RETURNS TABLE (node_id uuid, node_name text, pool_id uuid, pool_name text, pool_simulated boolean, node_state text, drained boolean,
    node_simulated boolean, free_vcpu bigint, free_memory_mib bigint, vcpu_total bigint, memory_total_mib bigint, gpu_id uuid, pci_address text, model text, geometry text, mode text, gpu_state text,
    numa_node int, nvlink text[], taken int4multirange, media text[])
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public AS $$
    SELECT n.id, n.name, n.pool_id, p.name, p.simulated, n.state, n.drained, n.simulated,
        floor(n.vcpu * n.cpu_overcommit)::bigint - COALESCE(u.vcpu, 0), n.memory_mib - COALESCE(u.memory_mib, 0),
        floor(n.vcpu * n.cpu_overcommit)::bigint, n.memory_mib,
        g.id, g.pci_address, g.model, g.geometry, g.mode, g.state, g.numa_node, g.nvlink,
        COALESCE(c.taken, '{}'::int4multirange), COALESCE(c.media, '{}')
    FROM node n
    JOIN pool p ON p.id = n.pool_id
    LEFT JOIN LATERAL (SELECT sum(i.vcpu) AS vcpu, sum(i.memory_mib)::bigint AS memory_mib FROM instance i WHERE i.node_id = n.id) u ON true
    LEFT JOIN gpu g ON g.node_id = n.id
    LEFT JOIN LATERAL (SELECT range_agg(k.slots) AS taken, array_agg(k.profile) FILTER (WHERE k.profile LIKE '%+me') AS media FROM gpu_claim k WHERE k.gpu_id = g.id) c ON true
    WHERE n.forgotten_at IS NULL
    ORDER BY n.id, g.id
$$;
-- What of it a fenced node still holds is not the instance's any more.
CREATE OR REPLACE FUNCTION instance_devices(wanted uuid) RETURNS TABLE (gpu_id uuid, gpu_uuid text, model text, mode text, profile text, slot_start int, slot_end int, simulated boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public AS $$
    SELECT g.id, g.uuid, g.model, k.mode, k.profile, lower(k.slots), upper(k.slots), g.simulated
    FROM gpu_claim k JOIN gpu g ON g.id = k.gpu_id
    WHERE k.instance_id = wanted AND NOT k.fenced AND (k.org_id = current_org() OR is_operator())
    ORDER BY g.pci_address, k.slots
$$;
-- +goose StatementEnd

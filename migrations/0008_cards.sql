-- +goose Up
-- What a card is to be, what its node says of that, and what went wrong with it.

ALTER TABLE gpu DROP CONSTRAINT gpu_state_check;
ALTER TABLE gpu ADD CONSTRAINT gpu_state_check
    CHECK (state IN ('ready', 'cleaning', 'needs_reset', 'quarantined', 'unhealthy', 'missing', 'unknown'));
ALTER TABLE gpu
    -- From its node.
    ADD COLUMN vendor      text NOT NULL DEFAULT '' CHECK (vendor ~ '^([0-9a-f]{4})?$'),
    ADD COLUMN device      text NOT NULL DEFAULT '' CHECK (device ~ '^([0-9a-f]{4})?$'),
    ADD COLUMN driver      text NOT NULL DEFAULT '',
    ADD COLUMN modes       text[] NOT NULL DEFAULT '{}' CHECK (modes <@ '{whole,mig,shared,vgpu}'), -- that it can be in there; empty: the node does not say
    ADD COLUMN companions  text[] NOT NULL DEFAULT '{}', -- functions that go to a VM with it
    ADD COLUMN bundle      text[] NOT NULL DEFAULT '{}', -- cards that a VM can only get together with it
    ADD COLUMN vgpu_types  jsonb NOT NULL DEFAULT '[]',
    ADD COLUMN slices      jsonb NOT NULL DEFAULT '[]',  -- that exist, ours and foreign
    ADD COLUMN missing     jsonb NOT NULL DEFAULT '[]',  -- places of its layout that the driver does not show
    ADD COLUMN wish_reason text NOT NULL DEFAULT '',     -- why it is not yet what is wished
    ADD COLUMN said_generation bigint NOT NULL DEFAULT 0, -- of the assignment, of this era, that its node spoke of it under
    ADD COLUMN recovered   bigint NOT NULL DEFAULT 0,    -- the recover that was last acted on
    -- From operators. A null mode is no wish: it stays as it is.
    ADD COLUMN desired_mode     text,
    ADD COLUMN desired_geometry text NOT NULL DEFAULT '',
    ADD COLUMN desired_layout   jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(desired_layout) = 'array'), -- [{profile, slot_start, slot_end}]; empty: slices are made as they are placed
    ADD COLUMN desired_shares   int NOT NULL DEFAULT 0,
    ADD COLUMN desired_vgpu_type text NOT NULL DEFAULT '',
    ADD COLUMN wish_generation  bigint NOT NULL DEFAULT 0, -- of its node's assignment that first tells of it
    ADD COLUMN wished_at   timestamptz,
    ADD COLUMN wished_by   uuid REFERENCES app_user,
    ADD COLUMN recover     bigint NOT NULL DEFAULT 0,     -- counts an operator's asking for a check
    ADD CONSTRAINT gpu_wish CHECK (
        (desired_mode IS NOT NULL) = (desired_geometry <> '')
        AND (desired_shares > 0) = COALESCE(desired_mode = 'shared', false)
        AND (desired_vgpu_type = '' OR COALESCE(desired_mode = 'vgpu', false))
        AND (desired_layout = '[]' OR COALESCE(desired_mode IN ('mig', 'vgpu') AND desired_vgpu_type = '', false)));
-- Whether it is what is wished, as its node said after it was told: the one truth
-- of it. A card that is not takes no new work. How many there are of a vGPU type
-- is its node's to say.
ALTER TABLE gpu ADD COLUMN settled boolean NOT NULL GENERATED ALWAYS AS (
    wish_reason = '' AND said_generation >= wish_generation
    AND (desired_mode IS NULL OR desired_mode = mode
        AND (desired_geometry = geometry OR desired_vgpu_type <> '' AND geometry ~ '^vgpu[0-9]+$'))) STORED;

-- +goose StatementBegin
CREATE FUNCTION gpu_wish_guard() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
DECLARE
    place record;
    held int8multirange := '{}';
BEGIN
    IF TG_OP = 'INSERT' THEN -- a node brings cards, not wishes
        IF NEW.desired_mode IS NOT NULL OR NEW.recover <> 0 THEN
            RAISE EXCEPTION 'a new card comes with a wish' USING ERRCODE = 'check_violation', CONSTRAINT = 'gpu_wish_new';
        END IF;
        RETURN NEW;
    END IF;
    IF (NEW.desired_mode, NEW.desired_geometry, NEW.desired_layout, NEW.desired_shares, NEW.desired_vgpu_type)
        IS NOT DISTINCT FROM (OLD.desired_mode, OLD.desired_geometry, OLD.desired_layout, OLD.desired_shares, OLD.desired_vgpu_type) THEN
        RETURN NEW;
    END IF;
    -- The row is locked by this update, and a claim takes the same lock first.
    IF EXISTS (SELECT FROM gpu_claim WHERE gpu_id = NEW.id) THEN
        RAISE EXCEPTION 'card % is held', NEW.id USING ERRCODE = 'check_violation', CONSTRAINT = 'gpu_wish_held';
    END IF;
    IF NEW.desired_mode IS NULL THEN
        RETURN NEW;
    END IF;
    IF NOT EXISTS (SELECT FROM placement_shape WHERE geometry = NEW.desired_geometry AND mode = NEW.desired_mode) THEN
        RAISE EXCEPTION 'no shape has geometry % in mode %', NEW.desired_geometry, NEW.desired_mode
            USING ERRCODE = 'check_violation', CONSTRAINT = 'gpu_wish_shape';
    END IF;
    IF NEW.modes <> '{}' AND NOT NEW.desired_mode = ANY(NEW.modes) THEN
        RAISE EXCEPTION 'card % can not be in mode % on its node', NEW.id, NEW.desired_mode
            USING ERRCODE = 'check_violation', CONSTRAINT = 'gpu_wish_mode';
    END IF;
    FOR place IN SELECT * FROM jsonb_to_recordset(NEW.desired_layout) AS p (profile text, slot_start int, slot_end int) LOOP
        IF NOT EXISTS (SELECT FROM placement_shape WHERE geometry = NEW.desired_geometry AND mode = NEW.desired_mode
                AND profile = place.profile AND slots = int4range(place.slot_start, place.slot_end))
            OR held && int8range(place.slot_start, place.slot_end) THEN
            RAISE EXCEPTION 'a layout of card % has no place for % at %', NEW.id, place.profile, place.slot_start
                USING ERRCODE = 'check_violation', CONSTRAINT = 'gpu_wish_layout';
        END IF;
        held := held + int8multirange(int8range(place.slot_start, place.slot_end));
    END LOOP;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER gpu_wish_guard BEFORE INSERT OR UPDATE ON gpu FOR EACH ROW EXECUTE FUNCTION gpu_wish_guard();
CREATE INDEX gpu_wished ON gpu (node_id) WHERE desired_mode IS NOT NULL OR recover > 0;

-- Shares of a card don't keep each other's memory apart, so they are one
-- organisation's at a time.
ALTER TABLE gpu_claim ADD CONSTRAINT gpu_claim_shared_org EXCLUDE USING gist (gpu_id WITH =, org_id WITH <>) WHERE (mode = 'shared');

-- One fault of a card, however many signals told of it.
CREATE TABLE gpu_incident (
    node_id     uuid NOT NULL REFERENCES node ON DELETE CASCADE,
    id          text NOT NULL CHECK (length(id) BETWEEN 1 AND 100), -- the node's: the same for the same fault
    gpu_id      uuid NOT NULL REFERENCES gpu ON DELETE CASCADE,
    kind        text NOT NULL CHECK (kind ~ '^[a-z][a-z0-9_]{0,59}$'),
    xid         int NOT NULL DEFAULT 0,
    action      text NOT NULL CHECK (action IN ('none', 'needs_reset', 'out')),
    message     text NOT NULL DEFAULT '',
    instance_id uuid,            -- whose program it was: of this node when it was told; its tenant sees an event, not this table
    at          timestamptz NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now(),
    told        boolean NOT NULL DEFAULT false, -- the instances that it concerns have their event
    PRIMARY KEY (node_id, id)
);
CREATE INDEX gpu_incident_gpu ON gpu_incident (gpu_id, at, id);
CREATE INDEX gpu_incident_untold ON gpu_incident (node_id, id) WHERE NOT told;

-- A function that looks like a GPU and is not offered, and why.
CREATE TABLE gpu_excluded (
    node_id     uuid NOT NULL REFERENCES node ON DELETE CASCADE,
    pci_address text NOT NULL CHECK (length(pci_address) <= 20),
    vendor      text NOT NULL DEFAULT '',
    device      text NOT NULL DEFAULT '',
    reason      text NOT NULL DEFAULT '',
    PRIMARY KEY (node_id, pci_address)
);

GRANT SELECT, INSERT, UPDATE, DELETE ON gpu_incident, gpu_excluded TO tenon_system;
-- +goose StatementBegin
DO $$
DECLARE t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['gpu_incident', 'gpu_excluded'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('CREATE POLICY system ON %I TO tenon_system USING (true) WITH CHECK (true)', t);
        EXECUTE format('CREATE POLICY operator ON %I FOR SELECT TO tenon_api USING ((SELECT is_operator()))', t);
        EXECUTE format('CREATE POLICY own ON %I TO tenon_node USING (node_id = (SELECT current_node())) WITH CHECK (node_id = (SELECT current_node()))', t);
    END LOOP;
END $$;
-- +goose StatementEnd
CREATE POLICY operator_change ON gpu FOR UPDATE TO tenon_api USING ((SELECT is_operator()));
GRANT SELECT ON gpu_incident, gpu_excluded TO tenon_api;
GRANT UPDATE (desired_mode, desired_geometry, desired_layout, desired_shares, desired_vgpu_type, wish_generation, wished_at, wished_by, recover) ON gpu TO tenon_api;
GRANT UPDATE (vendor, device, driver, modes, companions, bundle, vgpu_types, slices, missing, wish_reason, said_generation, recovered) ON gpu TO tenon_node;
GRANT SELECT, INSERT ON gpu_incident TO tenon_node;
GRANT SELECT, INSERT, DELETE ON gpu_excluded TO tenon_node;
GRANT UPDATE (vendor, device, reason) ON gpu_excluded TO tenon_node;

-- What prices, dry runs and counts need to know of cards beside fleet_free: whether
-- they change, how they are laid out, whose shares are on them.
-- +goose StatementBegin
CREATE FUNCTION fleet_cards() RETURNS TABLE (gpu_id uuid, settled boolean, layout jsonb, missing jsonb, bundled boolean, others boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public AS $$
    SELECT g.id, g.settled, g.desired_layout, g.missing, g.bundle <> '{}',
        g.mode = 'shared' AND EXISTS (SELECT FROM gpu_claim k WHERE k.gpu_id = g.id AND k.org_id IS DISTINCT FROM current_org())
    FROM gpu g
$$;
DO $$
BEGIN
    REVOKE ALL ON FUNCTION fleet_cards() FROM PUBLIC;
    GRANT EXECUTE ON FUNCTION fleet_cards() TO tenon_api, tenon_system;
    REVOKE ALL ON FUNCTION gpu_wish_guard() FROM PUBLIC;
END $$;
-- +goose StatementEnd

-- +goose Up
-- What becomes of an instance whose node was booted again: started there anew, or
-- failed. Its place, its GPUs and its limits stay its own in between.

ALTER TABLE instance
    ADD COLUMN on_node_reboot text NOT NULL DEFAULT 'fail' CHECK (on_node_reboot IN ('restart', 'fail')),
    -- How many runs in a row ended soon by a boot of their node: a guest that takes
    -- its host down is not started for ever.
    ADD COLUMN reboots smallint NOT NULL DEFAULT 0 CHECK (reboots >= 0);
UPDATE instance SET on_node_reboot = 'restart' WHERE kind IN ('vm', 'notebook') AND state <> 'deleted';
INSERT INTO instance_move VALUES ('running', 'starting');
GRANT UPDATE (on_node_reboot, reboots) ON instance TO tenon_api;

-- A card is known by its driver's UUID and its place together: it is put into
-- another slot, or another node, while the place where it was is still remembered.
ALTER TABLE gpu DROP CONSTRAINT gpu_uuid_key;
CREATE INDEX gpu_uuid ON gpu (uuid);
-- No VM can have it whole, as its node says: its isolation group isn't its own, say.
ALTER TABLE gpu ADD COLUMN not_for_vm boolean NOT NULL DEFAULT false;
GRANT UPDATE (not_for_vm) ON gpu TO tenon_node;
DROP FUNCTION fleet_cards();
-- +goose StatementBegin
CREATE FUNCTION fleet_cards() RETURNS TABLE (gpu_id uuid, settled boolean, layout jsonb, missing jsonb, bundled boolean, others boolean, not_for_vm boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public AS $$
    SELECT g.id, g.settled, g.desired_layout, g.missing, g.bundle <> '{}',
        g.mode = 'shared' AND EXISTS (SELECT FROM gpu_claim k WHERE k.gpu_id = g.id AND k.org_id IS DISTINCT FROM current_org()), g.not_for_vm
    FROM gpu g
$$;
DO $$
BEGIN
    REVOKE ALL ON FUNCTION fleet_cards() FROM PUBLIC;
    GRANT EXECUTE ON FUNCTION fleet_cards() TO tenon_api, tenon_system;
END $$;
-- +goose StatementEnd

-- What slices have, as drivers tell it, by which flavors are described: the least
-- that any card of the model has. No table of ours knows.
ALTER TABLE gpu ADD COLUMN profiles jsonb NOT NULL DEFAULT '[]';
GRANT UPDATE (profiles) ON gpu TO tenon_node;
-- +goose StatementBegin
CREATE FUNCTION gpu_figures() RETURNS TABLE (model text, profile text, memory_mib bigint, sms int)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public AS $$
    SELECT g.model, f.profile, min(f.memory_mib), min(f.sms)
    FROM gpu g JOIN node n ON n.id = g.node_id AND n.forgotten_at IS NULL
    CROSS JOIN LATERAL (
        SELECT 'whole' AS profile, g.memory_mib AS memory_mib, 0 AS sms
        UNION ALL
        SELECT p->>'profile', (p->>'memory_mib')::bigint, COALESCE((p->>'sms')::int, 0) FROM jsonb_array_elements(g.profiles) p
    ) f
    GROUP BY g.model, f.profile
$$;
DO $$
BEGIN
    REVOKE ALL ON FUNCTION gpu_figures() FROM PUBLIC;
    GRANT EXECUTE ON FUNCTION gpu_figures() TO tenon_api, tenon_system;
END $$;
-- +goose StatementEnd

-- Who held what of a card, and when: of every claim, also after it and the card have
-- gone. Rows name the card by what it was, since nothing of theirs keeps it.
CREATE TABLE gpu_stay (
    id          uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    gpu_id      uuid NOT NULL,
    gpu_uuid    text NOT NULL,
    claim_id    uuid NOT NULL,
    org_id      uuid NOT NULL,
    project_id  uuid NOT NULL,
    instance_id uuid NOT NULL,
    epoch       bigint NOT NULL,
    mode        text NOT NULL,
    geometry    text NOT NULL,
    model       text NOT NULL,
    profile     text NOT NULL,
    slots       int4range NOT NULL,
    started_at  timestamptz NOT NULL,
    ended_at    timestamptz CHECK (ended_at >= started_at), -- NULL: it holds it
    FOREIGN KEY (org_id, project_id, instance_id) REFERENCES instance (org_id, project_id, id)
);
CREATE UNIQUE INDEX gpu_stay_open ON gpu_stay (claim_id) WHERE ended_at IS NULL;
CREATE INDEX gpu_stay_gpu ON gpu_stay (gpu_id, started_at, id);
CREATE INDEX gpu_stay_uuid ON gpu_stay (gpu_uuid, started_at);
CREATE INDEX gpu_stay_instance ON gpu_stay (instance_id);
INSERT INTO gpu_stay (gpu_id, gpu_uuid, claim_id, org_id, project_id, instance_id, epoch, mode, geometry, model, profile, slots, started_at)
    SELECT g.id, g.uuid, c.id, c.org_id, c.project_id, c.instance_id, c.epoch, c.mode, c.geometry, g.model, c.profile, c.slots, c.created_at
    FROM gpu_claim c JOIN gpu g ON g.id = c.gpu_id;
-- +goose StatementBegin
CREATE FUNCTION gpu_stay_keep() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
BEGIN
    CASE TG_OP
    WHEN 'DELETE' THEN
        UPDATE gpu_stay s SET ended_at = GREATEST(s.started_at, now()) FROM was WHERE s.claim_id = was.id AND s.ended_at IS NULL;
        RETURN NULL;
    WHEN 'UPDATE' THEN -- a run that goes on in its place is another stay
        UPDATE gpu_stay s SET ended_at = GREATEST(s.started_at, now()) FROM was JOIN made ON made.id = was.id AND made.epoch <> was.epoch
            WHERE s.claim_id = was.id AND s.ended_at IS NULL;
        INSERT INTO gpu_stay (gpu_id, gpu_uuid, claim_id, org_id, project_id, instance_id, epoch, mode, geometry, model, profile, slots, started_at)
            SELECT g.id, g.uuid, c.id, c.org_id, c.project_id, c.instance_id, c.epoch, c.mode, c.geometry, g.model, c.profile, c.slots, now()
            FROM made c JOIN was ON was.id = c.id AND was.epoch <> c.epoch JOIN gpu g ON g.id = c.gpu_id;
        RETURN NULL;
    ELSE
        INSERT INTO gpu_stay (gpu_id, gpu_uuid, claim_id, org_id, project_id, instance_id, epoch, mode, geometry, model, profile, slots, started_at)
            SELECT g.id, g.uuid, c.id, c.org_id, c.project_id, c.instance_id, c.epoch, c.mode, c.geometry, g.model, c.profile, c.slots, c.created_at
            FROM made c JOIN gpu g ON g.id = c.gpu_id;
        RETURN NULL;
    END CASE;
END $$;
-- +goose StatementEnd
CREATE TRIGGER gpu_stay_made AFTER INSERT ON gpu_claim REFERENCING NEW TABLE AS made FOR EACH STATEMENT EXECUTE FUNCTION gpu_stay_keep();
CREATE TRIGGER gpu_stay_moved AFTER UPDATE ON gpu_claim REFERENCING OLD TABLE AS was NEW TABLE AS made FOR EACH STATEMENT EXECUTE FUNCTION gpu_stay_keep();
CREATE TRIGGER gpu_stay_over AFTER DELETE ON gpu_claim REFERENCING OLD TABLE AS was FOR EACH STATEMENT EXECUTE FUNCTION gpu_stay_keep();
ALTER TABLE gpu_stay ENABLE ROW LEVEL SECURITY;
CREATE POLICY operator ON gpu_stay FOR SELECT TO tenon_api USING ((SELECT is_operator()));
CREATE POLICY tenant ON gpu_stay FOR SELECT TO tenon_api USING (org_id = (SELECT current_org()));
CREATE POLICY system ON gpu_stay FOR SELECT TO tenon_system USING (true);
GRANT SELECT ON gpu_stay TO tenon_api, tenon_system;

-- Faults that an operator has a simulated card show, in the order in which they were
-- asked for. Each is listed until its node's incident of that id has come.
ALTER TABLE gpu ADD COLUMN faults jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(faults) = 'array' AND jsonb_array_length(faults) <= 32);
GRANT UPDATE (faults) ON gpu TO tenon_api, tenon_node;
CREATE INDEX gpu_faulted ON gpu (node_id) WHERE faults <> '[]';

-- A card that was pulled for good leaves the count, as an operator says. What is
-- held of it, or is there, is not forgotten.
-- +goose StatementBegin
CREATE FUNCTION gpu_forget(wanted uuid) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
DECLARE at uuid;
BEGIN
    IF NOT is_operator() THEN
        RAISE insufficient_privilege;
    END IF;
    DELETE FROM gpu g WHERE g.id = wanted AND g.state = 'missing' AND NOT EXISTS (SELECT FROM gpu_claim c WHERE c.gpu_id = g.id) RETURNING g.node_id INTO at;
    IF at IS NULL THEN
        RETURN false;
    END IF;
    UPDATE node SET generation = generation + 1 WHERE id = at;
    RETURN true;
END $$;
DO $$
BEGIN
    REVOKE ALL ON FUNCTION gpu_forget(uuid), gpu_stay_keep() FROM PUBLIC;
    GRANT EXECUTE ON FUNCTION gpu_forget(uuid) TO tenon_api;
END $$;
-- +goose StatementEnd

-- Which sets of its cards a node's Fabric Manager can join for one VM: behind
-- NVSwitches a VM gets exactly one, so that placement has to know them.
CREATE TABLE gpu_partition (
    node_id  uuid NOT NULL REFERENCES node ON DELETE CASCADE,
    id       int NOT NULL CHECK (id >= 0),  -- Fabric Manager's
    gpus     text[] NOT NULL CHECK (cardinality(gpus) BETWEEN 1 AND 64), -- PCI addresses, sorted
    not_ours boolean NOT NULL DEFAULT false, -- active, and not the platform's doing
    PRIMARY KEY (node_id, id)
);
ALTER TABLE gpu_partition ENABLE ROW LEVEL SECURITY;
CREATE POLICY system ON gpu_partition TO tenon_system USING (true) WITH CHECK (true);
CREATE POLICY operator ON gpu_partition FOR SELECT TO tenon_api USING ((SELECT is_operator()));
CREATE POLICY own ON gpu_partition TO tenon_node USING (node_id = (SELECT current_node())) WITH CHECK (node_id = (SELECT current_node()));
GRANT SELECT, INSERT, UPDATE, DELETE ON gpu_partition TO tenon_system;
GRANT SELECT ON gpu_partition TO tenon_api;
GRANT SELECT, INSERT, DELETE ON gpu_partition TO tenon_node;
GRANT UPDATE (gpus, not_ours) ON gpu_partition TO tenon_node;
-- For dry runs and offers, as fleet_cards(): amounts and places, no tenants.
-- +goose StatementBegin
CREATE FUNCTION fleet_partitions() RETURNS TABLE (node_id uuid, id int, gpus text[], not_ours boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public AS $$
    SELECT p.node_id, p.id, p.gpus, p.not_ours FROM gpu_partition p
$$;
DO $$
BEGIN
    REVOKE ALL ON FUNCTION fleet_partitions() FROM PUBLIC;
    GRANT EXECUTE ON FUNCTION fleet_partitions() TO tenon_api, tenon_system;
END $$;
-- +goose StatementEnd

-- A fault that gets worse is told of again.
GRANT UPDATE (kind, xid, action, message, told) ON gpu_incident TO tenon_node;

-- Who held a card is forgotten in time.
CREATE POLICY expire ON gpu_stay FOR DELETE TO tenon_system USING (true);
GRANT DELETE ON gpu_stay TO tenon_system;
CREATE INDEX gpu_stay_ended ON gpu_stay (ended_at) WHERE ended_at IS NOT NULL;

-- Which card each claim of a node is of, and where a node's cards are held
-- besides: a card may be put into another slot, or another node, under a claim.
-- +goose StatementBegin
CREATE FUNCTION gpus_held(seen text[]) RETURNS TABLE (pci_address text, gpu_uuid text, here boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public AS $$
    SELECT g.pci_address, s.gpu_uuid, true
        FROM gpu g JOIN gpu_claim c ON c.gpu_id = g.id JOIN gpu_stay s ON s.claim_id = c.id AND s.ended_at IS NULL
        WHERE g.node_id = current_node()
    UNION
    SELECT g.pci_address, s.gpu_uuid, false
        FROM gpu_stay s JOIN gpu_claim c ON c.id = s.claim_id JOIN gpu g ON g.id = c.gpu_id
        WHERE s.gpu_uuid = ANY(seen) AND s.ended_at IS NULL AND g.node_id <> current_node()
$$;
DO $$
BEGIN
    REVOKE ALL ON FUNCTION gpus_held(text[]) FROM PUBLIC;
    GRANT EXECUTE ON FUNCTION gpus_held(text[]) TO tenon_node;
END $$;
-- +goose StatementEnd

-- What a node says can change what it is told: its data binds an instance to it.
-- +goose StatementBegin
CREATE FUNCTION node_told() RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = public AS
    $$ UPDATE node SET generation = generation + 1 WHERE id = current_node() RETURNING generation $$;
DO $$
BEGIN
    REVOKE ALL ON FUNCTION node_told() FROM PUBLIC;
    GRANT EXECUTE ON FUNCTION node_told() TO tenon_node;
END $$;
-- +goose StatementEnd

-- That what was charged for was simulated is known as long as the charge is: the
-- cards, and who held them, are forgotten before.
ALTER TABLE segment ADD COLUMN simulated boolean NOT NULL DEFAULT false;

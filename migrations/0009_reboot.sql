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

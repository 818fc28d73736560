-- +goose Up
-- A volume that its node says it no longer has is lost, however it says so.

DROP INDEX volume_unsettled;
CREATE INDEX volume_unsettled ON volume (id) WHERE state = 'pending' AND said = 'present' OR state = 'present' AND said IN ('gone', 'failed')
    OR state = 'deleting' AND said = 'gone' OR state = 'present' AND charged_mib IS DISTINCT FROM size_mib OR state <> 'present' AND charged_mib IS NOT NULL;

-- Since when the node of one's own instance has not been heard of; NULL while its
-- word counts. Nothing is charged after that.
CREATE FUNCTION silent_since(wanted uuid) RETURNS timestamptz LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public AS $$
    SELECT COALESCE(n.last_seen_at, n.created_at) FROM instance i JOIN node n ON n.id = i.node_id
    WHERE i.id = wanted AND (i.org_id = current_org() OR is_operator()) AND NOT (n.state = 'ready' AND n.fenced_at IS NULL)
$$;
REVOKE ALL ON FUNCTION silent_since(uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION silent_since(uuid) TO tenon_api;

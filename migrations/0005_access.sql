-- +goose Up
-- Who may touch what (decision 2). tenon_api acts for people, tenon_node for a
-- node, tenon_system for the loops; none owns a table or bypasses row security.
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO tenon_system;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO tenon_system, tenon_api;
REVOKE UPDATE, DELETE ON audit, event, usage_correction FROM tenon_system;

-- +goose StatementBegin
DO $$
DECLARE t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['organisation', 'membership', 'project', 'project_quota', 'api_token', 'app_user', 'session', 'idempotency', 'audit',
        'image', 'instance', 'gpu_claim', 'event', 'segment', 'usage_correction', 'observation', 'node', 'gpu', 'node_certificate', 'alarm'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('CREATE POLICY system ON %I TO tenon_system USING (true) WITH CHECK (true)', t);
    END LOOP;
    -- A tenant's rows, by the organisation that the request is about.
    FOREACH t IN ARRAY ARRAY['membership', 'project', 'project_quota', 'api_token', 'idempotency', 'audit',
        'instance', 'gpu_claim', 'event', 'segment', 'usage_correction'] LOOP
        EXECUTE format('CREATE POLICY tenant ON %I TO tenon_api USING (org_id = (SELECT current_org())) WITH CHECK (org_id = (SELECT current_org()))', t);
    END LOOP;
    -- An operator's request reads across tenants, for the fleet and the tenants page.
    FOREACH t IN ARRAY ARRAY['organisation', 'membership', 'project', 'project_quota', 'instance', 'gpu_claim', 'node', 'gpu', 'node_certificate', 'alarm'] LOOP
        EXECUTE format('CREATE POLICY operator ON %I FOR SELECT TO tenon_api USING ((SELECT is_operator()))', t);
    END LOOP;
END $$;
-- +goose StatementEnd

CREATE POLICY tenant ON organisation FOR SELECT TO tenon_api USING (id = (SELECT current_org()));
CREATE POLICY operator_make ON organisation FOR INSERT TO tenon_api WITH CHECK ((SELECT is_operator()));
CREATE POLICY operator_make ON membership FOR INSERT TO tenon_api WITH CHECK ((SELECT is_operator()));
CREATE POLICY operator_make ON project FOR INSERT TO tenon_api WITH CHECK ((SELECT is_operator()));
CREATE POLICY operator_make ON project_quota FOR INSERT TO tenon_api WITH CHECK ((SELECT is_operator()));
CREATE POLICY operator_change ON project_quota FOR UPDATE TO tenon_api USING ((SELECT is_operator()));
CREATE POLICY operator_audit ON audit FOR INSERT TO tenon_api WITH CHECK ((SELECT is_operator()));
CREATE POLICY operator_change ON node FOR UPDATE TO tenon_api USING ((SELECT is_operator()));
CREATE POLICY operator_change ON alarm FOR UPDATE TO tenon_api USING ((SELECT is_operator()));
-- Offered images are everyone's to read, the operator's to write.
CREATE POLICY tenant ON image TO tenon_api USING (org_id = (SELECT current_org())) WITH CHECK (org_id = (SELECT current_org()));
CREATE POLICY offered ON image FOR SELECT TO tenon_api USING (org_id = '00000000-0000-7000-8000-000000000000');
CREATE POLICY operator_write ON image TO tenon_api
    USING ((SELECT is_operator()) AND org_id = '00000000-0000-7000-8000-000000000000')
    WITH CHECK ((SELECT is_operator()) AND org_id = '00000000-0000-7000-8000-000000000000');
-- People of one's own organisation.
CREATE POLICY tenant ON app_user FOR SELECT TO tenon_api
    USING (EXISTS (SELECT FROM membership m WHERE m.org_id = (SELECT current_org()) AND m.user_id = app_user.id));

GRANT SELECT ON organisation, membership, project, project_quota, api_token, audit, image, instance, gpu_claim, event,
    segment, usage_correction, idempotency, pool, node, gpu, flavor, price, alarm, placement_shape, cloud_state TO tenon_api;
GRANT SELECT (id, email, name, operator, disabled, created_at) ON app_user TO tenon_api;
GRANT INSERT ON organisation, membership, project, project_quota, api_token, audit, image, instance, event, idempotency, node_join_token TO tenon_api;
GRANT INSERT, DELETE ON flavor, price TO tenon_api;
GRANT UPDATE (retired_at) ON flavor TO tenon_api;
GRANT UPDATE (display_name) ON project TO tenon_api;
GRANT UPDATE (limit_amount, used) ON project_quota TO tenon_api;
GRANT UPDATE (revoked_at) ON api_token TO tenon_api;
GRANT UPDATE (deleted_at, ref, digest, size_bytes, description) ON image TO tenon_api;
GRANT UPDATE (desired_state, generation, state, state_at, deadline_at, reason, message, reasons, progress, exit_code, last_lines,
    holds_quota, queued_at, started_at, deleted_at, event_seq, observed_generation) ON instance TO tenon_api;
GRANT UPDATE (status, response) ON idempotency TO tenon_api;
GRANT UPDATE (generation, drained) ON node TO tenon_api;
GRANT UPDATE (acknowledged_at) ON alarm TO tenon_api;
GRANT DELETE ON membership TO tenon_api;

-- An intent to stop or delete must reach the node: raises its generation, for a
-- node that the tenant can't see.
-- +goose StatementBegin
CREATE FUNCTION node_touch(touched uuid) RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = public AS
    $$ UPDATE node SET generation = generation + 1 WHERE id = touched RETURNING generation $$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION node_touch(uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION node_touch(uuid) TO tenon_api;

-- What is free, without whose the rest is: for prices, dry runs and counts.
-- +goose StatementBegin
CREATE FUNCTION fleet_free() RETURNS TABLE (node_id uuid, node_name text, pool_id uuid, pool_name text, pool_simulated boolean, node_state text, drained boolean,
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
    ORDER BY n.id, g.id
$$;

-- What an instance of one's own holds: of a card, what its tenant may know.
CREATE FUNCTION instance_devices(wanted uuid) RETURNS TABLE (gpu_id uuid, gpu_uuid text, model text, mode text, profile text, slot_start int, slot_end int, simulated boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public AS $$
    SELECT g.id, g.uuid, g.model, k.mode, k.profile, lower(k.slots), upper(k.slots), g.simulated
    FROM gpu_claim k JOIN gpu g ON g.id = k.gpu_id
    WHERE k.instance_id = wanted AND (k.org_id = current_org() OR is_operator())
    ORDER BY g.pci_address, k.slots
$$;
-- How many wait in a pool, whoever they are.
CREATE FUNCTION queue_length(of_pool uuid) RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public AS
    $$ SELECT count(*) FROM instance WHERE state = 'queued' AND pool_id = of_pool $$;

-- How many instances, of anyone, were made from an image that one may see.
CREATE FUNCTION image_uses(wanted uuid) RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public AS $$
    SELECT count(*) FROM image m JOIN instance i ON i.image_org_id = m.org_id AND i.image_id = m.id
    WHERE m.id = wanted AND i.state <> 'deleted' AND (m.org_id = current_org() OR is_operator())
$$;

-- When a node last spoke of an instance: nothing is charged past it.
CREATE FUNCTION proven_until(wanted uuid) RETURNS timestamptz
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public AS
    $$ SELECT received_at FROM observation WHERE instance_id = wanted $$;

-- Sign-in and token look-up happen before there is an organisation to scope to.
CREATE FUNCTION auth_user_by_email(wanted text) RETURNS TABLE (id uuid, email text, name text, password_hash text, operator boolean, disabled boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public AS
    $$ SELECT u.id, u.email, u.name, u.password_hash, u.operator, u.disabled FROM app_user u WHERE u.email = wanted $$;
CREATE FUNCTION auth_user_by_id(wanted uuid) RETURNS TABLE (id uuid, email text, name text, operator boolean, disabled boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public AS
    $$ SELECT u.id, u.email, u.name, u.operator, u.disabled FROM app_user u WHERE u.id = wanted $$;
CREATE FUNCTION auth_memberships(wanted uuid) RETURNS TABLE (org_id uuid, org_name text, role text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public AS
    $$ SELECT m.org_id, o.name, m.role FROM membership m JOIN organisation o ON o.id = m.org_id WHERE m.user_id = wanted ORDER BY m.created_at, o.name $$;
CREATE FUNCTION auth_organisations(wanted uuid) RETURNS SETOF organisation
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public AS
    $$ SELECT o.* FROM organisation o WHERE o.id IN (SELECT m.org_id FROM membership m WHERE m.user_id = wanted) $$;
CREATE FUNCTION auth_token(wanted bytea) RETURNS TABLE (token_id uuid, org_id uuid, user_id uuid, email text, operator boolean, disabled boolean, role text, expires_at timestamptz, revoked_at timestamptz, last_used_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public AS
    $$ SELECT t.id, t.org_id, t.user_id, u.email, u.operator, u.disabled, m.role, t.expires_at, t.revoked_at, t.last_used_at
       FROM api_token t JOIN app_user u ON u.id = t.user_id JOIN membership m ON m.org_id = t.org_id AND m.user_id = t.user_id WHERE t.hash = wanted $$;
CREATE FUNCTION auth_token_by_id(wanted uuid) RETURNS TABLE (token_id uuid, org_id uuid, user_id uuid, email text, operator boolean, disabled boolean, role text, expires_at timestamptz, revoked_at timestamptz, last_used_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public AS
    $$ SELECT f.* FROM api_token t, auth_token(t.hash) f WHERE t.id = wanted $$;
CREATE FUNCTION auth_token_used(used uuid) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = public AS
    $$ UPDATE api_token SET last_used_at = now() WHERE id = used AND (last_used_at IS NULL OR last_used_at < now() - interval '1 minute') $$;
CREATE FUNCTION auth_user_create(new_id uuid, new_email text, new_name text, new_hash text) RETURNS uuid LANGUAGE sql SECURITY DEFINER SET search_path = public AS
    $$ INSERT INTO app_user (id, email, name, password_hash) VALUES (new_id, new_email, new_name, new_hash) RETURNING id $$;
CREATE FUNCTION auth_session_open(new_id uuid, of_user uuid, hash bytea, until timestamptz, agent text, from_address text) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = public AS
    $$ INSERT INTO session (id, user_id, refresh_hash, expires_at, user_agent, address) VALUES (new_id, of_user, hash, until, left(agent, 400), from_address) $$;
CREATE FUNCTION auth_session_by_refresh(wanted bytea) RETURNS SETOF session LANGUAGE sql SECURITY DEFINER SET search_path = public AS
    $$ SELECT * FROM session WHERE refresh_hash = wanted OR previous_hash = wanted FOR UPDATE $$;
CREATE FUNCTION auth_session_rotate(of_session uuid, new_hash bytea, until timestamptz) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = public AS
    $$ UPDATE session SET previous_hash = refresh_hash, refresh_hash = new_hash, rotated_at = now(), expires_at = until WHERE id = of_session $$;
CREATE FUNCTION auth_session_revoke(of_session uuid) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = public AS
    $$ UPDATE session SET revoked_at = now() WHERE id = of_session AND revoked_at IS NULL $$;
CREATE FUNCTION auth_session_live(of_session uuid) RETURNS boolean LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public AS
    $$ SELECT EXISTS (SELECT FROM session s JOIN app_user u ON u.id = s.user_id WHERE s.id = of_session AND s.revoked_at IS NULL AND s.expires_at > now() AND NOT u.disabled) $$;

DO $$
DECLARE f regprocedure;
BEGIN
    FOR f IN SELECT p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace AND (p.proname LIKE 'auth\_%' OR p.proname IN ('fleet_free', 'instance_devices', 'queue_length', 'image_uses', 'proven_until')) LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO tenon_api, tenon_system', f);
    END LOOP;
END $$;
-- +goose StatementEnd

-- A node reads what is assigned to it and writes what it sees (decision 6).
CREATE POLICY own ON node TO tenon_node USING (id = (SELECT current_node())) WITH CHECK (id = (SELECT current_node()));
CREATE POLICY own ON gpu TO tenon_node USING (node_id = (SELECT current_node())) WITH CHECK (node_id = (SELECT current_node()));
CREATE POLICY own ON instance FOR SELECT TO tenon_node USING (node_id = (SELECT current_node()));
CREATE POLICY own ON gpu_claim FOR SELECT TO tenon_node USING (gpu_id IN (SELECT id FROM gpu WHERE node_id = (SELECT current_node())));
CREATE POLICY own ON image FOR SELECT TO tenon_node USING (id IN (SELECT image_id FROM instance WHERE node_id = (SELECT current_node())));
CREATE POLICY own ON observation TO tenon_node
    USING (node_id = (SELECT current_node()))
    WITH CHECK (node_id = (SELECT current_node()) AND instance_id IN (SELECT id FROM instance WHERE node_id = (SELECT current_node())));
CREATE POLICY own ON node_certificate TO tenon_node USING (node_id = (SELECT current_node())) WITH CHECK (node_id = (SELECT current_node()));
GRANT SELECT ON node, gpu, instance, gpu_claim, image, observation, cloud_state, node_certificate TO tenon_node;
GRANT UPDATE (vcpu, memory_mib, agent_version, boot_id, drivers, orphans, ack_era, ack_generation, last_seen_at) ON node TO tenon_node;
GRANT INSERT ON gpu, observation, node_certificate TO tenon_node;
GRANT UPDATE (uuid, index, model, geometry, mode, state, reason, memory_mib, numa_node, nvlink, simulated, updated_at) ON gpu TO tenon_node;
GRANT UPDATE (node_id, epoch, generation, state, reason, message, progress, exit_code, last_lines, address, state_for, ran_for, received_at, seq) ON observation TO tenon_node;

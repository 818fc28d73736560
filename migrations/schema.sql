CREATE EXTENSION IF NOT EXISTS btree_gist WITH SCHEMA public;

COMMENT ON EXTENSION btree_gist IS 'support for indexing common datatypes in GiST';

CREATE FUNCTION public.auth_memberships(wanted uuid) RETURNS TABLE(org_id uuid, org_name text, role text)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'public'
    AS $$ SELECT m.org_id, o.name, m.role FROM membership m JOIN organisation o ON o.id = m.org_id WHERE m.user_id = wanted ORDER BY m.created_at, o.name $$;

CREATE TABLE public.organisation (
    id uuid NOT NULL,
    name text NOT NULL,
    display_name text DEFAULT ''::text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT organisation_name_check CHECK ((name ~ '^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$'::text))
);

CREATE FUNCTION public.auth_organisations(wanted uuid) RETURNS SETOF public.organisation
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'public'
    AS $$ SELECT o.* FROM organisation o WHERE o.id IN (SELECT m.org_id FROM membership m WHERE m.user_id = wanted) $$;

CREATE TABLE public.session (
    id uuid NOT NULL,
    user_id uuid NOT NULL,
    refresh_hash bytea NOT NULL,
    previous_hash bytea,
    rotated_at timestamp with time zone DEFAULT now() NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    revoked_at timestamp with time zone,
    user_agent text DEFAULT ''::text NOT NULL,
    address text DEFAULT ''::text NOT NULL,
    CONSTRAINT session_refresh_hash_check CHECK ((octet_length(refresh_hash) = 32))
);

CREATE FUNCTION public.auth_session_by_refresh(wanted bytea) RETURNS SETOF public.session
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'public'
    AS $$ SELECT * FROM session WHERE refresh_hash = wanted OR previous_hash = wanted FOR UPDATE $$;

CREATE FUNCTION public.auth_session_live(of_session uuid) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'public'
    AS $$ SELECT EXISTS (SELECT FROM session s JOIN app_user u ON u.id = s.user_id WHERE s.id = of_session AND s.revoked_at IS NULL AND s.expires_at > now() AND NOT u.disabled) $$;

CREATE FUNCTION public.auth_session_open(new_id uuid, of_user uuid, hash bytea, until timestamp with time zone, agent text, from_address text) RETURNS void
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'public'
    AS $$ INSERT INTO session (id, user_id, refresh_hash, expires_at, user_agent, address) VALUES (new_id, of_user, hash, until, left(agent, 400), from_address) $$;

CREATE FUNCTION public.auth_session_revoke(of_session uuid) RETURNS void
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'public'
    AS $$ UPDATE session SET revoked_at = now() WHERE id = of_session AND revoked_at IS NULL $$;

CREATE FUNCTION public.auth_session_rotate(of_session uuid, new_hash bytea, until timestamp with time zone) RETURNS void
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'public'
    AS $$ UPDATE session SET previous_hash = refresh_hash, refresh_hash = new_hash, rotated_at = now(), expires_at = until WHERE id = of_session $$;

CREATE FUNCTION public.auth_token(wanted bytea) RETURNS TABLE(token_id uuid, org_id uuid, user_id uuid, email text, operator boolean, disabled boolean, role text, expires_at timestamp with time zone, revoked_at timestamp with time zone, last_used_at timestamp with time zone)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'public'
    AS $$ SELECT t.id, t.org_id, t.user_id, u.email, u.operator, u.disabled, m.role, t.expires_at, t.revoked_at, t.last_used_at
       FROM api_token t JOIN app_user u ON u.id = t.user_id JOIN membership m ON m.org_id = t.org_id AND m.user_id = t.user_id WHERE t.hash = wanted $$;

CREATE FUNCTION public.auth_token_by_id(wanted uuid) RETURNS TABLE(token_id uuid, org_id uuid, user_id uuid, email text, operator boolean, disabled boolean, role text, expires_at timestamp with time zone, revoked_at timestamp with time zone, last_used_at timestamp with time zone)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'public'
    AS $$ SELECT f.* FROM api_token t, auth_token(t.hash) f WHERE t.id = wanted $$;

CREATE FUNCTION public.auth_token_used(used uuid) RETURNS void
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'public'
    AS $$ UPDATE api_token SET last_used_at = now() WHERE id = used AND (last_used_at IS NULL OR last_used_at < now() - interval '1 minute') $$;

CREATE FUNCTION public.auth_user_by_email(wanted text) RETURNS TABLE(id uuid, email text, name text, password_hash text, operator boolean, disabled boolean)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'public'
    AS $$ SELECT u.id, u.email, u.name, u.password_hash, u.operator, u.disabled FROM app_user u WHERE u.email = wanted $$;

CREATE FUNCTION public.auth_user_by_id(wanted uuid) RETURNS TABLE(id uuid, email text, name text, operator boolean, disabled boolean)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'public'
    AS $$ SELECT u.id, u.email, u.name, u.operator, u.disabled FROM app_user u WHERE u.id = wanted $$;

CREATE FUNCTION public.auth_user_create(new_id uuid, new_email text, new_name text, new_hash text) RETURNS uuid
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'public'
    AS $$ INSERT INTO app_user (id, email, name, password_hash) VALUES (new_id, new_email, new_name, new_hash) RETURNING id $$;

CREATE FUNCTION public.current_node() RETURNS uuid
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT NULLIF(current_setting('tenon.node', true), '')::uuid $$;

CREATE FUNCTION public.current_org() RETURNS uuid
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT NULLIF(current_setting('tenon.org', true), '')::uuid $$;

CREATE FUNCTION public.fleet_cards() RETURNS TABLE(gpu_id uuid, settled boolean, layout jsonb, missing jsonb, bundled boolean, others boolean, not_for_vm boolean)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'public'
    AS $$
    SELECT g.id, g.settled, g.desired_layout, g.missing, g.bundle <> '{}',
        g.mode = 'shared' AND EXISTS (SELECT FROM gpu_claim k WHERE k.gpu_id = g.id AND k.org_id IS DISTINCT FROM current_org()), g.not_for_vm
    FROM gpu g
$$;

CREATE FUNCTION public.fleet_free() RETURNS TABLE(node_id uuid, node_name text, pool_id uuid, pool_name text, pool_simulated boolean, node_state text, drained boolean, node_simulated boolean, free_vcpu bigint, free_memory_mib bigint, vcpu_total bigint, memory_total_mib bigint, gpu_id uuid, pci_address text, model text, geometry text, mode text, gpu_state text, numa_node integer, nvlink text[], taken int4multirange, media text[])
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'public'
    AS $$
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

CREATE FUNCTION public.fleet_kinds() RETURNS TABLE(node_id uuid, kinds text[])
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'public'
    AS $$ SELECT id, kinds FROM node $$;

CREATE FUNCTION public.fleet_partitions() RETURNS TABLE(node_id uuid, id integer, gpus text[], not_ours boolean)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'public'
    AS $$
    SELECT p.node_id, p.id, p.gpus, p.not_ours FROM gpu_partition p
$$;

CREATE FUNCTION public.gpu_figures() RETURNS TABLE(model text, profile text, memory_mib bigint, sms integer)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'public'
    AS $$
    SELECT g.model, f.profile, min(f.memory_mib), min(f.sms)
    FROM gpu g JOIN node n ON n.id = g.node_id AND n.forgotten_at IS NULL
    CROSS JOIN LATERAL (
        SELECT 'whole' AS profile, g.memory_mib AS memory_mib, 0 AS sms
        UNION ALL
        SELECT p->>'profile', (p->>'memory_mib')::bigint, COALESCE((p->>'sms')::int, 0) FROM jsonb_array_elements(g.profiles) p
    ) f
    GROUP BY g.model, f.profile
$$;

CREATE FUNCTION public.gpu_forget(wanted uuid) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'public'
    AS $$
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

CREATE FUNCTION public.gpu_stay_keep() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'public'
    AS $$
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

CREATE FUNCTION public.gpu_wish_guard() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'public'
    AS $$
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

CREATE FUNCTION public.gpus_held(seen text[]) RETURNS TABLE(pci_address text, gpu_uuid text, here boolean)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'public'
    AS $$
    SELECT g.pci_address, s.gpu_uuid, true
        FROM gpu g JOIN gpu_claim c ON c.gpu_id = g.id JOIN gpu_stay s ON s.claim_id = c.id AND s.ended_at IS NULL
        WHERE g.node_id = current_node()
    UNION
    SELECT g.pci_address, s.gpu_uuid, false
        FROM gpu_stay s JOIN gpu_claim c ON c.id = s.claim_id JOIN gpu g ON g.id = c.gpu_id
        WHERE s.gpu_uuid = ANY(seen) AND s.ended_at IS NULL AND g.node_id <> current_node()
$$;

CREATE FUNCTION public.held_release(released uuid) RETURNS bigint
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'public'
    AS $$
    WITH gone AS (
        DELETE FROM gpu_claim c USING instance i
        WHERE i.id = released AND i.held AND i.org_id = current_org() AND c.instance_id = i.id AND c.epoch = i.epoch RETURNING 1)
    SELECT count(*) FROM gone
$$;

CREATE FUNCTION public.held_start(started uuid) RETURNS bigint
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'public'
    AS $$
    WITH moved AS (
        UPDATE gpu_claim c SET epoch = i.epoch FROM instance i
        WHERE i.id = started AND i.state = 'starting' AND i.org_id = current_org() AND c.instance_id = i.id AND c.epoch = i.epoch - 1 AND NOT c.fenced RETURNING 1)
    SELECT count(*) FROM moved
$$;

CREATE FUNCTION public.image_uses(wanted uuid) RETURNS bigint
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'public'
    AS $$
    SELECT count(*) FROM image m JOIN instance i ON i.image_org_id = m.org_id AND i.image_id = m.id
    WHERE m.id = wanted AND i.state <> 'deleted' AND (m.org_id = current_org() OR is_operator())
$$;

CREATE FUNCTION public.instance_devices(wanted uuid) RETURNS TABLE(gpu_id uuid, gpu_uuid text, model text, mode text, profile text, slot_start integer, slot_end integer, simulated boolean)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'public'
    AS $$
    SELECT g.id, g.uuid, g.model, k.mode, k.profile, lower(k.slots), upper(k.slots), g.simulated
    FROM gpu_claim k JOIN gpu g ON g.id = k.gpu_id
    WHERE k.instance_id = wanted AND NOT k.fenced AND (k.org_id = current_org() OR is_operator())
    ORDER BY g.pci_address, k.slots
$$;

CREATE FUNCTION public.instance_guard() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'public'
    AS $$
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

CREATE FUNCTION public.is_operator() RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT COALESCE(current_setting('tenon.operator', true), '') = 'on' $$;

CREATE FUNCTION public.job_guard() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'public'
    AS $$
BEGIN
    IF NEW.state <> OLD.state AND NOT EXISTS (SELECT FROM job_move WHERE from_state = OLD.state AND to_state = NEW.state) THEN
        RAISE EXCEPTION 'job % can not go from % to %', OLD.id, OLD.state, NEW.state USING ERRCODE = 'check_violation', CONSTRAINT = 'job_move';
    END IF;
    IF NEW.generation < OLD.generation OR NEW.event_seq < OLD.event_seq OR NEW.attempt < OLD.attempt THEN
        RAISE EXCEPTION 'job %: a counter ran backwards', OLD.id USING ERRCODE = 'check_violation', CONSTRAINT = 'job_counters';
    END IF;
    -- A job that is over, or waits, has nothing on a node.
    IF NEW.state NOT IN ('starting', 'running') AND (NEW.array_tasks = 0 OR NEW.state <> 'queued') AND EXISTS (
        SELECT FROM instance WHERE job_id = NEW.id AND node_id IS NOT NULL) THEN
        RAISE EXCEPTION 'job % is % with members on a node', OLD.id, NEW.state USING ERRCODE = 'check_violation', CONSTRAINT = 'job_members_placed';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION public.node_told() RETURNS bigint
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'public'
    AS $$ UPDATE node SET generation = generation + 1 WHERE id = current_node() RETURNING generation $$;

CREATE FUNCTION public.node_touch(touched uuid) RETURNS bigint
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'public'
    AS $$ UPDATE node SET generation = generation + 1 WHERE id = touched RETURNING generation $$;

CREATE FUNCTION public.price_guard() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF OLD.starts_at <= now() THEN
        RAISE EXCEPTION 'the price of % from % has started and can not change', OLD.sku, OLD.starts_at
            USING ERRCODE = 'check_violation', CONSTRAINT = 'price_started';
    END IF;
    IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION public.project_quota_guard() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF NEW.used > OLD.used AND NEW.used > NEW.limit_amount THEN
        RAISE EXCEPTION 'quota % exceeded: limit %, would use %', NEW.resource, NEW.limit_amount, NEW.used
            USING ERRCODE = 'check_violation', CONSTRAINT = 'project_quota_limit',
                DETAIL = json_build_object('resource', NEW.resource, 'limit', NEW.limit_amount, 'used', OLD.used, 'asked', NEW.used - OLD.used)::text;
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION public.proven_until(wanted uuid) RETURNS timestamp with time zone
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'public'
    AS $$ SELECT received_at FROM observation WHERE instance_id = wanted $$;

CREATE FUNCTION public.queue_length(of_pool uuid) RETURNS bigint
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'public'
    AS $$ SELECT count(*) FROM instance WHERE state = 'queued' AND pool_id = of_pool $$;

CREATE FUNCTION public.queue_place(wanted uuid) RETURNS bigint
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'public'
    AS $$
    SELECT count(*) FROM instance w JOIN instance q ON q.pool_id = w.pool_id AND q.state = 'queued' AND (q.queued_at, q.id) <= (w.queued_at, w.id)
    WHERE w.id = wanted AND w.state = 'queued' AND (w.org_id = current_org() OR is_operator())
$$;

CREATE FUNCTION public.segment_guard() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF TG_OP = 'DELETE' OR OLD.ended_at IS NOT NULL
        OR (to_jsonb(OLD) - 'ended_at') IS DISTINCT FROM (to_jsonb(NEW) - 'ended_at') THEN
        RAISE EXCEPTION 'segment % is a record: it may be closed once, and never changed', OLD.id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'segment_record';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION public.silent_since(wanted uuid) RETURNS timestamp with time zone
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'public'
    AS $$
    SELECT COALESCE(n.last_seen_at, n.created_at) FROM instance i JOIN node n ON n.id = i.node_id
    WHERE i.id = wanted AND (i.org_id = current_org() OR is_operator()) AND NOT (n.state = 'ready' AND n.fenced_at IS NULL)
$$;

CREATE FUNCTION public.volume_guard() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
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

CREATE TABLE public.alarm (
    id uuid NOT NULL,
    key text NOT NULL,
    severity text NOT NULL,
    subject text NOT NULL,
    message text NOT NULL,
    opened_at timestamp with time zone DEFAULT now() NOT NULL,
    acknowledged_at timestamp with time zone,
    cleared_at timestamp with time zone,
    CONSTRAINT alarm_severity_check CHECK ((severity = ANY (ARRAY['warning'::text, 'critical'::text])))
);

CREATE TABLE public.api_token (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    user_id uuid NOT NULL,
    name text NOT NULL,
    hint text NOT NULL,
    hash bytea NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    last_used_at timestamp with time zone,
    CONSTRAINT api_token_hash_check CHECK ((octet_length(hash) = 32)),
    CONSTRAINT api_token_name_check CHECK ((name ~ '^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$'::text))
);

CREATE TABLE public.app_user (
    id uuid NOT NULL,
    email text NOT NULL,
    name text DEFAULT ''::text NOT NULL,
    password_hash text DEFAULT ''::text NOT NULL,
    operator boolean DEFAULT false NOT NULL,
    disabled boolean DEFAULT false NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT app_user_email_check CHECK ((email = lower(email)))
);

CREATE TABLE public.audit (
    seq bigint NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    org_id uuid,
    user_id uuid,
    token_id uuid,
    session_id uuid,
    address text DEFAULT ''::text NOT NULL,
    action text NOT NULL,
    resource text NOT NULL,
    request_id text NOT NULL,
    detail jsonb DEFAULT '{}'::jsonb NOT NULL
);

ALTER TABLE public.audit ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.audit_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.cloud_state (
    only_row boolean DEFAULT true NOT NULL,
    cloud_id text NOT NULL,
    era uuid NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    restored_at timestamp with time zone,
    restored_from timestamp with time zone,
    epoch_floor bigint DEFAULT 0 NOT NULL,
    CONSTRAINT cloud_state_cloud_id_check CHECK ((cloud_id ~ '^[0-9a-f]{8}$'::text)),
    CONSTRAINT cloud_state_only_row_check CHECK (only_row)
);

CREATE TABLE public.event (
    cursor bigint NOT NULL,
    xid xid8 DEFAULT pg_current_xact_id() NOT NULL,
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    project_id uuid NOT NULL,
    resource text NOT NULL,
    resource_id uuid NOT NULL,
    seq bigint NOT NULL,
    verb text NOT NULL,
    message text DEFAULT ''::text NOT NULL,
    at timestamp with time zone NOT NULL,
    data jsonb DEFAULT '{}'::jsonb NOT NULL,
    CONSTRAINT event_resource_check CHECK ((resource = ANY (ARRAY['instance'::text, 'image'::text, 'project'::text, 'job'::text])))
);

ALTER TABLE public.event ALTER COLUMN cursor ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.event_cursor_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.flavor (
    id uuid NOT NULL,
    name text NOT NULL,
    description text DEFAULT ''::text NOT NULL,
    gpu_count integer DEFAULT 0 NOT NULL,
    gpu_model text DEFAULT ''::text NOT NULL,
    gpu_mode text DEFAULT ''::text NOT NULL,
    gpu_profile text DEFAULT ''::text NOT NULL,
    vcpu integer NOT NULL,
    memory_mib bigint NOT NULL,
    disk_mib bigint NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    retired_at timestamp with time zone,
    CONSTRAINT flavor_check CHECK (((gpu_count = 0) = ((gpu_model = ''::text) AND (gpu_mode = ''::text) AND (gpu_profile = ''::text)))),
    CONSTRAINT flavor_disk_mib_check CHECK (((disk_mib >= 64) AND (disk_mib <= 16777216))),
    CONSTRAINT flavor_gpu_count_check CHECK (((gpu_count >= 0) AND (gpu_count <= 16))),
    CONSTRAINT flavor_gpu_mode_check CHECK ((gpu_mode = ANY (ARRAY[''::text, 'whole'::text, 'mig'::text, 'shared'::text, 'vgpu'::text]))),
    CONSTRAINT flavor_memory_mib_check CHECK (((memory_mib >= 64) AND (memory_mib <= 16777216))),
    CONSTRAINT flavor_name_check CHECK ((name ~ '^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$'::text)),
    CONSTRAINT flavor_vcpu_check CHECK (((vcpu >= 1) AND (vcpu <= 1024)))
);

CREATE TABLE public.gpu (
    id uuid NOT NULL,
    node_id uuid NOT NULL,
    uuid text NOT NULL,
    pci_address text NOT NULL,
    index integer DEFAULT 0 NOT NULL,
    model text NOT NULL,
    geometry text NOT NULL,
    mode text NOT NULL,
    state text NOT NULL,
    reason text DEFAULT ''::text NOT NULL,
    memory_mib bigint NOT NULL,
    numa_node integer DEFAULT '-1'::integer NOT NULL,
    nvlink text[] DEFAULT '{}'::text[] NOT NULL,
    simulated boolean DEFAULT false NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    vendor text DEFAULT ''::text NOT NULL,
    device text DEFAULT ''::text NOT NULL,
    driver text DEFAULT ''::text NOT NULL,
    modes text[] DEFAULT '{}'::text[] NOT NULL,
    companions text[] DEFAULT '{}'::text[] NOT NULL,
    bundle text[] DEFAULT '{}'::text[] NOT NULL,
    vgpu_types jsonb DEFAULT '[]'::jsonb NOT NULL,
    slices jsonb DEFAULT '[]'::jsonb NOT NULL,
    missing jsonb DEFAULT '[]'::jsonb NOT NULL,
    wish_reason text DEFAULT ''::text NOT NULL,
    said_generation bigint DEFAULT 0 NOT NULL,
    recovered bigint DEFAULT 0 NOT NULL,
    desired_mode text,
    desired_geometry text DEFAULT ''::text NOT NULL,
    desired_layout jsonb DEFAULT '[]'::jsonb NOT NULL,
    desired_shares integer DEFAULT 0 NOT NULL,
    desired_vgpu_type text DEFAULT ''::text NOT NULL,
    wish_generation bigint DEFAULT 0 NOT NULL,
    wished_at timestamp with time zone,
    wished_by uuid,
    recover bigint DEFAULT 0 NOT NULL,
    settled boolean GENERATED ALWAYS AS (((wish_reason = ''::text) AND (said_generation >= wish_generation) AND ((desired_mode IS NULL) OR ((desired_mode = mode) AND ((desired_geometry = geometry) OR ((desired_vgpu_type <> ''::text) AND (geometry ~ '^vgpu[0-9]+$'::text))))))) STORED NOT NULL,
    not_for_vm boolean DEFAULT false NOT NULL,
    profiles jsonb DEFAULT '[]'::jsonb NOT NULL,
    faults jsonb DEFAULT '[]'::jsonb NOT NULL,
    CONSTRAINT gpu_desired_layout_check CHECK ((jsonb_typeof(desired_layout) = 'array'::text)),
    CONSTRAINT gpu_device_check CHECK ((device ~ '^([0-9a-f]{4})?$'::text)),
    CONSTRAINT gpu_faults_check CHECK (((jsonb_typeof(faults) = 'array'::text) AND (jsonb_array_length(faults) <= 32))),
    CONSTRAINT gpu_memory_mib_check CHECK ((memory_mib > 0)),
    CONSTRAINT gpu_mode_check CHECK ((mode = ANY (ARRAY['whole'::text, 'mig'::text, 'shared'::text, 'vgpu'::text]))),
    CONSTRAINT gpu_modes_check CHECK ((modes <@ '{whole,mig,shared,vgpu}'::text[])),
    CONSTRAINT gpu_pci_address_check CHECK ((pci_address ~ '^([0-9a-f]{4}|[1-9a-f][0-9a-f]{4,7}):[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$'::text)),
    CONSTRAINT gpu_state_check CHECK ((state = ANY (ARRAY['ready'::text, 'cleaning'::text, 'needs_reset'::text, 'quarantined'::text, 'unhealthy'::text, 'missing'::text, 'unknown'::text]))),
    CONSTRAINT gpu_vendor_check CHECK ((vendor ~ '^([0-9a-f]{4})?$'::text)),
    CONSTRAINT gpu_wish CHECK ((((desired_mode IS NOT NULL) = (desired_geometry <> ''::text)) AND ((desired_shares > 0) = COALESCE((desired_mode = 'shared'::text), false)) AND ((desired_vgpu_type = ''::text) OR COALESCE((desired_mode = 'vgpu'::text), false)) AND ((desired_layout = '[]'::jsonb) OR COALESCE(((desired_mode = ANY (ARRAY['mig'::text, 'vgpu'::text])) AND (desired_vgpu_type = ''::text)), false))))
);

CREATE TABLE public.gpu_claim (
    id uuid NOT NULL,
    gpu_id uuid NOT NULL,
    org_id uuid NOT NULL,
    project_id uuid NOT NULL,
    instance_id uuid NOT NULL,
    epoch bigint NOT NULL,
    mode text NOT NULL,
    geometry text NOT NULL,
    profile text NOT NULL,
    slots int4range NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    fenced boolean DEFAULT false NOT NULL
);

CREATE TABLE public.gpu_excluded (
    node_id uuid NOT NULL,
    pci_address text NOT NULL,
    vendor text DEFAULT ''::text NOT NULL,
    device text DEFAULT ''::text NOT NULL,
    reason text DEFAULT ''::text NOT NULL,
    CONSTRAINT gpu_excluded_pci_address_check CHECK ((length(pci_address) <= 20))
);

CREATE TABLE public.gpu_incident (
    node_id uuid NOT NULL,
    id text NOT NULL,
    gpu_id uuid NOT NULL,
    kind text NOT NULL,
    xid integer DEFAULT 0 NOT NULL,
    action text NOT NULL,
    message text DEFAULT ''::text NOT NULL,
    instance_id uuid,
    at timestamp with time zone NOT NULL,
    received_at timestamp with time zone DEFAULT now() NOT NULL,
    told boolean DEFAULT false NOT NULL,
    CONSTRAINT gpu_incident_action_check CHECK ((action = ANY (ARRAY['none'::text, 'needs_reset'::text, 'out'::text]))),
    CONSTRAINT gpu_incident_id_check CHECK (((length(id) >= 1) AND (length(id) <= 100))),
    CONSTRAINT gpu_incident_kind_check CHECK ((kind ~ '^[a-z][a-z0-9_]{0,59}$'::text))
);

CREATE TABLE public.gpu_partition (
    node_id uuid NOT NULL,
    id integer NOT NULL,
    gpus text[] NOT NULL,
    not_ours boolean DEFAULT false NOT NULL,
    CONSTRAINT gpu_partition_gpus_check CHECK (((cardinality(gpus) >= 1) AND (cardinality(gpus) <= 64))),
    CONSTRAINT gpu_partition_id_check CHECK ((id >= 0))
);

CREATE TABLE public.gpu_stay (
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    gpu_id uuid NOT NULL,
    gpu_uuid text NOT NULL,
    claim_id uuid NOT NULL,
    org_id uuid NOT NULL,
    project_id uuid NOT NULL,
    instance_id uuid NOT NULL,
    epoch bigint NOT NULL,
    mode text NOT NULL,
    geometry text NOT NULL,
    model text NOT NULL,
    profile text NOT NULL,
    slots int4range NOT NULL,
    started_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    CONSTRAINT gpu_stay_check CHECK ((ended_at >= started_at))
);

CREATE TABLE public.idempotency (
    org_id uuid NOT NULL,
    actor_id uuid NOT NULL,
    key text NOT NULL,
    operation text NOT NULL,
    request_hash bytea NOT NULL,
    status integer NOT NULL,
    response bytea NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT idempotency_key_check CHECK (((length(key) >= 1) AND (length(key) <= 255)))
);

CREATE TABLE public.image (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    name text NOT NULL,
    kind text NOT NULL,
    ref text NOT NULL,
    digest text NOT NULL,
    embedded boolean NOT NULL,
    size_bytes bigint DEFAULT 0 NOT NULL,
    description text DEFAULT ''::text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    deleted_at timestamp with time zone,
    credential_id uuid,
    CONSTRAINT image_digest_check CHECK ((digest ~ '^sha256:[0-9a-f]{64}$'::text)),
    CONSTRAINT image_kind_check CHECK ((kind = ANY (ARRAY['container'::text, 'vm'::text, 'notebook'::text]))),
    CONSTRAINT image_name_check CHECK ((name ~ '^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$'::text))
);

CREATE TABLE public.instance (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    project_id uuid NOT NULL,
    name text NOT NULL,
    kind text NOT NULL,
    image_org_id uuid NOT NULL,
    image_id uuid NOT NULL,
    image_digest text NOT NULL,
    flavor_id uuid NOT NULL,
    pool_id uuid NOT NULL,
    gpu_count integer NOT NULL,
    gpu_model text NOT NULL,
    gpu_mode text NOT NULL,
    gpu_profile text NOT NULL,
    vcpu integer NOT NULL,
    memory_mib bigint NOT NULL,
    disk_mib bigint NOT NULL,
    command text[],
    env jsonb DEFAULT '{}'::jsonb NOT NULL,
    labels jsonb DEFAULT '{}'::jsonb NOT NULL,
    desired_state text DEFAULT 'running'::text NOT NULL,
    generation bigint DEFAULT 1 NOT NULL,
    state text DEFAULT 'queued'::text NOT NULL,
    observed_generation bigint DEFAULT 0 NOT NULL,
    state_at timestamp with time zone DEFAULT now() NOT NULL,
    deadline_at timestamp with time zone,
    reason text DEFAULT ''::text NOT NULL,
    message text DEFAULT ''::text NOT NULL,
    reasons jsonb DEFAULT '[]'::jsonb NOT NULL,
    progress integer,
    exit_code integer,
    last_lines text DEFAULT ''::text NOT NULL,
    node_id uuid,
    epoch bigint DEFAULT 0 NOT NULL,
    address text DEFAULT ''::text NOT NULL,
    holds_quota boolean DEFAULT true NOT NULL,
    queued_at timestamp with time zone DEFAULT now() NOT NULL,
    started_at timestamp with time zone,
    deleted_at timestamp with time zone,
    created_by uuid NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    event_seq bigint DEFAULT 0 NOT NULL,
    metered_seq bigint DEFAULT 0 NOT NULL,
    on_stop text DEFAULT 'release'::text NOT NULL,
    held boolean DEFAULT false NOT NULL,
    on_node_loss text DEFAULT 'wait'::text NOT NULL,
    ssh_keys text[] DEFAULT '{}'::text[] NOT NULL,
    user_data bytea,
    idle_since timestamp with time zone,
    idle_warned_at timestamp with time zone,
    loss_generation bigint DEFAULT 0 NOT NULL,
    on_node_reboot text DEFAULT 'fail'::text NOT NULL,
    reboots smallint DEFAULT 0 NOT NULL,
    job_id uuid,
    job_rank integer,
    job_tries smallint DEFAULT 0 NOT NULL,
    job_free smallint DEFAULT 0 NOT NULL,
    CONSTRAINT instance_check CHECK (((image_org_id = org_id) OR (image_org_id = '00000000-0000-7000-8000-000000000000'::uuid))),
    CONSTRAINT instance_check2 CHECK (((deleted_at IS NOT NULL) = (state = 'deleted'::text))),
    CONSTRAINT instance_check3 CHECK ((metered_seq <= event_seq)),
    CONSTRAINT instance_desired_state_check CHECK ((desired_state = ANY (ARRAY['running'::text, 'stopped'::text, 'deleted'::text]))),
    CONSTRAINT instance_hold CHECK (((NOT held) OR ((state = 'stopped'::text) AND (kind = 'vm'::text)))),
    CONSTRAINT instance_job_rank_check CHECK ((job_rank >= 0)),
    CONSTRAINT instance_kind_check CHECK ((kind = ANY (ARRAY['container'::text, 'vm'::text, 'notebook'::text]))),
    CONSTRAINT instance_last_lines_check CHECK ((octet_length(last_lines) <= 65536)),
    CONSTRAINT instance_member CHECK (((job_id IS NULL) = (job_rank IS NULL))),
    CONSTRAINT instance_member_kind CHECK (((job_id IS NULL) OR (kind = 'container'::text))),
    CONSTRAINT instance_name_check CHECK ((name ~ '^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$'::text)),
    CONSTRAINT instance_node CHECK (((node_id IS NOT NULL) = ((state = ANY (ARRAY['starting'::text, 'running'::text, 'stopping'::text, 'deleting'::text])) OR held))),
    CONSTRAINT instance_on_node_loss_check CHECK ((on_node_loss = ANY (ARRAY['wait'::text, 'restart'::text]))),
    CONSTRAINT instance_on_node_reboot_check CHECK ((on_node_reboot = ANY (ARRAY['restart'::text, 'fail'::text]))),
    CONSTRAINT instance_on_stop CHECK (((on_stop = 'release'::text) OR (kind = 'vm'::text))),
    CONSTRAINT instance_on_stop_check CHECK ((on_stop = ANY (ARRAY['release'::text, 'hold'::text]))),
    CONSTRAINT instance_progress_check CHECK (((progress >= 0) AND (progress <= 100))),
    CONSTRAINT instance_reboots_check CHECK ((reboots >= 0)),
    CONSTRAINT instance_state_check CHECK ((state = ANY (ARRAY['queued'::text, 'starting'::text, 'running'::text, 'stopping'::text, 'stopped'::text, 'failed'::text, 'deleting'::text, 'deleted'::text])))
);

CREATE TABLE public.instance_move (
    from_state text NOT NULL,
    to_state text NOT NULL
);

CREATE TABLE public.job (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    project_id uuid NOT NULL,
    name text NOT NULL,
    image_org_id uuid NOT NULL,
    image_id uuid NOT NULL,
    flavor_id uuid NOT NULL,
    pool_id uuid NOT NULL,
    command text[],
    env jsonb DEFAULT '{}'::jsonb NOT NULL,
    labels jsonb DEFAULT '{}'::jsonb NOT NULL,
    members_min integer NOT NULL,
    members_max integer NOT NULL,
    array_tasks integer DEFAULT 0 NOT NULL,
    array_parallel integer DEFAULT 0 NOT NULL,
    across_nodes boolean DEFAULT false NOT NULL,
    priority text DEFAULT 'normal'::text NOT NULL,
    tier text DEFAULT 'batch'::text NOT NULL,
    spot boolean DEFAULT false NOT NULL,
    expected_seconds integer,
    max_seconds integer,
    retries integer DEFAULT 0 NOT NULL,
    desired_state text DEFAULT 'running'::text NOT NULL,
    generation bigint DEFAULT 1 NOT NULL,
    state text DEFAULT 'queued'::text NOT NULL,
    state_at timestamp with time zone DEFAULT now() NOT NULL,
    reason text DEFAULT ''::text NOT NULL,
    message text DEFAULT ''::text NOT NULL,
    attempt integer DEFAULT 1 NOT NULL,
    size integer DEFAULT 0 NOT NULL,
    ending text DEFAULT ''::text NOT NULL,
    ending_message text DEFAULT ''::text NOT NULL,
    retries_used integer DEFAULT 0 NOT NULL,
    free_restarts integer DEFAULT 0 NOT NULL,
    placed_at timestamp with time zone,
    started_at timestamp with time zone,
    finished_at timestamp with time zone,
    deleted_at timestamp with time zone,
    look_at timestamp with time zone DEFAULT now(),
    looked bigint DEFAULT '-1'::integer NOT NULL,
    created_by uuid NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    event_seq bigint DEFAULT 0 NOT NULL,
    CONSTRAINT job_array CHECK ((((array_tasks = 0) AND (array_parallel = 0)) OR ((array_tasks > 0) AND (array_parallel > 0) AND (members_min = 1) AND (members_max = 1)))),
    CONSTRAINT job_array_tasks_check CHECK (((array_tasks >= 0) AND (array_tasks <= 1000))),
    CONSTRAINT job_attempt_check CHECK ((attempt >= 1)),
    CONSTRAINT job_check CHECK (((image_org_id = org_id) OR (image_org_id = '00000000-0000-7000-8000-000000000000'::uuid))),
    CONSTRAINT job_check1 CHECK (((members_max >= members_min) AND (members_max <= 1000))),
    CONSTRAINT job_check2 CHECK (((array_parallel >= 0) AND (array_parallel <= array_tasks))),
    CONSTRAINT job_check3 CHECK (((size >= 0) AND (size <= members_max))),
    CONSTRAINT job_desired_state_check CHECK ((desired_state = ANY (ARRAY['running'::text, 'cancelled'::text, 'deleted'::text]))),
    CONSTRAINT job_expected_seconds_check CHECK ((expected_seconds > 0)),
    CONSTRAINT job_finished CHECK (((deleted_at IS NULL) OR (state = 'deleted'::text))),
    CONSTRAINT job_max_seconds_check CHECK ((max_seconds > 0)),
    CONSTRAINT job_members_min_check CHECK ((members_min >= 1)),
    CONSTRAINT job_name_check CHECK ((name ~ '^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$'::text)),
    CONSTRAINT job_priority_check CHECK ((priority = ANY (ARRAY['low'::text, 'normal'::text, 'high'::text]))),
    CONSTRAINT job_queued CHECK (((state <> 'queued'::text) OR (size = 0))),
    CONSTRAINT job_retries CHECK (((array_tasks > 0) OR (retries_used <= retries))),
    CONSTRAINT job_retries_check CHECK (((retries >= 0) AND (retries <= 100))),
    CONSTRAINT job_seconds CHECK ((max_seconds >= expected_seconds)),
    CONSTRAINT job_size CHECK (((size = 0) OR (size >= members_min))),
    CONSTRAINT job_state_check CHECK ((state = ANY (ARRAY['queued'::text, 'starting'::text, 'running'::text, 'succeeded'::text, 'failed'::text, 'cancelled'::text, 'deleted'::text]))),
    CONSTRAINT job_tier_check CHECK ((tier = ANY (ARRAY['interactive'::text, 'batch'::text])))
);

CREATE TABLE public.job_attempt (
    job_id uuid NOT NULL,
    org_id uuid NOT NULL,
    project_id uuid NOT NULL,
    number integer NOT NULL,
    rank integer,
    placed_at timestamp with time zone,
    started_at timestamp with time zone,
    ended_at timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    message text DEFAULT ''::text NOT NULL,
    members jsonb DEFAULT '[]'::jsonb NOT NULL,
    CONSTRAINT job_attempt_number_check CHECK ((number >= 1)),
    CONSTRAINT job_attempt_outcome_check CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'failed'::text, 'platform'::text, 'cancelled'::text, 'max_runtime'::text])))
);

CREATE TABLE public.job_move (
    from_state text NOT NULL,
    to_state text NOT NULL
);

CREATE TABLE public.leader (
    name text NOT NULL,
    holder text NOT NULL,
    term bigint NOT NULL,
    expires_at timestamp with time zone NOT NULL
);

CREATE TABLE public.membership (
    org_id uuid NOT NULL,
    user_id uuid NOT NULL,
    role text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT membership_role_check CHECK ((role = ANY (ARRAY['owner'::text, 'admin'::text, 'member'::text, 'auditor'::text])))
);

CREATE TABLE public.node (
    id uuid NOT NULL,
    name text NOT NULL,
    pool_id uuid NOT NULL,
    state text DEFAULT 'late'::text NOT NULL,
    drained boolean DEFAULT false NOT NULL,
    simulated boolean DEFAULT false NOT NULL,
    vcpu integer NOT NULL,
    memory_mib bigint NOT NULL,
    cpu_overcommit double precision DEFAULT 4 NOT NULL,
    agent_version text DEFAULT ''::text NOT NULL,
    boot_id text DEFAULT ''::text NOT NULL,
    drivers jsonb DEFAULT '{}'::jsonb NOT NULL,
    orphans jsonb DEFAULT '[]'::jsonb NOT NULL,
    generation bigint DEFAULT 0 NOT NULL,
    ack_era uuid,
    ack_generation bigint DEFAULT 0 NOT NULL,
    last_seen_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    labels jsonb DEFAULT '{}'::jsonb NOT NULL,
    kinds text[] DEFAULT '{container,notebook}'::text[] NOT NULL,
    watchdog boolean DEFAULT false NOT NULL,
    fenced_at timestamp with time zone,
    fenced_by uuid,
    report_digest bytea,
    tried_at timestamp with time zone,
    leftovers jsonb DEFAULT '{}'::jsonb NOT NULL,
    forgotten_at timestamp with time zone,
    CONSTRAINT node_cpu_overcommit_check CHECK ((cpu_overcommit >= (1)::double precision)),
    CONSTRAINT node_memory_mib_check CHECK ((memory_mib >= 0)),
    CONSTRAINT node_name_check CHECK ((name ~ '^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$'::text)),
    CONSTRAINT node_state_check CHECK ((state = ANY (ARRAY['ready'::text, 'late'::text, 'lost'::text]))),
    CONSTRAINT node_vcpu_check CHECK ((vcpu >= 0))
);

CREATE TABLE public.node_certificate (
    serial text NOT NULL,
    node_id uuid NOT NULL,
    not_after timestamp with time zone NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    revoked_at timestamp with time zone
);

CREATE TABLE public.node_connection (
    node_id uuid NOT NULL,
    replica_id text NOT NULL,
    since timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE public.node_join_token (
    hash bytea NOT NULL,
    pool_id uuid NOT NULL,
    simulated boolean DEFAULT false NOT NULL,
    created_by uuid,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    used_at timestamp with time zone,
    node_id uuid,
    CONSTRAINT node_join_token_hash_check CHECK ((octet_length(hash) = 32))
);

CREATE TABLE public.node_removal (
    node_id uuid NOT NULL,
    what text NOT NULL,
    asked_by uuid,
    asked_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT node_removal_what_check CHECK ((length(what) <= 100))
);

CREATE TABLE public.observation (
    instance_id uuid NOT NULL,
    node_id uuid NOT NULL,
    epoch bigint NOT NULL,
    generation bigint NOT NULL,
    state text NOT NULL,
    reason text DEFAULT ''::text NOT NULL,
    message text DEFAULT ''::text NOT NULL,
    progress integer,
    exit_code integer,
    last_lines text DEFAULT ''::text NOT NULL,
    address text DEFAULT ''::text NOT NULL,
    state_for interval DEFAULT '00:00:00'::interval NOT NULL,
    ran_for interval DEFAULT '00:00:00'::interval NOT NULL,
    received_at timestamp with time zone DEFAULT now() NOT NULL,
    seq bigint DEFAULT 1 NOT NULL,
    handled_seq bigint DEFAULT 0 NOT NULL,
    activity jsonb,
    CONSTRAINT observation_last_lines_check CHECK ((octet_length(last_lines) <= 65536)),
    CONSTRAINT observation_progress_check CHECK (((progress >= 0) AND (progress <= 100))),
    CONSTRAINT observation_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'pulling'::text, 'starting'::text, 'running'::text, 'stopping'::text, 'stopped'::text, 'failed'::text, 'gone'::text])))
);

CREATE TABLE public.placement_shape (
    geometry text NOT NULL,
    mode text NOT NULL,
    profile text NOT NULL,
    slots int4range NOT NULL,
    CONSTRAINT placement_shape_slots_check CHECK (((NOT isempty(slots)) AND (NOT lower_inf(slots)) AND (NOT upper_inf(slots))))
);

CREATE TABLE public.pool (
    id uuid NOT NULL,
    name text NOT NULL,
    simulated boolean DEFAULT false NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT pool_name_check CHECK ((name ~ '^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$'::text))
);

CREATE TABLE public.price (
    id uuid NOT NULL,
    sku text NOT NULL,
    currency text DEFAULT 'USD'::text NOT NULL,
    micros_per_hour bigint NOT NULL,
    starts_at timestamp with time zone NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT price_currency_check CHECK ((currency ~ '^[A-Z]{3}$'::text)),
    CONSTRAINT price_micros_per_hour_check CHECK ((micros_per_hour >= 0)),
    CONSTRAINT price_sku_check CHECK ((sku ~ '^(gpu/[a-z0-9-]+/[a-z0-9+]+|vcpu|memory_gib|volume_gib)$'::text))
);

CREATE TABLE public.project (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    name text NOT NULL,
    display_name text DEFAULT ''::text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    idle_stop_seconds integer,
    idle_warn_seconds integer DEFAULT 600 NOT NULL,
    CONSTRAINT project_idle_stop_seconds_check CHECK (((idle_stop_seconds >= 60) AND (idle_stop_seconds <= 2592000))),
    CONSTRAINT project_idle_warn_seconds_check CHECK (((idle_warn_seconds >= 0) AND (idle_warn_seconds <= 86400))),
    CONSTRAINT project_name_check CHECK ((name ~ '^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$'::text))
);

CREATE TABLE public.project_quota (
    org_id uuid NOT NULL,
    project_id uuid NOT NULL,
    resource text NOT NULL,
    limit_amount bigint,
    used bigint DEFAULT 0 NOT NULL,
    CONSTRAINT project_quota_limit_amount_check CHECK ((limit_amount >= 0)),
    CONSTRAINT project_quota_resource_check CHECK ((resource = ANY (ARRAY['gpu_milli'::text, 'instances'::text, 'memory_mib'::text, 'vcpu'::text]))),
    CONSTRAINT project_quota_used_check CHECK ((used >= 0))
);

CREATE TABLE public.registry_credential (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    project_id uuid NOT NULL,
    host text NOT NULL,
    username text NOT NULL,
    secret bytea NOT NULL,
    created_by uuid NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT registry_credential_host_check CHECK (((host = lower(host)) AND ((length(host) >= 1) AND (length(host) <= 255)))),
    CONSTRAINT registry_credential_username_check CHECK ((length(username) <= 255))
);

CREATE TABLE public.replica (
    id text NOT NULL,
    address text NOT NULL,
    version text DEFAULT ''::text NOT NULL,
    started_at timestamp with time zone DEFAULT now() NOT NULL,
    seen_at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE public.sealed_key (
    name text NOT NULL,
    kind text NOT NULL,
    public bytea NOT NULL,
    ciphertext bytea NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    retired_at timestamp with time zone,
    CONSTRAINT sealed_key_kind_check CHECK ((kind = ANY (ARRAY['node_ca'::text, 'jwt'::text])))
);

CREATE TABLE public.segment (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    project_id uuid NOT NULL,
    instance_id uuid NOT NULL,
    kind text NOT NULL,
    state text NOT NULL,
    gpu_count integer NOT NULL,
    gpu_model text NOT NULL,
    gpu_mode text NOT NULL,
    gpu_profile text NOT NULL,
    vcpu integer NOT NULL,
    memory_mib bigint NOT NULL,
    started_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    simulated boolean DEFAULT false NOT NULL,
    CONSTRAINT segment_check CHECK ((ended_at >= started_at)),
    CONSTRAINT segment_kind_check CHECK ((kind = ANY (ARRAY['container'::text, 'vm'::text, 'notebook'::text])))
);

CREATE TABLE public.usage_correction (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    segment_id uuid NOT NULL,
    seconds numeric NOT NULL,
    cause text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE public.volume (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    project_id uuid NOT NULL,
    instance_id uuid NOT NULL,
    role text NOT NULL,
    size_mib bigint NOT NULL,
    node_id uuid,
    state text DEFAULT 'pending'::text NOT NULL,
    message text DEFAULT ''::text NOT NULL,
    said text DEFAULT ''::text NOT NULL,
    said_at timestamp with time zone,
    used_mib bigint,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    sized_at timestamp with time zone DEFAULT now() NOT NULL,
    ending_at timestamp with time zone,
    deleted_at timestamp with time zone,
    charged_mib bigint,
    CONSTRAINT volume_check CHECK (((state <> 'present'::text) OR (node_id IS NOT NULL))),
    CONSTRAINT volume_check1 CHECK (((deleted_at IS NOT NULL) = (state = 'deleted'::text))),
    CONSTRAINT volume_role_check CHECK ((role = ANY (ARRAY['root'::text, 'home'::text]))),
    CONSTRAINT volume_said_check CHECK ((said = ANY (ARRAY[''::text, 'present'::text, 'gone'::text, 'failed'::text]))),
    CONSTRAINT volume_size_mib_check CHECK (((size_mib >= 64) AND (size_mib <= 16777216))),
    CONSTRAINT volume_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'present'::text, 'deleting'::text, 'deleted'::text, 'lost'::text])))
);

CREATE TABLE public.volume_segment (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    project_id uuid NOT NULL,
    volume_id uuid NOT NULL,
    instance_id uuid NOT NULL,
    size_mib bigint NOT NULL,
    started_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    CONSTRAINT volume_segment_check CHECK ((ended_at >= started_at))
);

ALTER TABLE ONLY public.alarm
    ADD CONSTRAINT alarm_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.api_token
    ADD CONSTRAINT api_token_hash_key UNIQUE (hash);

ALTER TABLE ONLY public.api_token
    ADD CONSTRAINT api_token_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.app_user
    ADD CONSTRAINT app_user_email_key UNIQUE (email);

ALTER TABLE ONLY public.app_user
    ADD CONSTRAINT app_user_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (seq);

ALTER TABLE ONLY public.cloud_state
    ADD CONSTRAINT cloud_state_pkey PRIMARY KEY (only_row);

ALTER TABLE ONLY public.event
    ADD CONSTRAINT event_id_key UNIQUE (id);

ALTER TABLE ONLY public.event
    ADD CONSTRAINT event_pkey PRIMARY KEY (cursor);

ALTER TABLE ONLY public.event
    ADD CONSTRAINT event_resource_id_seq_key UNIQUE (resource_id, seq);

ALTER TABLE ONLY public.flavor
    ADD CONSTRAINT flavor_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.gpu_claim
    ADD CONSTRAINT gpu_claim_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.gpu_claim
    ADD CONSTRAINT gpu_claim_shared_org EXCLUDE USING gist (gpu_id WITH =, org_id WITH <>) WHERE ((mode = 'shared'::text));

ALTER TABLE ONLY public.gpu_claim
    ADD CONSTRAINT gpu_claim_slots EXCLUDE USING gist (gpu_id WITH =, slots WITH &&);

ALTER TABLE ONLY public.gpu_excluded
    ADD CONSTRAINT gpu_excluded_pkey PRIMARY KEY (node_id, pci_address);

ALTER TABLE ONLY public.gpu
    ADD CONSTRAINT gpu_id_mode_geometry_key UNIQUE (id, mode, geometry);

ALTER TABLE ONLY public.gpu_incident
    ADD CONSTRAINT gpu_incident_pkey PRIMARY KEY (node_id, id);

ALTER TABLE ONLY public.gpu
    ADD CONSTRAINT gpu_node_id_pci_address_key UNIQUE (node_id, pci_address);

ALTER TABLE ONLY public.gpu_partition
    ADD CONSTRAINT gpu_partition_pkey PRIMARY KEY (node_id, id);

ALTER TABLE ONLY public.gpu
    ADD CONSTRAINT gpu_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.gpu_stay
    ADD CONSTRAINT gpu_stay_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.idempotency
    ADD CONSTRAINT idempotency_pkey PRIMARY KEY (org_id, actor_id, key);

ALTER TABLE ONLY public.image
    ADD CONSTRAINT image_org_id_id_key UNIQUE (org_id, id);

ALTER TABLE ONLY public.image
    ADD CONSTRAINT image_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.instance_move
    ADD CONSTRAINT instance_move_pkey PRIMARY KEY (from_state, to_state);

ALTER TABLE ONLY public.instance
    ADD CONSTRAINT instance_org_id_id_key UNIQUE (org_id, id);

ALTER TABLE ONLY public.instance
    ADD CONSTRAINT instance_org_id_project_id_id_key UNIQUE (org_id, project_id, id);

ALTER TABLE ONLY public.instance
    ADD CONSTRAINT instance_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.job_attempt
    ADD CONSTRAINT job_attempt_pkey PRIMARY KEY (job_id, number);

ALTER TABLE ONLY public.job_move
    ADD CONSTRAINT job_move_pkey PRIMARY KEY (from_state, to_state);

ALTER TABLE ONLY public.job
    ADD CONSTRAINT job_org_id_id_key UNIQUE (org_id, id);

ALTER TABLE ONLY public.job
    ADD CONSTRAINT job_org_id_project_id_id_key UNIQUE (org_id, project_id, id);

ALTER TABLE ONLY public.job
    ADD CONSTRAINT job_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.leader
    ADD CONSTRAINT leader_pkey PRIMARY KEY (name);

ALTER TABLE ONLY public.membership
    ADD CONSTRAINT membership_pkey PRIMARY KEY (org_id, user_id);

ALTER TABLE ONLY public.node_certificate
    ADD CONSTRAINT node_certificate_pkey PRIMARY KEY (serial);

ALTER TABLE ONLY public.node_connection
    ADD CONSTRAINT node_connection_pkey PRIMARY KEY (node_id, replica_id);

ALTER TABLE ONLY public.node_join_token
    ADD CONSTRAINT node_join_token_pkey PRIMARY KEY (hash);

ALTER TABLE ONLY public.node
    ADD CONSTRAINT node_name_key UNIQUE (name);

ALTER TABLE ONLY public.node
    ADD CONSTRAINT node_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.node_removal
    ADD CONSTRAINT node_removal_pkey PRIMARY KEY (node_id, what);

ALTER TABLE ONLY public.observation
    ADD CONSTRAINT observation_pkey PRIMARY KEY (instance_id);

ALTER TABLE ONLY public.organisation
    ADD CONSTRAINT organisation_name_key UNIQUE (name);

ALTER TABLE ONLY public.organisation
    ADD CONSTRAINT organisation_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.placement_shape
    ADD CONSTRAINT placement_shape_pkey PRIMARY KEY (geometry, mode, profile, slots);

ALTER TABLE ONLY public.pool
    ADD CONSTRAINT pool_name_key UNIQUE (name);

ALTER TABLE ONLY public.pool
    ADD CONSTRAINT pool_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.price
    ADD CONSTRAINT price_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.price
    ADD CONSTRAINT price_sku_starts_at_key UNIQUE (sku, starts_at);

ALTER TABLE ONLY public.project
    ADD CONSTRAINT project_org_id_id_key UNIQUE (org_id, id);

ALTER TABLE ONLY public.project
    ADD CONSTRAINT project_org_id_name_key UNIQUE (org_id, name);

ALTER TABLE ONLY public.project
    ADD CONSTRAINT project_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.project_quota
    ADD CONSTRAINT project_quota_pkey PRIMARY KEY (project_id, resource);

ALTER TABLE ONLY public.registry_credential
    ADD CONSTRAINT registry_credential_org_id_id_key UNIQUE (org_id, id);

ALTER TABLE ONLY public.registry_credential
    ADD CONSTRAINT registry_credential_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.registry_credential
    ADD CONSTRAINT registry_credential_project_id_host_key UNIQUE (project_id, host);

ALTER TABLE ONLY public.replica
    ADD CONSTRAINT replica_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.sealed_key
    ADD CONSTRAINT sealed_key_pkey PRIMARY KEY (name);

ALTER TABLE ONLY public.segment
    ADD CONSTRAINT segment_org_id_id_key UNIQUE (org_id, id);

ALTER TABLE ONLY public.segment
    ADD CONSTRAINT segment_overlap EXCLUDE USING gist (instance_id WITH =, tstzrange(started_at, ended_at) WITH &&);

ALTER TABLE ONLY public.segment
    ADD CONSTRAINT segment_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.session
    ADD CONSTRAINT session_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.session
    ADD CONSTRAINT session_refresh_hash_key UNIQUE (refresh_hash);

ALTER TABLE ONLY public.usage_correction
    ADD CONSTRAINT usage_correction_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.volume
    ADD CONSTRAINT volume_org_id_id_key UNIQUE (org_id, id);

ALTER TABLE ONLY public.volume
    ADD CONSTRAINT volume_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.volume_segment
    ADD CONSTRAINT volume_segment_overlap EXCLUDE USING gist (volume_id WITH =, tstzrange(started_at, ended_at) WITH &&);

ALTER TABLE ONLY public.volume_segment
    ADD CONSTRAINT volume_segment_pkey PRIMARY KEY (id);

CREATE UNIQUE INDEX alarm_open ON public.alarm USING btree (key) WHERE (cleared_at IS NULL);

CREATE UNIQUE INDEX api_token_name ON public.api_token USING btree (org_id, user_id, name) WHERE (revoked_at IS NULL);

CREATE INDEX audit_org ON public.audit USING btree (org_id, seq);

CREATE INDEX event_stream ON public.event USING btree (project_id, xid, cursor);

CREATE UNIQUE INDEX flavor_name ON public.flavor USING btree (name) WHERE (retired_at IS NULL);

CREATE INDEX gpu_claim_fenced ON public.gpu_claim USING btree (gpu_id) WHERE fenced;

CREATE INDEX gpu_claim_instance ON public.gpu_claim USING btree (instance_id);

CREATE UNIQUE INDEX gpu_claim_media ON public.gpu_claim USING btree (gpu_id) WHERE (profile ~~ '%+me'::text);

CREATE INDEX gpu_claim_org ON public.gpu_claim USING btree (org_id);

CREATE INDEX gpu_faulted ON public.gpu USING btree (node_id) WHERE (faults <> '[]'::jsonb);

CREATE INDEX gpu_incident_gpu ON public.gpu_incident USING btree (gpu_id, at, id);

CREATE INDEX gpu_incident_untold ON public.gpu_incident USING btree (node_id, id) WHERE (NOT told);

CREATE INDEX gpu_node ON public.gpu USING btree (node_id);

CREATE INDEX gpu_stay_ended ON public.gpu_stay USING btree (ended_at) WHERE (ended_at IS NOT NULL);

CREATE INDEX gpu_stay_gpu ON public.gpu_stay USING btree (gpu_id, started_at, id);

CREATE INDEX gpu_stay_instance ON public.gpu_stay USING btree (instance_id);

CREATE UNIQUE INDEX gpu_stay_open ON public.gpu_stay USING btree (claim_id) WHERE (ended_at IS NULL);

CREATE INDEX gpu_stay_uuid ON public.gpu_stay USING btree (gpu_uuid, started_at);

CREATE INDEX gpu_uuid ON public.gpu USING btree (uuid);

CREATE INDEX gpu_wished ON public.gpu USING btree (node_id) WHERE ((desired_mode IS NOT NULL) OR (recover > 0));

CREATE INDEX idempotency_age ON public.idempotency USING btree (created_at);

CREATE UNIQUE INDEX image_name ON public.image USING btree (org_id, name) WHERE (deleted_at IS NULL);

CREATE INDEX instance_deadline ON public.instance USING btree (deadline_at) WHERE (deadline_at IS NOT NULL);

CREATE INDEX instance_image ON public.instance USING btree (image_id) WHERE (state <> 'deleted'::text);

CREATE UNIQUE INDEX instance_job_rank ON public.instance USING btree (job_id, job_rank) WHERE (job_id IS NOT NULL);

CREATE UNIQUE INDEX instance_name ON public.instance USING btree (project_id, name) WHERE (state <> 'deleted'::text);

CREATE INDEX instance_node ON public.instance USING btree (node_id) WHERE (node_id IS NOT NULL);

CREATE INDEX instance_notebook ON public.instance USING btree (id) WHERE ((kind = 'notebook'::text) AND (state = 'running'::text));

CREATE INDEX instance_project ON public.instance USING btree (project_id, id);

CREATE INDEX instance_queue ON public.instance USING btree (queued_at, id) WHERE (state = 'queued'::text);

CREATE INDEX instance_unmetered ON public.instance USING btree (id) WHERE (metered_seq < event_seq);

CREATE INDEX instance_unsettled ON public.instance USING btree (id) WHERE (((desired_state = 'stopped'::text) AND (state = ANY (ARRAY['queued'::text, 'starting'::text, 'running'::text]))) OR ((desired_state = 'deleted'::text) AND (state = ANY (ARRAY['queued'::text, 'starting'::text, 'running'::text, 'stopping'::text, 'stopped'::text, 'failed'::text]))));

CREATE INDEX job_image ON public.job USING btree (image_id) WHERE (state <> 'deleted'::text);

CREATE UNIQUE INDEX job_name ON public.job USING btree (project_id, name) WHERE (state <> 'deleted'::text);

CREATE INDEX job_project ON public.job USING btree (project_id, id);

CREATE INDEX job_unsettled ON public.job USING btree (id) WHERE ((state = ANY (ARRAY['queued'::text, 'starting'::text, 'running'::text])) OR ((desired_state = 'deleted'::text) AND (state <> 'deleted'::text)));

CREATE INDEX membership_user ON public.membership USING btree (user_id);

CREATE INDEX node_certificate_node ON public.node_certificate USING btree (node_id);

CREATE INDEX node_fenced ON public.node USING btree (id) WHERE (fenced_at IS NOT NULL);

CREATE INDEX observation_node ON public.observation USING btree (node_id);

CREATE INDEX observation_unhandled ON public.observation USING btree (instance_id) WHERE (handled_seq < seq);

CREATE INDEX segment_open ON public.segment USING btree (instance_id) WHERE (ended_at IS NULL);

CREATE INDEX segment_project ON public.segment USING btree (project_id, started_at);

CREATE INDEX session_of_user ON public.session USING btree (user_id);

CREATE INDEX session_previous ON public.session USING btree (previous_hash) WHERE (previous_hash IS NOT NULL);

CREATE INDEX usage_correction_segment ON public.usage_correction USING btree (segment_id);

CREATE INDEX volume_node ON public.volume USING btree (node_id) WHERE ((node_id IS NOT NULL) AND (state <> 'deleted'::text));

CREATE UNIQUE INDEX volume_of_instance ON public.volume USING btree (instance_id, role) WHERE (state <> 'deleted'::text);

CREATE INDEX volume_project ON public.volume USING btree (project_id, id);

CREATE INDEX volume_segment_open ON public.volume_segment USING btree (volume_id) WHERE (ended_at IS NULL);

CREATE INDEX volume_segment_project ON public.volume_segment USING btree (project_id, started_at);

CREATE INDEX volume_unsettled ON public.volume USING btree (id) WHERE (((state = 'pending'::text) AND (said = 'present'::text)) OR ((state = 'present'::text) AND (said = ANY (ARRAY['gone'::text, 'failed'::text]))) OR ((state = 'deleting'::text) AND (said = 'gone'::text)) OR ((state = 'present'::text) AND (charged_mib IS DISTINCT FROM size_mib)) OR ((state <> 'present'::text) AND (charged_mib IS NOT NULL)));

CREATE TRIGGER gpu_stay_made AFTER INSERT ON public.gpu_claim REFERENCING NEW TABLE AS made FOR EACH STATEMENT EXECUTE FUNCTION public.gpu_stay_keep();

CREATE TRIGGER gpu_stay_moved AFTER UPDATE ON public.gpu_claim REFERENCING OLD TABLE AS was NEW TABLE AS made FOR EACH STATEMENT EXECUTE FUNCTION public.gpu_stay_keep();

CREATE TRIGGER gpu_stay_over AFTER DELETE ON public.gpu_claim REFERENCING OLD TABLE AS was FOR EACH STATEMENT EXECUTE FUNCTION public.gpu_stay_keep();

CREATE TRIGGER gpu_wish_guard BEFORE INSERT OR UPDATE ON public.gpu FOR EACH ROW EXECUTE FUNCTION public.gpu_wish_guard();

CREATE TRIGGER instance_guard BEFORE UPDATE ON public.instance FOR EACH ROW EXECUTE FUNCTION public.instance_guard();

CREATE TRIGGER job_guard BEFORE UPDATE ON public.job FOR EACH ROW EXECUTE FUNCTION public.job_guard();

CREATE TRIGGER price_guard BEFORE DELETE OR UPDATE ON public.price FOR EACH ROW EXECUTE FUNCTION public.price_guard();

CREATE TRIGGER project_quota_guard BEFORE UPDATE ON public.project_quota FOR EACH ROW EXECUTE FUNCTION public.project_quota_guard();

CREATE TRIGGER segment_guard BEFORE DELETE OR UPDATE ON public.segment FOR EACH ROW EXECUTE FUNCTION public.segment_guard();

CREATE TRIGGER segment_guard BEFORE DELETE OR UPDATE ON public.volume_segment FOR EACH ROW EXECUTE FUNCTION public.segment_guard();

CREATE TRIGGER volume_guard BEFORE UPDATE ON public.volume FOR EACH ROW EXECUTE FUNCTION public.volume_guard();

ALTER TABLE ONLY public.api_token
    ADD CONSTRAINT api_token_org_id_user_id_fkey FOREIGN KEY (org_id, user_id) REFERENCES public.membership(org_id, user_id) ON DELETE CASCADE;

ALTER TABLE ONLY public.audit
    ADD CONSTRAINT audit_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.organisation(id);

ALTER TABLE ONLY public.event
    ADD CONSTRAINT event_org_id_project_id_fkey FOREIGN KEY (org_id, project_id) REFERENCES public.project(org_id, id);

ALTER TABLE ONLY public.gpu_claim
    ADD CONSTRAINT gpu_claim_geometry_mode_profile_slots_fkey FOREIGN KEY (geometry, mode, profile, slots) REFERENCES public.placement_shape(geometry, mode, profile, slots);

ALTER TABLE ONLY public.gpu_claim
    ADD CONSTRAINT gpu_claim_gpu_id_mode_geometry_fkey FOREIGN KEY (gpu_id, mode, geometry) REFERENCES public.gpu(id, mode, geometry);

ALTER TABLE ONLY public.gpu_claim
    ADD CONSTRAINT gpu_claim_org_id_project_id_instance_id_fkey FOREIGN KEY (org_id, project_id, instance_id) REFERENCES public.instance(org_id, project_id, id);

ALTER TABLE ONLY public.gpu_excluded
    ADD CONSTRAINT gpu_excluded_node_id_fkey FOREIGN KEY (node_id) REFERENCES public.node(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.gpu_incident
    ADD CONSTRAINT gpu_incident_gpu_id_fkey FOREIGN KEY (gpu_id) REFERENCES public.gpu(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.gpu_incident
    ADD CONSTRAINT gpu_incident_node_id_fkey FOREIGN KEY (node_id) REFERENCES public.node(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.gpu
    ADD CONSTRAINT gpu_node_id_fkey FOREIGN KEY (node_id) REFERENCES public.node(id);

ALTER TABLE ONLY public.gpu_partition
    ADD CONSTRAINT gpu_partition_node_id_fkey FOREIGN KEY (node_id) REFERENCES public.node(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.gpu_stay
    ADD CONSTRAINT gpu_stay_org_id_project_id_instance_id_fkey FOREIGN KEY (org_id, project_id, instance_id) REFERENCES public.instance(org_id, project_id, id);

ALTER TABLE ONLY public.gpu
    ADD CONSTRAINT gpu_wished_by_fkey FOREIGN KEY (wished_by) REFERENCES public.app_user(id);

ALTER TABLE ONLY public.idempotency
    ADD CONSTRAINT idempotency_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.organisation(id);

ALTER TABLE ONLY public.image
    ADD CONSTRAINT image_org_id_credential_id_fkey FOREIGN KEY (org_id, credential_id) REFERENCES public.registry_credential(org_id, id) ON DELETE SET NULL (credential_id);

ALTER TABLE ONLY public.image
    ADD CONSTRAINT image_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.organisation(id);

ALTER TABLE ONLY public.instance
    ADD CONSTRAINT instance_created_by_fkey FOREIGN KEY (created_by) REFERENCES public.app_user(id);

ALTER TABLE ONLY public.instance
    ADD CONSTRAINT instance_flavor_id_fkey FOREIGN KEY (flavor_id) REFERENCES public.flavor(id);

ALTER TABLE ONLY public.instance
    ADD CONSTRAINT instance_image_org_id_image_id_fkey FOREIGN KEY (image_org_id, image_id) REFERENCES public.image(org_id, id);

ALTER TABLE ONLY public.instance
    ADD CONSTRAINT instance_job FOREIGN KEY (org_id, project_id, job_id) REFERENCES public.job(org_id, project_id, id);

ALTER TABLE ONLY public.instance
    ADD CONSTRAINT instance_node_id_fkey FOREIGN KEY (node_id) REFERENCES public.node(id);

ALTER TABLE ONLY public.instance
    ADD CONSTRAINT instance_org_id_project_id_fkey FOREIGN KEY (org_id, project_id) REFERENCES public.project(org_id, id);

ALTER TABLE ONLY public.instance
    ADD CONSTRAINT instance_pool_id_fkey FOREIGN KEY (pool_id) REFERENCES public.pool(id);

ALTER TABLE ONLY public.job_attempt
    ADD CONSTRAINT job_attempt_org_id_project_id_job_id_fkey FOREIGN KEY (org_id, project_id, job_id) REFERENCES public.job(org_id, project_id, id);

ALTER TABLE ONLY public.job
    ADD CONSTRAINT job_created_by_fkey FOREIGN KEY (created_by) REFERENCES public.app_user(id);

ALTER TABLE ONLY public.job
    ADD CONSTRAINT job_flavor_id_fkey FOREIGN KEY (flavor_id) REFERENCES public.flavor(id);

ALTER TABLE ONLY public.job
    ADD CONSTRAINT job_image_org_id_image_id_fkey FOREIGN KEY (image_org_id, image_id) REFERENCES public.image(org_id, id);

ALTER TABLE ONLY public.job
    ADD CONSTRAINT job_org_id_project_id_fkey FOREIGN KEY (org_id, project_id) REFERENCES public.project(org_id, id);

ALTER TABLE ONLY public.job
    ADD CONSTRAINT job_pool_id_fkey FOREIGN KEY (pool_id) REFERENCES public.pool(id);

ALTER TABLE ONLY public.membership
    ADD CONSTRAINT membership_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.organisation(id);

ALTER TABLE ONLY public.membership
    ADD CONSTRAINT membership_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.app_user(id);

ALTER TABLE ONLY public.node_certificate
    ADD CONSTRAINT node_certificate_node_id_fkey FOREIGN KEY (node_id) REFERENCES public.node(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.node_connection
    ADD CONSTRAINT node_connection_node_id_fkey FOREIGN KEY (node_id) REFERENCES public.node(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.node_connection
    ADD CONSTRAINT node_connection_replica_id_fkey FOREIGN KEY (replica_id) REFERENCES public.replica(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.node
    ADD CONSTRAINT node_fenced_by_fkey FOREIGN KEY (fenced_by) REFERENCES public.app_user(id);

ALTER TABLE ONLY public.node_join_token
    ADD CONSTRAINT node_join_token_created_by_fkey FOREIGN KEY (created_by) REFERENCES public.app_user(id);

ALTER TABLE ONLY public.node_join_token
    ADD CONSTRAINT node_join_token_node_id_fkey FOREIGN KEY (node_id) REFERENCES public.node(id) ON DELETE SET NULL;

ALTER TABLE ONLY public.node_join_token
    ADD CONSTRAINT node_join_token_pool_id_fkey FOREIGN KEY (pool_id) REFERENCES public.pool(id);

ALTER TABLE ONLY public.node
    ADD CONSTRAINT node_pool_id_fkey FOREIGN KEY (pool_id) REFERENCES public.pool(id);

ALTER TABLE ONLY public.node_removal
    ADD CONSTRAINT node_removal_asked_by_fkey FOREIGN KEY (asked_by) REFERENCES public.app_user(id);

ALTER TABLE ONLY public.node_removal
    ADD CONSTRAINT node_removal_node_id_fkey FOREIGN KEY (node_id) REFERENCES public.node(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.observation
    ADD CONSTRAINT observation_instance_id_fkey FOREIGN KEY (instance_id) REFERENCES public.instance(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.observation
    ADD CONSTRAINT observation_node_id_fkey FOREIGN KEY (node_id) REFERENCES public.node(id);

ALTER TABLE ONLY public.project
    ADD CONSTRAINT project_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.organisation(id);

ALTER TABLE ONLY public.project_quota
    ADD CONSTRAINT project_quota_org_id_project_id_fkey FOREIGN KEY (org_id, project_id) REFERENCES public.project(org_id, id);

ALTER TABLE ONLY public.registry_credential
    ADD CONSTRAINT registry_credential_created_by_fkey FOREIGN KEY (created_by) REFERENCES public.app_user(id);

ALTER TABLE ONLY public.registry_credential
    ADD CONSTRAINT registry_credential_org_id_project_id_fkey FOREIGN KEY (org_id, project_id) REFERENCES public.project(org_id, id);

ALTER TABLE ONLY public.segment
    ADD CONSTRAINT segment_org_id_project_id_instance_id_fkey FOREIGN KEY (org_id, project_id, instance_id) REFERENCES public.instance(org_id, project_id, id);

ALTER TABLE ONLY public.session
    ADD CONSTRAINT session_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.app_user(id);

ALTER TABLE ONLY public.usage_correction
    ADD CONSTRAINT usage_correction_org_id_segment_id_fkey FOREIGN KEY (org_id, segment_id) REFERENCES public.segment(org_id, id);

ALTER TABLE ONLY public.volume
    ADD CONSTRAINT volume_node_id_fkey FOREIGN KEY (node_id) REFERENCES public.node(id);

ALTER TABLE ONLY public.volume
    ADD CONSTRAINT volume_org_id_project_id_instance_id_fkey FOREIGN KEY (org_id, project_id, instance_id) REFERENCES public.instance(org_id, project_id, id);

ALTER TABLE ONLY public.volume_segment
    ADD CONSTRAINT volume_segment_org_id_project_id_instance_id_fkey FOREIGN KEY (org_id, project_id, instance_id) REFERENCES public.instance(org_id, project_id, id);

ALTER TABLE ONLY public.volume_segment
    ADD CONSTRAINT volume_segment_org_id_volume_id_fkey FOREIGN KEY (org_id, volume_id) REFERENCES public.volume(org_id, id);

ALTER TABLE public.alarm ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.api_token ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.app_user ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.audit ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.event ENABLE ROW LEVEL SECURITY;

CREATE POLICY expire ON public.gpu_stay FOR DELETE TO tenon_system USING (true);

ALTER TABLE public.gpu ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.gpu_claim ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.gpu_excluded ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.gpu_incident ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.gpu_partition ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.gpu_stay ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.idempotency ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.image ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.instance ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.job ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.job_attempt ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.membership ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.node ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.node_certificate ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.node_connection ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.node_removal ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.observation ENABLE ROW LEVEL SECURITY;

CREATE POLICY offered ON public.image FOR SELECT TO tenon_api USING ((org_id = '00000000-0000-7000-8000-000000000000'::uuid));

CREATE POLICY operator ON public.alarm FOR SELECT TO tenon_api USING (( SELECT public.is_operator() AS is_operator));

CREATE POLICY operator ON public.gpu FOR SELECT TO tenon_api USING (( SELECT public.is_operator() AS is_operator));

CREATE POLICY operator ON public.gpu_claim FOR SELECT TO tenon_api USING (( SELECT public.is_operator() AS is_operator));

CREATE POLICY operator ON public.gpu_excluded FOR SELECT TO tenon_api USING (( SELECT public.is_operator() AS is_operator));

CREATE POLICY operator ON public.gpu_incident FOR SELECT TO tenon_api USING (( SELECT public.is_operator() AS is_operator));

CREATE POLICY operator ON public.gpu_partition FOR SELECT TO tenon_api USING (( SELECT public.is_operator() AS is_operator));

CREATE POLICY operator ON public.gpu_stay FOR SELECT TO tenon_api USING (( SELECT public.is_operator() AS is_operator));

CREATE POLICY operator ON public.instance FOR SELECT TO tenon_api USING (( SELECT public.is_operator() AS is_operator));

CREATE POLICY operator ON public.job FOR SELECT TO tenon_api USING (( SELECT public.is_operator() AS is_operator));

CREATE POLICY operator ON public.membership FOR SELECT TO tenon_api USING (( SELECT public.is_operator() AS is_operator));

CREATE POLICY operator ON public.node FOR SELECT TO tenon_api USING (( SELECT public.is_operator() AS is_operator));

CREATE POLICY operator ON public.node_certificate FOR SELECT TO tenon_api USING (( SELECT public.is_operator() AS is_operator));

CREATE POLICY operator ON public.node_connection FOR SELECT TO tenon_api USING (( SELECT public.is_operator() AS is_operator));

CREATE POLICY operator ON public.node_removal FOR SELECT TO tenon_api USING (( SELECT public.is_operator() AS is_operator));

CREATE POLICY operator ON public.organisation FOR SELECT TO tenon_api USING (( SELECT public.is_operator() AS is_operator));

CREATE POLICY operator ON public.project FOR SELECT TO tenon_api USING (( SELECT public.is_operator() AS is_operator));

CREATE POLICY operator ON public.project_quota FOR SELECT TO tenon_api USING (( SELECT public.is_operator() AS is_operator));

CREATE POLICY operator ON public.replica FOR SELECT TO tenon_api USING (( SELECT public.is_operator() AS is_operator));

CREATE POLICY operator ON public.volume FOR SELECT TO tenon_api USING (( SELECT public.is_operator() AS is_operator));

CREATE POLICY operator_ask ON public.node_removal FOR INSERT TO tenon_api WITH CHECK (( SELECT public.is_operator() AS is_operator));

CREATE POLICY operator_audit ON public.audit FOR INSERT TO tenon_api WITH CHECK (( SELECT public.is_operator() AS is_operator));

CREATE POLICY operator_change ON public.alarm FOR UPDATE TO tenon_api USING (( SELECT public.is_operator() AS is_operator));

CREATE POLICY operator_change ON public.gpu FOR UPDATE TO tenon_api USING (( SELECT public.is_operator() AS is_operator));

CREATE POLICY operator_change ON public.node FOR UPDATE TO tenon_api USING (( SELECT public.is_operator() AS is_operator));

CREATE POLICY operator_change ON public.node_certificate FOR UPDATE TO tenon_api USING (( SELECT public.is_operator() AS is_operator));

CREATE POLICY operator_change ON public.project_quota FOR UPDATE TO tenon_api USING (( SELECT public.is_operator() AS is_operator));

CREATE POLICY operator_make ON public.membership FOR INSERT TO tenon_api WITH CHECK (( SELECT public.is_operator() AS is_operator));

CREATE POLICY operator_make ON public.organisation FOR INSERT TO tenon_api WITH CHECK (( SELECT public.is_operator() AS is_operator));

CREATE POLICY operator_make ON public.project FOR INSERT TO tenon_api WITH CHECK (( SELECT public.is_operator() AS is_operator));

CREATE POLICY operator_make ON public.project_quota FOR INSERT TO tenon_api WITH CHECK (( SELECT public.is_operator() AS is_operator));

CREATE POLICY operator_write ON public.image TO tenon_api USING ((( SELECT public.is_operator() AS is_operator) AND (org_id = '00000000-0000-7000-8000-000000000000'::uuid))) WITH CHECK ((( SELECT public.is_operator() AS is_operator) AND (org_id = '00000000-0000-7000-8000-000000000000'::uuid)));

ALTER TABLE public.organisation ENABLE ROW LEVEL SECURITY;

CREATE POLICY own ON public.gpu TO tenon_node USING ((node_id = ( SELECT public.current_node() AS current_node))) WITH CHECK ((node_id = ( SELECT public.current_node() AS current_node)));

CREATE POLICY own ON public.gpu_claim FOR SELECT TO tenon_node USING ((gpu_id IN ( SELECT gpu.id
   FROM public.gpu
  WHERE (gpu.node_id = ( SELECT public.current_node() AS current_node)))));

CREATE POLICY own ON public.gpu_excluded TO tenon_node USING ((node_id = ( SELECT public.current_node() AS current_node))) WITH CHECK ((node_id = ( SELECT public.current_node() AS current_node)));

CREATE POLICY own ON public.gpu_incident TO tenon_node USING ((node_id = ( SELECT public.current_node() AS current_node))) WITH CHECK ((node_id = ( SELECT public.current_node() AS current_node)));

CREATE POLICY own ON public.gpu_partition TO tenon_node USING ((node_id = ( SELECT public.current_node() AS current_node))) WITH CHECK ((node_id = ( SELECT public.current_node() AS current_node)));

CREATE POLICY own ON public.image FOR SELECT TO tenon_node USING ((id IN ( SELECT instance.image_id
   FROM public.instance
  WHERE (instance.node_id = ( SELECT public.current_node() AS current_node)))));

CREATE POLICY own ON public.instance FOR SELECT TO tenon_node USING ((node_id = ( SELECT public.current_node() AS current_node)));

CREATE POLICY own ON public.job FOR SELECT TO tenon_node USING ((id IN ( SELECT instance.job_id
   FROM public.instance
  WHERE (instance.node_id = ( SELECT public.current_node() AS current_node)))));

CREATE POLICY own ON public.node TO tenon_node USING ((id = ( SELECT public.current_node() AS current_node))) WITH CHECK ((id = ( SELECT public.current_node() AS current_node)));

CREATE POLICY own ON public.node_certificate TO tenon_node USING ((node_id = ( SELECT public.current_node() AS current_node))) WITH CHECK ((node_id = ( SELECT public.current_node() AS current_node)));

CREATE POLICY own ON public.node_removal FOR SELECT TO tenon_node USING ((node_id = ( SELECT public.current_node() AS current_node)));

CREATE POLICY own ON public.observation TO tenon_node USING ((node_id = ( SELECT public.current_node() AS current_node))) WITH CHECK (((node_id = ( SELECT public.current_node() AS current_node)) AND (instance_id IN ( SELECT instance.id
   FROM public.instance
  WHERE (instance.node_id = ( SELECT public.current_node() AS current_node))))));

CREATE POLICY own ON public.registry_credential FOR SELECT TO tenon_node USING ((id IN ( SELECT m.credential_id
   FROM (public.image m
     JOIN public.instance i ON (((i.image_org_id = m.org_id) AND (i.image_id = m.id))))
  WHERE (i.node_id = ( SELECT public.current_node() AS current_node)))));

CREATE POLICY own ON public.volume TO tenon_node USING ((node_id = ( SELECT public.current_node() AS current_node))) WITH CHECK ((node_id = ( SELECT public.current_node() AS current_node)));

ALTER TABLE public.project ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.project_quota ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.registry_credential ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.replica ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.segment ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.session ENABLE ROW LEVEL SECURITY;

CREATE POLICY system ON public.alarm TO tenon_system USING (true) WITH CHECK (true);

CREATE POLICY system ON public.api_token TO tenon_system USING (true) WITH CHECK (true);

CREATE POLICY system ON public.app_user TO tenon_system USING (true) WITH CHECK (true);

CREATE POLICY system ON public.audit TO tenon_system USING (true) WITH CHECK (true);

CREATE POLICY system ON public.event TO tenon_system USING (true) WITH CHECK (true);

CREATE POLICY system ON public.gpu TO tenon_system USING (true) WITH CHECK (true);

CREATE POLICY system ON public.gpu_claim TO tenon_system USING (true) WITH CHECK (true);

CREATE POLICY system ON public.gpu_excluded TO tenon_system USING (true) WITH CHECK (true);

CREATE POLICY system ON public.gpu_incident TO tenon_system USING (true) WITH CHECK (true);

CREATE POLICY system ON public.gpu_partition TO tenon_system USING (true) WITH CHECK (true);

CREATE POLICY system ON public.gpu_stay FOR SELECT TO tenon_system USING (true);

CREATE POLICY system ON public.idempotency TO tenon_system USING (true) WITH CHECK (true);

CREATE POLICY system ON public.image TO tenon_system USING (true) WITH CHECK (true);

CREATE POLICY system ON public.instance TO tenon_system USING (true) WITH CHECK (true);

CREATE POLICY system ON public.job TO tenon_system USING (true) WITH CHECK (true);

CREATE POLICY system ON public.job_attempt TO tenon_system USING (true) WITH CHECK (true);

CREATE POLICY system ON public.membership TO tenon_system USING (true) WITH CHECK (true);

CREATE POLICY system ON public.node TO tenon_system USING (true) WITH CHECK (true);

CREATE POLICY system ON public.node_certificate TO tenon_system USING (true) WITH CHECK (true);

CREATE POLICY system ON public.node_connection TO tenon_system USING (true) WITH CHECK (true);

CREATE POLICY system ON public.node_removal TO tenon_system USING (true) WITH CHECK (true);

CREATE POLICY system ON public.observation TO tenon_system USING (true) WITH CHECK (true);

CREATE POLICY system ON public.organisation TO tenon_system USING (true) WITH CHECK (true);

CREATE POLICY system ON public.project TO tenon_system USING (true) WITH CHECK (true);

CREATE POLICY system ON public.project_quota TO tenon_system USING (true) WITH CHECK (true);

CREATE POLICY system ON public.registry_credential TO tenon_system USING (true) WITH CHECK (true);

CREATE POLICY system ON public.replica TO tenon_system USING (true) WITH CHECK (true);

CREATE POLICY system ON public.segment TO tenon_system USING (true) WITH CHECK (true);

CREATE POLICY system ON public.session TO tenon_system USING (true) WITH CHECK (true);

CREATE POLICY system ON public.usage_correction TO tenon_system USING (true) WITH CHECK (true);

CREATE POLICY system ON public.volume TO tenon_system USING (true) WITH CHECK (true);

CREATE POLICY system ON public.volume_segment TO tenon_system USING (true) WITH CHECK (true);

CREATE POLICY tenant ON public.api_token TO tenon_api USING ((org_id = ( SELECT public.current_org() AS current_org))) WITH CHECK ((org_id = ( SELECT public.current_org() AS current_org)));

CREATE POLICY tenant ON public.app_user FOR SELECT TO tenon_api USING ((EXISTS ( SELECT
   FROM public.membership m
  WHERE ((m.org_id = ( SELECT public.current_org() AS current_org)) AND (m.user_id = app_user.id)))));

CREATE POLICY tenant ON public.audit TO tenon_api USING ((org_id = ( SELECT public.current_org() AS current_org))) WITH CHECK ((org_id = ( SELECT public.current_org() AS current_org)));

CREATE POLICY tenant ON public.event TO tenon_api USING ((org_id = ( SELECT public.current_org() AS current_org))) WITH CHECK ((org_id = ( SELECT public.current_org() AS current_org)));

CREATE POLICY tenant ON public.gpu_claim TO tenon_api USING ((org_id = ( SELECT public.current_org() AS current_org))) WITH CHECK ((org_id = ( SELECT public.current_org() AS current_org)));

CREATE POLICY tenant ON public.gpu_stay FOR SELECT TO tenon_api USING ((org_id = ( SELECT public.current_org() AS current_org)));

CREATE POLICY tenant ON public.idempotency TO tenon_api USING ((org_id = ( SELECT public.current_org() AS current_org))) WITH CHECK ((org_id = ( SELECT public.current_org() AS current_org)));

CREATE POLICY tenant ON public.image TO tenon_api USING ((org_id = ( SELECT public.current_org() AS current_org))) WITH CHECK ((org_id = ( SELECT public.current_org() AS current_org)));

CREATE POLICY tenant ON public.instance TO tenon_api USING ((org_id = ( SELECT public.current_org() AS current_org))) WITH CHECK ((org_id = ( SELECT public.current_org() AS current_org)));

CREATE POLICY tenant ON public.job TO tenon_api USING ((org_id = ( SELECT public.current_org() AS current_org))) WITH CHECK ((org_id = ( SELECT public.current_org() AS current_org)));

CREATE POLICY tenant ON public.job_attempt TO tenon_api USING ((org_id = ( SELECT public.current_org() AS current_org))) WITH CHECK ((org_id = ( SELECT public.current_org() AS current_org)));

CREATE POLICY tenant ON public.membership TO tenon_api USING ((org_id = ( SELECT public.current_org() AS current_org))) WITH CHECK ((org_id = ( SELECT public.current_org() AS current_org)));

CREATE POLICY tenant ON public.organisation FOR SELECT TO tenon_api USING ((id = ( SELECT public.current_org() AS current_org)));

CREATE POLICY tenant ON public.project TO tenon_api USING ((org_id = ( SELECT public.current_org() AS current_org))) WITH CHECK ((org_id = ( SELECT public.current_org() AS current_org)));

CREATE POLICY tenant ON public.project_quota TO tenon_api USING ((org_id = ( SELECT public.current_org() AS current_org))) WITH CHECK ((org_id = ( SELECT public.current_org() AS current_org)));

CREATE POLICY tenant ON public.registry_credential TO tenon_api USING ((org_id = ( SELECT public.current_org() AS current_org))) WITH CHECK ((org_id = ( SELECT public.current_org() AS current_org)));

CREATE POLICY tenant ON public.segment TO tenon_api USING ((org_id = ( SELECT public.current_org() AS current_org))) WITH CHECK ((org_id = ( SELECT public.current_org() AS current_org)));

CREATE POLICY tenant ON public.usage_correction TO tenon_api USING ((org_id = ( SELECT public.current_org() AS current_org))) WITH CHECK ((org_id = ( SELECT public.current_org() AS current_org)));

CREATE POLICY tenant ON public.volume TO tenon_api USING ((org_id = ( SELECT public.current_org() AS current_org))) WITH CHECK ((org_id = ( SELECT public.current_org() AS current_org)));

CREATE POLICY tenant ON public.volume_segment TO tenon_api USING ((org_id = ( SELECT public.current_org() AS current_org))) WITH CHECK ((org_id = ( SELECT public.current_org() AS current_org)));

ALTER TABLE public.usage_correction ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.volume ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.volume_segment ENABLE ROW LEVEL SECURITY;

REVOKE USAGE ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO tenon_api;
GRANT USAGE ON SCHEMA public TO tenon_system;
GRANT USAGE ON SCHEMA public TO tenon_node;

REVOKE ALL ON FUNCTION public.auth_memberships(wanted uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION public.auth_memberships(wanted uuid) TO tenon_api;
GRANT ALL ON FUNCTION public.auth_memberships(wanted uuid) TO tenon_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.organisation TO tenon_system;
GRANT SELECT,INSERT ON TABLE public.organisation TO tenon_api;

REVOKE ALL ON FUNCTION public.auth_organisations(wanted uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION public.auth_organisations(wanted uuid) TO tenon_api;
GRANT ALL ON FUNCTION public.auth_organisations(wanted uuid) TO tenon_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.session TO tenon_system;

REVOKE ALL ON FUNCTION public.auth_session_by_refresh(wanted bytea) FROM PUBLIC;
GRANT ALL ON FUNCTION public.auth_session_by_refresh(wanted bytea) TO tenon_api;
GRANT ALL ON FUNCTION public.auth_session_by_refresh(wanted bytea) TO tenon_system;

REVOKE ALL ON FUNCTION public.auth_session_live(of_session uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION public.auth_session_live(of_session uuid) TO tenon_api;
GRANT ALL ON FUNCTION public.auth_session_live(of_session uuid) TO tenon_system;

REVOKE ALL ON FUNCTION public.auth_session_open(new_id uuid, of_user uuid, hash bytea, until timestamp with time zone, agent text, from_address text) FROM PUBLIC;
GRANT ALL ON FUNCTION public.auth_session_open(new_id uuid, of_user uuid, hash bytea, until timestamp with time zone, agent text, from_address text) TO tenon_api;
GRANT ALL ON FUNCTION public.auth_session_open(new_id uuid, of_user uuid, hash bytea, until timestamp with time zone, agent text, from_address text) TO tenon_system;

REVOKE ALL ON FUNCTION public.auth_session_revoke(of_session uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION public.auth_session_revoke(of_session uuid) TO tenon_api;
GRANT ALL ON FUNCTION public.auth_session_revoke(of_session uuid) TO tenon_system;

REVOKE ALL ON FUNCTION public.auth_session_rotate(of_session uuid, new_hash bytea, until timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION public.auth_session_rotate(of_session uuid, new_hash bytea, until timestamp with time zone) TO tenon_api;
GRANT ALL ON FUNCTION public.auth_session_rotate(of_session uuid, new_hash bytea, until timestamp with time zone) TO tenon_system;

REVOKE ALL ON FUNCTION public.auth_token(wanted bytea) FROM PUBLIC;
GRANT ALL ON FUNCTION public.auth_token(wanted bytea) TO tenon_api;
GRANT ALL ON FUNCTION public.auth_token(wanted bytea) TO tenon_system;

REVOKE ALL ON FUNCTION public.auth_token_by_id(wanted uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION public.auth_token_by_id(wanted uuid) TO tenon_api;
GRANT ALL ON FUNCTION public.auth_token_by_id(wanted uuid) TO tenon_system;

REVOKE ALL ON FUNCTION public.auth_token_used(used uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION public.auth_token_used(used uuid) TO tenon_api;
GRANT ALL ON FUNCTION public.auth_token_used(used uuid) TO tenon_system;

REVOKE ALL ON FUNCTION public.auth_user_by_email(wanted text) FROM PUBLIC;
GRANT ALL ON FUNCTION public.auth_user_by_email(wanted text) TO tenon_api;
GRANT ALL ON FUNCTION public.auth_user_by_email(wanted text) TO tenon_system;

REVOKE ALL ON FUNCTION public.auth_user_by_id(wanted uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION public.auth_user_by_id(wanted uuid) TO tenon_api;
GRANT ALL ON FUNCTION public.auth_user_by_id(wanted uuid) TO tenon_system;

REVOKE ALL ON FUNCTION public.auth_user_create(new_id uuid, new_email text, new_name text, new_hash text) FROM PUBLIC;
GRANT ALL ON FUNCTION public.auth_user_create(new_id uuid, new_email text, new_name text, new_hash text) TO tenon_api;
GRANT ALL ON FUNCTION public.auth_user_create(new_id uuid, new_email text, new_name text, new_hash text) TO tenon_system;

REVOKE ALL ON FUNCTION public.fleet_cards() FROM PUBLIC;
GRANT ALL ON FUNCTION public.fleet_cards() TO tenon_api;
GRANT ALL ON FUNCTION public.fleet_cards() TO tenon_system;

REVOKE ALL ON FUNCTION public.fleet_free() FROM PUBLIC;
GRANT ALL ON FUNCTION public.fleet_free() TO tenon_api;
GRANT ALL ON FUNCTION public.fleet_free() TO tenon_system;

REVOKE ALL ON FUNCTION public.fleet_kinds() FROM PUBLIC;
GRANT ALL ON FUNCTION public.fleet_kinds() TO tenon_api;
GRANT ALL ON FUNCTION public.fleet_kinds() TO tenon_system;

REVOKE ALL ON FUNCTION public.fleet_partitions() FROM PUBLIC;
GRANT ALL ON FUNCTION public.fleet_partitions() TO tenon_api;
GRANT ALL ON FUNCTION public.fleet_partitions() TO tenon_system;

REVOKE ALL ON FUNCTION public.gpu_figures() FROM PUBLIC;
GRANT ALL ON FUNCTION public.gpu_figures() TO tenon_api;
GRANT ALL ON FUNCTION public.gpu_figures() TO tenon_system;

REVOKE ALL ON FUNCTION public.gpu_forget(wanted uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION public.gpu_forget(wanted uuid) TO tenon_api;

REVOKE ALL ON FUNCTION public.gpu_stay_keep() FROM PUBLIC;

REVOKE ALL ON FUNCTION public.gpu_wish_guard() FROM PUBLIC;

REVOKE ALL ON FUNCTION public.gpus_held(seen text[]) FROM PUBLIC;
GRANT ALL ON FUNCTION public.gpus_held(seen text[]) TO tenon_node;

REVOKE ALL ON FUNCTION public.held_release(released uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION public.held_release(released uuid) TO tenon_api;
GRANT ALL ON FUNCTION public.held_release(released uuid) TO tenon_system;

REVOKE ALL ON FUNCTION public.held_start(started uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION public.held_start(started uuid) TO tenon_api;
GRANT ALL ON FUNCTION public.held_start(started uuid) TO tenon_system;

REVOKE ALL ON FUNCTION public.image_uses(wanted uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION public.image_uses(wanted uuid) TO tenon_api;
GRANT ALL ON FUNCTION public.image_uses(wanted uuid) TO tenon_system;

REVOKE ALL ON FUNCTION public.instance_devices(wanted uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION public.instance_devices(wanted uuid) TO tenon_api;
GRANT ALL ON FUNCTION public.instance_devices(wanted uuid) TO tenon_system;

REVOKE ALL ON FUNCTION public.node_told() FROM PUBLIC;
GRANT ALL ON FUNCTION public.node_told() TO tenon_node;

REVOKE ALL ON FUNCTION public.node_touch(touched uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION public.node_touch(touched uuid) TO tenon_api;

REVOKE ALL ON FUNCTION public.proven_until(wanted uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION public.proven_until(wanted uuid) TO tenon_api;
GRANT ALL ON FUNCTION public.proven_until(wanted uuid) TO tenon_system;

REVOKE ALL ON FUNCTION public.queue_length(of_pool uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION public.queue_length(of_pool uuid) TO tenon_api;
GRANT ALL ON FUNCTION public.queue_length(of_pool uuid) TO tenon_system;

REVOKE ALL ON FUNCTION public.queue_place(wanted uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION public.queue_place(wanted uuid) TO tenon_api;
GRANT ALL ON FUNCTION public.queue_place(wanted uuid) TO tenon_system;

REVOKE ALL ON FUNCTION public.silent_since(wanted uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION public.silent_since(wanted uuid) TO tenon_api;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.alarm TO tenon_system;
GRANT SELECT ON TABLE public.alarm TO tenon_api;

GRANT UPDATE(acknowledged_at) ON TABLE public.alarm TO tenon_api;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.api_token TO tenon_system;
GRANT SELECT,INSERT ON TABLE public.api_token TO tenon_api;

GRANT UPDATE(revoked_at) ON TABLE public.api_token TO tenon_api;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.app_user TO tenon_system;

GRANT SELECT(id) ON TABLE public.app_user TO tenon_api;

GRANT SELECT(email) ON TABLE public.app_user TO tenon_api;

GRANT SELECT(name) ON TABLE public.app_user TO tenon_api;

GRANT SELECT(operator) ON TABLE public.app_user TO tenon_api;

GRANT SELECT(disabled) ON TABLE public.app_user TO tenon_api;

GRANT SELECT(created_at) ON TABLE public.app_user TO tenon_api;

GRANT SELECT,INSERT ON TABLE public.audit TO tenon_system;
GRANT SELECT,INSERT ON TABLE public.audit TO tenon_api;

GRANT USAGE ON SEQUENCE public.audit_seq_seq TO tenon_system;
GRANT USAGE ON SEQUENCE public.audit_seq_seq TO tenon_api;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.cloud_state TO tenon_system;
GRANT SELECT ON TABLE public.cloud_state TO tenon_api;
GRANT SELECT ON TABLE public.cloud_state TO tenon_node;

GRANT SELECT,INSERT ON TABLE public.event TO tenon_system;
GRANT SELECT,INSERT ON TABLE public.event TO tenon_api;

GRANT USAGE ON SEQUENCE public.event_cursor_seq TO tenon_system;
GRANT USAGE ON SEQUENCE public.event_cursor_seq TO tenon_api;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.flavor TO tenon_system;
GRANT SELECT,INSERT,DELETE ON TABLE public.flavor TO tenon_api;

GRANT UPDATE(retired_at) ON TABLE public.flavor TO tenon_api;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.gpu TO tenon_system;
GRANT SELECT ON TABLE public.gpu TO tenon_api;
GRANT SELECT,INSERT ON TABLE public.gpu TO tenon_node;

GRANT UPDATE(uuid) ON TABLE public.gpu TO tenon_node;

GRANT UPDATE(index) ON TABLE public.gpu TO tenon_node;

GRANT UPDATE(model) ON TABLE public.gpu TO tenon_node;

GRANT UPDATE(geometry) ON TABLE public.gpu TO tenon_node;

GRANT UPDATE(mode) ON TABLE public.gpu TO tenon_node;

GRANT UPDATE(state) ON TABLE public.gpu TO tenon_node;

GRANT UPDATE(reason) ON TABLE public.gpu TO tenon_node;

GRANT UPDATE(memory_mib) ON TABLE public.gpu TO tenon_node;

GRANT UPDATE(numa_node) ON TABLE public.gpu TO tenon_node;

GRANT UPDATE(nvlink) ON TABLE public.gpu TO tenon_node;

GRANT UPDATE(simulated) ON TABLE public.gpu TO tenon_node;

GRANT UPDATE(updated_at) ON TABLE public.gpu TO tenon_node;

GRANT UPDATE(vendor) ON TABLE public.gpu TO tenon_node;

GRANT UPDATE(device) ON TABLE public.gpu TO tenon_node;

GRANT UPDATE(driver) ON TABLE public.gpu TO tenon_node;

GRANT UPDATE(modes) ON TABLE public.gpu TO tenon_node;

GRANT UPDATE(companions) ON TABLE public.gpu TO tenon_node;

GRANT UPDATE(bundle) ON TABLE public.gpu TO tenon_node;

GRANT UPDATE(vgpu_types) ON TABLE public.gpu TO tenon_node;

GRANT UPDATE(slices) ON TABLE public.gpu TO tenon_node;

GRANT UPDATE(missing) ON TABLE public.gpu TO tenon_node;

GRANT UPDATE(wish_reason) ON TABLE public.gpu TO tenon_node;

GRANT UPDATE(said_generation) ON TABLE public.gpu TO tenon_node;

GRANT UPDATE(recovered) ON TABLE public.gpu TO tenon_node;

GRANT UPDATE(desired_mode) ON TABLE public.gpu TO tenon_api;

GRANT UPDATE(desired_geometry) ON TABLE public.gpu TO tenon_api;

GRANT UPDATE(desired_layout) ON TABLE public.gpu TO tenon_api;

GRANT UPDATE(desired_shares) ON TABLE public.gpu TO tenon_api;

GRANT UPDATE(desired_vgpu_type) ON TABLE public.gpu TO tenon_api;

GRANT UPDATE(wish_generation) ON TABLE public.gpu TO tenon_api;

GRANT UPDATE(wished_at) ON TABLE public.gpu TO tenon_api;

GRANT UPDATE(wished_by) ON TABLE public.gpu TO tenon_api;

GRANT UPDATE(recover) ON TABLE public.gpu TO tenon_api;

GRANT UPDATE(not_for_vm) ON TABLE public.gpu TO tenon_node;

GRANT UPDATE(profiles) ON TABLE public.gpu TO tenon_node;

GRANT UPDATE(faults) ON TABLE public.gpu TO tenon_api;
GRANT UPDATE(faults) ON TABLE public.gpu TO tenon_node;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.gpu_claim TO tenon_system;
GRANT SELECT ON TABLE public.gpu_claim TO tenon_api;
GRANT SELECT ON TABLE public.gpu_claim TO tenon_node;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.gpu_excluded TO tenon_system;
GRANT SELECT ON TABLE public.gpu_excluded TO tenon_api;
GRANT SELECT,INSERT,DELETE ON TABLE public.gpu_excluded TO tenon_node;

GRANT UPDATE(vendor) ON TABLE public.gpu_excluded TO tenon_node;

GRANT UPDATE(device) ON TABLE public.gpu_excluded TO tenon_node;

GRANT UPDATE(reason) ON TABLE public.gpu_excluded TO tenon_node;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.gpu_incident TO tenon_system;
GRANT SELECT ON TABLE public.gpu_incident TO tenon_api;
GRANT SELECT,INSERT ON TABLE public.gpu_incident TO tenon_node;

GRANT UPDATE(kind) ON TABLE public.gpu_incident TO tenon_node;

GRANT UPDATE(xid) ON TABLE public.gpu_incident TO tenon_node;

GRANT UPDATE(action) ON TABLE public.gpu_incident TO tenon_node;

GRANT UPDATE(message) ON TABLE public.gpu_incident TO tenon_node;

GRANT UPDATE(told) ON TABLE public.gpu_incident TO tenon_node;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.gpu_partition TO tenon_system;
GRANT SELECT ON TABLE public.gpu_partition TO tenon_api;
GRANT SELECT,INSERT,DELETE ON TABLE public.gpu_partition TO tenon_node;

GRANT UPDATE(gpus) ON TABLE public.gpu_partition TO tenon_node;

GRANT UPDATE(not_ours) ON TABLE public.gpu_partition TO tenon_node;

GRANT SELECT ON TABLE public.gpu_stay TO tenon_api;
GRANT SELECT,DELETE ON TABLE public.gpu_stay TO tenon_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.idempotency TO tenon_system;
GRANT SELECT,INSERT ON TABLE public.idempotency TO tenon_api;

GRANT UPDATE(status) ON TABLE public.idempotency TO tenon_api;

GRANT UPDATE(response) ON TABLE public.idempotency TO tenon_api;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.image TO tenon_system;
GRANT SELECT,INSERT ON TABLE public.image TO tenon_api;
GRANT SELECT ON TABLE public.image TO tenon_node;

GRANT UPDATE(ref) ON TABLE public.image TO tenon_api;

GRANT UPDATE(digest) ON TABLE public.image TO tenon_api;

GRANT UPDATE(size_bytes) ON TABLE public.image TO tenon_api;

GRANT UPDATE(description) ON TABLE public.image TO tenon_api;

GRANT UPDATE(deleted_at) ON TABLE public.image TO tenon_api;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.instance TO tenon_system;
GRANT SELECT,INSERT ON TABLE public.instance TO tenon_api;
GRANT SELECT ON TABLE public.instance TO tenon_node;

GRANT UPDATE(flavor_id) ON TABLE public.instance TO tenon_api;

GRANT UPDATE(gpu_count) ON TABLE public.instance TO tenon_api;

GRANT UPDATE(gpu_model) ON TABLE public.instance TO tenon_api;

GRANT UPDATE(gpu_mode) ON TABLE public.instance TO tenon_api;

GRANT UPDATE(gpu_profile) ON TABLE public.instance TO tenon_api;

GRANT UPDATE(vcpu) ON TABLE public.instance TO tenon_api;

GRANT UPDATE(memory_mib) ON TABLE public.instance TO tenon_api;

GRANT UPDATE(disk_mib) ON TABLE public.instance TO tenon_api;

GRANT UPDATE(desired_state) ON TABLE public.instance TO tenon_api;

GRANT UPDATE(generation) ON TABLE public.instance TO tenon_api;

GRANT UPDATE(state) ON TABLE public.instance TO tenon_api;

GRANT UPDATE(observed_generation) ON TABLE public.instance TO tenon_api;

GRANT UPDATE(state_at) ON TABLE public.instance TO tenon_api;

GRANT UPDATE(deadline_at) ON TABLE public.instance TO tenon_api;

GRANT UPDATE(reason) ON TABLE public.instance TO tenon_api;

GRANT UPDATE(message) ON TABLE public.instance TO tenon_api;

GRANT UPDATE(reasons) ON TABLE public.instance TO tenon_api;

GRANT UPDATE(progress) ON TABLE public.instance TO tenon_api;

GRANT UPDATE(exit_code) ON TABLE public.instance TO tenon_api;

GRANT UPDATE(last_lines) ON TABLE public.instance TO tenon_api;

GRANT UPDATE(node_id) ON TABLE public.instance TO tenon_api;

GRANT UPDATE(epoch) ON TABLE public.instance TO tenon_api;

GRANT UPDATE(holds_quota) ON TABLE public.instance TO tenon_api;

GRANT UPDATE(queued_at) ON TABLE public.instance TO tenon_api;

GRANT UPDATE(started_at) ON TABLE public.instance TO tenon_api;

GRANT UPDATE(deleted_at) ON TABLE public.instance TO tenon_api;

GRANT UPDATE(event_seq) ON TABLE public.instance TO tenon_api;

GRANT UPDATE(on_stop) ON TABLE public.instance TO tenon_api;

GRANT UPDATE(held) ON TABLE public.instance TO tenon_api;

GRANT UPDATE(on_node_loss) ON TABLE public.instance TO tenon_api;

GRANT UPDATE(idle_since) ON TABLE public.instance TO tenon_api;

GRANT UPDATE(idle_warned_at) ON TABLE public.instance TO tenon_api;

GRANT UPDATE(on_node_reboot) ON TABLE public.instance TO tenon_api;

GRANT UPDATE(reboots) ON TABLE public.instance TO tenon_api;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.instance_move TO tenon_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.job TO tenon_system;
GRANT SELECT,INSERT ON TABLE public.job TO tenon_api;
GRANT SELECT ON TABLE public.job TO tenon_node;

GRANT UPDATE(desired_state) ON TABLE public.job TO tenon_api;

GRANT UPDATE(generation) ON TABLE public.job TO tenon_api;

GRANT UPDATE(look_at) ON TABLE public.job TO tenon_api;

GRANT UPDATE(event_seq) ON TABLE public.job TO tenon_api;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.job_attempt TO tenon_system;
GRANT SELECT ON TABLE public.job_attempt TO tenon_api;

GRANT SELECT ON TABLE public.job_move TO tenon_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.leader TO tenon_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.membership TO tenon_system;
GRANT SELECT,INSERT,DELETE ON TABLE public.membership TO tenon_api;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.node TO tenon_system;
GRANT SELECT ON TABLE public.node TO tenon_api;
GRANT SELECT ON TABLE public.node TO tenon_node;

GRANT UPDATE(name) ON TABLE public.node TO tenon_api;

GRANT UPDATE(state) ON TABLE public.node TO tenon_api;

GRANT UPDATE(drained) ON TABLE public.node TO tenon_api;

GRANT UPDATE(vcpu) ON TABLE public.node TO tenon_node;

GRANT UPDATE(memory_mib) ON TABLE public.node TO tenon_node;

GRANT UPDATE(agent_version) ON TABLE public.node TO tenon_node;

GRANT UPDATE(boot_id) ON TABLE public.node TO tenon_node;

GRANT UPDATE(drivers) ON TABLE public.node TO tenon_node;

GRANT UPDATE(orphans) ON TABLE public.node TO tenon_node;

GRANT UPDATE(generation) ON TABLE public.node TO tenon_api;

GRANT UPDATE(ack_era) ON TABLE public.node TO tenon_node;

GRANT UPDATE(ack_generation) ON TABLE public.node TO tenon_node;

GRANT UPDATE(last_seen_at) ON TABLE public.node TO tenon_node;

GRANT UPDATE(labels) ON TABLE public.node TO tenon_node;

GRANT UPDATE(kinds) ON TABLE public.node TO tenon_node;

GRANT UPDATE(watchdog) ON TABLE public.node TO tenon_node;

GRANT UPDATE(fenced_at) ON TABLE public.node TO tenon_api;

GRANT UPDATE(fenced_by) ON TABLE public.node TO tenon_api;

GRANT UPDATE(report_digest) ON TABLE public.node TO tenon_node;

GRANT UPDATE(tried_at) ON TABLE public.node TO tenon_node;

GRANT UPDATE(leftovers) ON TABLE public.node TO tenon_api;
GRANT UPDATE(leftovers) ON TABLE public.node TO tenon_node;

GRANT UPDATE(forgotten_at) ON TABLE public.node TO tenon_api;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.node_certificate TO tenon_system;
GRANT SELECT,INSERT ON TABLE public.node_certificate TO tenon_node;

GRANT SELECT(node_id) ON TABLE public.node_certificate TO tenon_api;

GRANT SELECT(revoked_at),UPDATE(revoked_at) ON TABLE public.node_certificate TO tenon_api;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.node_connection TO tenon_system;
GRANT SELECT ON TABLE public.node_connection TO tenon_api;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.node_join_token TO tenon_system;
GRANT INSERT ON TABLE public.node_join_token TO tenon_api;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.node_removal TO tenon_system;
GRANT SELECT,INSERT ON TABLE public.node_removal TO tenon_api;
GRANT SELECT ON TABLE public.node_removal TO tenon_node;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.observation TO tenon_system;
GRANT SELECT,INSERT ON TABLE public.observation TO tenon_node;

GRANT UPDATE(node_id) ON TABLE public.observation TO tenon_node;

GRANT UPDATE(epoch) ON TABLE public.observation TO tenon_node;

GRANT UPDATE(generation) ON TABLE public.observation TO tenon_node;

GRANT UPDATE(state) ON TABLE public.observation TO tenon_node;

GRANT UPDATE(reason) ON TABLE public.observation TO tenon_node;

GRANT UPDATE(message) ON TABLE public.observation TO tenon_node;

GRANT UPDATE(progress) ON TABLE public.observation TO tenon_node;

GRANT UPDATE(exit_code) ON TABLE public.observation TO tenon_node;

GRANT UPDATE(last_lines) ON TABLE public.observation TO tenon_node;

GRANT UPDATE(address) ON TABLE public.observation TO tenon_node;

GRANT UPDATE(state_for) ON TABLE public.observation TO tenon_node;

GRANT UPDATE(ran_for) ON TABLE public.observation TO tenon_node;

GRANT UPDATE(received_at) ON TABLE public.observation TO tenon_node;

GRANT UPDATE(seq) ON TABLE public.observation TO tenon_node;

GRANT UPDATE(activity) ON TABLE public.observation TO tenon_node;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.placement_shape TO tenon_system;
GRANT SELECT ON TABLE public.placement_shape TO tenon_api;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.pool TO tenon_system;
GRANT SELECT ON TABLE public.pool TO tenon_api;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.price TO tenon_system;
GRANT SELECT,INSERT,DELETE ON TABLE public.price TO tenon_api;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.project TO tenon_system;
GRANT SELECT,INSERT ON TABLE public.project TO tenon_api;

GRANT UPDATE(display_name) ON TABLE public.project TO tenon_api;

GRANT UPDATE(idle_stop_seconds) ON TABLE public.project TO tenon_api;

GRANT UPDATE(idle_warn_seconds) ON TABLE public.project TO tenon_api;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.project_quota TO tenon_system;
GRANT SELECT,INSERT ON TABLE public.project_quota TO tenon_api;

GRANT UPDATE(limit_amount) ON TABLE public.project_quota TO tenon_api;

GRANT UPDATE(used) ON TABLE public.project_quota TO tenon_api;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.registry_credential TO tenon_system;
GRANT SELECT,INSERT,DELETE ON TABLE public.registry_credential TO tenon_api;
GRANT SELECT ON TABLE public.registry_credential TO tenon_node;

GRANT UPDATE(username) ON TABLE public.registry_credential TO tenon_api;

GRANT UPDATE(secret) ON TABLE public.registry_credential TO tenon_api;

GRANT UPDATE(created_by) ON TABLE public.registry_credential TO tenon_api;

GRANT UPDATE(created_at) ON TABLE public.registry_credential TO tenon_api;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.replica TO tenon_system;
GRANT SELECT ON TABLE public.replica TO tenon_api;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.sealed_key TO tenon_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.segment TO tenon_system;
GRANT SELECT ON TABLE public.segment TO tenon_api;

GRANT SELECT,INSERT ON TABLE public.usage_correction TO tenon_system;
GRANT SELECT ON TABLE public.usage_correction TO tenon_api;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.volume TO tenon_system;
GRANT SELECT,INSERT ON TABLE public.volume TO tenon_api;
GRANT SELECT ON TABLE public.volume TO tenon_node;

GRANT UPDATE(state) ON TABLE public.volume TO tenon_api;

GRANT UPDATE(message) ON TABLE public.volume TO tenon_api;
GRANT UPDATE(message) ON TABLE public.volume TO tenon_node;

GRANT UPDATE(said) ON TABLE public.volume TO tenon_node;

GRANT UPDATE(said_at) ON TABLE public.volume TO tenon_node;

GRANT UPDATE(used_mib) ON TABLE public.volume TO tenon_node;

GRANT UPDATE(ending_at) ON TABLE public.volume TO tenon_api;

GRANT UPDATE(deleted_at) ON TABLE public.volume TO tenon_api;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.volume_segment TO tenon_system;
GRANT SELECT ON TABLE public.volume_segment TO tenon_api;

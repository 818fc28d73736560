-- +goose Up
-- A job owns instances, its members, that run to an exit code: a gang that is
-- placed and started whole, or an array of tasks that have nothing to do with
-- each other.
CREATE TABLE job (
    id               uuid PRIMARY KEY,
    org_id           uuid NOT NULL,
    project_id       uuid NOT NULL,
    name             text NOT NULL CHECK (name ~ '^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$'),
    image_org_id     uuid NOT NULL CHECK (image_org_id IN (org_id, '00000000-0000-7000-8000-000000000000')),
    image_id         uuid NOT NULL,
    flavor_id        uuid NOT NULL REFERENCES flavor,
    pool_id          uuid NOT NULL REFERENCES pool,
    command          text[],
    env              jsonb NOT NULL DEFAULT '{}',
    labels           jsonb NOT NULL DEFAULT '{}',
    members_min      int NOT NULL CHECK (members_min >= 1),
    members_max      int NOT NULL CHECK (members_max BETWEEN members_min AND 1000),
    array_tasks      int NOT NULL DEFAULT 0 CHECK (array_tasks BETWEEN 0 AND 1000), -- 0: a gang
    array_parallel   int NOT NULL DEFAULT 0 CHECK (array_parallel BETWEEN 0 AND array_tasks),
    across_nodes     boolean NOT NULL DEFAULT false,
    priority         text NOT NULL DEFAULT 'normal' CHECK (priority IN ('low', 'normal', 'high')),
    tier             text NOT NULL DEFAULT 'batch' CHECK (tier IN ('interactive', 'batch')),
    spot             boolean NOT NULL DEFAULT false,
    expected_seconds int CHECK (expected_seconds > 0),
    max_seconds      int CHECK (max_seconds > 0),
    retries          int NOT NULL DEFAULT 0 CHECK (retries BETWEEN 0 AND 100),
    -- Intent, written by app.
    desired_state    text NOT NULL DEFAULT 'running' CHECK (desired_state IN ('running', 'cancelled', 'deleted')),
    generation       bigint NOT NULL DEFAULT 1,
    -- Truth, written by the loops.
    state            text NOT NULL DEFAULT 'queued' CHECK (state IN ('queued', 'starting', 'running', 'succeeded', 'failed', 'cancelled', 'deleted')),
    state_at         timestamptz NOT NULL DEFAULT now(),
    reason           text NOT NULL DEFAULT '',
    message          text NOT NULL DEFAULT '',
    attempt          int NOT NULL DEFAULT 1 CHECK (attempt >= 1), -- of a gang
    size             int NOT NULL DEFAULT 0 CHECK (size BETWEEN 0 AND members_max), -- members of the present attempt; 0: not placed
    ending           text NOT NULL DEFAULT '', -- why the present attempt is being ended; empty: it is not
    ending_message   text NOT NULL DEFAULT '',
    retries_used     int NOT NULL DEFAULT 0,
    free_restarts    int NOT NULL DEFAULT 0, -- attempts in a row that the platform ended soon
    placed_at        timestamptz,            -- of the present attempt
    started_at       timestamptz,            -- when the first member of the present attempt ran
    finished_at      timestamptz,
    deleted_at       timestamptz,
    look_at          timestamptz DEFAULT now(), -- when there is something to do about it by the clock; null: nothing
    looked           bigint NOT NULL DEFAULT -1, -- the sum of its members' event numbers when they were last looked at
    created_by       uuid NOT NULL REFERENCES app_user,
    created_at       timestamptz NOT NULL DEFAULT now(),
    event_seq        bigint NOT NULL DEFAULT 0,
    UNIQUE (org_id, id),
    UNIQUE (org_id, project_id, id),
    FOREIGN KEY (org_id, project_id) REFERENCES project (org_id, id),
    FOREIGN KEY (image_org_id, image_id) REFERENCES image (org_id, id),
    CONSTRAINT job_array CHECK (array_tasks = 0 AND array_parallel = 0 OR array_tasks > 0 AND array_parallel > 0 AND members_min = 1 AND members_max = 1),
    CONSTRAINT job_seconds CHECK (max_seconds >= expected_seconds),
    CONSTRAINT job_size CHECK (size = 0 OR size >= members_min),
    CONSTRAINT job_retries CHECK (array_tasks > 0 OR retries_used <= retries),
    CONSTRAINT job_finished CHECK (deleted_at IS NULL OR state = 'deleted'),
    CONSTRAINT job_queued CHECK (state <> 'queued' OR size = 0)
);
CREATE UNIQUE INDEX job_name ON job (project_id, name) WHERE state <> 'deleted';
CREATE INDEX job_project ON job (project_id, id);
CREATE INDEX job_image ON job (image_id) WHERE state <> 'deleted';
CREATE INDEX job_unsettled ON job (id) WHERE state IN ('queued', 'starting', 'running') OR desired_state = 'deleted' AND state <> 'deleted';

CREATE TABLE job_move (
    from_state text NOT NULL,
    to_state   text NOT NULL,
    PRIMARY KEY (from_state, to_state)
);
INSERT INTO job_move VALUES
    ('queued', 'starting'), ('queued', 'running'), ('queued', 'succeeded'), ('queued', 'failed'), ('queued', 'cancelled'), ('queued', 'deleted'),
    ('starting', 'running'), ('starting', 'queued'), ('starting', 'succeeded'), ('starting', 'failed'), ('starting', 'cancelled'), ('starting', 'deleted'),
    ('running', 'starting'), ('running', 'queued'), ('running', 'succeeded'), ('running', 'failed'), ('running', 'cancelled'), ('running', 'deleted'),
    ('succeeded', 'deleted'), ('failed', 'deleted'), ('cancelled', 'deleted');
-- +goose StatementBegin
CREATE FUNCTION job_guard() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
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
-- +goose StatementEnd
CREATE TRIGGER job_guard BEFORE UPDATE ON job FOR EACH ROW EXECUTE FUNCTION job_guard();

ALTER TABLE instance
    ADD COLUMN job_id   uuid,
    ADD COLUMN job_rank int CHECK (job_rank >= 0),
    ADD COLUMN job_tries smallint NOT NULL DEFAULT 0, -- of a task of an array: starts again after a failure of its own
    ADD COLUMN job_free smallint NOT NULL DEFAULT 0,  -- and after ends that were the platform's doing
    ADD CONSTRAINT instance_member CHECK ((job_id IS NULL) = (job_rank IS NULL)),
    ADD CONSTRAINT instance_member_kind CHECK (job_id IS NULL OR kind = 'container'),
    ADD CONSTRAINT instance_job FOREIGN KEY (org_id, project_id, job_id) REFERENCES job (org_id, project_id, id);
CREATE UNIQUE INDEX instance_job_rank ON instance (job_id, job_rank) WHERE job_id IS NOT NULL;

-- What became of each attempt that is over: of a whole gang, or of one task of an
-- array.
CREATE TABLE job_attempt (
    job_id     uuid NOT NULL,
    org_id     uuid NOT NULL,
    project_id uuid NOT NULL,
    number     int NOT NULL CHECK (number >= 1),
    rank       int, -- of a task; null: the gang's
    placed_at  timestamptz,
    started_at timestamptz,
    ended_at   timestamptz NOT NULL,
    outcome    text NOT NULL CHECK (outcome IN ('succeeded', 'failed', 'platform', 'cancelled', 'max_runtime')),
    message    text NOT NULL DEFAULT '',
    members    jsonb NOT NULL DEFAULT '[]', -- [{rank, state, reason, message, exit_code, …}]
    PRIMARY KEY (job_id, number),
    FOREIGN KEY (org_id, project_id, job_id) REFERENCES job (org_id, project_id, id)
);

ALTER TABLE event DROP CONSTRAINT event_resource_check;
ALTER TABLE event ADD CONSTRAINT event_resource_check CHECK (resource IN ('instance', 'image', 'project', 'job'));

GRANT SELECT, INSERT, UPDATE, DELETE ON job, job_attempt TO tenon_system;
GRANT SELECT ON job_move TO tenon_system;
-- +goose StatementBegin
DO $$
DECLARE t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['job', 'job_attempt'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('CREATE POLICY system ON %I TO tenon_system USING (true) WITH CHECK (true)', t);
        EXECUTE format('CREATE POLICY tenant ON %I TO tenon_api USING (org_id = (SELECT current_org())) WITH CHECK (org_id = (SELECT current_org()))', t);
    END LOOP;
END $$;
-- +goose StatementEnd
CREATE POLICY operator ON job FOR SELECT TO tenon_api USING ((SELECT is_operator()));
CREATE POLICY own ON job FOR SELECT TO tenon_node USING (id IN (SELECT job_id FROM instance WHERE node_id = (SELECT current_node())));
GRANT SELECT, INSERT ON job TO tenon_api;
GRANT SELECT ON job_attempt TO tenon_api;
GRANT UPDATE (desired_state, generation, look_at, event_seq) ON job TO tenon_api;
GRANT SELECT ON job TO tenon_node;

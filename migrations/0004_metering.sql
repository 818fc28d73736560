-- +goose Up
-- What is charged: half-open [started_at, ended_at) of one shape in one state.
CREATE TABLE segment (
    id           uuid PRIMARY KEY, -- derived from the instance and the event that opened it
    org_id       uuid NOT NULL,
    project_id   uuid NOT NULL,
    instance_id  uuid NOT NULL,
    kind         text NOT NULL CHECK (kind IN ('container', 'vm', 'notebook')),
    state        text NOT NULL,
    gpu_count    int NOT NULL,
    gpu_model    text NOT NULL,
    gpu_mode     text NOT NULL,
    gpu_profile  text NOT NULL,
    vcpu         int NOT NULL,
    memory_mib   bigint NOT NULL,
    started_at   timestamptz NOT NULL,
    ended_at     timestamptz CHECK (ended_at >= started_at),
    FOREIGN KEY (org_id, project_id, instance_id) REFERENCES instance (org_id, project_id, id),
    UNIQUE (org_id, id),
    CONSTRAINT segment_overlap EXCLUDE USING gist (instance_id WITH =, tstzrange(started_at, ended_at) WITH &&)
);
CREATE INDEX segment_project ON segment (project_id, started_at);
CREATE INDEX segment_open ON segment (instance_id) WHERE ended_at IS NULL;
-- +goose StatementBegin
CREATE FUNCTION segment_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' OR OLD.ended_at IS NOT NULL
        OR (to_jsonb(OLD) - 'ended_at') IS DISTINCT FROM (to_jsonb(NEW) - 'ended_at') THEN
        RAISE EXCEPTION 'segment % is a record: it may be closed once, and never changed', OLD.id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'segment_record';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER segment_guard BEFORE UPDATE OR DELETE ON segment FOR EACH ROW EXECUTE FUNCTION segment_guard();

-- Late news never edits a segment; it adds signed seconds.
CREATE TABLE usage_correction (
    id         uuid PRIMARY KEY, -- derived from its cause
    org_id     uuid NOT NULL,
    segment_id uuid NOT NULL,
    seconds    numeric NOT NULL,
    cause      text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    FOREIGN KEY (org_id, segment_id) REFERENCES segment (org_id, id)
);
CREATE INDEX usage_correction_segment ON usage_correction (segment_id);

-- +goose Up
-- Roles (tenon_api, tenon_system, tenon_node) belong to the cluster and are
-- made before the first migration; the owner of this database runs it.
CREATE EXTENSION IF NOT EXISTS btree_gist;

REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO tenon_api, tenon_system, tenon_node;

-- What the request is about, set by the first statement of each transaction.
-- STABLE and without arguments, so a policy evaluates each once per query.
-- +goose StatementBegin
CREATE FUNCTION current_org() RETURNS uuid LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT NULLIF(current_setting('tenon.org', true), '')::uuid $$;
CREATE FUNCTION current_node() RETURNS uuid LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT NULLIF(current_setting('tenon.node', true), '')::uuid $$;
CREATE FUNCTION is_operator() RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT COALESCE(current_setting('tenon.operator', true), '') = 'on' $$;
-- +goose StatementEnd

-- One row: which cloud this is. A restore gives it a new era (decision 7).
CREATE TABLE cloud_state (
    only_row   boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    cloud_id   text NOT NULL CHECK (cloud_id ~ '^[0-9a-f]{8}$'),
    era        uuid NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

-- Leadership is a row (decision 4): every leader transaction checks its term.
CREATE TABLE leader (
    name       text PRIMARY KEY,
    holder     text NOT NULL,
    term       bigint NOT NULL,
    expires_at timestamptz NOT NULL
);

-- Secrets under the master key (decision 11): node CA, JWT keys.
CREATE TABLE sealed_key (
    name       text PRIMARY KEY,
    kind       text NOT NULL CHECK (kind IN ('node_ca', 'jwt')),
    public     bytea NOT NULL,
    ciphertext bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    retired_at timestamptz
);

CREATE TABLE organisation (
    id           uuid PRIMARY KEY,
    name         text NOT NULL UNIQUE CHECK (name ~ '^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$'),
    display_name text NOT NULL DEFAULT '',
    created_at   timestamptz NOT NULL DEFAULT now()
);
-- Owns what the operator offers to everyone (images); has no members.
INSERT INTO organisation (id, name, display_name) VALUES ('00000000-0000-7000-8000-000000000000', 'tenon', 'Offered to everyone');

CREATE TABLE app_user (
    id            uuid PRIMARY KEY,
    email         text NOT NULL UNIQUE CHECK (email = lower(email)),
    name          text NOT NULL DEFAULT '',
    password_hash text NOT NULL DEFAULT '',
    operator      boolean NOT NULL DEFAULT false,
    disabled      boolean NOT NULL DEFAULT false,
    created_at    timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE membership (
    org_id     uuid NOT NULL REFERENCES organisation,
    user_id    uuid NOT NULL REFERENCES app_user,
    role       text NOT NULL CHECK (role IN ('owner', 'admin', 'member', 'auditor')),
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, user_id)
);
CREATE INDEX membership_user ON membership (user_id);

CREATE TABLE project (
    id           uuid PRIMARY KEY,
    org_id       uuid NOT NULL REFERENCES organisation,
    name         text NOT NULL CHECK (name ~ '^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$'),
    display_name text NOT NULL DEFAULT '',
    created_at   timestamptz NOT NULL DEFAULT now(),
    UNIQUE (org_id, id),
    UNIQUE (org_id, name)
);

CREATE TABLE project_quota (
    org_id       uuid NOT NULL,
    project_id   uuid NOT NULL,
    resource     text NOT NULL CHECK (resource IN ('gpu_milli', 'instances', 'memory_mib', 'vcpu')),
    limit_amount bigint CHECK (limit_amount >= 0),
    used         bigint NOT NULL DEFAULT 0 CHECK (used >= 0),
    PRIMARY KEY (project_id, resource),
    FOREIGN KEY (org_id, project_id) REFERENCES project (org_id, id)
);
-- A limit may be lowered below what is used; what is used may not grow past it.
-- +goose StatementBegin
CREATE FUNCTION project_quota_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.used > OLD.used AND NEW.used > NEW.limit_amount THEN
        RAISE EXCEPTION 'quota % exceeded: limit %, would use %', NEW.resource, NEW.limit_amount, NEW.used
            USING ERRCODE = 'check_violation', CONSTRAINT = 'project_quota_limit',
                DETAIL = json_build_object('resource', NEW.resource, 'limit', NEW.limit_amount, 'used', OLD.used, 'asked', NEW.used - OLD.used)::text;
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER project_quota_guard BEFORE UPDATE ON project_quota FOR EACH ROW EXECUTE FUNCTION project_quota_guard();

CREATE TABLE api_token (
    id           uuid PRIMARY KEY,
    org_id       uuid NOT NULL,
    user_id      uuid NOT NULL,
    name         text NOT NULL CHECK (name ~ '^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$'),
    hint         text NOT NULL,
    hash         bytea NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
    created_at   timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz,
    revoked_at   timestamptz,
    last_used_at timestamptz,
    FOREIGN KEY (org_id, user_id) REFERENCES membership (org_id, user_id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX api_token_name ON api_token (org_id, user_id, name) WHERE revoked_at IS NULL;

CREATE TABLE session (
    id            uuid PRIMARY KEY,
    user_id       uuid NOT NULL REFERENCES app_user,
    refresh_hash  bytea NOT NULL UNIQUE CHECK (octet_length(refresh_hash) = 32),
    previous_hash bytea,
    rotated_at    timestamptz NOT NULL DEFAULT now(),
    created_at    timestamptz NOT NULL DEFAULT now(),
    expires_at    timestamptz NOT NULL,
    revoked_at    timestamptz,
    user_agent    text NOT NULL DEFAULT '',
    address       text NOT NULL DEFAULT ''
);
CREATE INDEX session_of_user ON session (user_id);
CREATE INDEX session_previous ON session (previous_hash) WHERE previous_hash IS NOT NULL;

CREATE TABLE idempotency (
    org_id       uuid NOT NULL REFERENCES organisation,
    actor_id     uuid NOT NULL,
    key          text NOT NULL CHECK (length(key) BETWEEN 1 AND 255),
    operation    text NOT NULL,
    request_hash bytea NOT NULL,
    status       int NOT NULL,
    response     bytea NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, actor_id, key)
);
CREATE INDEX idempotency_age ON idempotency (created_at);

CREATE TABLE audit (
    seq        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at         timestamptz NOT NULL DEFAULT now(),
    org_id     uuid REFERENCES organisation,
    user_id    uuid,
    token_id   uuid,
    session_id uuid,
    address    text NOT NULL DEFAULT '',
    action     text NOT NULL,
    resource   text NOT NULL,
    request_id text NOT NULL,
    detail     jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX audit_org ON audit (org_id, seq);

package postgres_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// tenantRows fills every tenant table with many rows of one organisation, as
// the tables' owner. $1 is a letter that keeps organisations apart, $2 the
// number of rows.
const tenantRows = `
INSERT INTO organisation (id, name) VALUES (md5($1 || 'org')::uuid, 'org-' || $1);
INSERT INTO pool (id, name) VALUES (md5('pool')::uuid, 'fixture') ON CONFLICT DO NOTHING;
INSERT INTO flavor (id, name, vcpu, memory_mib, disk_mib) VALUES (md5('flavor')::uuid, 'fixture', 1, 64, 64) ON CONFLICT DO NOTHING;
INSERT INTO node (id, name, pool_id, state, vcpu, memory_mib)
	SELECT md5($1 || 'node' || n)::uuid, 'node-' || $1 || n, md5('pool')::uuid, 'ready', 64, 65536 FROM generate_series(1, $2) n;
INSERT INTO gpu (id, node_id, uuid, pci_address, model, geometry, mode, state, memory_mib)
	SELECT md5($1 || 'gpu' || n)::uuid, md5($1 || 'node' || n)::uuid, 'GPU-' || $1 || n, '0000:01:00.0', 'h100-80gb', 'mig8', 'mig', 'ready', 81559 FROM generate_series(1, $2) n;
INSERT INTO app_user (id, email) SELECT md5($1 || 'user' || n)::uuid, $1 || n || '@fixture.test' FROM generate_series(1, $2) n;
INSERT INTO membership (org_id, user_id, role) SELECT md5($1 || 'org')::uuid, md5($1 || 'user' || n)::uuid, 'member' FROM generate_series(1, $2) n;
INSERT INTO project (id, org_id, name) SELECT md5($1 || 'project' || n)::uuid, md5($1 || 'org')::uuid, 'p' || n FROM generate_series(1, $2) n;
INSERT INTO project_quota (org_id, project_id, resource) SELECT md5($1 || 'org')::uuid, md5($1 || 'project' || n)::uuid, r FROM generate_series(1, $2) n, unnest(ARRAY['gpu_milli', 'instances', 'memory_mib', 'vcpu']) r;
INSERT INTO api_token (id, org_id, user_id, name, hint, hash) SELECT md5($1 || 'token' || n)::uuid, md5($1 || 'org')::uuid, md5($1 || 'user' || n)::uuid, 't' || n, '', sha256(($1 || n)::bytea) FROM generate_series(1, $2) n;
INSERT INTO idempotency (org_id, actor_id, key, operation, request_hash, status, response) SELECT md5($1 || 'org')::uuid, md5($1 || 'user' || n)::uuid, 'k', 'x', '', 0, '' FROM generate_series(1, $2) n;
INSERT INTO audit (org_id, action, resource, request_id) SELECT md5($1 || 'org')::uuid, 'x', 'x', 'x' FROM generate_series(1, $2) n;
INSERT INTO image (id, org_id, name, kind, ref, digest, embedded) SELECT md5($1 || 'image' || n)::uuid, md5($1 || 'org')::uuid, 'i' || n, 'container', 'r', 'sha256:' || repeat('a', 64), true FROM generate_series(1, $2) n;
INSERT INTO instance (id, org_id, project_id, name, kind, image_org_id, image_id, image_digest, flavor_id, pool_id, gpu_count, gpu_model, gpu_mode, gpu_profile, vcpu, memory_mib, disk_mib, created_by, state, node_id, epoch)
	SELECT md5($1 || 'instance' || n)::uuid, md5($1 || 'org')::uuid, md5($1 || 'project' || (n % 10 + 1))::uuid, 'i' || n, 'container', md5($1 || 'org')::uuid, md5($1 || 'image' || n)::uuid, '', md5('flavor')::uuid, md5('pool')::uuid,
		1, 'h100-80gb', 'mig', '1g', 1, 64, 64, md5($1 || 'user1')::uuid, 'running', md5($1 || 'node' || n)::uuid, 1 FROM generate_series(1, $2) n;
INSERT INTO gpu_claim (id, gpu_id, org_id, project_id, instance_id, epoch, mode, geometry, profile, slots)
	SELECT md5($1 || 'claim' || n)::uuid, md5($1 || 'gpu' || n)::uuid, md5($1 || 'org')::uuid, md5($1 || 'project' || (n % 10 + 1))::uuid, md5($1 || 'instance' || n)::uuid, 1, 'mig', 'mig8', '1g', '[6,7)' FROM generate_series(1, $2) n;
INSERT INTO observation (instance_id, node_id, epoch, generation, state) SELECT md5($1 || 'instance' || n)::uuid, md5($1 || 'node' || n)::uuid, 1, 1, 'running' FROM generate_series(1, $2) n;
INSERT INTO event (id, org_id, project_id, resource, resource_id, seq, verb, at)
	SELECT md5($1 || 'event' || n)::uuid, md5($1 || 'org')::uuid, md5($1 || 'project' || (n % 10 + 1))::uuid, 'instance', md5($1 || 'instance' || n)::uuid, 1, 'x', now() FROM generate_series(1, $2) n;
INSERT INTO segment (id, org_id, project_id, instance_id, kind, state, gpu_count, gpu_model, gpu_mode, gpu_profile, vcpu, memory_mib, started_at, ended_at)
	SELECT md5($1 || 'segment' || n)::uuid, md5($1 || 'org')::uuid, md5($1 || 'project' || (n % 10 + 1))::uuid, md5($1 || 'instance' || n)::uuid, 'container', 'running', 1, 'h100-80gb', 'mig', '1g', 1, 64,
		timestamptz '2026-01-01' + n * interval '1 minute', timestamptz '2026-01-01' + (n + 1) * interval '1 minute' FROM generate_series(1, $2) n;
INSERT INTO usage_correction (id, org_id, segment_id, seconds, cause) SELECT md5($1 || 'correction' || n)::uuid, md5($1 || 'org')::uuid, md5($1 || 'segment' || n)::uuid, 1, 'x' FROM generate_series(1, $2) n;
INSERT INTO volume (id, org_id, project_id, instance_id, role, size_mib, node_id, state)
	SELECT md5($1 || 'volume' || n)::uuid, md5($1 || 'org')::uuid, md5($1 || 'project' || (n % 10 + 1))::uuid, md5($1 || 'instance' || n)::uuid, 'home', 64, md5($1 || 'node' || n)::uuid, 'present' FROM generate_series(1, $2) n;
INSERT INTO volume_segment (id, org_id, project_id, volume_id, instance_id, size_mib, started_at)
	SELECT md5($1 || 'volseg' || n)::uuid, md5($1 || 'org')::uuid, md5($1 || 'project' || (n % 10 + 1))::uuid, md5($1 || 'volume' || n)::uuid, md5($1 || 'instance' || n)::uuid, 64, now() FROM generate_series(1, $2) n;
INSERT INTO registry_credential (id, org_id, project_id, host, username, secret, created_by)
	SELECT md5($1 || 'credential' || n)::uuid, md5($1 || 'org')::uuid, md5($1 || 'project' || n)::uuid, 'r.test', 'x', '', md5($1 || 'user1')::uuid FROM generate_series(1, $2) n;
INSERT INTO job (id, org_id, project_id, name, image_org_id, image_id, flavor_id, pool_id, members_min, members_max, created_by)
	SELECT md5($1 || 'job' || n)::uuid, md5($1 || 'org')::uuid, md5($1 || 'project' || (n % 10 + 1))::uuid, 'j' || n, md5($1 || 'org')::uuid, md5($1 || 'image' || n)::uuid, md5('flavor')::uuid, md5('pool')::uuid,
		1, 1, md5($1 || 'user1')::uuid FROM generate_series(1, $2) n;
INSERT INTO job_attempt (job_id, org_id, project_id, number, ended_at, outcome)
	SELECT md5($1 || 'job' || n)::uuid, md5($1 || 'org')::uuid, md5($1 || 'project' || (n % 10 + 1))::uuid, 1, now(), 'failed' FROM generate_series(1, $2) n;
UPDATE instance SET job_id = md5($1 || 'job' || substr(name, 2))::uuid, job_rank = 0 WHERE org_id = md5($1 || 'org')::uuid;
INSERT INTO alarm (id, key, severity, subject, message) SELECT md5($1 || 'alarm' || n)::uuid, $1 || n, 'warning', 'x', 'x' FROM generate_series(1, $2) n;
`

func fill(t *testing.T, q postgres.Querier, letter string, n int) {
	t.Helper()
	for sql := range strings.SplitSeq(tenantRows, ";\n") {
		sql = strings.TrimSpace(sql)
		if sql == "" {
			continue
		}
		sql = strings.ReplaceAll(strings.ReplaceAll(sql, "$1", "'"+letter+"'"), "$2", strconv.Itoa(n))
		if _, err := q.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%.60s: %v", sql, err)
		}
	}
}

// idOf is the id that the fixture gave to something.
func idOf[R cloud.Resource](t *testing.T, q postgres.Querier, kind cloud.ID[R], words string) cloud.ID[R] {
	t.Helper()
	if err := q.QueryRow(t.Context(), `SELECT md5($1)::uuid`, words).Scan(&kind); err != nil {
		t.Fatal(err)
	}
	return kind
}

// try runs a statement in a savepoint and gives its error.
func try(ctx context.Context, tx pgx.Tx, sql string, args ...any) error {
	return pgx.BeginFunc(ctx, tx, func(sp pgx.Tx) error {
		_, err := sp.Exec(ctx, sql, args...)
		return err
	})
}

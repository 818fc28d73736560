package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

const projectColumns = `id, org_id, name, display_name, created_at, idle_stop_seconds, idle_warn_seconds`

// ProjectGet finds one of an organisation; with a zero organisation, any by its
// id, if the transaction may see it.
func ProjectGet(ctx context.Context, q Querier, org cloud.OrgID, ref Ref) (cloud.Project, error) {
	rows, _ := q.Query(ctx, `
		SELECT `+projectColumns+` FROM project
		WHERE org_id = $1 AND (id = $2 OR name = $3) OR $1 IS NULL AND id = $2`, org, ref.ID, ref.Name)
	return one[cloud.Project](rows, "get project")
}

// ProjectList lists by name, after one.
func ProjectList(ctx context.Context, q Querier, org cloud.OrgID, after string, limit int) ([]cloud.Project, error) {
	rows, _ := q.Query(ctx, `SELECT `+projectColumns+` FROM project WHERE org_id = $1 AND name > $2 ORDER BY name LIMIT $3`, org, after, limit)
	return all[cloud.Project](rows, "list projects")
}

// ProjectAdd inserts a project with its limits; a nil limit is none.
func ProjectAdd(ctx context.Context, q Querier, p cloud.Project, limits map[cloud.QuotaResource]*int64) error {
	b := &pgx.Batch{}
	b.Queue(`INSERT INTO project (id, org_id, name, display_name, created_at) VALUES ($1, $2, $3, $4, $5)`,
		p.ID, p.OrgID, p.Name, p.DisplayName, p.CreatedAt)
	for _, r := range cloud.QuotaResources {
		b.Queue(`INSERT INTO project_quota (org_id, project_id, resource, limit_amount) VALUES ($1, $2, $3, $4)`, p.OrgID, p.ID, r, limits[r])
	}
	return wrap("add project", q.SendBatch(ctx, b).Close())
}

// ProjectChange changes how a project is shown, and its idle policy.
func ProjectChange(ctx context.Context, q Querier, p cloud.Project) (cloud.Project, error) {
	rows, _ := q.Query(ctx, `UPDATE project SET display_name = $2, idle_stop_seconds = $3, idle_warn_seconds = $4 WHERE id = $1 RETURNING `+projectColumns,
		p.ID, p.DisplayName, p.IdleStopSeconds, p.IdleWarnSeconds)
	return one[cloud.Project](rows, "change project")
}

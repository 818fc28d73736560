package postgres

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// QuotaList lists a project's limits and what it uses.
func QuotaList(ctx context.Context, q Querier, project cloud.ProjectID) ([]cloud.Quota, error) {
	rows, _ := q.Query(ctx, `
		SELECT project_id, resource, limit_amount AS "limit", used FROM project_quota
		WHERE project_id = $1 ORDER BY resource`, project)
	return all[cloud.Quota](rows, "list quotas")
}

// QuotaSet changes limits; a nil one is none.
func QuotaSet(ctx context.Context, q Querier, project cloud.ProjectID, limits map[cloud.QuotaResource]*int64) error {
	for _, r := range cloud.QuotaResources { // in the order of locking
		limit, ok := limits[r]
		if !ok {
			continue
		}
		if _, err := q.Exec(ctx, `UPDATE project_quota SET limit_amount = $3 WHERE project_id = $1 AND resource = $2`, project, r, limit); err != nil {
			return wrap("set quota", err)
		}
	}
	return nil
}

// quotaReserveSQL raises what a project uses: $1 project, $2 resources and $3
// amounts. The rows are locked in the order of their resources; the database
// refuses what goes over a limit (QuotaExceeded).
const quotaReserveSQL = `
	WITH asked AS (SELECT * FROM unnest($2::text[], $3::bigint[]) AS a (resource, amount)),
	locked AS MATERIALIZED (
		SELECT q.resource, asked.amount FROM project_quota q JOIN asked USING (resource)
		WHERE q.project_id = $1 ORDER BY q.resource FOR NO KEY UPDATE OF q
	)
	UPDATE project_quota q SET used = q.used + locked.amount
	FROM locked WHERE q.project_id = $1 AND q.resource = locked.resource`

// Amounts are what something takes of each limit.
type Amounts map[cloud.QuotaResource]int64

func (a Amounts) arrays() (resources []string, amounts []int64) {
	for _, r := range cloud.QuotaResources {
		if a[r] != 0 {
			resources, amounts = append(resources, string(r)), append(amounts, a[r])
		}
	}
	return resources, amounts
}

// QuotaReserve takes amounts, all or none; negative ones give back.
func QuotaReserve(ctx context.Context, q Querier, project cloud.ProjectID, a Amounts) error {
	resources, amounts := a.arrays()
	_, err := q.Exec(ctx, quotaReserveSQL, project, resources, amounts)
	return wrap("reserve quota", err)
}

// QuotaExcess is a limit that was hit, as it stood under the lock.
type QuotaExcess struct {
	Resource cloud.QuotaResource `json:"resource"`
	Limit    int64               `json:"limit"`
	Used     int64               `json:"used"`
	Asked    int64               `json:"asked"`
}

// QuotaExceeded reads the refusal of the database's own guard.
func QuotaExceeded(err error) (QuotaExcess, bool) {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.ConstraintName != "project_quota_limit" {
		return QuotaExcess{}, false
	}
	var out QuotaExcess
	if json.Unmarshal([]byte(pg.Detail), &out) != nil {
		return QuotaExcess{}, false
	}
	return out, true
}

package postgres_test

import (
	"context"
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/pgtest"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// explaining asks for the plan of each query before it runs it.
type explaining struct {
	*postgres.Tx
	t     *testing.T
	what  string
	large map[string]bool
	plans int
}

func (e *explaining) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	var plan []struct{ Plan planNode }
	var text []byte
	if err := e.Tx.QueryRow(ctx, "EXPLAIN (FORMAT JSON) "+sql, args...).Scan(&text); err != nil {
		e.t.Errorf("%s: %v", e.what, err)
	}
	if err := json.Unmarshal(text, &plan); err != nil {
		e.t.Errorf("%s: %v", e.what, err)
	}
	for _, p := range plan {
		e.plans++
		p.Plan.walk(func(n planNode) {
			if n.NodeType == "Seq Scan" && e.large[n.Relation] {
				e.t.Errorf("%s reads all of %s:\n%s", e.what, n.Relation, text)
			}
		})
	}
	return e.Tx.Query(ctx, sql, args...)
}

type planNode struct {
	NodeType string     `json:"Node Type"`
	Relation string     `json:"Relation Name"`
	Plans    []planNode `json:"Plans"`
}

func (n planNode) walk(f func(planNode)) {
	f(n)
	for _, p := range n.Plans {
		p.walk(f)
	}
}

// Under row security an operator that is not leakproof loses its index; with
// 10,000 rows no list may read a whole table.
func TestListsReadNoWholeTable(t *testing.T) {
	t.Parallel()
	d := pgtest.New(t)
	ctx := t.Context()
	// As the superuser, without foreign-key checks: a quarter of a million of them.
	super, err := pgx.Connect(ctx, d.DSN+" user=postgres")
	if err != nil {
		t.Fatal(err)
	}
	defer super.Close(context.WithoutCancel(ctx))
	if _, err := super.Exec(ctx, `SET session_replication_role = replica`); err != nil {
		t.Fatal(err)
	}
	fill(t, super, "a", 10_000)
	fill(t, super, "b", 200)
	if _, err := d.Owner.Exec(ctx, `ANALYZE`); err != nil {
		t.Fatal(err)
	}
	rows, _ := d.Owner.Query(ctx, `SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND reltuples > 1000`)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(names) < 15 {
		t.Fatalf("large tables: %v, %v", names, err)
	}
	large := map[string]bool{}
	for _, n := range names {
		large[n] = true
	}
	org, project := idOf(t, d.Owner, cloud.OrgID{}, "aorg"), idOf(t, d.Owner, cloud.ProjectID{}, "aproject1")
	instance, user := idOf(t, d.Owner, cloud.InstanceID{}, "ainstance10"), idOf(t, d.Owner, cloud.UserID{}, "auser7")
	node, name := idOf(t, d.Owner, cloud.NodeID{}, "anode7"), "i10"
	const page = 51
	for _, c := range []struct {
		what     string
		operator bool
		run      func(q postgres.Querier) (int, error)
	}{
		{"instances", false, func(q postgres.Querier) (int, error) {
			return length(postgres.InstanceList(ctx, q, project, postgres.InstanceFilter{}, nil, page))
		}},
		{"instances, next page", false, func(q postgres.Querier) (int, error) {
			return length(postgres.InstanceList(ctx, q, project, postgres.InstanceFilter{}, &instance, page))
		}},
		{"instances by state", false, func(q postgres.Querier) (int, error) {
			return length(postgres.InstanceList(ctx, q, project, postgres.InstanceFilter{State: cloud.StateRunning}, nil, page))
		}},
		{"an instance by name", false, func(q postgres.Querier) (int, error) {
			i, err := postgres.InstanceGet(ctx, q, project, postgres.Ref{Name: &name})
			return int(i.Epoch), err
		}},
		{"an instance by id", false, func(q postgres.Querier) (int, error) {
			i, err := postgres.InstanceGet(ctx, q, project, postgres.RefTo(instance))
			return int(i.Epoch), err
		}},
		{"jobs", false, func(q postgres.Querier) (int, error) {
			return length(postgres.JobList(ctx, q, project, "", false, nil, page))
		}},
		{"a job by name", false, func(q postgres.Querier) (int, error) {
			list, err := postgres.JobList(ctx, q, project, "", false, nil, 1)
			if err != nil || len(list) == 0 {
				return 0, err
			}
			j, err := postgres.JobGet(ctx, q, project, postgres.Ref{Name: &list[0].Name})
			return j.Attempt, err
		}},
		{"the members of a job", false, func(q postgres.Querier) (int, error) {
			list, err := postgres.JobList(ctx, q, project, "", false, nil, 1)
			if err != nil || len(list) == 0 {
				return 0, err
			}
			return length(postgres.JobInstances(ctx, q, list[0].ID))
		}},
		{"events of an instance", false, func(q postgres.Querier) (int, error) {
			return length(postgres.EventListOf(ctx, q, instance.UUID(), nil, page))
		}},
		{"events of a project", false, func(q postgres.Querier) (int, error) {
			return length(postgres.EventsAfter(ctx, q, project, postgres.Place{}, page))
		}},
		{"usage", false, func(q postgres.Querier) (int, error) {
			from := time.Date(2026, 1, 3, 0, 0, 0, 0, time.UTC)
			return length(postgres.UsageSegments(ctx, q, project, from, from.Add(24*time.Hour)))
		}},
		{"usage of volumes", false, func(q postgres.Querier) (int, error) {
			return length(postgres.UsageVolumes(ctx, q, project, time.Now().Add(-time.Hour), time.Now().Add(time.Hour)))
		}},
		{"volumes of a page of instances", false, func(q postgres.Querier) (int, error) {
			ids := make([]cloud.InstanceID, page)
			for i := range ids {
				ids[i] = idOf(t, d.Owner, cloud.InstanceID{}, "ainstance"+strconv.Itoa(i+1))
			}
			of, err := postgres.VolumesOf(ctx, q, ids)
			return len(of), err
		}},
		{"images", false, func(q postgres.Querier) (int, error) {
			return length(postgres.ImageList(ctx, q, org, "i5", false, page))
		}},
		{"projects", false, func(q postgres.Querier) (int, error) {
			return length(postgres.ProjectList(ctx, q, org, "p5", page))
		}},
		{"quotas", false, func(q postgres.Querier) (int, error) { return length(postgres.QuotaList(ctx, q, project)) }},
		{"members", false, func(q postgres.Querier) (int, error) {
			return length(postgres.MemberList(ctx, q, org, cloud.UserID{}, page))
		}},
		{"one's tokens", false, func(q postgres.Querier) (int, error) {
			return length(postgres.TokenList(ctx, q, org, user, nil, page))
		}},
		{"all tokens", false, func(q postgres.Querier) (int, error) {
			return length(postgres.TokenList(ctx, q, org, cloud.UserID{}, nil, page))
		}},
		{"organisations", true, func(q postgres.Querier) (int, error) { return length(postgres.OrgList(ctx, q, "", page)) }},
		{"nodes", true, func(q postgres.Querier) (int, error) { return length(postgres.NodeList(ctx, q, "", page)) }},
		{"cards", true, func(q postgres.Querier) (int, error) {
			return length(postgres.GPUList(ctx, q, postgres.GPUFilter{}, cloud.GPUID{}, page))
		}},
		{"cards of a node", true, func(q postgres.Querier) (int, error) {
			return length(postgres.GPUList(ctx, q, postgres.GPUFilter{Node: node}, cloud.GPUID{}, page))
		}},
		{"open alarms", true, func(q postgres.Querier) (int, error) { return length(postgres.AlarmList(ctx, q, true, nil, page)) }},
	} {
		err := d.DB.InAPI(ctx, postgres.Scope{Org: org, Operator: c.operator}, func(tx *postgres.Tx) error {
			q := &explaining{Tx: tx, t: t, what: c.what, large: large}
			n, err := c.run(q)
			if n == 0 || q.plans == 0 {
				t.Errorf("%s: %d rows, %d plans; the test looks at nothing", c.what, n, q.plans)
			}
			return err
		})
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

func length[T any](list []T, err error) (int, error) { return len(list), err }

package app

import (
	"context"
	"fmt"
	"slices"

	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// projectLimits are what a new project begins with; operators change them.
func projectLimits() map[cloud.QuotaResource]*int64 {
	n := func(v int64) *int64 { return &v }
	return map[cloud.QuotaResource]*int64{
		cloud.QuotaInstances: n(1_000),
		cloud.QuotaVCPU:      n(2_000),
		cloud.QuotaMemoryMiB: n(8 << 20),
		cloud.QuotaGPUMilli:  n(64_000),
	}
}

// firstLimits are the first project's: whoever has just set a cloud up should
// not meet them.
func firstLimits() map[cloud.QuotaResource]*int64 {
	out := projectLimits()
	for _, n := range out {
		*n *= 20
	}
	return out
}

// ProjectList lists the projects of the actor's organisation.
func (a *App) ProjectList(ctx context.Context, c Call, p Page) (List[cloud.Project], error) {
	if err := may(c, authz.ProjectList, c.Actor.OrgID); err != nil {
		return List[cloud.Project]{}, err
	}
	limit, err := p.size()
	if err != nil {
		return List[cloud.Project]{}, err
	}
	after, err := p.after()
	if err != nil {
		return List[cloud.Project]{}, err
	}
	var rows []cloud.Project
	err = a.db.InAPI(ctx, postgres.ScopeOf(c.Actor), func(tx *postgres.Tx) (err error) {
		rows, err = postgres.ProjectList(ctx, tx, c.Actor.OrgID, after, limit+1)
		return err
	})
	return paged(rows, limit, func(p cloud.Project) string { return p.Name }), err
}

// ProjectGet shows one.
func (a *App) ProjectGet(ctx context.Context, c Call, project string) (out cloud.Project, err error) {
	err = a.inProject(ctx, c, authz.ProjectRead, project, func(_ *postgres.Tx, p cloud.Project) error {
		out = p
		return nil
	})
	return out, err
}

// ProjectCreate makes one in the actor's organisation.
func (a *App) ProjectCreate(ctx context.Context, c Call, in ProjectInput) (cloud.Project, error) {
	if err := may(c, authz.ProjectCreate, c.Actor.OrgID); err != nil {
		return cloud.Project{}, err
	}
	if fields := nameFields(in.Name, in.DisplayName); len(fields) > 0 {
		return cloud.Project{}, cloud.Invalid(fields...)
	}
	return once(ctx, a, c, "project.create", in, func(keep func(*postgres.Tx, cloud.Project) error) (cloud.Project, error) {
		p := cloud.Project{ID: cloud.ProjectID{}.New(), OrgID: c.Actor.OrgID, Name: in.Name, DisplayName: in.DisplayName, IdleWarnSeconds: idleWarnDefault}
		err := a.db.InAPI(ctx, postgres.ScopeOf(c.Actor), func(tx *postgres.Tx) (err error) {
			if p.CreatedAt, err = postgres.Now(ctx, tx); err != nil {
				return err
			}
			if err := postgres.ProjectAdd(ctx, tx, p, projectLimits()); err != nil {
				return taken(err, "project_org_id_name_key", "project", in.Name)
			}
			if err := audit(ctx, tx, c, p.OrgID, authz.ProjectCreate, p.ID.String(), map[string]any{"name": p.Name}); err != nil {
				return err
			}
			return keep(tx, p)
		})
		return p, err
	})
}

// ProjectChange is what a change of a project says; nil leaves a thing as it is.
type ProjectChange struct {
	DisplayName *string
	IdleStop    *int // seconds; 0: notebooks are never stopped for idleness
	IdleWarn    *int // seconds before that
}

const (
	idleStopLeast, idleStopMost = 60, 30 * 24 * 3600
	idleWarnMost                = 24 * 3600
	idleWarnDefault             = 600 // as the database has it
)

// ProjectUpdate changes how a project is shown, and when its idle notebooks are
// stopped.
func (a *App) ProjectUpdate(ctx context.Context, c Call, project string, in ProjectChange) (out cloud.Project, err error) {
	var fields []cloud.Field
	if in.DisplayName != nil && len(*in.DisplayName) > displayNameMaximum {
		fields = append(fields, cloud.Field{Location: "body.display_name", Message: "at most 200 bytes"})
	}
	if in.IdleStop != nil && *in.IdleStop != 0 && (*in.IdleStop < idleStopLeast || *in.IdleStop > idleStopMost) {
		fields = append(fields, cloud.Field{Location: "body.idle_stop_seconds", Message: "a minute to 30 days, or null for never", Value: *in.IdleStop})
	}
	if in.IdleWarn != nil && (*in.IdleWarn < 0 || *in.IdleWarn > idleWarnMost) {
		fields = append(fields, cloud.Field{Location: "body.idle_warn_seconds", Message: "at most a day", Value: *in.IdleWarn})
	}
	if in == (ProjectChange{}) {
		fields = append(fields, cloud.Field{Location: "body", Message: "nothing to change was given"})
	}
	if len(fields) > 0 {
		return out, cloud.Invalid(fields...)
	}
	err = a.inProject(ctx, c, authz.ProjectUpdate, project, func(tx *postgres.Tx, p cloud.Project) (err error) {
		detail := map[string]any{}
		if in.DisplayName != nil {
			p.DisplayName = *in.DisplayName
			detail["display_name"] = p.DisplayName
		}
		if in.IdleStop != nil {
			p.IdleStopSeconds = nil
			if *in.IdleStop > 0 {
				p.IdleStopSeconds = in.IdleStop
			}
			detail["idle_stop_seconds"] = p.IdleStopSeconds
		}
		if in.IdleWarn != nil {
			p.IdleWarnSeconds = *in.IdleWarn
			detail["idle_warn_seconds"] = p.IdleWarnSeconds
		}
		if (in.IdleStop != nil || in.IdleWarn != nil) && p.IdleStopSeconds != nil && p.IdleWarnSeconds >= *p.IdleStopSeconds {
			f := cloud.Field{Location: "body.idle_warn_seconds", Value: p.IdleWarnSeconds,
				Message: fmt.Sprintf("less than idle_stop_seconds, which is %d: the warning comes before the stop", *p.IdleStopSeconds)}
			if in.IdleWarn == nil {
				f = cloud.Field{Location: "body.idle_stop_seconds", Value: *p.IdleStopSeconds,
					Message: fmt.Sprintf("more than idle_warn_seconds, which is %d: the warning comes before the stop", p.IdleWarnSeconds)}
			}
			return cloud.Invalid(f)
		}
		if out, err = postgres.ProjectChange(ctx, tx, p); err != nil {
			return err
		}
		return audit(ctx, tx, c, p.OrgID, authz.ProjectUpdate, p.ID.String(), detail)
	})
	return out, err
}

// QuotaList shows a project's limits and what it uses of them.
func (a *App) QuotaList(ctx context.Context, c Call, project string) (out []cloud.Quota, err error) {
	err = a.inProject(ctx, c, authz.QuotaRead, project, func(tx *postgres.Tx, p cloud.Project) (err error) {
		out, err = postgres.QuotaList(ctx, tx, p.ID)
		return err
	})
	return out, err
}

// QuotaSet changes limits. One below what is used stops nothing that runs; it
// refuses what comes next.
func (a *App) QuotaSet(ctx context.Context, c Call, project string, limits map[cloud.QuotaResource]*int64) (out []cloud.Quota, err error) {
	var fields []cloud.Field
	detail := map[string]any{}
	for r, limit := range limits {
		if !slices.Contains(cloud.QuotaResources, r) {
			fields = append(fields, cloud.Field{Location: "body." + string(r), Message: "one of gpu_milli, instances, memory_mib, vcpu"})
		} else if limit != nil && *limit < 0 {
			fields = append(fields, cloud.Field{Location: "body." + string(r), Message: "zero or more, or null for no limit", Value: *limit})
		}
		detail[string(r)] = limit
	}
	if len(limits) == 0 {
		fields = append(fields, cloud.Field{Location: "body", Message: "no limit was given"})
	}
	if len(fields) > 0 {
		return nil, cloud.Invalid(fields...)
	}
	err = a.inProject(ctx, c, authz.QuotaUpdate, project, func(tx *postgres.Tx, p cloud.Project) (err error) {
		if err := postgres.QuotaSet(ctx, tx, p.ID, limits); err != nil {
			return err
		}
		if err := audit(ctx, tx, c, p.OrgID, authz.QuotaUpdate, p.ID.String(), detail); err != nil {
			return err
		}
		out, err = postgres.QuotaList(ctx, tx, p.ID)
		return err
	})
	return out, err
}

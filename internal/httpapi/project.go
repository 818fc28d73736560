package httpapi

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
)

// ProjectPath names a project.
type ProjectPath struct {
	Project string `path:"project" maxLength:"100" doc:"Name or id"`
}

func (s *server) projectOperations() {
	const tag = "Projects"
	register(s, operation{method: "GET", path: "/v1/projects", action: authz.ProjectList, tag: tag, summary: "List projects", description: "Of the current organisation."}, s.projectList)
	register(s, operation{method: "POST", path: "/v1/projects", action: authz.ProjectCreate, tag: tag, summary: "Make a project", status: 201}, s.projectCreate)
	register(s, operation{method: "GET", path: "/v1/projects/{project}", action: authz.ProjectRead, tag: tag, summary: "Show a project"}, s.projectGet)
	register(s, operation{method: "PATCH", path: "/v1/projects/{project}", action: authz.ProjectUpdate, tag: tag, summary: "Change a project", description: "How it is shown, and when its idle notebooks are stopped. What is absent stays as it is."}, s.projectUpdate)
	register(s, operation{method: "GET", path: "/v1/projects/{project}/quotas", action: authz.QuotaRead, tag: tag, summary: "Show its limits and what it uses of them"}, s.quotaList)
	register(s, operation{method: "PUT", path: "/v1/projects/{project}/quotas", action: authz.QuotaUpdate, tag: tag, summary: "Set limits",
		description: "Operators only. Limits that are not named stay as they are; one below what is used only stops growth."}, s.quotaSet)
}

func (s *server) projectList(ctx context.Context, in *struct{ Paged }) (*out[api.Page[api.Project]], error) {
	l, err := s.app.ProjectList(ctx, call(ctx, ""), in.page())
	return pageOf(l, err, projectOf)
}

func (s *server) projectGet(ctx context.Context, in *struct {
	Strict
	ProjectPath
}) (*out[api.Project], error) {
	p, err := s.app.ProjectGet(ctx, call(ctx, ""), in.Project)
	return oneOf(p, err, projectOf)
}

func (s *server) projectCreate(ctx context.Context, in *struct {
	Creating
	Body api.ProjectCreate
}) (*out[api.Project], error) {
	p, err := s.app.ProjectCreate(ctx, call(ctx, in.IdempotencyKey), app.ProjectInput{Name: in.Body.Name, DisplayName: in.Body.DisplayName})
	return oneOf(p, err, projectOf)
}

func (s *server) projectUpdate(ctx context.Context, in *struct {
	Strict
	ProjectPath
	Body    api.ProjectUpdate
	RawBody []byte
}) (*out[api.Project], error) {
	change := app.ProjectChange{DisplayName: in.Body.DisplayName, IdleStop: in.Body.IdleStopSeconds, IdleWarn: in.Body.IdleWarnSeconds}
	if change.IdleStop == nil && says(in.RawBody, "idle_stop_seconds") {
		never := 0
		change.IdleStop = &never
	}
	p, err := s.app.ProjectUpdate(ctx, call(ctx, ""), in.Project, change)
	return oneOf(p, err, projectOf)
}

func (s *server) quotaList(ctx context.Context, in *struct {
	Strict
	ProjectPath
}) (*out[api.List[api.Quota]], error) {
	l, err := s.app.QuotaList(ctx, call(ctx, ""), in.Project)
	return listOf(l, err, quotaOf)
}

func (s *server) quotaSet(ctx context.Context, in *struct {
	Strict
	ProjectPath
	Body api.QuotaUpdate
}) (*out[api.List[api.Quota]], error) {
	limits := map[cloud.QuotaResource]*int64{}
	for i, q := range in.Body.Items {
		if _, twice := limits[cloud.QuotaResource(q.Resource)]; twice {
			return nil, cloud.Invalid(cloud.Field{Location: fmt.Sprintf("body.items[%d].resource", i), Message: q.Resource + " is given twice"})
		}
		limits[cloud.QuotaResource(q.Resource)] = q.Limit
	}
	l, err := s.app.QuotaSet(ctx, call(ctx, ""), in.Project, limits)
	return listOf(l, err, quotaOf)
}

func projectOf(p cloud.Project) api.Project {
	return api.Project{ID: p.ID.String(), Name: p.Name, DisplayName: p.DisplayName, OrganisationID: p.OrgID.String(), CreatedAt: p.CreatedAt.UTC(),
		IdleStopSeconds: p.IdleStopSeconds, IdleWarnSeconds: p.IdleWarnSeconds}
}

// says reports a key of a JSON object, which null gives a meaning of its own.
func says(raw []byte, key string) bool {
	var keys map[string]json.RawMessage
	if json.Unmarshal(raw, &keys) != nil {
		return false
	}
	_, ok := keys[key]
	return ok
}

func quotaOf(q cloud.Quota) api.Quota {
	return api.Quota{Resource: string(q.Resource), Limit: q.Limit, Used: q.Used}
}

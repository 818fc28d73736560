package api

import (
	"context"
	"net/http"
)

// JobListOptions filter a list of jobs.
type JobListOptions struct {
	PageOptions
	State string // only those in this state
	All   bool   // deleted ones too
}

func jobs(project string) string { return "/v1/projects/" + seg(project) + "/jobs" }

func jobPath(project, job string) string { return jobs(project) + "/" + seg(job) }

// JobCreate asks for a job; its members are queued when the call returns.
func (c *Client) JobCreate(ctx context.Context, project string, in JobCreate, opts ...CallOption) (*Job, error) {
	var out Job
	return &out, c.do(ctx, http.MethodPost, jobs(project), nil, in, &out, opts...)
}

// JobList reads one page.
func (c *Client) JobList(ctx context.Context, project string, o JobListOptions) (*Page[Job], error) {
	q := o.query()
	if o.State != "" {
		q.Set("state", o.State)
	}
	if o.All {
		q.Set("all", "true")
	}
	var out Page[Job]
	return &out, c.do(ctx, http.MethodGet, jobs(project), q, nil, &out)
}

// JobListAll reads every page.
func (c *Client) JobListAll(ctx context.Context, project string, o JobListOptions) ([]Job, error) {
	return ListAll(ctx, func(p PageOptions) (*Page[Job], error) {
		o.PageOptions = p
		return c.JobList(ctx, project, o)
	})
}

// JobGet reads one by name or id, with its members and its history.
func (c *Client) JobGet(ctx context.Context, project, job string) (*Job, error) {
	var out Job
	return &out, c.do(ctx, http.MethodGet, jobPath(project, job), nil, nil, &out)
}

// JobCancel stops all members.
func (c *Client) JobCancel(ctx context.Context, project, job string, opts ...CallOption) (*Job, error) {
	var out Job
	return &out, c.do(ctx, http.MethodPost, jobPath(project, job)+"/cancel", nil, nil, &out, opts...)
}

// JobDelete removes it with its members.
func (c *Client) JobDelete(ctx context.Context, project, job string, opts ...CallOption) (*Job, error) {
	var out Job
	return &out, c.do(ctx, http.MethodDelete, jobPath(project, job), nil, nil, &out, opts...)
}

// JobEvents lists what happened to it, newest first.
func (c *Client) JobEvents(ctx context.Context, project, job string, o PageOptions) (*Page[Event], error) {
	var out Page[Event]
	return &out, c.do(ctx, http.MethodGet, jobPath(project, job)+"/events", o.query(), nil, &out)
}

package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// InstanceListOptions filter a list of instances.
type InstanceListOptions struct {
	PageOptions
	State string // only those in this state
	Name  string // exactly
	All   bool   // deleted ones too
}

func instances(project string) string { return "/v1/projects/" + seg(project) + "/instances" }

func instancePath(project, instance string) string { return instances(project) + "/" + seg(instance) }

// InstanceCreate asks for an instance; it is queued when the call returns.
func (c *Client) InstanceCreate(ctx context.Context, project string, in InstanceCreate, opts ...CallOption) (*Instance, error) {
	var out Instance
	return &out, c.do(ctx, http.MethodPost, instances(project), nil, in, &out, opts...)
}

// InstanceDryRun says what a create would cost and whether it would start now.
func (c *Client) InstanceDryRun(ctx context.Context, project string, in DryRun) (*DryRunResult, error) {
	var out DryRunResult
	return &out, c.do(ctx, http.MethodPost, instances(project)+":dry-run", nil, in, &out)
}

// InstanceList reads one page.
func (c *Client) InstanceList(ctx context.Context, project string, o InstanceListOptions) (*Page[Instance], error) {
	q := o.query()
	if o.State != "" {
		q.Set("state", o.State)
	}
	if o.Name != "" {
		q.Set("name", o.Name)
	}
	if o.All {
		q.Set("all", "true")
	}
	var out Page[Instance]
	return &out, c.do(ctx, http.MethodGet, instances(project), q, nil, &out)
}

// InstanceListAll reads every page.
func (c *Client) InstanceListAll(ctx context.Context, project string, o InstanceListOptions) ([]Instance, error) {
	return ListAll(ctx, func(p PageOptions) (*Page[Instance], error) {
		o.PageOptions = p
		return c.InstanceList(ctx, project, o)
	})
}

// InstanceGet reads one by name or id.
func (c *Client) InstanceGet(ctx context.Context, project, instance string) (*Instance, error) {
	var out Instance
	return &out, c.do(ctx, http.MethodGet, instancePath(project, instance), nil, nil, &out)
}

// InstanceStart queues a stopped or failed one again.
func (c *Client) InstanceStart(ctx context.Context, project, instance string, opts ...CallOption) (*Instance, error) {
	return c.instanceAction(ctx, project, instance, "start", opts)
}

// InstanceStop ends its guest; it gives back what it holds, unless it is a VM
// whose own policy is to hold it.
func (c *Client) InstanceStop(ctx context.Context, project, instance string, opts ...CallOption) (*Instance, error) {
	return c.instanceAction(ctx, project, instance, "stop", opts)
}

// InstanceStartAs is InstanceStart with how to start.
func (c *Client) InstanceStartAs(ctx context.Context, project, instance string, in InstanceStart, opts ...CallOption) (*Instance, error) {
	var out Instance
	return &out, c.do(ctx, http.MethodPost, instancePath(project, instance)+"/start", nil, in, &out, opts...)
}

// InstanceStopAs is InstanceStop with what becomes of its place.
func (c *Client) InstanceStopAs(ctx context.Context, project, instance string, in InstanceStop, opts ...CallOption) (*Instance, error) {
	var out Instance
	return &out, c.do(ctx, http.MethodPost, instancePath(project, instance)+"/stop", nil, in, &out, opts...)
}

// InstanceUpdate changes what is given; a flavor only while it is stopped and
// holds nothing.
func (c *Client) InstanceUpdate(ctx context.Context, project, instance string, in InstanceUpdate, opts ...CallOption) (*Instance, error) {
	var out Instance
	return &out, c.do(ctx, http.MethodPatch, instancePath(project, instance), nil, in, &out, opts...)
}

// InstanceRestart ends its guest and starts it again where it is.
func (c *Client) InstanceRestart(ctx context.Context, project, instance string, opts ...CallOption) (*Instance, error) {
	return c.instanceAction(ctx, project, instance, "restart", opts)
}

func (c *Client) instanceAction(ctx context.Context, project, instance, action string, opts []CallOption) (*Instance, error) {
	var out Instance
	return &out, c.do(ctx, http.MethodPost, instancePath(project, instance)+"/"+action, nil, nil, &out, opts...)
}

// InstanceDelete removes it and everything it holds.
func (c *Client) InstanceDelete(ctx context.Context, project, instance string, opts ...CallOption) (*Instance, error) {
	var out Instance
	return &out, c.do(ctx, http.MethodDelete, instancePath(project, instance), nil, nil, &out, opts...)
}

// InstanceEvents reads one page of its history, newest first.
func (c *Client) InstanceEvents(ctx context.Context, project, instance string, o PageOptions) (*Page[Event], error) {
	var out Page[Event]
	return &out, c.do(ctx, http.MethodGet, instancePath(project, instance)+"/events", o.query(), nil, &out)
}

// InstanceMetrics reads what its node measured lately.
func (c *Client) InstanceMetrics(ctx context.Context, project, instance string) (*InstanceMetrics, error) {
	var out InstanceMetrics
	return &out, c.do(ctx, http.MethodGet, instancePath(project, instance)+"/metrics", nil, nil, &out)
}

// ExecTicket makes a ticket for one terminal, good for 30 seconds.
func (c *Client) ExecTicket(ctx context.Context, project, instance string) (*ExecTicket, error) {
	var out ExecTicket
	return &out, c.do(ctx, http.MethodPost, instancePath(project, instance)+"/exec-tickets", nil, nil, &out)
}

// Ticket makes a ticket for one stream: a terminal, a console, a screen or a port.
func (c *Client) Ticket(ctx context.Context, project, instance string, in TicketCreate) (*ExecTicket, error) {
	var out ExecTicket
	return &out, c.do(ctx, http.MethodPost, instancePath(project, instance)+"/exec-tickets", nil, in, &out)
}

// InstanceOpen gives a link that lets a browser into a web server inside an
// instance, once, within 30 seconds.
func (c *Client) InstanceOpen(ctx context.Context, project, instance string, port int) (*Opened, error) {
	var out Opened
	return &out, c.do(ctx, http.MethodPost, fmt.Sprintf("%s/ports/%d/open", instancePath(project, instance), port), nil, nil, &out)
}

// WaitInstance watches an instance until done says so, calling seen (nil: none)
// with each change. It follows the project's event stream and asks again every
// two seconds in case the stream is down.
func (c *Client) WaitInstance(ctx context.Context, project, instance string, done func(*Instance) bool, seen func(*Instance)) (*Instance, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	moved := make(chan struct{}, 1)
	go func() {
		_ = c.Events(ctx, project, "", func(Event) error {
			select {
			case moved <- struct{}{}:
			default:
			}
			return nil
		})
	}()
	poll := time.NewTicker(2 * time.Second)
	defer poll.Stop()
	var last *Instance
	for {
		now, err := c.InstanceGet(ctx, project, instance)
		var p *Problem
		switch {
		case err == nil:
			if seen != nil && (last == nil || changed(last, now)) {
				seen(now)
			}
			if last = now; done(now) {
				return now, nil
			}
		case errors.As(err, &p) && p.Status < 500:
			return last, err
		case ctx.Err() != nil:
			return last, fmt.Errorf("wait for %s: %w", instance, ctx.Err())
		}
		select {
		case <-ctx.Done():
			return last, fmt.Errorf("wait for %s: %w", instance, ctx.Err())
		case <-moved:
		case <-poll.C:
		}
	}
}

func changed(a, b *Instance) bool {
	progress := func(i *Instance) int {
		if i.Progress == nil {
			return -1
		}
		return *i.Progress
	}
	return a.State != b.State || a.Message != b.Message || a.Generation != b.Generation || progress(a) != progress(b)
}

// UsageOptions choose what Usage adds up.
type UsageOptions struct {
	From, To time.Time // half-open; zero: the last 30 days
	GroupBy  string    // day, instance or sku; empty: day
}

// Usage says what a project used and what it cost.
func (c *Client) Usage(ctx context.Context, project string, o UsageOptions) (*Usage, error) {
	q := url.Values{}
	if !o.From.IsZero() {
		q.Set("from", o.From.UTC().Format(time.RFC3339))
	}
	if !o.To.IsZero() {
		q.Set("to", o.To.UTC().Format(time.RFC3339))
	}
	if o.GroupBy != "" {
		q.Set("group_by", o.GroupBy)
	}
	var out Usage
	return &out, c.do(ctx, http.MethodGet, "/v1/projects/"+seg(project)+"/usage", q, nil, &out)
}

package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// LogOptions choose which part of an instance's output is read.
type LogOptions struct {
	Tail   int  // last lines; 0: all that is kept
	Follow bool // go on until the instance ends or the caller closes
}

// Logs streams what an instance wrote. The caller closes it.
func (c *Client) Logs(ctx context.Context, project, instance string, o LogOptions) (io.ReadCloser, error) {
	q := url.Values{}
	if o.Tail > 0 {
		q.Set("tail", strconv.Itoa(o.Tail))
	}
	if o.Follow {
		q.Set("follow", "true")
	}
	req, err := c.request(ctx, http.MethodGet, instancePath(project, instance)+"/logs", q, nil, nil)
	if err != nil {
		return nil, err
	}
	res, err := c.HTTP.Do(req)
	if err != nil {
		return nil, fmt.Errorf("reach %s: %w", c.BaseURL, err)
	}
	if res.StatusCode >= 400 {
		defer res.Body.Close()
		return nil, problemOf(res)
	}
	return res.Body, nil
}

// Events follows a project's changes from after a cursor (empty: from now) and
// hands each to fn. It connects again by itself, from where it was, until ctx
// ends, fn returns an error, or the server refuses.
func (c *Client) Events(ctx context.Context, project, after string, fn func(Event) error) error {
	wait := 200 * time.Millisecond
	for {
		before := after
		err := c.eventsOnce(ctx, project, &after, fn)
		var p *Problem
		var stop *stopError
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &stop):
			return stop.err
		case errors.As(err, &p) && p.Status < 500 && p.Status != http.StatusTooManyRequests:
			return err
		}
		if after != before {
			wait = 200 * time.Millisecond
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
		wait = min(2*wait, 5*time.Second)
	}
}

// stopError carries an error of the caller's own function through the loop.
type stopError struct{ err error }

func (s *stopError) Error() string { return s.err.Error() }

func (c *Client) eventsOnce(ctx context.Context, project string, after *string, fn func(Event) error) error {
	req, err := c.request(ctx, http.MethodGet, "/v1/projects/"+seg(project)+"/events", nil, nil, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/event-stream")
	if *after != "" {
		req.Header.Set("Last-Event-ID", *after)
	}
	res, err := c.HTTP.Do(req)
	if err != nil {
		return fmt.Errorf("reach %s: %w", c.BaseURL, err)
	}
	defer res.Body.Close()
	if res.StatusCode >= 400 {
		return problemOf(res)
	}
	return readEvents(res.Body, after, fn)
}

// readEvents parses an event stream: the fields id, event and data, and
// comments, which keep the connection alive.
func readEvents(r io.Reader, after *string, fn func(Event) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), 4<<20)
	var id, kind string
	var data strings.Builder
	for lines.Scan() {
		line := lines.Text()
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if id != "" {
				*after = id
			}
			if kind == "change" && data.Len() > 0 {
				var e Event
				if err := json.Unmarshal([]byte(data.String()), &e); err != nil {
					return fmt.Errorf("read event: %w", err)
				}
				if err := fn(e); err != nil {
					return &stopError{err}
				}
			}
			id, kind = "", ""
			data.Reset()
		case field == "id":
			id = value
		case field == "event":
			kind = value
		case field == "data":
			data.WriteString(value)
		}
	}
	return lines.Err()
}

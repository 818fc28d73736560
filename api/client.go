package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Client talks to one Tenon. The zero value is not usable; see NewClient. It is
// safe for concurrent use as long as its fields are left alone.
type Client struct {
	BaseURL      string       // http://127.0.0.1:7480
	Token        string       // API token or access token; empty: anonymous
	Organisation string       // name or id; empty: the token's own
	UserAgent    string       // who calls; shown in the server's log
	HTTP         *http.Client // without a total timeout: streams are long
}

// NewClient makes a client for a base URL and a token.
func NewClient(baseURL, token string) *Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 16
	transport.ResponseHeaderTimeout = 60 * time.Second
	return &Client{
		BaseURL:   strings.TrimRight(baseURL, "/"),
		Token:     token,
		UserAgent: "tenon-go",
		HTTP:      &http.Client{Transport: transport},
	}
}

// CallOption changes one request.
type CallOption func(http.Header)

// IdempotencyKey makes a POST safe to repeat: the same key and body give the
// first answer again.
func IdempotencyKey(key string) CallOption {
	return func(h http.Header) { h.Set("Idempotency-Key", key) }
}

// IfGeneration lets a change happen only while the resource still has that
// generation; otherwise it is refused with 412.
func IfGeneration(generation int64) CallOption {
	return func(h http.Header) { h.Set("If-Match", strconv.Quote(strconv.FormatInt(generation, 10))) }
}

// seg escapes one path segment.
func seg(s string) string { return url.PathEscape(s) }

func (c *Client) request(ctx context.Context, method, path string, query url.Values, body any, opts []CallOption) (*http.Request, error) {
	target := c.BaseURL + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	var reader io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		reader = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, target, reader)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	c.identify(req.Header)
	for _, o := range opts {
		o(req.Header)
	}
	return req, nil
}

func (c *Client) identify(h http.Header) {
	if c.Token != "" {
		h.Set("Authorization", "Bearer "+c.Token)
	}
	if c.Organisation != "" {
		h.Set("Tenon-Org", c.Organisation)
	}
	if c.UserAgent != "" {
		h.Set("User-Agent", c.UserAgent)
	}
}

// do sends one request and reads its JSON answer into out (nil: there is none).
func (c *Client) do(ctx context.Context, method, path string, query url.Values, body, out any, opts ...CallOption) error {
	req, err := c.request(ctx, method, path, query, body, opts)
	if err != nil {
		return err
	}
	res, err := c.HTTP.Do(req)
	if err != nil {
		return fmt.Errorf("reach %s: %w", c.BaseURL, err)
	}
	defer res.Body.Close()
	if res.StatusCode >= 400 {
		return problemOf(res)
	}
	if out == nil || res.StatusCode == http.StatusNoContent {
		_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 1<<16)) // lets the connection be used again
		return nil
	}
	if err := json.NewDecoder(res.Body).Decode(out); err != nil {
		return fmt.Errorf("read the answer of %s %s: %w", method, path, err)
	}
	return nil
}

// problemOf reads an error answer; one that is no problem+json (a proxy's) still
// becomes a Problem.
func problemOf(res *http.Response) *Problem {
	raw, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	var p Problem
	if json.Unmarshal(raw, &p) != nil || p.Status == 0 {
		text := strings.TrimSpace(string(raw))
		if len(text) > 300 {
			text = text[:300] + "…"
		}
		p = Problem{Title: http.StatusText(res.StatusCode), Status: res.StatusCode, Code: "unexpected_answer",
			Detail: fmt.Sprintf("%s answered %s: %s", res.Request.URL.Host, res.Status, text)}
	}
	if p.RequestID == "" {
		p.RequestID = res.Header.Get("X-Request-Id")
	}
	return &p
}

func (o PageOptions) query() url.Values {
	q := url.Values{}
	if o.Limit > 0 {
		q.Set("limit", strconv.Itoa(o.Limit))
	}
	if o.PageToken != "" {
		q.Set("page_token", o.PageToken)
	}
	return q
}

// ListAll reads a paged list to its end: ListAll(ctx, func(o PageOptions) …
// { return c.InstanceList(ctx, "default", InstanceListOptions{PageOptions: o}) }).
func ListAll[T any](ctx context.Context, list func(PageOptions) (*Page[T], error)) ([]T, error) {
	var out []T
	o := PageOptions{Limit: 200}
	for {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		page, err := list(o)
		if err != nil {
			return out, err
		}
		out = append(out, page.Items...)
		if page.NextPageToken == "" {
			return out, nil
		}
		o.PageToken = page.NextPageToken
	}
}

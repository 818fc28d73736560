package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/tunnel"
)

const (
	dialTimeout    = 10 * time.Second
	maxAnswer      = 4 << 20 // of a node's JSON
	streamsPerUser = 64      // terminals, consoles, forwarded connections and followed logs
)

// Config is what a Gateway needs.
type Config struct {
	App  *app.App
	Pool *tunnel.Pool
	Log  *slog.Logger
	// Watch is how often a stream asks whether it may go on; 0: 3 s.
	Watch time.Duration
	// Ping is how often a terminal's WebSocket is pinged; 0: 25 s.
	Ping time.Duration
	// Apps says where web servers inside instances are reached; the zero value:
	// they are not.
	Apps Apps
	// Register takes the count of open terminals; nil: not counted.
	Register prometheus.Registerer
}

// Gateway hands out streams.
type Gateway struct {
	app         *app.App
	pool        *tunnel.Pool
	log         *slog.Logger
	watch, ping time.Duration

	apps  Apps
	proxy *httputil.ReverseProxy

	streams, requests perUser

	mu     sync.Mutex
	visits map[visitKey]visitKnown

	terminals prometheus.Gauge
	raws      prometheus.Gauge
}

// New makes a gateway; it starts nothing.
func New(c Config) *Gateway {
	g := &Gateway{app: c.App, pool: c.Pool, log: c.Log, watch: c.Watch, ping: c.Ping, apps: c.Apps, visits: map[visitKey]visitKnown{},
		streams: perUser{limit: streamsPerUser}, requests: perUser{limit: appsPerUser},
		terminals: prometheus.NewGauge(prometheus.GaugeOpts{Name: "tenon_terminals_open", Help: "Terminals of instances that are joined to a client now."}),
		raws:      prometheus.NewGauge(prometheus.GaugeOpts{Name: "tenon_raw_streams_open", Help: "Consoles, screens and forwarded ports that are joined to a client now."})}
	if c.Register != nil {
		c.Register.MustRegister(g.terminals, g.raws)
	}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	if g.watch <= 0 {
		g.watch = 3 * time.Second
	}
	if g.ping <= 0 {
		g.ping = 25 * time.Second
	}
	g.proxy = g.newProxy()
	return g
}

// hold counts a long stream of a user; the function gives it back.
func (g *Gateway) hold(user cloud.UserID) (func(), error) {
	release, err := g.streams.hold(user)
	if err != nil {
		return nil, cloud.E(cloud.KindRateLimited, "too_many_streams", "you have %d terminals, consoles, forwarded connections and followed logs open, which is the limit", streamsPerUser).
			WithHint("close one first").With("limit", streamsPerUser).With("used", streamsPerUser)
	}
	return release, nil
}

// perUser counts what each user has under way.
type perUser struct {
	limit int
	mu    sync.Mutex
	inUse map[cloud.UserID]int
}

var errLimit = errors.New("the user's limit is reached")

func (p *perUser) hold(user cloud.UserID) (func(), error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inUse[user] >= p.limit {
		return nil, errLimit
	}
	if p.inUse == nil {
		p.inUse = map[cloud.UserID]int{}
	}
	p.inUse[user]++
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.inUse[user]--; p.inUse[user] <= 0 {
			delete(p.inUse, user)
		}
	}), nil
}

// get asks a node; the caller closes the body.
func (g *Gateway) get(ctx context.Context, node cloud.NodeID, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://node"+path, nil)
	if err != nil {
		return nil, fmt.Errorf("ask node: %w", err)
	}
	res, err := g.pool.Transport(node.String()).RoundTrip(req)
	if err != nil {
		return nil, unreachable(err)
	}
	if res.StatusCode != http.StatusOK {
		defer res.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10))
		return nil, refused(res.StatusCode, string(text))
	}
	return res, nil
}

// getJSON asks a node for a small answer.
func (g *Gateway) getJSON(ctx context.Context, node cloud.NodeID, path string, out any) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	res, err := g.get(ctx, node, path)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(out); err != nil {
		return cloud.E(cloud.KindUnavailable, "node_answer", "the node's answer can't be read").Wrap(err)
	}
	return nil
}

func unreachable(err error) error {
	e := cloud.E(cloud.KindUnavailable, "node_unreachable", "the node that runs it can't be reached now").
		WithHint("the instance goes on by itself; try again in a moment").Wrap(err)
	var status *tunnel.StatusError
	if errors.As(err, &status) {
		return refused(status.StatusCode, status.Body)
	}
	return e
}

// refused turns a node's refusal into ours. Its text is for the log only.
func refused(status int, text string) error {
	cause := fmt.Errorf("node answered %d: %s", status, strings.TrimSpace(text))
	switch status {
	case http.StatusNotFound, http.StatusConflict:
		return cloud.E(cloud.KindConflict, "not_running", "the instance has no running guest on its node").
			WithHint("wait until it is running").Wrap(cause)
	}
	return cloud.E(cloud.KindUnavailable, "node_refused", "the node that runs it could not do this").Wrap(cause)
}

// path fills an instance's id into one of nodewire's paths.
func path(pattern string, id cloud.InstanceID) string {
	return strings.Replace(pattern, "{id}", id.String(), 1)
}

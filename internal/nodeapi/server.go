package nodeapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/authn"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/loop"
	"github.com/tenon-cloud/tenon/internal/nodewire"
	"github.com/tenon-cloud/tenon/internal/tunnel"
)

// Config is what the door is made of.
type Config struct {
	App   *app.App
	Keys  *authn.Keys
	Pool  *tunnel.Pool // Notify is set by New
	Hosts []string     // names and addresses by which nodes reach the door
	// Wakes subscribes to a topic: postgres.DB.Wakes.
	Wakes func(topic string) (<-chan struct{}, func())
	// NodeTopic names the topic of a node's assignment: postgres.TopicNode.
	NodeTopic func(cloud.NodeID) string
	// Registry serves /v2/ and must ask RegistryAuthoriser; nil: no pulls.
	Registry http.Handler
	Log      *slog.Logger
	Observer loop.Observer // told of each push as a tick of the loop "pusher"; nil: none
	Timing   Timing
}

// Timing is how often; zeros take the defaults.
type Timing struct {
	Check  time.Duration // certificates of connected nodes: 2 s
	Resync time.Duration // what all nodes hold is compared again: 15 s
	Push   time.Duration // one PUT may take: 15 s
}

// Server is the nodes' door.
type Server struct {
	cfg     Config
	app     *app.App
	log     *slog.Logger
	handler http.Handler

	mu      sync.Mutex
	serials map[cloud.NodeID]map[string]time.Time // of connected nodes, with when each was last seen
	pushers map[cloud.NodeID]*pusher
	ctx     context.Context // of Serve; nil before it
	wg      sync.WaitGroup
	door    tls.Certificate
	doorAt  time.Time
	valid   map[string]time.Time // serial → when it was found good
}

// New makes the door; Serve starts it.
func New(cfg Config) *Server {
	set := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	set(&cfg.Timing.Check, 2*time.Second)
	set(&cfg.Timing.Resync, 15*time.Second)
	set(&cfg.Timing.Push, 15*time.Second)
	s := &Server{
		cfg: cfg, app: cfg.App, log: cfg.Log, serials: map[cloud.NodeID]map[string]time.Time{},
		pushers: map[cloud.NodeID]*pusher{}, valid: map[string]time.Time{},
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	cfg.Pool.Notify = s.connected
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+nodewire.PathEnroll, s.enroll)
	mux.HandleFunc("POST "+nodewire.PathRenew, s.identified(s.renew))
	mux.HandleFunc("POST "+nodewire.PathReports, s.identified(s.report))
	mux.HandleFunc("GET "+nodewire.PathSecrets, s.identified(s.secrets))
	mux.HandleFunc("GET "+nodewire.PathConnect, s.identified(s.connect))
	mux.HandleFunc("/v2/", s.identified(s.registry))
	s.handler = mux
	return s
}

// Serve answers nodes on a plain listener until ctx ends.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	s.ctx = ctx
	s.mu.Unlock()
	if _, err := s.certificate(nil); err != nil {
		return err
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS13, GetCertificate: s.certificate, NextProtos: []string{"http/1.1"},
		ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: s.cfg.Keys.CAPool(),
	}
	srv := &http.Server{
		Handler: s.handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	s.wg.Go(func() { s.checkCertificates(ctx) })
	s.wg.Go(func() { s.resync(ctx) })
	done := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer done()
	err := srv.Serve(tls.NewListener(ln, config))
	cancel()
	for _, id := range s.nodes() {
		s.cfg.Pool.CloseNode(id.String())
	}
	s.wg.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return ctx.Err()
	}
	return fmt.Errorf("serve the node door: %w", err)
}

// certificate makes the door's own, and a fresh one each month.
func (s *Server) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); s.doorAt.IsZero() || now.Sub(s.doorAt) > 30*24*time.Hour {
		c, err := s.cfg.Keys.DoorCertificate(s.cfg.Hosts, now)
		if err != nil {
			return nil, err
		}
		s.door, s.doorAt = c, now
	}
	c := s.door
	return &c, nil
}

// nodes lists those that have a connection or a pusher here.
func (s *Server) nodes() []cloud.NodeID {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]cloud.NodeID, 0, len(s.serials))
	for id := range s.serials {
		out = append(out, id)
	}
	return out
}

package httpapi

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/gateway"
)

// Config is what the door is made of.
type Config struct {
	App      *app.App
	Gateway  *gateway.Gateway
	Registry http.Handler         // the embedded OCI registry, mounted at /v2/; nil: none
	Console  fs.FS                // the built console; nil: NotBuilt is shown
	NotBuilt string               // the page to show without one
	Ready    []ReadyCheck         // what /readyz asks
	Metrics  *prometheus.Registry // nil: a fresh one
	Log      *slog.Logger
	CloudID  string
	Version  string
	TLS      bool // the listener speaks TLS: cookies are Secure, HSTS is sent
}

// ReadyCheck is one thing that must be so before requests are answered well.
type ReadyCheck struct {
	Name  string
	Check func(context.Context) error
}

type server struct {
	cfg        Config
	app        *app.App
	log        *slog.Logger
	mux        *chi.Mux
	huma       huma.API
	operations []operation
	publics    map[string]string // "GET /healthz": why nobody has to be signed in
	requests   *prometheus.HistogramVec
	streams    prometheus.Gauge
	named      map[string]string // "GET /v1/me": what its requests are counted as
	reference  []byte            // /docs/api
	contract   []byte            // /openapi.yaml
}

// New builds the door.
func New(cfg Config) (http.Handler, error) {
	s, err := build(cfg)
	if err != nil {
		return nil, err
	}
	return s.byHost(), nil
}

// OpenAPI is the contract as YAML. It needs nothing but the code.
func OpenAPI() ([]byte, error) {
	s, err := build(Config{})
	if err != nil {
		return nil, err
	}
	return s.contract, nil
}

// Headers may be this long. At an app's host a page next to it may have set as many
// cookies as a browser keeps, and the owner must get in all the same.
const (
	maxHeaderBytes    = 64 << 10
	maxAppHeaderBytes = 1 << 20
)

// fitting refuses headers that are too long for the console.
func fitting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := 0
		for name, values := range r.Header {
			for _, v := range values {
				n += len(name) + len(v) + len(": \r\n")
			}
		}
		if n > maxHeaderBytes {
			http.Error(w, "431 Request Header Fields Too Large", http.StatusRequestHeaderFieldsTooLarge)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// NewServer wraps the door with limits that suit it: headers must come quickly,
// bodies are limited by each operation, streams may last.
func NewServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: maxAppHeaderBytes,
		ConnContext: gateway.WithConn,
		ErrorLog:    slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// hooks points huma's error constructors at ours; they are its package's
// variables, so this is done once for the process.
var hooks = sync.OnceFunc(func() {
	huma.DefaultArrayNullable = false
	huma.ValidateStrictCasing = true
	huma.NewError = func(status int, msg string, errs ...error) huma.StatusError {
		return validationAnswer(nil, status, msg, errs...)
	}
	huma.NewErrorWithContext = validationAnswer
})

func build(cfg Config) (*server, error) {
	hooks()
	s := &server{cfg: cfg, app: cfg.App, log: cfg.Log, mux: chi.NewMux(), publics: map[string]string{}, named: map[string]string{}}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.cfg.Metrics == nil {
		s.cfg.Metrics = prometheus.NewRegistry()
	}
	s.requests = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "tenon_http_request_duration_seconds", Help: "Time to answer, by operation and class of status; streams count when they end.",
		Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10},
	}, []string{"operation", "status"})
	s.streams = prometheus.NewGauge(prometheus.GaugeOpts{Name: "tenon_event_streams_open", Help: "Clients that follow a project's changes now."})
	for _, c := range []prometheus.Collector{s.requests, s.streams} {
		if err := s.cfg.Metrics.Register(c); err != nil {
			return nil, fmt.Errorf("register request metrics: %w", err)
		}
	}
	s.mux.Use(s.identify, s.record, s.rescue, s.harden, s.wellFormed, middleware.GetHead, compress())
	s.mux.NotFound(s.noRoute)
	s.mux.MethodNotAllowed(s.noMethod)

	s.huma = humachi.New(s.mux, humaConfig())
	s.authOperations()
	s.orgOperations()
	s.projectOperations()
	s.tokenOperations()
	s.flavorOperations()
	s.imageOperations()
	s.credentialOperations()
	s.instanceOperations()
	s.jobOperations()
	s.streamOperations()
	s.rawOperations()
	s.usageOperations()
	s.nodeOperations()
	s.gpuOperations()
	s.cardOperations()
	s.cardLifeOperations()
	s.priceOperations()
	s.alarmOperations()
	s.replicaOperations()
	if err := s.writeContract(); err != nil {
		return nil, err
	}
	s.publicRoutes()
	return s, nil
}

// public adds a route that needs no sign-in, with the reason.
func (s *server) public(method, path, why string, h http.Handler) {
	if method == "" {
		s.mux.Handle(path, h)
		s.publics["* "+path] = why
		return
	}
	s.mux.Method(method, path, h)
	s.publics[method+" "+path] = why
}

func (s *server) publicRoutes() {
	s.public("GET", "/healthz", "tells only that the process answers", http.HandlerFunc(s.healthz))
	s.public("GET", "/readyz", "tells a load balancer whether to send requests here", http.HandlerFunc(s.readyz))
	s.public("GET", "/metrics", "counters without tenants' names, for a scraper beside the control plane", promhttp.HandlerFor(s.cfg.Metrics, promhttp.HandlerOpts{}))
	s.public("GET", "/openapi.yaml", "the contract is no secret", s.fixed("application/yaml; charset=utf-8", s.contract))
	s.public("GET", "/docs/api", "the reference of the contract", s.fixed("text/html; charset=utf-8", s.reference))
	if s.cfg.Registry != nil {
		s.public("", "/v2", "the registry checks the token itself, in its own protocol", s.cfg.Registry)
		s.public("", "/v2/*", "the registry checks the token itself, in its own protocol", s.cfg.Registry)
	}
	s.public("GET", "/assets/*", "the console's own code", http.HandlerFunc(s.asset))
	s.public("GET", "/*", "the console's page, which signs in by itself", http.HandlerFunc(s.console))
}

// remoteHost is the address without its port.
func remoteHost(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

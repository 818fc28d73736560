package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/tenon-cloud/tenon/internal/authn"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// Config is what App needs.
type Config struct {
	DB      *postgres.DB
	Keys    *authn.Keys
	Resolve Resolver // nil: images can't be added
	// CheckLogin asks a registry whether it takes a login; nil: it is not asked.
	CheckLogin func(ctx context.Context, host string, login RegistryLogin) error
	Now        func() time.Time
	Log        *slog.Logger
}

// Resolved is what a registry says of a reference.
type Resolved struct {
	Digest    string // sha256:…
	SizeBytes int64
}

// Resolver asks a registry for the digest behind a reference. Its error's text
// is shown to the user.
type Resolver func(ctx context.Context, ref string, embedded bool, login *RegistryLogin) (Resolved, error)

// RegistryLogin opens a registry that is not ours.
type RegistryLogin struct{ Username, Password string }

// ErrLoginRefused is CheckLogin's for a user name and password that the registry
// does not take; any other error means that it could not be asked.
var ErrLoginRefused = errors.New("the registry refuses this user name and password")

// App is the use-cases.
type App struct {
	cfg  Config
	db   *postgres.DB
	keys *authn.Keys
	now  func() time.Time
	log  *slog.Logger

	passwords *authn.Passwords
	throttle  *authn.Throttle
	seen      seen
	feeds     feeds
	lanes     lanes
	beats     beats
	rates     rates
}

// New makes the use-cases; it starts nothing.
func New(cfg Config) *App {
	a := &App{cfg: cfg, db: cfg.DB, keys: cfg.Keys, now: cfg.Now, log: cfg.Log}
	if a.now == nil {
		a.now = time.Now
	}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	a.passwords, a.throttle = authn.NewPasswords(), authn.NewThrottle(a.now)
	return a
}

// Package registry is the OCI registry that a cloud carries with it: the
// handlers of distribution v3 over a folder on disk, behind an authoriser that
// the caller supplies. It knows no tokens, tenants or SQL.
//
// Imports: distribution v3, go-containerregistry (to ask other registries) and
// the standard library.
package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry/handlers"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
	"github.com/sirupsen/logrus"
)

// What may be done with a repository.
const (
	ActionPull   = "pull"
	ActionPush   = "push"
	ActionDelete = "delete"
	ActionList   = "list" // the catalogue: the repository is empty
)

// The two answers that an Authoriser has besides nil.
var (
	ErrUnauthenticated = errors.New("a Tenon token is needed") // 401 with a challenge
	ErrForbidden       = errors.New("not allowed")             // 401 as the protocol asks, without telling whether it exists
)

// Credential is what a client sent: a user name and password, or a bearer
// token as the password with no user name. Both empty: nothing was sent.
type Credential struct {
	Username string
	Password string
}

// Authoriser decides whether a credential may do all of the actions to a
// repository. With no repository and no actions the client only asks whether
// its credential is good.
type Authoriser func(ctx context.Context, credential Credential, repository string, actions []string) error

// AllowPull lets anyone read: for callers inside the process.
func AllowPull(_ context.Context, _ Credential, _ string, actions []string) error {
	for _, a := range actions {
		if a != ActionPull {
			return ErrForbidden
		}
	}
	return nil
}

// Config is how a registry is made.
type Config struct {
	Folder    string // where blobs and manifests lie; made when missing
	Secret    []byte // signs upload state; the same on every replica
	Authorise Authoriser
	MaxBlob   int64 // bytes of one blob that may be pushed; 0: 256 GiB
	KeepFree  int64 // bytes of the folder's file system below which nothing is taken; 0: 1 GiB
}

// Handler serves the registry protocol under /v2/.
type Handler struct {
	app      *handlers.App
	folder   string
	maxBlob  int64
	keepFree int64
}

// New opens the folder and builds the handler.
func New(ctx context.Context, c Config) (*Handler, error) {
	if c.Folder == "" || c.Authorise == nil || len(c.Secret) < 16 {
		return nil, errors.New("open registry: a folder, an authoriser and a secret of 16 bytes or more are needed")
	}
	if err := os.MkdirAll(c.Folder, 0o700); err != nil {
		return nil, fmt.Errorf("make registry folder: %w", err)
	}
	config := &configuration.Configuration{
		Storage: configuration.Storage{
			"filesystem": configuration.Parameters{"rootdirectory": c.Folder},
			"delete":     configuration.Parameters{"enabled": true},
		},
		Auth: configuration.Auth{controllerName: configuration.Parameters{"authorise": c.Authorise}},
	}
	config.HTTP.Secret = fmt.Sprintf("%x", c.Secret)
	config.HTTP.RelativeURLs = true // whatever address or proxy the client came through
	config.Catalog.MaxEntries = 1000
	config.Log.AccessLog.Disabled = true
	config.Log.Level = "error"

	if err := register(); err != nil {
		return nil, fmt.Errorf("register access controller: %w", err)
	}
	quietLibrary()
	app, err := build(ctx, config)
	if err != nil {
		return nil, err
	}
	h := &Handler{app: app, folder: c.Folder, maxBlob: c.MaxBlob, keepFree: c.KeepFree}
	if h.maxBlob == 0 {
		h.maxBlob = blobMaximum
	}
	if h.keepFree == 0 {
		h.keepFree = freeMinimum
	}
	return h, nil
}

// build turns the library's panics on a bad configuration into an error.
func build(ctx context.Context, config *configuration.Configuration) (app *handlers.App, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("open registry: %v", p)
		}
	}()
	return handlers.NewApp(ctx, config), nil
}

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w, r = withTrouble(w, r)
	if isManifestPut(r) {
		manifestPut(h.app, w, r)
		return
	}
	if isUpload(r) {
		h.push(w, r)
		return
	}
	h.app.ServeHTTP(w, r)
}

// Close ends the background clean-up of abandoned uploads.
func (h *Handler) Close() error { return h.app.Shutdown() }

// quietLibrary sends the library's warnings and errors to slog and drops the
// line that it writes for each request. The library logs through logrus's
// process-wide logger, so this is done once for the process.
var quietLibrary = sync.OnceFunc(func() {
	logrus.SetOutput(io.Discard)
	logrus.SetLevel(logrus.WarnLevel)
	logrus.AddHook(slogHook{})
})

type slogHook struct{}

func (slogHook) Levels() []logrus.Level {
	return []logrus.Level{logrus.PanicLevel, logrus.FatalLevel, logrus.ErrorLevel, logrus.WarnLevel}
}

func (slogHook) Fire(e *logrus.Entry) error {
	level := slog.LevelError
	// Clients are refused and ask for what isn't there all day long.
	status, answered := e.Data["http.response.status"].(int)
	if e.Level == logrus.WarnLevel || answered && status < 500 || strings.Contains(e.Message, "authoriz") {
		level = slog.LevelDebug
	}
	attrs := []any{}
	for _, key := range []string{"err.message", "err.detail", "http.request.uri", "http.response.status"} {
		if v, ok := e.Data[key]; ok {
			attrs = append(attrs, key, v)
		}
	}
	slog.Default().Log(context.Background(), level, "registry: "+e.Message, attrs...)
	return nil
}

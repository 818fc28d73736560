package registry

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// Resolver asks registries what a reference means now.
type Resolver struct {
	Embedded http.Handler // our own, with every right
	Private  bool         // registries at private addresses may be asked too
	Limit    time.Duration
}

// Found is what a reference means.
type Found struct {
	Digest    string
	SizeBytes int64 // of configuration and layers, as they are stored
}

// Resolve finds a reference's digest. Its error's text is fit for the user.
func (r Resolver) Resolve(ctx context.Context, ref string, embedded bool, login *Login) (Found, error) {
	limit := r.Limit
	if limit <= 0 {
		limit = 20 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	auth := authn.Anonymous
	if login != nil && !embedded {
		auth = &authn.Basic{Username: login.Username, Password: login.Password}
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuth(auth)}
	var named []name.Option
	target := ref
	if embedded {
		target = "embedded.invalid/" + ref
		named = append(named, name.Insecure)
		options = append(options, remote.WithTransport(inProcess{r.Embedded}))
	} else {
		options = append(options, remote.WithTransport(r.outside()))
	}
	parsed, err := name.ParseReference(target, named...)
	if err != nil {
		return Found{}, fmt.Errorf("%q is not a reference to an image: it looks like docker.io/library/python:3.13", ref)
	}
	image, err := remote.Image(parsed, options...)
	if err != nil {
		return Found{}, inWords(ref, err)
	}
	digest, err := image.Digest()
	if err != nil {
		return Found{}, inWords(ref, err)
	}
	manifest, err := image.Manifest()
	if err != nil {
		return Found{}, inWords(ref, err)
	}
	found := Found{Digest: digest.String(), SizeBytes: manifest.Config.Size}
	for _, layer := range manifest.Layers {
		found.SizeBytes += layer.Size
	}
	return found, nil
}

// inWords says what a registry's refusal means.
func inWords(ref string, err error) error {
	var answer *transport.Error
	switch {
	case errors.Is(err, errPrivate):
		return fmt.Errorf("the registry of %s is at a private address, which this cloud does not ask", ref)
	case errors.Is(err, errPlain):
		return fmt.Errorf("the registry of %s would have the password sent in the clear, which is refused", ref)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the registry of %s did not answer in time", ref)
	case errors.As(err, &answer):
		switch answer.StatusCode {
		case http.StatusNotFound:
			return fmt.Errorf("%s is not in its registry", ref)
		case http.StatusUnauthorized, http.StatusForbidden:
			return fmt.Errorf("the registry does not let %s be read with what it was given, or it does not exist: a private one needs a project's registry credential", ref)
		case http.StatusTooManyRequests:
			return fmt.Errorf("the registry of %s refuses more requests for now", ref)
		}
		return fmt.Errorf("the registry answered %d for %s", answer.StatusCode, ref)
	}
	// The library's own text tells of the operator's network: for the log alone.
	slog.Info("a registry can't be asked", "image", ref, "error", err)
	return fmt.Errorf("the registry of %s can't be asked: %s", ref, cause(err))
}

// cause is what a tenant can act upon.
func cause(err error) string {
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	var dial *net.OpError
	var syntax *json.SyntaxError
	var late net.Error
	switch {
	case errors.As(err, &name) && name.IsNotFound:
		return "its name is not known"
	case errors.As(err, &name):
		return "its name can't be looked up just now"
	case errors.As(err, &certificate):
		return "its certificate can't be verified"
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return "it does not speak HTTPS"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "it refuses connections"
	case errors.As(err, &late) && late.Timeout():
		return "it did not answer in time"
	case errors.As(err, &dial):
		return "it can't be reached"
	case errors.As(err, &syntax):
		return "its answer is no registry's"
	}
	return "its answer can't be used"
}

var errPrivate = errors.New("a private address")

// outside is a transport for a tenant's references: unless it is allowed, it
// never connects to the control plane's own networks, whatever a name resolves
// to or a registry redirects to.
func (r Resolver) outside() http.RoundTripper {
	dialer := net.Dialer{Timeout: 10 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		where, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("read address: %w", err)
		}
		ip := where.Addr().Unmap()
		if !r.Private && (!ip.IsGlobalUnicast() || ip.IsPrivate()) {
			return errPrivate
		}
		return nil
	}}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = dialer.DialContext
	t.ResponseHeaderTimeout = 15 * time.Second
	return closed{t, r.Private}
}

// inProcess asks a handler without a network.
type inProcess struct{ handler http.Handler }

func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	if p.handler == nil {
		return nil, errors.New("this cloud has no registry of its own")
	}
	w := &answer{header: http.Header{}, status: http.StatusOK}
	p.handler.ServeHTTP(w, r)
	return &http.Response{StatusCode: w.status, Status: http.StatusText(w.status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r}, nil
}

// answer keeps what a handler writes; manifests and configurations are small.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(b []byte) (int, error) { return a.body.Write(b) }

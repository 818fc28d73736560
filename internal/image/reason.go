package image

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"syscall"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	remoteserrors "github.com/containerd/containerd/v2/core/remotes/errors"
	"github.com/containerd/errdefs"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// refuse is a failure that another try can't mend.
func refuse(message string, err error) *hypervisor.Failure {
	return &hypervisor.Failure{Reason: nodewire.ReasonImagePull, Message: message, Err: err, Final: true}
}

// explain turns a failed pull into what the tenant reads: the registry's own
// reason where it gave one.
func explain(ctx context.Context, s source, err error) error {
	var known *hypervisor.Failure
	if errors.As(err, &known) {
		return err
	}
	if cause := context.Cause(ctx); cause != nil {
		if errors.Is(cause, errAbandoned) {
			return cause
		}
		if errors.Is(cause, errStalled) {
			return &hypervisor.Failure{Reason: nodewire.ReasonImagePull, Err: err, Message: s.name() + ": " + cause.Error()}
		}
	}
	if errors.Is(err, errNoRoom) || errors.Is(err, syscall.ENOSPC) || strings.Contains(err.Error(), "no space left on device") {
		return &hypervisor.Failure{Reason: nodewire.ReasonDiskFull, Err: err, Message: "the node has no room for this image"}
	}
	var broken *unpackError
	if errors.As(err, &broken) {
		return &hypervisor.Failure{Reason: nodewire.ReasonImagePull, Message: "the image could not be unpacked: " + broken.cause(), Err: err}
	}
	message, final := describe(s, err)
	return &hypervisor.Failure{Reason: nodewire.ReasonImagePull, Message: message, Err: err, Final: final}
}

// unpackError is one of the daemon's, which speaks of the node's folders.
type unpackError struct{ error }

func (e *unpackError) Unwrap() error { return e.error }

// cause is the last part of the daemon's chain of words.
func (e *unpackError) cause() string {
	text := e.Error()
	return hidePaths(printable(text[strings.LastIndex(text, ": ")+1:]))
}

var absolutePath = regexp.MustCompile(`(^|[\s"'=(\[])/[^\s"',;:)\]]+`)

// hidePaths takes the node's folders out of a message.
func hidePaths(text string) string {
	return strings.TrimSpace(absolutePath.ReplaceAllString(text, "${1}…"))
}

// name is what a tenant knows a registry by; where the embedded one answers is
// the operator's business.
func (s source) name() string {
	if s.embedded {
		return "the cloud's registry"
	}
	return s.host
}

// hide is an error's text without what it says of the node.
func (s source) hide(err error) string {
	text := err.Error()
	if s.embedded {
		text = strings.ReplaceAll(strings.ReplaceAll(text, s.scheme+"://"+s.host+s.base, s.name()), s.host, s.name())
	}
	return hidePaths(printable(text))
}

func describe(s source, err error) (message string, final bool) {
	var (
		status remoteserrors.ErrUnexpectedStatus
		codes  docker.Errors
		dns    *net.DNSError
		asked  *url.Error
		broken *net.OpError // its own words name the node's addresses
	)
	host := s.name()
	what := s.repository + "@" + s.digest.String()
	switch {
	case errors.As(err, &status):
		message = fmt.Sprintf("%s answered %s", host, status.Status)
		if errors.As(err, &codes) && len(codes) > 0 {
			message += ": " + printable(codes.Error())
		} else if len(status.Body) > 0 {
			message += ": " + printable(string(status.Body))
		}
		return message, status.StatusCode/100 == 4 && status.StatusCode != http.StatusTooManyRequests
	case errors.As(err, &codes) && len(codes) > 0:
		return host + " answered: " + printable(codes.Error()), true
	case errdefs.IsNotFound(err):
		return fmt.Sprintf("%s answered 404 Not Found: it has no %s", host, what), true
	case errors.Is(err, docker.ErrInvalidAuthorization), errdefs.IsUnauthorized(err), errdefs.IsPermissionDenied(err):
		return fmt.Sprintf("%s answered 401 Unauthorized for %s", host, what), true
	case strings.Contains(err.Error(), "unexpected commit digest"), strings.Contains(err.Error(), "unexpected commit size"):
		return host + " sent content that does not match its digest", true
	case errors.As(err, &dns) && s.embedded:
		return host + ": its name is not known", false
	case errors.As(err, &dns):
		return "the registry's name " + dns.Name + " is not known", false
	case errors.As(err, &broken):
		for errors.As(broken.Err, &broken) { // a proxy's, say
		}
		return fmt.Sprintf("%s: %s %s: %s", host, broken.Op, broken.Net, printable(broken.Err.Error())), false
	case errors.As(err, &asked):
		return host + ": " + s.hide(asked.Err), false
	default:
		return host + ": " + s.hide(err), false
	}
}

// printable bounds what a registry may put before a tenant.
func printable(text string) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }), " ")
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "…"
	}
	return text
}

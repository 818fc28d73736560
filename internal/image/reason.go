package image

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
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
			return &hypervisor.Failure{Reason: nodewire.ReasonImagePull, Err: err, Message: s.host + ": " + cause.Error()}
		}
	}
	if errors.Is(err, errNoRoom) || errors.Is(err, syscall.ENOSPC) || strings.Contains(err.Error(), "no space left on device") {
		return &hypervisor.Failure{Reason: nodewire.ReasonDiskFull, Err: err, Message: "the node has no room for this image"}
	}
	message, final := describe(s, err)
	return &hypervisor.Failure{Reason: nodewire.ReasonImagePull, Message: message, Err: err, Final: final}
}

func describe(s source, err error) (message string, final bool) {
	var (
		status remoteserrors.ErrUnexpectedStatus
		codes  docker.Errors
		dns    *net.DNSError
		asked  *url.Error
	)
	what := s.repository + "@" + s.digest.String()
	switch {
	case errors.As(err, &status):
		message = fmt.Sprintf("%s answered %s", s.host, status.Status)
		if errors.As(err, &codes) && len(codes) > 0 {
			message += ": " + printable(codes.Error())
		} else if len(status.Body) > 0 {
			message += ": " + printable(string(status.Body))
		}
		return message, status.StatusCode/100 == 4 && status.StatusCode != http.StatusTooManyRequests
	case errors.As(err, &codes) && len(codes) > 0:
		return s.host + " answered: " + printable(codes.Error()), true
	case errdefs.IsNotFound(err):
		return fmt.Sprintf("%s answered 404 Not Found: it has no %s", s.host, what), true
	case errors.Is(err, docker.ErrInvalidAuthorization), errdefs.IsUnauthorized(err), errdefs.IsPermissionDenied(err):
		return fmt.Sprintf("%s answered 401 Unauthorized for %s", s.host, what), true
	case strings.Contains(err.Error(), "unexpected commit digest"), strings.Contains(err.Error(), "unexpected commit size"):
		return s.host + " sent content that does not match its digest", true
	case errors.As(err, &dns):
		return "the registry's name " + dns.Name + " is not known", false
	case errors.As(err, &asked):
		return s.host + ": " + printable(asked.Err.Error()), false
	default:
		return s.host + ": " + printable(err.Error()), false
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

package cli

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tenon-cloud/tenon/api"
)

// Exit codes, for scripts; `tenon help exit-codes` shows them.
const (
	exitOK          = 0
	exitError       = 1
	exitUsage       = 2
	exitSignIn      = 3
	exitNotFound    = 4
	exitRefused     = 5
	exitUnreachable = 6
	exitTimeout     = 7
	exitFailed      = 8
	exitInterrupted = 130
)

func exitCodes() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "Exit codes of this command",
		Long: `  0  done
  1  an error without a code of its own
  2  the command line is wrong
  3  not signed in, or the token is refused
  4  it does not exist, or is not yours to see
  5  refused: not allowed, above a limit, in conflict, invalid, or no capacity
  6  the cloud can't be reached, or answers that it can't serve now
  7  --wait ran out of time; what was asked goes on
  8  --wait saw the instance or the job fail
130  interrupted

` + "`tenon instance shell NAME -- COMMAND`" + ` exits with the command's own code: 127
when there is no such command, 126 when it can't be executed. It exits with 255
when the terminal was lost before the command ended.`,
	}
}

// usageError is a wrong command line.
type usageError struct {
	err error
	cmd *cobra.Command
}

func (e usageError) Error() string { return e.err.Error() }

// exitWith carries another program's exit code; nothing is printed for it.
type exitWith int

func (e exitWith) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// failedInstance is an instance that ended wrongly while it was waited for.
type failedInstance struct{ text string }

func (e failedInstance) Error() string { return e.text }

// waitedTooLong is --timeout reached.
type waitedTooLong struct{ text string }

func (e waitedTooLong) Error() string { return e.text }

type notSignedIn struct{ url string }

func (e notSignedIn) Error() string {
	return "not signed in to " + e.url
}

var errNoCloud = errors.New("no cloud is chosen")

// report prints an error for a person and gives its exit code.
func (a *app) report(cmd *cobra.Command, err error) int {
	if err == nil {
		return exitOK
	}
	var code exitWith
	if errors.As(err, &code) {
		return int(code)
	}
	status, text := explain(err)
	_, _ = fmt.Fprintln(a.Err, "tenon: "+text)
	var usage usageError
	if errors.As(err, &usage) || status == exitUsage {
		if cmd.Runnable() {
			_, _ = fmt.Fprintf(a.Err, "  Usage: %s\n", cmd.UseLine())
		}
		_, _ = fmt.Fprintf(a.Err, "  See `%s --help`.\n", cmd.CommandPath())
	}
	return status
}

// explain chooses the exit code and the words.
func explain(err error) (int, string) {
	var (
		usage    usageError
		problem  *api.Problem
		signIn   notSignedIn
		failed   failedInstance
		late     waitedTooLong
		op       *net.OpError
		dns      *net.DNSError
		unknown  x509.UnknownAuthorityError
		hostname x509.HostnameError
	)
	switch {
	case errors.As(err, &usage):
		return exitUsage, err.Error()
	case errors.As(err, &problem):
		return problemCode(problem), problemText(problem)
	case errors.Is(err, errNoCloud):
		return exitSignIn, err.Error() + "\n  Sign in with `tenon login URL`, or set TENON_URL and TENON_TOKEN (`. var/tenon.env` in a checkout that runs one)."
	case errors.As(err, &signIn):
		return exitSignIn, fmt.Sprintf("%v\n  Sign in with `tenon login %s`, or set TENON_TOKEN.", err, signIn.url)
	case errors.As(err, &failed):
		return exitFailed, err.Error()
	case errors.As(err, &late):
		return exitTimeout, err.Error()
	case errors.Is(err, context.Canceled):
		return exitInterrupted, "interrupted"
	case errors.Is(err, syscall.ECONNREFUSED):
		return exitUnreachable, "nothing answers: " + err.Error() + "\n  Is the cloud running? `make run` in its checkout starts one on this machine;\n  `tenon login URL` chooses another."
	case errors.As(err, &unknown), errors.As(err, &hostname):
		return exitUnreachable, "the cloud's certificate is not trusted here: " + err.Error()
	case errors.As(err, &dns):
		return exitUnreachable, fmt.Sprintf("the host %q is not known\n  Check the address: TENON_URL, --url or the one of `tenon login`.", dns.Name)
	case errors.As(err, &op), errors.Is(err, context.DeadlineExceeded):
		return exitUnreachable, "the cloud can't be reached: " + err.Error()
	}
	// Mistakes that cobra reports without a type.
	for _, start := range []string{"unknown command", "required flag", "at least one of the flags in the group", "if any flags in the group"} {
		if strings.HasPrefix(err.Error(), start) {
			return exitUsage, err.Error()
		}
	}
	return exitError, err.Error()
}

func problemCode(p *api.Problem) int {
	switch {
	case p.Status == http.StatusUnauthorized:
		return exitSignIn
	case p.Status == http.StatusNotFound:
		return exitNotFound
	case p.Status == http.StatusInsufficientStorage:
		return exitRefused
	case p.Status >= 500:
		return exitUnreachable
	}
	return exitRefused
}

// problemText lays a problem out: what, each field, the figures, the way out,
// and the number to quote.
func problemText(p *api.Problem) string {
	text := first(p.Detail, p.Title, fmt.Sprintf("the cloud answered %d", p.Status))
	for _, f := range p.Errors {
		text += fmt.Sprintf("\n  %s: %s", f.Location, f.Message)
		if f.Value != nil {
			text += fmt.Sprintf(" (sent: %v)", f.Value)
		}
	}
	if p.Limit != nil && p.Used != nil && p.Asked != nil {
		text += fmt.Sprintf("\n  %s: limit %d, used %d, asked %d", first(p.Resource, "quota"), *p.Limit, *p.Used, *p.Asked)
	}
	for _, r := range p.Reasons {
		text += fmt.Sprintf("\n  %s (%d)", first(r.Message, r.Reason), r.Count)
	}
	if p.Hint != "" {
		text += "\n  " + p.Hint
	} else if p.Status == http.StatusUnauthorized {
		text += "\n  Sign in again with `tenon login`, or check TENON_TOKEN."
	}
	if p.RequestID != "" {
		text += "\n  request " + p.RequestID
	}
	return text
}

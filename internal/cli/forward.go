package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/tenon-cloud/tenon/api"
)

func (a *app) instanceForward() *cobra.Command {
	var stdio int
	cmd := &cobra.Command{
		Use: "forward NAME [LOCAL:]PORT...", Short: "Reach TCP ports inside an instance from this machine", Args: cobra.MinimumNArgs(1),
		ValidArgsFunction: a.complete(a.instanceNames),
		Long: `Listen on 127.0.0.1 and pass each connection on to a port inside the instance,
until interrupted. LOCAL is the port here; when absent, the same as inside; 0
chooses one. The instance needs no public address and opens nothing.

With --stdio, standard input and output are joined to one port instead, which is
what OpenSSH's ProxyCommand wants.`,
		Example: "  tenon instance forward web-1 8080:8888\n  tenon instance forward db-1 5432 9187\n" +
			"  ssh -o ProxyCommand='tenon instance forward vm-1 --stdio 22' -o HostKeyAlias=vm-1 tenon@vm-1",
		RunE: func(cmd *cobra.Command, args []string) error {
			if (stdio != 0) == (len(args) > 1) {
				return usageError{errors.New("either ports are given, or --stdio PORT"), cmd}
			}
			pairs, err := portPairs(args[1:])
			if err == nil && stdio != 0 && !isPort(stdio) {
				err = fmt.Errorf("--stdio %d: ports are 1 to 65535", stdio)
			}
			if err != nil {
				return usageError{err, cmd}
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			if stdio != 0 {
				conn, err := c.Port(cmd.Context(), a.projectName(), args[0], stdio)
				if err != nil {
					return err
				}
				defer func() { _ = conn.Close() }()
				return a.streamEnd(converse(cmd.Context(), conn, a.In, a.Out, false))
			}
			i, err := c.InstanceGet(cmd.Context(), a.projectName(), args[0])
			if err != nil {
				return err
			}
			return a.forward(cmd.Context(), c, i, pairs)
		},
	}
	cmd.Flags().IntVar(&stdio, "stdio", 0, "join standard input and output to this port")
	return cmd
}

type portPair struct{ local, remote int }

func isPort(n int) bool { return n >= 1 && n <= 65535 }

func portPairs(args []string) ([]portPair, error) {
	var out []portPair
	for _, arg := range args {
		local, remote, both := strings.Cut(arg, ":")
		if !both {
			remote = local
		}
		l, lerr := strconv.Atoi(local)
		r, rerr := strconv.Atoi(remote)
		if lerr != nil || rerr != nil || !isPort(r) || l != 0 && !isPort(l) {
			return nil, fmt.Errorf("%q is not [LOCAL:]PORT: it looks like 8080:8888", arg)
		}
		out = append(out, portPair{l, r})
	}
	return out, nil
}

// forward listens for every pair before it passes anything on.
func (a *app) forward(ctx context.Context, c *api.Client, i *api.Instance, pairs []portPair) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var listeners []net.Listener
	defer func() {
		for _, ln := range listeners {
			_ = ln.Close()
		}
	}()
	for _, p := range pairs {
		ln, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p.local)))
		if err != nil {
			return fmt.Errorf("listen for port %d: %w", p.remote, err)
		}
		listeners = append(listeners, ln)
	}
	var running sync.WaitGroup
	for n, p := range pairs {
		_, _ = fmt.Fprintf(a.Err, "http://%s is port %d of %s. Ctrl-C ends it.\n", listeners[n].Addr(), p.remote, i.Name)
		running.Go(func() { a.accept(ctx, c, i, p.remote, listeners[n]) })
	}
	<-ctx.Done()
	for _, ln := range listeners {
		_ = ln.Close()
	}
	running.Wait()
	return nil
}

func (a *app) accept(ctx context.Context, c *api.Client, i *api.Instance, port int, ln net.Listener) {
	for {
		here, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = here.Close() }()
			there, err := c.Port(ctx, i.ProjectID, i.ID, port)
			if err != nil {
				if ctx.Err() == nil {
					_, text := explain(err)
					_, _ = fmt.Fprintf(a.Err, "tenon: %s\n", text)
				}
				return
			}
			defer func() { _ = there.Close() }()
			joinConns(ctx, here, there)
		}()
	}
}

// joinConns passes bytes both ways until both directions have ended, or the
// instance's side has.
func joinConns(ctx context.Context, here net.Conn, there *api.RawConn) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(here, there)
	}()
	go func() {
		_, _ = io.Copy(there, here)
		_ = there.CloseWrite()
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

func (a *app) instanceOpen() *cobra.Command {
	var port int
	var path string
	var noBrowser bool
	cmd := &cobra.Command{
		Use: "open NAME", Short: "Open a web server inside an instance in a browser", Args: cobra.ExactArgs(1), ValidArgsFunction: a.complete(a.instanceNames),
		Long: `Print a link to a web server inside the instance (a notebook's own, or any that
listens on --port), on a host of its own, and open it in this machine's browser.
The link signs one browser in, within 30 seconds; the address it leads to stays
good for whoever may use the instance.`,
		Example: "  tenon instance open notebook-1\n  tenon instance open web-1 --port 3000",
		RunE: func(cmd *cobra.Command, args []string) error {
			if !isPort(port) {
				return usageError{fmt.Errorf("--port %d: ports are 1 to 65535", port), cmd}
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			o, err := c.InstanceOpen(cmd.Context(), a.projectName(), args[0], port)
			if err != nil {
				return err
			}
			if path != "" {
				o.URL += "&path=" + url.QueryEscape(path)
			}
			if err := a.print(o, func(t *table) { t.row(o.URL) }); err != nil {
				return err
			}
			if _, isTerminal := terminal(a.Out); isTerminal && !noBrowser && a.output == "table" {
				_ = browse(o.URL) // it is printed, too
			}
			return nil
		},
	}
	cmd.Flags().IntVar(&port, "port", 8888, "TCP port inside the instance")
	cmd.Flags().StringVar(&path, "path", "", "where to arrive, such as /lab")
	cmd.Flags().BoolVar(&noBrowser, "no-browser", false, "only print the link")
	return cmd
}

// browse asks the desktop to open a link; where there is none, nothing happens.
func browse(link string) error {
	var argv []string
	switch {
	case runtime.GOOS == "darwin":
		argv = []string{"open", link}
	case runtime.GOOS == "windows":
		argv = []string{"rundll32", "url.dll,FileProtocolHandler", link}
	case os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != "":
		argv = []string{"xdg-open", link}
	default:
		return nil
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("open a browser: %w", err)
	}
	go func() { _ = cmd.Wait() }()
	return nil
}

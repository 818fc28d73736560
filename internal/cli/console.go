package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tenon-cloud/tenon/api"
)

// escape ends a console, as virsh's does: Ctrl-].
const escape = 0x1d

func (a *app) instanceConsole() *cobra.Command {
	return &cobra.Command{
		Use: "console VM", Short: "Join a VM's serial console", Args: cobra.ExactArgs(1), ValidArgsFunction: a.complete(a.instanceNames),
		Long: `Join the serial console of a VM: first what it wrote since it booted, then both
ways. Ctrl-] leaves it; the VM goes on. It needs no network and no SSH key inside,
but whatever the VM's own login asks for.`,
		Example: "  tenon instance console vm-1\n  tenon instance console vm-1 </dev/null | tee boot.log",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			conn, err := c.Console(cmd.Context(), a.projectName(), args[0])
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close() }()
			in, inTTY := terminal(a.In)
			if _, outTTY := terminal(a.Out); inTTY && outTTY {
				_, _ = fmt.Fprintf(a.Err, "Joined to the serial console of %s. Leave it with Ctrl-].\n", args[0])
				before, err := term.MakeRaw(in)
				if err != nil {
					return fmt.Errorf("set up the terminal: %w", err)
				}
				defer func() { _ = term.Restore(in, before) }()
			}
			return a.streamEnd(converse(cmd.Context(), conn, a.In, a.Out, inTTY))
		},
	}
}

// errLeft is Ctrl-].
var errLeft = errors.New("left")

// converse joins a stream to the user until it ends, or until the escape is typed
// on a terminal.
func converse(ctx context.Context, conn *api.RawConn, in io.Reader, out io.Writer, escapes bool) error {
	over := make(chan error, 2)
	go func() {
		_, err := io.Copy(out, conn)
		over <- err
	}()
	go func() {
		buf := make([]byte, 32<<10)
		for {
			n, err := in.Read(buf)
			data := buf[:n]
			if at := bytes.IndexByte(data, escape); escapes && at >= 0 {
				_, _ = conn.Write(data[:at])
				over <- errLeft
				return
			}
			if _, werr := conn.Write(data); werr != nil {
				return // the other direction says why
			}
			if err != nil {
				_ = conn.CloseWrite()
				return
			}
		}
	}()
	select {
	case err := <-over:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// streamEnd turns the end of a stream into what the command ends with.
func (a *app) streamEnd(err error) error {
	var closed *api.StreamClosed
	switch {
	case err == nil, errors.Is(err, errLeft), errors.Is(err, context.Canceled):
		return nil
	case errors.As(err, &closed):
		_, _ = fmt.Fprintf(a.Err, "\r\ntenon: the stream has ended: %s\r\n", closed.Reason)
		return exitWith(exitLost)
	}
	return err
}

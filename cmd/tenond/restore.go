package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tenon-cloud/tenon/internal/authn"
	"github.com/tenon-cloud/tenon/internal/backup"
)

func restoreCommand() *cobra.Command {
	var state string
	var replace, other, yes bool
	cmd := &cobra.Command{
		Use: "restore FILE", Short: "Put the control plane back as it was in an archive", Args: cobra.ExactArgs(1),
		Long: `Put the control plane back as it was in an archive of ` + "`tenond backup`" + `. No
` + "`tenond serve`" + ` may be up on the database meanwhile.

Every node takes the restored state by itself when the control plane is up again.
What it runs and the archive does not know goes on running, is an orphan with an
alarm, and ends when an operator removes it. Sessions and join tokens end; a node
that joined after the backup has to join again.`,
		Example: "  tenond restore /backup/tenon-2026-11-30.tar\n  tenond restore --state var --replace tenon.tar",
		RunE: func(cmd *cobra.Command, args []string) error {
			archive, h, _, err := backup.Open(args[0])
			if err != nil {
				return err
			}
			defer func() { _ = archive.Close() }()
			return withPlace(cmd.Context(), state, true, h.CloudID, func(p place) error {
				to := backup.Target{DSN: p.DSN, MasterKeyFile: p.key, Registry: p.registry, CloudID: p.cloud, Replace: replace, OtherCloud: other,
					Passwords: func(m *authn.Master) func(string) string { return rolePassword(p.config, m) },
					Say:       func(format string, args ...any) { _, _ = fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...) }}
				if state != "" && p.cloud != h.CloudID {
					return fmt.Errorf("the archive is of cloud %s, and %s holds cloud %s, whose networks and containers carry its id: restore into an empty folder", h.CloudID, state, p.cloud)
				}
				there, err := backup.Look(cmd.Context(), h, to)
				if err != nil {
					return err
				}
				if !there.Empty && !there.Half && !yes {
					if err := confirm(cmd.InOrStdin(), cmd.ErrOrStderr(), h, there.CloudID); err != nil {
						return err
					}
				}
				done, err := backup.Restore(cmd.Context(), archive, h, to)
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "Cloud %s is as of %s, in era %s. %d instances were charged for then: each is not, until its node has said that it still runs.\nStart the control plane; nodes follow by themselves. Look at the alarms and at each node's orphans.\n",
					h.CloudID, h.TakenAt.UTC().Format(time.RFC3339), done.Era, done.Instances)
				return err
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&state, "state", "", "state folder of a cloud of tenond dev, which is stopped; an empty one becomes the archive's")
	f.BoolVar(&replace, "replace", false, "put it in the place of what the database holds")
	f.BoolVar(&other, "other-cloud", false, "the archive may be of another cloud than is here")
	f.BoolVar(&yes, "yes", false, "with --replace: don't ask")
	return cmd
}

// confirm wants the cloud's id typed: what is in the database goes.
func confirm(in io.Reader, out io.Writer, h backup.Header, there string) error {
	if f, ok := in.(*os.File); ok && !term.IsTerminal(int(f.Fd())) {
		return errors.New("what the database holds would go: --yes says that this is meant")
	}
	want := there
	if want == "" {
		want = h.CloudID
	}
	_, _ = fmt.Fprintf(out, "Everything in the database goes; in its place comes cloud %s as of %s.\nType %s to go on: ", h.CloudID, h.TakenAt.UTC().Format(time.RFC3339), want)
	line, _ := bufio.NewReader(in).ReadString('\n')
	if strings.TrimSpace(line) != want {
		return errors.New("not confirmed: nothing was changed")
	}
	return nil
}

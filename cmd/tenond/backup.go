package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tenon-cloud/tenon/internal/backup"
	"github.com/tenon-cloud/tenon/internal/devcloud"
)

func backupCommand() *cobra.Command {
	var state string
	var withKey, noRegistry, verify, force bool
	cmd := &cobra.Command{
		Use: "backup FILE|-", Short: "Copy the control plane into one file, while it serves", Args: cobra.ExactArgs(1),
		Long: `Copy the control plane into one file, while it serves: the database as of one
moment and the embedded registry. "-" writes to standard output. A file that is
there already is replaced only with --force.

The master key is not in it unless --with-key asks for it: keep it apart. What is
sealed in an archive can't be opened without the key, and whoever has both has
everything.

The database is the one of TENON_DATABASE_URL, or with --state that of the cloud
which ` + "`tenond dev --state`" + ` runs, or ran.`,
		Example: "  tenond backup /backup/tenon-$(date -u +%F).tar\n  tenond backup --state var tenon.tar\n  tenond backup --verify tenon.tar",
		RunE: func(cmd *cobra.Command, args []string) error {
			if verify {
				return verifyArchive(cmd.OutOrStdout(), args[0])
			}
			if err := mayWrite(args[0], force); err != nil {
				return err
			}
			return withPlace(cmd.Context(), state, false, "", func(p place) error {
				from := backup.Source{DSN: p.DSN, MasterKeyFile: p.key, Registry: p.registry, WithKey: withKey, NoRegistry: noRegistry, Version: version}
				if args[0] == "-" {
					if term.IsTerminal(int(os.Stdout.Fd())) {
						return errors.New("an archive is not for a terminal: name a file, or send it through a pipe")
					}
					_, err := backup.Write(cmd.Context(), from, os.Stdout)
					return err
				}
				h, err := backup.WriteFile(cmd.Context(), from, args[0])
				if err != nil {
					return err
				}
				return describe(cmd.OutOrStdout(), args[0], h, nil)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&state, "state", "", "state folder of a cloud of tenond dev")
	f.BoolVar(&withKey, "with-key", false, "put the master key in it: keep the archive as you would the key")
	f.BoolVar(&noRegistry, "without-registry", false, "leave the embedded registry out: copy its folder by other means")
	f.BoolVar(&force, "force", false, "replace the file if it is there already")
	f.BoolVar(&verify, "verify", false, "read an archive and compare every part with what was written")
	return cmd
}

// mayWrite refuses to write over what is there: the only good backup, perhaps.
func mayWrite(path string, force bool) error {
	if path == "-" || force {
		return nil
	}
	switch _, err := os.Lstat(path); {
	case err == nil:
		return fmt.Errorf("%s is there already: choose another name, or give --force to replace it", path)
	case !errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("look for %s: %w", path, err)
	}
	return nil
}

func verifyArchive(w io.Writer, path string) error {
	f, h, parts, err := backup.Open(path)
	if err != nil {
		return err
	}
	_ = f.Close()
	return describe(w, path, h, parts)
}

func describe(w io.Writer, path string, h backup.Header, parts []backup.Part) error {
	text := fmt.Sprintf("%s: cloud %s as of %s, schema %d, by tenond %s.\n", path, h.CloudID, h.TakenAt.UTC().Format(time.RFC3339), h.Schema, h.Version)
	if parts != nil {
		var bytes int64
		for _, p := range parts {
			bytes += p.Bytes
		}
		text += fmt.Sprintf("%d parts, %.1f MB, all as they were written.\n", len(parts), float64(bytes)/1e6)
	}
	if h.NoRegistry {
		text += "The embedded registry is not in it.\n"
	}
	if h.WithKey {
		text += "The master key is in it: keep it as you would the key.\n"
	} else {
		text += fmt.Sprintf("The master key (fingerprint %s) is not in it: without it, nothing that is sealed in it can be opened.\n", h.Key)
	}
	_, err := io.WriteString(w, text)
	return err
}

// place is what a backup is made of, and goes back to.
type place struct {
	config
	DSN, key, registry, cloud string
}

// withPlace finds it: by the environment, or in a state folder.
func withPlace(ctx context.Context, state string, alone bool, newID string, f func(place) error) error {
	if state == "" {
		c, err := readConfig(os.Getenv)
		if err != nil {
			return fmt.Errorf("the configuration is wrong:\n%w", err)
		}
		return f(place{config: c, DSN: c.DatabaseURL, key: c.MasterKeyFile, registry: filepath.Join(c.StateDir, "registry"), cloud: c.CloudID})
	}
	return devcloud.WithDatabase(ctx, state, devcloud.DefaultRoots, devcloud.NewConsole(os.Stderr), alone, newID, func(p devcloud.Place) error {
		return f(place{config: config{DatabaseURL: p.OwnerDSN}, DSN: p.OwnerDSN, key: p.MasterKeyFile, registry: p.Registry, cloud: p.CloudID})
	})
}

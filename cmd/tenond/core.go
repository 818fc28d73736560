package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/authn"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/postgres"
	"github.com/tenon-cloud/tenon/internal/registry"
	"github.com/tenon-cloud/tenon/web"
)

// core is what every command on the database needs.
type core struct {
	db      *postgres.DB
	keys    *authn.Keys
	app     *app.App
	tenants http.Handler // the registry, for tokens
	nodes   http.Handler // the registry, for nodes' certificates
}

// openCore makes the database ready and opens everything over it.
func openCore(ctx context.Context, c config, log *slog.Logger, process string) (*core, error) {
	master, err := authn.MasterLoad(c.MasterKeyFile)
	if err != nil {
		return nil, err
	}
	password := rolePassword(c, master)
	id := c.CloudID
	if id == "" {
		id = newCloudID() // a database that has one keeps it
	}
	if err := postgres.Bootstrap(ctx, postgres.BootstrapConfig{OwnerDSN: c.DatabaseURL, Password: password, CloudID: id, Log: log}); err != nil {
		return nil, err
	}
	db, err := postgres.Open(ctx, postgres.Config{DSN: c.DatabaseURL, Password: password, Log: log, Process: process})
	if err != nil {
		return nil, err
	}
	k := &core{db: db}
	if k.keys, err = authn.KeysLoad(ctx, master, keyStore{db}, time.Now()); err != nil {
		db.Close()
		return nil, err
	}
	if err := k.registries(ctx, c, master.RegistrySecret()); err != nil {
		db.Close()
		return nil, err
	}
	return k, nil
}

// rolePassword gives the other roles passwords where the owner has one; on a
// private socket the operating system says who is who.
func rolePassword(c config, master *authn.Master) func(string) string {
	u, err := url.Parse(c.DatabaseURL)
	inURL := err == nil && u.User != nil
	if inURL {
		_, inURL = u.User.Password()
	}
	if inURL || keywordPassword.MatchString(c.DatabaseURL) || os.Getenv("PGPASSWORD") != "" || os.Getenv("PGPASSFILE") != "" {
		return master.RolePassword
	}
	return nil
}

func newCloudID() string {
	var b [4]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// keyStore keeps sealed keys in the database.
type keyStore struct{ db *postgres.DB }

func (k keyStore) CloudID(ctx context.Context) (id string, err error) {
	err = k.db.InSystem(ctx, func(tx *postgres.Tx) error {
		state, err := postgres.CloudGet(ctx, tx)
		id = state.CloudID
		return err
	})
	return id, err
}

func (k keyStore) SealedKeyList(ctx context.Context) (out []authn.SealedKey, err error) {
	err = k.db.InSystem(ctx, func(tx *postgres.Tx) error {
		rows, err := postgres.SealedKeyList(ctx, tx)
		out = nil
		for _, r := range rows {
			out = append(out, authn.SealedKey(r))
		}
		return err
	})
	return out, err
}

func (k keyStore) SealedKeyAdd(ctx context.Context, s authn.SealedKey) error {
	return k.db.InSystem(ctx, func(tx *postgres.Tx) error {
		return postgres.SealedKeyAdd(ctx, tx, postgres.SealedKey(s))
	})
}

func resolver(r registry.Resolver) app.Resolver {
	return func(ctx context.Context, ref string, embedded bool, login *app.RegistryLogin) (app.Resolved, error) {
		found, err := r.Resolve(ctx, ref, embedded, (*registry.Login)(login))
		return app.Resolved{Digest: found.Digest, SizeBytes: found.SizeBytes}, err
	}
}

func loginCheck(r registry.Resolver) func(context.Context, string, app.RegistryLogin) error {
	return func(ctx context.Context, host string, login app.RegistryLogin) error {
		err := r.CheckLogin(ctx, host, registry.Login(login))
		if errors.Is(err, registry.ErrLoginRefused) {
			return fmt.Errorf("%w: %w", app.ErrLoginRefused, err)
		}
		return err
	}
}

// tenantAuthoriser lets in whoever has a Tenon token as the password. What is
// not theirs is refused in one way, whether it exists or not.
func tenantAuthoriser(a *app.App) registry.Authoriser {
	return func(ctx context.Context, cred registry.Credential, repository string, actions []string) error {
		if cred.Password == "" {
			return registry.ErrUnauthenticated
		}
		if slices.Contains(actions, registry.ActionList) {
			return registry.ErrForbidden // the list of every tenant's repositories is nobody's
		}
		push := slices.ContainsFunc(actions, func(action string) bool { return action != registry.ActionPull })
		err := a.RegistryAuthorise(ctx, cred.Password, repository, push)
		switch cloud.KindOf(err) {
		case cloud.KindUnauthenticated, cloud.KindMalformed:
			return registry.ErrUnauthenticated
		case cloud.KindForbidden, cloud.KindNotFound:
			return registry.ErrForbidden
		}
		return err
	}
}

// console is the built console; nil when it was not built.
func console() fs.FS {
	if !web.Built() {
		return nil
	}
	return web.Console()
}

func migrateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "migrate", Short: "Make the database ready and end", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := readConfig(os.Getenv)
			if err != nil {
				return err
			}
			log := c.logger()
			k, err := openCore(cmd.Context(), c, log, "")
			if err != nil {
				return err
			}
			k.db.Close()
			log.Info("the database is ready", "cloud_id", strings.TrimSpace(k.keys.CloudID()))
			return nil
		},
	}
}

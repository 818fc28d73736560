package cli

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tenon-cloud/tenon/api"
)

func (a *app) login() *cobra.Command {
	var email, token string
	var fromStdin bool
	cmd := &cobra.Command{
		Use:   "login [URL]",
		Short: "Sign in to a cloud and keep a token for it",
		Long: `Sign in with an e-mail address and a password: the password is used once, to
make an API token of 90 days, which is kept in the configuration file (mode
0600). With --token an existing token is checked and kept instead.`,
		Example: "  tenon login 127.0.0.1:7480\n  tenon login https://cloud.example --email ada@example.org\n  tenon login https://cloud.example --token tenon_…",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			saved, err := readConfig(a.Config)
			if err != nil {
				return err
			}
			url := first(append(args, a.url, a.Getenv("TENON_URL"), saved.URL)...)
			if url == "" {
				return usageError{errors.New("which cloud? Give its address"), cmd}
			}
			if url, err = cleanURL(url); err != nil {
				return usageError{err, cmd}
			}
			next := config{URL: url, Project: saved.Project}
			if next.URL != saved.URL {
				next.Project = ""
			}
			if token != "" {
				next.Token = token
			} else if next.Token, next.TokenName, err = a.passwordLogin(cmd.Context(), url, email, fromStdin); err != nil {
				return err
			}
			me, err := api.NewClient(url, next.Token).Me(cmd.Context())
			if err != nil {
				return err
			}
			next.Email = me.User.Email
			if err := next.write(a.Config); err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.Out, "Signed in to %s as %s, organisation %s.\n", url, me.User.Email, me.Organisation.Name)
			return err
		},
	}
	cmd.Flags().StringVar(&email, "email", "", "e-mail address; asked for when absent")
	cmd.Flags().StringVar(&token, "token", "", "keep this API token instead of signing in with a password")
	cmd.Flags().BoolVar(&fromStdin, "password-stdin", false, "read the password from standard input")
	return cmd
}

// passwordLogin trades a password for a named token.
func (a *app) passwordLogin(ctx context.Context, url, email string, fromStdin bool) (secret, name string, err error) {
	in := bufio.NewReader(a.In)
	if email == "" {
		if fromStdin {
			return "", "", errors.New("--password-stdin needs --email")
		}
		_, _ = fmt.Fprint(a.Err, "E-mail: ")
		if email, err = readLine(in); err != nil {
			return "", "", err
		}
	}
	password, err := a.readPassword(in, fromStdin)
	if err != nil {
		return "", "", err
	}
	c := api.NewClient(url, "")
	c.UserAgent = "tenon-cli/" + a.version
	session, err := c.Login(ctx, strings.TrimSpace(email), password)
	if err != nil {
		return "", "", err
	}
	c.Token = session.AccessToken
	name = tokenName()
	made, err := c.TokenCreate(ctx, api.TokenCreate{Name: name, ExpiresInDays: 90})
	if err != nil {
		return "", "", fmt.Errorf("make a token: %w", err)
	}
	_ = c.Logout(ctx) // the session has served; the token stays
	return made.Secret, name, nil
}

func (a *app) readPassword(in *bufio.Reader, fromStdin bool) (string, error) {
	fd, isTerminal := terminal(a.In)
	if fromStdin || !isTerminal {
		return readLine(in)
	}
	_, _ = fmt.Fprint(a.Err, "Password: ")
	text, err := term.ReadPassword(fd)
	_, _ = fmt.Fprintln(a.Err)
	if err != nil {
		return "", fmt.Errorf("read password: %w", err)
	}
	return string(text), nil
}

func readLine(in *bufio.Reader) (string, error) {
	line, err := in.ReadString('\n')
	if err != nil && (!errors.Is(err, io.EOF) || line == "") {
		return "", fmt.Errorf("read answer: %w", err)
	}
	return strings.TrimRight(line, "\r\n"), nil
}

// tokenName says which machine a token was made on.
func tokenName() string {
	host, _ := os.Hostname()
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(host))
	var b [3]byte
	_, _ = rand.Read(b[:])
	return "cli-" + strings.Trim(clean[:min(len(clean), 40)], "-") + "-" + hex.EncodeToString(b[:])
}

func (a *app) logout() *cobra.Command {
	return &cobra.Command{
		Use: "logout", Short: "Revoke the token of the last login and forget it", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			saved, err := readConfig(a.Config)
			if err != nil {
				return err
			}
			if saved.Token == "" {
				_, err := fmt.Fprintln(a.Err, "Not signed in.")
				return err
			}
			if saved.TokenName != "" {
				ctx, cancel := context.WithTimeout(cmd.Context(), 10*time.Second)
				defer cancel()
				if err := api.NewClient(saved.URL, saved.Token).TokenRevoke(ctx, saved.TokenName); err != nil {
					_, _ = fmt.Fprintf(a.Err, "The token %s could not be revoked and stays good until it expires: %v\n", saved.TokenName, err)
				}
			}
			if err := os.Remove(a.Config); err != nil {
				return fmt.Errorf("forget the token: %w", err)
			}
			_, err = fmt.Fprintf(a.Out, "Signed out of %s.\n", saved.URL)
			return err
		},
	}
}

func (a *app) whoami() *cobra.Command {
	return &cobra.Command{
		Use: "whoami", Short: "Show who you are to the cloud, and in which organisation", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			me, err := c.Me(cmd.Context())
			if err != nil {
				return err
			}
			return a.print(me, func(t *table) {
				t.row("USER", "ORGANISATION", "ROLE", "OPERATOR", "TOKEN", "CLOUD")
				t.row(me.User.Email, me.Organisation.Name, first(me.Organisation.Role, "-"), yesNo(me.User.Operator), first(me.TokenID, "-"), c.BaseURL)
			})
		},
	}
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

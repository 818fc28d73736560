// Package cli is the `tenon` command: cobra commands over api.Client, and
// nothing that isn't in the public API. It runs on any operating system.
//
// Imports: api, cobra, yaml and the standard library.
package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tenon-cloud/tenon/api"
)

// Streams are where a command reads and writes, and what it knows of its
// surroundings; tests bring their own.
type Streams struct {
	In     io.Reader
	Out    io.Writer
	Err    io.Writer
	Getenv func(string) string
	Config string // path of the configuration file
	Now    func() time.Time
}

// Run executes one command line and returns the process's exit code.
func Run(ctx context.Context, args []string, version string, s Streams) int {
	a := &app{Streams: s, version: version}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	command, err := root.ExecuteContextC(ctx)
	return a.report(command, err)
}

// app is one invocation.
type app struct {
	Streams
	version string
	url     string
	project string
	output  string
}

const long = `tenon drives a Tenon cloud: instances on GPUs and slices of GPUs.

Sign in once with ` + "`tenon login URL`" + `, or set TENON_URL and TENON_TOKEN
(` + "`make run`" + ` writes both to var/tenon.env: source it). TENON_PROJECT and
--project choose the project; the default is "default".

See also: tenon help exit-codes`

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use: "tenon", Short: "Drive a Tenon cloud", Long: long, Version: a.version,
		SilenceErrors: true, SilenceUsage: true, DisableAutoGenTag: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			switch a.output {
			case "table", "json", "yaml":
				return nil
			}
			return usageError{errors.New("--output is table, json or yaml"), cmd}
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usageError{err, cmd} })
	flags := root.PersistentFlags()
	flags.StringVar(&a.url, "url", "", "address of the cloud (TENON_URL, or that of the last login)")
	flags.StringVarP(&a.project, "project", "p", "", `project, by name or id (TENON_PROJECT, or "default")`)
	flags.StringVarP(&a.output, "output", "o", "table", "table, json or yaml")
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	root.AddCommand(a.login(), a.logout(), a.whoami(), a.instance(), a.job(), a.placement(), a.gpu(), a.node(), a.alarm(), a.flavor(), a.image(), a.credential(), a.projects(), a.usage(), a.token(), a.member(), a.password(), a.simulate(), a.versionCommand(), exitCodes())
	wrapArgs(root)
	return root
}

// wrapArgs makes a wrong number of arguments a usage error, as wrong flags are.
func wrapArgs(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return usageError{err, c}
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		wrapArgs(sub)
	}
}

// group makes a command that only holds others.
func group(use, short string, aliases ...string) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Aliases: aliases, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
}

// client makes a client from flags, environment and the last login, in that
// order. A saved token is sent only to the cloud that gave it.
func (a *app) client() (*api.Client, error) {
	saved, err := readConfig(a.Config)
	if err != nil {
		return nil, err
	}
	url := first(a.url, a.Getenv("TENON_URL"), saved.URL)
	if url == "" {
		return nil, errNoCloud
	}
	if url, err = cleanURL(url); err != nil {
		return nil, err
	}
	token := a.Getenv("TENON_TOKEN")
	if token == "" && url == saved.URL {
		token = saved.Token
	}
	if token == "" {
		return nil, notSignedIn{url}
	}
	c := api.NewClient(url, token)
	c.UserAgent = "tenon-cli/" + a.version
	return c, nil
}

// projectName is the project that commands are about.
func (a *app) projectName() string {
	saved, _ := readConfig(a.Config)
	return first(a.project, a.Getenv("TENON_PROJECT"), saved.Project, "default")
}

func first(choices ...string) string {
	for _, c := range choices {
		if c != "" {
			return c
		}
	}
	return ""
}

// terminal reports whether a stream is one, and which.
func terminal(stream any) (fd int, ok bool) {
	f, isFile := stream.(*os.File)
	if !isFile {
		return 0, false
	}
	return int(f.Fd()), term.IsTerminal(int(f.Fd()))
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Show the version of this command and of the cloud", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			type versions struct {
				Client string `json:"client"`
				Server string `json:"server,omitempty"`
			}
			v := versions{Client: a.version}
			if c, err := a.client(); err == nil {
				ctx, cancel := context.WithTimeout(cmd.Context(), 5*time.Second)
				defer cancel()
				if me, err := c.Me(ctx); err == nil {
					v.Server = me.Version
				}
			}
			return a.print(v, func(t *table) {
				t.row("CLIENT", "SERVER")
				t.row(v.Client, first(v.Server, "-"))
			})
		},
	}
}

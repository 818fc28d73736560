// Command tenond is Tenon's control plane, and the supervisor that runs a whole
// cloud on one machine.
//
//	tenond serve     the control plane
//	tenond dev       a whole cloud on this machine: what `make run` starts
//	tenond migrate   make the database ready and end
//	tenond backup    copy the control plane into one file
//	tenond restore   put such a file back
//	tenond image build, openapi, schema, healthy, version
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenon-cloud/tenon/internal/httpapi"
)

// version is set by the build.
var version = "development"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{
		Use: "tenond", Short: "Tenon's control plane", Version: version,
		SilenceErrors: true, SilenceUsage: true,
	}
	root.AddCommand(serveCommand(), devCommand(), migrateCommand(), backupCommand(), restoreCommand(), imageCommand(), openapiCommand(), schemaCommand(), healthyCommand(), versionCommand())
	if err := root.ExecuteContext(ctx); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "tenond:", err)
		os.Exit(1)
	}
}

func openapiCommand() *cobra.Command {
	return &cobra.Command{
		Use: "openapi", Short: "Print the API's contract (OpenAPI 3.1)", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := httpapi.OpenAPI()
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
}

// healthyCommand is for a container's health check, where there is no curl.
func healthyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "healthy", Short: "Ask the control plane on this machine whether it is ready", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := readConfig(os.Getenv)
			if err != nil {
				return err
			}
			_, port, err := net.SplitHostPort(c.Listen)
			if err != nil {
				return err
			}
			client := &http.Client{Timeout: 3 * time.Second}
			scheme := "http"
			if c.TLSCertFile != "" {
				// It is ourselves on the loopback, whatever name the certificate has.
				scheme, client.Transport = "https", &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
			}
			req, err := http.NewRequestWithContext(cmd.Context(), http.MethodGet, scheme+"://127.0.0.1:"+port+"/readyz", nil)
			if err != nil {
				return err
			}
			res, err := client.Do(req)
			if err != nil {
				return err
			}
			defer func() { _ = res.Body.Close() }()
			if res.StatusCode != http.StatusOK {
				return fmt.Errorf("not ready: %s", res.Status)
			}
			return nil
		},
	}
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "tenond", version)
			return err
		},
	}
}

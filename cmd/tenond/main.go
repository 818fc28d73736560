// Command tenond is Tenon's control plane, and the supervisor that runs a whole
// cloud on one machine.
//
//	tenond serve     the control plane
//	tenond dev       a whole cloud on this machine: what `make run` starts
//	tenond migrate   make the database ready and end
//	tenond image build, openapi, schema, version
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

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
	root.AddCommand(serveCommand(), devCommand(), migrateCommand(), imageCommand(), openapiCommand(), schemaCommand(), versionCommand())
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

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "tenond", version)
			return err
		},
	}
}

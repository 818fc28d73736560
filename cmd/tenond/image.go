package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenon-cloud/tenon/internal/devcloud"
	"github.com/tenon-cloud/tenon/internal/imagebuild"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

func imageCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "image", Short: "Make images"}
	var o imagebuild.Options
	image := imagebuild.Debian.Name
	build := &cobra.Command{
		Use: "build TARGET", Short: "Build an image from Debian's packages and push it to a registry", Args: cobra.ExactArgs(1),
		Long:    "Build an image from Debian's packages and push it to a registry. The password is taken from TENON_TOKEN.",
		Example: "  tenond image build 127.0.0.1:7480/tenon/debian-12:latest --insecure",
		RunE: func(cmd *cobra.Command, args []string) error {
			var names []string
			for _, i := range imagebuild.Images {
				if names = append(names, i.Name); i.Name == image {
					o.Image = i
				}
			}
			if o.Image.Name == "" {
				return fmt.Errorf("there is no image %q to build: one of %s", image, strings.Join(names, ", "))
			}
			o.Target, o.Token = args[0], os.Getenv("TENON_TOKEN")
			console := devcloud.NewConsole(os.Stderr)
			done := console.Step("Image")
			o.Progress = func(step string, n, total int64) { console.Progress(devcloud.ProgressText(step, n, total)) }
			digest, err := imagebuild.Build(cmd.Context(), o)
			if err != nil {
				done("failed")
				return err
			}
			done("pushed")
			_, err = fmt.Fprintln(cmd.OutOrStdout(), digest)
			return err
		},
	}
	f := build.Flags()
	f.StringVar(&image, "image", image, "which one")
	f.StringVar(&o.Suite, "suite", "bookworm", "Debian release")
	f.StringVar(&o.Mirror, "mirror", "http://deb.debian.org/debian", "Debian archive")
	f.StringVar(&o.Folder, "folder", os.TempDir(), "where the build tree is made")
	f.BoolVar(&o.Insecure, "insecure", false, "the registry speaks plain HTTP")
	cmd.AddCommand(build)
	return cmd
}

func schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the database's schema, as migrations make it on an empty one", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := devcloud.DumpSchema(cmd.Context(), func(ownerDSN string) error {
				return postgres.Bootstrap(cmd.Context(), postgres.BootstrapConfig{OwnerDSN: ownerDSN})
			})
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
}

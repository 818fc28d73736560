package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenon-cloud/tenon/api"
)

const completionTime = 3 * time.Second

func (a *app) instanceNames(ctx context.Context, c *api.Client) []string {
	items, _ := c.InstanceListAll(ctx, a.projectName(), api.InstanceListOptions{})
	return namesOf(items, func(i api.Instance) string { return i.Name })
}

func (a *app) imageNames(ctx context.Context, c *api.Client) []string {
	items, _ := api.ListAll(ctx, func(o api.PageOptions) (*api.Page[api.Image], error) { return c.ImageList(ctx, o) })
	return namesOf(items, func(i api.Image) string { return i.Name })
}

func (a *app) flavorNames(ctx context.Context, c *api.Client) []string {
	list, err := c.FlavorList(ctx)
	if err != nil {
		return nil
	}
	return namesOf(list.Items, func(f api.Flavor) string { return f.Name })
}

func (a *app) nodeNames(ctx context.Context, c *api.Client) []string {
	items, _ := api.ListAll(ctx, func(o api.PageOptions) (*api.Page[api.Node], error) { return c.NodeList(ctx, o) })
	return namesOf(items, func(n api.Node) string { return n.Name })
}

func namesOf[T any](items []T, name func(T) string) []string {
	var out []string
	for _, item := range items {
		out = append(out, name(item))
	}
	return out
}

func (a *app) image() *cobra.Command {
	cmd := group("image", "See, add and remove images", "images")
	list := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the images that you can start from", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			items, err := api.ListAll(cmd.Context(), func(o api.PageOptions) (*api.Page[api.Image], error) { return c.ImageList(cmd.Context(), o) })
			if err != nil {
				return err
			}
			return a.printImages(items)
		},
	}
	var in api.ImageCreate
	var private bool
	add := &cobra.Command{
		Use: "add NAME REFERENCE", Short: "Add an image that lies in a registry", Args: cobra.ExactArgs(2),
		Long: `Add an image by its reference in an OCI registry. A reference without a host is
in the cloud's own registry: push there with docker, crane or skopeo, any user
name and a Tenon token as the password. A private image elsewhere is read and
pulled with a project's credential for its registry: --project NAME, or
--private for the usual project.`,
		Example: "  tenon image add python docker.io/library/python:3.13\n  tenon image add lab default/default/lab:v1 --kind notebook\n  tenon image add train default/default/train:v2",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			in.Name, in.Ref = args[0], args[1]
			if private || cmd.Flags().Changed("project") {
				in.Project = a.projectName()
			}
			made, err := c.ImageCreate(cmd.Context(), in, api.IdempotencyKey(randomKey()))
			if err != nil {
				return err
			}
			if a.output != "table" {
				return a.print(made, nil)
			}
			return a.printImages([]api.Image{*made})
		},
	}
	add.Flags().StringVar(&in.Description, "description", "", "what it is")
	add.Flags().StringVar(&in.Kind, "kind", "", "what runs from it: container or notebook; a VM's comes by tenon image upload")
	add.Flags().BoolVar(&private, "private", false, "its registry wants a password: use the project's credential for it (tenon credential add)")
	add.Flags().BoolVar(&in.Offered, "offered", false, "offer it to every organisation (operators)")
	remove := &cobra.Command{
		Use: "remove NAME...", Aliases: []string{"rm", "delete"}, Short: "Take images off the list; refused while an instance is made from one", Args: cobra.MinimumNArgs(1), ValidArgsFunction: a.complete(a.imageNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.removeEach(cmd.Context(), args, "Removed image", (*api.Client).ImageDelete)
		},
	}
	cmd.AddCommand(list, add, a.imageUpload(), remove)
	return cmd
}

func (a *app) printImages(items []api.Image) error {
	return printList(a, items, "No images yet: add one with `tenon image add`.",
		[]string{"NAME", "KIND", "REFERENCE", "SIZE", "OFFERED BY", "AGE"},
		func(i api.Image) []string {
			by := "your organisation"
			if i.Offered {
				by = "the operator"
			}
			return []string{i.Name, i.Kind, i.Ref, memory(max(1, i.SizeBytes>>20)), by, a.age(i.CreatedAt)}
		})
}

// removeEach does a call that answers nothing to several names.
func (a *app) removeEach(ctx context.Context, names []string, said string, call func(*api.Client, context.Context, string) error) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := call(c, ctx, name); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(a.Err, "%s %s.\n", said, name); err != nil {
			return err
		}
	}
	return nil
}

package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/oci"

	"github.com/tenon-cloud/tenon/internal/image"
)

// withImageConfig applies what the image says of its process. What it says of
// its user and working folder may be untrue; no other try would mend that, so it
// is found out before the runtime stumbles over it.
func withImageConfig(img image.Image, user string) oci.SpecOpts {
	return func(ctx context.Context, client oci.Client, c *containers.Container, s *oci.Spec) error {
		// The configuration was read a moment ago; what is left to fail is its user.
		if err := oci.WithImageConfig(img)(ctx, client, c, s); err != nil && user != "" && ctx.Err() == nil {
			if strings.Contains(err.Error(), "out of range") {
				return wrongUser(user, err)
			}
			return startFailure(fmt.Sprintf("the image's user %.60q does not exist in it", user), err)
		} else if err != nil {
			return err
		}
		for _, id := range append([]uint32{s.Process.User.UID, s.Process.User.GID}, s.Process.User.AdditionalGids...) {
			if id >= rangeSize {
				return wrongUser(user, nil)
			}
		}
		return checkFolder(s.Root.Path, s.Process.Cwd)
	}
}

func wrongUser(user string, err error) error {
	return startFailure(fmt.Sprintf("the image's user %.60q has an id over %d, or is in a group that has", user, rangeSize-1), err)
}

// checkFolder refuses a working folder that is something else; the runtime makes
// one that is missing.
func checkFolder(rootfs, dir string) error {
	if !strings.HasPrefix(dir, "/") {
		return startFailure(fmt.Sprintf("the image's working folder %.100q does not begin with a slash", dir), nil)
	}
	if dir = strings.Trim(dir, "/"); dir == "" {
		return nil
	}
	root, err := os.OpenRoot(rootfs)
	if err != nil {
		return fmt.Errorf("open root file system: %w", err)
	}
	defer root.Close()
	info, err := root.Stat(dir)
	if errors.Is(err, syscall.ENOTDIR) || (err == nil && !info.IsDir()) {
		return startFailure(fmt.Sprintf("the image's working folder %.100q is not a folder", "/"+dir), err)
	}
	return nil // what can't be seen from here, such as behind a link, is the runtime's to judge
}

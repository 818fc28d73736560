package devcloud

import (
	"context"
	"errors"
	"fmt"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/imagebuild"
)

// imageRef is where an image of ours lies in the embedded registry.
func imageRef(name string) string { return "tenon/" + name + ":latest" }

// ensureImage has an image in the registry and on offer, before the cloud is
// said to be up.
func (s *Supervisor) ensureImage(ctx context.Context, client *api.Client, token string, image imagebuild.Image) error {
	done := s.Console.Step("Image " + image.Name)
	built, err := s.makeImage(ctx, client, token, image, func(step string, n, total int64) { s.Console.Progress(ProgressText(step, n, total)) })
	switch {
	case err != nil:
		done("failed")
	case built:
		done("built from Debian's packages")
	default:
		done("ready")
	}
	return err
}

// moreImages makes the other images while the cloud is in use already: each is
// on offer as soon as it is there, and one that fails is tried at the next start.
func (s *Supervisor) moreImages(ctx context.Context, client *api.Client, token string) {
	s.background.Go(func() {
		for _, image := range imagebuild.Images {
			if image.Name == imagebuild.Debian.Name || ctx.Err() != nil {
				continue
			}
			built, err := s.makeImage(ctx, client, token, image, func(string, int64, int64) {})
			switch {
			case ctx.Err() != nil:
			case err != nil:
				s.Console.Say("  Image %s could not be built: %v. The next start tries again.", image.Name, err)
			case built:
				s.Console.Say("  Image %s is built and on offer", image.Name)
			}
		}
	})
}

// makeImage builds and offers an image, if that is not done already.
func (s *Supervisor) makeImage(ctx context.Context, client *api.Client, token string, image imagebuild.Image, progress imagebuild.Progress) (built bool, err error) {
	folder, err := s.buildFolder()
	if err != nil {
		return false, err
	}
	digest, built, err := imagebuild.Ensure(ctx, imagebuild.Options{
		Image: image, Folder: folder, Target: s.consoleAddress() + "/" + imageRef(image.Name), Insecure: true, Token: token, Progress: progress,
	})
	if err != nil {
		return false, err
	}
	return built, offerImage(ctx, client, image, digest)
}

// offerImage puts an image on the list, in place of an older build's.
func offerImage(ctx context.Context, client *api.Client, image imagebuild.Image, digest string) error {
	have, err := client.ImageGet(ctx, image.Name)
	switch {
	case err == nil && have.Digest == digest:
		return nil
	case err == nil:
		if err := client.ImageDelete(ctx, image.Name); err != nil {
			return fmt.Errorf("take the older image off the list: %w", err)
		}
	case !errors.Is(err, &api.Problem{Code: "not_found"}):
		return fmt.Errorf("look for the image: %w", err)
	}
	_, err = client.ImageCreate(ctx, api.ImageCreate{Name: image.Name, Kind: image.Kind, Ref: imageRef(image.Name), Offered: true, Description: image.Description})
	if err != nil {
		return fmt.Errorf("offer the image: %w", err)
	}
	return nil
}

package httpapi

import (
	"context"
	"net"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
)

// ImagePath names an image.
type ImagePath struct {
	Image string `path:"image" maxLength:"100" doc:"Name or id"`
}

func (s *server) imageOperations() {
	const tag = "Offers"
	register(s, operation{method: "GET", path: "/v1/images", action: authz.ImageList, tag: tag, summary: "List images", description: "Your organisation's own and those offered to everyone."}, s.imageList)
	register(s, operation{method: "POST", path: "/v1/images", action: authz.ImageCreate, tag: tag, summary: "Add an image",
		description: "It must lie in a registry already; its digest is read now, and that is what instances run.", status: 201}, s.imageCreate)
	register(s, operation{method: "GET", path: "/v1/images/{image}", action: authz.ImageRead, tag: tag, summary: "Show an image"}, s.imageGet)
	register(s, operation{method: "DELETE", path: "/v1/images/{image}", action: authz.ImageDelete, tag: tag, summary: "Take an image off the list",
		description: "What runs from it goes on.", status: 204}, s.imageDelete)
}

func (s *server) imageList(ctx context.Context, in *struct{ Paged }) (*out[api.Page[api.Image]], error) {
	l, err := s.app.ImageList(ctx, call(ctx, ""), in.page())
	return pageOf(l, err, imageOf)
}

func (s *server) imageGet(ctx context.Context, in *struct {
	Strict
	ImagePath
}) (*out[api.Image], error) {
	i, err := s.app.ImageGet(ctx, call(ctx, ""), in.Image)
	return oneOf(i, err, imageOf)
}

func (s *server) imageCreate(ctx context.Context, in *imageInput) (*out[api.Image], error) {
	i, err := s.app.ImageCreate(ctx, call(ctx, in.IdempotencyKey), app.ImageInput{
		Name: in.Body.Name, Kind: cloud.InstanceKind(in.Body.Kind), Ref: withoutOwnHost(in.Body.Ref, in.host), Description: in.Body.Description, Offered: in.Body.Offered, Project: in.Body.Project,
	})
	return oneOf(i, err, imageOf)
}

func (s *server) imageDelete(ctx context.Context, in *struct {
	Strict
	ImagePath
}) (*none, error) {
	return nil, s.app.ImageDelete(ctx, call(ctx, ""), in.Image)
}

func imageOf(i cloud.Image) api.Image {
	return api.Image{
		ID: i.ID.String(), Name: i.Name, Kind: string(i.Kind), Ref: i.Ref, Digest: i.Digest, SizeBytes: i.SizeBytes,
		Description: i.Description, Offered: i.OrgID.IsZero(), CreatedAt: i.CreatedAt.UTC(),
	}
}

type imageInput struct {
	Creating
	Body api.ImageCreate
	host string
}

// Resolve implements huma.Resolver.
func (in *imageInput) Resolve(ctx huma.Context) []error {
	in.host = ctx.Host()
	return in.Strict.Resolve(ctx)
}

// withoutOwnHost takes our own address, as the client found it, off a reference:
// what is in this cloud's registry is named without a host.
func withoutOwnHost(ref, own string) string {
	first, rest, ok := strings.Cut(ref, "/")
	if !ok || first == "" {
		return ref
	}
	if strings.EqualFold(first, own) {
		return rest
	}
	// One machine has several names for itself.
	name, port, err := net.SplitHostPort(first)
	ownName, ownPort, ownErr := net.SplitHostPort(own)
	if err == nil && ownErr == nil && port == ownPort && isLoopback(name) && isLoopback(ownName) {
		return rest
	}
	return ref
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

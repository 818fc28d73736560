package httpapi

import (
	"context"

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

func (s *server) imageCreate(ctx context.Context, in *struct {
	Creating
	Body api.ImageCreate
}) (*out[api.Image], error) {
	i, err := s.app.ImageCreate(ctx, call(ctx, in.IdempotencyKey), app.ImageInput{
		Name: in.Body.Name, Kind: cloud.InstanceKind(in.Body.Kind), Ref: in.Body.Ref, Description: in.Body.Description, Offered: in.Body.Offered,
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

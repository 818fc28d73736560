package api

import (
	"context"
	"net/http"
)

// FlavorList reads what can be had, with prices and how many are free now.
func (c *Client) FlavorList(ctx context.Context) (*List[Flavor], error) {
	var out List[Flavor]
	return &out, c.do(ctx, http.MethodGet, "/v1/flavors", nil, nil, &out)
}

// FlavorCreate offers a shape; operators only.
func (c *Client) FlavorCreate(ctx context.Context, in FlavorCreate, opts ...CallOption) (*Flavor, error) {
	var out Flavor
	return &out, c.do(ctx, http.MethodPost, "/v1/flavors", nil, in, &out, opts...)
}

// FlavorDelete stops offering it; what runs with it goes on. Operators only.
func (c *Client) FlavorDelete(ctx context.Context, flavor string) error {
	return c.do(ctx, http.MethodDelete, "/v1/flavors/"+seg(flavor), nil, nil, nil)
}

// ImageList reads the organisation's own images and those offered to everyone.
func (c *Client) ImageList(ctx context.Context, o PageOptions) (*Page[Image], error) {
	var out Page[Image]
	return &out, c.do(ctx, http.MethodGet, "/v1/images", o.query(), nil, &out)
}

// ImageCreate adds an image that lies in a registry.
func (c *Client) ImageCreate(ctx context.Context, in ImageCreate, opts ...CallOption) (*Image, error) {
	var out Image
	return &out, c.do(ctx, http.MethodPost, "/v1/images", nil, in, &out, opts...)
}

// ImageGet reads one by name or id.
func (c *Client) ImageGet(ctx context.Context, image string) (*Image, error) {
	var out Image
	return &out, c.do(ctx, http.MethodGet, "/v1/images/"+seg(image), nil, nil, &out)
}

// ImageDelete takes it off the list; what runs from it goes on.
func (c *Client) ImageDelete(ctx context.Context, image string) error {
	return c.do(ctx, http.MethodDelete, "/v1/images/"+seg(image), nil, nil, nil)
}

// PriceList reads every version of every price.
func (c *Client) PriceList(ctx context.Context) (*List[Price], error) {
	var out List[Price]
	return &out, c.do(ctx, http.MethodGet, "/v1/prices", nil, nil, &out)
}

// PriceCreate adds a version; operators only.
func (c *Client) PriceCreate(ctx context.Context, in PriceCreate, opts ...CallOption) (*Price, error) {
	var out Price
	return &out, c.do(ctx, http.MethodPost, "/v1/prices", nil, in, &out, opts...)
}

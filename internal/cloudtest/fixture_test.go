package cloudtest_test

import (
	"testing"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/cloudtest"
)

func ptr[T any](v T) *T { return &v }

// image adds one that everyone may use.
func image(t *testing.T, c *cloudtest.Cloud) string {
	t.Helper()
	i, err := c.Admin.ImageCreate(t.Context(), api.ImageCreate{Name: "test-image", Ref: "tenon/test-image:latest", Offered: true})
	if err != nil {
		t.Fatal(err)
	}
	return i.Name
}

// flavor adds one without a GPU.
func flavor(t *testing.T, c *cloudtest.Cloud, name string) string {
	t.Helper()
	f, err := c.Admin.FlavorCreate(t.Context(), api.FlavorCreate{Name: name, VCPU: 1, MemoryMiB: 512, DiskMiB: 1024})
	if err != nil {
		t.Fatal(err)
	}
	return f.Name
}

// slice adds one with the smallest slice of an H100.
func slice(t *testing.T, c *cloudtest.Cloud) string {
	t.Helper()
	f, err := c.Admin.FlavorCreate(t.Context(), api.FlavorCreate{
		Name: "test-1g", GPUCount: 1, GPUModel: "h100-80gb", GPUMode: "mig", GPUProfile: "1g", VCPU: 1, MemoryMiB: 512, DiskMiB: 1024,
	})
	if err != nil {
		t.Fatal(err)
	}
	return f.Name
}

func projectID(t *testing.T, tenant *cloudtest.Tenant) string {
	t.Helper()
	p, err := tenant.ProjectGet(t.Context(), tenant.Project)
	if err != nil {
		t.Fatal(err)
	}
	return p.ID
}

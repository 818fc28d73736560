package httpapi

import (
	"encoding/json"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/gpu"
)

// each turns a domain list into a wire list, which is never null.
func each[D, W any](in []D, f func(D) W) []W {
	out := make([]W, len(in))
	for i, v := range in {
		out[i] = f(v)
	}
	return out
}

func pageOf[D, W any](l app.List[D], err error, f func(D) W) (*out[api.Page[W]], error) {
	if err != nil {
		return nil, err
	}
	return &out[api.Page[W]]{Body: api.Page[W]{Items: each(l.Items, f), NextPageToken: l.NextPageToken}}, nil
}

func listOf[D, W any](l []D, err error, f func(D) W) (*out[api.List[W]], error) {
	if err != nil {
		return nil, err
	}
	return &out[api.List[W]]{Body: api.List[W]{Items: each(l, f)}}, nil
}

func oneOf[D, W any](v D, err error, f func(D) W) (*out[W], error) {
	if err != nil {
		return nil, err
	}
	return &out[W]{Body: f(v)}, nil
}

func shapeOf(s cloud.Shape) api.Shape {
	out := api.Shape{GPUCount: s.GPUCount, VCPU: s.VCPU, MemoryMiB: s.MemoryMiB, DiskMiB: s.DiskMiB}
	if s.GPUCount > 0 {
		out.GPUModel, out.GPUMode, out.GPUProfile = s.GPUModel, string(s.GPUMode), s.GPUProfile
		out.GPUModelName, out.GPUProfileName = modelName(s.GPUModel), gpu.DisplayName(s.GPUModel, s.GPUProfile)
	}
	return out
}

func modelName(key string) string {
	m, err := gpu.ModelByKey(key)
	if err != nil {
		return key
	}
	return m.Name
}

// reasonsOf reads reasons from an error's detail, whatever floor's type they are
// of: their wire form is the same.
func reasonsOf(v any) []api.Reason {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	var out []api.Reason
	if json.Unmarshal(raw, &out) != nil {
		return nil
	}
	return out
}

func reasonOf(r app.Reason) api.Reason {
	return api.Reason{Reason: r.Reason, Message: r.Message, Count: r.Count}
}

// idOf prints an id, and nothing for one that isn't set.
func idOf[R cloud.Resource](id cloud.ID[R]) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

// priceOf is absent when a part has no price: not known is not free.
func priceOf(micros int64, priced bool) *int64 {
	if !priced {
		return nil
	}
	return &micros
}

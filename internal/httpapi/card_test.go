package httpapi

import (
	"strings"
	"testing"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// A change that nobody can make now says what it waits for.
func TestAChangeSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		g    cloud.GPU
		want string
	}{
		{cloud.GPU{Changing: true, State: cloud.GPUMissing, NodeWell: true}, "waits for the card's return"},
		{cloud.GPU{Changing: true, State: cloud.GPUUnknown, WishReason: "in use"}, "waits for the node's return"},
		{cloud.GPU{Changing: true, State: cloud.GPUReady, NodeWell: true, WishReason: "in use"}, "in use"},
		{cloud.GPU{State: cloud.GPUMissing}, ""},
	} {
		if got := gpuOf(c.g).WishReason; !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%+v: %q, want %q", c.g, got, c.want)
		}
	}
}

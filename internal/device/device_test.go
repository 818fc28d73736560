package device

import (
	"slices"
	"testing"
)

func TestUnknownNUMANodesAreNone(t *testing.T) {
	t.Parallel()
	one, none := 1, -1
	for _, c := range []struct {
		grants []Grant
		want   []int
	}{
		{nil, nil}, {[]Grant{{CDI: "a"}, {Mediated: "b"}, {Emulated: true}}, nil}, {[]Grant{{CDI: "a", Near: &none}, {Pass: []Function{{NUMANode: -1}}}}, nil},
		{[]Grant{{CDI: "a", Near: &one}, {CDI: "b", Near: &one}}, []int{1}},
		{[]Grant{{Pass: []Function{{NUMANode: 3}}}, {Virtual: &Function{NUMANode: 0}}, {Mediated: "m", Near: &one}}, []int{0, 1, 3}},
	} {
		if got := NUMANodes(c.grants); !slices.Equal(got, c.want) {
			t.Errorf("%+v lie on %v, want %v", c.grants, got, c.want)
		}
	}
}

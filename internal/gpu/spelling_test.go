package gpu

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestC10SpellingsOfOneProfile(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]Spelling{
		"1g.10gb+me":                    {Compute: 1, MemoryGB: 10, Attributes: []string{"me"}},
		"h200 nvl 4g.71gb":              {Model: "h200-nvl-141gb", Compute: 4, MemoryGB: 71},
		"H200 3g.71gb":                  {Model: "h200-141gb", Compute: 3, MemoryGB: 71},
		"NVIDIA H100 80GB HBM3 1g.20gb": {Model: "h100-80gb", Compute: 1, MemoryGB: 20},
		"MIG 2g.12gb+me":                {Compute: 2, MemoryGB: 12, Attributes: []string{"me"}},
		"a100-80gb 3g.39gb":             {Model: "a100-80gb", Compute: 3, MemoryGB: 39},
	} {
		got, err := ParseProfile(s)
		if err != nil {
			t.Errorf("%q: %v", s, err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q:\n%s", s, diff)
		}
	}
	for _, s := range []string{
		"", "1g", "1g.10", "1g.10gb+", "1g.10gb-me", "1g.10gb+me+me", "1g.10gb+gfx", "0g.10gb", "5g.40gb", "2g.10gb extra",
		"1c.2g.20gb", "3g.41gb", "1g.010gb", "h200 1g.10gb", "h300 1g.10gb", "a100 1g.10gb", "7g.80gb+me", "1g.10gb,2g.20gb",
	} {
		if got, err := ParseProfile(s); err == nil {
			t.Errorf("%q is read as %+v", s, got)
		}
	}
}

func TestC10TheSameClassUnderEveryName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ model, spelling, class string }{
		{"a100-80gb", "3g.39gb", "3g"}, {"a100-80gb", "3g.40gb", "3g"}, {"a100-80gb", "3g", "3g"},
		{"a100-80gb", "1g.10gb", "1g"}, {"a100-40gb", "1g.10gb", "1g2"}, {"h100-80gb", "1g.20gb", "1g2"},
		{"h200-141gb", "1g.35gb", "1g2"}, {"h200-141gb", "2g.35gb", "2g"}, {"h100-nvl-94gb", "1g.12gb", "1g"},
		{"a30-24gb", "2g.12gb+me", "2g+me"}, {"b200-180gb", "4g.90gb", "4g"},
	} {
		m, err := ModelByKey(c.model)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := m.Class(c.spelling); err != nil || got != c.class {
			t.Errorf("%s on %s is %q (%v), want %q", c.spelling, c.model, got, err, c.class)
		}
	}
	m, _ := ModelByKey("h100-80gb")
	for _, s := range []string{"1g.5gb", "3g.20gb", "2g+me", "whole", "8g", "1g3"} {
		if got, err := m.Class(s); err == nil {
			t.Errorf("%q becomes %q", s, got)
		}
	}
}

func TestEveryDisplayNameReadsBack(t *testing.T) {
	t.Parallel()
	for i, m := range Models() {
		if i > 0 && Models()[i-1].Key >= m.Key {
			t.Errorf("%s is out of order", m.Key)
		}
		if byName, err := ModelByName(m.Name); err != nil || byName != m {
			t.Errorf("%q is not read as %s", m.Name, m.Key)
		}
		seen := map[string]bool{}
		for _, class := range m.Classes() {
			name, err := m.DisplayName(class)
			if err != nil || seen[name] {
				t.Errorf("%s %s: %q %v", m.Key, class, name, err)
			}
			seen[name] = true
			if back, err := m.Class(name); err != nil || back != class {
				t.Errorf("%s: %q reads as %q, want %q", m.Key, name, back, class)
			}
			if _, err := ParseProfile(m.Key + " " + name); err != nil {
				t.Error(err)
			}
			if got := m.SliceMemoryMiB(class); got <= 0 || got > m.MemoryMiB {
				t.Errorf("%s %s has %d MiB", m.Key, class, got)
			}
		}
		if len(seen) != len(m.names) {
			t.Errorf("%s names %d of %d classes", m.Key, len(m.names), len(seen))
		}
	}
	if got := DisplayName("h100-80gb", "1g2"); got != "1g.20gb" {
		t.Errorf("h100 1g2 is shown as %q", got)
	}
	if got := DisplayName("unheard-of", "1g"); got != "1g" {
		t.Errorf("an unknown card's slice is shown as %q", got)
	}
}

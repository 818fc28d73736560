package gpu

import (
	"fmt"
	"slices"
	"strings"
)

// Model is a kind of card.
type Model struct {
	Key       string // identity, in shapes, prices and quotas: h100-80gb
	Name      string // for people: H100 80 GB
	Geometry  string
	MemoryMiB int64 // usable, as a default until a driver reports its own

	names   map[string]string // class → the driver's spelling
	also    map[string]string // other spellings of the same profile → class
	aliases []string          // other names of the card, as plain words
}

// Models lists the known cards, sorted by key.
func Models() []*Model { return slices.Clone(models) }

// ModelKeys lists the keys, sorted.
func ModelKeys() []string {
	out := make([]string, len(models))
	for i, m := range models {
		out[i] = m.Key
	}
	return out
}

// ModelByKey finds a card by its key, which for one that no table knows is made
// of its PCI ids (see ModelByPCI).
func ModelByKey(key string) (*Model, error) {
	for _, m := range models {
		if m.Key == key {
			return m, nil
		}
	}
	if m, ok := unknownModel(key); ok {
		return m, nil
	}
	return nil, fmt.Errorf("find GPU model %q: not one of %s", key, strings.Join(ModelKeys(), ", "))
}

// ModelByName finds a card by its key or by a name that drivers and people use
// for it ("NVIDIA A100-SXM4-80GB", "h200 nvl"). A name that fits several cards
// or none is an error.
func ModelByName(name string) (*Model, error) {
	want := words(name)
	if m, ok := unknownModel(strings.ToLower(strings.TrimSpace(name))); ok {
		return m, nil
	}
	for _, m := range models {
		if want == words(m.Key) || want == words(m.Name) || slices.Contains(m.aliases, want) {
			return m, nil
		}
	}
	return nil, fmt.Errorf("find GPU model %q: not one of %s", name, strings.Join(ModelKeys(), ", "))
}

// words folds case, punctuation and the vendor's name.
func words(s string) string {
	f := strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return r == ' ' || r == '-' || r == '_' })
	for len(f) > 1 && (f[0] == "nvidia" || f[0] == "amd" || f[0] == "instinct" || f[0] == "geforce") {
		f = f[1:]
	}
	return strings.Join(f, " ")
}

// geometry is the model's cutting table.
func (m *Model) geometry() *Geometry { return geometries[m.Geometry] }

// DisplayName is the driver's usual spelling of a profile class on this card,
// for instance "1g.10gb"; for Whole it is the card's name.
func (m *Model) DisplayName(class string) (string, error) {
	if class == Whole {
		return m.Name, nil
	}
	if mode, n, even := EvenOf(class); even {
		return fmt.Sprintf("1/%d %s", n, evenNames[evenClass(mode)]), nil
	}
	if n, ok := evenNames[class]; ok {
		return n, nil
	}
	if n, ok := m.names[class]; ok {
		return n, nil
	}
	return "", fmt.Errorf("name profile %q: %s has no such profile", class, m.Key)
}

var evenNames = map[string]string{Share: "share", VGPU: "vGPU"}

// SliceMemoryMiB is the share of the card's memory that a class would get by its
// slots: what simulated cards have. Of real ones only the driver knows.
func (m *Model) SliceMemoryMiB(class string) int64 {
	if class == Whole {
		return m.MemoryMiB
	}
	if _, n, even := EvenOf(class); even {
		return m.MemoryMiB / int64(n)
	}
	p, ok := m.geometry().Profile(class)
	if !ok {
		return 0
	}
	return m.MemoryMiB * int64(p.Slots) / int64(m.geometry().Slots)
}

// Classes lists the profile classes of the card, smallest first.
func (m *Model) Classes() []string {
	var out []string
	for _, p := range m.geometry().Profiles {
		out = append(out, p.Class)
	}
	return out
}

// DisplayName is Model.DisplayName by the model's key; what is not known is
// shown as it is.
func DisplayName(model, class string) string {
	m, err := ModelByKey(model)
	if err != nil {
		return class
	}
	n, err := m.DisplayName(class)
	if err != nil {
		return class
	}
	return n
}

// mig8Model fills the spellings from the memory labels of one, two, four and
// eight slots.
func mig8Model(key, name string, memoryMiB int64, one, two, four, eight int, also map[string]string, aliases ...string) *Model {
	label := func(c, gb int) string { return fmt.Sprintf("%dg.%dgb", c, gb) }
	return &Model{Key: key, Name: name, Geometry: MIG8, MemoryMiB: memoryMiB, also: also, aliases: aliases,
		names: map[string]string{
			"1g": label(1, one), "1g+me": label(1, one) + "+me", "1g2": label(1, two), "2g": label(2, two),
			"3g": label(3, four), "4g": label(4, four), "7g": label(7, eight),
		}}
}

// Some drivers round an 80 GB card's halves and whole down.
var also80 = map[string]string{"3g.39gb": "3g", "4g.39gb": "4g", "7g.79gb": "7g"}

var models = []*Model{
	plainModel("a10-24gb", "A10 24 GB", 23028, "a10"),
	mig8Model("a100-40gb", "A100 40 GB", 40960, 5, 10, 20, 40, nil,
		"a100 40 gb", "a100 sxm4 40gb", "a100 pcie 40gb", "a100 pg509 200"),
	mig8Model("a100-80gb", "A100 80 GB", 81920, 10, 20, 40, 80, also80,
		"a100 sxm4 80gb", "a100 80gb pcie", "a100 pcie 80gb"),
	{
		Key: "a30-24gb", Name: "A30 24 GB", Geometry: MIG4, MemoryMiB: 24576, aliases: []string{"a30"},
		names: map[string]string{"1g": "1g.6gb", "1g+me": "1g.6gb+me", "2g": "2g.12gb", "2g+me": "2g.12gb+me", "4g": "4g.24gb"},
	},
	plainModel("a40-48gb", "A40 48 GB", 46068, "a40"),
	mig8Model("a800-80gb", "A800 80 GB", 81920, 10, 20, 40, 80, also80,
		"a800", "a800 sxm4 80gb", "a800 80gb pcie"),
	mig8Model("b200-180gb", "B200 180 GB", 183359, 23, 45, 90, 180, nil, "b200"),
	mig8Model("h100-80gb", "H100 80 GB", 81559, 10, 20, 40, 80, also80,
		"h100", "h100 80gb hbm3", "h100 pcie", "h100 sxm5 80gb"),
	mig8Model("h100-nvl-94gb", "H100 NVL 94 GB", 95830, 12, 24, 47, 94, nil, "h100 nvl"),
	mig8Model("h200-141gb", "H200 141 GB", 143771, 18, 35, 71, 141, nil, "h200", "h200 sxm"),
	mig8Model("h200-nvl-141gb", "H200 NVL 141 GB", 143771, 18, 35, 71, 141, nil, "h200 nvl"),
	plainModel("l4-24gb", "L4 24 GB", 23034, "l4"),
	plainModel("l40-48gb", "L40 48 GB", 46068, "l40"),
	plainModel("l40s-48gb", "L40S 48 GB", 46068, "l40s"),
	plainModel("mi210-64gb", "MI210 64 GB", 65520, "mi210"),
	plainModel("mi300x-192gb", "MI300X 192 GB", 196592, "mi300x", "mi300x oam"),
	plainModel("qemu-edu", "QEMU education device", 1),
	plainModel("rtx-4090-24gb", "RTX 4090 24 GB", 24564, "rtx 4090"),
	plainModel("rtx-5090-32gb", "RTX 5090 32 GB", 32607, "rtx 5090"),
	plainModel("rtx-6000-ada-48gb", "RTX 6000 Ada 48 GB", 49140, "rtx 6000 ada generation", "rtx 6000 ada"),
	plainModel("t4-16gb", "T4 16 GB", 15360, "tesla t4", "t4"),
}

// plainModel is a card without MIG.
func plainModel(key, name string, memoryMiB int64, aliases ...string) *Model {
	return &Model{Key: key, Name: name, Geometry: Plain, MemoryMiB: memoryMiB, aliases: aliases}
}

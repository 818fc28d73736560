package pci_test

import (
	"testing"

	"github.com/tenon-cloud/tenon/internal/device/pci"
)

// The kernel promises function 0 of a card a reset by its bus, and refuses it later,
// since function 1 was found meanwhile.
func TestAFunctionWithOthersOnItsBusIsNotResetByTheBus(t *testing.T) {
	gpu := func(ways ...string) pci.Function {
		return pci.Function{Address: at(t, "01:00.0"), CanReset: true, Reset: ways}
	}
	audio := pci.Function{Address: at(t, "01:00.1")}
	elsewhere := pci.Function{Address: at(t, "02:00.0")}
	first := at(t, "01:00.0")
	virtual := pci.Function{Address: at(t, "01:00.2"), PF: &first}
	for name, c := range map[string]struct {
		f      pci.Function
		others []pci.Function
		want   bool
	}{
		"alone":                        {gpu("bus"), []pci.Function{elsewhere}, true},
		"with audio":                   {gpu("bus"), []pci.Function{audio}, false},
		"with audio and another way":   {gpu("flr", "bus"), []pci.Function{audio}, true},
		"with its virtual functions":   {gpu("bus"), []pci.Function{virtual}, false},
		"a kernel that names no ways":  {gpu(), []pci.Function{audio}, true},
		"one that can't be reset":      {pci.Function{Address: at(t, "01:00.0")}, nil, false},
		"with audio, by CXL's bus too": {gpu("cxl_bus", "bus"), []pci.Function{audio}, false},
	} {
		inv := pci.Inventory{Functions: append(c.others, c.f)}
		if got := inv.Resettable(c.f); got != c.want {
			t.Errorf("%s: resettable %v, want %v", name, got, c.want)
		}
	}
}

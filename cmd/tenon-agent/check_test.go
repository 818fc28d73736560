package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenon-cloud/tenon/internal/device/nvml/simnvml"
	"github.com/tenon-cloud/tenon/internal/device/pci"
	"github.com/tenon-cloud/tenon/internal/device/pci/recorded"
	"github.com/tenon-cloud/tenon/internal/preflight"
)

// TestCheckReadsThisMachine: whatever it is, it has an answer for everything, in
// both forms alike, and its status follows from the lines.
func TestCheckReadsThisMachine(t *testing.T) {
	t.Parallel()
	none := func(string) string { return "" }
	var text, raw bytes.Buffer
	args := []string{"-board", "host", "-state-dir", t.TempDir(), "-door", "https://127.0.0.1:1"}
	errText := check(t.Context(), args, none, &text)
	errJSON := check(t.Context(), append(args, "-json"), none, &raw)
	var got struct {
		OK     bool             `json:"ok"`
		Passed int              `json:"passed"`
		Warned int              `json:"warned"`
		Failed int              `json:"failed"`
		Lines  []preflight.Line `json:"lines"`
	}
	if err := json.Unmarshal(raw.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.OK || !errors.Is(errText, errCheck) || !errors.Is(errJSON, errCheck) { // nobody is at that port
		t.Errorf("ok %v, %v, %v", got.OK, errText, errJSON)
	}
	for _, want := range []string{"control plane", "kernel", "containerd", "iommu"} { // this host's cards or none
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
	if last := fmt.Sprintf("\n%d ok, %d to look at, %d failed\n", got.Passed, got.Warned, got.Failed); !strings.HasSuffix(text.String(), last) || got.Passed+got.Warned+got.Failed != len(got.Lines) {
		t.Errorf("%d lines, counted as %q in\n%s", len(got.Lines), last, text.String())
	}
	if len(got.Lines) < 15 || !strings.Contains(text.String(), "failed\n") {
		t.Errorf("%d lines", len(got.Lines))
	}
	if err := check(t.Context(), []string{"-no-such"}, none, &text); err == nil || errors.Is(err, errCheck) {
		t.Errorf("a bad flag: %v", err)
	}
}

// TestCheckTellsOfRecordedHosts: what the board would offer is what the check says.
func TestCheckTellsOfRecordedHosts(t *testing.T) {
	t.Parallel()
	for tree, want := range map[string]string{
		"hgx-h100": "0000:0a:00.0", "a100-vgpu": "vendor", "shared-nic": "group", "lab": "reset",
	} {
		m, err := recorded.Tree(tree)
		if err != nil {
			t.Fatal(err)
		}
		inv, err := pci.Scan(m, pci.Options{Allow: []pci.ID{{Vendor: 0x1234, Device: 0x11e8}}})
		if err != nil {
			t.Fatal(err)
		}
		var found bool
		for _, c := range inv.Cards {
			f := cardFacts(c)
			found = found || strings.Contains(strings.Join([]string{f.Address, f.VGPU, f.Whole, f.Reset}, " "), want)
			if f.Whole == "" && !c.Whole.OK || f.Reset == "" && !c.Reset.OK {
				t.Errorf("%s: %+v", tree, f)
			}
		}
		if !found {
			t.Errorf("%s: %q is in no card", tree, want)
		}
	}
}

// TestCheckTellsWhatADriverSays of a card, from the driver's own tables.
func TestCheckTellsWhatADriverSays(t *testing.T) {
	t.Parallel()
	d, err := simnvml.New(simnvml.Card{Model: "a100-80gb", PCIAddress: "0000:17:00.0", Resets: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"off", "going on with the next reset"} {
		list, err := d.Cards(t.Context())
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		if got := told(list[0]); got.MIG != want || got.Name == "" {
			t.Errorf("%+v, want MIG %s", got, want)
		}
		if _, err := d.SetMIG(t.Context(), "0000:17:00.0", true); err != nil {
			t.Fatal(err)
		}
	}
}

func TestInterruptRemappingIsReadFromTheirNames(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"  24:  0  0  IR-PCI-MSI-0000:00:1d.0   0-edge  PCIe PME\n": true,
		"  24:  0  0  PCI-MSI-0000:00:1d.0   0-edge  PCIe PME\n":    false,
		"": false,
	} {
		file := filepath.Join(t.TempDir(), "interrupts")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if remapping(file) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

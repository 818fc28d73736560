package gpu

import (
	"fmt"
	"regexp"
	"strings"
)

// pciModels are the models by vendor and device id, for hosts whose driver can't
// be asked, such as those that give their cards to VMs.
var pciModels = map[string]string{
	"10de:20b0": "a100-40gb", "10de:20b1": "a100-40gb", "10de:20f1": "a100-40gb",
	"10de:20b2": "a100-80gb", "10de:20b5": "a100-80gb",
	"10de:20b7": "a30-24gb",
	"10de:20f3": "a800-80gb", "10de:20f5": "a800-80gb",
	"10de:2901": "b200-180gb",
	"10de:2330": "h100-80gb", "10de:2331": "h100-80gb",
	"10de:2321": "h100-nvl-94gb",
	"10de:2335": "h200-141gb",
	"10de:233b": "h200-nvl-141gb",
	"10de:2236": "a10-24gb",
	"10de:2235": "a40-48gb",
	"10de:27b8": "l4-24gb",
	"10de:26b5": "l40-48gb",
	"10de:26b9": "l40s-48gb",
	"10de:2684": "rtx-4090-24gb",
	"10de:2b85": "rtx-5090-32gb",
	"10de:26b1": "rtx-6000-ada-48gb",
	"10de:1eb8": "t4-16gb",
	"1002:740f": "mi210-64gb",
	"1002:74a1": "mi300x-192gb",
	"1234:11e8": "qemu-edu",
}

// unknownForm is the key of a card that no table knows.
var unknownForm = regexp.MustCompile(`^pci-([0-9a-f]{4})-([0-9a-f]{4})$`)

// ModelByPCI is the model of a card by its vendor and device id, each four hex
// digits. One that is not known has a model of its own, so that it can be offered
// whole; its memory is what its node says.
func ModelByPCI(vendor, device string) (*Model, error) {
	vendor, device = strings.TrimPrefix(strings.ToLower(vendor), "0x"), strings.TrimPrefix(strings.ToLower(device), "0x")
	if key, known := pciModels[vendor+":"+device]; known {
		return ModelByKey(key)
	}
	return ModelByKey("pci-" + vendor + "-" + device)
}

// unknownModel makes the model of such a key.
func unknownModel(key string) (*Model, bool) {
	m := unknownForm.FindStringSubmatch(key)
	if m == nil {
		return nil, false
	}
	return &Model{Key: key, Name: fmt.Sprintf("PCI device %s:%s", m[1], m[2]), Geometry: Plain}, true
}

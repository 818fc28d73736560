package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// function is a PCI function as the host's kernel shows it.
type function struct {
	address, id, group, numa, driver, override string
}

// Few processes: in an emulated host each takes a tenth of a second.
const listFunctions = `cd /sys/bus/pci/devices && grep -H '' */vendor */device */numa_node */driver_override; ls -l */iommu_group */driver 2>/dev/null; true`

// functions reads the kernel's own list.
func (l *lab) functions(ctx context.Context) (map[string]function, error) {
	text, err := l.host.do(ctx, listFunctions)
	if err != nil {
		return nil, err
	}
	out := map[string]function{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		name, value, ok := strings.Cut(line, " -> ")
		if name = name[strings.LastIndex(name, " ")+1:]; !ok { // ADDRESS/ATTRIBUTE:VALUE
			i := strings.LastIndex(line, ":")
			if i < 0 {
				return nil, fmt.Errorf("read functions: %q", line)
			}
			name, value = line[:i], line[i+1:]
		}
		address, attribute, ok := strings.Cut(name, "/")
		if !ok {
			return nil, fmt.Errorf("read functions: %q", line)
		}
		f := out[address]
		f.address = address
		value = value[strings.LastIndex(value, "/")+1:]
		switch attribute {
		case "vendor":
			f.id = strings.TrimPrefix(value, "0x") + f.id
		case "device":
			f.id += ":" + strings.TrimPrefix(value, "0x")
		case "numa_node":
			f.numa = value
		case "driver_override":
			f.override = strings.TrimPrefix(value, "(null)")
		case "iommu_group":
			f.group = value
		case "driver":
			f.driver = value
		}
		out[address] = f
	}
	return out, nil
}

// sibling is function 1 of the same slot.
func sibling(address string) string { return strings.TrimSuffix(address, "0") + "1" }

// find names the cards by the port of the topology that each is below.
func find(all map[string]function) (map[string]string, error) {
	out := map[string]string{}
	for address, f := range all {
		switch {
		case f.id == "1b36:0005":
			out[portNoWay] = address
		case f.id != "1234:11e8":
		case all[sibling(address)].address != "":
			out[portShared] = address
		case f.numa == "0":
			out[portFirst] = address
		case f.numa == "1":
			out[portSecond] = address
		}
	}
	if len(out) != 4 {
		return nil, fmt.Errorf("the host does not show the devices that it was given: %v", out)
	}
	return out, nil
}

// drivers says which driver each function of the cards has; what is bound by a
// name alone is told too.
func (l *lab) drivers(ctx context.Context) (map[string]string, error) {
	all, err := l.functions(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, address := range l.addresses {
		for _, a := range []string{address, sibling(address)} {
			if f, ok := all[a]; ok {
				out[a] = f.driver
				if f.override != "" && f.driver != f.override {
					out[a] += " (reserved for " + f.override + ")"
				}
			}
		}
	}
	return out, nil
}

// bound checks that exactly the functions of these ports are with vfio-pci, and
// that all others have the drivers that they had when the host came up.
func (l *lab) bound(ctx context.Context, ports ...string) error {
	now, err := l.drivers(ctx)
	if err != nil {
		return err
	}
	var wrong []string
	for port, address := range l.addresses {
		for _, a := range []string{address, sibling(address)} {
			was, there := l.original[a]
			if !there {
				continue
			}
			want := was
			if slices.Contains(ports, port) {
				want = "vfio-pci"
			}
			if now[a] != want {
				wrong = append(wrong, fmt.Sprintf("%s has driver %q, not %q", a, now[a], want))
			}
		}
	}
	slices.Sort(wrong)
	if len(wrong) > 0 {
		return fmt.Errorf("%s", strings.Join(wrong, "; "))
	}
	return nil
}

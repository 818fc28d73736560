//go:build cgo && linux

package nvml

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi"
	"tags.cncf.io/container-device-interface/pkg/parser"

	"github.com/tenon-cloud/tenon/internal/device/host"
)

// CDI writes the specs by which containers get NVIDIA's devices: nvcdi knows the
// driver's libraries, device nodes and MIG capabilities. The kind is our own, so
// that a spec that the host's owner made for its own use is in nobody's way.
type CDI struct {
	DriverRoot string // empty: /
	Hook       string // nvidia-cdi-hook; empty: where packages put it
	Kind       string // vendor/class: tenon.nvidia/gpu
	Log        *slog.Logger
}

// toLog is nvcdi's idea of a log. It warns of every library that a driver has not
// got, which is nobody's concern.
type toLog struct{ log *slog.Logger }

func (l toLog) line(text string) {
	if l.log != nil {
		l.log.Debug("nvcdi: " + text)
	}
}

func (l toLog) Debugf(f string, a ...any)   { l.line(fmt.Sprintf(f, a...)) }
func (l toLog) Errorf(f string, a ...any)   { l.line(fmt.Sprintf(f, a...)) }
func (l toLog) Infof(f string, a ...any)    { l.line(fmt.Sprintf(f, a...)) }
func (l toLog) Warningf(f string, a ...any) { l.line(fmt.Sprintf(f, a...)) }
func (l toLog) Tracef(f string, a ...any)   { l.line(fmt.Sprintf(f, a...)) }

const usualHook = "/usr/bin/nvidia-cdi-hook"

// Write makes the spec of every card and MIG device that there is now, in dir,
// and lists the names that containers may ask for: by UUID, the same that a
// claim says. It is called again after slices were made or destroyed.
func (c CDI) Write(_ context.Context, dir string) ([]string, error) {
	vendor, class, ok := strings.Cut(c.Kind, "/")
	if !ok {
		return nil, fmt.Errorf("write CDI specs: kind %q is not vendor/class", c.Kind)
	}
	hook := c.Hook
	if hook == "" {
		hook = usualHook
	}
	if _, err := os.Stat(hook); err != nil {
		return nil, fmt.Errorf("write CDI specs: containers need nvidia-cdi-hook, of the package nvidia-container-toolkit-base: %w: %w", host.ErrNoDriver, err)
	}
	root := c.DriverRoot
	if root == "" {
		root = "/"
	}
	namer, err := nvcdi.NewDeviceNamer(nvcdi.DeviceNameStrategyUUID)
	if err != nil {
		return nil, fmt.Errorf("write CDI specs: %w", err)
	}
	lib, err := nvcdi.New(
		nvcdi.WithMode(nvcdi.ModeNvml), nvcdi.WithDriverRoot(root), nvcdi.WithNVIDIACDIHookPath(hook), nvcdi.WithDeviceNamers(namer),
		nvcdi.WithVendor(vendor), nvcdi.WithClass(class), nvcdi.WithLogger(toLog{c.Log}),
	)
	if err != nil {
		return nil, fmt.Errorf("write CDI specs: %w", err)
	}
	spec, err := lib.GetSpec("all")
	if err != nil {
		return nil, fmt.Errorf("write CDI specs: %w", err)
	}
	var names []string
	for _, d := range spec.Raw().Devices {
		if d.Name != "all" { // nobody is given everything
			names = append(names, parser.QualifiedName(vendor, class, d.Name))
		}
	}
	if len(names) == 0 {
		return nil, errors.New("write CDI specs: the driver lists no device")
	}
	slices.Sort(names)
	if err := spec.Save(filepath.Join(dir, strings.ReplaceAll(c.Kind, "/", "-")+".json")); err != nil {
		return nil, fmt.Errorf("write CDI specs: %w", err)
	}
	return names, nil
}

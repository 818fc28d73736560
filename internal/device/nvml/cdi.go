//go:build cgo && linux

package nvml

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi"
	"tags.cncf.io/container-device-interface/pkg/parser"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/tenon-cloud/tenon/internal/device/host"
)

// CDI writes the specs by which containers get NVIDIA's devices, one file an
// owner: nvcdi knows the driver's libraries, device nodes and MIG capabilities.
// The kind is our own, so that a spec that the host's owner made for other use is
// in nobody's way.
type CDI struct {
	Dir        string // of the specs, which the container engine reads
	Kind       string // vendor/class, of this cloud
	DriverRoot string // empty: /
	Hook       string // nvidia-cdi-hook; empty: where packages put it
	Log        *slog.Logger

	lib nvml.Interface // nil: the host's; tests have another
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

// Present writes the spec of an owner's devices, each by the UUID of a card or a
// MIG device, and gives their names in that order. Several owners may have the
// same card, each with its own settings.
func (c CDI) Present(_ context.Context, owner string, uuids, env []string) ([]string, error) {
	fail := func(err error) ([]string, error) {
		return nil, fmt.Errorf("write the CDI spec of %s: %w", owner, err)
	}
	vendor, class, ok := strings.Cut(c.Kind, "/")
	if !ok {
		return fail(fmt.Errorf("kind %q is not vendor/class", c.Kind))
	}
	hook := c.Hook
	if hook == "" {
		hook = usualHook
	}
	if _, err := os.Stat(hook); err != nil {
		return fail(fmt.Errorf("containers need nvidia-cdi-hook, of the package nvidia-container-toolkit-base: %w: %w", host.ErrNoDriver, err))
	}
	root := c.DriverRoot
	if root == "" {
		root = "/"
	}
	namer, err := nvcdi.NewDeviceNamer(nvcdi.DeviceNameStrategyUUID)
	if err != nil {
		return fail(err)
	}
	options := []nvcdi.Option{
		nvcdi.WithMode(nvcdi.ModeNvml), nvcdi.WithDriverRoot(root), nvcdi.WithNVIDIACDIHookPath(hook), nvcdi.WithDeviceNamers(namer),
		nvcdi.WithVendor(vendor), nvcdi.WithClass(class), nvcdi.WithLogger(toLog{c.Log}),
	}
	if c.lib != nil {
		options = append(options, nvcdi.WithNvmlLib(c.lib), nvcdi.WithFeatureFlags(nvcdi.FeatureDisableNvsandboxUtils))
	}
	lib, err := nvcdi.New(options...)
	if err != nil {
		return fail(err)
	}
	spec, err := lib.GetSpec(uuids...)
	if err != nil {
		return fail(err)
	}
	raw := spec.Raw()
	if raw.Devices, err = ownDevices(raw.Devices, owner, uuids, env); err != nil {
		return fail(err)
	}
	var names []string
	for _, d := range raw.Devices {
		names = append(names, parser.QualifiedName(vendor, class, d.Name))
	}
	if err := spec.Save(c.path(owner)); err != nil {
		return fail(err)
	}
	return names, nil
}

// ownDevices renames the devices for their owner, in the order asked for, and
// adds its settings. A device that nvcdi did not tell of is an error: a container
// must not start with less than it was given.
func ownDevices(devices []specs.Device, owner string, uuids, env []string) ([]specs.Device, error) {
	var out []specs.Device
	for i, uuid := range uuids {
		found := false
		for _, d := range devices {
			if d.Name != uuid {
				continue
			}
			found = true
			d.Name = fmt.Sprintf("%s-%d", owner, i)
			d.ContainerEdits.Env = append(append([]string(nil), d.ContainerEdits.Env...), env...)
			out = append(out, d)
			break
		}
		if !found {
			return nil, fmt.Errorf("the driver lists no device %s: %w", uuid, host.ErrNoCard)
		}
	}
	return out, nil
}

// Withdraw takes an owner's spec away; idempotent.
func (c CDI) Withdraw(_ context.Context, owner string) error {
	if err := os.Remove(c.path(owner)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the CDI spec of %s: %w", owner, err)
	}
	return nil
}

func (c CDI) path(owner string) string {
	return filepath.Join(c.Dir, strings.ReplaceAll(c.Kind, "/", "-")+"-"+owner+".json")
}

//go:build !cgo || !linux

package nvml

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/tenon-cloud/tenon/internal/device/host"
)

// Built says whether this program can load NVIDIA's library at all.
const Built = false

// Open fails: there is no way to the library without cgo.
func Open() (host.Driver, error) {
	return host.NoDriver{}, fmt.Errorf("load NVIDIA's management library: this agent was built without cgo; build it where gcc is installed: %w", host.ErrNoDriver)
}

// CDI writes no specs without the library.
type CDI struct {
	Dir, Kind, DriverRoot, Hook string
	Log                         *slog.Logger
}

// Present fails.
func (CDI) Present(_ context.Context, owner string, _, _ []string) ([]string, error) {
	return nil, fmt.Errorf("write the CDI spec of %s: this agent was built without cgo: %w", owner, host.ErrNoDriver)
}

// Withdraw has nothing to take away.
func (CDI) Withdraw(context.Context, string) error { return nil }

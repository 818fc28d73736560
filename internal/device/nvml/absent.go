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
	return nil, fmt.Errorf("load NVIDIA's management library: this agent was built without cgo; build it where gcc is installed: %w", host.ErrNoDriver)
}

// CDI fails likewise.
type CDI struct {
	DriverRoot, Hook, Kind string
	Log                    *slog.Logger
}

// Write fails.
func (CDI) Write(context.Context, string) ([]string, error) {
	return nil, fmt.Errorf("write CDI specs: this agent was built without cgo: %w", host.ErrNoDriver)
}

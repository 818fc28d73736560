package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"github.com/tenon-cloud/tenon/internal/durable"
	"github.com/tenon-cloud/tenon/internal/nodewire"
	"github.com/tenon-cloud/tenon/internal/volume"
)

// bookedVolumes are a simulated node's volumes: they hold no data, and the book
// of them outlives the process.
type bookedVolumes struct {
	*volume.Memory
	path string
	mu   sync.Mutex // one writer of the book at a time
}

func openBookedVolumes(path string) (*bookedVolumes, error) {
	b := &bookedVolumes{Memory: volume.NewMemory(), path: path}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	var kept []volume.Found
	if err == nil {
		err = json.Unmarshal(raw, &kept)
	}
	if err != nil {
		return nil, fmt.Errorf("read the book of simulated volumes %s: %w", path, err)
	}
	for _, v := range kept {
		if _, err := b.Memory.Ensure(context.Background(), nodewire.Volume{ID: v.ID, Role: v.Role, SizeMiB: v.SizeMiB}); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// Ensure books a volume.
func (b *bookedVolumes) Ensure(ctx context.Context, v nodewire.Volume) (folder string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if folder, err = b.Memory.Ensure(ctx, v); err == nil {
		err = b.save(ctx)
	}
	return folder, err
}

// Remove takes a volume off the book.
func (b *bookedVolumes) Remove(ctx context.Context, id string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.Memory.Remove(ctx, id); err != nil {
		return err
	}
	return b.save(ctx)
}

func (b *bookedVolumes) save(ctx context.Context) error {
	list, err := b.List(ctx)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(list)
	if err == nil {
		err = durable.WriteFile(b.path, raw, 0o600)
	}
	if err != nil {
		return fmt.Errorf("keep the book of simulated volumes: %w", err)
	}
	return nil
}

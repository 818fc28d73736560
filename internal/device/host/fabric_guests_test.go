package host_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/device/host"
	"github.com/tenon-cloud/tenon/internal/device/nvml/simnvml"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// manager is a Fabric Manager of two cards, each a partition of its own, that a
// test can hold up and of which one does not train.
type manager struct {
	mu     sync.Mutex
	parts  []host.FabricPartition
	ask    func() // called before each list
	broken int    // partition that can't be activated; -1: none
}

func (m *manager) Partitions(context.Context) ([]host.FabricPartition, error) {
	m.mu.Lock()
	ask := m.ask
	m.mu.Unlock()
	if ask != nil {
		ask()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.parts), nil
}

func (m *manager) Activate(_ context.Context, id int) error {
	if id == m.broken {
		return errors.New("NVLink training failed (simulated)")
	}
	return m.set(id, true)
}

func (m *manager) Deactivate(_ context.Context, id int) error { return m.set(id, false) }

func (m *manager) set(id int, on bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.parts[id].Active = on
	return nil
}

func (m *manager) active() (out []bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.parts {
		out = append(out, p.Active)
	}
	return out
}

func (m *manager) asked(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ask = f
}

func switched(t *testing.T) (*world, *manager) {
	t.Helper()
	f := &manager{broken: -1, parts: []host.FabricPartition{
		{ID: 0, GPUs: []host.FabricGPU{{Module: 1, PCIAddress: near}}}, {ID: 1, GPUs: []host.FabricGPU{{Module: 2, PCIAddress: far}}}}}
	return newWorld(t, "a100", withDriver(simnvml.Card{Model: "a100-80gb", PCIAddress: near, Module: 1}, simnvml.Card{Model: "a100-80gb", PCIAddress: far, Module: 2}),
		func(w *world) { w.cfg.Fabric = f }), f
}

// The end of one guest and the start of another, at once: neither takes the
// other's partition, wherever the first is held up.
func TestAReleaseTakesNoOtherGuestsPartition(t *testing.T) {
	t.Parallel()
	w, f := switched(t)
	w.prepare(vm("inst-a", 1, w.wholes(near)...))
	start := vm("inst-b", 1, w.wholes(far)...)
	began, goOn := make(chan struct{}), make(chan struct{})
	var asked atomic.Int32
	f.asked(func() {
		if asked.Add(1) == 1 {
			close(began)
			<-goOn
		}
	})
	ended := make(chan error, 1)
	go func() { ended <- w.b.Release(context.Background(), "inst-a", 1) }()
	<-began
	started := make(chan error, 1)
	go func() { _, err := w.b.Prepare(context.Background(), start); started <- err }()
	for deadline := time.Now().Add(10 * time.Second); ; {
		if d, _ := w.m.Device(address(t, far)); d.Driver == "vfio-pci" {
			break // what is left of the start is its partition
		}
		if !time.Now().Before(deadline) {
			t.Fatal("the start does not go on")
		}
		runtime.Gosched()
	}
	select {
	case err := <-started: // it did not wait
		started <- err
	case <-time.After(200 * time.Millisecond):
	}
	close(goOn)
	if err := errors.Join(<-ended, <-started); err != nil {
		t.Fatal(err)
	}
	if got := f.active(); !slices.Equal(got, []bool{false, true}) {
		t.Errorf("partitions are active: %v", got)
	}
}

// A guest whose partition is down keeps nobody else from its cards, nor from
// giving them back; its own start fails with the reason.
func TestABrokenPartitionIsItsGuestsAlone(t *testing.T) {
	t.Parallel()
	w, f := switched(t)
	w.prepare(vm("inst-b", 1, w.wholes(far)...))
	if err := f.set(1, false); err != nil {
		t.Fatal(err)
	}
	f.broken = 1
	w.prepare(vm("inst-a", 1, w.wholes(near)...))
	w.release("inst-a", 1)
	if got := f.active(); got[0] {
		t.Error("it is still active")
	}
	w.wants(near, nodewire.GPUReady)
	w.release("inst-b", 1)
	_, err := w.b.Prepare(context.Background(), vm("inst-b", 2, w.wholes(far)...))
	if err == nil || !strings.Contains(err.Error(), "NVLink training failed") {
		t.Errorf("its own start: %v", err)
	}
}

package host

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// Errors that every Driver wraps.
var (
	ErrNoDriver = errors.New("no driver")                   // its library or its kernel module is not there
	ErrNoCard   = errors.New("the driver has no such card") // for instance bound to vfio-pci
	ErrBusy     = errors.New("in use")
	ErrRefused  = errors.New("not supported by this card or driver")
)

// Driver is what the board needs of a vendor's driver. Cards are named by their
// PCI address in the canonical form (0000:3b:00.0), since an index changes
// between boots. Every answer is a reading: what a call that changes something
// says is never taken for its effect.
type Driver interface {
	// Cards lists the cards that the driver has now: not those that it lost, nor
	// those of other drivers. Those that it can't tell of now are missing from the
	// list, with an error: it says nothing of the cards that it doesn't list.
	Cards(ctx context.Context) ([]DriverCard, error)
	// Profiles lists how a card that is in MIG mode may be cut, with every place
	// that the hardware takes. Empty while the mode is off.
	Profiles(ctx context.Context, card string) ([]MIGProfile, error)
	// Instances lists the GPU instances that exist on a card, whoever made them.
	Instances(ctx context.Context, card string) ([]GPUInstance, error)
	// CreateInstance makes a GPU instance at exactly a place, with one compute
	// instance that holds all of it.
	CreateInstance(ctx context.Context, card string, profileID, start int) error
	// DestroyInstance takes a GPU instance away with its compute instances. One
	// that does not exist is no error.
	DestroyInstance(ctx context.Context, card string, id int) error
	// SetMIG asks for a mode and reads back what is and what will be.
	SetMIG(ctx context.Context, card string, on bool) (MIGMode, error)
	// Reset resets a card that nothing uses.
	Reset(ctx context.Context, card string) error
	// Defaults puts back what a tenant may have changed: ECC on where the card
	// has it (pending until a reset), compute mode, clocks and power limit.
	Defaults(ctx context.Context, card string) error
	// SetPersistence has the driver keep a card's state while nobody has it open:
	// on for containers and MIG, off before a bind to vfio-pci.
	SetPersistence(ctx context.Context, card string, on bool) error
	// Samples measures every card, and every GPU instance that can be.
	Samples(ctx context.Context) ([]DriverSample, error)
	// Watch tells of events until ctx ends; fresh news only.
	Watch(ctx context.Context, tell func(DriverEvent)) error
	// Close lets go of everything that keeps cards open. The next call opens it
	// again: a bind to vfio-pci fails while we ourselves hold the card.
	Close() error
}

// DriverCard is a card as its driver sees it.
type DriverCard struct {
	UUID       string
	PCIAddress string
	Name       string // of the model, as the driver spells it
	MemoryMiB  int64  // usable
	Module     int    // place on the baseboard, by which Fabric Manager knows it; 0: none
	Minor      int    // of its device node; for display
	MIG        MIGMode
	ECC        ECCMode
	// Persistence keeps the driver's state while nobody has the card open.
	Persistence bool
	Remap       RowRemap
	NVLink      []string  // cards that it is linked to, by PCI address
	NVSwitch    bool      // its links end at switches
	Processes   []Process // that use the card, or an instance of it
}

// MIGMode is the mode that is and the one that comes with the next reset.
type MIGMode struct {
	Capable, Current, Pending bool
}

// Settled reports whether the mode is as asked, without a reset to come.
func (m MIGMode) Settled(on bool) bool { return m.Current == on && m.Pending == on }

// ECCMode is as MIGMode.
type ECCMode struct {
	Capable, Current, Pending bool
}

// RowRemap is the state of the memory's spare rows.
type RowRemap struct {
	Known   bool // the card has spare rows and the driver told
	Pending bool // a row is replaced at the next reset
	Failure bool // a row could not be replaced
}

// Process is a user of a card.
type Process struct {
	PID     int
	Command string
	GI      int // GPU instance that it runs on; -1: the whole card, or not known
}

func (p Process) String() string {
	if p.Command == "" {
		return fmt.Sprintf("process %d", p.PID)
	}
	return fmt.Sprintf("%s (process %d)", p.Command, p.PID)
}

// MIGProfile is one way to cut a card, as the driver lists it.
type MIGProfile struct {
	ID         int      // the driver's, also nvidia-smi's
	Name       string   // for display: it drifts with driver and board
	Compute    int      // compute slices
	Slots      int      // memory slices
	Attributes []string // "me", "gfx", "me.all", "-me"
	Starts     []int    // first memory slices that the hardware takes
	Max        int      // at most so many on one card
	MemoryMiB  int64
	SMs        int
}

// GPUInstance is a GPU instance that exists.
type GPUInstance struct {
	ID        int
	ProfileID int
	Start     int
	Size      int
	// UUID is of its compute instance: MIG-<uuid>. Empty when it has none, which
	// is what a crash between the two leaves.
	UUID string
	// OldUUID is the same one's earlier spelling, MIG-GPU-<uuid>/<GI>/<CI>.
	OldUUID   string
	Computes  int // compute instances in it
	MemoryMiB int64
}

// DriverSample is one moment of a card or of a GPU instance.
type DriverSample struct {
	nodewire.GPUSample
	PCIAddress string
	GI         int // -1: the card
	// Known says that Percent was measured: a card in MIG mode has no figure.
	Known bool
}

// DriverEvent is an XID that the driver told of.
type DriverEvent struct {
	PCIAddress string
	XID        int
	PID        int // 0: not known
	GI         int // -1: the whole card, or not known
	SinceBoot  time.Duration
}

// MIGName is a MIG device's identity in its earlier spelling.
type MIGName struct {
	GPU    string // GPU-<uuid>
	GI, CI int
}

// ParseMIGName reads MIG-GPU-<uuid>/<GI>/<CI>. The newer spelling, MIG-<uuid>,
// says nothing but itself.
func ParseMIGName(s string) (MIGName, bool) {
	rest, ok := strings.CutPrefix(s, "MIG-GPU-")
	if !ok {
		return MIGName{}, false
	}
	parts := strings.Split(rest, "/")
	if len(parts) != 3 || parts[0] == "" {
		return MIGName{}, false
	}
	gi, errGI := strconv.ParseUint(parts[1], 10, 16)
	ci, errCI := strconv.ParseUint(parts[2], 10, 16)
	if errGI != nil || errCI != nil {
		return MIGName{}, false
	}
	return MIGName{GPU: "GPU-" + parts[0], GI: int(gi), CI: int(ci)}, true
}

func (m MIGName) String() string {
	return fmt.Sprintf("MIG-%s/%d/%d", m.GPU, m.GI, m.CI)
}

// FindInstance finds a MIG device by either of its spellings.
func FindInstance(instances []GPUInstance, uuid string) (GPUInstance, bool) {
	for _, i := range instances {
		if uuid != "" && (strings.EqualFold(uuid, i.UUID) || strings.EqualFold(uuid, i.OldUUID)) {
			return i, true
		}
	}
	return GPUInstance{}, false
}
